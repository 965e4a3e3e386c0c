"""Which loss a library means by which name, and its parameters as the libraries spell and nest them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treeinner.errors import UnknownParameterError, UnsupportedModelError
from treeinner.objectives import classes, losses, ranking, survival
from treeinner.objectives.base import Objective, integers_below

UNSET_PAIRS = 2**32 - 1  # what XGBoost writes for lambdarank_num_pair_per_sample if it was not given
DO_INSTEAD = (
    'pass objective=callable(y, margin) -> gradient, or use ti.importance(model, X, score="abs"), which needs no loss.'
)
REQUIRED = object()


@dataclass(frozen=True)
class Params:
    """What the model stores about its loss."""

    name: str
    values: Mapping[str, Any]
    n_outputs: int = 1
    version: tuple[int, ...] = ()  # of the library; () if unknown

    def raw(self, *names: str, default: Any = REQUIRED) -> Any:
        """Return the first parameter that is there; nested mappings (XGBoost's JSON) are searched too."""
        for place in (self.values, *(v for v in self.values.values() if isinstance(v, Mapping))):
            for name in names:
                if place.get(name) is not None:
                    return place[name]
        if default is REQUIRED:
            raise UnknownParameterError(
                f'{self.name}: the model does not store {names[0]}; pass objective="{self.name}:{names[0]}=...".'
            )
        return default

    def number(self, *names: str, default: Any = REQUIRED) -> float:
        """Return one number."""
        value = self.numbers(*names, default=default)
        if len(value) != 1:
            raise UnknownParameterError(f"{self.name}: {names[0]}={list(value)}, expected one number.")
        return value[0]

    def numbers(self, *names: str, default: Any = REQUIRED) -> list[float]:
        """Return one or more numbers, from a list, a number, or text such as "[0.1, 0.9]" or "0.1,0.9"."""
        value = self.raw(*names, default=default)
        if isinstance(value, str):
            value = [part for part in re.split(r"[,\s]+", value.strip("[]() ")) if part]
        try:
            return [float(v) for v in np.atleast_1d(np.asarray(value)).tolist()]
        except (TypeError, ValueError):
            raise UnknownParameterError(f"{self.name}: {names[0]}={value!r} is not a number.") from None

    def levels(self, *names: str) -> list[float]:
        """Return levels of quantiles or expectiles: one, or one per output."""
        alpha = self.numbers(*names)
        if len(alpha) not in (1, self.n_outputs):
            raise UnknownParameterError(
                f"{self.name}: {names[0]} has {len(alpha)} values, expected one, or one for each output "
                f"of the model ({self.n_outputs})."
            )
        return alpha

    def flag(self, *names: str, default: bool = False) -> bool:
        """Return a yes or no."""
        return str(self.raw(*names, default=default)).lower() in ("true", "1", "1.0", "yes")


Factory = Callable[[Params], Objective]


def _positive_weighted(p: Params, objective: Objective) -> Objective:
    """Add XGBoost's scale_pos_weight: of every row whose label is 1 in float32, whatever the loss."""
    scale = p.number("scale_pos_weight", default=1.0)
    weight = None if scale == 1.0 else lambda y: np.where(np.float32(y) == np.float32(1.0), scale, 1.0)
    return replace(objective, row_weight=weight)


def _smooth_since_3_4(p: Params) -> bool:
    """Whether this XGBoost trains MAE and quantiles by a smooth surrogate."""
    if not p.version:
        raise UnknownParameterError(
            f"{p.name}: XGBoost changed this loss in 3.4, and the model does not store its version; pass "
            'objective="absolute_error" or "quantile:alpha=..." (before 3.4), or "smooth_absolute_error" or '
            '"smooth_quantile:alpha=..." (3.4 and later).'
        )
    return p.version >= (3, 4)


def _xgboost_quantile(p: Params) -> Objective:
    alpha = p.levels("quantile_alpha", "alpha")
    return losses.smooth_quantile(alpha) if _smooth_since_3_4(p) else losses.quantile(alpha)


def _xgboost_expectile(p: Params) -> Objective:
    alpha = p.levels("expectile_alpha", "alpha")
    return losses.expectile(alpha[0]) if len(alpha) == 1 else losses.stacked_expectiles(alpha)


def _xgboost_rank(p: Params) -> Objective:
    if p.version < (3, 0):
        raise UnsupportedModelError(
            f"{p.name} of XGBoost before 3.0 (or of unknown version) pairs rows differently; {DO_INSTEAD}"
        )
    if str(p.raw("lambdarank_pair_method", default="topk")) != "topk":
        raise UnsupportedModelError(f'{p.name} with lambdarank_pair_method="mean" draws its pairs; {DO_INSTEAD}')
    if p.flag("lambdarank_unbiased"):
        raise UnsupportedModelError(f"{p.name} with lambdarank_unbiased learns position biases; {DO_INSTEAD}")
    pairs = p.number("lambdarank_num_pair_per_sample", default=UNSET_PAIRS)
    return ranking.xgboost_rank(
        p.name.removeprefix("rank:"),
        top=32 if pairs >= UNSET_PAIRS else int(pairs),
        norm=p.flag("lambdarank_normalization", default=True),
        score_norm=p.flag("lambdarank_score_normalization", default=True),
        exp_gain=p.flag("ndcg_exp_gain", default=True),
    )


# The names that one library has for one loss stand together.
XGBOOST: dict[str, Factory] = {
    "reg:squarederror reg:linear": lambda p: _positive_weighted(p, losses.squared_error()),
    "reg:squaredlogerror": lambda p: _positive_weighted(p, losses.squared_log_error()),
    "binary:logistic reg:logistic": lambda p: _positive_weighted(p, classes.logistic(domain=losses.ZERO_TO_ONE)),
    "binary:logitraw": lambda p: _positive_weighted(
        p, replace(classes.logistic(domain=losses.ZERO_TO_ONE), link=lambda m: m)
    ),
    "binary:hinge": lambda p: classes.hinge(),
    "reg:pseudohubererror": lambda p: losses.pseudo_huber(p.number("huber_slope", default=1.0)),
    "reg:absoluteerror": lambda p: losses.smooth_absolute_error() if _smooth_since_3_4(p) else losses.absolute_error(),
    "reg:quantileerror": _xgboost_quantile,
    "reg:expectileerror": _xgboost_expectile,
    "count:poisson": lambda p: losses.poisson(p.number("max_delta_step", default=0.7) or 0.7),
    "reg:gamma": lambda p: _positive_weighted(p, losses.gamma()),
    "reg:tweedie": lambda p: losses.tweedie(p.number("tweedie_variance_power")),
    "multi:softmax multi:softprob": lambda p: classes.softmax(p.n_outputs, 2.0),
    "survival:aft": lambda p: survival.aft(
        str(p.raw("aft_loss_distribution")), p.number("aft_loss_distribution_scale", default=1.0)
    ),
    "survival:cox": lambda p: survival.cox(),
    "rank:ndcg rank:map rank:pairwise": _xgboost_rank,
}


def _sqrt(p: Params, objective: Objective) -> Objective:
    """Add LightGBM's reg_sqrt."""
    return losses.on_square_root(objective) if p.flag("reg_sqrt", "sqrt") else objective


def _lightgbm_binary(p: Params) -> Objective:
    positive = p.number("scale_pos_weight", default=1.0)
    weights = p.numbers("label_weights", default=[1.0, positive])
    unbalanced = p.flag("is_unbalance") and p.raw("label_weights", default=None) is None
    scale = p.number("sigmoid", default=1.0)
    return classes.lightgbm_binary(scale, (weights[0], weights[1]), unbalanced=unbalanced)


def _lightgbm_ova(p: Params) -> Objective:
    if p.flag("is_unbalance"):
        raise UnsupportedModelError(
            "LightGBM multiclassova with is_unbalance: the training rows' class counts are not in the model; "
            "pass objective=callable(y, margin) -> gradient, or train with weights instead."
        )
    positive = p.number("scale_pos_weight", default=1.0)
    return classes.one_vs_all(p.n_outputs, p.number("sigmoid", default=1.0), positive)


def _lambdarank(p: Params) -> Objective:
    gain = p.raw("label_gain", default=None)
    return ranking.lambdarank(
        sigmoid=p.number("sigmoid", default=1.0),
        norm=p.flag("lambdarank_norm", default=True),
        truncation_level=int(p.number("lambdarank_truncation_level", default=30)),
        label_gain=p.numbers("label_gain") if gain not in (None, "", []) else None,
    )


LIGHTGBM: dict[str, Factory] = {
    "regression regression_l2 l2 mean_squared_error mse l2_root root_mean_squared_error rmse": lambda p: _sqrt(
        p, losses.squared_error()
    ),
    "regression_l1 l1 mean_absolute_error mae": lambda p: _sqrt(p, losses.absolute_error()),
    "huber": lambda p: losses.huber(p.number("alpha")),
    "fair": lambda p: _sqrt(p, losses.fair(p.number("fair_c"))),
    "poisson": lambda p: losses.poisson(p.number("poisson_max_delta_step", default=0.7)),
    "quantile": lambda p: _sqrt(p, losses.quantile(p.number("alpha"))),
    "mape mean_absolute_percentage_error": lambda p: _sqrt(p, losses.mape()),
    # LightGBM checks gamma's labels as Poisson's: 0 is allowed.
    "gamma": lambda p: losses.gamma(losses.NOT_NEGATIVE),
    "tweedie": lambda p: losses.tweedie(p.number("tweedie_variance_power")),
    "binary": _lightgbm_binary,
    "multiclass softmax": lambda p: classes.softmax(p.n_outputs, p.n_outputs / max(p.n_outputs - 1.0, 1.0)),
    "multiclassova multiclass_ova ova ovr": _lightgbm_ova,
    "cross_entropy xentropy": lambda p: classes.logistic(domain=losses.ZERO_TO_ONE),
    "cross_entropy_lambda xentlambda": lambda p: classes.cross_entropy_lambda(),
    "lambdarank": _lambdarank,
}


def _class_weighted(p: Params, objective: Objective) -> Objective:
    """Add CatBoost's class_weights (scale_pos_weight is short for [1, scale]), in the order of the classes."""
    weights = p.raw("class_weights", default=None)
    if isinstance(weights, Mapping):
        weights = list(weights.values())
    if not weights:
        weights = [1.0, p.number("scale_pos_weight", default=1.0)]
        if weights[1] == 1.0:
            return objective
    table = np.asarray(weights, np.float64)
    return replace(objective, row_weight=lambda y: table[np.asarray(y).reshape(len(y)).astype(np.int64)])


def _catboost_huber(p: Params) -> Objective:
    delta = p.number("delta")
    return replace(losses.huber(delta), hessian=lambda y, m: (np.abs(m - y) < delta).astype(np.float64))


CATBOOST: dict[str, Factory] = {
    "RMSE MultiRMSE": lambda p: losses.squared_error(),
    # CatBoost trains MAE as the 0.5-quantile: half of |r|.
    "MAE": lambda p: losses.quantile(0.5, dead_zone=1e-6),
    "Quantile": lambda p: losses.quantile(p.number("alpha", default=0.5), dead_zone=p.number("delta", default=1e-6)),
    "MultiQuantile": lambda p: losses.quantile(p.levels("alpha"), dead_zone=p.number("delta", default=1e-6)),
    "LogLinQuantile": lambda p: losses.log_linear_quantile(p.number("alpha", default=0.5)),
    "Expectile": lambda p: losses.expectile(p.number("alpha", default=0.5), 2.0),
    "Poisson": lambda p: losses.poisson(),
    "Tweedie": lambda p: losses.tweedie(p.number("variance_power")),
    "MAPE": lambda p: losses.mape(tie=1.0),
    "Lq": lambda p: losses.lq(p.number("q")),
    "Huber": _catboost_huber,
    "LogCosh": lambda p: losses.log_cosh(),
    "Logloss": lambda p: _class_weighted(p, classes.logistic()),
    "MultiLogloss": lambda p: classes.logistic(),
    "CrossEntropy MultiCrossEntropy": lambda p: classes.logistic(domain=losses.ZERO_TO_ONE),
    "MultiClass": lambda p: _class_weighted(p, classes.softmax(p.n_outputs)),
    "MultiClassOneVsAll": lambda p: _class_weighted(p, classes.one_vs_all(p.n_outputs)),
    "Focal": lambda p: classes.focal(p.number("focal_alpha"), p.number("focal_gamma")),
    "QueryRMSE": lambda p: ranking.query_rmse(),
}


def _without_parameters(*factories: Callable[[], Objective]) -> dict[str, Factory]:
    """Losses under the names of the functions that make them."""
    return {make.__name__: lambda p, make=make: make() for make in factories}  # type: ignore[misc]


SKLEARN: dict[str, Factory] = {
    **_without_parameters(losses.squared_error, losses.poisson, losses.gamma, classes.exponential),
    "ls": lambda p: losses.squared_error(),
    "absolute_error lad": lambda p: losses.absolute_error(tie=-1.0),
    "quantile": lambda p: losses.quantile(p.number("quantile", "alpha"), tie="below"),
    "huber": lambda p: losses.quantile_huber(p.number("alpha", "quantile")),
    "log_loss deviance": lambda p: classes.logistic() if p.n_outputs == 1 else classes.softmax(p.n_outputs),
}

# Names that belong to no library; for users who name the loss themselves.
NEUTRAL: dict[str, Factory] = {
    **_without_parameters(losses.squared_error, losses.absolute_error, losses.squared_log_error, losses.mape),
    **_without_parameters(losses.log_cosh, losses.poisson, losses.gamma, losses.smooth_absolute_error),
    **_without_parameters(classes.hinge, classes.exponential),
    "quantile": lambda p: losses.quantile(p.levels("alpha")),
    "expectile": lambda p: losses.expectile(p.number("alpha")),
    "huber": lambda p: losses.huber(p.number("delta", "alpha")),
    "fair": lambda p: losses.fair(p.number("c", "fair_c")),
    "pseudo_huber": lambda p: losses.pseudo_huber(p.number("slope", "huber_slope")),
    "lq": lambda p: losses.lq(p.number("q")),
    "logistic": lambda p: classes.logistic(domain=losses.ZERO_TO_ONE),
    "softmax": lambda p: classes.softmax(p.n_outputs),
    "one_vs_all": lambda p: classes.one_vs_all(p.n_outputs),
    "tweedie": lambda p: losses.tweedie(p.number("rho", "variance_power", "tweedie_variance_power")),
    "smooth_quantile": lambda p: losses.smooth_quantile(p.levels("alpha")),
}

_TABLES = {"xgboost": XGBOOST, "lightgbm": LIGHTGBM, "catboost": CATBOOST, "sklearn": SKLEARN}
LIBRARIES = {
    library: {name: factory for names, factory in table.items() for name in names.split()}
    for library, table in _TABLES.items()
}

# Criteria of scikit-learn's averaged forests and single trees; their gradient is -y whatever the criterion.
FOREST_CRITERIA = {
    "regression": ("squared_error", "absolute_error", "friedman_mse", "poisson", "mse", "mae"),
    "classification": ("gini", "entropy", "log_loss"),
}

REFUSED = {
    **dict.fromkeys(
        ("rank_xendcg", "YetiRank", "YetiRankPairwise", "StochasticRank", "StochasticFilter"),
        "its gradients are random",
    ),
    "PairLogit": "its gradients need the training pairs",
    "PairLogitPairwise": "its gradients need the training pairs",
    "QuerySoftMax": "its gradients need the weights of whole queries",
    "QueryCrossEntropy": "its gradients need a scale fitted per query",
    "LambdaMart": "its gradients need whole queries and the metric's settings",
    "RMSEWithUncertainty": "its two outputs are coupled and trained by natural gradients",
    "Cox": "CatBoost's Cox gradients need all rows in CatBoost's order",
    "SurvivalAft": "CatBoost's survival loss differs from XGBoost's and is not covered",
}


def refusal(library: str, name: str) -> UnsupportedModelError:
    """Return the error for a loss that is not available, with the reason where it is known."""
    reason = REFUSED.get(name)
    if reason:
        return UnsupportedModelError(f"{library} {name}: {reason}; {DO_INSTEAD}")
    return UnsupportedModelError(f"{library or 'objective'} {name!r} is not a loss that treeinner knows; {DO_INSTEAD}")


def known_names() -> list[str]:
    """Every name that `find` knows."""
    return sorted({name for table in (NEUTRAL, *LIBRARIES.values()) for name in table})


def split_name(text: str) -> tuple[str, dict[str, str]]:
    """Split "Quantile:alpha=0.9;delta=1e-6" or LightGBM's "binary sigmoid:1" into name and parameters."""
    name, *words = text.split()
    params = {k: v for k, _, v in (word.partition(":") for word in words)}
    params = {k: v or "true" for k, v in params.items()}
    head, colon, tail = name.rpartition(":")
    if colon and "=" in tail:
        name = head
        params |= {k.strip(): v for k, _, v in (part.partition("=") for part in tail.split(";"))}
    return name, params


def find(params: Params, library: str = "", *, elsewhere: bool = True) -> Objective | None:
    """Look a name up: in its library, then among the neutral names, then in the other libraries."""
    tables = [LIBRARIES.get(library, {})]
    if elsewhere:
        tables += [NEUTRAL, *LIBRARIES.values()]
    for table in tables:
        if params.name in table:
            return replace(table[params.name](params), name=params.name)
    return None


def forest(name: str, n_outputs: int, *, many_targets: bool = False) -> Objective | None:
    """Return what the trees of an averaged scikit-learn forest fit, or None if the criterion is not known."""
    if name in FOREST_CRITERIA["classification"]:
        if not many_targets and n_outputs > 1:
            found = replace(losses.forest(n_outputs), domain=integers_below(n_outputs))
        else:  # of many targets y is the indicators of every target's classes, side by side
            found = replace(losses.forest(), domain=losses.ZERO_OR_ONE, target="real" if many_targets else "binary")
        return replace(found, name=name, unit="probability")
    if name in FOREST_CRITERIA["regression"]:
        return replace(losses.forest(), name=name)
    return None
