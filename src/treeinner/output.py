"""Results out: data frames in the user's own library, and the user's data as a plain array."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from treeinner.errors import MissingDependencyError

__all__ = ["make_frame", "to_array"]


def make_frame(columns: Mapping[str, Any], *, library: str = "", row_labels: Any = None) -> Any:
    """Data frame of `columns` in `library`, else in one that is installed; pandas keeps the row labels."""
    candidates: tuple[Any, ...] = (library, "pandas", "polars", "pyarrow")
    for name in candidates:
        try:
            importlib.import_module(name)
        except (ImportError, ValueError):  # not installed; an empty name
            continue
        frame = nw.from_dict(dict(columns), backend=name).to_native()
        if row_labels is not None and hasattr(frame, "index"):
            frame.index = row_labels
        return frame
    raise MissingDependencyError("A data frame needs pandas, polars or pyarrow; install one: pip install pandas")


def to_array(data: Any, feature_names: Sequence[str]) -> NDArray[Any]:
    """Return the user's table as a 2-D array in the order of the features."""
    if hasattr(data, "toarray"):  # scipy sparse: only shown rows are asked for here
        return np.asarray(data.toarray())
    native = nw.from_native(data, pass_through=True)
    if isinstance(native, nw.LazyFrame):
        native = native.collect()
    if isinstance(native, nw.DataFrame):
        # LightGBM keeps "my column" as "my_column".
        names = {str(name).replace(" ", "_"): name for name in native.columns}
        names |= {str(name): name for name in native.columns}
        if set(feature_names) <= names.keys():
            native = native.select([names[name] for name in feature_names])
        data = native.to_numpy()
    return np.asarray(data)
