"""Which features to keep: cross-fitted scores, tests that hold, a selector for pipelines.

    folds         models and the rows that they were not fitted on
    cross         cross_importance: row shares of all folds in one Importance
    samplers      a column drawn anew, given the others
    conditional   the test by redrawn columns

Belongs here: what needs more than one model, or scikit-learn. Does not: the score of one model.
"""

from treeinner.selection.cross import CrossFit, cross_fit, cross_importance

__all__ = ["CrossFit", "cross_fit", "cross_importance"]
