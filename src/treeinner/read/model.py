"""Model: a fitted model that was read, and the way that X and y take to it. Every other function takes one."""

from __future__ import annotations

import hashlib
import math
import numbers
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from treeinner import kernels
from treeinner.errors import ModelError, Note, TreeInnerError, UnsupportedModelError, counted, readable
from treeinner.losses import Loss, find_loss, find_stored_loss
from treeinner.read.trees import Trees
from treeinner.read.unwrap import Unwrapped, carried_names, package_of, require_fitted, unwrap
from treeinner.rows.rows import read_table, start_margin
from treeinner.rows.schema import Schema

__all__ = ["DART", "Model", "Told", "loss_of", "read_model", "read_unwrapped"]

Float = NDArray[np.float64]
FoundLoss = tuple[Loss | None, str]

SUPPORTED = (
    "treeinner reads fitted models of XGBoost, LightGBM, CatBoost, treelite and scikit-learn's tree ensembles, also "
    "inside a Pipeline or a search, and model files of the first three (.ubj, .json, .txt, .cbm)"
)
SAVE_AS = "save the model with its library, as .ubj (XGBoost), .txt (LightGBM) or .cbm (CatBoost)"
# How a file begins -> the library that wrote it. In UBJSON a length follows the brace, in JSON a quote or a space.
BEGINNINGS = {
    rb"CBM1": "catboost",
    rb"tree\r?\n": "lightgbm",
    rb"\{[iUIlL$#]": "xgboost",
    rb'(?s)(\xef\xbb\xbf)?\s*\{.*"learner"\s*:': "xgboost",
    rb'(?s)(\xef\xbb\xbf)?\s*\{.*"(features_info|model_info|oblivious_trees|scale_and_bias)"\s*:': "catboost",
}
NOT_HASHED = ("weight", "cover", "gain", "leaf_id", "node_values")  # of the trees: no prediction depends on them


DART = Note(
    "dart",
    "DART does not store which trees a round dropped: gradients are those at the sum of all trees before it.",
)


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
            found = counted(given.size, "number")
            raise ValueError(
                f"learning_rate has {found}; expected one, or one for each of the {n_rounds} boosting rounds."
            )
        return np.broadcast_to(given, (n_rounds,))


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Model:
    """A model that was read: its trees, its loss, and what is needed to read its X and y. Made by `read_model`."""

    trees: Trees
    library: str  #: "xgboost", "lightgbm", "catboost", "sklearn" or "treelite"
    schema: Schema  #: what a table must look like
    #: the loss, or None and why it is not known and what to pass; or how to find it, at its first use
    find_loss: FoundLoss | Callable[[], FoundLoss]
    feature_names: tuple[str, ...] | None = None  #: (n_features,) what attributions are reported for, as far as known
    output_names: tuple[str, ...] | None = None  #: classes or targets
    classes: Any = None  #: labels of a classifier in the model's order; a list of them per target; None: y is numbers
    target_border: float | None = None  #: CatBoost: y above it is class 1
    transformers: tuple[Any, ...] = ()  #: X passes these (steps of a Pipeline)
    targets: tuple[Callable[[Any], Any], ...] = ()  #: y passes these (TransformedTargetRegressor, label codes)
    class_weight: Any = None  #: weights of rows by label, as the estimator was given; "balanced" needs all rows at once
    route: Callable[[Any], NDArray[Any]] | None = None  #: X -> kernel columns, where only the library can make them
    path_only: bool = False  #: these columns tell the splits on a row's own path alone: no TreeSHAP
    #: (X, y) of training -> (trees, rows): which rows a tree did not see
    out_of_bag: Callable[[Any, Any], NDArray[np.bool_]] | None = None
    base_margin: Literal["replace", "add"] = "add"  #: what a user's base_margin does to the model's start
    notes: tuple[Note, ...] = ()
    source: Any = field(default=None, repr=False)  #: the library's object, for what is asked of it later
    origin: Any = field(default=None, repr=False)  #: what it was read from, to read it again; not pickled
    told: Told = field(default_factory=Told)

    @cached_property
    def loss(self) -> Loss | None:
        """The loss that the model was trained with; None: it is not known, and `loss_needed` says what to pass."""
        return (self.find_loss() if callable(self.find_loss) else self.find_loss)[0]

    @property
    def loss_needed(self) -> str:
        """Why the loss is not known, and what to pass; "" where it is."""
        return (self.find_loss() if callable(self.find_loss) else self.find_loss)[1]

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

    def predict(self, X: Any, *, base_margin: Any = None, n_jobs: int | None = -1) -> Float:
        """Raw margin of each row: (rows,), or (rows, outputs) if there are several."""
        table = read_table(self, X)
        start = start_margin(self, base_margin, table.n_rows)
        margin: Float = kernels.predict(self.trees.forest, table, n_jobs=n_jobs) + start
        return margin[:, 0] if self.n_outputs == 1 else margin

    def apply(self, X: Any, *, n_jobs: int | None = -1) -> NDArray[np.int32]:
        """Leaf that each row reaches in each tree, numbered as the library numbers them: (rows, trees)."""
        return kernels.apply(self.trees.forest, read_table(self, X), n_jobs=n_jobs)

    @cached_property
    def digest(self) -> str:
        """Hash of what predictions and scores depend on; a model and its own file have the same."""
        hashed = hashlib.sha256(repr(self.loss and (self.loss.name, self.loss.words)).encode())
        for part in (getattr(self.trees, f.name) for f in fields(Trees) if f.name not in NOT_HASHED):
            hashed.update(part.data if isinstance(part, np.ndarray) else repr(part).encode())
        return hashed.hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without the library's object that the model was read from."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"origin": None}

    def __repr__(self) -> str:
        loss = self.loss.name if self.loss is not None else "loss not stored"
        numbers = {"tree": self.n_trees, "feature": self.n_features, "output": self.n_outputs}
        return f"Model({self.library}, {loss}: {', '.join(counted(n, what) for what, n in numbers.items())})"

    def _repr_html_(self) -> str:
        from treeinner.show.table import model_html  # here: what is shown stands above what is read

        return model_html(self)


