"""Which raw column each column of the model is made from, read off the fitted transformers; scikit-learn stays out.

A rule per class of transformer takes the origins of its input columns to those of its output columns. What is read is
what the transformer itself goes by (categories_, powers_, get_support, transformers_), never how a name begins. A class
without a rule may do anything with its columns, so it is taken only where they all come from one raw column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.errors import ModelError, UnsupportedModelError, counted
from treeinner.readers._open import EXTENSIONS, class_names
from treeinner.readers.members import Support
from treeinner.tables.columns import is_missing

__all__ = ["Origins", "origins"]

IntArray = NDArray[np.intp]
Origin = frozenset[int]  # the raw columns that one column is made from; empty: a constant
Rule = Callable[[Any, list[Origin], int | None], list[Origin]]

INSTEAD = "pass feature_groups={name: [columns of the model], ...} instead"
CONSTANT = "(constant)"  # a column made from none, such as the bias of PolynomialFeatures


@dataclass(frozen=True, eq=False)
class Origins:
    """The raw columns, and which of them every column of the model is made from."""

    names: tuple[str, ...]  #: the raw columns: what the pipeline's first step was fitted on
    of_column: tuple[Origin, ...]  #: for every column of the model the raw columns it is made from

    @cached_property
    def columns(self) -> tuple[IntArray, ...]:
        """For every raw column the model's columns that are made from it alone; empty: it does not reach the model."""
        return tuple(
            np.array([j for j, made_from in enumerate(self.of_column) if made_from == {raw}], np.intp)
            for raw in range(len(self.names))
        )

    @cached_property
    def mixed(self) -> IntArray:
        """The model's columns that are made from several raw columns at once: interactions."""
        return np.array([j for j, made_from in enumerate(self.of_column) if len(made_from) > 1], np.intp)

    def owners(self) -> tuple[tuple[str, ...], IntArray]:
        """Names of the groups, and the group of every column of the model.

        Every raw column is a group, also one that does not reach the model, so that the models of several folds have
        the same groups. An interaction of two raw columns belongs to neither: it goes to a group "a*b" of its own.
        """
        own = {frozenset({raw}): raw for raw in range(len(self.names))}
        others = sorted({made_from for made_from in self.of_column if len(made_from) != 1}, key=sorted)
        labels = [CONSTANT if not made_from else "*".join(self.names[raw] for raw in sorted(made_from))
                  for made_from in others]  # fmt: skip
        taken = [label for label in labels if label in self.names or labels.count(label) > 1]
        if taken:
            raise UnsupportedModelError(
                f"feature_groups='original': the interaction {taken[0]!r} has the name of another column; {INSTEAD}."
            )
        own |= {made_from: len(self.names) + i for i, made_from in enumerate(others)}
        return (*self.names, *labels), np.array([own[made_from] for made_from in self.of_column], np.intp)

    def reordered(self, names: Sequence[str], place: Sequence[int]) -> Origins:
        """Return the same with other raw columns: number k of these is number place[k] there."""
        return Origins(tuple(names), tuple(frozenset(place[raw] for raw in made) for made in self.of_column))


def origins(transformers: Sequence[Any], names: Sequence[str]) -> Origins:
    """Raw columns, and which of them each column behind the transformers is made from.

    Parameters
    ----------
    transformers
        Fitted steps of a pipeline before the model.
    names
        Names of the model's own columns, which the last step makes.

    Raises
    ------
    UnsupportedModelError
        If a transformer mixes columns, or does not say what it does with them.
    """
    steps = _flat(transformers)
    raw = _raw_names(steps, names)
    made = _chain(steps, [frozenset({k}) for k in range(len(raw))], len(names))
    if len(made) != len(names):
        raise _unknown_way(f"the steps before the model give {counted(len(made), 'column')}, it has {len(names)}")
    return Origins(tuple(raw), tuple(made))


def _flat(steps: Sequence[Any]) -> list[Any]:
    """Steps that do something to the columns, those of inner pipelines in their places."""
    out: list[Any] = []
    for step in steps:
        if step is None or isinstance(step, str):  # "passthrough"
            continue
        if "Pipeline" in class_names(step, *EXTENSIONS):
            out += _flat([inner for _, inner in step.steps])
        elif hasattr(step, "transform") or not hasattr(step, "fit_resample"):  # imblearn's samplers work in fit alone
            out.append(step)
    return out


