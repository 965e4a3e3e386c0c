"""Live models of the versions that are installed, against what those versions say about them.

`make matrix` runs this file in one environment per cell of cells.toml, where neither the other tests nor their packages
are; `make test` runs it in the project's own. A library that is not there is skipped.
"""

import importlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pytest

import treeinner as ti

# What warns today fails in some next version.
pytestmark = pytest.mark.filterwarnings(
    *(f"error::{kind}:treeinner" for kind in ("RuntimeWarning", "DeprecationWarning", "FutureWarning"))
)

N_TRAIN, N = 400, 560
NAMES = ["size", "age", "noise", "dose", "colour"]
LEVELS = ["red", "green", "blue", "black", "white", "grey"]
rng = np.random.default_rng(5)
ROWS = rng.normal(size=(N, 5)).astype(np.float32).astype(np.float64)
ROWS[:, 4] = rng.integers(0, len(LEVELS), N)
SIGNAL = ROWS[:, 0] + np.where(ROWS[:, 1] > 0, 1.0, -0.5) * ROWS[:, 3] + np.isin(ROWS[:, 4], [1, 4])
ROWS[rng.random(N) < 0.15, 1] = np.nan
WEIGHT = rng.uniform(0.2, 2.0, N)
QUERY = np.arange(N) // 10
TARGETS = {
    "regression": SIGNAL + 0.3 * rng.normal(size=N),
    "binary": (SIGNAL + 0.5 * rng.normal(size=N) > 0.5).astype(int),
    "classes": np.digitize(SIGNAL + 0.3 * rng.normal(size=N), [-0.3, 1.2]),
    "count": rng.poisson(np.exp(0.4 * SIGNAL)).astype(float),
}
TARGETS["ranking"] = TARGETS["classes"]
SEEN, UNSEEN = slice(0, N_TRAIN), slice(N_TRAIN, N)
X_TRAIN, X = ROWS[SEEN], ROWS[UNSEEN]
FRAMES = ("pandas", "polars", "pyarrow")


@dataclass
class Case:
    """A fitted model, and what its library says about the rows that it has not seen."""

    model: Any
    y: np.ndarray
    margin: np.ndarray  # raw predictions: (rows,) or (rows, outputs)
    leaf: np.ndarray | None = None  # (rows, trees)
    gain: np.ndarray | None = None  # total gain: (features,)
    X: Any = field(default_factory=lambda: X)
    given: dict[str, Any] = field(default_factory=dict)  # besides X and y
    rounding: float = 1e-13  # of margins, relative to the largest
    refused: str = ""  # what treeinner says about its loss, if it does not know that
    save: Callable[[str], Any] | None = None
    endings: tuple[str, ...] = ()


def release(library: str) -> tuple[int, ...]:
    """Version of an installed library; (0,) if it is not there."""
    for package in (library, f"{library}-cpu"):
        try:
            return tuple(int(part) for part in version(package).split(".")[:2])
        except PackageNotFoundError:
            continue
    return (0,)


def frame(library: str, rows: np.ndarray) -> Any:
    """The rows with names, colours as categories with their levels in the order of the codes."""
    columns = dict(zip(NAMES, rows.T, strict=True))
    codes = columns.pop("colour").astype(np.int32)
    if library == "pandas":
        pd = pytest.importorskip("pandas")
        return pd.DataFrame(columns | {"colour": pd.Categorical.from_codes(codes, LEVELS)})
    if library == "polars":
        pl = pytest.importorskip("polars")
        return pl.DataFrame(columns | {"colour": pl.Series([LEVELS[i] for i in codes], dtype=pl.Enum(LEVELS))})
    pa = pytest.importorskip("pyarrow")
    return pa.table(columns | {"colour": pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(LEVELS))})


