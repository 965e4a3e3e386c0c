"""The settings that are pinned: model, rows, arguments and what is asked of them. Public API alone.

README.md lists what changes by intention between the second and the third edition and is therefore not asked here.
"""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

import treeinner as ti

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
N = 340  # rows
WEIGHT = 1.0 / (1 + np.arange(N) % 7)  # seven rows in a row have the largest weight among them
CLUSTERS = np.arange(N) * 7 % 29
MARGIN = (np.arange(N) % 11 - 5) / 8
QUERY = np.arange(N) // 10
GROUPS = {"shape": ["normal", "small_int"], "rest": ["zeros", "two_digits", "colour"]}
UNITS = 3e-8  # gradients and weights: summed in the leaves by 2^-32 of a typical one; gradients by 2^-40 now
STEPS = 1e-6  # shares of rows are products of float32 numbers; standard errors are sums of their squares


# -- rows ------------------------------------------------------------------------------------------------------------
@cache
def arrays(path):
    """What a file of numpy holds: name -> array."""
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


@cache
def data():
    """The golden rows, 300 for training and 40 more with gaps and unseen codes, and targets for all of them."""
    read = arrays(GOLDEN / "data.npz")
    return read | {name: np.concatenate([read[name], read[name][:40]]) for name in read if name.startswith("y")}


def as_frame(X):
    """A pandas frame with text categories, in another order than at training; codes of no level are missing."""
    import pandas as pd

    levels = data()["levels"].tolist()
    table = pd.DataFrame(X, columns=data()["names"].tolist())
    text = [levels[int(code)] if code in range(len(levels)) else None for code in X[:, -1]]
    table["colour"] = pd.Categorical(text, categories=sorted(levels))
    return table


def as_words(X):
    """An object array with levels as text in the last column, as CatBoost's categorical models saw it."""
    level = dict(enumerate(data()["levels"].tolist())) | {-1: "none"}
    table = X.astype(object)
    table[:, -1] = [level.get(code, "unseen") for code in np.nan_to_num(X[:, -1], nan=-1)]
    return table


def known_codes(X):
    """Codes of levels alone in the last column, for HistGradientBoosting."""
    return np.column_stack([X[:, :-1], np.where(np.isin(X[:, -1], np.arange(8)), X[:, -1], np.nan)])


SHAPES = {  # of X, by the name of the model
    **{"frame": as_frame, "onehot": as_words, "ctr": as_words, "hist": known_codes, "hist_class": known_codes},
    **dict.fromkeys(("boost", "boost_class", "forest", "forest_class"), np.nan_to_num),
}
TARGETS = {"binary": "y_binary", "boost_class": "y_binary", "poisson": "y_count"}
TARGETS |= dict.fromkeys(("multiclass", "parallel", "hist_class", "forest_class", "rank", "lambdarank"), "y_class")


# -- models ----------------------------------------------------------------------------------------------------------
FITTED = {  # name -> class and arguments in scikit-learn
    "hist": ("HistGradientBoostingRegressor", {"max_iter": 8, "max_leaf_nodes": 6, "categorical_features": [6]}),
    "hist_class": ("HistGradientBoostingClassifier", {"max_iter": 4, "max_leaf_nodes": 6, "l2_regularization": 1.5}),
    "boost": ("GradientBoostingRegressor", {"n_estimators": 8, "max_depth": 3}),
    "boost_class": ("GradientBoostingClassifier", {"n_estimators": 8, "max_depth": 3}),
    "forest": ("RandomForestRegressor", {"n_estimators": 10, "max_depth": 4}),
    "forest_class": ("RandomForestClassifier", {"n_estimators": 10, "max_depth": 4}),
}


@cache
def fitted(name):
    """A small model of scikit-learn."""
    from sklearn import ensemble

    kind, arguments = FITTED[name]
    X, y = Setting(name).rows()
    return getattr(ensemble, kind)(random_state=0, **arguments).fit(X[:300], y[:300])


