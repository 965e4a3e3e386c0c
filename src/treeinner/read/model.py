"""Model: a fitted model that was read, and the way that X and y take to it. Every other function takes one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import Note, counted
from treeinner.read.trees import Trees

if TYPE_CHECKING:
    from treeinner.losses import Loss
    from treeinner.rows.schema import Schema

__all__ = ["Model", "Told"]

Float = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the user says about a model, checked; None: as the model stores it. It wins over what is stored."""

    objective: Any = None  # name of a loss, Loss, or function (y, margin) -> gradient
    learning_rate: float | tuple[float, ...] | None = None  # one, or one per round
    reg_lambda: float | None = None
    reg_alpha: float | None = None
    iteration_range: tuple[int, int] | None = None
    feature_names: tuple[str, ...] | None = None

    def rates(self, n_rounds: int) -> Float | None:
        """The learning rate of each round: (n_rounds,); None if the user does not say it."""
        if self.learning_rate is None:
            return None
        given = np.asarray(self.learning_rate, np.float64)
        if given.shape not in ((), (n_rounds,)):
            raise ValueError(
                f"learning_rate has {counted(given.size, 'number')}; expected one, or one for each of the "
                f"{n_rounds} boosting rounds of the model."
            )
        return np.broadcast_to(given, (n_rounds,))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Model:
    """A model that was read: its trees, its loss, and what is needed to read its X and y. Made by `read_model`."""

    trees: Trees
    library: str  #: "xgboost", "lightgbm", "catboost" or "sklearn"
    schema: Schema  #: what a table must look like
    loss: Loss | None  #: None: the model does not store it; `loss_needed` says why
    loss_needed: str = ""  #: why the loss is not known and what to pass, where it is not
    feature_names: tuple[str, ...] | None = None  #: (n_features,) what attributions are reported for, as far as known
    output_names: tuple[str, ...] | None = None  #: classes or targets
    classes: Any = None  #: labels of a classifier in the model's order; a list of them per target; None: y is numbers
    target_border: float | None = None  #: CatBoost: y above it is class 1
    transformers: tuple[Any, ...] = ()  #: X passes these (steps of a Pipeline)
    targets: tuple[Callable[[Any], Any], ...] = ()  #: y passes these (TransformedTargetRegressor, label codes)
    class_weight: Any = None  #: weights of rows by label, as the estimator was given; "balanced" needs all rows at once
    route: Callable[[Any], NDArray[Any]] | None = None  #: X -> kernel columns, where only the library can make them
    out_of_bag: Callable[[Any, Any], NDArray[np.bool_]] | None = (
        None  #: (X, y) of training -> (trees, rows) unseen by each tree
    )
    base_margin: Literal["replace", "add"] = "add"  #: what a user's base_margin does to the model's start
    notes: tuple[Note, ...] = ()
    source: Any = field(default=None, repr=False)  #: the library's object, for what is asked of it later

    @property
    def n_features(self) -> int:
        """Number of features that attributions are reported for."""
        return self.trees.n_features

    @property
    def n_outputs(self) -> int:
        """Number of margins per row."""
        return self.trees.n_outputs

    @property
    def n_rounds(self) -> int:
        """Number of boosting rounds."""
        return self.trees.n_rounds

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.trees.n_trees

    def __repr__(self) -> str:
        loss = self.loss.name if self.loss is not None else "loss not stored"
        parts = (
            counted(self.n_trees, "tree"), counted(self.trees.n_nodes, "node"), counted(self.n_features, "feature"),
            counted(self.n_outputs, "output"),
        )  # fmt: skip
        return f"Model({self.library}, {loss}: {', '.join(parts)})"
