"""The two baselines whose spelling differs between the second and the third edition."""

import treeinner as ti

THIRD = hasattr(ti, "forest_inner")


def forest_inner(model, X, y, *, method, against):
    """ForestInner of every feature, per row: (features,)."""
    if THIRD:
        return ti.forest_inner(model, X, y, method=method, against=against).scores
    return ti.importance(model, X, y, score="forest_inner", method=method, against=against, std_errors=False).scores


def mean_abs(model, X, *, method, over):
    """Mean of |attribution| of every feature: (features,)."""
    if THIRD:
        return ti.mean_abs(model, X, method=method, over=over).scores
    return ti.importance(model, X, score="abs", method=method, over=over, std_errors=False).scores
