"""Small models of many kinds, and rows for them, in build/fuzz/seeds: made once by the installed libraries.

Each is a file and a .npz with X and y of a dozen rows: NaN, ties, infinities and categories that training did not see
are among them. Models of other versions come from tests/golden.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
FOLDER = ROOT / "build" / "fuzz" / "seeds"
N_ROWS = 12
LEVELS = ["blue", "red", "green", "grey", "gold"]
CATEGORY = 3  # column of codes


@dataclass(frozen=True)
class Seed:
    """A good file, and rows that its model takes."""

    name: str
    data: bytes
    X: np.ndarray
    y: np.ndarray

    @property
    def in_frame(self) -> bool:
        return self.name.startswith("frame")


def rows(n: int, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """X of four columns, the last one codes, and a target."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [rng.normal(size=n), rng.normal(size=n), rng.integers(0, 4, n).astype(float), rng.integers(0, len(LEVELS), n)]
    )
    signal = X[:, 0] - 0.5 * X[:, 1] * (X[:, 2] > 1) + np.array([1.0, -1.0, 0.5, 0.0, 2.0])[X[:, 3].astype(int)]
    X[rng.random(n) < 0.15, 1] = np.nan
    return X, 3 + signal + 0.3 * rng.normal(size=n)


def asked() -> tuple[np.ndarray, np.ndarray]:
    """The dozen rows that mutants are asked about."""
    X, y = rows(N_ROWS)
    X[8:] = [[0, 0, 0, 0], [np.nan, np.nan, np.nan, np.nan], [np.inf, -np.inf, -1, 9], [1e30, -1e-40, 2.5, 1.5]]
    return X, y


def target(y: np.ndarray, kind: str = "real") -> np.ndarray:
    """A target of this kind, made of a real one, so that mutants can be scored."""
    return {
        "real": y,
        "binary": (y > 3.5) * 1.0,
        "class": np.digitize(y, [2.5, 4.0]) * 1.0,
        "count": np.floor(np.abs(y)),
        "time": np.floor(np.abs(y)) + 1.0,
        "two": np.column_stack([y, -2 * y]),
    }[kind]


# -- XGBoost -------------------------------------------------------------------------------------------------
XGBOOST: dict[str, dict[str, Any]] = {
    "regression": {},
    "binary": {"objective": "binary:logistic", "y": "binary"},
    "base": {"objective": "binary:logistic", "y": "binary", "base_score": 0.2},
    "poisson": {"objective": "count:poisson", "y": "count"},
    "multiclass": {"objective": "multi:softprob", "num_class": 3, "y": "class"},
    "dart": {"booster": "dart", "rate_drop": 0.5, "y": "real"},
    "categorical": {"cat": True, "max_cat_to_onehot": 1},
    "onehot": {"cat": True, "max_cat_to_onehot": 9},
    "vector": {"multi_strategy": "multi_output_tree", "y": "two"},
    "two": {"y": "two"},
    "absolute": {"objective": "reg:absoluteerror"},
    "alpha": {"reg_alpha": 0.4, "reg_lambda": 0.0},
    "parallel": {"num_parallel_tree": 2, "subsample": 0.7},
    "pruned": {"gamma": 1.0, "tree_method": "exact", "max_depth": 4},
    "quantile": {"objective": "reg:quantileerror", "quantile_alpha": [0.2, 0.8]},
    "cox": {"objective": "survival:cox", "y": "time"},
    "stump": {"rounds": 1, "min_child_weight": 1e6},
    "frame": {"cat": True, "frame": True},
}


def xgboost_models() -> Iterator[tuple[str, Any]]:
    import xgboost as xgb

    X, y = rows(80)
    for name, settings in XGBOOST.items():
        given = {"max_depth": 2, "nthread": 1, "seed": 0, "tree_method": "hist"} | settings
        label = target(y, given.pop("y", "real"))
        table: Any = frame(X) if given.pop("frame", False) else X
        types = ["q", "q", "q", "c"] if given.pop("cat", False) else None
        data = xgb.DMatrix(
            table, label, feature_types=None if name == "frame" else types, enable_categorical=bool(types)
        )
        yield name, xgb.train(given, data, given.pop("rounds", 3))


def frame(X: np.ndarray) -> Any:
    """The same rows as a data frame with categories; a code that is no category is missing."""
    import pandas as pd

    names = [LEVELS[int(code)] if np.isin(code, range(len(LEVELS))) else None for code in X[:, -1]]
    made = pd.DataFrame(X[:, :-1], columns=[f"x{i}" for i in range(X.shape[1] - 1)])
    return made.assign(colour=pd.Categorical(names, categories=LEVELS))


def write_xgboost(folder: Path, ending: str) -> None:
    X, y = asked()
    for name, booster in xgboost_models():
        save_rows(folder / f"{name}.{ending}", X, target(y, XGBOOST[name].get("y", "real")))
        booster.save_model(folder / f"{name}.{ending}")
    old = ["xgboost-1.7.6/regression.json", "xgboost-3.4.1/regression.json", "xgboost-2.1.4/regression.json"]
    golden = ("categorical", "dart", "vector", "multiclass", "pruned")
    new = [f"xgboost-{v}/{kind}.ubj" for v in ("1.7.6", "3.4.1") for kind in golden if (v, kind) != ("1.7.6", "vector")]
    copy_golden(folder, old if ending == "json" else new)


