"""Which of the paper's claims hold: each a rule, a number with its standard error for every problem, and a verdict.

A mean or a paired difference over replications is clearly above or below a value if its 95 % interval (Student's t,
2.09 standard errors for 20 replications) leaves the value out; else it is undecided. Every verdict follows from that
by the rule written beside it. No sentence here knows how the study ended.

The last claims are on what the paper does not test: classical tests without trees, a placebo, the first 10 features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median

from treeinner_study.names import BEST, GAIN, SCORES, Problem, Score
from treeinner_study.records import Mean, Study, plus_minus, signed
from treeinner_study.table import FAR, compare_with_paper
from treeinner_study.verdicts import FAILS, HOLDS, TIE, UNDECIDED, Claim, against, by_sign, claim, listed

__all__ = ["ART", "BEATS", "FIRST", "MINUS", "PLACEBO", "check_claims"]

SHAP = Score("TreeInner", "Valid", "TreeSHAP")
RIVALS = tuple(s for s in SCORES if s not in (BEST, SHAP))
EXACT = {"median": 1e-6, "worst": 1e-5}  # "mostly in the order 1e-6"

# Names of the claims that the summary speaks about.
BEATS = "TreeInner-Valid beats every other score"
ART = "State of the art, whatever the method"
PLACEBO = "A placebo scores as guessing does"
MINUS = "Minus total gain is no selector"
FIRST = "It finds them among the first 10, too"

Found = tuple[str, str] | None


def check_claims(study: Study) -> list[Claim]:
    """All claims, in the order of the paper; what it does not test comes last."""
    return [check(study) for check in CLAIMS]


def _clear(means: Iterable[Mean]) -> tuple[int, int]:
    """How many are clearly above 0, and how many clearly below."""
    signs = [m.sign() for m in means]
    return signs.count(1), signs.count(-1)


def _rivals_verdict(rivals: Iterable[Mean]) -> str:
    """Verdict on a claim that all rivals are below: they hold it up if all clearly are, one above refutes it."""
    rivals = list(rivals)
    above, below = _clear(rivals)
    return FAILS if above else HOLDS if below == len(rivals) else UNDECIDED


# -- is it the same study? ---------------------------------------------------------------------------------------
@claim(
    "The table is reproduced",
    says="The 56 AUC means of the published table.",
    rule=f"Holds if every AUC mean lies within {FAR} standard errors of the difference.",
)
def table_is_reproduced(study: Study, problem: Problem) -> Found:
    rows = [r for r in compare_with_paper(study) if r.problem == problem and not math.isnan(r.z)]
    if not rows:
        return None
    near = sum(abs(r.z) <= FAR for r in rows)
    far = max(rows, key=lambda r: abs(r.z))
    verdict = HOLDS if near == len(rows) else FAILS
    return verdict, f"{near} of {len(rows)} within {FAR} SE; farthest {far.score}, z = {far.z:+.2f}"


@claim(
    "The risks are reproduced",
    says="The four validation risks of the published table.",
    rule=f"Holds if the mean risk lies within {FAR} standard errors of the difference.",
)
def risks_are_reproduced(study: Study, problem: Problem) -> Found:
    row = next((r for r in compare_with_paper(study) if r.problem == problem and not math.isnan(r.risk_z)), None)
    if row is None:
        return None
    verdict = HOLDS if abs(row.risk_z) <= FAR else FAILS
    return verdict, f"{plus_minus(row.risk, 4)}; paper {plus_minus(row.paper_risk, 4)}; z = {row.risk_z:+.2f}"


@claim(
    "Proposition 3 is exact",
    says="TreeInner-Train-PreDecomp is total gain; the difference is “mostly in the order 10⁻⁶”.",
    rule=f"Holds if the median difference is at most {EXACT['median']:g} and the worst at most {EXACT['worst']:g}.",
)
def proposition_3_is_exact(study: Study, problem: Problem) -> Found:
    errors = [row["error"] for setting in study.settings for row in study.get(problem, GAIN, setting).values()]
    errors = [e for e in errors if not math.isnan(e)]
    if not errors:
        return None
    middle, worst = median(errors), max(errors)
    ok = middle <= EXACT["median"] and worst <= EXACT["worst"]
    return HOLDS if ok else FAILS, f"median {middle:.1e}, worst {worst:.1e} over {len(errors)} models"


# -- which score finds the relevant features? ----------------------------------------------------------------------
@claim(
    BEATS,
    says="At the standard setting TreeInner on validation rows finds relevant features better than every other score "
    "of trees.",
    rule="Paired differences in AUC of the 12 scores that are not TreeInner-Valid to TreeInner-Valid-PreDecomp. Holds "
    "if all are clearly below 0; does not hold if any is clearly above.",
)
def beats_every_other_score(study: Study, problem: Problem) -> Found:
    rivals = against(study, problem, RIVALS)
    if not rivals:
        return None
    _, below = _clear(rivals.values())
    best = max(rivals, key=lambda s: (rivals[s].sign() > 0, rivals[s].mean))  # clearly above, if one is
    number = f"{below} of {len(rivals)} clearly below; nearest {best} {signed(rivals[best])}"
    return _rivals_verdict(rivals.values()), number


@claim(
    "It dominates at every depth",
    says="TreeInner “dominates other GFAs in all tasks except classification on ChIP”, at every max_depth.",
    rule="TreeInner-Valid-PreDecomp against Abs and Permutation. Holds if at every depth all are clearly below; does "
    "not hold if at any depth one is clearly above.",
)
def dominates_at_every_depth(study: Study, problem: Problem) -> Found:
    settings = study.sweep("max_depth")
    if len(settings) < 2:
        return None
    others = [s for s in RIVALS if s.gfa in ("Abs", "Permutation")]
    found = [list(against(study, problem, others, setting=s).values()) for s in settings]
    beaten = sum(any(d.sign() > 0 for d in f) for f in found)
    highest = sum(bool(f) and all(d.sign() < 0 for d in f) for f in found)
    first = sum(bool(f) and all(d.mean < 0 for d in f) for f in found)
    verdict = FAILS if beaten else HOLDS if highest == len(settings) else UNDECIDED
    number = (
        f"highest mean at {first} of {len(settings)} depths, clearly highest at {highest}, clearly beaten at {beaten}"
    )
    return verdict, number


@claim(
    "It beats total gain",
    says="The debiased score is better than total gain, which is TreeInner-Train-PreDecomp.",
    rule="Holds if the paired difference in AUC is clearly above 0.",
)
def beats_total_gain(study: Study, problem: Problem) -> Found:
    d = study.difference(problem, BEST, GAIN)
    return (by_sign(d.sign()), signed(d)) if d.n else None


@claim(
    "Validation rows are better than training rows",
    says="“Using out-sample data generally gives a higher AUC.”",
    rule="Valid less Train, for each score. Holds if some are clearly higher and none lower; does not hold if more are "
    "clearly lower than higher.",
)
def validation_rows_are_better(study: Study, problem: Problem) -> Found:
    pairs = [(s, Score(s.gfa, "Train", s.ifa)) for s in SCORES if s.domain == "Valid"]
    found = [d for d in (study.difference(problem, valid, train) for valid, train in pairs) if d.n]
    if not found:
        return None
    higher, lower = _clear(found)
    verdict = HOLDS if higher and not lower else FAILS if lower > higher else UNDECIDED
    own = study.difference(problem, BEST, GAIN)
    return verdict, f"{higher} of {len(found)} clearly higher, {lower} lower; TreeInner-PreDecomp {signed(own)}"


@claim(
    "PreDecomp is not worse than TreeSHAP",
    says="On validation rows “PreDecomp generally gives the same or higher AUC compared to TreeSHAP”.",
    rule="TreeInner-Valid-TreeSHAP less TreeInner-Valid-PreDecomp. Does not hold if clearly above 0; holds if the 95 "
    f"% interval ends below {TIE}.",
)
def not_worse_than_shap(study: Study, problem: Problem) -> Found:
    d = study.difference(problem, SHAP, BEST)
    if not d.n:
        return None
    verdict = FAILS if d.sign() > 0 else HOLDS if d.mean + d.reach < TIE else UNDECIDED
    return verdict, f"TreeSHAP {signed(d)}"


@claim(
    "PreDecomp and TreeSHAP tie",
    says="It does not matter which of the two attributions is used on validation rows.",
    rule=f"Does not hold if the difference is clearly not 0; holds if its 95 % interval lies within ±{TIE}.",
    ours=True,
)
def ties_with_shap(study: Study, problem: Problem) -> Found:
    d = study.difference(problem, SHAP, BEST)
    if not d.n:
        return None
    verdict = FAILS if d.sign() else HOLDS if abs(d.mean) + d.reach < TIE else UNDECIDED
    return verdict, f"TreeSHAP {signed(d)}"


@claim(
    "ForestInner is worse",
    says="ForestInner “empirically has worse performance” than TreeInner.",
    rule="ForestInner-Valid-PreDecomp less TreeInner-Valid-PreDecomp. Holds if clearly below 0.",
)
def forest_inner_is_worse(study: Study, problem: Problem) -> Found:
    d = study.difference(problem, Score("ForestInner", "Valid", "PreDecomp"), BEST)
    return (by_sign(d.sign(), -1), signed(d)) if d.n else None


# -- where do noise features end up? --------------------------------------------------------------------------------
@claim(
    "Noise scores above 0 on training rows",
    says="“Scores calculated on in-sample data are generally positive despite being calculated for noisy features.”",
    rule="Mean normalised score of noisy features. Holds if all scores on training rows are clearly positive; fails if "
    "one is negative.",
)
def noise_in_sample(study: Study, problem: Problem) -> Found:
    found = [study.mean(problem, s, "score_noisy") for s in SCORES if s.domain == "Train"]
    found = [m for m in found if m.n]
    if not found:
        return None
    above, below = _clear(found)
    verdict = HOLDS if above == len(found) else FAILS if below else UNDECIDED
    gain = study.mean(problem, GAIN, "score_noisy")
    return verdict, f"{above} of {len(found)} clearly positive; total gain {signed(gain, 4)}"


@claim(
    "Noise falls to zero or below",
    says="On validation rows TreeInner gives noisy features scores at zero or below.",
    rule="Mean normalised score of noisy features, TreeInner-Valid-PreDecomp. Holds if clearly negative at the "
    "standard setting and positive at none; does not hold if clearly positive at any.",
)
def noise_out_of_sample(study: Study, problem: Problem) -> Found:
    here = study.mean(problem, BEST, "score_noisy")
    if not here.n:
        return None
    means = [study.mean(problem, BEST, "score_noisy", s) for s in study.settings]
    means = [m for m in means if m.n]
    above, below = _clear(means)
    verdict = FAILS if above or here.sign() > 0 else HOLDS if here.sign() < 0 else UNDECIDED
    return verdict, f"{signed(here, 4)}; of {len(means)} settings {below} clearly negative, {above} positive"


@claim(
    "Only TreeInner does so",
    says="“When evaluated on out-sample data, only TreeInner can consistently produce negative scores.”",
    rule="Mean normalised score of noisy features at the standard setting. Holds if it is clearly negative for "
    "TreeInner-Valid with both attributions and for neither Abs nor Permutation (the families of the paper's "
    "figure; ForestInner is shown, not judged).",
)
def only_tree_inner(study: Study, problem: Problem) -> Found:
    found = {s: study.mean(problem, s, "score_noisy") for s in SCORES if s.domain == "Valid"}
    if not any(m.n for m in found.values()):
        return None
    negative = [s for s, m in found.items() if m.sign() < 0]
    own = [s for s in negative if s.gfa == "TreeInner"]
    others = [s for s in negative if s.gfa in ("Abs", "Permutation")]
    verdict = FAILS if others else HOLDS if len(own) == 2 else UNDECIDED
    return verdict, "clearly negative: " + (listed(negative) if negative else "none")


@claim(
    "More trees push noise down",
    says="Negative scores of noise become “clearer as the number of trees increases”.",
    rule="TreeInner-Valid-PreDecomp, mean normalised score of noisy features, most rounds less fewest. Holds if "
    "clearly below 0.",
)
def more_trees_push_noise_down(study: Study, problem: Problem) -> Found:
    settings = study.sweep("num_boost_round")
    if len(settings) < 2:
        return None
    few, many = settings[0], settings[-1]
    noisy = study.difference(problem, BEST, BEST, "score_noisy", setting=many, to_setting=few)
    auc = study.difference(problem, BEST, BEST, "auc", setting=many, to_setting=few)
    if not noisy.n:
        return None
    number = f"{signed(noisy, 4)} from {few.num_boost_round} to {many.num_boost_round} rounds; AUC {signed(auc)}"
    return by_sign(noisy.sign(), -1), number


# -- the models ----------------------------------------------------------------------------------------------------
@claim(
    "The standard setting is about the best",
    says="With the standard values “the model roughly has the best predictive performance for all tasks on the "
    "validation set”.",
    rule="Paired difference in risk of every other setting to the standard one. Does not hold if the best of them is "
    "below 0 by one and a half times the 95 % reach (about 3 standard errors, because it is the best of many); "
    "else holds.",
)
def standard_setting_is_best(study: Study, problem: Problem) -> Found:
    here = study.standard
    others = [s for s in study.settings if s != here]
    rest = {s: study.difference(problem, BEST, BEST, "risk", setting=s, to_setting=here) for s in others}
    rest = {s: d for s, d in rest.items() if d.n > 1}
    if not rest:
        return None
    best = min(rest, key=lambda s: rest[s].mean)
    d = rest[best]
    changed = next(f"{k} {getattr(best, k):g}" for k in vars(best) if getattr(best, k) != getattr(here, k))
    verdict = FAILS if d.mean + 1.5 * d.reach < 0 else HOLDS
    usual = plus_minus(study.risk(problem), 4)
    return verdict, f"best of {len(rest)} others: {changed}, risk {signed(d, 4)} (standard {usual})"


# -- what the paper does not test ----------------------------------------------------------------------------------
@claim(
    ART,
    says="PreDecomp and TreeInner “show state-of-the-art feature selection performance”.",
    rule="Two classical tests without any trees, less TreeInner-Valid-PreDecomp, in AUC. Does not hold if one is "
    "clearly above 0; holds if all are clearly below. (Linear |t| sees training and validation rows; so does "
    "TreeInner-Valid, one after the other.)",
)
def state_of_the_art(study: Study, problem: Problem) -> Found:
    tests = [s for s in study.references(problem) if s.gfa in ("F-test", "Linear |t|")]
    found = against(study, problem, tests)
    if not found:
        return None
    return _rivals_verdict(found.values()), "; ".join(f"{s.gfa} {signed(d)}" for s, d in found.items())


GUESSING = f"Does not hold if the mean AUC is clearly above 0.5; holds if its 95 % interval ends below {0.5 + TIE:g}."


def _guesses(study: Study, problem: Problem, gfa: str) -> Found:
    score = next((s for s in study.references(problem) if s.gfa == gfa), None)
    auc = study.mean(problem, score) if score else Mean(math.nan, math.nan, 0)
    if not auc.n:
        return None
    verdict = FAILS if auc.sign(0.5) > 0 else HOLDS if auc.mean + auc.reach < 0.5 + TIE else UNDECIDED
    return verdict, f"AUC {plus_minus(auc)}"


@claim(
    PLACEBO,
    says="Without any signal (labels permuted) TreeInner-Valid has an AUC of 0.5 or less: the AUC does not reward "
    "cardinality.",
    rule=GUESSING,
    ours=True,
)
def placebo_guesses(study: Study, problem: Problem) -> Found:
    return _guesses(study, problem, "Placebo TreeInner")


@claim(
    MINUS,
    says="Total gain turned upside down, which knows which features are used least, is no better than guessing.",
    rule=GUESSING,
    ours=True,
)
def minus_gain_guesses(study: Study, problem: Problem) -> Found:
    return _guesses(study, problem, "Minus total gain")


@claim(
    FIRST,
    says="Among the first 10 features of Simulated, which differ less in cardinality, TreeInner-Valid still finds the "
    "relevant ones.",
    rule="Holds if the mean AUC of TreeInner-Valid-PreDecomp among the first 10 features is clearly above 0.5.",
    ours=True,
)
def finds_among_first_ten(study: Study, problem: Problem) -> Found:
    auc = study.mean(problem, BEST, "auc_first10")
    return (by_sign(auc.sign(0.5)), f"AUC {plus_minus(auc)}") if auc.n else None


CLAIMS = (
    table_is_reproduced, risks_are_reproduced, proposition_3_is_exact, beats_every_other_score,
    dominates_at_every_depth, beats_total_gain, validation_rows_are_better, not_worse_than_shap, ties_with_shap,
    noise_in_sample, noise_out_of_sample, only_tree_inner, more_trees_push_noise_down, forest_inner_is_worse,
    standard_setting_is_best, state_of_the_art, placebo_guesses, minus_gain_guesses, finds_among_first_ten,
)  # fmt: skip
