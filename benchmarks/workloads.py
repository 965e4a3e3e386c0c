"""W1 to W8: data and models by seed. Models are trained once and kept, under a key of their settings and library."""

import hashlib
import json
import pickle
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
CACHE = ROOT / "build" / "bench"
LEARNING_RATE = 0.1

PACKAGE = {"xgboost": "xgboost", "lightgbm": "lightgbm", "catboost": "catboost", "sklearn": "scikit-learn"}
SUFFIX = {"xgboost": "ubj", "lightgbm": "txt", "catboost": "cbm", "sklearn": "pickle"}


@dataclass(frozen=True)
class Workload:
    """Rows to score, and the model to score them with; the model was trained on other rows."""

    rows: int
    columns: int = 50
    library: str = "xgboost"
    trees: int = 400
    depth: int = 6
    leaves: int = 31  # of LightGBM, which grows leaf by leaf, depth without limit
    leaf_rows: int = 20  # training rows in a leaf of LightGBM, at least
    logistic: bool = False
    missing: float = 0.0  # share of the entries
    train_rows: int = 100_000
    seed: int = 1


def _named() -> dict[str, Workload]:
    w1 = Workload(rows=100_000)
    w4 = replace(w1, library="lightgbm", trees=500, missing=0.05)
    named = {"W1": w1, "W2": replace(w1, logistic=True)}
    named |= {f"W3.depth{depth}": replace(w1, depth=depth) for depth in (2, 4, 8, 10)}
    named |= {f"W4.leaves{leaves}": replace(w4, leaves=leaves) for leaves in (31, 255)}
    named["W5"] = replace(w1, library="sklearn", trees=300)
    # Training rows are fewer than the rows scored: they decide the time to train, and hardly the shape of the trees.
    named["W6"] = Workload(rows=1_000_000, columns=100, trees=1000, train_rows=200_000, seed=6)
    named["W7"] = Workload(rows=5_000, columns=5_000, trees=200, train_rows=5_000, seed=7)
    named["W8"] = w1
    named["WC"] = replace(w1, library="catboost")  # no bound was set for CatBoost; it is a peer like the others
    # For the plots of cost: three decades of rows, of trees (the first ones of W6's), and of nodes.
    named["rows"] = replace(w1, rows=1_000_000)
    named["trees"] = replace(named["W6"], rows=10_000)
    nodes = replace(w4, rows=10_000, trees=50, missing=0.0, leaf_rows=5, train_rows=200_000)
    named |= {f"nodes{leaves}": replace(nodes, leaves=leaves) for leaves in (2, 8, 64, 512, 4096, 16384)}
    return named


WORKLOADS = _named()


def workload(name: str, scale: float = 1.0) -> Workload:
    """Return a workload by its name; with scale < 1 a smaller one, to try the harness."""
    w = WORKLOADS[name]
    if scale == 1.0:
        return w
    rows = max(256, round(w.rows * scale))
    trees = max(20, round(w.trees * scale))
    columns = w.columns if w.columns <= 100 else max(100, round(w.columns * scale))
    return replace(w, rows=rows, trees=trees, columns=columns, train_rows=max(1000, round(w.train_rows * scale)))


# -- data ------------------------------------------------------------------------------------------------------
def rows_of(w: Workload, *, train: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """X (float32) and y of the rows to score, or of the training rows, which are others."""
    n = w.train_rows if train else w.rows
    rng = np.random.default_rng([w.seed, int(train)])
    X = rng.standard_normal((n, w.columns), dtype=np.float32)
    informative = X[:, : min(20, w.columns)]
    weight = np.linspace(1.0, 0.1, informative.shape[1], dtype=np.float32)
    signal = np.sin(2 * informative) @ weight + X[:, 0] * X[:, 1] + np.maximum(X[:, 2], 0) * X[:, 3]
    noise = rng.standard_normal(n, dtype=np.float32)
    y = (signal + noise > 0).astype(np.float32) if w.logistic else (signal + noise).astype(np.float32)
    if w.missing:
        for start in range(0, n, 10_000):  # in pieces: the mask of all rows at once would need twice the data
            part = X[start : start + 10_000]
            part[rng.random(part.shape, dtype=np.float32) < w.missing] = np.nan
    return X, y


# -- models ----------------------------------------------------------------------------------------------------
def model_path(w: Workload) -> Path:
    """File of the trained model; trains it if it is not there."""
    settings = asdict(replace(w, rows=0)) | {
        "library_version": version(PACKAGE[w.library]),
        "learning_rate": LEARNING_RATE,
    }
    key = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
    path = CACHE / "models" / f"{w.library}-{key}.{SUFFIX[w.library]}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"unfinished-{path.name}")
        _TRAIN[w.library](w, *rows_of(w, train=True), unfinished)
        unfinished.rename(path)
        path.with_suffix(".json").write_text(json.dumps(settings, indent=1))
    return path


def _train_xgboost(w, X, y, path):
    import xgboost

    objective = "binary:logistic" if w.logistic else "reg:squarederror"
    params = {"objective": objective, "max_depth": w.depth, "eta": LEARNING_RATE, "tree_method": "hist", "seed": w.seed}
    xgboost.train(params, xgboost.QuantileDMatrix(X, y), w.trees).save_model(path)


def _train_lightgbm(w, X, y, path):
    import lightgbm

    params = {
        "objective": "binary" if w.logistic else "regression", "num_leaves": w.leaves, "learning_rate": LEARNING_RATE,
        "min_data_in_leaf": w.leaf_rows, "seed": w.seed, "verbose": -1, "deterministic": True, "force_col_wise": True,
    }  # fmt: skip
    lightgbm.train(params, lightgbm.Dataset(X, y), w.trees).save_model(path)


def _train_catboost(w, X, y, path):
    import catboost

    model = catboost.CatBoostRegressor(
        iterations=w.trees, depth=w.depth, learning_rate=LEARNING_RATE, random_seed=w.seed, verbose=False,
        allow_writing_files=False,
    )  # fmt: skip
    model.fit(X, y).save_model(str(path))


def _train_sklearn(w, X, y, path):
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=w.trees, learning_rate=LEARNING_RATE, early_stopping=False, random_state=w.seed
    )
    path.write_bytes(pickle.dumps(model.fit(X, y)))


_TRAIN = {
    "xgboost": _train_xgboost,
    "lightgbm": _train_lightgbm,
    "catboost": _train_catboost,
    "sklearn": _train_sklearn,
}


@dataclass
class Model:
    """A trained model as its library loads it, with its threads set."""

    w: Workload
    threads: int
    path: Path = field(init=False)

    def __post_init__(self):
        self.path = model_path(self.w)

    def native(self):
        if self.w.library == "xgboost":
            import xgboost

            booster = xgboost.Booster(model_file=self.path)
            booster.set_param({"nthread": self.threads})
            return booster
        if self.w.library == "lightgbm":
            import lightgbm

            return lightgbm.Booster(model_file=self.path)
        if self.w.library == "catboost":
            import catboost

            return catboost.CatBoostRegressor().load_model(str(self.path))
        return pickle.loads(self.path.read_bytes())

    def read(self):
        """What treeinner makes of it."""
        import treeinner

        return treeinner.read_model(self.native() if self.w.library == "sklearn" else str(self.path))
