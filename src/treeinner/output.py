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


def make_frame(columns: Mapping[str, Any], *, like: Any = None, library: str = "") -> Any:
    """Data frame of `columns` in the library of `like`, with its row labels, or in `library`; else in one installed."""
    native = nw.from_native(like, eager_only=True, pass_through=True) if like is not None else None
    if isinstance(native, nw.DataFrame):
        frame = nw.from_dict(dict(columns), backend=native.implementation).to_native()
        if native.implementation.is_pandas_like() and len(like) == len(frame):
            frame.index = like.index
        return frame
    for name in (library, "pandas", "polars", "pyarrow"):
        try:
            importlib.import_module(name)
        except (ImportError, ValueError):  # not installed; an empty name
            continue
        backend: Any = name
        return nw.from_dict(dict(columns), backend=backend).to_native()
    raise MissingDependencyError("A data frame needs pandas, polars or pyarrow; install one: pip install pandas")


def to_array(data: Any, feature_names: Sequence[str]) -> NDArray[Any]:
    """Return the user's table as a 2-D array in the order of the features."""
    if hasattr(data, "toarray"):  # scipy sparse: only shown rows are asked for here
        return np.asarray(data.toarray())
    native = nw.from_native(data, eager_only=True, pass_through=True)
    if not isinstance(native, nw.DataFrame):
        return np.asarray(data)
    names = {str(name): name for name in native.columns}
    if set(feature_names) <= names.keys():
        native = native.select([names[name] for name in feature_names])
    return np.asarray(native.to_numpy())
