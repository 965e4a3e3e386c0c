"""What the numbers on an axis are: the name and the unit of scores and attributions."""

from __future__ import annotations

from treeinner.attribution import Attribution
from treeinner.scores import Importance

SCORES = {
    "tree_inner": "TreeInner",
    "forest_inner": "ForestInner",
    "total_gain": "total gain",
    "permutation": "permutation",
}
METHODS = {"predecomp": "PreDecomp", "saabas": "Saabas", "treeshap": "TreeSHAP"}
# TreeInner is divided by the learning rate: full steps, as total gain counts them, not the reduction of the loss.
UNITS = {"permutation": "rise of the loss per row", "abs": "margin"}


def attribution_label(attribution: Attribution, output_name: str = "") -> str:
    """Label of an axis of attributions, with the unit."""
    what = f"output {output_name}: " if output_name else ""
    return f"{what}{method_name(attribution.method)} attribution ({attribution.unit})"


def method_name(method: str) -> str:
    """The paper's spelling of a method."""
    return METHODS.get(method, method)


def score_name(importance: Importance) -> str:
    """Name of a score as the paper writes it: "TreeInner(PreDecomp)"."""
    method = method_name(importance.method)
    if importance.score == "abs":
        return f"mean |{method}|"
    name = SCORES.get(importance.score, importance.score)
    return f"{name}({method})" if importance.score in {"tree_inner", "forest_inner"} else name


def score_label(importance: Importance) -> str:
    """Label of an axis of scores, with the unit."""
    name = score_name(importance)
    if importance.output_names is not None and importance.outputs is None:
        name = f"output {importance.output_names[0]}: {name}"
    unit = UNITS.get(importance.score, "gain per row") if importance.n_rows else "of the training rows"
    return f"{name} ({unit})"
