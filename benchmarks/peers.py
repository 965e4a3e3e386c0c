"""One timed job per peer, and ours: each prepares what it needs and returns the call to time.

A job gets a `Case` and returns a function without arguments; reading the model, and what a peer wants its rows turned
into (DMatrix, data frame), happens before the clock starts. `view` turns a result into an array to compare:
attributions as (rows, features + 1) with the base value last, margins as (rows,), scores as (features,).
"""

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workloads import Model, Workload, rows_of

SHOWN_ROWS = 256  # of a result by rows that are kept for comparison
ONE_ROW_CALLS = 200  # W8: calls per measurement


@dataclass
class Case:
    """A workload with its rows, the threads a job may use, and how many rows it takes."""

    w: Workload
    threads: int
    max_rows: int | None

    @cached_property
    def data(self):
        X, y = rows_of(self.w)
        return X[: self.max_rows], y[: self.max_rows]

    @property
    def X(self):  # noqa: N802
        return self.data[0]

    @property
    def y(self):
        return self.data[1]

    @cached_property
    def model(self):
        return Model(self.w, self.threads)

    @cached_property
    def native(self):
        return self.model.native()

    @cached_property
    def ours(self):
        """The model as treeinner read it."""
        model = self.model.read()
        model.trees.forest  # noqa: B018  the compiled form belongs to reading the model
        return model


@dataclass(frozen=True)
class Job:
    name: str
    prepare: Callable[[Case], Callable[[], object]]
    view: Callable[[object], np.ndarray]
    max_rows: int | None = (
        None  # that a slow peer takes; its time is scaled up to the workload's, and the table says so
    )
    calls: int = 1  # calls of the library in one call of the job
    timed: bool = True
    package: str = "treeinner"


JOBS: dict[str, Job] = {}


def job(name, view, **options):
    def register(prepare):
        JOBS[name] = Job(name, prepare, view, package=PACKAGE_OF.get(name.split(".")[0], "treeinner"), **options)
        return prepare

    return register


PACKAGE_OF = {
    "xgboost": "xgboost", "lightgbm": "lightgbm", "catboost": "catboost", "sklearn": "scikit-learn", "shap": "shap",
    "woodelf": "woodelf-explainer", "shapiq": "shapiq", "fasttreeshap": "fasttreeshap",
}  # fmt: skip


def by_row(result):
    return np.asarray(result, float)[:SHOWN_ROWS]


def contribs(attribution):
    head = np.concatenate([attribution.values[:SHOWN_ROWS], attribution.base_values[:SHOWN_ROWS, None]], axis=1)
    return np.asarray(head, float)


def scores(importance):
    return np.asarray(importance.scores, float)


# -- ours --------------------------------------------------------------------------------------------------------
def _importance(c, **options):
    import treeinner

    X, y, model, asked = c.X, c.y, c.ours, {"score": "tree_inner", "n_jobs": c.threads, **options}
    return lambda: treeinner.importance(model, X, y, **asked)


def _attribute(c, method):
    import treeinner

    X, model = c.X, c.ours
    return lambda: treeinner.attribute(model, X, method=method, n_jobs=c.threads)


@job("treeinner.scores", scores)
def _(c):
    return _importance(c, std_errors=False)


@job("treeinner.errors", scores)
def _(c):
    return _importance(c)


@job("treeinner.predecomp_errors", scores)
def _(c):
    return _importance(c, method="predecomp")


@job("treeinner.breakdown", scores)
def _(c):
    return _importance(c, score="loss")


@job("treeinner.shap_errors", scores)
def _(c):
    return _importance(c, method="treeshap")


@job("treeinner.permutation", scores)
def _(c):
    import treeinner

    X, y, model = c.X, c.y, c.ours
    return lambda: treeinner.permutation_importance(model, X, y, n_jobs=c.threads, n_repeats=1, random_state=0)


@job("treeinner.predict", by_row)
def _(c):
    X, model = c.X, c.ours
    return lambda: model.predict(X, n_jobs=c.threads)


@job("treeinner.predecomp", contribs)
def _(c):
    return _attribute(c, "predecomp")


@job("treeinner.saabas", contribs)
def _(c):
    return _attribute(c, "saabas")


@job("treeinner.treeshap", contribs)
def _(c):
    return _attribute(c, "treeshap")


