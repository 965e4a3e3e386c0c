"""What stands beside the paper's scores: ours, simple tests, a placebo, minus total gain; and the first 10 features."""

from __future__ import annotations

import csv
import io
import math

from treeinner_study.names import ADDED, BEST, GAIN, SCORES, Problem, Score
from treeinner_study.records import Study, plus_minus, signed
from treeinner_study.table import number

__all__ = ["COLUMNS", "WHAT", "all_scores", "first10_problems", "reference_rows", "to_csv", "to_markdown"]

COLUMNS = (
    "dataset", "task", "gfa", "domain", "ifa", "replications", "auc_mean", "auc_std",
    "difference_mean", "difference_se", "auc_first10_mean", "auc_first10_std",
)  # fmt: skip
WHAT = {
    "TreeInner by Centred": "the default of treeinner: a node's value is the mean of the leaf values that its "
    "scored rows reach; needs neither learning rate nor penalty",
    "TreeInner by Saabas": "a node's value is the mean of the leaf values below it over the training rows",
    "Account": "what each feature did to the loss on the validation rows; with the trees' common part the features add "
    "up to what the model gained",
    "ForestInner(label)": "the attribution of the whole model times the label: the second line of the paper's "
    "definition, which is not equal to the first; the paper's ForestInner is the first",
    "F-test": "univariate F-test of each feature on the training rows; no model",
    "Linear |t|": "|t| of each feature in one linear regression on training and validation rows; no trees",
    "Placebo TreeInner": "TreeInner on validation rows of a model whose labels were permuted: no feature is relevant",
    "Minus total gain": "total gain with its sign turned: the least used feature first",
}


def reference_rows(study: Study, problem: Problem) -> tuple[Score, ...]:
    """What a reference table of a problem shows: the proposed score, total gain, our scores and the references."""
    return (BEST, GAIN, *added(study), *study.references(problem))


def added(study: Study) -> tuple[Score, ...]:
    """Our scores that were run."""
    return tuple(s for s in ADDED if any(study.get(p, s) for p in study.problems))


def all_scores(study: Study, problems: tuple[Problem, ...]) -> tuple[Score, ...]:
    """The paper's scores, ours, and the references of some problems."""
    return tuple(dict.fromkeys((*SCORES, *added(study), *(s for p in problems for s in study.references(p)))))


def first10_problems(study: Study) -> tuple[Problem, ...]:
    """Problems in which the AUC among the first 10 features was measured."""
    return tuple(p for p in study.problems if study.mean(p, BEST, "auc_first10").n)


def to_csv(study: Study) -> str:
    """Write all scores and references of every problem that was run, with paired differences to the proposed score."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for problem in study.problems:
        for score in all_scores(study, (problem,)):
            auc, first10 = study.mean(problem, score), study.mean(problem, score, "auc_first10")
            difference = study.difference(problem, score, BEST)
            numbers = (auc.mean, auc.std, difference.mean, difference.se, first10.mean, first10.std)
            writer.writerow([*problem, *score, auc.n, *(number(v, 6) for v in numbers)])
    return out.getvalue()


def to_markdown(study: Study) -> str:
    """Write the references beside TreeInner, and the AUC among the first 10 features."""
    lines = [
        "# Our scores and references",
        "",
        "What the paper's table does not have, at the standard setting. "
        "AUC, mean ± standard error; in brackets the paired difference to TreeInner-Valid-PreDecomp.",
        "",
    ]
    lines += [f"- **{_plain(name)}**: {_plain(what)}." for name, what in WHAT.items()]
    problems = study.problems
    if not problems:
        return "\n".join([*lines, "", "No problem was run."]) + "\n"
    lines += ["", "| score | " + " | ".join(map(str, problems)) + " |", "|---" * (1 + len(problems)) + "|"]
    shown = dict.fromkeys(score for p in problems for score in reference_rows(study, p))
    for score in shown:
        lines.append(f"| {_plain(label(score))} | " + " | ".join(cell(study, p, score) for p in problems) + " |")
    first10 = first10_problems(study)
    if first10:
        lines += ["", "## AUC among the first 10 features of Simulated", "", FIRST10, ""]
        lines += ["| score | " + " | ".join(map(str, first10)) + " |", "|---" * (1 + len(first10)) + "|"]
        for score in all_scores(study, first10):
            cells = [plus_minus(study.mean(p, score, "auc_first10")) for p in first10]
            lines.append(f"| {_plain(label(score))} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


FIRST10 = (
    "The relevant features are five of the first ten, which have the fewest distinct values. Among the ten, "
    "cardinality helps a score much less to find them."
)


def label(score: Score) -> str:
    """Name of a score; total gain by its own."""
    return f"{score} (total gain)" if score == GAIN else str(score)


def cell(study: Study, problem: Problem, score: Score) -> str:
    """AUC of a score, and its difference to the proposed one."""
    auc, difference = study.mean(problem, score), study.difference(problem, score, BEST)
    beside = "" if score == BEST or math.isnan(difference.mean) else f" ({signed(difference)})"
    return plus_minus(auc) + beside


def _plain(text: str) -> str:
    """Text in a Markdown table, where a bar would begin a new cell."""
    return text.replace("|", "\\|")
