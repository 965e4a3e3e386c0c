"""The verdicts in words: what was missing, how well the table agrees, what follows, and claims.md."""

from __future__ import annotations

from treeinner_study.claims import ART, BEATS
from treeinner_study.grid import SWEEPS
from treeinner_study.names import BEST, PROBLEMS
from treeinner_study.own_claims import FIRST, MINUS, PLACEBO, REVERSAL
from treeinner_study.problems import PROCESS, SIGNAL
from treeinner_study.records import Study, signed
from treeinner_study.reference_table import all_scores
from treeinner_study.run import SWEEP_REPLICATIONS
from treeinner_study.table import agreement
from treeinner_study.verdicts import FAILS, HOLDS, RULES, UNDECIDED, Claim, Finding, listed

__all__ = [
    "agreement_sentences", "count_of_claims", "difference_rows", "how_sentences", "missing_sentences", "to_markdown",
    "what_follows",
]  # fmt: skip

PERMUTATION = (
    "Permutation is the rise of the training loss when a column is shuffled once. The author's is the fall of the AUC "
    "for classification and the same as ours for regression; on the validation rows of Simulated classification, the "
    "AUC of the two differed by 0.010 ± 0.032."
)


def how_sentences(study: Study) -> list[str]:
    """Say how labels were drawn, what Permutation is, and what else a reader has to know of this run."""
    process = str(study.meta.get("process", "as_run"))
    other = next(name for name in PROCESS if name != process) if process in PROCESS else ""
    sentences = [PERMUTATION]
    if other:
        sentences.insert(0, f"Labels were drawn {process}, {PROCESS[process]}. The other way is {other}, "
                            f"{PROCESS[other]}. {SIGNAL}")  # fmt: skip
    n, swept = study.replications, study.swept_part.replications
    if study.swept and swept < n:
        sentences.append(
            f"There are {n} replications of the standard setting; the first {swept} of them were run at all others, "
            f"too, and figures show these {swept} at every setting."
        )
    return [*sentences, *map(str, study.meta.get("notes", ()))]


def missing_sentences(study: Study) -> list[str]:
    """Say what was not run, in sentences."""
    sentences = [str(s) for s in study.meta.get("missing", ())]
    absent = [p for p in PROBLEMS if p not in study.problems and not any(p.dataset in s for s in sentences)]
    if absent:
        sentences.append(f"No results for {listed(absent)}.")
    unswept = [name for name in SWEEPS if name not in study.swept]
    if unswept:
        figures = "Their five figures each are" if len(unswept) > 1 else "Its five figures are"
        sentences.append(f"Not swept: {listed(unswept)}. {figures} left out.")
    if study.meta.get("process", "as_run") != "as_run":
        sentences.append(
            "The data were made as_written, as the paper's text has it, and not as_run, as its published table was "
            "made; the two differ."
        )
    if study.rounds is not None:
        sentences.append(
            f"A miniature: the standard setting has {study.rounds} rounds and not 400, so no number is comparable."
        )
    few = min(study.replications, study.swept_part.replications if study.swept else study.replications)
    if study.problems and few < SWEEP_REPLICATIONS:
        sentences.append(
            f"{few} replications were run and not {SWEEP_REPLICATIONS}, so standard errors are larger than the paper's."
        )
    return sentences


def agreement_sentences(study: Study) -> list[str]:
    """Count the rows that agree with the published table, and name those that do not."""
    found = agreement(study)
    if not found["rows"]:
        return ["With fewer than two replications no row can be compared with the published table."]
    first = (
        f"{found['within']} of {found['rows']} AUC means are as near to the published ones as random numbers allow "
        f"(largest |z| {found['largest']:.2f}, z being the difference over its standard error), and "
        f"{found['risks_within']} of {found['risks']} risks."
    )
    named = [
        f"{r.score} on {r.problem} (AUC {r.auc.mean:.3f}, paper {r.paper_auc.mean:.3f}, z = {r.z:+.2f})"
        for r in found["far"]
    ]
    named += [
        f"the risk of {r.problem} ({r.risk.mean:.4f}, paper {r.paper_risk.mean:.4f}, z = {r.risk_z:+.2f})"
        for r in found["risks_far"]
    ]
    sentences = [first]
    if named:
        sentences.append(f"Beyond: {listed(named)}.")
    chance = 0.0124 * found["rows"]  # P(|z| > 2.5) of a normal variable
    sentences.append(
        f"If nothing differed but the random numbers, about {chance:.1f} of {found['rows']} rows would be beyond by "
        "chance; the rows of a problem share their replications, so they come together."
    )
    return sentences


def count_of_claims(claims: list[Claim]) -> str:
    """Count the paper's claims by verdict; checks of the reproduction and our additions are not among them."""
    judged = [c for c in claims if c.origin == "paper" and c.findings]
    counts = {v: sum(c.verdict == v for c in judged) for v in (HOLDS, FAILS, UNDECIDED)}
    mixed = sum(c.verdict == "mixed" for c in judged)
    return (
        f"Of {len(judged)} claims of the paper, the verdict on all problems is “{HOLDS}” for {counts[HOLDS]}, "
        f"“{FAILS}” for {counts[FAILS]} and “{UNDECIDED}” for {counts[UNDECIDED]}; for {mixed} it differs."
    )


def what_follows(claims: list[Claim]) -> list[str]:
    """Sentences on the claim "state of the art", from the verdicts."""
    by_name = {c.name: c for c in claims}
    sentences = [_on_trees(by_name[BEATS]), _on_tests(by_name[ART])]
    sentences += [_on_guessing(by_name[PLACEBO], "a model whose labels were permuted", "TreeInner-Valid-PreDecomp")]
    sentences += [_on_guessing(by_name[MINUS], "total gain turned upside down", "it")]
    sentences += _on_first_ten(by_name[FIRST], by_name[REVERSAL])
    return [s for s in sentences if s]


