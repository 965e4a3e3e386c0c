"""Which loss a library means by which name, and its parameters as the libraries spell and nest them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from treeinner.errors import UnknownParameterError, UnsupportedModelError
from treeinner.losses import classes, ranking, regression, survival
from treeinner.losses.loss import Loss, integers_below

UNSET_PAIRS = 2**32 - 1  # what XGBoost writes for lambdarank_num_pair_per_sample if it was not given
DO_INSTEAD = (
    "pass read_model(model, objective=callable(y, margin) -> gradient), or use ti.mean_abs, which needs no loss."
)
REQUIRED = object()


@dataclass(frozen=True)
class Params:
    """Parameters of a loss: those that the user told win over those that the model stores."""

    name: str
    stored: Mapping[str, Any]
    told: Mapping[str, Any] = field(default_factory=dict)
    n_outputs: int = 1
    version: tuple[int, ...] = ()  # of the library; () if unknown
    asked: set[str] = field(default_factory=set)  # names that the loss has asked for so far

    def raw(self, *names: str, default: Any = REQUIRED) -> Any:
        """Return the first parameter that is there."""
        self.asked.update(names)
        for place in (self.told, self.stored):
            for name in names:
                if place.get(name) is not None:
                    return place[name]
        if default is REQUIRED:
            raise UnknownParameterError(
                f"{self.name}: {names[0]} is not stored; pass read_model(..., objective='{self.name}:{names[0]}=...')."
            )
        return default

    def number(self, *names: str, default: Any = REQUIRED) -> float:
        """Return one number."""
        return self.numbers(*names, sizes=(1,), default=default)[0]

    def levels(self, *names: str, default: Any = REQUIRED) -> list[float]:
        """Return levels of quantiles or expectiles: one, or one per output."""
        return self.numbers(*names, sizes=(1, self.n_outputs), default=default)

    def numbers(self, *names: str, sizes: Collection[int], default: Any = REQUIRED) -> list[float]:
        """Return so many numbers, from a list, a number, or text such as "[0.1, 0.9]" or "0.1,0.9"."""
        value = self.raw(*names, default=default)
        if isinstance(value, str):
            value = [part for part in re.split(r"[,\s]+", value.strip("[]() ")) if part]
        try:
            found = [float(v) for v in np.atleast_1d(np.asarray(value)).tolist()]
        except (TypeError, ValueError):
            raise UnknownParameterError(f"{self.name}: {names[0]}={value!r} is not a number.") from None
        if len(found) not in sizes:
            wanted = " or ".join(str(size) for size in sorted(set(sizes)) if size)
            raise UnknownParameterError(f"{self.name}: {names[0]}={found}, expected {wanted} of them for this model.")
        return found

    def flag(self, *names: str, default: bool = False) -> bool:
        """Return a yes or no."""
        return str(self.raw(*names, default=default)).lower() in ("true", "1", "1.0", "yes")


Factory = Callable[[Params], Loss]
_cross_entropy = partial(classes.logistic, domain=regression.ZERO_TO_ONE)


def _positive_weighted(p: Params, loss: Loss) -> Loss:
    """Add XGBoost's scale_pos_weight: of every row whose label is 1 in float32, whatever the loss."""
    scale = p.number("scale_pos_weight", default=1.0)
    if scale == 1.0:
        return loss
    loss = loss if p.n_outputs == 1 else replace(loss, core=None)  # which has no weights of single targets
    return classes.class_weighted(loss, [1.0, scale], lambda y: np.where(np.float32(y) == np.float32(1.0), scale, 1.0))


def _class_weights(p: Params, name: str) -> list[float]:
    """Weights of the classes in their order, of which scale_pos_weight is short for [1, scale]."""
    weights = p.numbers(name, sizes=(0, max(2, p.n_outputs)), default=[])
    positive = p.number("scale_pos_weight", default=1.0)
    return weights if weights and "scale_pos_weight" not in p.told else [1.0, positive]


