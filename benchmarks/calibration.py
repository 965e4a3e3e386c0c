"""Do intervals cover, do tests keep their level, and what does that cost in power? Writes docs/calibration.md.

Run `python benchmarks/calibration.py` (about 20 minutes of one core). Results go to build/calibration, a line for each
replication, so that a run that was interrupted continues where it stopped. The designs are in designs.py; a change of
that file starts anew, a change of treeinner does not: `--fresh` does.
"""

import argparse
import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np

import designs
from designs import DESIGNS, ETAS, OUT_OF_BAG, SIZES, TARGETS
from treeinner.score.infer import benjamini_hochberg

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "calibration.md"
FOLDER = ROOT / "build" / "calibration"
COMMAND = "python benchmarks/calibration.py"
PACKAGES = ("treeinner", "xgboost", "lightgbm", "scikit-learn", "numpy")

PASSES = 10  # each does its part of the replications of all studies: a run cut short has a bit of everything
REPLICATIONS = {"tests": 200, "coverage": 20, "coverage of the loss breakdown": 10, "eta": 100, "misuse": 100}
TESTS = ("t", "z")  # what `importance` reports, and the plain test
LEVEL, Q, POWER_LOSS, COVERAGE, ENOUGH_ROWS = 0.05, 0.1, 0.03, (0.93, 0.975), 300
LARGE_ETA = 0.5  # from there on TreeInner takes repaired harm for signal; the page says so


# -- running -------------------------------------------------------------------------------------------------
def jobs(replications):
    """(study, case, replication) -> what to call, in the order of the passes."""
    out = {}
    for turn in range(PASSES):
        for study, n in replications.items():
            for r in range(turn * n // PASSES, (turn + 1) * n // PASSES):
                out |= {(study, case, r): call for case, call in _cases(study, r)}
    return out


def _cases(study, r):
    if study == "tests":
        return [(d.name, (designs.significance, d, r)) for d in (*DESIGNS, OUT_OF_BAG)]
    if study == "eta":
        pairs = [(target, eta) for target in TARGETS for eta in ETAS]
        return [(f"{target}, {eta}", (designs.significance, TARGETS[target], r, eta, 1500, 3)) for target, eta in pairs]
    if study == "misuse":
        return [("all", (designs.misuse, r))]
    score = "tree_inner" if study == "coverage" else "loss"
    return [(d.name, (designs.coverage, d, r, score)) for d in DESIGNS]


def results_file():
    text = (Path(__file__).parent / "designs.py").read_bytes()
    return FOLDER / f"{hashlib.sha256(text).hexdigest()[:8]}.jsonl"


def load(path):
    """Read the lines of a file: {(study, case, replication): record}; a line that was cut off is left out."""
    out = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        out[tuple(record.pop("key"))] = record
    return out


def run(path, replications):
    path.parent.mkdir(parents=True, exist_ok=True)
    done = load(path)
    with path.open("a") as file:
        file.write("\n")  # after a line that was cut off
        for key, call in jobs(replications).items():
            if key not in done:
                record = {"key": key, **designs.timed(*call)}
                file.write(json.dumps(record, default=lambda a: [float(f"{x:.5g}") for x in a]) + "\n")
                file.flush()


# -- shares and their standard errors ------------------------------------------------------------------------
def share(hits, tries):
    """Pooled over replications, (replications,) each: the share and its standard error over replications."""
    hits, tries = np.asarray(hits, float), np.asarray(tries, float)
    if not tries.sum():
        return np.nan, np.nan
    rate, n = hits.sum() / tries.sum(), len(hits)
    return rate, np.sqrt(((hits - rate * tries) ** 2).sum() * n / max(n - 1, 1)) / tries.sum()


def mean(values):
    return np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))


def kinds(design, n_features):
    """Which features are signals and which are noise; the proxies of signals are neither."""
    k = np.arange(n_features)
    signal = k < design.signals
    return signal, ~signal & ~np.isin(k, design.proxies)