def _raw_names(steps: Sequence[Any], names: Sequence[str]) -> Sequence[str]:
    """Names of the columns that come in, as scikit-learn calls them; x0, x1, ... for arrays."""
    for step in steps:
        if hasattr(step, "feature_names_in_"):
            return [str(name) for name in step.feature_names_in_]
        if hasattr(step, "n_features_in_"):
            return [f"x{k}" for k in range(step.n_features_in_)]
        if not _keeps_columns(step):
            raise _unknown_way(f"{type(step).__name__} does not store how many columns it was fitted on")
    return names  # such steps alone: what comes in is what comes out


def _chain(steps: Sequence[Any], made: list[Origin], width: int | None) -> list[Origin]:
    """Origins of the columns behind steps that follow each other."""
    widths = [*(getattr(step, "n_features_in_", None) for step in steps[1:]), width]
    for step, wide in zip(steps, widths, strict=False):
        made = _through(step, made, wide)
    return made


def _through(step: Any, made: list[Origin], width: int | None) -> list[Origin]:
    """Origins of the columns behind one transformer; width: how many there are, where that is known."""
    if isinstance(step, Support):
        return [made[k] for k in step.positions]
    rule = next((RULES[name] for name in class_names(step, *EXTENSIONS) if name in RULES), _anything)
    author = next((kind for kind in type(step).__mro__ if "transform" in vars(kind)), object)
    declared = rule in (_same, _selected)  # what get_feature_names_out goes by, whoever wrote the transform
    if not declared and author.__module__.split(".")[0] not in EXTENSIONS:  # a subclass with its own transform
        rule = _anything
    n_in = getattr(step, "n_features_in_", len(made))
    if n_in != len(made):
        raise _unknown_way(f"{type(step).__name__} was fitted on {counted(n_in, 'column')}, {len(made)} come in")
    out = rule(step, made, width)
    if width is not None and len(out) != width:
        raise _unknown_way(f"{type(step).__name__} makes {counted(width, 'column')}, but {len(out)} were expected")
    return out


def _unknown_way(reason: str) -> ModelError:
    return ModelError(f"feature_groups='original': {reason}; {INSTEAD}.")


# -- one rule per class --------------------------------------------------------------------------------------
def _same(step: Any, made: list[Origin], width: int | None) -> list[Origin]:
    return made


def _anything(step: Any, made: list[Origin], width: int | None) -> list[Origin]:
    """Whatever it does: harmless if all its columns come from one raw column."""
    source = frozenset[int]().union(*made)
    if len(source) > 1:
        raise UnsupportedModelError(
            f"feature_groups='original': {type(step).__name__} may make a column from several of its "
            f"{len(made)} input columns, and nothing in it says from which; {INSTEAD}"
            + ("." if "FunctionTransformer" not in class_names(step, "sklearn") else
               ", or, if it works column by column, make it FunctionTransformer(..., feature_names_out='one-to-one').")
        )  # fmt: skip
    if width is None:
        try:
            width = len(step.get_feature_names_out())
        except (AttributeError, TypeError, ValueError):
            raise _unknown_way(f"{type(step).__name__} does not say how many columns it makes") from None
    return [source] * width


def _repeated(counts: Callable[[Any, int], Sequence[int]]) -> Rule:
    """So many columns from each of the n input columns as counts(step, n) says, one input after the other."""
    return lambda step, made, width: [
        source for source, count in zip(made, counts(step, len(made)), strict=True) for _ in range(count)
    ]


def _one_hot(step: Any, n: int) -> list[int]:
    counts = [len(categories) for categories in step.categories_]
    if step.drop_idx_ is not None:
        counts = [n - (dropped is not None) for n, dropped in zip(counts, step.drop_idx_, strict=True)]
    rare = getattr(step, "infrequent_categories_", None)
    if rare is not None:  # they share one column
        counts = [n - (0 if few is None else len(few) - 1) for n, few in zip(counts, rare, strict=True)]
    return counts


def _powers(step: Any, made: list[Origin], width: int | None) -> list[Origin]:
    return [frozenset[int]().union(*(made[k] for k in np.flatnonzero(row))) for row in step.powers_]


