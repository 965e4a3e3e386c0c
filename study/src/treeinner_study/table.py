"""The paper's table of 56 rows beside the published one: CSV, Markdown, LaTeX; and how many rows agree."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from scipy import stats

from treeinner_study.names import PROBLEMS, Problem, Score
from treeinner_study.records import Mean, Study

__all__ = [
    "COLUMNS",
    "FAR",
    "Row",
    "agreement",
    "best_rows",
    "by_problem",
    "compare_with_paper",
    "paper_rows",
    "to_csv",
    "to_latex",
    "to_markdown",
]

COLUMNS = (
    "dataset", "task", "gfa", "domain", "ifa", "auc_mean", "auc_std", "risk_mean", "risk_std", "paper_auc_mean", "z",
)  # fmt: skip
FAR = 2.5  # standard errors of a difference beyond which a row is named, if they are well known
PAPER_REPLICATIONS = 20
BEYOND = f"|z| beyond what is as improbable by Student's t as {FAR} is by the normal law (2.76 with 20 replications)"


@dataclass(frozen=True)
class Row:
    """One score on one problem: ours and the paper's, which are means and stds of 20 replications."""

    problem: Problem
    score: Score
    ifa: str  # as the paper's table has it: it repeats "Permutation" there
    auc: Mean
    risk: Mean
    paper_auc: Mean
    paper_risk: Mean

    @property
    def z(self) -> float:
        """(ours - paper) / standard error of the difference, for the AUC."""
        return _z(self.auc, self.paper_auc)

    @property
    def risk_z(self) -> float:
        """The same for the risk."""
        return _z(self.risk, self.paper_risk)

    @property
    def far(self) -> bool:
        """Whether the AUC is farther from the paper's than chance would often take it."""
        return _far(self.auc, self.paper_auc)

    @property
    def risk_far(self) -> bool:
        """The same for the risk."""
        return _far(self.risk, self.paper_risk)


def _z(ours: Mean, paper: Mean) -> float:
    return (ours.mean - paper.mean) / math.sqrt(ours.se**2 + paper.se**2)


def _far(ours: Mean, paper: Mean) -> bool:
    """Whether z is as improbable by Student's t as FAR is by the normal law.

    With three replications the standard error is hardly known, and z = 3 is nothing unusual. The degrees of freedom are
    those of the smaller sample, which is on the safe side; Welch's let 3 % of equal samples of 3 and 20 pass for far.
    """
    z = _z(ours, paper)
    if math.isnan(z):
        return False
    return bool(abs(z) > stats.t.isf(stats.norm.sf(FAR), min(ours.n, paper.n) - 1))


