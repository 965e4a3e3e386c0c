"""MODEL on the command line: its file, read once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treeinner.cli.errors import refusing
from treeinner.cli.files import looks_like_data
from treeinner.ensemble import Ensemble
from treeinner.errors import DataError
from treeinner.model import Model, read_model

__all__ = ["ModelFile", "read"]


@dataclass(frozen=True, eq=False)
class ModelFile:
    """A model, where it came from, and what the user said about it."""

    path: Path
    model: Model
    said: dict[str, Any]  # learning_rate and the like, as far as given

    @property
    def ensemble(self) -> Ensemble:
        """Its trees."""
        return self.model.ensemble

    @property
    def names(self) -> tuple[str, ...] | None:
        """Columns that the model wants, by name; None: by position."""
        e = self.ensemble
        # Behind CatBoost's encoded categories the schema speaks of leaves; rows still have the features.
        return e.feature_names if e.schema.external else e.schema.names

    @property
    def n_columns(self) -> int:
        """Number of columns that the model wants."""
        return self.ensemble.n_features if self.ensemble.schema.external else self.ensemble.schema.n_columns


def read(path: Path, **said: Any) -> ModelFile:
    """Read a model file; `said` are the options of `read_model`, None where the user said nothing."""
    if looks_like_data(path):
        raise DataError(
            f"{path} is a data file, but the model was needed there; the model comes first: "
            "treeinner importance MODEL DATA."
        )
    given = {name: value for name, value in said.items() if value is not None}
    with refusing(ValueError, TypeError):
        return ModelFile(path, read_model(path, **given), given)