def _selected(step: Any, made: list[Origin], width: int | None) -> list[Origin]:
    return [made[k] for k in step.get_support(indices=True)]


def _indicator(step: Any, made: list[Origin], width: int | None) -> list[Origin]:
    return [made[k] for k in step.features_]


def _imputed(step: Any, made: list[Origin], width: int | None) -> list[Origin]:
    """Columns without any value in training are left out; then the indicators. A filled value is its own column's."""
    first = getattr(step, "initial_imputer_", step)  # of IterativeImputer
    if getattr(first, "keep_empty_features", False):
        has_values = [True] * len(made)
    elif hasattr(first, "statistics_"):
        has_values = [not is_missing(filled) for filled in first.statistics_]
    else:  # KNNImputer
        has_values = list(first._valid_mask)
    out = [source for source, kept in zip(made, has_values, strict=True) if kept]
    return out + (_indicator(step.indicator_, made, None) if step.add_indicator else [])


def _function(step: Any, made: list[Origin], width: int | None) -> list[Origin]:
    return made if _keeps_columns(step) else _anything(step, made, width)


def _keeps_columns(step: Any) -> bool:
    """Whether a FunctionTransformer works column by column: the user says so, or numpy does."""
    if "FunctionTransformer" not in class_names(step, *EXTENSIONS):
        return False
    elementwise = isinstance(step.func, np.ufunc) and (step.func.nin, step.func.nout) == (1, 1)
    return step.func is None or elementwise or step.feature_names_out == "one-to-one"


def _union(step: Any, made: list[Origin], width: int | None) -> list[Origin]:
    out: list[Origin] = []
    for _, part in step.transformer_list:
        if part != "drop":
            out += made if part == "passthrough" else _through(part, made, None)
    return out


def _by_columns(step: Any, made: list[Origin], width: int | None) -> list[Origin]:
    names = [str(name) for name in getattr(step, "feature_names_in_", ())]
    out: list[Origin] = []
    for name, part, columns in step.transformers_:
        place = step.output_indices_[name]
        if part == "drop" or place.stop == place.start:
            continue
        picked = [made[k] for k in _positions(columns, names, len(made))]
        out += picked if part == "passthrough" else _through(part, picked, place.stop - place.start)
    return out


def _positions(columns: Any, names: list[str], n: int) -> list[int]:
    """Column numbers that a ColumnTransformer's columns stand for: numbers, names, a slice of either, or a mask."""
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):  # pandas: the last one is in
            start = None if columns.start is None else names.index(columns.start)
            stop = None if columns.stop is None else names.index(columns.stop) + 1
            columns = slice(start, stop, columns.step)
        return list(range(n)[columns])
    given = [columns] if isinstance(columns, str) or not np.iterable(columns) else list(columns)
    if given and all(isinstance(one, bool | np.bool_) for one in given):
        return [k for k, kept in enumerate(given) if kept]
    return [names.index(one) if isinstance(one, str) else range(n)[one] for one in given]


RULES: dict[str, Rule] = {
    "ColumnTransformer": _by_columns,
    "FeatureUnion": _union,
    "Pipeline": lambda step, made, width: _chain(_flat([step]), made, width),
    "FrozenEstimator": lambda step, made, width: _through(step.estimator, made, width),
    "OneHotEncoder": _repeated(_one_hot),
    "TargetEncoder": _repeated(lambda step, n: [len(step.encodings_) // n] * n),  # one per class if there are three
    "KBinsDiscretizer": _repeated(lambda step, n: [1] * n if step.encode == "ordinal" else step.n_bins_),
    "SplineTransformer": _repeated(lambda step, n: [step.n_features_out_ // n] * n),
    "PolynomialFeatures": _powers,
    "SelectorMixin": _selected,
    "MissingIndicator": _indicator,
    "SimpleImputer": _imputed,
    "KNNImputer": _imputed,
    "IterativeImputer": _imputed,
    "FunctionTransformer": _function,
    # These say that columns keep their names, yet divide by the length of the whole row.
    "Normalizer": _anything,
    "TfidfTransformer": _anything,
    "OneToOneFeatureMixin": _same,  # what scikit-learn, or the author of a transformer, declares
}
