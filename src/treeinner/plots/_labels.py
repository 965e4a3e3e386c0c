"""What the numbers on an axis are: the name and the unit of scores and attributions."""

from __future__ import annotations

from treeinner.attribution import Attribution
from treeinner.scores.result import METHOD_TITLES, Importance


def method_name(method: str) -> str:
    """The paper's spelling of a method."""
    return METHOD_TITLES.get(method, method)


def attribution_label(attribution: Attribution, output_name: str = "") -> str:
    """Label of an axis of attributions, with the unit."""
    what = f"output {output_name}: " if output_name else ""
    return f"{what}{method_name(attribution.method)} attribution ({attribution.unit})"


def score_label(importance: Importance) -> str:
    """Label of an axis of scores, with the unit."""
    one_of_several = importance.output_names is not None and importance.outputs is None
    what = f"output {importance.output_names[0]}: " if one_of_several and importance.output_names else ""
    return f"{what}{importance.title} ({importance.unit})"
