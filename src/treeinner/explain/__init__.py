"""One prediction split over its features.

    attribute   attribute() and Attribution, what comes back
    explainer   TreeExplainer: what users of shap type

Belongs here: attributions of single rows. Does not: sums over rows, targets.
"""

from treeinner.explain.attribute import Attribution, attribute
from treeinner.explain.explainer import TreeExplainer

__all__ = ["Attribution", "TreeExplainer", "attribute"]