def read_model(
    model: Any,
    *,
    objective: Any = None,
    learning_rate: Any = None,
    reg_lambda: float | None = None,
    reg_alpha: float | None = None,
    iteration_range: tuple[int, int] | None = None,
    feature_names: Any = None,
) -> Model:
    """Read a fitted model or a model file; every other function of treeinner takes the result in its place.

    What is said here wins over what the model stores. A Model is taken as it is, or read again if something is said.

    Parameters
    ----------
    model : fitted model, path or Model
        A model of XGBoost, LightGBM, CatBoost, treelite or scikit-learn's tree ensembles, a Pipeline or search around
        one, or a file of the first three, recognised by its content.
    objective : str, Loss or function, optional
        The loss, with its parameters ("quantile:alpha=0.9"), or a function (y, margin) -> gradient for a model that
        was trained with a loss of your own.
    learning_rate : float or one per boosting round, optional
        The learning rate of the training.
    reg_lambda, reg_alpha : float, optional
        l2 and l1 penalty of the leaves (LightGBM: lambda_l2, lambda_l1; CatBoost: l2_leaf_reg).
    iteration_range : (start, stop), optional
        Boosting rounds to use; by default, and with (0, 0), those that the model's own `predict` uses.
    feature_names : sequence of str, optional
        Names to report instead of the model's.

    Returns
    -------
    Model
    """
    told = Told(
        objective=objective,
        learning_rate=None if learning_rate is None else _rates(learning_rate),
        reg_lambda=None if reg_lambda is None else _penalty("reg_lambda", reg_lambda),
        reg_alpha=None if reg_alpha is None else _penalty("reg_alpha", reg_alpha),
        iteration_range=None if iteration_range is None else _range(iteration_range),
        feature_names=None if feature_names is None else _names(feature_names),
    )
    if isinstance(model, Model):
        if told == Told():
            return model
        if model.origin is None:
            raise ValueError(
                "This Model was unpickled or made by hand; read it again from the library's object or file."
            )
        told = replace(model.told, **{name: value for name, value in vars(told).items() if value is not None})
        model = model.origin
    is_file = isinstance(model, (str, os.PathLike))
    found = _read_file(Path(model), told) if is_file else read_unwrapped(unwrap(model), told)
    names = told.feature_names or found.feature_names
    if names is not None and len(names) != found.n_features:
        raise ValueError(f"feature_names has {counted(len(names), 'name')}; the model has {found.n_features} features.")
    return replace(found, feature_names=names, origin=model, told=told)


