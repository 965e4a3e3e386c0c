"""Loss: one loss as plain functions of a target and a margin.

Shapes inside a loss: the margin is (rows, outputs). The target depends on `target`:

    real, binary   (rows, 1) or (rows, outputs); broadcast against the margin
    class          (rows,) integer codes 0 .. outputs - 1
    interval       (rows, 2): lower and upper end
    any            as it came (a user's own gradient)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treeinner.errors import DataError, UnsupportedModelError, counted
from treeinner.losses import quadrature

Float = NDArray[np.float64]
Target = Literal["real", "binary", "class", "interval", "any"]
Scope = Literal["row", "query", "round", "data"]
CoreKind = Literal["squared", "logistic", "poisson", "softmax"]
Function = Callable[..., Float]


# Which targets a loss is defined for: whether each of them is, and what it must be, in words.
Domain = tuple[Callable[[Float], NDArray[np.bool_]], str]


def integers_below(n: int) -> Domain:
    """Class codes 0 .. n - 1."""
    return lambda y: (y >= 0) & (y < n) & (y == np.floor(y)), f"a class number from 0 to {n - 1}"


def sigmoid(x: Float) -> Float:
    """Logistic function; relatively precise for very negative x too."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def one_hot(codes: NDArray[Any], n: int) -> Float:
    """Return the indicator of each row's class: (rows, n)."""
    return np.asarray(codes[:, None] == np.arange(n), np.float64)


def x_log_x(x: Float) -> Float:
    """Return x log x, which is 0 at 0."""
    return x * np.log(np.where(x > 0.0, x, 1.0))


def through(parts: Callable[..., tuple[Any, ...]], *functions: Any) -> Any:
    """Functions of (y, margin, *state) from functions of `parts(y, margin)` and the state; None and 0 stay."""
    return (f and (lambda y, m, *state, f=f: f(*parts(y, m), *state)) for f in functions)


