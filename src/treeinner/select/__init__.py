"""Which features to keep: cross-fitted scores, tests that hold, a selector for pipelines. It needs scikit-learn.

    folds         data, and the rows that are held out from each model
    fits          an estimator fitted on a fold
    cross         cross_importance: row shares of all folds in one Importance
    samplers      a column drawn anew, given the others
    redraw        scores of redrawn columns, by one model
    conditional   the test by redrawn columns
    collinear     columns so alike that they are tested as one
    selector      TreeInnerSelector, with its cuts and its default estimator

Belongs here: what needs more than one model, or scikit-learn. Does not: the score of one model.
"""

from treeinner.errors import MissingDependencyError

try:
    from treeinner.select.cross import cross_importance
    from treeinner.select.selector import TreeInnerSelector
except ImportError as error:
    if not str(error.name).startswith("sklearn"):
        raise
    raise MissingDependencyError("This needs scikit-learn 1.6 or newer: pip install 'scikit-learn>=1.6'") from error

__all__ = ["TreeInnerSelector", "cross_importance"]
