"""Tables of docs/evidence/rivals.md, from the results of rivals.py."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from rivals import BESIDE, BORUTA, COMPARED, CROSS, LOFO, METHODS, RIVALS, SIGNAL, SLOW
from rivals_designs import LONG_STEPS, OWN, PAPER, PLACEBO, REAL

PAGE = Path(__file__).parent.parent / "docs" / "evidence" / "rivals.md"
COMMAND = "make rivals"
PACKAGES = ("treeinner", "xgboost", "boruta", "scikit-learn", "numpy")


def mean(values):
    """Mean and standard error; two draws or more."""
    values = np.asarray(values, float)
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


def of_cell(results, design, setting, method, what):
    """{draw: value} of one method."""
    cell = {key[2]: r for key, r in results.items() if key[:2] == (design, setting) and key[3] == method}
    return {number: record[what] for number, record in sorted(cell.items()) if what in record}


def difference(results, design, setting, rival, what, ours=SIGNAL):
    """Signal less a rival, on draws that both saw: mean, standard error, side (0: within two errors); or None."""
    a, b = (of_cell(results, design, setting, method, what) for method in (ours, rival))
    both = sorted(a.keys() & b.keys())
    if len(both) < 3:
        return None
    gap, error = mean([a[n] - b[n] for n in both])
    return gap, error, int(np.sign(gap)) * int(abs(gap) > 2 * error)


def compared(method):
    """What power is compared by: finds where a method has a rule, else the columns at the top."""
    return "top" if method in ("mean |SHAP|", "total gain") else "power"


def rows_of(results, what):
    """Cells of the tables: (design, setting) with results of signal."""
    return [(d, s) for d in (*OWN, *PAPER) for s in COMPARED if len(of_cell(results, d, s, SIGNAL, what)) > 2]


def table(head, lines):
    rows = [[str(cell).replace("|", r"\|") for cell in row] for row in (head, ["---"] * len(head), *lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def values_table(results, what, methods, cells=None):
    """Means of every method."""
    lines = []
    for design, setting in cells or rows_of(results, what):
        cells = [list(of_cell(results, design, setting, method, what).values()) for method in methods]
        texts = ["" if len(c) < 3 else f"{np.mean(c):.3f}" for c in cells]
        lines.append([design, setting, *texts])
    return table(["design", "setting", *methods], lines)


def gap_text(found):
    """A difference with its standard error, bold beyond two of them."""
    if found is None:
        return ""
    gap, error, side = found
    return f"**{gap:+.3f}** ± {error:.3f}" if side else f"{gap:+.3f} ± {error:.3f}"


def gaps_table(results, methods, what=None):
    """Signal less each rival."""
    lines = []
    for design, setting in rows_of(results, "auc"):
        gaps = [difference(results, design, setting, method, what or compared(method)) for method in methods]
        lines.append([design, setting, *map(gap_text, gaps)])
    return table(["design", "setting", *methods], lines)


def counts_table(results, what=None):
    """By rival: mean of the gaps over all cells, in how many signal is above, level and below, and where below."""
    lines = []
    for rival in RIVALS:
        found = {cell: difference(results, *cell, rival, what or compared(rival)) for cell in rows_of(results, "auc")}
        sides = {cell: gap[2] for cell, gap in found.items() if gap}
        gaps, errors = np.array([gap[:2] for gap in found.values() if gap]).reshape(-1, 2).T
        average = f"{gaps.mean():+.3f} ± {np.sqrt((errors**2).sum()) / len(errors):.3f}" if sides else ""
        number = [sum(side == wanted for side in sides.values()) for wanted in (1, 0, -1)]
        below = ", ".join(f"{design} ({setting})" for (design, setting), side in sides.items() if side < 0)
        lines.append([rival, average, *number, below])
    return table(["rival", "mean gap", "signal above", "level", "below", "where below"], lines)


def cross_table(results):
    """Cross-fitted signal less signal of a single split, and less Boruta, which sees the same rows."""
    columns = {"signal, AUC": (SIGNAL, "auc"), "Boruta, AUC": (BORUTA, "auc"), "Boruta, power": (BORUTA, "power")}
    lines = []
    for design, setting in rows_of(results, "auc"):
        false = list(of_cell(results, design, setting, CROSS, "fdp").values())
        if len(false) > 2:
            gaps = [gap_text(difference(results, design, setting, *what, ours=CROSS)) for what in columns.values()]
            lines.append([design, *gaps, "{:.3f} ± {:.3f}".format(*mean(false))])
    return table(["design", *columns, "its false finds"], lines)


def beside_table(results, cells, columns):
    """Means of the two studies beside, by design and method: {name of the column: what}."""
    lines = []
    for design, setting in cells:
        for method in BESIDE:
            values = [list(of_cell(results, design, setting, method, what).values()) for what in columns.values()]
            if len(values[0]) > 2:
                lines.append([design, method, *("{:.3f} ± {:.3f}".format(*mean(v)) for v in values)])
    return table(["rows", "score", *columns], lines)


def made(results):
    """The command, what it did, and with which versions."""
    minutes = sum(r.get("seconds", 0.0) for r in results.values()) / 60
    draws = {name: len({key[2] for key in results if key[3] == name}) for name in (SIGNAL, CROSS, LOFO, BORUTA)}
    versions = ", ".join(f"{name} {installed(name)}" for name in PACKAGES)
    return (
        f"`{COMMAND}` made the tables of this page: {draws[SIGNAL]} draws of each design ({draws[LOFO]} "
        f"of LOFO, {draws[BORUTA]} of Boruta, {draws[CROSS]} of cross-fitting), {minutes:.0f} minutes of one core, "
        f"{versions}, Python {platform.python_version()}."
    )


def installed(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def blocks(results):
    """The tables of the page, by their marks."""
    fast = [name for name in METHODS if name not in SLOW]
    tests = [name for name in METHODS if name not in ("mean |SHAP|", "total gain")]
    return {
        "made": made(results),
        "auc counts": counts_table(results, "auc"),
        "power counts": counts_table(results),
        "auc": values_table(results, "auc", fast),
        "placebo": values_table(results, "auc", fast, [(PLACEBO, setting) for setting in COMPARED]),
        "auc gaps": gaps_table(results, RIVALS, "auc"),
        "power": values_table(results, "power", tests),
        "power gaps": gaps_table(results, RIVALS),
        "false finds": values_table(results, "fdp", tests),
        "final form": gaps_table(results, ["final form"], "power"),
        "cross": cross_table(results),
        "long steps": beside_table(
            results, [(name, "rate 1") for name in LONG_STEPS],
            {"noise, p < .05": "size", "power at q .1": "power", "false finds": "fdp"},
        ),
        "real data": beside_table(results, [(name, "defaults") for name in REAL], {"columns found": "kept"}),
    }  # fmt: skip


def filled(text, parts):
    """The text with each part between its marks; everything else stays as it was written."""
    for name, part in parts.items():
        before, start, rest = text.partition(f"<!-- {name} -->\n")
        _, stop, after = rest.partition(f"<!-- end {name} -->")
        if not stop:
            raise ValueError(f"{PAGE.name} has no place for {name!r}: expected the marks around it")
        text = f"{before}{start}{part}\n{stop}{after}"
    return text


def write(results):
    """Put the tables into the page."""
    PAGE.write_text(filled(PAGE.read_text(), blocks(results)))
