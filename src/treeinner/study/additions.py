"""What an honest reproduction adds: tests without trees, a placebo, the first 10 features; and what follows."""

from __future__ import annotations

import math

from treeinner.study.names import Problem
from treeinner.study.records import BEST, Mean, Study, plus_minus, signed
from treeinner.study.verdicts import CANNOT, FAILS, HOLDS, TIE, Claim, against, by_sign, claim, listed

__all__ = ["check_additions", "what_follows"]

ART, PLACEBO, MINUS, FIRST = (
    "State of the art, whatever the method",
    "A placebo scores as guessing does",
    "Minus total gain is no selector",
    "It finds them among the first 10, too",
)


def check_additions(study: Study) -> list[Claim]:
    """The claim "state of the art", and what the paper's design does not show."""
    return [state_of_the_art(study), _placebo(study), _minus_gain(study), _first_ten(study)]


def state_of_the_art(study: Study) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        tests = [s for s in study.references(problem) if s.gfa in ("F-test", "Linear |t|")]
        found = against(study, problem, tests)
        if not found:
            return None
        above, below = sum(d.sign() > 0 for d in found.values()), sum(d.sign() < 0 for d in found.values())
        verdict = FAILS if above else HOLDS if below == len(found) else CANNOT
        return verdict, "; ".join(f"{s.gfa} {signed(d)}" for s, d in found.items())

    says = "PreDecomp and TreeInner “show state-of-the-art feature selection performance”."
    rule = (
        "Two classical tests without any trees, less TreeInner-Valid-PreDecomp, in AUC. Does not hold if one is "
        "clearly above 0; holds if all are clearly below. (Linear |t| sees training and validation rows; so does "
        "TreeInner-Valid, one after the other.)"
    )
    return claim(study, ART, says, rule, find)


def _guessing(study: Study, name: str, says: str, gfa: str) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        score = next((s for s in study.references(problem) if s.gfa == gfa), None)
        auc = study.mean(problem, score) if score else Mean(math.nan, math.nan, 0)
        if not auc.n:
            return None
        verdict = FAILS if auc.sign(0.5) > 0 else HOLDS if auc.mean + auc.reach < 0.5 + TIE else CANNOT
        return verdict, f"AUC {plus_minus(auc)}"

    rule = f"Does not hold if the mean AUC is clearly above 0.5; holds if its 95 % interval ends below {0.5 + TIE:g}."
    return claim(study, name, says, rule, find, ours=True)


def _placebo(study: Study) -> Claim:
    says = (
        "Without any signal (labels permuted) TreeInner-Valid has an AUC of 0.5 or less: the AUC does not reward "
        "cardinality."
    )
    return _guessing(study, PLACEBO, says, "Placebo TreeInner")


def _minus_gain(study: Study) -> Claim:
    says = "Total gain turned upside down, which knows which features are used least, is no better than guessing."
    return _guessing(study, MINUS, says, "Minus total gain")


def _first_ten(study: Study) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        auc = study.mean(problem, BEST, "auc_first10")
        return (by_sign(auc.sign(0.5)), f"AUC {plus_minus(auc)}") if auc.n else None

    says = (
        "Among the first 10 features of Simulated, which differ less in cardinality, TreeInner-Valid still finds the "
        "relevant ones."
    )
    rule = "Holds if the mean AUC of TreeInner-Valid-PreDecomp among the first 10 features is clearly above 0.5."
    return claim(study, FIRST, says, rule, find, ours=True)


def what_follows(claims: list[Claim]) -> list[str]:
    """Sentences on the claim "state of the art", from the verdicts."""
    by_name = {c.name: c for c in claims}
    sentences = [_on_trees(by_name["TreeInner-Valid beats every other score"]), _on_tests(by_name[ART])]
    sentences += [_on_guessing(by_name[PLACEBO], "a model whose labels were permuted", "TreeInner-Valid-PreDecomp")]
    sentences += [_on_guessing(by_name[MINUS], "total gain turned upside down", "it")]
    first = by_name[FIRST]
    if first.findings:
        numbers = listed(f"{f.number.removeprefix('AUC ')} on {f.problem}" for f in first.findings)
        lost = first.where(CANNOT) + first.where(FAILS)
        cannot = f"; it cannot be told from guessing on {listed(lost)}" if lost else ", clearly above guessing"
        sentences.append(
            f"Among the first 10 features of Simulated TreeInner-Valid-PreDecomp has an AUC of {numbers}{cannot}."
        )
    return [s for s in sentences if s]


def _on_trees(beats: Claim) -> str:
    if not beats.findings:
        return ""
    held, lost, n = beats.where(HOLDS), beats.where(FAILS), len(beats.findings)
    text = f"Among scores of boosted trees, TreeInner-Valid is clearly the best on {len(held)} of {n} problems"
    text += f" ({listed(held)})" if held else ""
    return text + (
        f"; another one is clearly better on {listed(lost)}." if lost else "; none is clearly better on any."
    )


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
        numbers = listed(f"{f.number.removeprefix('AUC ')} on {f.problem}" for f in leaks)
        return (
            f"For {what} {who} has an AUC above 0.5: {numbers}. There an AUC above 0.5 is no proof of signal; in "
            "Simulated the relevant features are among those with the fewest distinct values."
        )
    return f"For {what} no AUC is clearly above 0.5."
