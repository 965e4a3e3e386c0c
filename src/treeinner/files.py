"""load(): whatever treeinner saved, by looking inside."""

from __future__ import annotations

from pathlib import Path

from treeinner import attribution, ensemble
from treeinner.errors import ModelError
from treeinner.model import Model, read_model
from treeinner.scores import result, saved

__all__ = ["load"]


def load(path: str | Path) -> Model | attribution.Attribution | result.Importance:
    """Read a file written by `Model.save`, `Attribution.save` or `Importance.save`."""
    kind = ensemble.storage.format_of(path)
    if kind == ensemble.FORMAT:
        return read_model(path)
    if kind == attribution.FORMAT:
        return attribution.Attribution.load(path)
    if kind == saved.FORMAT:
        return result.Importance.load(path)
    raise ModelError(f"{path} was not saved by treeinner; to read a model file use treeinner.read_model(path).")