def _on_trees(beats: Claim) -> str:
    if not beats.findings:
        return ""
    held, n = beats.where(HOLDS), len(beats.findings)
    better = [
        f"{listed(name.removeprefix('against ') for name in f.against)} {_be(f)} clearly better on {f.problem}"
        for f in beats.findings
        if f.verdict == FAILS
    ]
    text = f"Among scores of boosted trees, TreeInner-Valid is clearly the best on {len(held)} of {n} problems"
    text += f" ({listed(held)})" if held else ""
    none = "none is clearly better on any, by intervals widened for the number of rivals"
    return f"{text}; {listed(better) or none}."


def _be(finding: Finding) -> str:
    return "are" if len(finding.against) > 1 else "is"


def _on_first_ten(first: Claim, reversal: Claim) -> list[str]:
    """Say what is left where cardinality does not help."""
    sentences = []
    if first.findings:
        numbers = listed(f"{_excess(f)} on {f.problem}" for f in first.findings)
        lost = first.where(UNDECIDED) + first.where(FAILS)
        cannot = f"; it cannot be distinguished from guessing on {listed(lost)}" if lost else ""
        sentences.append(
            "Among the first 10 features of Simulated the AUC of TreeInner-Valid-PreDecomp differs from 0.5 by "
            f"{numbers}{cannot}."
        )
    if reversal.where(FAILS):
        numbers = listed(f"{f.number.split(';')[0]} on {f.problem}" for f in reversal.findings if f.verdict == FAILS)
        sentences.append(
            "Among these ten the order is reversed: over max_depth, the AUC of TreeInner-Valid-PreDecomp less those of "
            f"Abs and Permutation has the {numbers}."
        )
    return sentences


def _excess(finding: Finding) -> str:
    return finding.number.removeprefix("AUC - 0.5: ")


def _on_tests(art: Claim) -> str:
    if not art.findings:
        return "The classical tests were not run, so nothing is said here about methods without trees."
    lost, n = art.where(FAILS), len(art.findings)
    if lost:
        return (
            "A classical test that knows nothing of trees is clearly better than TreeInner-Valid-PreDecomp on "
            f"{len(lost)} of {n} problems ({listed(lost)}): the signal is linear and additive. So “state of the art” "
            "can mean among attributions of boosted trees only."
        )
    held = art.where(HOLDS)
    if len(held) == n:
        return (
            f"Both classical tests are clearly worse than TreeInner-Valid-PreDecomp on all {n} problems: the claim "
            "stands here."
        )
    return "No classical test is clearly better than TreeInner-Valid-PreDecomp on any problem, nor worse on all."


def _on_guessing(claim: Claim, what: str, who: str) -> str:
    """Say whether something that knows nothing of the labels passes for a selector."""
    if not claim.findings:
        return ""
    leaks = [f for f in claim.findings if f.verdict == FAILS]
    if leaks:
        numbers = listed(f"by {_excess(f)} on {f.problem}" for f in leaks)
        return (
            f"For {what} {who} has an AUC above 0.5: {numbers}. There an AUC above 0.5 is no proof of signal; in "
            "Simulated the relevant features are among those with the fewest distinct values."
        )
    return f"For {what} no AUC is clearly above 0.5."


def difference_rows(study: Study) -> list[tuple[str, list[tuple[str, int]]]]:
    """Each score's paired difference in AUC to the proposed one: (text, sign if it is clear) for every problem."""
    rows = []
    for score in all_scores(study, ()):
        if score != BEST:
            found = [study.difference(p, score, BEST) for p in study.problems]
            rows.append((str(score), [(signed(d), d.sign()) for d in found]))
    return rows


def to_markdown(study: Study, claims: list[Claim]) -> str:
    """Write claims.md."""
    lines = ["# Which of the paper's claims hold", "", count_of_claims(claims), ""]
    lines += ["## How they are judged", "", *(f"- {s}" for s in RULES), ""]
    lines += ["## How the study was made", "", *(f"- {s}" for s in how_sentences(study)), ""]
    missing = missing_sentences(study)
    if missing:
        lines += ["## What is missing", "", *(f"- {s}" for s in missing), ""]
    lines += ["## Agreement with the published table", "", " ".join(agreement_sentences(study)), ""]
    lines += ["## What follows for “state of the art”", "", *(f"- {s}" for s in what_follows(claims)), ""]
    lines += ["## The claims, one by one", ""]
    for c in claims:
        mark = f" ({c.note[0].upper()}{c.note[1:]}.)" if c.note else ""
        lines += [f"### {c.name}", "", f"{c.says}{mark} *{c.rule}* **{c.summary}**", ""]
        if c.findings:
            lines += ["| problem | verdict | number |", "|---|---|---|"]
            lines += [f"| {f.problem} | {f.verdict} | {_cell(f.number)} |" for f in c.findings]
            lines.append("")
    if study.problems:
        lines += ["## Paired differences in AUC to TreeInner-Valid-PreDecomp, ± standard error", ""]
        lines += ["| score | " + " | ".join(map(str, study.problems)) + " |", "|---" * (1 + len(study.problems)) + "|"]
        for name, cells in difference_rows(study):
            lines.append(f"| {_cell(name)} | " + " | ".join(f"**{t}**" if sign else t for t, sign in cells) + " |")
        bold = "Bold: not 0, each by its own 95 % interval."
        lines += ["", f"At the standard setting. {bold} All settings: `pairs.md` beside this file.", ""]
    return "\n".join(lines).rstrip() + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
