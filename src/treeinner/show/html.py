"""Small HTML tables for notebooks: everything a user named is escaped, nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import nan

__all__ = ["BLUE", "GREY", "VERMILLION", "Cell", "bar", "table"]

BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#808080"  # of the plots too; contrast above 3 on white and black

LEFT, RIGHT = "text-align:left;white-space:nowrap", "text-align:right;white-space:nowrap"
TEXT = "text-align:left;max-width:28em;overflow-wrap:anywhere"  # names may be long
STYLES = {"feature": TEXT, "value": TEXT, "": LEFT, "verdict": LEFT}  # by column; all others are numbers

# A click on a heading sorts: numbers from the largest, words from A. Where scripts are taken out, nothing is lost.
SORT = """<script>
for (const head of document.querySelectorAll("table[data-treeinner] thead th")) if (head.textContent && !head.onclick) {
  head.style.cursor = "pointer";
  head.onclick = () => {
    const words = head.style.textAlign === "left", body = head.closest("table").tBodies[0];
    const up = head.dataset.up = head.dataset.up === (words ? "1" : "") ? (words ? "" : "1") : (words ? "1" : "");
    const text = (row) => row.cells[head.cellIndex].textContent;
    const number = (row) => parseFloat(text(row).replace(/,/g, ""));
    const order = (a, b) => words ? text(a).localeCompare(text(b)) : number(a) - number(b);
    const empty = (row) => Number(!words && isNaN(number(row)));
    body.append(...[...body.rows].sort((a, b) => empty(a) - empty(b) || (up ? order(a, b) : order(b, a)) || 0));
  };
}
</script>"""

Cell = str | tuple[str, str]  # text to be escaped, or ("html", markup)


def table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[Cell]], footer: str = "",
    *, below: Iterable[Sequence[Cell]] = (),
) -> str:  # fmt: skip
    """HTML table under a title; cells are text, or ("html", markup) made by `bar`; below: rows that are not sorted.

    Colours are the notebook's own (currentColor), or stand out from white and from black.
    """
    styles = [STYLES.get(name, RIGHT) for name in header]

    def line(cells: Sequence[Cell], tag: str = "td") -> str:
        texts = (escape(cell) if isinstance(cell, str) else cell[1] for cell in cells)
        pairs = zip(texts, styles, strict=True)
        return f"<tr>{''.join(f'<{tag} style={style!r}>{text}</{tag}>' for text, style in pairs)}</tr>"

    head = f"<thead>{line(header, 'th')}</thead>" if any(header) else ""
    parts = f"{head}<tbody>{''.join(map(line, rows))}</tbody><tfoot>{''.join(map(line, below))}</tfoot>"
    last = f"<div style='opacity:0.75'>{escape(footer)}</div>" if footer else ""
    inside = f"<b>{escape(title)}</b><table data-treeinner style='font-variant-numeric:tabular-nums'>{parts}</table>"
    return f"<div style='overflow-x:auto'>{inside}{last}</div>{SORT if head else ''}"


def bar(value: float, low: float = nan, high: float = nan, *, span: tuple[float, float], colour: str) -> Cell:
    """Inline SVG of a bar from 0 to `value` on the axis `span`, with a whisker from `low` to `high` (NaN: none)."""
    width, (left, right) = 160.0, span
    scale = width / (right - left) if right > left else 0.0

    def x(number: float) -> float:
        return (min(max(number, left), right) - left) * scale

    a, b = sorted((x(0.0), x(value)))
    parts = [f"<rect x='{a:.1f}' y='3' width='{max(b - a, 0.5):.1f}' height='10' fill='{colour}'/>"]
    if low <= high:  # False if either is NaN
        parts.append(f"<line x1='{x(low):.1f}' x2='{x(high):.1f}' y1='8' y2='8' stroke='currentColor'/>")
    parts.append(f"<line x1='{x(0.0):.1f}' x2='{x(0.0):.1f}' y1='0' y2='16' stroke='{GREY}'/>")
    return ("html", f"<svg width='{width:.0f}' height='16' aria-hidden='true'>{''.join(parts)}</svg>")
