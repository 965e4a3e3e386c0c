"""Models of a newer version than the readers know: read if every field is a known one, else refused with what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from treeinner.errors import ModelError, UnsupportedModelError

__all__ = ["check_fields", "explained", "is_newer"]

Version = tuple[int, ...]  # () if it is not known

# What tests/golden and tests/matrix have read. LightGBM numbers its model text, of which LightGBM 4 writes v4.
NEWEST: dict[str, Version] = {"XGBoost": (3, 4), "LightGBM": (4,), "CatBoost": (1, 2)}


@contextmanager
def explained(library: str, version: Version) -> Iterator[None]:
    """Turn damage into what it most likely is where a newer version wrote the model: a layout that is not known."""
    try:
        yield
    except ModelError as error:
        if not is_newer(library, version):
            raise
        raise UnsupportedModelError(f"{error} {_advice(library, version)}") from error


def check_fields(library: str, version: Version, owner: str, found: Iterable[str], known: Iterable[str]) -> None:
    """Raise on a field that is not known in a model of a newer version: it may change what the others mean."""
    unknown = sorted(set(found).difference(known))
    if unknown and is_newer(library, version):
        raise UnsupportedModelError(f"{owner} has the unknown field {unknown[0]!r}. {_advice(library, version)}")


def is_newer(library: str, version: Version) -> bool:
    """Whether a version is newer than those that the readers know."""
    newest = NEWEST[library]
    return version[: len(newest)] > newest


def _advice(library: str, version: Version) -> str:
    written, newest = (".".join(map(str, numbers)) for numbers in (version, NEWEST[library]))
    return (
        f"The model was written by {library} {written}, and this treeinner knows {library} up to {newest}: "
        f"upgrade treeinner, or train and save the model with {library} {newest}."
    )