@dataclass(frozen=True)
class Setting:
    """One model on some rows, and what is asked."""

    source: str  # golden file, file in models/, or name of a fitted model
    asks: tuple[str, ...] = ()
    given: dict = field(default_factory=dict)  # arguments of ti.importance
    reading: dict = field(default_factory=dict)  # arguments of ti.read_model
    tiles: int = 1  # copies of the rows
    tolerance: float = 1e-12  # to the largest number of an array: sums in another order, a few units of 2^-53

    @property
    def stem(self):
        """Name of the model in its folder."""
        return Path(self.source).stem

    def fact(self, name):
        """What the library said about a golden model on the 40 rows; None if it could not."""
        return arrays((GOLDEN / self.source).parent / "answers.npz").get(f"{self.stem}.{name}")

    def rows(self):
        """X and y, the 300 training rows first."""
        X, y = np.vstack([data()["X_train"], data()["X"]]), data()[TARGETS.get(self.stem, "y")]
        if self.stem == "vector":
            y = np.column_stack([y, data()["y_count"]])
        if self.tiles > 1:
            X, y = np.tile(X, (self.tiles, 1)), np.tile(y, self.tiles)
        if self.given.get("oob"):
            X, y = X[:300], y[:300]
        return SHAPES.get(self.stem, np.asarray)(X), y

    def model(self):
        """The model, opened; rate and penalty are told where a library does not store them to the last digit."""
        if self.source in FITTED:
            return fitted(self.source)
        told = dict(self.reading)
        if self.source.startswith(("xgboost", "catboost")) and "learning_rate" not in told:
            told |= {name: float(self.fact(name)) for name in ("learning_rate", "reg_lambda")}
        return ti.read_model((GOLDEN if "-" in self.source else HERE / "models") / self.source, **told)

    def tolerance_of(self, ask, quantity):
        """What two editions may differ by, to the largest number of the array; 0: the same bits."""
        words, error = ask.split(), quantity.startswith("std_errors")
        if quantity == "base":  # by leaf sums; in the second edition, the rest of the fall of the loss
            return max(UNITS, self.tolerance)
        if {"attribute", "baselines", "permutation", "total_gain"} & set(words) or "learning_rate" in self.reading:
            return self.tolerance
        if not error and words[-1] != "treeshap":
            return UNITS
        squared = self.source.startswith("xgboost") and self.stem not in {*TARGETS, "absolute", "quantile"}
        summed = {"clusters", "feature_groups"} & set(self.given)  # floats, before they are squared
        if error and squared and not summed and "loss" not in words and words[-1] != "centred":
            return 0.0  # one pass over stored values: the steps are rounded from the same numbers, the sums are exact
        if error and words[-1] == "centred":  # of row scores in float32, whose level is added apart from the steps
            return 2e-7
        if "sample_weight" in self.given:  # the unit follows the largest weight in the third edition
            return STEPS if error else UNITS
        return self.tolerance


# -- questions -------------------------------------------------------------------------------------------------------
def numbers_of(found, score, method):
    """Everything of an Importance that is pinned: name -> array."""
    out = {"scores": found.scores, "std_errors": found.std_errors}
    if method != "treeshap":
        out["by_round"] = found.by_round()
    if score == "loss":
        out |= {"base": found.base, "explained": found.explained, "shares": found.shares}
    elif method != "treeshap":
        out["gains"] = found.gains
    if found.outputs is not None:
        parts = [found.for_output(name) for name in found.output_names or ("0", "1")]  # vector.ubj has no names
        out["scores of outputs"] = np.array([part.scores for part in parts])
        out["std_errors of outputs"] = np.array([part.std_errors for part in parts])
    return out


def baselines(setting):
    """mean_abs and ForestInner in all their forms."""
    (X, y), model, out = setting.rows(), setting.model(), {}
    for method in ("predecomp", "saabas", "treeshap"):
        for over in ("trees", "forest"):
            out[f"abs {method} {over}"] = ti.mean_abs(model, X, method=method, over=over).scores
        for against in ("residual", "label"):
            found = ti.forest_inner(model, X, y, method=method, against=against)
            out[f"forest_inner {method} {against}"] = found.scores
    return out