def _since_3_4(p: Params, name: str, *parameters: Any) -> Loss:
    """XGBoost's absolute error and quantiles, which became smooth surrogates."""
    if not p.version:
        raise UnknownParameterError(
            f"{p.name} changed in XGBoost 3.4, and the version is not stored; pass objective='absolute_error', "
            "'quantile:alpha=...', or, of 3.4, 'smooth_absolute_error', 'smooth_quantile:alpha=...'."
        )
    made: Loss = getattr(regression, f"smooth_{name}" if p.version >= (3, 4) else name)(*parameters)
    return made


def _xgboost_rank(p: Params) -> Loss:
    """XGBoost's losses of pairs of rows."""
    drawn = str(p.raw("lambdarank_pair_method", default="topk")) != "topk"
    if p.version < (3, 0) or drawn or p.flag("lambdarank_unbiased"):
        raise UnsupportedModelError(f"{p.name} needs XGBoost 3, 'topk' pairs and no position biases; {DO_INSTEAD}")
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
    "reg:squarederror reg:linear": lambda p: _positive_weighted(p, regression.squared_error()),
    "reg:squaredlogerror": lambda p: _positive_weighted(p, regression.squared_log_error()),
    "binary:logistic reg:logistic": lambda p: _positive_weighted(p, _cross_entropy()),
    "binary:logitraw": lambda p: _positive_weighted(p, replace(_cross_entropy(), link=np.asarray)),
    "binary:hinge": lambda p: classes.hinge(),
    "reg:pseudohubererror": lambda p: regression.pseudo_huber(p.number("huber_slope", default=1.0)),
    "reg:absoluteerror": lambda p: _since_3_4(p, "absolute_error"),
    "reg:quantileerror": lambda p: _since_3_4(p, "quantile", p.levels("quantile_alpha", "alpha")),
    "reg:expectileerror": lambda p: regression.expectiles(p.levels("expectile_alpha", "alpha")),
    "count:poisson": lambda p: regression.poisson(),
    "reg:gamma": lambda p: _positive_weighted(p, regression.gamma()),
    "reg:tweedie": lambda p: regression.tweedie(p.number("tweedie_variance_power")),
    "multi:softmax multi:softprob": lambda p: classes.softmax(p.n_outputs),
    "survival:aft": lambda p: survival.aft(
        str(p.raw("aft_loss_distribution")), p.number("aft_loss_distribution_scale", default=1.0)
    ),
    "survival:cox": lambda p: survival.cox(),
    "rank:ndcg rank:map rank:pairwise": _xgboost_rank,
}


def _sqrt(p: Params, loss: Loss) -> Loss:
    """Add LightGBM's reg_sqrt."""
    return regression.on_square_root(loss) if p.flag("reg_sqrt", "sqrt") else loss


def _lightgbm_binary(p: Params) -> Loss:
    """LightGBM's binary loss; with is_unbalance its weights are those of the training rows, never of others."""
    negative, positive = _class_weights(p, "label_weights")  # as training found them
    known = p.raw("label_weights", default=[]) or "scale_pos_weight" in p.told
    if p.flag("is_unbalance") and not known:
        raise UnknownParameterError(
            "LightGBM is_unbalance=True: class weights are not stored; pass read_model(model, objective=...), as in "
            "'binary:scale_pos_weight=5.8', negative over positive rows; if below 1, 'binary:label_weights=[1.7,1]'."
        )
    return classes.lightgbm_binary(p.number("sigmoid", default=1.0), (negative, positive))


def _lightgbm_ova(p: Params) -> Loss:
    """LightGBM's one-vs-all."""
    if p.flag("is_unbalance"):
        raise UnsupportedModelError(f"multiclassova with is_unbalance stores no class weights; {DO_INSTEAD}")
    positive = p.number("scale_pos_weight", default=1.0)
    return classes.one_vs_all(p.n_outputs, p.number("sigmoid", default=1.0), positive)


