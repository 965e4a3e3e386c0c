"""Which of the paper's claims hold: each a rule, a number with its standard error for every problem, and a verdict.

A mean or a paired difference over replications is clearly above or below a value if its 95 % interval (Student's t,
2.09 standard errors for 20 replications) leaves the value out; else it cannot be told. Every verdict follows from that
by the rule written beside it. No sentence here knows how the study ended.
"""

from __future__ import annotations

import math
from statistics import median
from typing import Any

from treeinner.study.additions import check_additions
from treeinner.study.names import Problem, Score
from treeinner.study.records import BEST, SCORES, Study, plus_minus, signed
from treeinner.study.table import FAR, by_problem, compare_with_paper
from treeinner.study.verdicts import CANNOT, FAILS, GAIN, HOLDS, TIE, Claim, against, by_sign, claim, listed

__all__ = ["agreement", "check_claims"]

SHAP = Score("TreeInner", "Valid", "TreeSHAP")
RIVALS = tuple(s for s in SCORES if s not in (BEST, SHAP))
EXACT = {"median": 1e-6, "worst": 1e-5}  # "mostly in the order 1e-6"


def check_claims(study: Study) -> list[Claim]:
    """All claims, in the order of the paper; what it does not test comes last."""
    return [
        _reproduced(study), _risk_reproduced(study), _proposition_3(study), _beats(study), _dominates_by_depth(study),
        _beats_gain(study), _out_of_sample(study), _not_worse_than_shap(study), _ties_with_shap(study),
        _noise_in_sample(study), _noise_out_of_sample(study), _only_tree_inner(study), _more_trees(study),
        _forest_inner(study), _standard_risk(study),
        *check_additions(study),
    ]  # fmt: skip


# -- is it the same study? ---------------------------------------------------------------------------------------
def agreement(study: Study) -> dict[str, Any]:
    """How many AUC means and risks lie within 2.5 standard errors of the paper's, and which do not."""
    rows = [row for row in compare_with_paper(study) if not math.isnan(row.z)]
    risks = [part[0] for _, part in by_problem(rows) if part]
    return {
        "rows": len(rows),
        "within": sum(abs(r.z) <= FAR for r in rows),
        "far": [r for r in rows if abs(r.z) > FAR],
        "largest": max((abs(r.z) for r in rows), default=math.nan),
        "risks": len(risks),
        "risks_within": sum(abs(r.risk_z) <= FAR for r in risks),
        "risks_far": [r for r in risks if abs(r.risk_z) > FAR],
    }


def _reproduced(study: Study) -> Claim:
    parts = dict(by_problem([r for r in compare_with_paper(study) if not math.isnan(r.z)]))

    def find(problem: Problem) -> tuple[str, str] | None:
        part = parts[problem]
        if not part:
            return None
        near = sum(abs(r.z) <= FAR for r in part)
        far = max(part, key=lambda r: abs(r.z))
        verdict = HOLDS if near == len(part) else FAILS
        return verdict, f"{near} of {len(part)} within {FAR} SE; farthest {far.score}, z = {far.z:+.2f}"

    rule = f"Holds if every AUC mean lies within {FAR} standard errors of the difference."
    return claim(study, "The table is reproduced", "The 56 AUC means of the published table.", rule, find)


def _risk_reproduced(study: Study) -> Claim:
    parts = dict(by_problem([r for r in compare_with_paper(study) if not math.isnan(r.risk_z)]))

    def find(problem: Problem) -> tuple[str, str] | None:
        if not parts[problem]:
            return None
        row = parts[problem][0]
        verdict = HOLDS if abs(row.risk_z) <= FAR else FAILS
        return verdict, f"{plus_minus(row.risk, 4)}; paper {plus_minus(row.paper_risk, 4)}; z = {row.risk_z:+.2f}"

    rule = f"Holds if the mean risk lies within {FAR} standard errors of the difference."
    return claim(study, "The risks are reproduced", "The four validation risks of the published table.", rule, find)


def _proposition_3(study: Study) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        errors = [row["error"] for setting in study.settings for row in study.get(problem, GAIN, setting).values()]
        errors = [e for e in errors if not math.isnan(e)]
        if not errors:
            return None
        middle, worst = median(errors), max(errors)
        ok = middle <= EXACT["median"] and worst <= EXACT["worst"]
        return HOLDS if ok else FAILS, f"median {middle:.1e}, worst {worst:.1e} over {len(errors)} models"

    says = "TreeInner-Train-PreDecomp is total gain; the difference is “mostly in the order 10⁻⁶”."
    rule = f"Holds if the median difference is at most {EXACT['median']:g} and the worst at most {EXACT['worst']:g}."
    return claim(study, "Proposition 3 is exact", says, rule, find)


