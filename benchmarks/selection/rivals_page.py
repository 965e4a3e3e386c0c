"""Tables of docs/selection-rivals.md, from the results of rivals.py."""

import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
from methods import METHODS, OURS, Q
from pages import filled, mean, table
from rivals import NAMES, REFERENCE

PAGE = Path(__file__).parent.parent.parent / "docs" / "selection-rivals.md"
COMMAND = "make selection-rivals"
NONE = "-"
ENOUGH = 3  # replications; with fewer, a mean is shown in parentheses and wins nothing
LOSSES = {"all": "loss of all", "true": "loss of relevant"}


class Results:
    """Values by design and method, replications in order."""

    def __init__(self, records):
        self.failed = {key: record for key, record in records.items() if "error" in record}
        self.records = {key: record for key, record in records.items() if "error" not in record}
        self.designs = [name for name in NAMES if any(key[0] == name for key in self.records)]
        self.methods = [name for name in METHODS if any(key[1] == name for key in self.records)]

    def of(self, name, method, what):
        """{replication: value}; losses are divided by those with all or with the relevant features."""
        found = {r: record for (d, m, r), record in self.records.items() if (d, m) == (name, method)}
        if what not in LOSSES:
            return {r: record[what] for r, record in found.items() if what in record}
        against = self.of(name, REFERENCE, LOSSES[what])
        return {r: record["loss"] / against[r] for r, record in found.items() if "loss" in record and r in against}

    def kept(self, name, method):
        return {r: len(kept) for r, kept in self.of(name, method, "kept").items()}

    def having(self, what):
        """The methods that have a value of this kind."""
        return [m for m in self.methods if any(self.of(name, m, what) for name in self.designs)]

    def counted(self, name, method, what):
        """Mean, its standard error, and the number of replications."""
        values = list(self.of(name, method, what).values())
        return *mean(values), len(values)

    def mean(self, name, method, what):
        return mean(list(self.of(name, method, what).values()))

    def difference(self, name, method, other, what):
        """Mean of method - other over the replications that both have, and its standard error."""
        a, b = self.of(name, method, what), self.of(name, other, what)
        return mean([a[r] - b[r] for r in sorted(a.keys() & b.keys())])


# -- cells ---------------------------------------------------------------------------------------------------
def number(value, error=np.nan, digits=2):
    if np.isnan(value):
        return NONE
    text = f"{value:.{digits}f}"
    return text if np.isnan(error) else f"{text} ± {error:.{digits}f}"


def seconds(value):
    return NONE if np.isnan(value) else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def cells(means, best=None):
    """Cells of [(mean, standard error, replications)]; the best in bold, those of few replications in parentheses."""
    enough = [value for value, _, n in means if n >= ENOUGH and not np.isnan(value)]
    top = best(enough) if best and enough else np.nan
    out = []
    for value, _, n in means:
        text = number(value)
        out.append(
            text if text == NONE else f"({text})" if n < ENOUGH else f"**{text}**" if abs(value - top) < 0.005 else text
        )
    return out


# -- tables --------------------------------------------------------------------------------------------------
def how(results):
    lines = []
    for method in results.methods:
        counts = [len(results.of(name, method, "seconds")) for name in results.designs]
        times = [results.mean(name, method, "seconds")[0] for name in results.designs]
        used = {r["version"] for (_, m, _), r in results.records.items() if m == method}
        span = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
        package = METHODS[method].modules[0].split(".")[0]
        lines.append(
            [method, METHODS[method].how, f"{package} {', '.join(sorted(used))}", span, seconds(np.nanmean(times))]
        )
    return table(["method", "how it was run", "version", "replications", "seconds"], lines)


def grid(results, what, best):
    """One row per method, one column per design: means over replications; the best of a column in bold."""
    methods = results.having(what)
    names = [n for n in results.designs if not all(np.isnan(results.mean(n, m, what)[0]) for m in methods)]
    columns = [cells([results.counted(name, m, what) for m in methods], best) for name in names]
    return table(["method", *names], [[m, *row] for m, *row in zip(methods, *columns, strict=True)])


def false_discoveries(results, kind):
    """FDR of the selectors by design; bold where it is above q by more than two standard errors."""
    what = f"fdr {kind}"
    lines = []
    for method in results.having(what):
        means = [results.counted(name, method, what) for name in results.designs]
        over = [n >= ENOUGH and value > Q + 2 * error for value, error, n in means]
        lines.append([method, *(f"**{c}**" if yes else c for c, yes in zip(cells(means), over, strict=True))])
    return table(["method", *results.designs], lines)