@dataclass(frozen=True, eq=False, kw_only=True)
class Loss:
    """A loss: its gradient and value per row, its link, and the targets it is defined for.

    The functions take `(y, margin)`; if `scope` is not "row" they take a third argument: the state of the round
    ("round"), the query of each row ("query"), or None ("data": all rows at once).
    """

    name: str  #: as the library calls it
    words: str = ""  #: what it is and in which unit, for tables: "half the squared error"
    gradient: Function  #: d value / d margin: (rows, outputs)
    value: Function | None = None  #: loss of every row (and output if not coupled); None if only the gradient is known
    curvature: Function | Literal[0] | None = None  #: d gradient / d margin, (n, K) or (n, K, K); 0: it has kinks
    row_weight: Callable[[Any], Float] | None = None  #: weight that the loss itself gives a row: scale_pos_weight, ...
    multiplies_weights: bool = True  #: False: weights enter in another way, and are refused
    target: Target = "real"  #: what a target is: a number, one of two, a class, an interval
    domain: Domain = (np.isfinite, "a finite number")  #: targets it is defined for
    scope: Scope = "row"  #: what the gradient of a row needs: itself, its query, a number per round, all rows
    state: Callable[[Float, Float, Float | None], Float] | None = None  #: scope "round": the number that rows share
    metric: Loss | None = None  #: what each row loses, where the rounds descend a smooth form of it (scope "round")
    coupled: bool = False  #: whether the loss of one output depends on the margins of others
    shared_target: bool = False  #: every output is fitted to the same column (several quantiles)
    link: Callable[[Float], Float] = np.asarray  #: margin -> prediction
    #: loss of a perfect prediction, from y, in the shape of the value; None if there is none
    least: Callable[[Any], Float] | None = None
    steepest: float | None = None  #: largest `|gradient|` of a row, whatever the margin; None if there is none
    #: the same gradient in the core: kind, scale of the margin, and y as the core needs it (None: as it is)
    core: tuple[CoreKind, float, Callable[[Any], Float] | None] | None = None
    unit: str = "margin"  #: what the margin is measured in, in words: "log-odds", "units of the target", ...
    of_single_trees: bool = False  #: what each tree of a forest fits by itself; the gradient is -y

    # How `find_loss` made it, so that it can be made again in another process: its functions cannot be pickled.
    # Not a field: `replace` gives another loss, which was not made so.
    recipe: ClassVar[Any] = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle how it was made, or where it is a user's own, its fields."""
        return self.recipe or super().__reduce_ex__(protocol)

    def of_target(self, encode: Callable[[Any], Float], **changes: Any) -> Loss:
        """Return the loss of `encode(y)`, with other fields changed too."""
        value, gradient, curvature = through(lambda y, m: (encode(y), m), self.value, self.gradient, self.curvature)
        of_encoded = self.least
        least = None if of_encoded is None else lambda y: of_encoded(encode(y))
        functions = {"value": value, "gradient": gradient, "curvature": curvature, "least": least}
        return replace(self, **{**functions, "core": None, **changes})

    # -- over rows -------------------------------------------------------------------------------------------
    def gradients(self, y: Any, margin: ArrayLike, *, weight: ArrayLike | None = None, query: Any = None) -> Float:
        """Gradient of the loss in the margin: (rows, outputs).

        y is as `encode_target` returns it; `weight` and the loss's own weights are multiplied in; `query` is that of
        each row, for scope "query". Of scope "round" and "data" all rows must be given at once.
        """
        return self._finite(self._terms(1, y, margin, weight, query), margin)

    def curvatures(
        self, y: Any, margin: ArrayLike, *, weight: ArrayLike | None = None, query: Any = None
    ) -> Float | None:
        """Second derivatives in the row's own margin, weighted: (rows, outputs), coupled: (rows, outputs, outputs).

        None: the loss has kinks, or only its gradient is known.
        """
        return self._terms(2, y, margin, weight, query) if self.curvature else None

    def losses(self, y: Any, margin: ArrayLike, *, weight: ArrayLike | None = None, query: Any = None) -> Float:
        """Loss of each row, summed over outputs, times `weight` and the weights of the loss: (rows,)."""
        if self.value is None:
            raise UnsupportedModelError(f"The loss {self.name!r} has a gradient only; pass a Loss with a value.")
        terms = self._terms(0, y, margin, weight, query)
        return terms.sum(axis=1) if terms.ndim == 2 else terms

    def least_losses(self, y: Any, *, weight: ArrayLike | None = None) -> Float | None:
        """Loss of each row if the prediction were perfect, weighted as in `losses`: (rows,), or None if unknown.

        `losses - least_losses` is half the deviance of likelihoods, and `losses` itself where r = 0 costs nothing.
        """
        if self.least is None:
            return None
        target, _, w = self._arrays(y, 0.0, weight)
        with np.errstate(divide="ignore"):  # minus infinity, of a gamma loss where y = 0, which LightGBM allows
            terms = self._weigh(self.least(target), target, w)
        return terms.sum(axis=1) if terms.ndim == 2 else terms

    def mean_gradients(
        self, y: Any, margin: ArrayLike, step: ArrayLike, *, weight: ArrayLike | None = None, largest: float
    ) -> Float:
        """Gradient averaged over the straight way from `margin` to `margin + step`: (rows, outputs).

        Summed over outputs, step times mean gradient is the change of the loss. Where `gradient` is not the derivative
        of `value` (a clipped gradient), it is `value` that the breakdown follows. `largest`: largest `|step|` of any
        row and output that the model can make; it decides how many points are needed.
        """
        target, m, w = self._arrays(y, margin, weight)
        s = np.asarray(step, np.float64).reshape(m.shape)
        self.check_breakdown()
        value: Any = self.value

        def values(at: Float) -> Float:
            found = np.asarray(value(target, at)).reshape(len(m), -1)
            if self.coupled:
                return np.asarray(found.sum(axis=1, keepdims=True))
            if found.shape != m.shape:
                shapes = f"has a value of shape {found.shape}, expected {m.shape}"
                raise DataError(f"Loss {self.name!r} {shapes}; pass coupled=True to it if its outputs share one value.")
            return found

        slopes = partial(self.gradient, target)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if self.coupled and self.core is not None:
                mean = quadrature.average(slopes, m, s, *quadrature.rule(self.core[0], largest, self.core[1]))
            else:
                mean = quadrature.mean_slope(values, slopes, m, s, coupled=self.coupled)
        return self._finite(self._weigh(mean, target, w), m)

    def check_breakdown(self) -> None:
        """Raise an UnsupportedModelError unless score="loss" is possible: a loss per row whose value is known."""
        if self.scope != "row" or self.value is None:
            lacks = "has only a gradient" if self.scope == "row" else "depends on other rows"
            raise UnsupportedModelError(
                f"score='loss' follows each row's loss, but {self.name!r} {lacks}; score='signal', the default of "
                "importance, and score='tree_inner' need no more than gradients. Or pass objective=, a Loss with a "
                "`value` of each row."
            )

    def check_target(self, y: Float, n_outputs: int) -> None:
        """Raise a DataError unless y has the columns that a model of `n_outputs` needs, all of it in the domain."""
        if self.target == "any":
            return
        columns = 1 if y.ndim == 1 else y.shape[1]
        needed = 2 if self.target == "interval" else 1 if self.target == "class" or self.shared_target else n_outputs
        if columns != needed:
            model = f"a model of {counted(n_outputs, 'output')}"
            raise DataError(f"{self.name}: y has {counted(columns, 'column')}, expected {needed} for {model}.")
        contains, description = self.domain
        good = contains(y)
        if not np.all(good):
            where = tuple(np.argwhere(~good)[0].tolist())
            held, n = ", ".join(f"{value:g}" for value in np.atleast_1d(y[where])), np.count_nonzero(~good)
            raise DataError(f"{self.name}: y holds {held} in row {where[0]} ({n} such), but must be {description}.")

    def total_weight(self, y: Any, weight: Float | None) -> Float | None:
        """Weight of each row, the loss's own included: (rows,); None: 1."""
        if self.row_weight is None:
            return weight
        own = np.asarray(self.row_weight(self._arrays(y)[0]), np.float64).reshape(-1)
        return own if weight is None else own * weight

    # -- inside ----------------------------------------------------------------------------------------------
    def _terms(self, which: Literal[0, 1, 2], y: Any, margin: ArrayLike, weight: ArrayLike | None, query: Any) -> Float:
        """Value, gradient or curvature of every row, called with what its scope needs, all weights multiplied in."""
        target, m, w = self._arrays(y, margin, weight)
        if self.scope == "query" and query is None:
            raise DataError(f"{self.name}: the gradient of a row depends on the others of its query; pass qid.")
        name = ("value", "gradient", "curvature")[which]
        with np.errstate(over="ignore", invalid="ignore"):
            state = np.asarray(query) if self.state is None else self.state(target, m, w)
            try:
                terms = getattr(self, name)(target, m, *[state] * (self.scope != "row"))
            except (AttributeError, IndexError, TypeError, ValueError) as error:  # of a user's function
                held = f"Loss {self.name!r}: {name}(y, margin{', state' * (self.scope != 'row')}) failed: {error}"
                raise DataError(f"{held}; it gets the targets and the margins of some rows, in this order.") from error
            if which == 1 and np.shape(terms) != m.shape:
                held = str(np.shape(terms)).replace(f"({len(m)},", "(rows,")  # blocks of rows, not those that came
                raise DataError(f"Loss {self.name!r}: gradient(y, margin) has shape {held}, not (rows, {m.shape[1]}).")
            return self._weigh(terms, target, w)

    def _weigh(self, terms: Float, y: Any, weight: Float | None) -> Float:
        """Multiply the weights of the loss and of the rows in."""
        if self.row_weight is not None:
            own = self.row_weight(y)
            terms = terms * own.reshape(own.shape + (1,) * (terms.ndim - own.ndim))
        if weight is not None:
            terms = terms * weight.reshape(-1, *[1] * (terms.ndim - 1))
        return terms

    def _finite(self, gradient: Float, margin: ArrayLike) -> Float:
        """Return the gradient, which must be finite."""
        if not np.all(np.isfinite(gradient)):
            row, output = np.argwhere(~np.isfinite(gradient))[0].tolist()
            found, at = gradient[row, output], np.reshape(margin, gradient.shape)[row, output]
            held = f"{self.name}: the gradient of row {row} is {found} at margin {at:g}"
            raise DataError(f"{held}; check y, base_margin and the objective.")
        return gradient

    def _arrays(self, y: Any, margin: Any = 0.0, weight: Any = None) -> tuple[Any, Float, Float | None]:
        """Return target, margin and weights of the rows in the shapes that the functions take."""
        if weight is not None and not self.multiplies_weights:
            raise DataError(f"{self.name}: weights do not simply multiply this loss; only unweighted rows are covered.")
        target, m = np.asarray(y, None if self.target == "any" else np.float64), np.asarray(margin, np.float64)
        if self.target == "class":
            target = target.reshape(-1).astype(np.int64)
        elif target.ndim == 1 and self.target != "any":
            target = target[:, None]
        w = None if weight is None else np.asarray(weight, np.float64).reshape(-1)
        return target, m[:, None] if m.ndim == 1 else m, w
