"""What scikit-learn wraps around a model: taken off without importing scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from treeinner.errors import ModelError, UnsupportedModelError

__all__ = ["Unwrapped", "carried_names", "is_fitted", "package_of", "transform", "unwrap"]

LIBRARIES = ("xgboost", "lightgbm", "catboost", "sklearn")
NOT_FITTED = "is not fitted yet; call fit first"

# Wrappers with one model inside that predicts by itself: class -> attributes that may hold it.
HOLDERS = {
    "TransformedTargetRegressor": ("regressor_",),  # attributions are on the scale of the transformed target
    "FrozenEstimator": ("estimator",),
    "FixedThresholdClassifier": ("estimator_",),  # a threshold on the prediction leaves the margin alone
    "TunedThresholdClassifierCV": ("estimator_",),
}

# Wrappers whose prediction is not the margin of one ensemble: class -> what to do instead.
EACH_FITTED = "Attribute its parts one by one: ti.attribute(part, X) for each part in model.estimators_"
COMBINERS = {
    "CalibratedClassifierCV": (
        "it averages several models behind calibrators. Attribute them one by one: "
        "ti.attribute(part.estimator, X) for each part in model.calibrated_classifiers_"
    ),
    "OneVsRestClassifier": f"it holds one model per class. {EACH_FITTED}",
    "OneVsOneClassifier": f"it holds one model per pair of classes. {EACH_FITTED}",
    "OutputCodeClassifier": f"it holds one model per code bit. {EACH_FITTED}",
    "_MultiOutputEstimator": f"it holds one model per target. {EACH_FITTED}",
    "_BaseChain": (
        "each of its models also sees the earlier targets. Attribute them one by one, "
        "on the columns that each was fitted on"
    ),
    "_BaseVoting": f"it averages or counts the votes of several models. {EACH_FITTED}",
    "_BaseStacking": f"its last model sees the predictions of the others. {EACH_FITTED}",
    "BaseBagging": (
        "it averages models fitted on samples of rows and columns. Attribute them one by one: "
        "ti.attribute(part, X[:, used]) for part, used in zip(model.estimators_, model.estimators_features_)"
    ),
    "BaseWeightBoosting": f"it votes with several models. {EACH_FITTED}",
}


@dataclass(frozen=True, eq=False)
class Unwrapped:
    """The model inside, and the fitted transformers that X passes before it."""

    model: Any
    transformers: tuple[Any, ...]


def package_of(model: Any) -> str:
    """Library whose class the model is or derives from, "" if none; users' subclasses count."""
    for kind in type(model).__mro__:
        package = kind.__module__.split(".")[0]
        if package in LIBRARIES:
            base_only = kind.__module__.startswith(("sklearn.base", "sklearn.utils"))  # a user's own estimator
            return "" if base_only else package
    return ""


def _sklearn_names(model: Any) -> list[str]:
    """Names of the model's classes and bases that scikit-learn or an extension of it defines."""
    extensions = ("sklearn", "imblearn", "skopt", "dask_ml", "optuna_integration")
    return [kind.__name__ for kind in type(model).__mro__ if kind.__module__.split(".")[0] in extensions]


def unwrap(model: Any) -> Unwrapped:
    """Take off pipelines, searches and the like, nested in any order."""
    transformers: list[Any] = []
    while True:
        names = _sklearn_names(model)
        if "Pipeline" in names:
            *steps, (_, last) = model.steps
            transformers += [step for _, step in steps if step is not None and not isinstance(step, str)]
            if last is None or isinstance(last, str):
                raise UnsupportedModelError(
                    f"The last step of the {type(model).__name__} is {last!r}, not a model; "
                    "pass a pipeline that predicts."
                )
            model = last
        elif any(name.endswith("SearchCV") for name in names):
            model = _best(model)
        elif held := next((HOLDERS[name] for name in names if name in HOLDERS), None):
            model = _held(model, held)
        else:
            break
    for name in names:
        if name in COMBINERS:
            raise UnsupportedModelError(f"{type(model).__name__} is not one ensemble of trees: {COMBINERS[name]}.")
    return Unwrapped(model, tuple(transformers))


def _best(search: Any) -> Any:
    if hasattr(search, "best_estimator_"):
        return search.best_estimator_
    if getattr(search, "refit", True) is False:
        raise ModelError(
            f"This {type(search).__name__} has refit=False and so holds no fitted model; "
            "fit it with refit=True, or fit the best estimator and pass that."
        )
    raise ModelError(f"This {type(search).__name__} {NOT_FITTED}.")


def _held(wrapper: Any, attributes: tuple[str, ...]) -> Any:
    for attribute in attributes:
        if hasattr(wrapper, attribute):
            return getattr(wrapper, attribute)
    raise ModelError(f"This {type(wrapper).__name__} {NOT_FITTED}.")


def is_fitted(model: Any) -> bool:
    """Has fit been called? True where that cannot be asked (a Booster, say)."""
    for question in ("__sklearn_is_fitted__", "is_fitted"):
        answer = getattr(model, question, None)
        if callable(answer):
            return bool(answer())
    if not hasattr(model, "get_params") or not hasattr(model, "fit"):
        return True
    # scikit-learn's own rule: fit leaves attributes that end in an underscore
    return any(name.endswith("_") and not name.startswith("__") for name in vars(model))


def transform(transformers: tuple[Any, ...], X: Any) -> Any:
    """X as the model behind the transformers sees it."""
    for step in transformers:
        if hasattr(step, "transform"):
            X = step.transform(X)
        elif not hasattr(step, "fit_resample"):  # imblearn's samplers work in fit alone
            raise UnsupportedModelError(
                f"The pipeline step {type(step).__name__} cannot transform X; pass the model behind it and its own X."
            )
    return X


def carried_names(transformers: tuple[Any, ...]) -> tuple[str, ...] | None:
    """Feature names behind the transformers; None where one of them does not tell."""
    names: Any = None
    for step in transformers:
        if hasattr(step, "fit_resample") and not hasattr(step, "transform"):
            continue
        try:
            names = step.get_feature_names_out(names)
        except (
            AttributeError,
            TypeError,
            ValueError,
        ):  # a transformer that knows no names, or knows other ones
            return None
    return None if names is None else tuple(str(name) for name in names)
