"""MODEL on the command line: its file, read once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from treeinner.cli.errors import input_errors
from treeinner.cli.files import looks_like_data
from treeinner.cli.options import Reading
from treeinner.errors import DataError
from treeinner.model import Model, read_model

__all__ = ["ModelFile", "read"]


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A model, and where it came from."""

    path: Path
    model: Model

    @property
    def names(self) -> tuple[str, ...] | None:
        """Columns that the model wants, by name; None: by position."""
        e = self.model.ensemble
        # Behind CatBoost's encoded categories the schema speaks of leaves; rows still have the features.
        return e.feature_names if e.schema.external else e.schema.names

    @property
    def n_columns(self) -> int:
        """Number of columns that the model wants."""
        e = self.model.ensemble
        return e.n_features if e.schema.external else e.schema.n_columns


def read(path: Path, reading: Reading) -> ModelFile:
    """Read a model file, with what the user says about it."""
    options = reading.options()
    if looks_like_data(path):
        raise DataError(
            f"{path} is a data file, but the model was expected there; the model comes first: "
            "treeinner importance MODEL DATA."
        )
    with input_errors():
        return ModelFile(path, read_model(path, **options))