def numeric(library: str, rows: np.ndarray) -> Any:
    """The rows with names, all of them numbers."""
    columns = dict(zip(NAMES, np.ascontiguousarray(rows.T), strict=True))
    module = pytest.importorskip(library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


def parts_of(rows: Any) -> Callable[[slice], Any]:
    """Part of the rows -> these rows."""
    return lambda part: rows.iloc[part] if hasattr(rows, "iloc") else rows[part]


def log_loss(y: np.ndarray, margin: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Of classes 0, 1, ..., by the margins of the library itself."""
    if margin.ndim == 1:
        margin = np.column_stack([np.zeros(len(y)), margin])
    top = margin.max(axis=1, keepdims=True)
    rows = np.log(np.exp(margin - top).sum(axis=1)) + top[:, 0] - margin[np.arange(len(y)), y]
    return float(np.average(rows, weights=weight))


def half_squares(y: np.ndarray, margin: np.ndarray, weight: np.ndarray | None = None) -> float:
    return float(np.average((y - margin) ** 2, weights=weight) / 2)


# -- XGBoost -------------------------------------------------------------------------------------------------
FEW_LEVELS = {"max_cat_to_onehot": 2}  # sets of categories
XGBOOST = {  # name -> estimator, target, parameters
    "regression": ("XGBRegressor", "regression", {}),
    "weights": ("XGBRegressor", "regression", {}),
    "binary": ("XGBClassifier", "binary", {"reg_alpha": 0.5}),
    "classes": ("XGBClassifier", "classes", {}),
    "counts": ("XGBRegressor", "count", {"objective": "count:poisson"}),
    "ranking": ("XGBRanker", "ranking", {"objective": "rank:ndcg"}),
    "early stopping": ("XGBRegressor", "regression", {"early_stopping_rounds": 2, "learning_rate": 0.9}),
    "dart": ("XGBRegressor", "regression", {"booster": "dart", "rate_drop": 0.5}),
    "forest": ("XGBRFRegressor", "regression", {"n_estimators": 6}),
    "codes": ("XGBRegressor", "regression", {"tree_method": "hist", "feature_types": [*"qqqqc"], **FEW_LEVELS}),
    "frame": ("XGBRegressor", "regression", {"tree_method": "hist", **FEW_LEVELS}),
    "vector leaves": ("XGBRegressor", "two", {"multi_strategy": "multi_output_tree", "tree_method": "hist"}),
}


def xgboost_case(name: str) -> Case:
    xgb = pytest.importorskip("xgboost")
    kind, task, params = XGBOOST[name]
    if name == "vector leaves" and release("xgboost") < (2, 0):
        pytest.skip("XGBoost has vector leaves since 2.0")
    target = np.column_stack([SIGNAL, np.cos(SIGNAL)]) if task == "two" else TARGETS[task]
    model = getattr(xgb, kind)(
        **{"n_estimators": 20, "max_depth": 3, "learning_rate": 0.3, "n_jobs": 1, "random_state": 1} | params,
        **{"enable_categorical": True} if name in ("codes", "frame") else {},
    )
    own = parts_of(frame("pandas", ROWS) if name == "frame" else ROWS)
    fit, given = {}, {}
    if name == "weights":
        fit, given = {"sample_weight": WEIGHT[SEEN]}, {"sample_weight": WEIGHT[UNSEEN]}
    if task == "ranking":
        fit, given = {"qid": QUERY[SEEN]}, {"qid": QUERY[UNSEEN]}
    elif name == "early stopping":
        fit |= {"eval_set": [(own(UNSEEN), target[UNSEEN])], "verbose": False}
    model.fit(own(SEEN), target[SEEN], **fit)
    booster, rounds = model.get_booster(), getattr(model, "n_estimators", 20)
    if name == "early stopping":
        rounds = model.best_iteration + 1
    # Not model.apply, which in 1.7 knows no categories.
    data = xgb.DMatrix(own(UNSEEN), feature_types=params.get("feature_types"), enable_categorical=True)
    leaf = booster.predict(data, pred_leaf=True, iteration_range=(0, min(rounds, booster.num_boosted_rounds())))
    scores = booster.get_score(importance_type="total_gain") if name != "vector leaves" else None
    names = booster.feature_names or [f"f{i}" for i in range(5)]
    return Case(
        model,
        target[UNSEEN],
        model.predict(own(UNSEEN), output_margin=True),
        leaf=leaf.reshape(len(X), -1),
        gain=None if scores is None or name == "early stopping" else np.array([scores.get(n, 0.0) for n in names]),
        X=own(UNSEEN),
        given=given,
        refused="rank:" if task == "ranking" and release("xgboost") < (3, 0) else "",
        # It adds its trees up in float32: half a unit in the last place for each of them, twice for partial sums.
        rounding=(booster.num_boosted_rounds() * 6 + 1) * 2.0**-23,
        save=model.save_model,
        endings=("ubj", "json"),
    )


# -- LightGBM ------------------------------------------------------------------------------------------------
LIGHTGBM = {
    "regression": ("LGBMRegressor", "regression", {}),
    "weights": ("LGBMRegressor", "regression", {}),
    "binary": ("LGBMClassifier", "binary", {"reg_alpha": 0.5}),
    "classes": ("LGBMClassifier", "classes", {}),
    "counts": ("LGBMRegressor", "count", {"objective": "poisson"}),
    "ranking": ("LGBMRanker", "ranking", {}),
    "early stopping": ("LGBMRegressor", "regression", {"learning_rate": 0.9}),
    "dart": ("LGBMRegressor", "regression", {"boosting_type": "dart", "drop_rate": 0.5}),
    "goss": ("LGBMRegressor", "regression", {"boosting_type": "goss"}),
    "forest": ("LGBMRegressor", "regression", {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}),
    "codes": ("LGBMRegressor", "regression", {"max_cat_to_onehot": 2, "min_data_per_group": 5}),
    "frame": ("LGBMRegressor", "regression", {"max_cat_to_onehot": 2, "min_data_per_group": 5}),
}


def lightgbm_case(name: str) -> Case:
    lgb = pytest.importorskip("lightgbm")
    pytest.importorskip("sklearn")
    kind, task, params = LIGHTGBM[name]
    target = TARGETS[task]
    model = getattr(lgb, kind)(
        **{"n_estimators": 20, "num_leaves": 8, "learning_rate": 0.3, "min_child_samples": 5, "n_jobs": 1} | params,
        **{"random_state": 1, "verbose": -1, "deterministic": True, "force_col_wise": True},
    )
    own = parts_of(frame("pandas", ROWS) if name == "frame" else ROWS)
    fit: dict[str, Any] = {"eval_set": [(own(UNSEEN), target[UNSEEN])]}
    given: dict[str, Any] = {}
    if name == "weights":
        fit |= {"sample_weight": WEIGHT[SEEN]}
        given = {"sample_weight": WEIGHT[UNSEEN]}
    if task == "ranking":
        counts = [np.bincount(QUERY[part])[QUERY[part.start] :] for part in (SEEN, UNSEEN)]
        fit |= {"group": counts[0], "eval_group": [counts[1]]}
        given = {"qid": QUERY[UNSEEN]}
    if name == "codes":
        fit["categorical_feature"] = [4]
    if name == "early stopping":
        fit["callbacks"] = [lgb.early_stopping(2, verbose=False)]
    model.fit(own(SEEN), target[SEEN], **fit)
    booster, forest = model.booster_, name == "forest"
    best = model.best_iteration_ if name == "early stopping" else None
    return Case(
        model,
        target[UNSEEN],
        model.predict(own(UNSEEN)) if forest else model.predict(own(UNSEEN), raw_score=True),
        leaf=model.predict(own(UNSEEN), pred_leaf=True).reshape(len(X), -1),
        gain=booster.feature_importance("gain", iteration=best),
        X=own(UNSEEN),
        given=given,
        save=booster.save_model,
        endings=("txt",),
    )


# -- CatBoost ------------------------------------------------------------------------------------------------
CATBOOST = {
    "regression": ("CatBoostRegressor", "regression", {}),
    "weights": ("CatBoostRegressor", "regression", {}),
    "binary": ("CatBoostClassifier", "binary", {}),
    "classes": ("CatBoostClassifier", "classes", {}),
    "counts": ("CatBoostRegressor", "count", {"loss_function": "Poisson"}),
    "ranking": ("CatBoostRanker", "ranking", {"loss_function": "QueryRMSE"}),
    "early stopping": ("CatBoostRegressor", "regression", {"od_wait": 2, "learning_rate": 0.9}),
    "depthwise": ("CatBoostRegressor", "regression", {"grow_policy": "Depthwise"}),
    "one-hot": ("CatBoostRegressor", "regression", {"one_hot_max_size": 10}),
    "frame": ("CatBoostRegressor", "regression", {"one_hot_max_size": 1}),
}


def catboost_case(name: str) -> Case:
    cb = pytest.importorskip("catboost")
    kind, task, params = CATBOOST[name]
    target = TARGETS[task]
    model = getattr(cb, kind)(
        **{"iterations": 20, "depth": 3, "learning_rate": 0.3, "thread_count": 1, "random_seed": 1} | params,
        **{"verbose": False, "allow_writing_files": False},
    )
    words = name in ("one-hot", "frame")
    own = parts_of(frame("pandas", ROWS) if words else ROWS)
    fit: dict[str, Any] = {"cat_features": ["colour"]} if words else {}
    given: dict[str, Any] = {}
    if name == "weights":
        fit, given = {"sample_weight": WEIGHT[SEEN]}, {"sample_weight": WEIGHT[UNSEEN]}
    if task == "ranking":
        fit, given = {"group_id": QUERY[SEEN]}, {"qid": QUERY[UNSEEN]}
    if name == "early stopping":
        fit["eval_set"] = (own(UNSEEN), target[UNSEEN])
    model.fit(own(SEEN), target[SEEN], **fit)
    margin = cb.CatBoost.predict(model, own(UNSEEN), prediction_type="RawFormulaVal")
    return Case(
        model,
        target[UNSEEN],
        margin,
        leaf=model.calc_leaf_indexes(own(UNSEEN)),
        X=own(UNSEEN),
        given=given,
        # Its JSON loses the last bit of some leaf values.
        rounding=1e-12,
        save=lambda path: model.save_model(path, format=path.rsplit(".", 1)[-1]),
        endings=("cbm",) if words else ("cbm", "json"),
    )


# -- scikit-learn --------------------------------------------------------------------------------------------
SKLEARN = {
    "hist": ("HistGradientBoostingRegressor", "regression", {}),
    "hist weights": ("HistGradientBoostingRegressor", "regression", {}),
    "hist binary": ("HistGradientBoostingClassifier", "binary", {}),
    "hist classes": ("HistGradientBoostingClassifier", "classes", {}),
    "hist counts": ("HistGradientBoostingRegressor", "count", {"loss": "poisson"}),
    "hist early stopping": ("HistGradientBoostingRegressor", "regression", {"early_stopping": True}),
    "hist codes": ("HistGradientBoostingRegressor", "regression", {"categorical_features": [4]}),
    "hist frame": ("HistGradientBoostingRegressor", "regression", {"categorical_features": "from_dtype"}),
    "gradient boosting": ("GradientBoostingRegressor", "regression", {}),
    "gradient boosting classes": ("GradientBoostingClassifier", "classes", {}),
    "forest": ("RandomForestRegressor", "regression", {}),
    "forest classes": ("RandomForestClassifier", "classes", {}),
    "extra trees": ("ExtraTreesClassifier", "binary", {}),
}


def sklearn_case(name: str) -> Case:
    ensemble = pytest.importorskip("sklearn.ensemble")
    if name == "hist frame" and release("scikit-learn") < (1, 4):
        pytest.skip("HistGradientBoosting takes categories of frames since scikit-learn 1.4")
    kind, task, params = SKLEARN[name]
    hist, target = kind.startswith("Hist"), TARGETS[task]
    size = {"max_iter": 15, "max_leaf_nodes": 8, "min_samples_leaf": 5} if hist else {"n_estimators": 8, "max_depth": 4}
    if hist and "early_stopping" not in params:
        size["early_stopping"] = False
    model = getattr(ensemble, kind)(**size, **params, random_state=1)
    own = parts_of(frame("pandas", ROWS) if name == "hist frame" else ROWS if hist else np.nan_to_num(ROWS))
    weighted = name == "hist weights"
    model.fit(own(SEEN), target[SEEN], **{"sample_weight": WEIGHT[SEEN]} if weighted else {})
    if hist:
        margin = model._raw_predict(own(UNSEEN))
        margin = margin[:, 0] if margin.shape[1] == 1 else margin
        leaf = None
    else:
        leaf = np.reshape(model.apply(own(UNSEEN)), (len(X), -1)).astype(int)
        say = "predict" if task == "regression" else "decision_function" if "Grad" in kind else "predict_proba"
        margin = getattr(model, say)(own(UNSEEN))
    given = {"sample_weight": WEIGHT[UNSEEN]} if weighted else {}
    return Case(model, target[UNSEEN], margin, leaf=leaf, X=own(UNSEEN), given=given)


# -- the cases -----------------------------------------------------------------------------------------------
LIBRARIES = {
    "xgboost": (xgboost_case, XGBOOST),
    "lightgbm": (lightgbm_case, LIGHTGBM),
    "catboost": (catboost_case, CATBOOST),
    "sklearn": (sklearn_case, SKLEARN),
}
CASES = [f"{library}: {name}" for library, (_, names) in LIBRARIES.items() for name in names]
FITTED = [case for case in CASES if not case.startswith("sklearn")]  # that have files
FRAMED = [case for case in CASES if case.endswith(("frame", "one-hot"))]
# XGBoost tells no gain of the best rounds alone, and of vector leaves only since 3.2.
NO_GAIN = ("xgboost: early stopping", "xgboost: vector leaves")
GAINED = [case for case in CASES if case.startswith(("xgboost", "lightgbm")) and case not in NO_GAIN]
# Losses that are not written out here, or of no row alone; dart changes the rounds before.
NO_METRIC = ("counts", "ranking", "dart", "vector leaves", "forest", "forest classes", "extra trees")
MEASURED = [c for c in CASES if not c.endswith(NO_METRIC)] + ["lightgbm: forest"]


@cache
def fitted(case: str) -> Case:
    library, name = case.split(": ")
    return LIBRARIES[library][0](name)


def near(found: Any, wanted: Any, rounding: float) -> None:
    """Equal but for rounding, relative to the largest number."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rounding * max(1.0, np.abs(wanted).max()))


def importance(c: Case, model: Any) -> ti.Importance:
    """Scores of the case's rows; by the size of attributions where the loss is refused."""
    if not c.refused:
        return ti.importance(model, c.X, c.y, **c.given)
    with pytest.raises(ti.UnsupportedModelError, match=c.refused):
        ti.importance(model, c.X, c.y, **c.given)
    return ti.mean_abs(model, c.X, method="treeshap")


@pytest.mark.parametrize("case", CASES)
def test_margins_and_leaves_are_the_librarys(case):
    c = fitted(case)
    model = ti.read_model(c.model)
    near(model.predict(c.X), c.margin, c.rounding)
    if c.leaf is not None:
        np.testing.assert_array_equal(model.apply(c.X), c.leaf)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("method", ["predecomp", "treeshap"])
def test_attributions_add_up_to_the_margin(case, method):
    c = fitted(case)
    model = ti.read_model(c.model)
    if method == "predecomp":
        if model.trees.known.needs:
            model = ti.read_model(c.model, **dict.fromkeys(model.trees.known.needs, 1.0))
        if model.trees.known.refusal:
            with pytest.raises(ti.UnsupportedModelError, match="PreDecomp does not hold"):
                ti.attribute(model, c.X, method=method)
            return
    if (case, method) == ("xgboost: vector leaves", "treeshap") and release("xgboost") < (3, 2):
        with pytest.raises(ti.UnsupportedModelError, match="does not store"):
            ti.attribute(model, c.X, method=method)
        return
    a = ti.attribute(model, c.X, method=method)
    near(a.values.sum(axis=1) + a.base_values, c.margin, c.rounding + 1e-12)


@pytest.mark.parametrize("case", GAINED)
def test_total_gain_is_the_librarys(case):
    c = fitted(case)
    # XGBoost adds float32 gains in float32; LightGBM writes them into its text with six digits.
    near(ti.total_gain(c.model).scores, c.gain, 1e-5)


@pytest.mark.parametrize("case", MEASURED)
def test_the_loss_breakdown_ends_at_the_loss_of_the_librarys_margins(case):
    c = fitted(case)
    imp = ti.importance(c.model, c.X, c.y, score="loss", **c.given)
    loss = (half_squares if c.y.dtype.kind == "f" else log_loss)(c.y, c.margin, c.given.get("sample_weight"))
    assert imp.losses.after == pytest.approx(loss, rel=2e-6)  # XGBoost's margins are float32
    assert imp.scores.sum() + imp.base == pytest.approx(imp.losses.before - imp.losses.after, rel=1e-8)


@pytest.mark.parametrize("case", CASES)
def test_importance_finds_the_signal_and_is_pickled(case):
    c = fitted(case)
    imp = importance(c, c.model)
    assert np.isfinite(imp.scores).all()
    assert imp.scores[[0, 3]].min() > imp.scores[2]  # size and dose above noise
    again = pickle.loads(pickle.dumps(imp))
    np.testing.assert_array_equal(again.scores, imp.scores)
    np.testing.assert_array_equal(again.std_errors, imp.std_errors)


@pytest.mark.parametrize("case", FITTED)
def test_the_librarys_file_is_the_live_object(case, tmp_path):
    c = fitted(case)
    # A file of XGBoost holds all rounds, also those after the best one.
    options = {"iteration_range": (0, ti.read_model(c.model).n_rounds)} if "stopping" in case else {}
    wanted = importance(c, c.model)
    assert c.save is not None
    for ending in c.endings:
        path = tmp_path / f"model.{ending}"
        c.save(str(path))
        model = ti.read_model(path, **options)
        near(importance(c, model).scores, wanted.scores, 1e-12)
        near(model.predict(c.X), c.margin, c.rounding)


@pytest.mark.parametrize("case", [case for case in CASES if case.endswith(": regression") or case.endswith(": hist")])
@pytest.mark.parametrize("library", FRAMES)
def test_a_frame_of_numbers_is_the_array(case, library):
    c = fitted(case)
    table = numeric(library, c.X)
    a, wanted = (ti.attribute(c.model, rows, method="treeshap") for rows in (table, c.X))
    np.testing.assert_array_equal(a.values, wanted.values)
    assert type(a.to_frame()).__module__.split(".")[0] == library
    imp = ti.importance(c.model, table, TARGETS["regression"][UNSEEN])
    assert imp.feature_names == tuple(NAMES)
    assert type(imp.to_frame()).__module__.split(".")[0] in FRAMES


@pytest.mark.parametrize("case", FRAMED)
@pytest.mark.parametrize("library", FRAMES)
def test_categories_of_every_frame_are_those_of_training(case, library):
    c = fitted(case)
    wanted = ti.attribute(c.model, c.X, method="treeshap")
    found = ti.attribute(c.model, frame(library, X), method="treeshap")
    np.testing.assert_array_equal(found.values, wanted.values)


# -- around a model ------------------------------------------------------------------------------------------
def pipeline(last: Any) -> Any:
    compose = pytest.importorskip("sklearn.compose")
    preprocessing, pipe = (importlib.import_module(f"sklearn.{name}") for name in ("preprocessing", "pipeline"))
    one_hot = preprocessing.OneHotEncoder(handle_unknown="ignore")
    columns = compose.ColumnTransformer([("words", one_hot, ["colour"])], remainder="passthrough", sparse_threshold=0)
    return pipe.Pipeline([("columns", columns), ("model", last)])


def estimator(library: str) -> Any:
    module = pytest.importorskip(library if library != "sklearn" else "sklearn.ensemble")
    if library == "xgboost":
        return module.XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1)
    if library == "lightgbm":
        return module.LGBMRegressor(n_estimators=10, num_leaves=8, n_jobs=1, verbose=-1)
    if library == "catboost":
        return module.CatBoostRegressor(
            iterations=10, depth=3, thread_count=1, verbose=False, allow_writing_files=False
        )
    return module.HistGradientBoostingRegressor(max_iter=10, max_leaf_nodes=8)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_pipeline_is_scored_by_its_raw_columns(library):
    model = pipeline(estimator(library)).fit(frame("pandas", X_TRAIN), TARGETS["regression"][SEEN])
    rows, y = frame("pandas", X), TARGETS["regression"][UNSEEN]
    a = ti.attribute(model, rows, method="treeshap", feature_groups="original")
    near(a.values.sum(axis=1) + a.base_values, model.predict(rows), 1e-5)  # XGBoost predicts in float32
    imp = ti.importance(model, rows, y, score="loss")
    assert set(imp.feature_names) == set(NAMES)
    assert imp.losses.after == pytest.approx(half_squares(y, model.predict(rows)), rel=1e-5)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_search_and_a_vote_are_scored(library):
    search = pytest.importorskip("sklearn.model_selection").GridSearchCV
    vote = pytest.importorskip("sklearn.ensemble").VotingRegressor
    rows, y = ROWS if library != "catboost" else np.nan_to_num(ROWS), TARGETS["regression"]
    best = search(estimator(library), {"learning_rate": [0.1, 0.3]}, cv=2).fit(rows[SEEN], y[SEEN])
    near(ti.read_model(best).predict(rows[UNSEEN]), best.predict(rows[UNSEEN]), 1e-5)
    both = vote([("one", estimator(library)), ("other", estimator("sklearn"))]).fit(rows[SEEN], y[SEEN])
    imp = ti.importance(both, rows[UNSEEN], y[UNSEEN])
    assert imp.scores[[0, 3]].min() > imp.scores[2]


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_booster_of_the_native_api_is_read(library):
    module = pytest.importorskip(library)
    y = TARGETS["binary"]
    if library == "xgboost":
        data = module.DMatrix(X_TRAIN, y[SEEN], feature_names=NAMES)
        model = module.train({"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, data, 10)
        margin = model.predict(module.DMatrix(X, feature_names=NAMES), output_margin=True)
    else:
        params = {"objective": "binary", "num_leaves": 8, "num_threads": 1, "verbose": -1}
        model = module.train(params, module.Dataset(X_TRAIN, y[SEEN], feature_name=NAMES), 10)
        margin = model.predict(X, raw_score=True)
    near(ti.read_model(model).predict(X), margin, 1e-5)
    imp = ti.importance(model, X, y[UNSEEN], score="loss")
    assert imp.losses.after == pytest.approx(log_loss(y[UNSEEN], margin), rel=1e-5)
    assert imp.feature_names == tuple(NAMES)


def test_rows_in_batches_are_the_rows_at_once():
    c = fitted("sklearn: hist")
    batches = ti.ImportanceAccumulator(c.model)
    for twice in (False, True):
        batches = batches.second_pass() if twice else batches
        for part in np.array_split(np.arange(len(X)), 3):
            batches.update(c.X[part], c.y[part])
    near(batches.result().scores, ti.importance(c.model, c.X, c.y).scores, 1e-6)
