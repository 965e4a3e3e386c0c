"""Do p values and intervals of the signal score keep their promises? Writes docs/evidence/calibration.md.

Run `python benchmarks/calibration.py`. Results go to build/calibration, a line for each draw, so that a run that was
interrupted continues where it stopped. The designs are in designs.py; a change of that file starts anew, a change of
treeinner does not: `--fresh` does.
"""

import argparse
import hashlib
import json
import platform
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

import designs
from designs import COMPARED, KINDS, MANY_ROWS, SIGNALS, SIZES, STUDIES
from treeinner.score.infer import benjamini_hochberg

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "evidence" / "calibration.md"
FOLDER = ROOT / "build" / "calibration"
COMMAND = "python benchmarks/calibration.py"
PACKAGES = ("treeinner", "xgboost", "lightgbm", "catboost", "scikit-learn", "numpy")

# Draws of each cell, and how many of them measure coverage too.
DRAWS = {
    "libraries": (100, 20),
    "rates": (100, 10),
    "forests": (60, 20),
    "few": (60, 10),
    "kinks": (60, 20),
    "categories": (40, 10),
    "additive": (60, 10),
    "checks": (60, 0),
}
TURNS = 20  # each does its part of all studies: a run cut short has a bit of everything
LEVEL, Q = 0.05, 0.1
SIZE_LIMIT, FDR_LIMIT, COVERAGE, ENOUGH_ROWS = 0.06, 0.1, (0.92, 0.98), 300
NAMED_RATE, NAMED_ROWS = "eta 1,", 2000  # the page names: correlated noise, large steps, many rows