def _lambdarank(p: Params) -> Loss:
    """LightGBM's lambdarank."""
    return ranking.lambdarank(
        sigmoid=p.number("sigmoid", default=1.0),
        norm=p.flag("lambdarank_norm", default=True),
        truncation_level=int(p.number("lambdarank_truncation_level", default=30)),
        label_gain=p.numbers("label_gain", sizes=range(10_000), default=[]),
    )


LIGHTGBM: dict[str, Factory] = {
    "regression regression_l2 l2 mean_squared_error mse l2_root root_mean_squared_error rmse": lambda p: _sqrt(
        p, regression.squared_error()
    ),
    "regression_l1 l1 mean_absolute_error mae": lambda p: _sqrt(p, regression.absolute_error()),
    "huber": lambda p: regression.huber(p.number("alpha")),
    "fair": lambda p: _sqrt(p, regression.fair(p.number("fair_c"))),
    "poisson": lambda p: regression.poisson(),
    "quantile": lambda p: _sqrt(p, regression.quantile(p.number("alpha"))),
    "mape mean_absolute_percentage_error": lambda p: _sqrt(p, regression.mape()),
    # LightGBM checks gamma's labels as Poisson's: 0 is allowed.
    "gamma": lambda p: regression.gamma(regression.NOT_NEGATIVE),
    "tweedie": lambda p: regression.tweedie(p.number("tweedie_variance_power")),
    "binary": _lightgbm_binary,
    "multiclass softmax": lambda p: classes.softmax(p.n_outputs),
    "multiclassova multiclass_ova ova ovr": _lightgbm_ova,
    "cross_entropy xentropy": lambda p: _cross_entropy(),
    "cross_entropy_lambda xentlambda": lambda p: classes.cross_entropy_lambda(),
    "lambdarank": _lambdarank,
}


def _class_weighted(p: Params, loss: Loss) -> Loss:
    """Add CatBoost's class_weights."""
    table = np.asarray(weights := _class_weights(p, "class_weights"), np.float64)
    return classes.class_weighted(loss, weights, lambda y: table[np.asarray(y).reshape(len(y)).astype(np.int64)])


CATBOOST: dict[str, Factory] = {
    "RMSE MultiRMSE": lambda p: regression.squared_error(),
    # Trained as the 0.5-quantile: half of |r|.
    "MAE": lambda p: replace(regression.quantile(0.5, dead_zone=1e-6), words="half the absolute error"),
    "Quantile MultiQuantile": lambda p: regression.quantile(
        p.levels("alpha", default=0.5), dead_zone=p.number("delta", default=1e-6)
    ),
    "LogLinQuantile": lambda p: regression.log_linear_quantile(p.number("alpha", default=0.5)),
    "Expectile": lambda p: regression.expectile(p.number("alpha", default=0.5), 2.0),
    "Poisson": lambda p: regression.poisson(),
    "Tweedie": lambda p: regression.tweedie(p.number("variance_power")),
    "MAPE": lambda p: regression.mape(tie=1.0),
    "Lq": lambda p: regression.lq(p.number("q")),
    "Huber": lambda p: regression.huber(p.number("delta")),
    "LogCosh": lambda p: regression.log_cosh(),
    "Logloss": lambda p: _class_weighted(p, classes.logistic()),
    "MultiLogloss": lambda p: classes.logistic(),
    "CrossEntropy MultiCrossEntropy": lambda p: _cross_entropy(),
    "MultiClass": lambda p: _class_weighted(p, classes.softmax(p.n_outputs)),
    "MultiClassOneVsAll": lambda p: _class_weighted(p, classes.one_vs_all(p.n_outputs)),
    "Focal": lambda p: classes.focal(p.number("focal_alpha"), p.number("focal_gamma")),
    "QueryRMSE": lambda p: ranking.query_rmse(),
}


def _without_parameters(*factories: Callable[[], Loss]) -> dict[str, Factory]:
    """Losses under the names of the functions that make them."""
    return {make.__name__: lambda p, make=make: make() for make in factories}  # type: ignore[misc]


