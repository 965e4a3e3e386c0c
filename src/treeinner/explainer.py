"""TreeExplainer: what shap.TreeExplainer's users type, computed by treeinner."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner import tables
from treeinner.attribution import METHODS, Attribution, attribute, node_values, root_values
from treeinner.errors import UnsupportedModelError
from treeinner.model import open_model
from treeinner.options import ReadOptions

__all__ = ["TreeExplainer"]

FloatArray = NDArray[np.float64]
READING = ("iteration_range", "learning_rate", "reg_lambda", "reg_alpha")


class TreeExplainer:
    """Drop-in for `shap.TreeExplainer(model)`: path-dependent TreeSHAP of the margin.

    Parameters
    ----------
    model : fitted model, path or Ensemble
        As for `attribute`.
    data, model_output, feature_perturbation
        For calls written for shap; anything but the path-dependent values of the raw margin is refused.
    feature_names : sequence of str, optional
        Names to report instead of the model's.
    method : {"treeshap", "saabas", "predecomp"}
        The attribution.
    **options
        Of `attribute`: iteration_range, learning_rate, reg_lambda, reg_alpha, n_jobs, progress.
    """

    def __init__(
        self,
        model: Any,
        data: Any = None,
        *,
        model_output: str = "raw",
        feature_perturbation: str = "auto",
        feature_names: Any = None,
        method: str = "treeshap",
        **options: Any,
    ) -> None:
        if data is not None or feature_perturbation not in ("auto", "tree_path_dependent"):
            raise UnsupportedModelError(
                "TreeExplainer with background data (feature_perturbation='interventional') is not supported: "
                "treeinner computes the path-dependent values. Leave data out, or use shap.TreeExplainer itself."
            )
        if model_output != "raw":
            raise UnsupportedModelError(
                f"model_output={model_output!r} is not supported: treeinner explains the raw margin, where "
                "attributions add up. Use model_output='raw', or shap.TreeExplainer itself."
            )
        if method not in METHODS:
            raise ValueError(f"method={method!r} is not known; choose one of {', '.join(map(repr, METHODS))}.")
        reading = {k: options.pop(k) for k in tuple(options) if k in READING}
        opened = open_model(model, ReadOptions(**reading))
        self.method = method
        self.feature_names = None if feature_names is None else tuple(map(str, feature_names))
        self._options = options
        self._model = opened

    @property
    def expected_value(self) -> float | FloatArray:
        """Margin before any feature is known: a number, or one per output."""
        e = self._model.ensemble
        base: FloatArray = (e.base_values(1, None) + root_values(e, node_values(e, self.method)))[0]
        return float(base[0]) if e.n_outputs == 1 else base

    def attribute(self, X: Any, *, approximate: bool = False) -> Attribution:
        """Attribution of every row of X, for treeinner's own plots."""
        method = "saabas" if approximate else self.method
        made = attribute(self._model, X, method=method, **self._options)
        return made if self.feature_names is None else _renamed(made, self.feature_names)

    def shap_values(
        self, X: Any, y: Any = None, *, approximate: bool = False, check_additivity: bool = True
    ) -> FloatArray:
        """Attributions, (rows, features) or (rows, features, outputs); `approximate=True` is Saabas.

        They add up to the margin by construction, so `check_additivity` has nothing to do.
        """
        _refuse_labels(y)
        return self.attribute(X, approximate=approximate).values

    def __call__(
        self,
        X: Any,
        y: Any = None,
        *,
        interactions: bool = False,
        check_additivity: bool = True,
        approximate: bool = False,
    ) -> Any:
        """`shap.Explanation` of the rows of X, for shap's plots."""
        _refuse_labels(y)
        if interactions:
            raise UnsupportedModelError(
                "interactions=True is not supported; use shap.TreeExplainer(model)(X, interactions=True)."
            )
        return self.attribute(X, approximate=approximate).to_shap()


def _refuse_labels(y: Any) -> None:
    if y is not None:
        raise UnsupportedModelError(
            "y= (attributions of the loss) is not supported; what features do to the loss is "
            "ti.importance(model, X, y)."
        )


def _renamed(attribution: Attribution, names: tuple[str, ...]) -> Attribution:
    if len(names) != len(attribution.feature_names):
        raise ValueError(
            f"feature_names has {len(names)} names, but the model has {len(attribution.feature_names)} features."
        )
    data = attribution.data
    if data is not None:  # under its old names the data could not be found again
        data = tables.to_array(data, attribution.feature_names)
    return replace(attribution, feature_names=names, data=data)