# -- LightGBM ------------------------------------------------------------------------------------------------
LIGHTGBM: dict[str, dict[str, Any]] = {
    "regression": {},
    "binary": {"objective": "binary", "y": "binary"},
    "multiclass": {"objective": "multiclass", "num_class": 3, "y": "class"},
    "poisson": {"objective": "poisson", "y": "count"},
    "l1": {"objective": "regression_l1"},
    "lambda_l1": {"lambda_l1": 0.5, "lambda_l2": 0.5},
    "dart": {"boosting": "dart", "drop_rate": 0.5},
    "rf": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
    "categorical": {"cat": True, "max_cat_to_onehot": 1, "min_data_per_group": 1, "cat_smooth": 0.1},
    "onehot": {"cat": True, "max_cat_to_onehot": 9, "min_data_per_group": 1},
    "zero": {"zero_as_missing": True},
    "no_missing": {"use_missing": False},
    "ranking": {"objective": "lambdarank", "y": "class", "group": True},
    "stump": {"min_data_in_leaf": 1000},
    "frame": {"frame": True, "min_data_per_group": 1, "cat_smooth": 0.1},
}


def write_lightgbm(folder: Path) -> None:
    import lightgbm as lgb

    X, y = rows(80)
    X_asked, y_asked = asked()
    for name, settings in LIGHTGBM.items():
        given = {
            "num_leaves": 4,
            "min_data_in_leaf": 3,
            "num_threads": 1,
            "verbose": -1,
            "seed": 0,
            "deterministic": True,
        }
        given |= settings
        kind, group = given.pop("y", "real"), [20] * 4 if given.pop("group", False) else None
        table: Any = frame(X) if given.pop("frame", False) else X
        cat: Any = [CATEGORY] if given.pop("cat", False) else "auto"
        booster = lgb.train(given, lgb.Dataset(table, target(y, kind), group=group, categorical_feature=cat), 3)
        booster.save_model(folder / f"{name}.txt")
        save_rows(folder / f"{name}.txt", X_asked, target(y_asked, kind))
    kinds = ("categorical", "multiclass", "zero_as_missing")
    copy_golden(folder, [f"lightgbm-{v}/{kind}.txt" for v in ("3.3.5",) for kind in kinds])


# -- CatBoost ------------------------------------------------------------------------------------------------
CATBOOST: dict[str, dict[str, Any]] = {
    "regression": {},
    "binary": {"loss_function": "Logloss", "y": "binary"},
    "multiclass": {"loss_function": "MultiClass", "y": "class"},
    "multi": {"loss_function": "MultiRMSE", "y": "two"},
    "depthwise": {"grow_policy": "Depthwise"},
    "depthwise_classes": {"loss_function": "MultiClass", "y": "class", "grow_policy": "Depthwise"},
    "lossguide": {"grow_policy": "Lossguide", "max_leaves": 5},
    "nan_max": {"nan_mode": "Max"},
    "weighted": {"l2_leaf_reg": 7.0, "weight": True},
    "poisson": {"loss_function": "Poisson", "y": "count"},
}
WITH_CATEGORIES: dict[str, dict[str, Any]] = {
    "ctr": {"cat": True, "one_hot_max_size": 1, "max_ctr_complexity": 2},
    "onehot": {"cat": True, "one_hot_max_size": 10},
    "ctr_depthwise": {"cat": True, "one_hot_max_size": 1, "grow_policy": "Depthwise"},
}


def write_catboost(folder: Path, ending: str, kinds: dict[str, dict[str, Any]]) -> None:
    import catboost

    X, y = rows(80)
    X_asked, y_asked = asked()
    for name, settings in kinds.items():
        given = {"iterations": 3, "depth": 2, "border_count": 8, "random_seed": 0, "thread_count": 1} | settings
        kind = given.pop("y", "real")
        weight = np.linspace(0.5, 2, len(X)) if given.pop("weight", False) else None
        cat = [CATEGORY] if given.pop("cat", False) else None
        pool = catboost.Pool(words(X) if cat else X, target(y, kind), weight=weight, cat_features=cat)
        model = catboost.CatBoost({"logging_level": "Silent", "allow_writing_files": False} | given).fit(pool)
        model.save_model(str(folder / f"{name}.{ending}"), format=ending, pool=pool)
        save_rows(folder / f"{name}.{ending}", X_asked, target(y_asked, kind))


def words(X: np.ndarray) -> np.ndarray:
    """The same rows with categories as text, as CatBoost takes them."""
    out = X.astype(object)
    out[:, CATEGORY] = [f"{code:g}" for code in X[:, CATEGORY]]
    return out


