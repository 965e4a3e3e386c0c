"""Objective: one loss as plain functions of a target and a margin.

Shapes inside a loss: the margin is (rows, outputs). The target depends on `target`:

    real, binary   (rows, 1) or (rows, outputs); broadcast against the margin
    class          (rows,) integer codes 0 .. outputs - 1
    interval       (rows, 2): lower and upper end
    any            as it came (a user's own gradient)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeinner.errors import DataError, UnsupportedModelError
from treeinner.objectives import quadrature

FloatArray = NDArray[np.float64]
Target = Literal["real", "binary", "class", "interval", "any"]
Scope = Literal["row", "round", "query", "data"]
CoreLoss = Literal["squared", "logistic", "poisson", "softmax"]


@dataclass(frozen=True)
class Domain:
    """Which targets a loss is defined for."""

    contains: Callable[[FloatArray], NDArray[np.bool_]]  #: whether each target is in the domain
    description: str  #: in words, after "it must be"


ANY = Domain(np.isfinite, "a finite number")


def between(low: float, high: float, description: str, *, open_low: bool = False) -> Domain:
    """Targets with low <= y <= high (low < y if `open_low`), finite."""
    return Domain(lambda y: np.isfinite(y) & ((y > low) if open_low else (y >= low)) & (y <= high), description)


def integers_below(n: int) -> Domain:
    """Class codes 0 .. n - 1."""
    return Domain(lambda y: (y >= 0) & (y < n) & (y == np.floor(y)), f"a class number from 0 to {n - 1}")


def sigmoid(x: FloatArray) -> FloatArray:
    """Logistic function; relatively precise for very negative x too."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def one_hot(codes: NDArray[Any], n: int) -> FloatArray:
    """Return the indicator of each row's class: (rows, n)."""
    return np.asarray(codes[:, None] == np.arange(n), np.float64)


def entropy(y: FloatArray) -> FloatArray:
    """Least cross-entropy of a label between 0 and 1: 0 where it is 0 or 1."""
    return -x_log_x(y) - x_log_x(1.0 - y)


def x_log_x(x: FloatArray) -> FloatArray:
    """Return x log x, which is 0 at 0."""
    return x * np.log(np.where(x > 0.0, x, 1.0))


def identity(margin: FloatArray) -> FloatArray:
    """Link of the losses whose prediction is the margin."""
    return margin


def through(parts: Callable[..., tuple[Any, ...]], *functions: Any) -> Any:
    """Functions of (y, margin, *state) from functions of `parts(y, margin)` and the state; None stays None."""
    return (f and (lambda y, m, *state, f=f: f(*parts(y, m), *state)) for f in functions)


@dataclass(frozen=True, eq=False)
class Compiled:
    """A loss that the compiled core knows."""

    kind: CoreLoss
    gradient: Callable[..., FloatArray]  # the function it stands for
    scale: float = 1.0  # of the margin
    target: Callable[[FloatArray], FloatArray] | None = None  # y as the core needs it; None: as it is


