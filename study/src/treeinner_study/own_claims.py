"""What an honest reproduction adds to the paper's claims; judged by the same rule."""

from __future__ import annotations

from treeinner_study.comparisons import TIE, Comparison, better, noise, swept
from treeinner_study.names import BEST, CENTRED, SCORES, Problem, Score
from treeinner_study.records import Study
from treeinner_study.verdicts import claim

__all__ = ["FIRST", "MINUS", "OWN_CLAIMS", "PLACEBO", "REVERSAL"]

SHAP = Score("TreeInner", "Valid", "TreeSHAP")
STRONG = 10.0  # reg_lambda from which the penalty is called strong

# Names of the claims that the summary speaks about.
PLACEBO = "A placebo scores as guessing does"
MINUS = "Minus total gain is no selector"
FIRST = "It finds them among the first 10, too"
REVERSAL = "It beats Abs and Permutation among the first 10, too"


@claim(
    "Noise is at 0 or below at every setting",
    says="On validation rows TreeInner gives noisy features scores below 0, whatever the setting.",
    compared="Mean normalised score of noisy features, TreeInner-Valid-PreDecomp, at every setting of the study.",
    kind="every",
    origin="ours",
)
def noise_at_every_setting(study: Study, problem: Problem) -> list[Comparison]:
    return noise(study, problem, [BEST], study.settings, -1)


@claim(
    "PreDecomp is not worse than TreeSHAP under any penalty",
    says="What the paper says of max_depth is so over reg_lambda, too: PreDecomp was made for the penalty.",
    compared="AUC of TreeInner-Valid-PreDecomp less that of TreeInner-Valid-TreeSHAP, at every reg_lambda; margin "
    f"{TIE}.",
    kind="every",
    origin="ours",
)
def not_worse_under_any_penalty(study: Study, problem: Problem) -> list[Comparison]:
    settings = swept(study, "reg_lambda")
    return better(study, problem, BEST, [SHAP], settings, margin=TIE) if settings else []


@claim(
    "PreDecomp and TreeSHAP tie",
    says="It does not matter which of the two attributions is used on validation rows.",
    compared="The same difference at every setting of the study, in both directions: neither is worse by more than the "
    f"margin of {TIE}.",
    kind="every",
    origin="ours",
)
def ties_with_shap(study: Study, problem: Problem) -> list[Comparison]:
    found = better(study, problem, BEST, [SHAP], study.settings, margin=TIE)
    return found + [Comparison(c.name, c.values, -1, TIE) for c in found]


@claim(
    "Centred is not worse than PreDecomp",
    says="TreeInner(centred), the default of treeinner, finds relevant features as well as TreeInner(PreDecomp).",
    compared="AUC of TreeInner-Valid-Centred less that of TreeInner-Valid-PreDecomp at every setting of the study; "
    f"margin {TIE}.",
    kind="every",
    origin="ours",
)
def centred_is_not_worse(study: Study, problem: Problem) -> list[Comparison]:
    return better(study, problem, CENTRED, [BEST], study.settings, margin=TIE)


@claim(
    "Centred is better under a strong penalty",
    says="Where leaves are shrunk much, node values that know of it mislead on new rows, and centred ones do not.",
    compared=f"The same difference at reg_lambda {STRONG:g} and more.",
    kind="every",
    origin="ours",
)
def centred_is_better_under_penalty(study: Study, problem: Problem) -> list[Comparison]:
    settings = [s for s in swept(study, "reg_lambda") if s.reg_lambda >= STRONG]
    return better(study, problem, CENTRED, [BEST], settings) if settings else []


def _guesses(study: Study, problem: Problem, score: Score) -> list[Comparison]:
    """AUC less that of guessing, not above 0."""
    above = {i: auc - 0.5 for i, auc in study.values(problem, score).items()}
    return [Comparison("AUC - 0.5:", above, -1, TIE)]


@claim(
    PLACEBO,
    says="Without any signal (labels permuted) TreeInner-Valid has an AUC of 0.5 or less: the AUC does not reward "
    "cardinality.",
    compared=f"AUC of TreeInner-Valid-PreDecomp less 0.5, not above 0; margin {TIE}.",
    kind="every",
    origin="ours",
)
def placebo_guesses(study: Study, problem: Problem) -> list[Comparison]:
    return _guesses(study, problem, Score("Placebo TreeInner", "Valid", "PreDecomp"))


@claim(
    MINUS,
    says="Total gain turned upside down, which knows which features are used least, is no better than guessing.",
    compared=f"Its AUC less 0.5, not above 0; margin {TIE}.",
    kind="every",
    origin="ours",
)
def minus_gain_guesses(study: Study, problem: Problem) -> list[Comparison]:
    return _guesses(study, problem, Score("Minus total gain", "Train", ""))


@claim(
    FIRST,
    says="Among the first 10 features of Simulated, which differ less in cardinality, TreeInner-Valid still finds the "
    "relevant ones.",
    compared="AUC of TreeInner-Valid-PreDecomp among the first 10 features less 0.5, at the standard setting.",
    kind="every",
    origin="ours",
)
def finds_among_first_ten(study: Study, problem: Problem) -> list[Comparison]:
    above = {i: auc - 0.5 for i, auc in study.values(problem, BEST, "auc_first10").items()}
    return [Comparison("AUC - 0.5:", above)]


@claim(
    REVERSAL,
    says="TreeInner-Valid is better than Abs and Permutation among the first 10 features of Simulated as it is among "
    "all 50.",
    compared="AUC among the first 10 features of TreeInner-Valid-PreDecomp less those of Abs and Permutation, on both "
    "kinds of rows, at every max_depth.",
    kind="generally",
    origin="ours",
)
def beats_others_among_first_ten(study: Study, problem: Problem) -> list[Comparison]:
    others = [s for s in SCORES if s.gfa in ("Abs", "Permutation")]
    settings = swept(study, "max_depth")
    return better(study, problem, BEST, others, settings, column="auc_first10") if settings else []


OWN_CLAIMS = (
    noise_at_every_setting, not_worse_under_any_penalty, ties_with_shap, centred_is_not_worse,
    centred_is_better_under_penalty, placebo_guesses, minus_gain_guesses, finds_among_first_ten,
    beats_others_among_first_ten,
)  # fmt: skip