@job("treeinner.read", lambda model: np.array([model.n_trees, model.trees.n_nodes]))
def _(c):
    import treeinner

    path = str(c.model.path)
    return lambda: treeinner.read_model(path)


def _one_row(c, call):
    """Rows one after the other, each a (1, columns) array of its own; the results of all of them."""
    rows = [np.ascontiguousarray(c.X[i : i + 1]) for i in range(min(ONE_ROW_CALLS, len(c.X)))]
    return lambda: [call(row) for row in rows]


def _row_contribs(results):
    return np.concatenate([contribs(a) for a in results])


def _row_margins(results):
    return np.concatenate([by_row(r) for r in results])


@job("treeinner.one_row_predecomp", _row_contribs, calls=ONE_ROW_CALLS, max_rows=1000)
def _(c):
    import treeinner

    model = c.ours
    return _one_row(c, lambda row: treeinner.attribute(model, row, n_jobs=c.threads))


@job("treeinner.one_row_treeshap", _row_contribs, calls=ONE_ROW_CALLS, max_rows=1000)
def _(c):
    import treeinner

    model = c.ours
    return _one_row(c, lambda row: treeinner.attribute(model, row, method="treeshap", n_jobs=c.threads))


@job("treeinner.one_row_predict", _row_margins, calls=ONE_ROW_CALLS, max_rows=1000)
def _(c):
    model = c.ours
    return _one_row(c, lambda row: model.predict(row, n_jobs=c.threads))


# -- XGBoost -----------------------------------------------------------------------------------------------------
@job("xgboost.inplace_predict", by_row)
def _(c):
    X, booster = c.X, c.native
    return lambda: booster.inplace_predict(X, predict_type="margin")


@job("xgboost.one_row", _row_margins, calls=ONE_ROW_CALLS, max_rows=1000)
def _(c):
    booster = c.native
    return _one_row(c, lambda row: booster.inplace_predict(row, predict_type="margin"))


def _dmatrix(c):
    import xgboost

    return xgboost.DMatrix(c.X, nthread=c.threads)


@job("xgboost.approx_contribs", by_row, max_rows=20_000)
def _(c):
    rows, booster = _dmatrix(c), c.native
    return lambda: booster.predict(rows, pred_contribs=True, approx_contribs=True)


@job("xgboost.pred_contribs", by_row, max_rows=5_000)
def _(c):
    rows, booster = _dmatrix(c), c.native
    return lambda: booster.predict(rows, pred_contribs=True)


@job("xgboost.load_model", lambda b: np.array([b.num_boosted_rounds(), sum(t.count("\n") for t in b.get_dump())]))
def _(c):
    import xgboost

    path = str(c.model.path)

    def load():
        booster = xgboost.Booster()
        booster.load_model(path)
        return booster

    return load


# -- LightGBM, CatBoost, scikit-learn ----------------------------------------------------------------------------
@job("lightgbm.predict", by_row)
def _(c):
    X, booster = c.X, c.native
    return lambda: booster.predict(X, raw_score=True, num_threads=c.threads)


@job("lightgbm.pred_contrib", by_row, max_rows=2_000)
def _(c):
    X, booster = c.X, c.native
    return lambda: booster.predict(X, pred_contrib=True, num_threads=c.threads)


@job("catboost.predict", by_row)
def _(c):
    import catboost

    rows, model = catboost.Pool(c.X), c.native
    return lambda: model.predict(rows, prediction_type="RawFormulaVal", thread_count=c.threads)


@job("catboost.ShapValues", by_row, max_rows=20_000)
def _(c):
    import catboost

    # Without the labels' pool CatBoost weighs by the leaf weights that the model stores, as we do.
    rows, model = catboost.Pool(c.X), c.native
    return lambda: model.get_feature_importance(rows, type="ShapValues", thread_count=c.threads)


@job("sklearn.predict", by_row)
def _(c):
    X, model = c.X, c.native
    return lambda: model.predict(X)


@job("sklearn.permutation_importance", lambda result: np.asarray(result.importances_mean, float))
def _(c):
    import xgboost
    from sklearn.inspection import permutation_importance

    model = xgboost.XGBRegressor(n_jobs=c.threads)
    model.load_model(c.model.path)
    X, y = c.X, c.y
    # n_jobs would start processes; the model's own threads are the cheaper ones.
    return lambda: permutation_importance(
        model, X, y, scoring="neg_mean_squared_error", n_repeats=1, random_state=0, n_jobs=1
    )