def rates(design, records, score, test):
    """Size, FDR, power and share of proxies found, each with its standard error."""
    p, used = np.array([r["p"][score][test] for r in records]), np.array([r["used"] for r in records], bool)
    up = np.array([r["p"][score]["up"] for r in records], bool)
    signal, noise = kinds(design, p.shape[1])
    found = (np.array([benjamini_hochberg(x) for x in p]) <= Q) & up
    asked = used & noise
    out = {
        "size": share(((p < LEVEL) & up & asked).sum(axis=1), asked.sum(axis=1)),
        "fdr": mean((found & noise).sum(axis=1) / np.maximum((found & (signal | noise)).sum(axis=1), 1)),
        "power": mean(found[:, signal].mean(axis=1)),
    }
    if design.proxies:
        out["proxies"] = mean(found[:, list(design.proxies)].mean(axis=1))
    return out


# -- tables --------------------------------------------------------------------------------------------------
class Tables:
    """Tables of the page; `misses` collects what is not as wanted."""

    def __init__(self, results):
        self.misses = []
        self.of = {}
        for (study, case, _), record in results.items():
            self.of.setdefault((study, case), []).append(record)

    def miss(self, where, what, cell, limit, error):
        close = " (within 2 standard errors)" if abs(cell - limit) <= 2 * error else ""
        self.misses.append((where, f"{what}: {cell:.3f} ± {error:.3f}{close}"))

    def coverage(self, study):
        lines = []
        for design in DESIGNS:
            records = self.of.get((study, design.name), [])
            if not records:
                continue
            masks = zip(("signals", "noise"), kinds(design, len(records[0]["used"])), strict=True)
            cells = [self._covered(study, design, records, kind, mask, n) for kind, mask in masks for n in SIZES]
            lines.append([design.name, *cells])
        head = [f"{kind}, {n} rows" for kind in ("signals", "noise") for n in SIZES]
        return markdown(["design", *head], lines)

    def _covered(self, study, design, records, kind, mask, n):
        mask = np.array([np.array(r["used"], bool) & mask for r in records])
        inside, reached = (np.array([r[str(n)][x] for r in records]) * mask for x in ("inside", "reached"))
        rate, error = share(inside.sum(axis=1), reached.sum(axis=1))
        low, high = COVERAGE
        off = n >= ENOUGH_ROWS and not low <= rate <= high
        if off:
            self.miss(design.name, f"{study}, {kind}, {n} rows", rate, low if rate < low else high, error)
        return bold(f"{rate:.3f} ± {error:.3f}", off)

    def not_reached(self):
        lines = []
        for design in DESIGNS:
            records = self.of.get(("coverage", design.name), [])
            if not records:
                continue
            line = [design.name]
            for mask in kinds(design, len(records[0]["used"])):
                used = np.array([np.array(r["used"], bool) & mask for r in records])
                for n in SIZES:
                    reached = np.array([r[str(n)]["reached"] for r in records]) / records[0]["samples"]
                    line.append(1 - reached[used].mean())
            if max(line[1:]) > 0.005:
                lines.append([line[0], *(f"{x:.3f}" for x in line[1:])])
        head = [f"{kind}, {n} rows" for kind in ("signals", "noise") for n in SIZES]
        return markdown(["design", *head], lines)

    def tests(self, score):
        lines = []
        for design in (*DESIGNS, OUT_OF_BAG):
            records = [r for r in self.of.get(("tests", design.name), []) if score in r["p"]]
            if len(records) > 1:
                found = {test: rates(design, records, score, test) for test in TESTS}
                cells = self._checked(design.name, score, found, exempt=False)
                lines.append([design.name, str(len(records)), *cells])
        head = ["noise, p < .05: t / z", "FDR at q .1: t / z", "power at q .1: t / z"]
        return markdown(["design", "models", *head], lines)

    def _checked(self, where, score, found, *, exempt):
        """Cells of size, FDR and power; what is not as wanted is bold, and noted unless the page has the reason."""
        cells = []
        for what, limit in (("size", LEVEL / 2), ("fdr", Q), ("power", found["z"]["power"][0] - POWER_LOSS)):
            value, error = found["t"][what]
            off = value < limit if what == "power" else value > limit + 2 * error
            name = {"size": "noise, p < .05", "fdr": "FDR", "power": "power"}[what]
            if off and not exempt:
                self.misses.append((where, f"{score}, {name}: {value:.3f} ± {error:.3f}, wanted {limit:.3f}"))
            cells.append(bold(f"{value:.3f} ± {error:.3f}", off) + f" / {found['z'][what][0]:.3f}")
        return cells

    def proxies(self):
        lines = []
        for design in DESIGNS:
            records = self.of.get(("tests", design.name), [])
            if design.proxies and records:
                for score in ("tree_inner", "loss"):
                    found = {test: rates(design, records, score, test)["proxies"] for test in TESTS}
                    lines.append([design.name, score, *("{:.3f} ± {:.3f}".format(*found[test]) for test in TESTS)])
        return markdown(["design", "score", *TESTS], lines)

    def eta(self):
        lines = []
        for target, design in TARGETS.items():
            for eta in ETAS:
                records = self.of.get(("eta", f"{target}, {eta}"), [])
                if len(records) < 2:
                    continue
                line = [target, f"{eta:g}", str(len(records))]
                for score in ("tree_inner", "loss"):
                    found = {test: rates(design, records, score, test) for test in TESTS}
                    exempt = score == "tree_inner" and eta >= LARGE_ETA
                    line += self._checked(f"{target}, eta {eta:g}", score, found, exempt=exempt)
                lines.append(line)
        what = ("noise, p < .05", "FDR", "power")
        head = [f"{score}: {w}" for score in ("TreeInner", "loss breakdown") for w in what]
        return markdown(["target", "eta", "models", *head], lines)

    def misuse(self):
        records = self.of.get(("misuse", "all"), [])
        lines = []
        for case in [c for c in records[0] if c != "seconds"] if records else []:
            p, used = (np.array([r[case][x] for r in records]) for x in ("p", "used"))
            # clusters: the first features are signals; pure noise elsewhere
            noise = (used > 0) & ((np.arange(p.shape[1]) >= designs.N_SIGNALS) | ("clusters" not in case))
            below = (share(((p < level) & noise).sum(axis=1), noise.sum(axis=1)) for level in (0.05, 0.01))
            lines.append([case, *("{:.3f} ± {:.3f}".format(*cell) for cell in below)])
        return markdown(["scored on", "noise, p < .05", "noise, p < .01"], lines)

    def missed(self):
        if not self.misses:
            return "Nothing: every promise above held in every design."
        out = {}
        for where, what in self.misses:
            out.setdefault(where, []).append(what)
        return "\n".join(f"- **{where}**: {'; '.join(whats)}." for where, whats in out.items())


