"""Numbers and values as the page holds them: short, finite, JSON."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Number = int | float | None
LONGEST_TEXT = 60  # characters of a value that is text


def short(value: float, digits: int = 6) -> Number:
    """Round to some significant digits; None if it is not finite. JSON gets 12, not 12.0."""
    if not math.isfinite(value):
        return None
    cut = float(f"{value:.{digits}g}")
    return int(cut) if cut.is_integer() and abs(cut) < 1e15 else cut


def plain(array: NDArray[Any]) -> list[Any]:
    """An array as JSON holds it: nested lists, of `short` numbers if it has floats."""
    if array.ndim > 1:
        return [plain(part) for part in array]
    return [short(number) for number in array.tolist()] if array.dtype.kind == "f" else array.tolist()


def value_text(value: Any) -> Number | str | bool:
    """A feature's value or a label as the reader should see it: number or text; None if it is missing."""
    if value is None:
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value) if abs(int(value)) < 2**53 else str(int(value))  # JavaScript would round it
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isinf(number):
            return "∞" if number > 0 else "\u2212∞"
        return short(round(number, 1), 17) if abs(number) >= 1e5 else short(number)
    text = str(value)
    if text in ("NaT", "<NA>"):
        return None
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def packed(curves: NDArray[np.float64]) -> tuple[str, NDArray[np.float64]]:
    """Rows as 16-bit integers in base64, and what one of them stands for in each row."""
    unit = np.array([short(largest / 32767) for largest in np.abs(curves).max(axis=1, initial=0.0)], np.float64)
    scaled = np.divide(curves, unit[:, None], out=np.zeros_like(curves), where=unit[:, None] > 0)
    return base64.b64encode(np.round(scaled).astype("<i2").tobytes()).decode("ascii"), unit