def answer(setting, ask):
    """Name -> array of what is asked, such as "centred", "loss centred", "attribute saabas"."""
    (X, y), words, given = setting.rows(), ask.split(), {"n_jobs": 1} | setting.given
    score, method = "loss" if "loss" in words else "tree_inner", words[-1]
    if words[0] == "attribute":
        found = ti.attribute(setting.model(), X[-25:], method=method, n_jobs=1)
        found = {"values": found.values, "base_values": found.base_values}
    elif words[0] == "baselines":
        found = baselines(setting)
    elif words[0] == "total_gain":
        found = {"scores": ti.total_gain(setting.model()).scores}
    elif words[0] == "permutation":
        found = ti.permutation_importance(setting.model(), X, y, n_repeats=2, random_state=3, **given)
        found = {"scores": found.scores, "std_errors": found.std_errors}
    else:
        found = numbers_of(ti.importance(setting.model(), X, y, score=score, method=method, **given), score, method)
    return {name: np.asarray(array, np.float64) for name, array in found.items()}


# -- the list --------------------------------------------------------------------------------------------------------
SCORES = ("centred", "saabas", "treeshap", "loss centred")
BY_COVER = ("attribute saabas", "attribute treeshap")
ANY_START = (*BY_COVER, "permutation")  # whatever the margin before the first tree is
CENTRED = (*SCORES, *ANY_START)
FULL = ("predecomp", "attribute predecomp", *CENTRED)
PATHS = ("predecomp", *SCORES)
GAIN, BASELINES = ("total_gain",), ("baselines",)
FIRST = "xgboost-3.4.1/regression.ubj"

MODELS = {  # what is asked of the model alone; README.md says why it is less of some
    FIRST: FULL + GAIN + BASELINES + ("loss predecomp", "loss saabas", "loss treeshap"),
    "xgboost-1.7.6/regression.json": FULL + GAIN,
    "xgboost-1.7.6/binary.ubj": FULL + GAIN + BASELINES + ("loss treeshap",),
    "xgboost-3.2.0/multiclass.ubj": FULL + GAIN + ("loss predecomp",),
    "xgboost-2.1.4/poisson.ubj": CENTRED + GAIN,
    "xgboost-3.0.5/dart.ubj": FULL + GAIN,
    "xgboost-3.4.1/categorical.ubj": FULL + GAIN,
    "xgboost-2.1.4/categorical_onehot.ubj": FULL + GAIN,
    "xgboost-3.3.0/parallel.ubj": FULL + GAIN,
    "xgboost-3.4.1/alpha.ubj": CENTRED + GAIN,
    "xgboost-1.7.6/pruned.ubj": FULL + GAIN,
    "xgboost-3.0.5/absolute.ubj": CENTRED + GAIN,
    "xgboost-3.4.1/absolute.ubj": ("centred", *BY_COVER, *GAIN),
    "xgboost-3.4.1/vector.ubj": FULL + GAIN,
    "xgboost-3.2.0/quantile.ubj": CENTRED + GAIN,
    "xgboost-3.4.1/frame.ubj": FULL + GAIN,
    "lightgbm-4.7.0/regression.txt": FULL + GAIN + BASELINES,
    "lightgbm-3.3.5/binary.txt": FULL + GAIN,
    "lightgbm-4.6.0/multiclass.txt": FULL + GAIN,
    "lightgbm-4.0.0/poisson.txt": FULL + GAIN,
    "lightgbm-4.7.0/categorical.txt": CENTRED + GAIN,
    "lightgbm-4.3.0/categorical_onehot.txt": FULL + GAIN,
    "lightgbm-4.7.0/frame.txt": CENTRED + GAIN,
    "lightgbm-4.7.0/zero_as_missing.txt": FULL + GAIN,
    "lightgbm-4.0.0/no_missing.txt": FULL + GAIN,
    "lightgbm-4.7.0/dart.txt": ANY_START + GAIN,
    "lightgbm-4.7.0/rf.txt": ANY_START + GAIN,
    "lightgbm-4.7.0/l1.txt": ANY_START + GAIN,
    "lightgbm-4.7.0/lambda_l1.txt": ANY_START + GAIN,
    "catboost-1.2.10/regression.json": FULL + BASELINES,
    "catboost-1.2.2/binary.cbm": CENTRED,
    "catboost-1.2.10/multiclass.json": CENTRED,
    "catboost-1.2.10/nan_max.json": FULL,
    "catboost-1.2.2/depthwise.json": FULL,
    "catboost-1.2.10/onehot.cbm": SCORES + BY_COVER,
    "catboost-1.2.10/ctr.cbm": SCORES + BY_COVER,
    "from_zero.txt": FULL + GAIN,
    "hist": CENTRED + GAIN,
    "hist_class": CENTRED,  # gains of its roots are taken as stored now
    "boost": FULL + BASELINES,
    "boost_class": CENTRED,
    "forest": FULL,
    "forest_class": FULL,
}
WEIGHTED, CLUSTERED, MARGINS = {"sample_weight": WEIGHT}, {"clusters": CLUSTERS}, {"base_margin": MARGIN}
LIGHTGBM, CATBOOST = "lightgbm-4.7.0/regression.txt", "catboost-1.2.10/regression.json"
SETTINGS = (
    {source: Setting(source, asks) for source, asks in MODELS.items()}
    | {
        "weights": Setting(FIRST, (*PATHS, "permutation"), WEIGHTED),
        "weights, classes": Setting("xgboost-3.2.0/multiclass.ubj", PATHS, WEIGHTED),
        "weights, LightGBM": Setting("lightgbm-3.3.5/binary.txt", PATHS, WEIGHTED),
        "clusters": Setting("xgboost-1.7.6/binary.ubj", (*PATHS, "permutation"), CLUSTERED),
        "clusters, classes": Setting("catboost-1.2.10/multiclass.json", SCORES, CLUSTERED),
        "clusters and weights": Setting(FIRST, ("predecomp", "centred", "loss centred"), CLUSTERED | WEIGHTED),
        "margins": Setting(FIRST, (*PATHS, "permutation"), MARGINS),
        "margins, CatBoost": Setting(CATBOOST, SCORES, MARGINS),
        "margins, LightGBM": Setting("from_zero.txt", SCORES, MARGINS),
        "groups": Setting(FIRST, (*PATHS, "permutation"), {"feature_groups": GROUPS}),
        "groups, classes": Setting("lightgbm-4.6.0/multiclass.txt", PATHS, {"feature_groups": GROUPS}),
        "rounds": Setting(FIRST, FULL, reading={"iteration_range": (2, 7)}),
        "rounds, LightGBM": Setting(LIGHTGBM, FULL, reading={"iteration_range": (0, 5)}),
        "rounds, CatBoost": Setting(CATBOOST, FULL, reading={"iteration_range": (0, 4)}),
        # Not told, so found by a search over the trees, which gives six digits at least.
        "rate not told": Setting(FIRST, FULL[:2], reading={"learning_rate": None}, tolerance=1e-5),
        "threads": Setting(FIRST, PATHS, {"n_jobs": 2}, tiles=30),  # 10,200 rows: more than two tasks
        "out of bag": Setting("forest", ("centred", "predecomp"), {"oob": True}),
        "ranking": Setting("rank.ubj", (*SCORES[:3], *BY_COVER, *GAIN), {"qid": QUERY}, tolerance=1e-7),  # rate found
        "ranking, LightGBM": Setting("lambdarank.txt", (*SCORES[:3], *BY_COVER, *GAIN), {"qid": QUERY}),
    }
)