@cache
def paper_rows() -> tuple[dict[str, str], ...]:
    """The published table, as text."""
    text = (files("treeinner_study") / "paper_table.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(io.StringIO(text)))


def compare_with_paper(study: Study) -> list[Row]:
    """The 56 rows in the paper's order; ours have n = 0 where nothing was run."""
    rows = []
    for row in paper_rows():
        problem = Problem(row["dist"], row["task"])
        score = Score(row["gfa"], row["domain"], "" if row["ifa"] == "Permutation" else row["ifa"])
        published = (Mean(float(row[f"{x}_mean"]), float(row[f"{x}_std"]), PAPER_REPLICATIONS) for x in ("auc", "risk"))
        ours = (study.mean(problem, score, x) for x in ("auc", "risk"))
        rows.append(Row(problem, score, row["ifa"], *ours, *published))
    return rows


def by_problem(rows: Sequence[Row]) -> Iterator[tuple[Problem, list[Row]]]:
    """Rows of each problem."""
    for problem in PROBLEMS:
        yield problem, [row for row in rows if row.problem == problem]


def best_rows(rows: Sequence[Row]) -> set[Score]:
    """Scores with the highest mean AUC of a problem."""
    top = max((row.auc.mean for row in rows if row.auc.n), default=math.nan)
    return {row.score for row in rows if row.auc.mean == top}


def agreement(study: Study) -> dict[str, Any]:
    """How many AUC means and risks are near the paper's, and which are far."""
    rows = [row for row in compare_with_paper(study) if not math.isnan(row.z)]
    risks = [part[0] for _, part in by_problem(rows) if part]
    return {
        "rows": len(rows),
        "within": sum(not r.far for r in rows),
        "far": [r for r in rows if r.far],
        "largest": max((abs(r.z) for r in rows), default=math.nan),
        "risks": len(risks),
        "risks_within": sum(not r.risk_far for r in risks),
        "risks_far": [r for r in risks if r.risk_far],
    }


def number(value: float, digits: int, missing: str = "") -> str:
    """Write a number, or what stands for one that was not measured."""
    return missing if math.isnan(value) else f"{value:.{digits}f}"


def to_csv(rows: Sequence[Row]) -> str:
    """Write the 56 rows; what was not run is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for r in rows:
        numbers = [number(v, 6) for v in (r.auc.mean, r.auc.std, r.risk.mean, r.risk.std)]
        published = number(r.paper_auc.mean, 4)
        writer.writerow([*r.problem, r.score.gfa, r.score.domain, r.ifa, *numbers, published, number(r.z, 4)])
    return out.getvalue()


def risk_sentence(rows: Sequence[Row]) -> str:
    """Say a problem's risk, ours beside the paper's."""
    row = rows[0]  # all scores of a problem share the model
    if not row.risk.n:
        return "Not run."
    ours = f"{row.risk.mean:.4f}" + ("" if math.isnan(row.risk.std) else f" (std {row.risk.std:.4f})")
    z = "" if math.isnan(row.risk_z) else f", z = {row.risk_z:.2f}"
    return f"Risk {ours}; the paper's {row.paper_risk.mean:.4f} (std {row.paper_risk.std:.4f}){z}."


def to_markdown(rows: Sequence[Row], how: Sequence[str] = ()) -> str:
    """Write one table per problem; the best mean is bold, what is far is marked; `how` goes to the top."""
    lines = [
        "# AUC of noisy feature identification at the standard setting",
        "",
        "Mean (sample standard deviation) over replications; the highest mean of a problem is bold. z = (ours - "
        f"paper) / standard error of the difference; {BEYOND} is marked with !.",
        *(line for sentence in how for line in ("", sentence)),
    ]
    for problem, part in by_problem(rows):
        best = best_rows(part)
        lines += ["", f"## {problem}", "", risk_sentence(part), ""]
        lines += ["| score | rows | attribution | AUC | paper | z |", "|---|---|---|---|---|---|"]
        for r in part:
            ours = f"{number(r.auc.mean, 4, 'not run')} ({number(r.auc.std, 4, '-')})" if r.auc.n else "not run"
            ours = f"**{ours}**" if r.score in best else ours
            z = number(r.z, 2) + " !" * r.far
            published = f"{r.paper_auc.mean:.4f} ({r.paper_auc.std:.4f})"
            lines.append(f"| {r.score.gfa} | {r.score.domain} | {r.score.ifa} | {ours} | {published} | {z} |")
    return "\n".join(lines) + "\n"


def to_latex(rows: Sequence[Row]) -> str:
    """Write a longtable (booktabs, longtable) in the order of the paper's; the best mean of a problem is bold."""
    head = "Dataset & Task & GFA & Domain & IFA & AUC mean & AUC std & risk mean & risk std & paper & $z$ \\\\"
    lines = [
        "% needs \\usepackage{booktabs,longtable}",
        "\\begin{longtable}{lllllrrrrrr}",
        "\\caption{AUC scores for models trained with standard hyperparameters, beside the published means.}\\\\",
        "\\toprule", head, "\\midrule", "\\endfirsthead", "\\toprule", head, "\\midrule", "\\endhead",
        "\\bottomrule", "\\endlastfoot",
    ]  # fmt: skip
    for problem, part in by_problem(rows):
        best = best_rows(part)
        if problem != PROBLEMS[0]:
            lines.append("\\midrule" if problem.task == PROBLEMS[0].task else "\\cmidrule{2-11}")
        for i, r in enumerate(part):
            before = part[i - 1].score if i else Score("", "", "")
            auc = number(r.auc.mean, 4, "--")
            z = number(r.z, 2, "--")
            cells = [
                problem.dataset if i == 0 and problem.task == PROBLEMS[0].task else "",
                problem.task.capitalize() if i == 0 else "",
                r.score.gfa if r.score.gfa != before.gfa else "",
                r.score.domain if r.score[:2] != before[:2] else "",
                r.ifa,
                f"\\textbf{{{auc}}}" if r.score in best else auc,
                *(number(v, 4, "--") for v in (r.auc.std, r.risk.mean, r.risk.std, r.paper_auc.mean)),
                f"${z}$" if z != "--" else z,
            ]
            lines.append(" & ".join(cells) + " \\\\")
    return "\n".join([*lines, "\\end{longtable}"]) + "\n"
