"""The tables of docs/selection-promise.md, from what promise.py measured."""

import json
import platform
from importlib.metadata import version
from pathlib import Path

from pages import filled
from pages import table as markdown

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "selection-promise.md"
FOUND = ROOT / "docs" / "selection" / "promise.json"
COMMAND = "python benchmarks/selection/promise.py"
PACKAGES = ("xgboost", "scikit-learn", "numpy")
SIZES = [(n, p) for n in (300, 1000, 5000) for p in (20, 50, 200)]
PURE_NOISE, NOTHING, NOTHING_AT = "pure noise", 0.9, 1  # nothing found in 90 % of replications at the second rate, .1


def write(found, paper):
    """Write the sums and the page."""
    found["packages"] = {name: version(name) for name in PACKAGES} | {"Python": platform.python_version()}
    FOUND.parent.mkdir(parents=True, exist_ok=True)
    FOUND.write_text(json.dumps(found, indent=None).replace('{"design"', '\n{"design"') + "\n")
    PAGE.write_text(page(PAGE.read_text(), found, paper))


def page(text, found, paper):
    """Text of the page with new tables between the marks."""
    cells = sorted(found["cells"], key=lambda c: (c["design"] in paper, c["design"].lower(), c["rows"], c["columns"]))
    blocks = {
        "made": made(found, cells),
        "conditional": table(cells, found["rates"], "conditional"),
        "marginal": table(cells, found["rates"], "marginal"),
        "noise": noise(cells),
        "misses": misses(cells, found["rates"]),
        "not measured": not_measured(cells, paper),
    }
    return filled(text, blocks)


def made(found, cells):
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items())
    replications = sum(c["replications"] for c in cells)
    hours = sum(c["replications"] * c["seconds"] for c in cells) / 3600
    return (
        f"`{COMMAND}` made the tables: {replications:,} replications in {len(cells)} cells, {hours:.1f} hours of "
        f"one thread, on a machine that was busy with other work; treeinner at commit {found['commit']}, {packages}."
    )


def broken(value, rate):
    """Whether a realised rate (mean, standard error) is above the nominal one by more than two standard errors."""
    mean, error = value
    return mean > rate + 2 * error


def bold(text, yes):
    return f"**{text}**" if yes else text


def table(cells, rates, test):
    lines = []
    for c in cells:
        fdr, power = c[test]["fdr"], c[test]["power"]
        shown = [bold("{:.3f} ± {:.3f}".format(*v), broken(v, rate)) for v, rate in zip(fdr, rates, strict=True)]
        strength = "" if power is None else " / ".join(f"{mean:.2f}" for mean, _ in power)
        seconds = f"{c['seconds']:.1f}"
        where = [c["design"], str(c["rows"]), str(c["columns"]), str(c["replications"])]
        lines.append([*where, *shown, strength, *([seconds] if test == "conditional" else [])])
    nominal = [f"FDR at {rate:g}" for rate in rates]
    power = "power at " + " / ".join(f"{rate:g}" for rate in rates)
    seconds = ["seconds"] if test == "conditional" else []
    return markdown(["design", "rows", "columns", "replications", *nominal, power, *seconds], lines)


def noise(cells):
    lines = []
    for c in cells:
        if c["design"] == PURE_NOISE:
            shares = [c[test]["nothing"][NOTHING_AT] for test in ("conditional", "marginal")]
            shown = [bold(f"{share:.0%}", share < NOTHING) for share in shares]
            lines.append([str(c["rows"]), str(c["columns"]), str(c["replications"]), *shown])
    return markdown(["rows", "columns", "replications", "conditional", "marginal"], lines)


def misses(cells, rates):
    lines, asked = [], 0
    for c in cells:
        where = f"{c['design']}, {c['rows']} rows, {c['columns']} columns ({c['replications']} replications)"
        for test in ("conditional", "marginal"):
            for value, rate in zip(c[test]["fdr"], rates, strict=True):
                asked += 1
                if broken(value, rate):
                    lines.append(f"- {where}: `{test}`, FDR {value[0]:.3f} ± {value[1]:.3f} at {rate:g}")
            if c["design"] == PURE_NOISE and c[test]["nothing"][NOTHING_AT] < NOTHING:
                lines.append(f"- {where}: `{test}`, nothing selected in {c[test]['nothing'][NOTHING_AT]:.0%}")
    head = f"{len(lines)} of {asked} rates in {len(cells)} cells are above their promise" + (":" if lines else ".")
    return "\n".join([head, "", *lines]) if lines else head


def not_measured(cells, paper):
    """Cells of the grid that have too few replications to be shown."""
    there = {(c["design"], c["rows"], c["columns"]) for c in cells}
    names = sorted({c["design"] for c in cells} - set(paper), key=str.lower)
    lines = []
    for n, p in SIZES:
        absent = [name for name in names if (name, n, p) not in there]
        if absent:
            which = "all designs" if len(absent) == len(names) else ", ".join(absent)
            lines.append(f"- {n} rows, {p} columns: {which}")
    return "\n".join(lines) or "Every design was measured at every size."