# -- running -------------------------------------------------------------------------------------------------
def jobs(draws=DRAWS):
    """(study, target, model, draw) -> what to call, in the order of the turns."""
    out = {}
    for turn in range(TURNS):
        for study, (n, covered) in draws.items():
            for draw in range(turn * n // TURNS, (turn + 1) * n // TURNS):
                for cell in STUDIES.get(study, ()):
                    call = {"cell": cell, "draw": draw, "covered": draw % (n // covered) == 0}
                    out[study, cell.target.name, cell.model, draw] = (designs.measured, call)
                if study == "checks":
                    out["checks", "", "", draw] = (designs.checks, {"draw": draw})
    return out


def results_file():
    """The file of results of these designs."""
    text = (Path(__file__).parent / "designs.py").read_bytes()
    return FOLDER / f"{hashlib.sha256(text).hexdigest()[:8]}.jsonl"


def load(path):
    """Read the lines of a file: {(study, target, model, draw): record}; a line that was cut off is left out."""
    out = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        out[tuple(record.pop("key"))] = record
    return out


def run(path, wanted, minutes=np.inf):
    """Do what is not done yet, and write a line for each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done, stop = load(path), time.monotonic() + 60 * minutes
    with path.open("a") as file:
        file.write("\n")  # after a line that was cut off
        for key, (function, how) in wanted.items():
            if key not in done and time.monotonic() < stop:
                record = {"key": key, **designs.timed(function, **how)}
                file.write(json.dumps(record, default=_numbers) + "\n")
                file.flush()


def _numbers(array):
    """An array as a list of numbers with five digits."""
    return [int(x) if x == int(x) else float(f"{x:.5g}") for x in array.tolist()]


# -- rates and their standard errors -------------------------------------------------------------------------
def share(hits, tries):
    """Pooled over draws, (draws,) each: the share and its standard error over draws."""
    hits, tries = np.asarray(hits, float), np.asarray(tries, float)
    if not tries.sum():
        return np.nan, np.nan
    rate, n = hits.sum() / tries.sum(), len(hits)
    return rate, np.sqrt(((hits - rate * tries) ** 2).sum() * n / max(n - 1, 1)) / tries.sum()


def mean(values):
    """Mean and its standard error."""
    return np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))


def rates(p, used, noise):
    """From signed two-sided p values, (draws, columns): how often noise has a small one, FDR and power.

    two: two-sided p < .05. one: one-sided p < .05 for a score above 0. harmful: called so. All three are of the noise
    that the model splits on.
    """
    p, used = np.array(p), np.array(used, bool)
    mask = np.isin(np.arange(p.shape[1]), noise)
    asked, relevant = used & mask, np.arange(p.shape[1]) < SIGNALS
    small = np.array([benjamini_hochberg(row) for row in abs(p)]) <= Q
    found = small & (p > 0)
    return {
        "harmful": share((small & (p < 0) & asked).sum(axis=1), asked.sum(axis=1)),
        "two": share(((abs(p) < LEVEL) & asked).sum(axis=1), asked.sum(axis=1)),
        "one": share(((p > 0) & (p < 2 * LEVEL) & asked).sum(axis=1), asked.sum(axis=1)),
        "fdr": mean((found & mask).sum(axis=1) / np.maximum((found & (mask | relevant)).sum(axis=1), 1)),
        "power": mean(found[:, relevant].mean(axis=1)),
    }


# -- tables --------------------------------------------------------------------------------------------------
LIMITS = {"two": SIZE_LIMIT, "one": SIZE_LIMIT, "fdr": FDR_LIMIT}
NAMES = {"two": "noise, two-sided p < .05", "one": "noise, one-sided p < .05", "fdr": "FDR at q .1"}


class Tables:
    """Tables of the page; `tried` and `misses` collect what was promised, and where it does not hold."""

    def __init__(self, results):
        self.of, self.tried, self.misses = {}, {}, []
        for (study, target, model, _), record in results.items():
            self.of.setdefault((study, target, model), []).append(record)

    def cells(self, study):
        """(cell, its records) of a study, as far as there are any."""
        found = ((cell, self.of.get((study, cell.target.name, cell.model), [])) for cell in STUDIES[study])
        return [(cell, records) for cell, records in found if len(records) > 1]

    def checked(self, what, where, n, value, error):
        """The rate as text, bold above its limit and two standard errors; noted for the list of what does not hold."""
        named = NAMED_RATE in where and n >= NAMED_ROWS
        off = value > LIMITS[what] + 2 * error
        self.tried.setdefault((what, named), []).append((value, error, where, n, off))
        if off:
            self.misses.append((named, where, f"{NAMES[what]} at {n} rows {value:.3f} ± {error:.3f}"))
        return bold(decimal(value), off)

    def tests(self, study):
        """Noise, FDR and power of every cell of a study."""
        lines, largest = [], 0.0
        for cell, records in self.cells(study):
            used, where = [r["used"] for r in records], f"{cell.target.name}, {cell.model}{_few(cell)}"
            by_size = {n: rates([r["signal"][str(n)] for r in records], used, cell.target.noise) for n in SIZES}
            line = [cell.target.name, cell.model]
            line += [" ".join(self.checked(w, where, n, *found[w]) for n, found in by_size.items()) for w in LIMITS]
            line.append(" ".join(decimal(found["power"][0], 2) for found in by_size.values()))
            inner = {n: rates([r["tree_inner"][str(n)] for r in records], used, cell.target.noise) for n in COMPARED}
            line.append(" ".join(decimal(found["one"][0]) for found in inner.values()))
            line.append(" ".join(decimal(found["power"][0], 2) for found in inner.values()))
            lines.append(line)
            largest = max(largest, *(found["two"][1] for found in by_size.values()))
        head = ["target", "model", *NAMES.values(), "power", "TreeInner: noise, one-sided", "TreeInner: power"]
        draws = min(len(records) for _, records in self.cells(study))
        return (
            f"{markdown(head, lines)}\n\n{draws} draws of each. Standard errors of noise: at most {decimal(largest)}."
        )

    def kinds(self):
        """Noise by kind of column, pooled over targets and models."""
        pools = {"libraries at their defaults": ("libraries", "")}
        pools |= {f"XGBoost, eta {eta}, all depths": ("rates", f"eta {eta},") for eta in ("0.05", "0.3", "1")}
        pools["forests"] = ("forests", "")
        lines = []
        for name, (study, part) in pools.items():
            pooled = [(cell, r) for cell, rs in self.cells(study) if part in cell.model for r in rs]
            for kind, noise in KINDS.items() if pooled else ():
                used = [r["used"] for _, r in pooled]
                found = [rates([r["signal"][str(n)] for _, r in pooled], used, noise) for n in SIZES]
                cells = (" ".join(decimal(f[w][0]) for f in found) for w in ("two", "one", "harmful"))
                lines.append([name, kind, *cells])
        return markdown(["models", "kind of noise", NAMES["two"], NAMES["one"], "called harmful"], lines)

    def steep(self):
        """Learning rate 1, pooled over targets: signal beside forest_inner."""
        pools = {}
        for cell, records in self.cells("rates"):
            if cell.steep:
                pools.setdefault(cell.model, []).extend(records)
        lines = []
        for model, records in pools.items():
            for name in ("signal", "forest_inner"):
                used, noise = [r["used"] for r in records], designs.TARGETS[0].noise
                found = [rates([r[name][str(n)] for r in records], used, noise) for n in MANY_ROWS]
                lines.append([model, name, *(" ".join(decimal(f[w][0]) for f in found) for w in (*NAMES, "power"))])
        return markdown(["model", "score", *NAMES.values(), "power"], lines)

    def coverage(self, study, *, pooled=False):
        """How often intervals contain the truth, by target and model; pooled: by model, lognormal targets apart."""
        groups = {}
        for cell, records in self.cells(study):
            skewed = cell.target.name == "lognormal"
            key = ("lognormal" if skewed else "the others", cell.model) if pooled else (cell.target.name, cell.model)
            groups.setdefault(key, []).extend(r for r in records if "covered" in r)
        lines = [[*key, *self._covered(key, records)] for key, records in groups.items() if records]
        what = [f"{name}: {which}" for name in ("score", "holds") for which in ("signals", "noise")]
        return markdown(["target", "model", *what], lines)

    def _covered(self, key, records):
        """Cells of one line: score and holds, signals and noise, at each size."""
        used = np.array([r["used"] for r in records], bool)
        relevant = np.arange(used.shape[1]) < SIGNALS
        for name, shown in (("score", "score"), ("holds shown", "holds")):
            for which, mask in (("signals", relevant), ("noise", ~relevant)):
                texts = []
                for n in SIZES:
                    counts = np.array([r["covered"][str(n)][name] for r in records]) * (used & mask)[:, None]
                    rate, error = share(counts[:, 0].sum(axis=1), counts[:, 1].sum(axis=1))
                    low, high = COVERAGE
                    off = n >= ENOUGH_ROWS and not low <= rate <= high
                    wide = off and (rate < low - 2 * error or rate > high + 2 * error)
                    if n >= ENOUGH_ROWS and np.isfinite(rate):
                        self.tried.setdefault((f"coverage of {shown}, {which}", key[0] == "lognormal"), []).append(
                            (rate, error, ", ".join(key), n, wide)
                        )
                    texts.append(bold(decimal(rate), wide))
                yield " ".join(texts)

    def holds(self):
        """Median of the true holds, by model."""
        groups = {}
        for study in ("libraries", "rates", "forests"):
            for cell, records in self.cells(study):
                groups.setdefault(cell.model, []).extend(r for r in records if "truth" in r)
        lines = []
        for model, records in groups.items():
            used, holds = np.array([r["used"] for r in records], bool), np.array([r["truth"]["holds"] for r in records])
            relevant = np.arange(used.shape[1]) < SIGNALS
            quartiles = [np.percentile(holds[used & mask], (25, 50, 75)) for mask in (relevant, ~relevant)]
            lines.append([model, *("{1:.2f} ({0:.2f} to {2:.2f})".format(*q) for q in quartiles)])
        return markdown(["model", "signals: median (quartiles)", "noise: median (quartiles)"], lines)

    def checks(self):
        """Rows that are weighted, not independent, or not clean."""
        records = self.of.get(("checks", "", ""), [])
        lines = []
        for case in [c for c in records[0] if c != "seconds"] if records else []:
            p, used = ([r[case][x] for r in records] for x in ("p", "used"))
            found = rates(p, used, designs.TARGETS[0].noise)
            cells = ["{} ± {}".format(*map(decimal, found[what])) for what in LIMITS]
            lines.append([case, *cells, decimal(found["power"][0], 2)])
        return markdown(["scored on", *NAMES.values(), "power"], lines)

    def claims(self):
        """What was promised, over all tables that were made before."""
        lines = []
        for (what, named), tried in sorted(self.tried.items()):
            rate = np.array([value for value, *_ in tried])
            name = NAMES.get(what, what)
            apart = (
                " (lognormal targets)" if named and what not in NAMES else " (eta 1, from 2000 rows)" if named else ""
            )
            limit = f"at most {decimal(LIMITS[what], 2)} + 2 SE" if what in LIMITS else "92 to 98 %, 2 SE allowed"
            off = sum(wide for *_, wide in tried)
            spread = f"{decimal(rate.min())} to {decimal(rate.max())}, median {decimal(np.median(rate))}"
            lines.append([name + apart, limit, str(len(tried)), spread, bold(str(off), off)])
        return markdown(["what", "limit", "rates measured", "they are", "not within the limit"], lines)

    def missed(self):
        """Rates above their limit by cell: those the page names, and the others."""
        out = []
        for named, title in ((False, "Not expected"), (True, "Learning rate 1, 2000 rows or more")):
            by_cell = {}
            for is_named, where, what in self.misses:
                if is_named == named:
                    by_cell.setdefault(where, []).append(what)
            lines = [f"- {where}: {'; '.join(whats)}." for where, whats in by_cell.items()]
            out.append(f"{title}:\n\n" + ("\n".join(lines) or "- none."))
        return "\n\n".join(out)


def _few(cell):
    return "" if cell.n_train == designs.N_TRAIN else f", {cell.n_train} training rows"


def decimal(value, digits=3):
    """A rate without its leading zero."""
    return f"{value:.{digits}f}".replace("0.", ".", 1) if np.isfinite(value) else "-"


def bold(text, yes):
    return f"**{text}**" if yes else text


def markdown(head, lines):
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *lines])


def made(results):
    """What made the page."""
    seconds = sum(r["seconds"] for r in results.values())
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    done = f"{len(results)} of {len(jobs())} draws"
    return (
        f"`{COMMAND}` made this page ({done}; {seconds / 60:.0f} minutes of processor time, one thread; "
        f"{packages}, Python {platform.python_version()})."
    )


def page(results, text):
    """The text of the page with new tables between its marks."""
    tables = Tables(results)
    blocks = {f"tests: {study}": tables.tests(study) for study in STUDIES}
    blocks |= {f"coverage: {study}": tables.coverage(study) for study in ("libraries", "forests", "kinks")}
    blocks |= {
        f"coverage: {study}": tables.coverage(study, pooled=True)
        for study in ("rates", "few", "categories", "additive")
    }
    blocks |= {
        "made": made(results),
        "kinds": tables.kinds(),
        "steep": tables.steep(),
        "holds": tables.holds(),
        "checks": tables.checks(),
    }
    blocks |= {"claims": tables.claims(), "misses": tables.missed()}
    for name, block in blocks.items():
        before, start, rest = text.partition(f"<!-- {name} -->\n")
        _, stop, after = rest.partition(f"<!-- end {name} -->")
        assert stop, f"{PAGE.name} has no place for {name!r}"
        text = f"{before}{start}{block}\n{stop}{after}"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", type=float, default=1.0, help="part of the draws: a trial, printed only")
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop after so many; the next run continues")
    parser.add_argument("--fresh", action="store_true", help="forget the results of an earlier run")
    parser.add_argument("--write-only", action="store_true", help="write the page from the results there are")
    args = parser.parse_args()
    path = results_file()
    if args.fresh:
        path.unlink(missing_ok=True)
    if not args.write_only:
        run(path, dict(list(jobs().items())[: round(args.part * len(jobs()))]), args.minutes)
    text = page(load(path), PAGE.read_text())
    if args.part < 1:
        print(text)
    else:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
