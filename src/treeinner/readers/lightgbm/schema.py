"""What a table must look like for a LightGBM model: names, categorical columns, pandas levels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from treeinner.errors import ModelError
from treeinner.readers._numbers import is_plain, parse_number
from treeinner.readers.lightgbm.text import ModelText, require
from treeinner.tables import Level, Schema

__all__ = ["n_bins", "read_schema"]

AMBIGUOUS = (
    "the LightGBM model does not say which columns its pandas categories belong to; train it with every "
    "categorical column named in categorical_feature and of dtype category"
)


def read_schema(model: ModelText, split_as_category: set[int]) -> Schema:
    """Build the schema from header, parameters block and the pandas_categorical line."""
    infos, top = model.header.get("feature_infos", "").split(), model.count("max_feature_idx")
    n_columns = len(infos)
    require(top + 1 == n_columns, f"max_feature_idx is {top}, but there are {n_columns} feature_infos")
    names = tuple(model.header.get("feature_names", "").split(" "))
    require(len(names) == n_columns, f"{n_columns} features, but {len(names)} feature names")
    made_up = names == tuple(f"Column_{i}" for i in range(n_columns))  # by LightGBM
    categorical = {j for j, info in enumerate(infos) if n_bins(info)} | split_as_category | _declared(model, n_columns)
    levels, external = _levels(model, infos, categorical)
    if levels is not None:  # ordered categories are split as numbers, but a table holds categories there
        categorical |= {j for j, known in enumerate(levels) if known is not None}
    return Schema(
        n_columns=n_columns,
        names=None if made_up else names,
        blank_is_underscore=True,
        categorical=tuple(j in categorical for j in range(n_columns)) if categorical else None,
        levels=levels,
        unseen="missing",
        absent="zero",
        external=external,
    )


def n_bins(info: str) -> int:
    """Bins of a categorical column, the one for missing values included; 0 for a numeric column."""
    return 0 if info == "none" or info.startswith("[") else info.count(":") + 1


def _declared(model: ModelText, n_columns: int) -> set[int]:
    """Columns that the parameters block calls categorical, by number."""
    words = (model.params or {}).get("categorical_feature", "").replace("name:", "").split(",")
    numbers = {parse_number(word, float) for word in words if is_plain(word) and word.strip().isdigit()}
    return {int(number) for number in numbers if number < n_columns}


def _levels(
    model: ModelText, infos: list[str], categorical: set[int]
) -> tuple[tuple[tuple[Level, ...] | None, ...] | None, str]:
    """Levels of each column, and why they are not known.

    The text lists the levels of every column of dtype category in column order, also of ordered ones, which
    LightGBM takes as numbers; it does not say which columns those were. So look for the one way they fit.
    """
    lists = model.pandas_categorical
    if not lists:
        return None, ""
    sizes = [len(levels) for levels in lists]
    if len(lists) == len(categorical) == len(infos):
        found = [tuple(range(len(infos)))]
    else:  # two ways are as bad as more
        found = list(islice(_fits(sizes, infos, categorical, 0), 2)) or list(islice(_fits(sizes, infos, set(), 0), 2))
    if len(found) != 1:
        return None, AMBIGUOUS
    by_column: dict[int, tuple[Level, ...]] = {j: tuple(lists[i]) for i, j in enumerate(found[0])}
    return tuple(by_column.get(j) for j in range(len(infos))), ""


def _fits(sizes: list[int], infos: list[str], needed: set[int], first: int) -> Iterator[tuple[int, ...]]:
    """Ways to give the lists of these sizes to columns in order so that every needed column has one."""
    if not sizes:
        if not any(j >= first for j in needed):
            yield ()
        return
    for j in range(first, len(infos) - len(sizes) + 1):
        if _holds(infos[j], sizes[0]):
            for rest in _fits(sizes[1:], infos, needed, j + 1):
                yield (j, *rest)
        if j in needed:
            return


def _holds(info: str, n_levels: int) -> bool:
    """Say whether this column could hold the codes 0..n_levels-1."""
    try:
        if info == "none":
            return True
        if info.startswith("["):
            low, high = (parse_number(word, float) for word in info.strip("[]").split(":"))
            return low >= 0 and low.is_integer() and high.is_integer() and high < n_levels
        return max(parse_number(word, int) for word in info.split(":")) < n_levels
    except ValueError:
        raise ModelError(f"The LightGBM model is malformed: feature_infos holds {info!r}.") from None
