"""Our scores against each other at every setting: paired differences in AUC, with standard errors and verdicts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

from treeinner_study.comparisons import averaged
from treeinner_study.grid import SWEEPS, Setting
from treeinner_study.names import ACCOUNT, BEST, CENTRED, Problem, Score
from treeinner_study.records import Mean, Study, signed
from treeinner_study.table import number

__all__ = [
    "NOTE", "PAIRS", "Pair", "called", "count_sentence", "over_all", "paired_rows", "settings_in_order", "to_csv",
    "to_markdown",
]  # fmt: skip

COLUMNS = (
    "score", "to", "dataset", "task", "eta", "max_depth", "min_child_weight", "num_boost_round", "reg_lambda",
    "replications", "difference", "std_error", "verdict",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Two scores that are compared, and why."""

    score: Score
    to: Score
    why: str


PAIRS = (
    Pair(
        CENTRED,
        BEST,
        "TreeInner(centred), the default of treeinner, against the paper's TreeInner(PreDecomp). They differ in the "
        "values of the inner nodes: means over the scored rows, or what the node would predict as a leaf.",
    ),
    Pair(
        ACCOUNT,
        CENTRED,
        "The account of the loss against TreeInner, both with centred node values. They answer two questions, “did the "
        "feature pay?” and “is there signal in it?”; the study asks the second.",
    ),
)
VERDICT = {1: "higher", -1: "lower", 0: "not clear"}
NOTE = (
    "Paired difference in AUC over the replications ± standard error; higher or lower if the 95 % interval (Student's "
    "t) leaves 0 out. Intervals are not widened for their number: of 88 that have nothing to show, about four would "
    "be called so."
)


def settings_in_order(study: Study) -> list[Setting]:
    """The standard setting, then the others sweep by sweep."""
    others = [s for name in SWEEPS for s in study.sweep(name) if s != study.standard]
    return [study.standard, *dict.fromkeys(others)]


def called(setting: Setting, study: Study) -> str:
    """Name of a setting."""
    changed = [f"{k} {v:g}" for k, v in vars(setting).items() if v != getattr(study.standard, k)]
    return ", ".join(changed) or "standard"


def paired_rows(study: Study, pair: Pair) -> Iterator[tuple[Problem, Setting, Mean]]:
    """Differences of a pair on every problem and at every setting that were run."""
    for problem in study.problems:
        for setting in settings_in_order(study):
            found = study.difference(problem, pair.score, pair.to, setting=setting)
            if found.n:
                yield problem, setting, found


def over_all(study: Study, pair: Pair, problem: Problem) -> Mean:
    """Mean difference over the settings, averaged in each replication that has them all."""
    parts = [study.differences(problem, pair.score, pair.to, setting=s) for s in study.settings]
    return Mean.of(averaged([p for p in parts if p]).values())


def count_sentence(study: Study, pair: Pair) -> str:
    """Say how often the first is clearly higher, and how often clearly lower."""
    found = [m for _, _, m in paired_rows(study, pair)]
    if not found:
        return f"{pair.score} and {pair.to} were not run together."
    signs, n = [m.sign() for m in found], sorted(m.n for m in found)
    replications = f"{n[0]}" if n[0] == n[-1] else f"{n[0]} to {n[-1]}"
    return (
        f"{pair.score} has a clearly higher AUC than {pair.to} in {signs.count(1)} of {len(signs)} cases (a problem at "
        f"a setting, {replications} replications each), a clearly lower one in {signs.count(-1)}."
    )


def to_csv(study: Study) -> str:
    """Write one row for each pair, problem and setting."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for pair in PAIRS:
        for problem, setting, m in paired_rows(study, pair):
            values = (f"{v:g}" for v in vars(setting).values())
            numbers = (m.n, number(m.mean, 6), number(m.se, 6), VERDICT[m.sign()])
            writer.writerow([pair.score, pair.to, *problem, *values, *numbers])
    return out.getvalue()


def to_markdown(study: Study) -> str:
    """Write the same as tables."""
    lines = ["# Our scores against each other, at every setting", "", NOTE, ""]
    for pair in PAIRS:
        lines += [f"## {pair.score} less {pair.to}", "", pair.why, "", count_sentence(study, pair), ""]
        rows = list(paired_rows(study, pair))
        if not rows:
            continue
        lines += ["| problem | setting | replications | difference | verdict |", "|---|---|---|---|---|"]
        for problem, setting, m in rows:
            lines.append(f"| {problem} | {called(setting, study)} | {m.n} | {signed(m)} | {VERDICT[m.sign()]} |")
        for problem in study.problems:
            m = over_all(study, pair, problem)
            lines.append(f"| {problem} | mean over the settings | {m.n} | {signed(m)} | {VERDICT[m.sign()]} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