# -- which score finds the relevant features? ----------------------------------------------------------------------
def _beats(study: Study) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        rivals = against(study, problem, RIVALS)
        if not rivals:
            return None
        below = sum(d.sign() < 0 for d in rivals.values())
        above = sum(d.sign() > 0 for d in rivals.values())
        best = max(rivals, key=lambda s: rivals[s].mean)
        verdict = FAILS if above else HOLDS if below == len(rivals) else CANNOT
        return verdict, f"{below} of {len(rivals)} clearly below; nearest {best} {signed(rivals[best])}"

    says = (
        "At the standard setting TreeInner on validation rows finds relevant features better than every other score "
        "of trees."
    )
    rule = (
        "Paired differences in AUC of the 12 scores that are not TreeInner-Valid to TreeInner-Valid-PreDecomp. Holds "
        "if all are clearly below 0; does not hold if any is clearly above."
    )
    return claim(study, "TreeInner-Valid beats every other score", says, rule, find)


def _dominates_by_depth(study: Study) -> Claim:
    settings = study.sweep("max_depth")

    def find(problem: Problem) -> tuple[str, str] | None:
        if len(settings) < 2:
            return None
        others = [s for s in RIVALS if s.gfa in ("Abs", "Permutation")]
        found = [against(study, problem, others, setting=s) for s in settings]
        beaten = sum(any(d.sign() > 0 for d in f.values()) for f in found)
        highest = sum(bool(f) and all(d.sign() < 0 for d in f.values()) for f in found)
        first = sum(bool(f) and all(d.mean < 0 for d in f.values()) for f in found)
        verdict = FAILS if beaten else HOLDS if highest == len(settings) else CANNOT
        return (
            verdict,
            f"highest mean at {first} of {len(settings)} depths, clearly highest at {highest}, clearly beaten at "
            f"{beaten}",
        )

    says = "TreeInner “dominates other GFAs in all tasks except classification on ChIP”, at every max_depth."
    rule = (
        "TreeInner-Valid-PreDecomp against Abs and Permutation. Holds if at every depth all are clearly below; does "
        "not hold if at any depth one is clearly above."
    )
    return claim(study, "It dominates at every depth", says, rule, find)


def _beats_gain(study: Study) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        d = study.difference(problem, BEST, GAIN)
        return (by_sign(d.sign()), signed(d)) if d.n else None

    says = "The debiased score is better than total gain, which is TreeInner-Train-PreDecomp."
    return claim(study, "It beats total gain", says, "Holds if the paired difference in AUC is clearly above 0.", find)


def _out_of_sample(study: Study) -> Claim:
    pairs = [(s, Score(s.gfa, "Train", s.ifa)) for s in SCORES if s.domain == "Valid"]

    def find(problem: Problem) -> tuple[str, str] | None:
        found = [study.difference(problem, valid, train) for valid, train in pairs]
        found = [d for d in found if d.n]
        if not found:
            return None
        higher, lower = sum(d.sign() > 0 for d in found), sum(d.sign() < 0 for d in found)
        verdict = HOLDS if higher and not lower else FAILS if lower > higher else CANNOT
        own = study.difference(problem, BEST, GAIN)
        return verdict, f"{higher} of {len(found)} clearly higher, {lower} lower; TreeInner-PreDecomp {signed(own)}"

    says = "“Using out-sample data generally gives a higher AUC.”"
    rule = (
        "Valid less Train, for each score. Holds if some are clearly higher and none lower; does not hold if more are "
        "clearly lower than higher."
    )
    return claim(study, "Validation rows are better than training rows", says, rule, find)


def _not_worse_than_shap(study: Study) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        d = study.difference(problem, SHAP, BEST)
        if not d.n:
            return None
        verdict = FAILS if d.sign() > 0 else HOLDS if d.mean + d.reach < TIE else CANNOT
        return verdict, f"TreeSHAP {signed(d)}"

    says = "On validation rows “PreDecomp generally gives the same or higher AUC compared to TreeSHAP”."
    rule = (
        "TreeInner-Valid-TreeSHAP less TreeInner-Valid-PreDecomp. Does not hold if clearly above 0; holds if the 95 "
        f"% interval ends below {TIE}."
    )
    return claim(study, "PreDecomp is not worse than TreeSHAP", says, rule, find)


def _ties_with_shap(study: Study) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        d = study.difference(problem, SHAP, BEST)
        if not d.n:
            return None
        verdict = FAILS if d.sign() else HOLDS if abs(d.mean) + d.reach < TIE else CANNOT
        return verdict, f"TreeSHAP {signed(d)}"

    says = "It does not matter which of the two attributions is used on validation rows."
    rule = f"Does not hold if the difference is clearly not 0; holds if its 95 % interval lies within ±{TIE}."
    return claim(study, "PreDecomp and TreeSHAP tie", says, rule, find, ours=True)


def _forest_inner(study: Study) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        d = study.difference(problem, Score("ForestInner", "Valid", "PreDecomp"), BEST)
        return (by_sign(d.sign(), -1), signed(d)) if d.n else None

    says = "ForestInner “empirically has worse performance” than TreeInner."
    rule = "ForestInner-Valid-PreDecomp less TreeInner-Valid-PreDecomp. Holds if clearly below 0."
    return claim(study, "ForestInner is worse", says, rule, find)


