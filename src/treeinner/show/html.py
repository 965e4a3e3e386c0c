"""Small HTML tables for notebooks: everything a user named is escaped, nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import nan

__all__ = ["BLUE", "GREY", "VERMILLION", "bar", "table"]

BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#999999"  # of the plots too

Cell = str | tuple[str, str]  # text to be escaped, or ("html", markup)


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[Cell]], footer: str = "") -> str:
    """HTML table under a title; cells are text, or ("html", markup) made by `bar`."""
    head = "".join(f"<th style='text-align:left'>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td style=text-align:left>{_cell(c)}</td>' for c in row)}</tr>" for row in rows)
    below = f"<div style='opacity:0.75'>{escape(footer)}</div>" if footer else ""
    return f"<div><b>{escape(title)}</b><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"


def _cell(cell: Cell) -> str:
    """Markup of one cell."""
    return escape(cell) if isinstance(cell, str) else cell[1]


def bar(value: float, low: float = nan, high: float = nan, *, span: tuple[float, float], colour: str) -> Cell:
    """Inline SVG of a bar from 0 to `value` on the axis `span`, with a whisker from `low` to `high` (NaN: none)."""
    width, (left, right) = 160.0, span
    scale = width / (right - left) if right > left else 0.0

    def x(number: float) -> float:
        return (min(max(number, left), right) - left) * scale

    a, b = sorted((x(0.0), x(value)))
    parts = [f"<rect x='{a:.1f}' y='3' width='{max(b - a, 0.5):.1f}' height='10' fill='{colour}' opacity='0.75'/>"]
    if low <= high:  # False if either is NaN
        parts.append(f"<line x1='{x(low):.1f}' x2='{x(high):.1f}' y1='8' y2='8' stroke='currentColor'/>")
    parts.append(f"<line x1='{x(0.0):.1f}' x2='{x(0.0):.1f}' y1='0' y2='16' stroke='{GREY}'/>")
    return ("html", f"<svg width='{width:.0f}' height='16' aria-hidden='true'>{''.join(parts)}</svg>")
