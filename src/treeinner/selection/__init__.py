"""Which features to keep: cross-fitted scores, tests that hold, a selector for pipelines.

    folds         rows, and models and the rows that they were not fitted on
    fits          an estimator fitted on a fold
    cross         cross_importance: row shares of all folds in one Importance
    samplers      a column drawn anew, given the others
    redraw        scores of redrawn columns, by one model
    conditional   the test by redrawn columns
    collinear     columns so alike that they are tested as one
    selector      TreeInnerSelector, with its cuts and its default estimator
    getter        scores for scikit-learn's own selectors

Belongs here: what needs more than one model, or scikit-learn. Does not: the score of one model.
"""

from treeinner.selection.collinear import collinear_sets, propose_groups
from treeinner.selection.conditional import Conditional, conditional_test
from treeinner.selection.cross import CrossFit, cross_fit, cross_importance

__all__ = [
    "Conditional",
    "CrossFit",
    "collinear_sets",
    "conditional_test",
    "cross_fit",
    "cross_importance",
    "propose_groups",
]