# -- selection -------------------------------------------------------------------------------------------------------
SELECTIONS = {
    "conditional": {"q": 0.01, "n_draws": 30},
    "marginal": {"q": 0.01, "test": "marginal"},
    "three best": {"q": None, "max_features": 3},
}


def support(name):
    """Columns that a selector keeps; three of eight carry a signal so strong that 25 seeds gave the same answer."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.RandomState(5)
    X = rng.normal(size=(400, 8))
    y = 2 * X[:, 0] + 2 * X[:, 3] ** 2 + 2 * np.sign(X[:, 6]) + 0.5 * rng.normal(size=400)
    trees = HistGradientBoostingRegressor(max_iter=20, max_leaf_nodes=6)
    return ti.TreeInnerSelector(trees, cv=3, repeats=1, random_state=0, **SELECTIONS[name]).fit(X, y).get_support()


# -- the stored numbers ----------------------------------------------------------------------------------------------
PINS = HERE / "pins.npz"


@cache
def pins():
    """(setting, ask) -> {name: array}, as make_pins.py stored it."""
    values, index = arrays(PINS)["values"], json.loads(str(arrays(PINS)["index"]))
    out, at = {}, 0
    for setting, ask, name, shape in index:
        size = int(np.prod(shape))
        out.setdefault((setting, ask), {})[name] = values[at : at + size].reshape(shape)
        at += size
    return out
