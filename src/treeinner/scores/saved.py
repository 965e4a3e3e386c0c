"""The file of an Importance (docs/format.md): what is written, and what is checked when it is read."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeinner.ensemble import storage
from treeinner.ensemble.plain import check_array, check_types, naming
from treeinner.errors import ModelError
from treeinner.inference import Inference
from treeinner.scores.parts import FoldSpread, Losses
from treeinner.tables.schema import as_tuples

__all__ = ["FORMAT", "load", "save"]

FORMAT = "treeinner.importance"
FORMAT_VERSION = 3
PLAIN = (
    "score_name", "method", "feature_names", "output_names", "n_rows", "sum_of_weights", "tested", "has_std_errors",
    "notes",
)  # fmt: skip
PARTS: dict[str, type[Any]] = {"statistics": Inference, "outputs": Inference, "losses": Losses, "folds": FoldSpread}
NOT_NEGATIVE, SHARE = (0.0, np.inf), (0.0, 1.0)
RANGES = {"std_error": NOT_NEGATIVE, "df": NOT_NEGATIVE, "p_value": SHARE, "q_value": SHARE, "harm_q_value": SHARE}


def save(importance: Any, path: str | Path, gains: NDArray[Any] | str | None) -> None:
    """Write an Importance to one file; gains, or why there are none."""
    plain: dict[str, Any] = {name: getattr(importance, name) for name in PLAIN}
    arrays: dict[str, NDArray[Any]] = {}
    for name in PARTS:
        part = getattr(importance, name)
        for field, value in ({} if part is None else vars(part)).items():
            (arrays if isinstance(value, np.ndarray) else plain)[f"{name}.{field}"] = value
    optional = {"rounds": importance.rounds, "gains": gains}
    arrays |= {name: array for name, array in optional.items() if isinstance(array, np.ndarray)}
    plain["no_gains"] = gains if isinstance(gains, str) else None
    storage.write(path, FORMAT, FORMAT_VERSION, arrays, plain)


def load(cls: type, path: str | Path) -> dict[str, Any]:
    """Read the fields of an Importance, the class that is given."""
    arrays, plain = storage.read(path, FORMAT, FORMAT_VERSION)
    with naming(path):
        check_types(cls, plain, PLAIN)
        stored = plain["n_rows"] == 0 and np.isnan(plain["sum_of_weights"])  # gains of the model itself, of no rows
        if not stored and not (plain["n_rows"] >= 0 and 0 <= plain["sum_of_weights"] < np.inf):
            raise ModelError("n_rows or sum_of_weights is negative or infinite.")
        if not isinstance(plain.get("no_gains"), str | None):
            raise ModelError("no_gains is not text.")
        every = {**plain, **arrays}
        known: dict[str, Any] = {name: as_tuples(plain[name]) for name in PLAIN}
        known |= {name: _part(name, kind, every) for name, kind in PARTS.items() if _is_there(name, kind, every)}
        _check_shapes(arrays, known)
    return known | {"rounds": arrays.get("rounds"), "gain_source": arrays.get("gains", plain.get("no_gains"))}


def _is_there(part: str, kind: type[Any], every: dict[str, Any]) -> bool:
    return part == "statistics" or f"{part}.{fields(kind)[0].name}" in every


def _part(part: str, kind: type[Any], every: dict[str, Any]) -> Any:
    """One of PARTS, whose fields have the types that it declares."""
    stored = {f.name: every[f"{part}.{f.name}"] for f in fields(kind) if f"{part}.{f.name}" in every}
    with naming(part):
        check_types(kind, stored, [f.name for f in fields(kind)])
    if kind is Inference and not (stored["n_units"] >= 0 and 0 < stored["confidence"] < 1):
        raise ModelError(f"{part}: n_units or confidence is out of range.")
    return kind(**stored)


def _check_shapes(arrays: dict[str, NDArray[Any]], known: dict[str, Any]) -> None:
    """Raise ModelError unless the arrays fit the names of the features and outputs, and hold what they may."""
    n, names, rounds = len(known["feature_names"]), known["output_names"], arrays.get("rounds")
    n_rounds = len(rounds) if rounds is not None and rounds.ndim else 0
    shapes: dict[str, tuple[int, ...]] = {"rounds": (n_rounds, n), "gains": (n,)}
    if "folds.scores" in arrays:
        shapes["folds.scores"] = (len(arrays["folds.scores"]) if arrays["folds.scores"].ndim else 0, n)
    outputs = known.get("outputs")
    n_outputs = outputs.score.shape[-1] if outputs is not None and outputs.score.ndim else 1
    if names is not None and len(names) != n_outputs:
        raise ModelError(f"{len(names)} output_names, but {n_outputs} outputs.")
    for name in arrays:
        part, _, field = name.partition(".")
        expected = shapes.get(name, {"statistics": (n,), "outputs": (n, n_outputs), "losses": (n_rounds,)}.get(part))
        if expected is None:
            raise ModelError(f"{name} is no part of an Importance.")
        check_array(arrays, name, expected, *RANGES.get(field, ()))
