"""A mutant is a pure function of its format, its number and the seed of the run."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.fuzz import documents, flat, texts
from tests.fuzz.seeds import Seed, seeds
from tests.hostile import mutants

__all__ = ["FORMATS", "Format", "mutant"]

Damage = Callable[[bytes, np.random.Generator], bytes]
AGAIN = 0.25  # share of the mutants that are damaged once more


@dataclass(frozen=True)
class Format:
    """How files of a format are damaged, and how many mutants are a full run."""

    damages: list[Damage]
    library: str = ""  # that is asked about what we accept
    n_mutants: int = 200_000


FORMATS = {
    "xgboost-json": Format(documents.JSON_DAMAGES, "xgboost"),
    "xgboost-ubj": Format(documents.UBJ_DAMAGES, "xgboost"),
    "lightgbm": Format(texts.DAMAGES, "lightgbm"),
    "catboost-json": Format(documents.JSON_DAMAGES, "catboost"),
    "catboost-cbm": Format(flat.DAMAGES, "catboost"),
    "model": Format(mutants.DAMAGES),
    "attribution": Format(mutants.DAMAGES),
    "importance": Format(mutants.DAMAGES),
    "accumulator": Format(mutants.DAMAGES),
    # Files that only CatBoost can use: it starts a process for each.
    "catboost-categories": Format(flat.DAMAGES, n_mutants=500),
}


def mutant(format: str, number: int, seed: int) -> tuple[Seed, str, bytes]:
    """The good file it was made from, the names of its damages, and its bytes."""
    files, damages = seeds(format), FORMATS[format].damages
    rng = np.random.default_rng([seed, number])
    source = files[number % len(files)]
    damage = damages[number // len(files) % len(damages)]
    data, names = source.data, []
    while True:
        try:
            data = damage(data, rng)
            names.append(damage.__name__)
        except Exception:  # there is nothing left that this damage knows
            data = mutants.bytes_overwritten(data, rng)
            names.append("bytes_overwritten")
        if not data or rng.random() > AGAIN:
            return source, " ".join(names), data
        damage = mutants.chosen(rng, damages)
