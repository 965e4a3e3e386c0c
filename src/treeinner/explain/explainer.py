"""TreeExplainer: what shap.TreeExplainer's users type, computed by treeinner."""

from __future__ import annotations

from typing import Any

from treeinner.errors import UnsupportedModelError
from treeinner.explain.attribute import Attribution, Float, attribute
from treeinner.kernels import Progress
from treeinner.read import read_model
from treeinner.read.methods import check_method, node_values

__all__ = ["TreeExplainer"]


class TreeExplainer:
    """Drop-in for `shap.TreeExplainer(model)`: path-dependent TreeSHAP of the margin.

    Parameters
    ----------
    model : fitted model, path or Model
        As for `attribute`.
    data, model_output, feature_perturbation
        For calls written for shap; anything but the path-dependent values of the raw margin is refused.
    method : {"treeshap", "saabas", "predecomp"}
        The attribution.
    n_jobs, progress
        As for `attribute`.
    """

    def __init__(
        self,
        model: Any,
        data: Any = None,
        *,
        model_output: str = "raw",
        feature_perturbation: str = "auto",
        method: str = "treeshap",
        n_jobs: int | None = -1,
        progress: Progress | bool | None = None,
    ) -> None:
        if data is not None or feature_perturbation not in ("auto", "tree_path_dependent") or model_output != "raw":
            raise UnsupportedModelError(
                "Background data (feature_perturbation='interventional') and outputs other than the raw margin are not "
                "supported. Leave data out and use model_output='raw', or use shap.TreeExplainer itself."
            )
        check_method(method)
        self.method = method
        self._model = read_model(model)
        self._n_jobs, self._progress = n_jobs, progress

    @property
    def expected_value(self) -> float | Float:
        """Margin before any feature is known: a number, or one per output."""
        trees = self._model.trees
        base = trees.base + trees.root_sum(node_values(self._model, self.method))
        return float(base[0]) if self._model.n_outputs == 1 else base

    def __repr__(self) -> str:
        return f"TreeExplainer({self.method}: {self._model!r})"

    def _repr_html_(self) -> str:
        return self._model._repr_html_()

    def attribute(self, X: Any, *, approximate: bool = False) -> Attribution:
        """Attribution of every row of X, with names and base values."""
        method = "saabas" if approximate else self.method
        return attribute(self._model, X, method=method, n_jobs=self._n_jobs, progress=self._progress)

    def shap_values(self, X: Any, *, approximate: bool = False, check_additivity: bool = True) -> Float:
        """Attributions, (rows, features) or (rows, features, outputs); `approximate=True` is Saabas.

        They add up to the margin by construction, so `check_additivity` has nothing to do. There is no y, with which
        shap explains the loss: what features do to it is `importance(model, X, y, score="loss")`.
        """
        return self.attribute(X, approximate=approximate).values

    def shap_interaction_values(self, X: Any, y: Any = None) -> Float:
        """Refused: treeinner has no interaction values."""
        raise UnsupportedModelError(
            "treeinner has no SHAP interaction values; use shap.TreeExplainer(model).shap_interaction_values(X). Two "
            "columns that matter together are one score with ti.importance(..., feature_groups={'both': ['a', 'b']})."
        )

    def __call__(
        self, X: Any, *, interactions: bool = False, check_additivity: bool = True, approximate: bool = False
    ) -> Any:
        """`shap.Explanation` of the rows of X, for shap's plots."""
        if interactions:
            self.shap_interaction_values(X)
        return self.attribute(X, approximate=approximate).to_shap()
