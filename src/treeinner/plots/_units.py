"""What the numbers on an axis are: the name of a score, and the unit of a loss, a margin or an attribution."""

from __future__ import annotations

from typing import Any

from treeinner.attribution import Attribution
from treeinner.model import open_model
from treeinner.objectives.catalogue import split_name
from treeinner.scores import Importance

__all__ = ["attribution_label", "attribution_unit", "margin_unit", "method_name", "score_label", "score_name"]

SCORES = {
    "tree_inner": "TreeInner",
    "forest_inner": "ForestInner",
    "total_gain": "total gain",
    "permutation": "permutation",
}
METHODS = {"predecomp": "PreDecomp", "saabas": "Saabas", "treeshap": "TreeSHAP"}

LOG_ODDS = (
    "reg:logistic binary:logistic binary:logitraw multi:softmax multi:softprob "
    "binary cross_entropy xentropy multiclass softmax multiclassova multiclass_ova ova ovr "
    "Logloss CrossEntropy MultiLogloss MultiCrossEntropy MultiClass MultiClassOneVsAll Focal "
    "log_loss deviance"
)
LOG = "count:poisson reg:gamma reg:tweedie poisson gamma tweedie Poisson Tweedie LogLinQuantile"
TARGET = (
    "reg:squarederror reg:linear reg:pseudohubererror reg:absoluteerror reg:quantileerror "
    "regression regression_l2 l2 mean_squared_error mse l2_root root_mean_squared_error rmse regression_l1 l1 "
    "mean_absolute_error mae huber fair quantile mape mean_absolute_percentage_error "
    "RMSE MultiRMSE MAE Quantile MultiQuantile Expectile MAPE Lq Huber LogCosh "
    "squared_error ls absolute_error lad friedman_mse"
)
UNITS = {
    **dict.fromkeys(LOG_ODDS.split(), "log-odds"),
    **dict.fromkeys(LOG.split(), "log of the prediction"),
    **dict.fromkeys(TARGET.split(), "units of the target"),
    "survival:cox": "log hazard ratio",
    "survival:aft": "log of the survival time",
}
FOREST_UNITS = {"gini": "probability", "entropy": "probability", "log_loss": "probability"}


def margin_unit(model: Any) -> str:
    """Unit of the margin of a model, for `unit=` of the plots: "log-odds", "units of the target", ..., or "margin".

    Parameters
    ----------
    model : fitted model, path or Ensemble
        As for `attribute`.
    """
    e = open_model(model).ensemble
    name, params = split_name(e.objective) if e.objective else ("", {})
    params = {**e.objective_params, **params}
    if e.averaged and e.library == "sklearn":
        return FOREST_UNITS.get(name, "units of the target")
    # A sigmoid of another slope, or a root of the target, is in nobody's units.
    bent = float(params.get("sigmoid", 1.0)) != 1.0 or str(params.get("reg_sqrt", params.get("sqrt", 0))) in {
        "1",
        "true",
        "True",
    }
    return "margin" if bent else UNITS.get(name, "margin")


def attribution_unit(attribution: Attribution, unit: str | None) -> str:
    """Unit that the user said, else the one that the attribution knows, else "margin"."""
    return unit or getattr(attribution, "unit", "") or "margin"


def attribution_label(attribution: Attribution, unit: str | None, output_name: str = "") -> str:
    """Label of an axis of attributions, with the unit."""
    what = f"output {output_name}: " if output_name else ""
    return f"{what}{method_name(attribution.method)} attribution ({attribution_unit(attribution, unit)})"


def method_name(method: str) -> str:
    """The paper's spelling of a method."""
    return METHODS.get(method, method)


def score_name(importance: Importance) -> str:
    """Name of a score as the paper writes it: "TreeInner(PreDecomp)"."""
    method = method_name(importance.method)
    if importance.score == "abs":
        return f"|{method}|"
    name = SCORES.get(importance.score, importance.score)
    return f"{name}({method})" if importance.score in {"tree_inner", "forest_inner"} else name


def score_label(importance: Importance, *, per_row: bool) -> str:
    """Label of an axis of scores, with the unit."""
    name, n = score_name(importance), f"sum over {importance.n_rows:,} rows"
    if importance.output_names is not None and importance.outputs is None:
        name = f"output {importance.output_names[0]}: {name}"
    if importance.n_rows == 0:  # as the model stores it
        return f"{name} (of the training rows)"
    if importance.score == "abs":
        return f"mean {name} (margin)" if per_row else f"{name} (margin, {n})"
    # TreeInner is divided by the learning rate: full steps, as total gain counts them, not the loss that was saved.
    unit = "rise of the loss" if importance.score == "permutation" else "gain"
    return f"{name} ({unit} per row)" if per_row else f"{name} ({unit}, {n})"
