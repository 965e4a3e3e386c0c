"""What is compared with what, the bound that was promised, and how the two results are checked against each other."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Claim:
    """Our job takes at most `at_most` times the peer's time, on one workload, with AVX-512; None: no bound was set."""

    what: str
    ours: str
    peer: str
    workload: str
    at_most: float | None
    check: str
    reference: str | None = None  # job whose result ours is checked against; None: the peer's
    threads: tuple[int, int] | None = None  # ours, the peer's; None: those of the run

    @property
    def against_ourselves(self):
        return self.threads is not None or self.peer.startswith("treeinner.")

    def bound(self, isa):
        """What may be taken with an instruction set: without AVX-512 twice as much, unless the peer is ourselves."""
        return 2 * self.at_most if isa == "avx2" and not self.against_ourselves else self.at_most


def _tree_inner(workload, peer, scores_at_most=None, errors_at_most=None, which="tree_inner"):
    common = {"peer": peer, "workload": workload, "check": "total", "reference": f"reference.{which}"}
    return [
        Claim("TreeInner(centred), scores only", "treeinner.scores", at_most=scores_at_most, **common),
        Claim("TreeInner(centred), both passes", "treeinner.errors", at_most=errors_at_most, **common),
    ]


PREDECOMP, SAABAS, SHAP = "PreDecomp of every row", "Saabas of every row", "TreeSHAP of every row"
PERMUTATION, READING = "permutation importance, 1 repeat", "reading the .ubj file of 1000 trees"


def _w1():
    predict, approx, contribs = "xgboost.inplace_predict", "xgboost.approx_contribs", "xgboost.pred_contribs"
    ours = "treeinner.treeshap"
    return [
        *_tree_inner("W1", predict, 0.30, 0.90),
        *_tree_inner("W2", predict, 0.50),
        *(Claim("TreeInner(PreDecomp) with standard errors", "treeinner.predecomp_errors", predict, workload, bound,
                "total", reference="reference.predecomp") for workload, bound in (("W1", 0.70), ("W2", 0.90))),
        Claim("the loss breakdown, both passes", "treeinner.breakdown", predict, "W1", 0.90, "total",
              reference="reference.breakdown"),
        Claim(PREDECOMP, "treeinner.predecomp", approx, "W1", 1 / 14, "margin"),
        Claim(PREDECOMP, "treeinner.predecomp", predict, "W1", 0.50, "margin"),
        Claim(SAABAS, "treeinner.saabas", approx, "W1", None, "contribs"),
        Claim("prediction", "treeinner.predict", predict, "W1", None, "rows"),
        Claim(SHAP, ours, contribs, "W1", 1 / 40, "contribs"),
        Claim(SHAP, ours, "woodelf.shap_values", "W1", 1 / 9, "contribs"),
        Claim(SHAP, ours, "shap.TreeExplainer", "W1", None, "contribs"),
        Claim(SHAP, ours, "shapiq.TreeExplainer", "W1", None, "contribs"),
        Claim(SHAP, ours, "fasttreeshap.TreeExplainer", "W1", None, "contribs"),
        Claim("TreeInner(TreeSHAP) with standard errors", "treeinner.shap_errors", ours, "W1", 1.2, "total",
              reference="reference.tree_inner_shap"),
        Claim(PERMUTATION, "treeinner.permutation", "sklearn.permutation_importance", "W1", 1 / 20, "permutation"),
    ]  # fmt: skip


def _depths():
    out = []
    for depth in (2, 4, 8, 10):
        workload, bound = f"W3.depth{depth}", 1 / 35 if depth == 8 else None
        out += _tree_inner(workload, "xgboost.inplace_predict")
        out.append(Claim(SHAP, "treeinner.treeshap", "xgboost.pred_contribs", workload, bound, "contribs"))
    return out


