"""What the numbers on an axis are: the name and the unit of scores and attributions."""

from __future__ import annotations

from treeinner.attribution import Attribution
from treeinner.scores import Importance
from treeinner.scores.result import METHOD_TITLES


def attribution_label(attribution: Attribution, output_name: str = "") -> str:
    """Label of an axis of attributions, with the unit."""
    what = f"output {output_name}: " if output_name else ""
    return f"{what}{method_name(attribution.method)} attribution ({attribution.unit})"


def method_name(method: str) -> str:
    """The paper's spelling of a method."""
    return METHOD_TITLES.get(method, method)


def score_label(importance: Importance) -> str:
    """Label of an axis of scores, with the unit: "TreeInner(PreDecomp): reduction of the loss per row"."""
    label = f"{importance.title}: {importance.unit}"
    if importance.output_names is not None and importance.outputs is None:
        label = f"output {importance.output_names[0]}, {label}"
    return label
