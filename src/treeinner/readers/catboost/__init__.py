"""CatBoost models -> Ensemble, by way of the library's own format, .cbm, or of its JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble import Ensemble, NodeValues
from treeinner.errors import MissingDependencyError, ModelError, TreeInnerError, UnsupportedModelError
from treeinner.options import ReadOptions
from treeinner.readers._open import class_names, parse_json
from treeinner.readers._trees import add_up, handed_over, inner_by_depth
from treeinner.readers.catboost import ctr
from treeinner.readers.catboost.cbm import read_cbm
from treeinner.readers.catboost.document import read_json
from treeinner.readers.catboost.trees import Document, Features, Trees, node_values
from treeinner.tables import Schema, Table

__all__ = ["make_table", "read", "read_path"]

RANKING = ("Group", "LambdaMart", "Pair", "Query", "Stochastic", "YetiRank")
UNIT_HESSIAN = {"RMSE", "MultiRMSE"}  # losses whose Newton step divides by the sum of weights


# -- what the package calls ---------------------------------------------------------------------------------
def read(model: Any, options: ReadOptions) -> Ensemble:
    """Read a fitted CatBoost, CatBoostRegressor, CatBoostClassifier or CatBoostRanker.

    `reg_lambda` is the l2 term as it enters a leaf: `l2_leaf_reg` times the mean weight of the training rows. It is
    needed if rows were weighted, for CatBoost stores neither the weights nor their number. Leaf weights that are whole
    numbers, without class weights, are taken for unweighted rows.
    """
    if "CatBoost" not in class_names(model, "catboost"):
        raise UnsupportedModelError(f"A {type(model).__name__} is not a CatBoost model; pass a fitted CatBoost object.")
    return _read(lambda: read_cbm(model._serialize_model()), options)


def read_path(path: Path, options: ReadOptions) -> Ensemble:
    """Read a file written by `save_model`, format="cbm" or "json"; CatBoost need not be installed."""
    data = path.read_bytes()
    if data.startswith(b"CBM1"):
        return _read(lambda: read_cbm(data), options)
    document = parse_json(data, path)
    return _read(lambda: read_json(document), options)


def make_table(model: Any, X: Any, ensemble: Ensemble) -> Table | None:
    """X as the columns of an ensemble with categorical features; None if the ensemble takes X itself.

    `model` is the object, or the path of the file, that the ensemble was read from; X is whatever its
    predict() takes.
    """
    if not ensemble.schema.external:
        return None
    if isinstance(model, str | Path):
        model = _load(Path(model))
    return ctr.leaf_table(model, X, ensemble)


# -- the library's files ------------------------------------------------------------------------------------
def _load(path: Path) -> Any:
    try:
        import catboost
    except ImportError as error:
        raise MissingDependencyError(
            f"Reading {path} needs CatBoost: `pip install catboost`, or save the model with format='json'."
        ) from error
    try:
        with path.open("rb") as file:
            format = "cbm" if file.read(4) == b"CBM1" else "json"
        return catboost.CatBoost().load_model(str(path), format=format)
    except catboost.CatBoostError as error:
        raise ModelError(f"CatBoost cannot load {path}: {error}") from error


# -- the document -------------------------------------------------------------------------------------------
@contextmanager
def _damage_is_a_model_error() -> Iterator[None]:
    try:
        yield
    except TreeInnerError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise ModelError(
            f"This is not a CatBoost model, or a damaged one ({type(error).__name__}: {error}); save it again."
        ) from error


def _read(document: Callable[[], Document], options: ReadOptions) -> Ensemble:
    if options.reg_alpha:
        raise ValueError(
            f"reg_alpha={options.reg_alpha} was given, but CatBoost has no l1 term, only l2_leaf_reg; leave it out."
        )
    with _damage_is_a_model_error():
        found = document()
    options.rates(len(found.trees.start) - 1)  # a wrong number of them is the user's error
    with _damage_is_a_model_error():
        ensemble = _build(found, options)
    return ensemble if options.iteration_range is None else ensemble.slice_rounds(*options.iteration_range)


def _build(document: Document, options: ReadOptions) -> Ensemble:
    features, trees, scale = document.features, document.trees, document.scale
    splits = features.splits
    settings = _Settings.of(document.info)
    columns = _columns(trees, features)
    n_trees, n_outputs = len(trees.start) - 1, trees.value.shape[1]
    value = trees.value if scale == 1 else trees.value * scale
    lam = settings.reg_lambda(trees.weight) if options.reg_lambda is None else options.reg_lambda
    levels = inner_by_depth(trees.left, trees.right, trees.start[:-1])
    cover = add_up(trees.weight.copy(), trees.left, trees.right, levels)
    rates = options.rates(n_trees)
    has_ctr = bool(np.any(splits.look_up(lambda source: source.kind, -1, trees.split) == 2))

    def work_out() -> NodeValues:
        return NodeValues(
            node_values(trees, value, cover, levels, lam),
            needs=() if lam is not None else ("reg_lambda",),
            exactness=settings.exactness(has_ctr),
        )

    external, names, numbered = columns.external, features.names, None
    if external:  # columns are not features; those without names go by CatBoost's own, their numbers
        names, numbered = None, tuple(map(str, range(features.n_features)))
    schema = Schema(n_columns=columns.n_columns, names=names, categorical=columns.categorical, external=external)
    arrays = handed_over(
        tree_start=trees.start,
        tree_output=np.zeros(n_trees, np.int32),
        tree_round=np.arange(n_trees, dtype=np.int32),
        tree_weight=np.full(n_trees, scale),
        tree_rate=np.full(n_trees, settings.learning_rate) if rates is None else rates,
        feature=columns.feature,
        threshold=columns.threshold,
        left=trees.left,
        right=trees.right,
        missing_left=splits.look_up(lambda source: source.missing_left, True, trees.split),
        category_set=columns.category_set,
        value=value,
        cover=cover,
        gain=np.where(trees.split < 0, 0.0, np.nan),  # CatBoost stores no gain
        leaf_id=trees.leaf_id,
        set_start=np.arange(len(columns.set_codes) + 1),
        set_codes=np.array(columns.set_codes, dtype=np.int32),
        base_score=np.broadcast_to(document.bias, (n_outputs,)),
    )
    return Ensemble(
        **arrays,
        schema=schema,
        library="catboost",
        objective=settings.objective,
        objective_params=settings.objective_params(),
        params=settings.params(lam) | columns.params(features.names is not None),
        float32_input=True,
        output_names=settings.output_names(n_outputs),
        feature_names=features.names or numbered,
        column_features=columns.column_features,
        work_out=work_out,
    )


def _columns(trees: Trees, features: Features) -> ctr.Columns:
    if not features.categorical:
        return ctr.plain_columns(features.splits, trees.split, features.n_features)
    # Also if no split is on a category: a table of hashed strings is none of our business.
    if trees.symmetric:
        return ctr.symmetric_columns(features.splits, trees.split, trees.start)
    return ctr.path_columns(features.splits, trees.split, trees.right, trees.start)


# -- how it was trained -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Settings:
    """Training parameters that the file keeps; empty for sums of models."""

    loss: Mapping[str, Any]
    boosting: Mapping[str, Any]
    leaves: Mapping[str, Any]  # tree_learner_options
    data: Mapping[str, Any]
    classes: list[Any]
    task: str

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> _Settings:
        params = info.get("params") or {}
        loss = params.get("loss_function") or info.get("loss_function") or {}
        return cls(
            loss=loss if isinstance(loss, dict) else {"type": str(loss)},
            boosting=params.get("boosting_options") or {},
            leaves=params.get("tree_learner_options") or {},
            data=params.get("data_processing_options") or {},
            classes=list((info.get("class_params") or {}).get("class_names") or []),
            task=str(params.get("task_type", "CPU")),
        )

    @property
    def learning_rate(self) -> float:
        """The float32 that training uses; .cbm has all its digits, JSON ten."""
        return float(np.float32(self.boosting.get("learning_rate", np.nan)))

    @property
    def objective(self) -> str:
        name = str(self.loss.get("type", ""))
        return "" if name.startswith("PythonUserDefined") else name

    def output_names(self, n_outputs: int) -> tuple[str, ...] | None:
        named = self.objective.startswith("MultiClass") and len(self.classes) == n_outputs
        return tuple(map(str, self.classes)) if named else None

    @property
    def class_weights(self) -> list[float]:
        return [float(weight) for weight in self.data.get("class_weights") or []]

    def objective_params(self) -> dict[str, Any]:
        stored = (self.loss.get("params") or {}).items()
        found = {name: _number(text) for name, text in stored if not name.startswith("__")}
        if self.classes:
            found["classes"] = self.classes
        if any(weight != 1 for weight in self.class_weights):
            found["class_weights"] = self.class_weights
        if self.data.get("target_border") is not None:
            found["target_border"] = float(self.data["target_border"])
        return found

    def reg_lambda(self, weight: NDArray[np.float64]) -> float | None:
        """Return the l2 term of a leaf, l2_leaf_reg times the mean weight of rows; None if it is not known."""
        l2 = self.leaves.get("l2_leaf_reg")
        if l2 is None:
            return None
        weighted = any(w != 1 for w in self.class_weights) or not np.array_equal(weight, np.round(weight))
        # CatBoost stores 1e-20 for l2_leaf_reg=0; no mean weight makes that matter.
        return None if weighted and l2 > 1e-12 else float(l2)

    def params(self, lam: float | None) -> dict[str, Any]:
        names = ("l2_leaf_reg", "leaf_estimation_method", "leaf_estimation_iterations", "grow_policy")
        found = {name: self.leaves[name] for name in names if name in self.leaves}
        return found | ({} if lam is None else {"reg_lambda": lam, "reg_alpha": 0.0})

    def exactness(self, has_ctr: bool) -> str:
        """Why the node values are not -rate * G / (H + lam) on the training rows; "exact" if they are."""
        if not self.leaves:
            return "The file does not say how the model was trained (a sum of models, for example)."
        method, steps = (self.leaves.get(f"leaf_estimation_{name}") for name in ("method", "iterations"))
        reasons = []
        if has_ctr:
            reasons.append("training routes rows by ordered target statistics, prediction by the final ones")
        if method not in ("Newton", "Gradient"):
            reasons.append(f"leaves are estimated by the method {method}, not by a gradient step")
        elif steps != 1:
            reasons.append(f"a leaf is the sum of {steps} estimation steps (leaf_estimation_iterations)")
        if method == "Newton" and self.objective not in UNIT_HESSIAN:
            reasons.append("CatBoost stores no hessians, so inner nodes are computed with leaf weights in their place")
        if self.objective.startswith(RANKING):
            reasons.append("leaves of ranking losses have not been checked against their gradients")
        if self.boosting.get("model_shrink_rate"):
            reasons.append("model_shrink_rate scaled down earlier trees after they were fitted")
        if self.boosting.get("langevin") or self.boosting.get("posterior_sampling"):
            reasons.append("Langevin boosting adds noise to the gradients")
        if self.leaves.get("monotone_constraints"):
            reasons.append("monotone constraints change leaves after their estimation")
        if self.task != "CPU":
            reasons.append("the model was trained on a GPU, where the leaf formula has not been checked")
        return "exact" if not reasons else f"Node values are approximate: {'; '.join(reasons)}."


def _number(text: Any) -> Any:
    """Turn a stored loss parameter into a number, or a list of numbers, if it is one."""
    try:
        numbers = [float(part) for part in str(text).split(",")]
    except ValueError:
        return text
    return numbers[0] if len(numbers) == 1 else numbers