def read_unwrapped(inside: Unwrapped, told: Told) -> Model:
    """Read a model out of its wrappers."""
    library, kind = package_of(inside.model), type(inside.model)
    if inside.members:
        raise UnsupportedModelError(
            f"{kind.__name__} averages {len(inside.members)} models, which ti.importance alone takes; pass one of them."
        )
    if not library:
        raise UnsupportedModelError(f"Cannot read a model of type {kind.__module__}.{kind.__qualname__}: {SUPPORTED}.")
    require_fitted(inside.model)
    found: Model = import_module(f"treeinner.read.{library}").read(inside.model, told)
    names, labels = found.feature_names or carried_names(inside.transformers), inside.labels
    return replace(
        found,
        feature_names=names if names is not None and len(names) == found.n_features else None,
        output_names=tuple(map(str, labels)) if len(labels) == found.n_outputs else found.output_names,
        transformers=inside.transformers,
        targets=(*inside.targets, *found.targets),
        notes=(*found.notes, *inside.notes),
    )


def loss_of(told: Any, **asked: Any) -> Any:
    """The loss that the user told and "", or how to find the stored one, at its first use: see `find_loss`."""
    return partial(find_stored_loss, **asked) if told is None else (find_loss(told=told, **asked), "")


# -- files ----------------------------------------------------------------------------------------------------------
def _read_file(path: Path, told: Told) -> Model:
    """Read a model file. Whatever goes wrong while it is parsed is a ModelError that names the file."""
    if "\n" in str(path):
        raise ModelError("The model is given as a multi-line string; write it to a file and pass its path.")
    try:
        library = _library_of(path)
        found: Model = import_module(f"treeinner.read.{library}").read_file(path, told)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    except (TreeInnerError, OSError):
        raise
    except Exception as error:  # damage of any kind, or an argument that does not fit the model
        what = f"{type(error).__name__}: {error}"
        raise ModelError(f"{path} cannot be read ({what}); if it is damaged, save the model again.") from error
    return found


def _library_of(path: Path) -> str:
    """Library that wrote a model file, by its content."""
    if path.is_dir():
        raise ModelError("it is a directory; pass the path of one model file.")
    with path.open("rb") as stream:
        head = stream.read(4096)
    if not head:
        raise ModelError("the file is empty; save the model again.")
    for pattern, library in BEGINNINGS.items():
        if re.match(pattern, head):
            return library
    raise ModelError(f"this is not a model file that treeinner can read; {SAVE_AS}.")


# -- what the user says, checked ---------------------------------------------------------------------------------------
def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def _rates(value: Any) -> float | tuple[float, ...]:
    rates = [value] if _is_number(value) else list(value) if np.iterable(value) else []
    if not (rates and all(_is_number(rate) and rate > 0 for rate in rates)):
        raise ValueError(f"learning_rate={value!r}: expected a positive number, or one per boosting round.")
    return float(value) if _is_number(value) else tuple(map(float, rates))


def _penalty(name: str, value: Any) -> float:
    if not (_is_number(value) and value >= 0):
        raise ValueError(f"{name}={value!r}: expected a number that is 0 or positive.")
    return float(value)


def _range(value: Any) -> tuple[int, int] | None:
    pair = list(value) if np.iterable(value) else []
    whole = len(pair) == 2 and all(_is_number(v) and isinstance(v, numbers.Integral) for v in pair)
    if not whole or (pair != [0, 0] and not 0 <= pair[0] < pair[1]):
        raise ValueError(f"iteration_range={value!r}: expected two integers (start, stop) with 0 <= start < stop.")
    return (int(pair[0]), int(pair[1])) if pair[1] else None


def _names(value: Any) -> tuple[str, ...]:
    names = list(value) if np.iterable(value) and not isinstance(value, str) else []
    if not names or not all(isinstance(one, str) for one in names):
        raise ValueError(f"feature_names={value!r}: expected a list of strings, one per feature.")
    if len(set(names)) != len(names):
        raise ValueError(f"feature_names: {max(names, key=names.count)!r} occurs more than once; names must differ.")
    return tuple(map(readable, names))
