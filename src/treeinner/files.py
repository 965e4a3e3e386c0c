"""load(): whatever treeinner saved, by looking inside."""

from __future__ import annotations

from pathlib import Path

from treeinner import attribution, ensemble, storage
from treeinner.errors import ModelError

__all__ = ["load"]


def load(path: str | Path) -> ensemble.Ensemble | attribution.Attribution:
    """Read a file written by `Ensemble.save` or `Attribution.save`."""
    kind, _ = storage.format_of(path)
    if kind == ensemble.FORMAT:
        return ensemble.Ensemble.load(path)
    if kind == attribution.FORMAT:
        return attribution.Attribution.load(path)
    raise ModelError(f"{path} was not saved by treeinner; to read a model file use treeinner.read_model(path).")