SKLEARN: dict[str, Factory] = {
    **_without_parameters(regression.squared_error, regression.poisson, regression.gamma, classes.exponential),
    "absolute_error": lambda p: regression.absolute_error(tie=-1.0),
    "quantile": lambda p: regression.quantile(p.number("quantile", "alpha"), tie="below"),
    "huber": lambda p: regression.quantile_huber(p.number("alpha", "quantile")),
    "log_loss": lambda p: classes.logistic() if p.n_outputs == 1 else classes.softmax(p.n_outputs),
}


def _forest_of_classes(p: Params) -> Loss:
    """Indicators of the classes; of many targets y is those of every target's classes, side by side."""
    if p.n_outputs > 1 and not p.flag("many_targets"):
        return replace(regression.forest(p.n_outputs), unit="probability", domain=integers_below(p.n_outputs))
    fields: dict[str, Any] = {"domain": regression.ZERO_OR_ONE, "words": "Gini impurity", "unit": "probability"}
    return replace(regression.forest(), target="real" if p.flag("many_targets") else "binary", **fields)


# Criteria of scikit-learn's averaged forests and single trees; their gradient is -y whatever the criterion.
FOREST: dict[str, Factory] = {
    "squared_error absolute_error friedman_mse poisson mse mae": lambda p: regression.forest(),
    "gini entropy log_loss": _forest_of_classes,
}

# Postprocessors of treelite, where they tell the loss: of averages, and of other classifiers.
TREELITE: dict[str, Factory] = {
    "identity": lambda p: regression.forest(),
    "identity_multiclass": _forest_of_classes,
    "sigmoid": lambda p: classes.logistic(p.number("sigmoid")),
    "softmax": lambda p: classes.softmax(p.n_outputs),
    "multiclass_ova": lambda p: classes.one_vs_all(p.n_outputs, p.number("sigmoid")),
    "hinge": lambda p: classes.hinge(),
}

# Names that belong to no library; for users who name the loss themselves.
NEUTRAL: dict[str, Factory] = {
    **_without_parameters(regression.absolute_error, regression.smooth_absolute_error, classes.hinge),
    "quantile": lambda p: regression.quantile(p.levels("alpha")),
    "smooth_quantile": lambda p: regression.smooth_quantile(p.levels("alpha")),
    "logistic": lambda p: _cross_entropy(),
    "softmax": lambda p: classes.softmax(p.n_outputs),
    "one_vs_all": lambda p: classes.one_vs_all(p.n_outputs),
}

OWN = {
    "xgboost": XGBOOST, "lightgbm": LIGHTGBM, "catboost": CATBOOST, "sklearn": SKLEARN, "sklearn forest": FOREST,
    "treelite": TREELITE,
}  # fmt: skip
LIBRARIES = {
    library: {name: factory for names, factory in table.items() for name in names.split()}
    for library, table in OWN.items()
}
TABLES = (NEUTRAL, *(LIBRARIES[library] for library in ("xgboost", "lightgbm", "catboost", "sklearn")))


def split_name(text: str) -> tuple[str, dict[str, str]]:
    """Split "Quantile:alpha=0.9;delta=1e-6" into name and parameters."""
    name, colon, tail = text.rpartition(":")
    if not colon or "=" not in tail:
        return text, {}
    return name, {key.strip(): value for key, _, value in (part.partition("=") for part in tail.split(";"))}


def find(params: Params, tables: Iterable[Mapping[str, Factory]]) -> Loss | None:
    """Look a name up in some tables."""
    for table in tables:
        if params.name in table:
            found = replace(table[params.name](params), name=params.name)
            if unknown := [name for name in params.told if name not in params.asked]:
                known = f"it takes {', '.join(sorted(params.asked)) or 'no parameters'}"
                raise UnknownParameterError(f"objective={params.name!r} has no parameter {unknown[0]!r}; {known}.")
            return found
    return None