# -- where do noise features end up? --------------------------------------------------------------------------------
def _noise_in_sample(study: Study) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        found = [study.mean(problem, s, "score_noisy") for s in SCORES if s.domain == "Train"]
        found = [m for m in found if m.n]
        if not found:
            return None
        above, below = sum(m.sign() > 0 for m in found), sum(m.sign() < 0 for m in found)
        verdict = HOLDS if above == len(found) else FAILS if below else CANNOT
        return (
            verdict,
            f"{above} of {len(found)} clearly positive; total gain "
            f"{signed(study.mean(problem, GAIN, 'score_noisy'), 4)}",
        )

    says = "“Scores calculated on in-sample data are generally positive despite being calculated for noisy features.”"
    rule = (
        "Mean normalised score of noisy features. Holds if all scores on training rows are clearly positive; fails if "
        "one is negative."
    )
    return claim(study, "Noise scores above 0 on training rows", says, rule, find)


def _noise_out_of_sample(study: Study) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        here = study.mean(problem, BEST, "score_noisy")
        if not here.n:
            return None
        means = [study.mean(problem, BEST, "score_noisy", s) for s in study.settings]
        means = [m for m in means if m.n]
        above = sum(m.sign() > 0 for m in means)
        below = sum(m.sign() < 0 for m in means)
        verdict = FAILS if above or here.sign() > 0 else HOLDS if here.sign() < 0 else CANNOT
        return verdict, f"{signed(here, 4)}; of {len(means)} settings {below} clearly negative, {above} positive"

    says = "On validation rows TreeInner gives noisy features scores at zero or below."
    rule = (
        "Mean normalised score of noisy features, TreeInner-Valid-PreDecomp. Holds if clearly negative at the "
        "standard setting and positive at none; does not hold if clearly positive at any."
    )
    return claim(study, "Noise falls to zero or below", says, rule, find)


def _only_tree_inner(study: Study) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        found = {s: study.mean(problem, s, "score_noisy") for s in SCORES if s.domain == "Valid"}
        found = {s: m for s, m in found.items() if m.n}
        if not found:
            return None
        negative = [s for s, m in found.items() if m.sign() < 0]
        own = [s for s in negative if s.gfa == "TreeInner"]
        others = [s for s in negative if s.gfa in ("Abs", "Permutation")]
        verdict = FAILS if others else HOLDS if len(own) == 2 else CANNOT
        return verdict, "clearly negative: " + (listed(negative) if negative else "none")

    says = "“When evaluated on out-sample data, only TreeInner can consistently produce negative scores.”"
    rule = (
        "Mean normalised score of noisy features at the standard setting. Holds if it is clearly negative for "
        "TreeInner-Valid with both attributions and for neither Abs nor Permutation (the families of the paper's "
        "figure; ForestInner is shown, not judged)."
    )
    return claim(study, "Only TreeInner does so", says, rule, find)


def _more_trees(study: Study) -> Claim:
    settings = study.sweep("num_boost_round")

    def find(problem: Problem) -> tuple[str, str] | None:
        if len(settings) < 2:
            return None
        few, many = settings[0], settings[-1]
        noisy, auc = (
            study.difference(problem, BEST, BEST, c, setting=many, to_setting=few) for c in ("score_noisy", "auc")
        )
        if not noisy.n:
            return None
        return by_sign(
            noisy.sign(), -1
        ), f"{signed(noisy, 4)} from {few.num_boost_round} to {many.num_boost_round} rounds; AUC {signed(auc)}"

    says = "Negative scores of noise become “clearer as the number of trees increases”."
    rule = (
        "TreeInner-Valid-PreDecomp, mean normalised score of noisy features, most rounds less fewest. Holds if "
        "clearly below 0."
    )
    return claim(study, "More trees push noise down", says, rule, find)


def _standard_risk(study: Study) -> Claim:
    def find(problem: Problem) -> tuple[str, str] | None:
        here = study.standard
        rest = {
            s: study.difference(problem, BEST, BEST, "risk", setting=s, to_setting=here)
            for s in study.settings
            if s != here
        }
        rest = {s: d for s, d in rest.items() if d.n > 1}
        if not rest:
            return None
        best = min(rest, key=lambda s: rest[s].mean)
        d = rest[best]
        changed = next(f"{k} {getattr(best, k):g}" for k in vars(best) if getattr(best, k) != getattr(here, k))
        verdict = FAILS if d.mean + 1.5 * d.reach < 0 else HOLDS
        return (
            verdict,
            f"best of {len(rest)} others: {changed}, risk {signed(d, 4)} (standard "
            f"{plus_minus(study.risk(problem), 4)})",
        )

    says = (
        "With the standard values “the model roughly has the best predictive performance for all tasks on the "
        "validation set”."
    )
    rule = (
        "Paired difference in risk of every other setting to the standard one. Does not hold if the best of them is "
        "below 0 by one and a half times the 95 % reach (about 3 standard errors, because it is the best of many); "
        "else holds."
    )
    return claim(study, "The standard setting is about the best", says, rule, find)