# -- our own files -------------------------------------------------------------------------------------------
FROM_LIBRARIES = {
    "binary": "xgboost-json/binary.json",
    "categories": "xgboost-json/categorical.json",
    "classes": "lightgbm/multiclass.txt",
    "multi": "catboost-cbm/multi.cbm",
}


def write_models(folder: Path) -> None:
    """Saved models: of the libraries, and made up."""
    import treeinner as ti
    from tests.forests import Recipe, make_ensemble, make_rows

    recipes: dict[str, dict[str, Any]] = {
        "plain": {}, "cats": {"n_categorical": 1}, "outputs": {"n_outputs": 2}, "vector": {"n_outputs": 2,
        "vector": True},
    }  # fmt: skip
    for name, given in recipes.items():
        made = make_ensemble(Recipe(n_trees=4, depth=2, n_columns=4, **given), 3)
        made.save(folder / f"{name}.zip")
        kind = "two" if "n_outputs" in given else "real"
        save_rows(folder / f"{name}.zip", make_rows(made, N_ROWS, 1), target(asked()[1], kind))
    for name, source in FROM_LIBRARIES.items():
        format, file = source.split("/")
        seed = next(seed for seed in seeds(format) if seed.name == file)
        ti.read_model(FOLDER / source).save(folder / f"{name}.zip")
        save_rows(folder / f"{name}.zip", seed.X, seed.y)


def write_results(folder: Path, kind: str) -> None:
    """Attributions and importances of the saved models."""
    import treeinner as ti

    for seed in seeds("model"):
        model = ti.load(FOLDER / "model" / seed.name)
        if kind == "attribution":
            ti.attribute(model, seed.X, method="saabas", n_jobs=1).save(folder / seed.name)
        elif model.ensemble.objective:
            ti.importance(model, seed.X, seed.y, by_round=True, n_jobs=1).save(folder / seed.name)
        else:
            continue
        save_rows(folder / seed.name, seed.X, seed.y)


def accumulator(name: str) -> Any:
    """An empty one that takes the bytes of the seed of this name."""
    import treeinner as ti

    settings, _, model = name.rpartition("-")
    given = {"clustered": {"clustered": True}, "treeshap": {"method": "treeshap"}, "": {}}[settings]
    return ti.ImportanceAccumulator(saved_model(model), n_jobs=1, **given)


@cache
def saved_model(name: str) -> Any:
    import treeinner as ti

    return ti.load(FOLDER / "model" / name)


def write_accumulators(folder: Path) -> None:
    names = [
        "binary.zip",
        "classes.zip",
        "multi.zip",
        "clustered-binary.zip",
        "clustered-classes.zip",
        "treeshap-binary.zip",
    ]
    for name in names:
        seed = next(seed for seed in seeds("model") if seed.name == name.rpartition("-")[2])
        clusters = np.arange(len(seed.X)) // 3 if name.startswith("clustered") else None
        filled = accumulator(name).update(seed.X, seed.y, clusters=clusters, batch_id="a")
        (folder / name).write_bytes(filled.to_bytes())
        save_rows(folder / name, seed.X, seed.y)


# -- all of them ---------------------------------------------------------------------------------------------
WRITERS = {
    "xgboost-json": lambda folder: write_xgboost(folder, "json"),
    "xgboost-ubj": lambda folder: write_xgboost(folder, "ubj"),
    "lightgbm": write_lightgbm,
    "catboost-json": lambda folder: write_catboost(folder, "json", CATBOOST | WITH_CATEGORIES),
    "catboost-cbm": lambda folder: write_catboost(folder, "cbm", CATBOOST | WITH_CATEGORIES),
    "catboost-categories": lambda folder: write_catboost(folder, "cbm", WITH_CATEGORIES),
    "model": write_models,
    "attribution": lambda folder: write_results(folder, "attribution"),
    "importance": lambda folder: write_results(folder, "importance"),
    "accumulator": write_accumulators,
}


def save_rows(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    np.savez(f"{path}.npz", X=X, y=y)


def copy_golden(folder: Path, files: list[str]) -> None:
    with np.load(GOLDEN / "data.npz") as data:
        X = data["X"][-N_ROWS:]
    for file in files:
        path = folder / f"golden-{file.replace('/', '-')}"
        path.write_bytes((GOLDEN / file).read_bytes())
        kind = {"multiclass": "class", "vector": "two"}.get(Path(file).stem, "real")
        save_rows(path, X, target(asked()[1], kind))


@cache
def seeds(format: str) -> tuple[Seed, ...]:
    """Seeds of a format, written if they are not there, in the order of their names."""
    folder = FOLDER / format
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        WRITERS[format](folder)
        (folder / "complete").touch()
    found = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as stored:
            found.append(Seed(path.stem, path.with_suffix("").read_bytes(), stored["X"], stored["y"]))
    return tuple(found)


def digest(format: str) -> str:
    """Of all seeds of a format: the numbers of mutants mean the same as long as it is the same."""
    return hashlib.sha256(b"".join(seed.data for seed in seeds(format))).hexdigest()[:16]