# -- explainers --------------------------------------------------------------------------------------------------
@job("shap.TreeExplainer", by_row, max_rows=1_000)
def _(c):
    import shap

    explainer = shap.TreeExplainer(c.native)
    # shap hands models of XGBoost, LightGBM and CatBoost to their own implementation; "internal" asks for shap's.
    # Its base value is another one then, so that the values alone are compared.
    explainer.model.model_type = "internal"
    X = c.X
    return lambda: explainer.shap_values(X, check_additivity=False)


@job("woodelf.shap_values", by_row)
def _(c):
    import pandas as pd
    from woodelf import WoodelfExplainer

    rows, explainer = pd.DataFrame(c.X), WoodelfExplainer(c.native)
    return lambda: explainer.shap_values(rows, verbose=False)


@job("shapiq.TreeExplainer", by_row, max_rows=64)
def _(c):
    import shapiq
    import xgboost

    model = xgboost.XGBRegressor(n_jobs=c.threads)
    model.load_model(c.model.path)
    explainer, X = shapiq.TreeExplainer(model), c.X
    features = range(X.shape[1])
    return lambda: [[row[(j,)] for j in features] for row in (explainer.explain(x) for x in X)]


@job("fasttreeshap.TreeExplainer", by_row, max_rows=1_000)
def _(c):
    import fasttreeshap

    explainer = fasttreeshap.TreeExplainer(c.native, algorithm="auto", n_jobs=c.threads)
    X = c.X
    return lambda: explainer.shap_values(X, check_additivity=False)


# -- what the libraries' own margins say about our scores ----------------------------------------------------------
def _reference(c, node_value=None, *, breakdown=False):
    """Sum over the features of TreeInner, and of the absolute terms, from the library's own values of each tree.

    The attributions of a tree add up to its leaf value minus the value of its root, so the scores of all features
    add up to the sum over trees and rows of (negative gradient) x (leaf value - root value), here per row. Without node
    values: centred, a root has the mean of the leaf values. breakdown: gradients of squared error, halfway down.
    """
    trees, X, y = c.ours.trees, c.X, c.y.astype(float)

    def reference():
        margin, total, size = np.full(len(y), trees.base[0]), 0.0, 0.0
        for t, leaf in enumerate(_tree_values(c, X)):
            residual = y - (1 / (1 + np.exp(-margin)) if c.w.logistic else margin)
            residual -= leaf / 2 if breakdown else 0.0
            root = leaf.mean() if node_value is None else node_value[trees.start[t], 0]
            terms = residual * (leaf - root) / len(y)
            total, size = total + terms.sum(), size + np.abs(terms).sum()
            margin += leaf
        return [total, size]

    return reference


@job("reference.tree_inner", np.asarray, timed=False)
def _(c):
    return _reference(c)


@job("reference.predecomp", np.asarray, timed=False)
def _(c):
    return _reference(c, c.ours.trees.known.value)


@job("reference.breakdown", np.asarray, timed=False)
def _(c):
    return _reference(c, breakdown=True)


@job("reference.tree_inner_shap", np.asarray, timed=False)
def _(c):
    return _reference(c, c.ours.trees.mean_value)


def _tree_values(c, X):
    """What each tree adds to the margin, by the library's own predict."""
    base, model = float(c.ours.trees.base[0]), c.native
    if c.w.library == "xgboost":
        for t in range(c.ours.n_trees):
            yield model.inplace_predict(X, iteration_range=(t, t + 1), predict_type="margin").astype(float) - base
    elif c.w.library == "lightgbm":
        for t in range(c.ours.n_trees):
            leaf = model.predict(X, start_iteration=t, num_iteration=1, raw_score=True, num_threads=c.threads)
            yield leaf - base if t == 0 else leaf  # the first tree holds the base score
    elif c.w.library == "sklearn":
        before = np.full(len(X), base)
        for after in model.staged_predict(X):
            yield after - before
            before = after
    else:
        raise NotImplementedError(c.w.library)


def quiet():
    """Peers that draw progress bars draw them here."""
    return contextlib.redirect_stderr(io.StringIO())