def overall(results, ours, what, digits):
    """Ours minus each rival on the draws that both saw, averaged over the designs, ± the standard error of that."""
    lines = []
    for rival in [m for m in results.having(what) if m not in OURS]:
        line = [rival]
        for mine in ours:
            gaps = np.array([results.difference(name, mine, rival, what) for name in results.designs])
            gaps = gaps[~np.isnan(gaps).any(axis=1)]
            gap, error = (
                (gaps[:, 0].mean(), np.sqrt((gaps[:, 1] ** 2).sum()) / len(gaps)) if len(gaps) else (np.nan,) * 2
            )
            line.append(NONE if np.isnan(gap) else f"{gap:+.{digits}f} ± {error:.{digits}f} ({len(gaps)})")
        lines.append(line)
    return table(["rival", *(f"{mine} minus rival" for mine in ours)], lines)


def one_design(results, name):
    lines = []
    for method in results.methods:
        found = results.of(name, method, "seconds")
        if not found:
            continue
        measures = ("auc conditional", "auc marginal", "fdr conditional", "fdr marginal", "power conditional")
        shown = [number(*results.mean(name, method, what)) for what in measures]
        kept = number(mean(list(results.kept(name, method).values()))[0], digits=1)
        losses = [number(*results.mean(name, method, what), digits=3) for what in LOSSES]
        lines.append(
            [method, str(len(found)), *shown, kept, *losses, seconds(results.mean(name, method, "seconds")[0])]
        )
    head = ["method", "n", "AUC", "AUC, proxies count", "FDR", "FDR, proxies count", "power", "kept"]
    return table([*head, "loss / all", "loss / relevant", "seconds"], lines)


def details(results):
    return "\n\n".join(f"### {name}\n\n{one_design(results, name)}" for name in results.designs)


# -- sentences -----------------------------------------------------------------------------------------------
def verdicts(results, what, best, digits=2):
    """A line for each design: the best rival against the better of ours, with the paired difference."""
    lines = []
    sign = 1 if best is max else -1
    for name in results.designs:
        means = {m: results.counted(name, m, what) for m in results.methods}
        value = {m: v for m, (v, _, n) in means.items() if n >= ENOUGH and not np.isnan(v)}
        mine = best((m for m in OURS if m in value), key=value.get, default=None)
        rival = best((m for m in value if m not in OURS), key=value.get, default=None)
        if mine is None or rival is None:
            continue
        gap, error = results.difference(name, mine, rival, what)
        won = "ours is better" if sign * gap > 0 else "**the rival wins**"
        if not abs(gap) > 2 * error:
            won = "no difference beyond two standard errors"
        lines.append(
            f"- {name}: {rival} {number(value[rival], digits=digits)}, {mine} {number(value[mine], digits=digits)}; "
            f"paired difference {gap:+.{digits}f} ± {error:.{digits}f}: {won}."
        )
    return "\n".join(lines) or "Not run yet."


def failures(results):
    lines = {}
    for (name, method, _), record in results.failed.items():
        lines.setdefault((method, record["error"].splitlines()[0][:160]), set()).add(name)
    listed = [f"- {m} on {', '.join(sorted(names))}: `{error}`" for (m, error), names in sorted(lines.items())]
    return "\n".join(listed) or "No method failed on any draw."


def made(results):
    total = sum(r.get("seconds", 0.0) for r in results.records.values())
    packages = ", ".join(f"{p} {version(p)}" for p in ("treeinner", "xgboost", "scikit-learn", "numpy", "pandas"))
    return (
        f"`{COMMAND}` made the tables of this page ({len(results.records)} runs, {total / 60:.0f} minutes of processor "
        f"time in the methods, one core; {packages}, Python {platform.python_version()})."
    )


def blocks(records):
    results = Results(records)
    return {
        "made": made(results),
        "how": how(results),
        "auc": grid(results, "auc conditional", max),
        "fdr conditional": false_discoveries(results, "conditional"),
        "fdr marginal": false_discoveries(results, "marginal"),
        "power": grid(results, "power conditional", max),
        "loss": grid(results, "all", min),
        "auc verdicts": verdicts(results, "auc conditional", max),
        "loss verdicts": verdicts(results, "all", min, 3),
        "auc overall": overall(results, OURS, "auc conditional", 2),
        "loss overall": overall(results, OURS, "all", 3),
        "failures": failures(results),
        "details": details(results),
    }


def write(records):
    PAGE.write_text(filled(PAGE.read_text(), blocks(records)))