@dataclass(frozen=True, eq=False)
class Objective:
    """A loss: its value, gradient and hessian per row, its link, and the targets it is defined for.

    The functions take `(y, margin)`; if `scope` is not "row" they take a third argument: the state of the
    round ("round"), the query of each row ("query"), or None ("data": all rows at once).
    """

    name: str  #: as the library calls it
    value: Callable[..., FloatArray] | None  #: loss of every row and output; None if only the gradient is known
    gradient: Callable[..., FloatArray]  #: d value / d margin: (rows, outputs)
    hessian: Callable[..., FloatArray] | None = None  #: what the library sums as hessian; not always the derivative
    link: Callable[[FloatArray], FloatArray] = identity  #: margin -> prediction
    domain: Domain = ANY  #: targets it is defined for
    target: Target = "real"  #: what a target is: a number, one of two, a class, an interval
    shared_target: bool = False  #: every output is fitted to the same column (several quantiles)
    scope: Scope = "row"  #: what the gradient of a row needs: itself, a number per round, its query, all rows
    #: the number that a round shares
    state: Callable[[FloatArray, FloatArray, FloatArray | None], FloatArray] | None = None
    row_weight: Callable[[NDArray[Any]], FloatArray] | None = None  #: weight that the loss itself gives a row
    multiplies_weights: bool = True  #: False: weights enter in another way, and are refused
    #: value and gradient where weights do not simply multiply
    weighted_value: Callable[[FloatArray, FloatArray, FloatArray], FloatArray] | None = None
    weighted_gradient: Callable[[FloatArray, FloatArray, FloatArray], FloatArray] | None = None
    coupled: bool = False  #: whether the loss of one output depends on the margins of others
    #: loss of a perfect prediction, from y, in the shape of the value; None if there is none
    least: Callable[[Any], FloatArray] | None = None
    steepest: float | None = None  #: largest `|gradient|` of a row, whatever the margin; None if there is none
    compiled: Compiled | None = None  #: the same gradient in the core
    unit: str = "margin"  #: what the margin is measured in, in words: "log-odds", "units of the target", ...
    of_single_trees: bool = False  #: what each tree of a forest fits by itself; the gradient is -y

    @property
    def per_row(self) -> bool:
        """Whether the gradient of a row needs that row alone, so that sums over rows can be streamed."""
        return self.scope == "row"

    def core_loss(self) -> Compiled | None:
        """The gradient as the core has it; None if it does not, or if another gradient has been put in its place."""
        own = self.compiled is not None and self.compiled.gradient is self.gradient
        return self.compiled if own and self.per_row and self.weighted_gradient is None else None

    def in_core(self, kind: CoreLoss, scale: float = 1.0, target: Any = None) -> Objective:
        """Return the same loss, with its gradient known to the core as `kind` of `scale * margin` and `target(y)`."""
        return replace(self, compiled=Compiled(kind, self.gradient, scale, target))

    def of_target(self, encode: Callable[[Any], FloatArray], **changes: Any) -> Objective:
        """Return the loss of `encode(y)`, with other fields changed too."""
        value, gradient, hessian = through(lambda y, m: (encode(y), m), self.value, self.gradient, self.hessian)
        of_encoded = self.least
        least = None if of_encoded is None else lambda y: of_encoded(encode(y))
        functions = {"value": value, "gradient": gradient, "hessian": hessian, "least": least}
        return replace(self, **{**functions, "compiled": None, **changes})

    # -- over rows -------------------------------------------------------------------------------------------
    def losses(
        self, y: ArrayLike, margin: ArrayLike, *, weight: ArrayLike | None = None, state: Any = None, qid: Any = None
    ) -> FloatArray:
        """Loss of each row, summed over outputs, times `weight` and the weights of the loss: (rows,)."""
        if self.value is None:
            raise UnsupportedModelError(f"objective {self.name!r} has a gradient only; pass an Objective with a value.")
        target, m = self._arrays(y, margin)
        w = self._weights(weight)
        with np.errstate(over="ignore"):
            if w is not None and self.weighted_value is not None:
                return np.asarray(self.weighted_value(target, m, w[:, None]).sum(axis=1))
            terms = self._weigh(self._call(self.value, target, m, state, qid, w), target, w)
        return terms.sum(axis=1) if terms.ndim == 2 else terms

    def least_losses(self, y: ArrayLike, *, weight: ArrayLike | None = None) -> FloatArray | None:
        """Loss of each row if the prediction were perfect, weighted as in `losses`: (rows,), or None if unknown.

        `losses - least_losses` is half the deviance of likelihoods, and `losses` itself where r = 0 costs nothing.
        """
        if self.least is None:
            return None
        target, w = self._target(y), self._weights(weight)
        # Weights inside a loss change which margin is perfect, not what it costs.
        terms = self._weigh(self.least(target), target, None if self.weighted_value is not None else w)
        return terms.sum(axis=1) if terms.ndim == 2 else terms

    def gradients(
        self, y: ArrayLike, margin: ArrayLike, *, weight: ArrayLike | None = None, state: Any = None, qid: Any = None
    ) -> FloatArray:
        """Gradient of the loss in the margin: (rows, outputs).

        Parameters
        ----------
        y
            Target as `encode_target` returns it.
        margin
            Raw margin, (rows,) or (rows, outputs).
        weight
            Weights of the rows; the gradient is multiplied by them (and by the loss's own weights).
        state
            For scope "round": what `round_state` returned for all rows; None: computed from the rows given.
        qid
            For scope "query": query of each row, (rows,).
        """
        target, m = self._arrays(y, margin)
        w = self._weights(weight)
        with np.errstate(over="ignore", invalid="ignore"):
            if w is not None and self.weighted_gradient is not None:
                return self._finite(self.weighted_gradient(target, m, w[:, None]), m)
            result = self._call(self.gradient, target, m, state, qid, w)
        return self._finite(self._weigh(result, target, w), m)

    def mean_gradients(
        self,
        y: ArrayLike,
        margin: ArrayLike,
        step: ArrayLike,
        *,
        weight: ArrayLike | None = None,
        largest_step: float,
    ) -> FloatArray:
        """Gradient averaged over the straight way from `margin` to `margin + step`: (rows, outputs).

        Summed over outputs, step times mean gradient is the change of the loss. Where `gradient` is not the derivative
        of `value` (a clipped gradient), it is `value` that the account follows.

        Parameters
        ----------
        y, weight
            As for `gradients`.
        margin, step
            Raw margin and its change, (rows,) or (rows, outputs).
        largest_step
            Largest `|step|` of any row and output that the model can make; it decides how many points are needed.
        """
        target, m = self._arrays(y, margin)
        s, w = np.asarray(step, np.float64).reshape(m.shape), self._weights(weight)
        self.check_account(weighted=w is not None)
        inside: tuple[FloatArray, ...] = ()  # weights that are part of the loss
        value: Any = self.value
        gradient = self.gradient
        if w is not None and self.weighted_gradient is not None:
            value, gradient, inside = self.weighted_value, self.weighted_gradient, (w[:, None],)

        def values(at: FloatArray) -> FloatArray:
            found = np.asarray(value(target, at, *inside))
            if found.size != m.size:
                raise DataError(
                    f"objective {self.name!r} returned a value of shape {found.shape}, expected {m.shape}; pass "
                    "coupled=True to the Objective if its outputs share one loss."
                )
            return found.reshape(m.shape)

        def slopes(at: FloatArray, rows: Any = ...) -> FloatArray:
            return gradient(target[rows], at, *(part[rows] for part in inside))

        core = self.core_loss()
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if not self.coupled:
                mean = quadrature.mean_slope(values, slopes, m, s)
            elif core is not None:
                mean = quadrature.average(slopes, m, s, *quadrature.rule(core.kind, largest_step, core.scale))
            else:
                mean = quadrature.halving(slopes, m, s)
        return self._finite(mean if inside else self._weigh(mean, target, w), m)

    def check_account(self, *, weighted: bool = False) -> None:
        """Raise an UnsupportedModelError unless score="loss" is possible: a loss per row whose value is known."""
        if self.scope != "row":
            others = {"round": "all rows of the round", "query": "the rows of its query", "data": "all rows"}
            raise UnsupportedModelError(
                f"score='loss' follows the loss of each row; {self.name!r} depends on {others[self.scope]}; use "
                "score='tree_inner'."
            )
        if self.value is None or (weighted and self.weighted_gradient is not None and self.weighted_value is None):
            raise UnsupportedModelError(
                f"score='loss' needs the loss itself, but objective {self.name!r} has only a gradient; pass an "
                "Objective with `value`, or use score='tree_inner'."
            )

    def hessians(self, y: ArrayLike, margin: ArrayLike, *, state: Any = None, qid: Any = None) -> FloatArray | None:
        """Second derivative as the library uses it (XGBoost doubles softmax's): (rows, outputs), or None."""
        if self.hessian is None:
            return None
        target, m = self._arrays(y, margin)
        with np.errstate(over="ignore"):
            result = self._call(self.hessian, target, m, state, qid)
        return self._weigh(np.broadcast_to(result, m.shape).astype(np.float64), target, None)

    def round_state(self, y: ArrayLike, margin: ArrayLike, weight: ArrayLike | None = None) -> FloatArray:
        """Return the numbers that the gradients of a round share, from all rows; for scope "round" only."""
        if self.state is None:
            raise TypeError(f"objective {self.name!r} has scope {self.scope!r}: its rounds share no state.")
        target, m = self._arrays(y, margin)
        return self.state(target, m, _flat(weight))

    def check_target(self, y: ArrayLike) -> None:
        """Raise a DataError that names the first target outside the loss's domain."""
        values = np.asarray(y, np.float64)
        if self.target == "interval":
            check_intervals(self.name, values)
            return
        good = self.domain.contains(values)
        if not np.all(good):
            where = tuple(int(i) for i in np.argwhere(~good)[0])
            raise DataError(
                f"{self.name}: y holds {values[where]:g} in row {where[0]} ({np.count_nonzero(~good)} such "
                f"values), but it must be {self.domain.description}."
            )

    def check_columns(self, y: FloatArray, n_outputs: int) -> None:
        """Raise a DataError unless y has as many columns as a model of `n_outputs` needs."""
        columns = 1 if y.ndim == 1 else y.shape[1]
        single = self.target == "class" or self.shared_target
        needed = 2 if self.target == "interval" else 1 if single else n_outputs
        if columns != needed and self.target != "any":
            raise DataError(
                f"{self.name}: y has {columns} column{'s' * (columns != 1)}, expected {needed} for a "
                f"model of {n_outputs} output{'s' * (n_outputs != 1)}."
            )

    def total_weight(self, y: ArrayLike, weight: FloatArray | None) -> FloatArray | None:
        """Weight of each row, the loss's own included: (rows,); None: 1."""
        if self.row_weight is None:
            return weight
        own = np.asarray(self.row_weight(self._target(y)), np.float64).reshape(-1)
        return own if weight is None else own * weight

    # -- inside ----------------------------------------------------------------------------------------------
    def _call(
        self, function: Callable[..., FloatArray], y: Any, m: FloatArray, state: Any, qid: Any, weight: Any = None
    ) -> Any:
        if self.scope == "round" and state is None:
            state = self.round_state(y, m, weight)
        if self.scope == "query":
            if qid is None:
                raise DataError(
                    f"{self.name}: the gradient of a row depends on the other rows of its query; "
                    "pass qid, the query of each row."
                )
            state = np.asarray(qid)
        return function(y, m) if self.scope == "row" else function(y, m, state)

    def _weigh(self, terms: FloatArray, y: Any, weight: FloatArray | None) -> FloatArray:
        if self.row_weight is not None:
            own = self.row_weight(y)
            terms = terms * (own[:, None] if own.ndim < terms.ndim else own)
        if weight is not None:
            terms = terms * (weight[:, None] if terms.ndim == 2 else weight)
        return terms

    def _finite(self, gradient: FloatArray, margin: FloatArray) -> FloatArray:
        if not np.all(np.isfinite(gradient)):
            row, output = (int(i) for i in np.argwhere(~np.isfinite(gradient))[0])
            raise DataError(
                f"{self.name}: the gradient of row {row} is {gradient[row, output]} at margin "
                f"{margin[row, output]:g}; check y, base_margin and the objective."
            )
        return gradient

    def _weights(self, weight: ArrayLike | None) -> FloatArray | None:
        if weight is not None and not self.multiplies_weights:
            raise DataError(f"{self.name}: weights do not simply multiply this loss; only unweighted rows are covered.")
        return _flat(weight)

    def _arrays(self, y: ArrayLike, margin: ArrayLike) -> tuple[Any, FloatArray]:
        m = np.asarray(margin, np.float64)
        m = m[:, None] if m.ndim == 1 else m
        target = self._target(y)
        if len(target) != len(m):
            raise DataError(f"y has {len(target)} rows, but the margin has {len(m)}.")
        self.check_columns(target, m.shape[1])
        return target, m

    def _target(self, y: ArrayLike) -> Any:
        """Return y in the shape that the functions take."""
        target = np.asarray(y, None if self.target == "any" else np.float64)
        if self.target == "class":
            return target.reshape(-1).astype(np.int64)
        return target[:, None] if target.ndim == 1 and self.target != "any" else target


def _flat(weight: ArrayLike | None) -> FloatArray | None:
    return None if weight is None else np.asarray(weight, np.float64).reshape(-1)


def check_intervals(name: str, y: FloatArray) -> None:
    """Raise unless y is (rows, 2) with 0 <= lower <= upper, lower finite and upper > 0."""
    if y.ndim != 2 or y.shape[1] != 2:
        raise DataError(f"{name}: y has shape {y.shape}; pass two columns, label_lower_bound and label_upper_bound.")
    low, high = y[:, 0], y[:, 1]
    good = (low >= 0) & np.isfinite(low) & (high >= low) & (high > 0)
    if not np.all(good):
        row = int(np.argmin(good))
        raise DataError(
            f"{name}: row {row} has the interval [{low[row]:g}, {high[row]:g}], expected "
            "0 <= lower <= upper, lower finite and upper above 0 (inf: right-censored)."
        )
