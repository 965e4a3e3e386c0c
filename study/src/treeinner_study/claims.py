"""The paper's claims, each put as comparisons over the settings that the paper speaks of, and what we add.

`verdicts.RULES` judges them all. No sentence here knows how the study ended.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from scipy import stats

from treeinner_study.comparisons import TIE, Comparison, at, averaged, better, noise, swept
from treeinner_study.grid import Setting
from treeinner_study.names import BEST, GAIN, SCORES, Problem, Score
from treeinner_study.own_claims import OWN_CLAIMS
from treeinner_study.records import Study, plus_minus
from treeinner_study.table import BEYOND, compare_with_paper
from treeinner_study.verdicts import FAILS, HOLDS, Claim, Found, claim

__all__ = ["ART", "BEATS", "check_claims"]

SHAP = Score("TreeInner", "Valid", "TreeSHAP")
SHOWN = ("Abs", "Permutation", "TreeInner")  # the families of the paper's figures, which leave ForestInner out
OTHERS = tuple(s for s in SCORES if s.gfa in ("Abs", "Permutation"))
EXACT = {"median": 1e-6, "worst": 1e-5}  # "mostly in the order 1e-6"
NEAR_ZERO = 0.01  # normalised score that is called 0
ROUGHLY = 0.01  # share of the risk within which a setting is called as good
DEPTHS = "at every max_depth"

# Names of the claims that the summary speaks about.
BEATS = "TreeInner-Valid beats every other score"
ART = "State of the art, whatever the method"


def check_claims(study: Study) -> list[Claim]:
    """All claims: of the reproduction, of the paper in its order, and ours."""
    return [check(study) for check in CLAIMS]


# -- is it the same study? ---------------------------------------------------------------------------------------
@claim(
    "The table is reproduced",
    says="The 56 AUC means of the published table.",
    compared=f"Holds if for no mean there is {BEYOND}, z being the difference over its standard error.",
    origin="check",
)
def table_is_reproduced(study: Study, problem: Problem) -> Found | None:
    rows = [r for r in compare_with_paper(study) if r.problem == problem and not math.isnan(r.z)]
    if not rows:
        return None
    near = sum(not r.far for r in rows)
    worst = max(rows, key=lambda r: abs(r.z))
    text = f"{near} of {len(rows)} near; farthest {worst.score}, z = {worst.z:+.2f}"
    return HOLDS if near == len(rows) else FAILS, text, ()


@claim(
    "The risks are reproduced",
    says="The four validation risks of the published table.",
    compared="As for the AUC means.",
    origin="check",
)
def risks_are_reproduced(study: Study, problem: Problem) -> Found | None:
    row = next((r for r in compare_with_paper(study) if r.problem == problem and not math.isnan(r.risk_z)), None)
    if row is None:
        return None
    text = f"{plus_minus(row.risk, 4)}; paper {plus_minus(row.paper_risk, 4)}; z = {row.risk_z:+.2f}"
    return FAILS if row.risk_far else HOLDS, text, ()


# -- which score finds the relevant features? ----------------------------------------------------------------------
@claim(
    "Proposition 3 is exact",
    says="TreeInner-Train-PreDecomp is total gain; the difference is “mostly in the order 10⁻⁶”.",
    compared=f"Arithmetic, so without intervals: holds if over all models the median difference is at most "
    f"{EXACT['median']:g} and the worst at most {EXACT['worst']:g}.",
)
def proposition_3_is_exact(study: Study, problem: Problem) -> Found | None:
    errors = [e for setting in study.settings for e in study.values(problem, GAIN, "error", setting).values()]
    if not errors:
        return None
    middle, worst = median(errors), max(errors)
    ok = middle <= EXACT["median"] and worst <= EXACT["worst"]
    return HOLDS if ok else FAILS, f"median {middle:.1e}, worst {worst:.1e} over {len(errors)} models", ()


@claim(
    BEATS,
    says="TreeInner “achieves state-of-the-art AUC scores”: in the table it finds relevant features better than every "
    "other score of trees.",
    compared="AUC of TreeInner-Valid-PreDecomp less that of each of the 12 scores of the table that are not "
    "TreeInner-Valid, at the standard setting.",
    kind="every",
)
def beats_every_other_score(study: Study, problem: Problem) -> list[Comparison]:
    return better(study, problem, BEST, [s for s in SCORES if s not in (BEST, SHAP)])


@claim(
    "It dominates at every depth",
    says="TreeInner “dominates other GFAs in all tasks except classification on ChIP”, over max_depth.",
    compared=f"AUC of TreeInner-Valid-PreDecomp less those of Abs and Permutation, on both kinds of rows, {DEPTHS}; "
    "not judged on ChIP classification, which the paper excepts.",
    kind="every",
)
def dominates_at_every_depth(study: Study, problem: Problem) -> list[Comparison]:
    settings = swept(study, "max_depth")
    excepted = problem == Problem("ChIP", "classification")
    return better(study, problem, BEST, OTHERS, settings) if settings and not excepted else []


@claim(
    "It beats total gain",
    says="The debiased score is better than total gain, which is TreeInner-Train-PreDecomp.",
    compared=f"AUC of TreeInner-Valid-PreDecomp less that of total gain, {DEPTHS}.",
    kind="generally",
)
def beats_total_gain(study: Study, problem: Problem) -> list[Comparison]:
    settings = swept(study, "max_depth")
    return better(study, problem, BEST, [GAIN], settings) if settings else []


@claim(
    "Validation rows are better than training rows",
    says="“Using out-sample data generally gives a higher AUC.”",
    compared=f"AUC on validation rows less that on training rows, for the five scores of the paper's figure, {DEPTHS}.",
    kind="generally",
)
def validation_rows_are_better(study: Study, problem: Problem) -> list[Comparison]:
    pairs = [(s, Score(s.gfa, "Train", s.ifa)) for s in SCORES if s.domain == "Valid" and s.gfa in SHOWN]
    return [
        Comparison(
            f"{'-'.join(filter(None, (valid.gfa, valid.ifa)))}{at(setting, study)}",
            study.differences(problem, valid, train, setting=setting),
        )
        for setting in swept(study, "max_depth")
        for valid, train in pairs
    ]


@claim(
    "PreDecomp is not worse than TreeSHAP",
    says="On validation rows “PreDecomp generally gives the same or higher AUC compared to TreeSHAP”, over max_depth.",
    compared=f"AUC of TreeInner-Valid-PreDecomp less that of TreeInner-Valid-TreeSHAP, {DEPTHS}; margin {TIE}.",
    kind="generally",
)
def not_worse_than_shap(study: Study, problem: Problem) -> list[Comparison]:
    settings = swept(study, "max_depth")
    return better(study, problem, BEST, [SHAP], settings, margin=TIE) if settings else []


@claim(
    "ForestInner is worse",
    says="ForestInner “empirically has worse performance” than TreeInner.",
    compared="AUC of TreeInner-Valid less that of ForestInner-Valid, by PreDecomp and by TreeSHAP, at the standard "
    "setting: the only one that the paper shows.",
    kind="generally",
)
def forest_inner_is_worse(study: Study, problem: Problem) -> list[Comparison]:
    pairs = [(s, Score("ForestInner", "Valid", s.ifa)) for s in (BEST, SHAP)]
    return [Comparison(f"by {own.ifa}", study.differences(problem, own, other)) for own, other in pairs]


# -- where do noise features end up? --------------------------------------------------------------------------------
@claim(
    "Noise scores above 0 on training rows",
    says="“Scores calculated on in-sample data are generally positive despite being calculated for noisy features.”",
    compared=f"Mean normalised score of noisy features, for the five scores of the paper's figure, {DEPTHS}.",
    kind="generally",
)
def noise_in_sample(study: Study, problem: Problem) -> list[Comparison]:
    scores = [s for s in SCORES if s.domain == "Train" and s.gfa in SHOWN]
    return noise(study, problem, scores, swept(study, "max_depth"), 1)


@claim(
    "Only TreeInner puts noise below 0",
    says="“When evaluated on out-sample data, only TreeInner can consistently produce negative scores.”",
    compared=f"Mean normalised score of noisy features on validation rows: below 0 for TreeInner by both attributions, "
    f"{DEPTHS}; not below 0 for Abs and Permutation in the mean over the depths (margin {NEAR_ZERO}). The paper's "
    "figure leaves ForestInner out.",
    kind="every",
)
def only_tree_inner(study: Study, problem: Problem) -> list[Comparison]:
    settings = swept(study, "max_depth")
    found = noise(study, problem, (BEST, SHAP), settings, -1)
    for score in (s for s in OTHERS if s.domain == "Valid" and settings):
        means = averaged([study.values(problem, score, "score_noisy", s) for s in settings])
        found.append(Comparison(f"{score}, mean over the depths", means, margin=NEAR_ZERO, digits=4))
    return found


@claim(
    "More trees push noise down",
    says="Negative scores of noise become “clearer as the number of trees increases”.",
    compared="Mean normalised score of noisy features, TreeInner-Valid-PreDecomp: most rounds less fewest, below 0.",
    kind="every",
)
def more_trees_push_noise_down(study: Study, problem: Problem) -> list[Comparison]:
    return _more_trees(study, problem, "score_noisy", -1)


def _more_trees(study: Study, problem: Problem, column: str, wanted: int) -> list[Comparison]:
    settings = swept(study, "num_boost_round")
    if not settings:
        return []
    few, many = settings[0], settings[-1]
    name = {"score_noisy": "", "auc": "AUC", "risk": "risk"}[column]
    found = study.differences(problem, BEST, BEST, column, setting=many, to_setting=few)
    return [Comparison(name, found, wanted, digits=3 if column == "auc" else 4)]


@claim(
    "It benefits from over-fitting",
    says="More trees make noise scores more negative, “suggesting that TreeInner could even benefit from model "
    "over-fitting”.",
    compared="From fewest rounds to most: the AUC of TreeInner-Valid-PreDecomp rises, and so does the risk on "
    "validation rows.",
    kind="every",
)
def benefits_from_overfitting(study: Study, problem: Problem) -> list[Comparison]:
    return _more_trees(study, problem, "auc", 1) + _more_trees(study, problem, "risk", 1)


@claim(
    "Its bias makes it the better selector",
    says="“It is the lack of finite-sample unbiasedness that makes TreeInner a better feature selector”: where noise "
    "scores are more negative, relevant features are found better.",
    compared="Rank correlation, in each replication, of the mean normalised score of noisy features with the AUC, "
    "below 0: over the settings for TreeInner-Valid-PreDecomp; and over the seven scores on validation rows at the "
    "standard setting. A correlation cannot show a cause; without one there is nothing to explain.",
    kind="every",
)
def bias_selects(study: Study, problem: Problem) -> list[Comparison]:
    settings = study.settings if len(study.settings) > 2 else ()  # two have no order to share
    scores = [(s, study.standard) for s in SCORES if s.domain == "Valid"]
    return [
        Comparison("over settings", _rank_correlation(study, problem, [(BEST, s) for s in settings]), -1, digits=2),
        Comparison("over scores", _rank_correlation(study, problem, scores), -1, digits=2),
    ]


def _rank_correlation(study: Study, problem: Problem, cases: Sequence[tuple[Score, Setting]]) -> dict[int, float]:
    """Replication -> Spearman's correlation of noise score and AUC over the cases."""
    noise = [study.values(problem, score, "score_noisy", setting) for score, setting in cases]
    auc = [study.values(problem, score, "auc", setting) for score, setting in cases]
    common = [i for i in (noise[0] if noise else ()) if all(i in v for v in (*noise, *auc))]
    pairs = {i: ([v[i] for v in noise], [v[i] for v in auc]) for i in common}
    # Where all are equal, there is no order to compare.
    return {i: float(stats.spearmanr(a, b)[0]) for i, (a, b) in pairs.items() if len(set(a)) > 1 and len(set(b)) > 1}