def bold(text, yes):
    return f"**{text}**" if yes else text


def markdown(head, lines):
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *lines])


def made(results):
    seconds = sum(r["seconds"] for r in results.values())
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    done = f"{len(results)} of {len(jobs(REPLICATIONS))} replications"
    return (
        f"`{COMMAND}` made this page ({done}; {seconds / 60:.0f} minutes of processor time, one thread; "
        f"{packages}, Python {platform.python_version()})."
    )


def page(results):
    """Text of docs/calibration.md with new tables between the marks."""
    tables = Tables(results)
    blocks = {
        "made": made(results),
        "coverage": tables.coverage("coverage"),
        "coverage of the loss breakdown": tables.coverage("coverage of the loss breakdown"),
        "not reached": tables.not_reached(),
        "tests": tables.tests("tree_inner"),
        "tests of the loss breakdown": tables.tests("loss"),
        "proxies": tables.proxies(),
        "eta": tables.eta(),
        "misuse": tables.misuse(),
        "misses": tables.missed(),
    }
    text = PAGE.read_text()
    for name, block in blocks.items():
        before, start, rest = text.partition(f"<!-- {name} -->\n")
        _, stop, after = rest.partition(f"<!-- end {name} -->")
        assert stop, f"{PAGE.name} has no place for {name!r}"
        text = f"{before}{start}{block}\n{stop}{after}"
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", type=float, default=1.0, help="part of the replications: a trial, printed only")
    parser.add_argument("--fresh", action="store_true", help="forget the results of an earlier run")
    parser.add_argument("--write-only", action="store_true", help="write the page from the results there are")
    args = parser.parse_args()
    path = results_file()
    if args.fresh:
        path.unlink(missing_ok=True)
    if not args.write_only:
        run(path, {study: max(2, round(args.part * n)) for study, n in REPLICATIONS.items()})
    text = page(load(path))
    if args.part < 1:
        print(text)
    else:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
