"""Write golden models and the answers of the library that trained them; README.md says with which versions.

    python make_golden.py data                          once: data.npz, the rows every model sees
    python make_golden.py xgboost|lightgbm|catboost     once per version: <library>-<version>/

Nothing here imports treeinner: the answers are the library's own. Each model is loaded back from its file and
asked again before anything is kept, so that file and answers belong together.
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
NAMES = ["normal", "holes", "small_int", "zeros", "two_digits", "large", "colour"]
CATEGORY = NAMES.index("colour")
LEVELS = ["hazel", "amber", "gold", "blue", "coral", "flax", "denim", "ecru"]  # code = position; not in sorted order
RATE, L2 = 0.3, 1.5
ODD_RATE, ODD_L2 = 0.17320508, 2.2360679  # XGBoost's files hold neither: not what rounding an estimate gives


def make_rows(rng, n):
    X = np.empty((n, len(NAMES)))
    X[:, 0] = rng.normal(size=n)  # full float64 digits: float32 rounding of XGBoost and CatBoost matters
    X[:, 1] = np.where(rng.uniform(size=n) < 0.15, np.nan, rng.normal(size=n))
    X[:, 2] = rng.randint(0, 6, n)
    X[:, 3] = np.where(rng.uniform(size=n) < 0.5, 0.0, rng.normal(size=n))
    X[rng.uniform(size=n) < 0.05, 3] = np.nan
    X[:, 4] = np.round(rng.uniform(-1, 1, n), 2)
    X[:, 5] = 1000 * np.exp(rng.normal(size=n))
    X[:, CATEGORY] = np.where(rng.uniform(size=n) < 0.05, np.nan, rng.randint(0, len(LEVELS), n))
    return X


def write_data():
    """300 training rows, four targets, and 40 rows to ask about."""
    rng = np.random.RandomState(20240607)
    X_train = make_rows(rng, 300)
    filled = np.nan_to_num(X_train)
    effect = np.array([1.0, -2.0, 0.5, 2.0, -1.0, 0.0, 1.5, -0.5])
    signal = (
        2 * np.tanh(filled[:, 0]) + np.where(np.isnan(X_train[:, 1]), 1.0, -filled[:, 1]) + 0.4 * filled[:, 2]
        + (filled[:, 3] == 0) * filled[:, 4] + np.log(filled[:, 5] / 1000) + effect[filled[:, 6].astype(int)]
    )  # fmt: skip
    y = 5 + signal + rng.normal(size=300)  # mean well off zero: the intercept has to be right
    X = make_rows(rng, 40)
    X[:15] = X_train[:15]  # thresholds of XGBoost are training values: ties
    X[35] = np.nan
    X[36] = 0.0
    X[34:40, CATEGORY] = [-0.5, np.nan, 0, 8, -3, 1.7]  # negative, unseen and fractional codes are among them
    np.savez_compressed(
        HERE / "data.npz", X=X, X_train=X_train, y=y,
        y_binary=(signal + rng.normal(size=300) > 0.5).astype(float),
        y_class=np.digitize(signal + rng.normal(size=300), [0.0, 2.0]).astype(float),
        y_count=rng.poisson(np.exp(0.2 * signal)).astype(float),
        names=np.array(NAMES), levels=np.array(LEVELS),
    )  # fmt: skip


def load_data():
    with np.load(HERE / "data.npz") as stored:
        return {name: stored[name] for name in stored.files}


def known_codes(codes):
    """Codes of levels; the unseen and fractional ones become NaN."""
    return np.where(np.isin(codes, np.arange(len(LEVELS))), codes, np.nan)


def frame(X):
    """A pandas frame with string categories; codes that are none are missing."""
    import pandas as pd

    columns = pd.DataFrame(X, columns=NAMES)
    codes = np.nan_to_num(known_codes(X[:, CATEGORY]), nan=-1).astype(int)
    columns["colour"] = pd.Categorical.from_codes(codes, categories=LEVELS)
    return columns


def answers_or_nothing(answers, name, ask):
    """Keep an answer the library has; some versions cannot explain some kinds of model."""
    try:
        answers[name] = ask()
    except Exception as error:
        print(f"    no {name}: {str(error).strip().splitlines()[0][:90]}")


def check_same(name, first, again, atol=0.0):
    for key in first:
        if not np.allclose(first[key], again[key], rtol=0.0, atol=atol):
            raise SystemExit(f"{name}: {key} differs after loading the file")


def settings(params, rate, l2, l1):
    return {"learning_rate": params[rate], "reg_lambda": params[l2], "reg_alpha": params.get(l1, 0.0)}


# -- XGBoost -------------------------------------------------------------------------------------------------
def xgboost_models(version, data):
    """Name: (parameters, target, rounds, kind of matrix)."""
    y, softprob = data["y"], {"objective": "multi:softprob", "num_class": 3}
    odd = {"eta": ODD_RATE, "lambda": ODD_L2}
    forest = {**softprob, "num_parallel_tree": 2, "colsample_bynode": 0.6}
    models = {
        "regression": ({}, y, 10, "plain"),
        "binary": ({"objective": "binary:logistic", **odd}, data["y_binary"], 10, "nameless"),
        "multiclass": ({**softprob, **odd}, data["y_class"], 4, "plain"),
        "poisson": ({"objective": "count:poisson"}, data["y_count"], 8, "plain"),
        "dart": ({"booster": "dart", "rate_drop": 0.4, "one_drop": 1}, y, 10, "plain"),
        "categorical": ({"max_cat_to_onehot": 1, **odd}, y, 10, "codes"),
        "categorical_onehot": ({"max_cat_to_onehot": 20}, y, 6, "codes"),
        "parallel": (forest, data["y_class"], 2, "plain"),
        "alpha": ({"alpha": 5.0}, y, 8, "plain"),
        "pruned": ({"tree_method": "exact", "gamma": 12.0, "max_depth": 4}, y, 8, "plain"),
        "absolute": ({"objective": "reg:absoluteerror"}, y, 8, "plain"),
    }
    if version >= (2, 0):
        both = np.column_stack([y, data["y_count"]])
        models["vector"] = ({"multi_strategy": "multi_output_tree"}, both, 6, "plain")
        quantiles = {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.5, 0.9]}
        models["quantile"] = (quantiles, y, 4, "plain")
    if version >= (3, 1):
        models["frame"] = ({"max_cat_to_onehot": 1}, y, 8, "frame")
    return models


def make_xgboost(folder, data):
    import xgboost as xgb

    version = tuple(int(part) for part in xgb.__version__.split(".")[:2])

    def matrix(rows, label=None, kind="plain"):
        if kind == "frame":
            return xgb.DMatrix(frame(rows), label, enable_categorical=True, nthread=1)
        types = ["float"] * CATEGORY + ["c"]
        more = {"feature_types": types, "enable_categorical": True} if kind == "codes" else {}
        names = None if kind == "nameless" else NAMES
        return xgb.DMatrix(rows, label, feature_names=names, nthread=1, **more)

    def ask(booster, name, kind):
        rows, answers = matrix(data["X"], kind=kind), {}
        answers["margin"] = booster.predict(rows, output_margin=True)
        answers["leaf"] = booster.predict(rows, pred_leaf=True).astype(np.int16)
        for key, approx in {"contribs": False, "approx_contribs": True}.items():
            options = {"pred_contribs": True, "approx_contribs": approx}
            answers_or_nothing(answers, key, lambda options=options: booster.predict(rows, **options))
        names = [f"f{i}" for i in range(len(NAMES))] if kind == "nameless" else NAMES

        def total_gain():
            gain = booster.get_score(importance_type="total_gain")
            return np.array([gain.get(n, 0.0) for n in names])

        if name != "vector" or version >= (3, 2):  # 2.1 crashes here, 3.0 refuses
            answers_or_nothing(answers, "total_gain", total_gain)
        return answers

    base = {"tree_method": "hist", "max_depth": 3, "eta": RATE, "lambda": L2, "nthread": 1, "seed": 1}
    kept = {}
    for name, (params, target, rounds, kind) in xgboost_models(version, data).items():
        print("  " + name)
        booster = xgb.train({**base, **params}, matrix(data["X_train"], target, kind), rounds)
        kept[name] = ask(booster, name, kind)
        for ending in ("ubj", "json") if name == "regression" else ("ubj",):
            path = folder / f"{name}.{ending}"
            booster.save_model(path)
            check_same(path.name, kept[name], ask(xgb.Booster({"nthread": 1}, model_file=path), name, kind))
        kept[name].update(settings({**base, **params}, "eta", "lambda", "alpha"))
    return kept


# -- LightGBM ------------------------------------------------------------------------------------------------
def lightgbm_models(data):
    """Name: (parameters, target, rounds, does colour hold categories)."""
    y, l2 = data["y"], {"objective": "regression"}
    groups = {"max_cat_to_onehot": 1, "min_data_per_group": 5}
    return {
        "regression": (l2, y, 10, False),
        "binary": ({"objective": "binary"}, data["y_binary"], 10, False),
        "multiclass": ({"objective": "multiclass", "num_class": 3}, data["y_class"], 4, False),
        "poisson": ({"objective": "poisson"}, data["y_count"], 8, False),
        "categorical": ({**l2, **groups}, y, 10, True),
        "categorical_onehot": ({**l2, "max_cat_to_onehot": 20}, y, 6, True),
        "frame": ({**l2, **groups}, y, 8, True),
        "dart": ({**l2, "boosting": "dart", "drop_rate": 0.5, "skip_drop": 0.2}, y, 10, False),
        "rf": ({**l2, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}, y, 8, False),
        "zero_as_missing": ({**l2, "zero_as_missing": True}, y, 10, False),
        "no_missing": ({**l2, "use_missing": False}, y, 6, False),
        "l1": ({"objective": "l1"}, y, 8, False),
        "lambda_l1": ({**l2, "lambda_l1": 5.0}, y, 8, False),
    }


def make_lightgbm(folder, data):
    import lightgbm as lgb

    def ask(booster, name):
        rows, answers = frame(data["X"]) if name == "frame" else data["X"], {}
        # raw_score=True of a random forest is the sum of its trees; its prediction is their mean.
        answers["margin"] = booster.predict(rows, raw_score=name != "rf")
        answers["leaf"] = booster.predict(rows, pred_leaf=True).astype(np.int16)
        contribs = booster.predict(rows, pred_contrib=True)
        classes = booster.num_model_per_iteration()
        answers["contribs"] = contribs if classes == 1 else contribs.reshape(len(rows), classes, -1)
        answers["total_gain"] = booster.feature_importance("gain")
        return answers

    base = {
        **{"num_leaves": 8, "max_depth": 4, "learning_rate": RATE, "lambda_l2": L2, "min_data_in_leaf": 8},
        **{"num_threads": 1, "seed": 1, "deterministic": True, "force_row_wise": True, "verbosity": -1},
    }
    kept = {}
    for name, (params, target, rounds, categorical) in lightgbm_models(data).items():
        print("  " + name)
        more = {"categorical_feature": [CATEGORY]} if categorical and name != "frame" else {}
        rows = frame(data["X_train"]) if name == "frame" else data["X_train"]
        train = lgb.Dataset(rows, target, feature_name=NAMES if name != "binary" else "auto", **more)
        booster = lgb.train({**base, **params}, train, rounds)
        kept[name] = ask(booster, name)
        path = folder / f"{name}.txt"
        booster.save_model(str(path))
        check_same(path.name, kept[name], ask(lgb.Booster(model_file=str(path)), name))
        kept[name].update(settings({**base, **params}, "learning_rate", "lambda_l2", "lambda_l1"))
    return kept


# -- CatBoost ------------------------------------------------------------------------------------------------
def make_catboost(folder, data):
    from catboost import CatBoost, Pool

    X, X_train, y = data["X"], data["X_train"], data["y"]

    def pool(rows, label=None, categorical=False):
        if not categorical:
            return Pool(rows, label, feature_names=NAMES)
        mixed = rows.astype(object)
        codes = np.nan_to_num(rows[:, CATEGORY], nan=-1)
        words = {float(i): level for i, level in enumerate(LEVELS)} | {-1.0: "none"}
        mixed[:, CATEGORY] = [words.get(code, "unseen") for code in codes]
        return Pool(mixed, label, feature_names=NAMES, cat_features=[CATEGORY])

    def ask(model, categorical):
        rows, answers = pool(X, categorical=categorical), {}
        answers["margin"] = model.predict(rows, prediction_type="RawFormulaVal")
        answers["leaf"] = model.calc_leaf_indexes(rows).astype(np.int16)
        answers["contribs"] = model.get_feature_importance(rows, type="ShapValues", thread_count=1)
        return answers

    base = {
        **{"depth": 3, "learning_rate": RATE, "l2_leaf_reg": L2, "border_count": 32, "leaf_estimation_iterations": 1},
        **{"thread_count": 1, "random_seed": 1, "allow_writing_files": False, "verbose": False},
    }
    rmse = {"loss_function": "RMSE"}
    models = {  # name: (parameters, target, trees, does colour hold categories, files)
        "regression": (rmse, y, 10, False, ("json", "cbm")),
        "binary": ({"loss_function": "Logloss"}, data["y_binary"], 10, False, ("cbm",)),
        "multiclass": ({"loss_function": "MultiClass"}, data["y_class"], 6, False, ("json", "cbm")),
        "nan_max": ({**rmse, "nan_mode": "Max"}, y, 8, False, ("json",)),
        "depthwise": ({**rmse, "grow_policy": "Depthwise"}, y, 8, False, ("json", "cbm")),
        "onehot": ({**rmse, "one_hot_max_size": 20}, y, 10, True, ("json", "cbm")),
        "ctr": ({**rmse, "one_hot_max_size": 1, "max_ctr_complexity": 2}, y, 8, True, ("cbm",)),
    }
    kept = {}
    for name, (params, target, trees, categorical, endings) in models.items():
        print("  " + name)
        train = pool(X_train, target, categorical)
        model = CatBoost({**base, **params, "iterations": trees}).fit(train)
        kept[name] = ask(model, categorical)
        for ending in endings:
            path = folder / f"{name}.{ending}"
            model.save_model(str(path), format=ending, pool=train)
            again = CatBoost().load_model(str(path), format=ending)
            # CatBoost's JSON loses the last bit of some leaf values.
            check_same(path.name, kept[name], ask(again, categorical), atol=1e-14 if ending == "json" else 0.0)
        kept[name].update(settings(base, "learning_rate", "l2_leaf_reg", "none"))
    return kept


MAKERS = {"xgboost": make_xgboost, "lightgbm": make_lightgbm, "catboost": make_catboost}


def main(what):
    if what == "data":
        write_data()
        return
    version = __import__(what).__version__
    folder = HERE / f"{what}-{version}"
    folder.mkdir(exist_ok=True)
    print(folder.name)
    kept = MAKERS[what](folder, load_data())
    flat = {f"{model}.{name}": array for model, answers in kept.items() for name, array in answers.items()}
    np.savez_compressed(folder / "answers.npz", **flat)


if __name__ == "__main__":
    main(sys.argv[1])