def _other_libraries():
    out = []
    for workload in ("W4.leaves31", "W4.leaves255"):
        out += _tree_inner(workload, "lightgbm.predict", 0.35)
        out.append(Claim(PREDECOMP, "treeinner.predecomp", "lightgbm.predict", workload, 0.70, "margin"))
        out.append(Claim(SHAP, "treeinner.treeshap", "lightgbm.pred_contrib", workload, 1 / 30, "contribs"))
    out += _tree_inner("W5", "sklearn.predict")
    out.append(Claim(PREDECOMP, "treeinner.predecomp", "sklearn.predict", "W5", None, "margin"))
    out.append(Claim(PREDECOMP, "treeinner.predecomp", "catboost.predict", "WC", None, "margin"))
    # CatBoost takes the levels of a symmetric tree from the other end, and path-dependent values depend on the order:
    # only the sums of the two are the same.
    out.append(Claim(SHAP, "treeinner.treeshap", "catboost.ShapValues", "WC", None, "margin"))
    return out


def _large_and_small():
    predict = "xgboost.inplace_predict"
    return [
        *_tree_inner("W6", predict),
        Claim(READING, "treeinner.read", "xgboost.load_model", "W6", 3.0, "counts"),
        *_tree_inner("W7", predict),
        Claim(SHAP, "treeinner.treeshap", "xgboost.pred_contribs", "W7", None, "contribs"),
        Claim("PreDecomp of one row at a time", "treeinner.one_row_predecomp", "xgboost.one_row", "W8", 1.0, "margin"),
        Claim("TreeSHAP of one row at a time", "treeinner.one_row_treeshap", "xgboost.one_row", "W8", None, "margin"),
        Claim("prediction of one row at a time", "treeinner.one_row_predict", "xgboost.one_row", "W8", None, "rows"),
    ]


def _threads():
    jobs = [("W1", "treeinner.scores"), ("W1", "treeinner.errors"), ("W1", "treeinner.predecomp"),
            ("W1", "treeinner.treeshap"), ("W6", "treeinner.scores"), ("W6", "treeinner.errors")]  # fmt: skip
    return [
        Claim(f"two threads, {job.removeprefix('treeinner.')}", job, job, workload, 1 / 1.8, "same", threads=(2, 1))
        for workload, job in jobs
    ]


CLAIMS = [*_w1(), *_depths(), *_other_libraries(), *_large_and_small(), *_threads()]


# -- checks: (largest error, what it may be, why) -------------------------------------------------------------------
def _compared(ours, theirs, relative, why):
    size = float(np.abs(theirs).max(initial=0.0)) or 1.0
    return float(np.abs(ours - theirs).max(initial=0.0)), relative * size, why


def check(kind, ours, theirs, n_rows):
    """Compare two results; `theirs` is the peer's or the reference's."""
    if kind == "same":
        return _compared(ours, theirs, 0.0, "threads change no bit")
    if kind == "counts":
        return _compared(ours, theirs, 0.0, "trees and nodes are counted")
    if kind == "total":
        # theirs = (total, sum of the absolute terms); the library's leaf values are differences of float32 margins.
        return abs(float(ours.sum()) - theirs[0]), 1e-6 * theirs[1], "float32 margins of each tree, relative to |terms|"
    if kind == "permutation":
        # The library's loss is half the squared error; scikit-learn's is the mean squared error of float32 margins.
        return _compared(2 * ours, theirs, 1e-4, "float32 margins, relative to the largest score")
    n = min(len(ours), len(theirs))
    ours, theirs = ours[:n], theirs[:n]
    if kind == "margin":  # attributions against margins
        return _compared(ours.sum(axis=1), theirs if theirs.ndim == 1 else theirs.sum(axis=1), 2e-5, FLOAT32)
    if kind == "contribs":
        columns = min(ours.shape[1], theirs.shape[1])  # some peers do not say the base value
        return _compared(ours[:, :columns], theirs[:, :columns], 1e-4, FLOAT32)
    assert kind == "rows"
    return _compared(ours, theirs, 2e-5, FLOAT32)


FLOAT32 = "the peer adds hundreds of trees in float32, relative to the largest value"
