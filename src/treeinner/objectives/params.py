"""Parameters of a loss, as the libraries spell and nest them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from treeinner.errors import UnknownParameterError

REQUIRED = object()


@dataclass(frozen=True)
class Params:
    """What the model stores about its loss."""

    name: str
    values: Mapping[str, Any]
    n_outputs: int = 1
    version: tuple[int, ...] = ()  # of the library; () if unknown

    def raw(self, *names: str, default: Any = REQUIRED) -> Any:
        """Return the first parameter that is there; nested mappings (XGBoost's JSON) are searched too."""
        places = [self.values, *(v for v in self.values.values() if isinstance(v, Mapping))]
        for place in places:
            for name in names:
                if place.get(name) is not None:
                    return place[name]
        if default is REQUIRED:
            raise UnknownParameterError(
                f'{self.name}: the model does not store {names[0]}; pass objective="{self.name}:{names[0]}=...".'
            )
        return default

    def number(self, *names: str, default: Any = REQUIRED) -> float:
        """Return one number."""
        value = self.numbers(*names, default=default)
        if len(value) != 1:
            raise UnknownParameterError(f"{self.name}: {names[0]}={list(value)}, expected one number.")
        return value[0]

    def numbers(self, *names: str, default: Any = REQUIRED) -> list[float]:
        """Return one or more numbers, from a list, a number, or text such as "[0.1, 0.9]" or "0.1,0.9"."""
        value = self.raw(*names, default=default)
        if isinstance(value, str):
            value = [part for part in re.split(r"[,\s]+", value.strip("[]() ")) if part]
        try:
            return [float(v) for v in np.atleast_1d(np.asarray(value)).tolist()]
        except (TypeError, ValueError):
            raise UnknownParameterError(f"{self.name}: {names[0]}={value!r} is not a number.") from None

    def flag(self, *names: str, default: bool = False) -> bool:
        """Return a yes or no."""
        return str(self.raw(*names, default=default)).lower() in ("true", "1", "1.0", "yes")