# -- the models ----------------------------------------------------------------------------------------------------
@claim(
    "The standard setting is about the best",
    says="With the standard values “the model roughly has the best predictive performance for all tasks on the "
    "validation set”.",
    compared="Risk of every other setting less that of the standard one, not below 0; margin "
    f"{100 * ROUGHLY:g} % of the standard setting's risk.",
    kind="every",
)
def standard_setting_is_best(study: Study, problem: Problem) -> list[Comparison]:
    margin = ROUGHLY * study.risk(problem).mean
    return [
        Comparison(
            at(s, study).removeprefix(" at "),
            study.differences(problem, BEST, BEST, "risk", setting=s, to_setting=study.standard),
            margin=margin,
            digits=4,
        )
        for s in study.settings
        if s != study.standard
    ]


# -- is it state of the art? ----------------------------------------------------------------------------------
@claim(
    ART,
    says="PreDecomp and TreeInner “show state-of-the-art feature selection performance”.",
    compared="AUC of TreeInner-Valid-PreDecomp less those of two classical tests without any trees, at the standard "
    "setting. (Linear |t| sees training and validation rows; so does TreeInner-Valid, one after the other.)",
    kind="every",
)
def state_of_the_art(study: Study, problem: Problem) -> list[Comparison]:
    tests = [s for s in study.references(problem) if s.gfa in ("F-test", "Linear |t|")]
    return better(study, problem, BEST, tests)


CLAIMS = (
    table_is_reproduced, risks_are_reproduced, proposition_3_is_exact, beats_every_other_score,
    dominates_at_every_depth, beats_total_gain, validation_rows_are_better, not_worse_than_shap,
    forest_inner_is_worse, noise_in_sample, only_tree_inner, more_trees_push_noise_down, benefits_from_overfitting,
    bias_selects, standard_setting_is_best, state_of_the_art, *OWN_CLAIMS,
)  # fmt: skip
