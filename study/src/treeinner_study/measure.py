"""One replication of one problem -> its rows: train, score, compare.

Every model is trained once and read once. The scores of a model of n rounds that is cut out of a longer one:

- TreeInner(PreDecomp), ForestInner, Permutation and the scores that the paper does not have are computed on the cut
  model itself.
- TreeInner(TreeSHAP) and Abs add up over trees, so each stretch of rounds between two cuts is scored once (TreeInner
  from the margin that the rounds before it leave) and the sums are cumulated.

Permutation is one round of shuffles, and the rise of the training loss; the paper's program took the fall of the AUC
for classes. On the validation rows of 20 replications of Simulated classification the two differ by 0.010 +- 0.032 in
the AUC of the features.

Times are CPU seconds of this process. `score_seconds` of a cut score is that of its stretch alone, so that sums over
rows count nothing twice; the same for `train_seconds` and `read_seconds`, which belong to a training and stand at its
longest setting (0 at the others). `alone_seconds` is what the setting would have cost if trained by itself. A setting
that is the same model as another one (min_child_weight 0.5 and 1 with squared error) repeats its numbers with times 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import xgboost
from numpy.typing import NDArray
from scipy.stats import rankdata

from treeinner_study import scores
from treeinner_study.grid import Setting, Training, trainings
from treeinner_study.names import ACCOUNT, GAIN, Problem, Score
from treeinner_study.problems import CANDIDATES, Data, Process, Rows, Seeds, make_data, permuted_labels
from treeinner_study.references import f_test, linear_t

__all__ = ["Unit", "area_under_curve", "measure", "risk_of"]

FloatArray = NDArray[np.float64]
T = TypeVar("T")
DOMAINS = ("Train", "Valid")
TIMES_LABEL = partial(scores.forest_inner, against="label")
METHODS = {"PreDecomp": "predecomp", "TreeSHAP": "treeshap"}
OBJECTIVE = {"classification": "binary:logistic", "regression": "reg:squarederror"}
BASE_SCORE = {"classification": 0.5, "regression": 0.0}  # newer versions of XGBoost estimate it if not told
NAN = float("nan")


@dataclass(frozen=True, eq=False)
class Unit:
    """What one replication of one problem gave."""

    rows: list[dict[str, Any]]
    cpu_seconds: float
    training_seconds: float  # of these, inside XGBoost's training (the placebo's included)


@dataclass(frozen=True, eq=False)
class Trained:
    """A model with the CPU seconds that had gone by after each round."""

    booster: Any
    read: scores.Model
    after_round: FloatArray
    read_seconds: float


@dataclass(frozen=True, eq=False)
class Cut:
    """The first rounds of a model."""

    rounds: int
    model: scores.Model


@dataclass(frozen=True, eq=False)
class Measured:
    """All scores of one cut model: score -> (vector, CPU seconds)."""

    scores: dict[Score, tuple[FloatArray, float]]
    risk: float
    error: float
    total_gain: FloatArray


def measure(
    problem: Problem,
    replication: int,
    settings: Sequence[Setting],
    standard: Setting,
    *,
    process: Process,
    seed: int,
    chip: Rows | None = None,
) -> Unit:
    """Run one replication of one problem at all settings."""
    begun = time.process_time()
    seeds = Seeds(seed, problem, replication)
    data = make_data(problem, process, seeds.generator("data"), chip)
    matrix = _matrix(data)
    shuffles = [int(s) for s in seeds.sequence("permutation").generate_state(len(DOMAINS))]
    label = {"dataset": problem.dataset, "task": problem.task, "process": process, "replication": replication}
    rows: list[dict[str, Any]] = []
    spent = 0.0
    for training in trainings(settings, problem.task):
        model = _train(problem, training.setting, matrix)
        spent += float(model.after_round[-1])
        for setting, found, times in _cuts(problem, training, model, data, shuffles):
            rows += [{**label, **asdict(setting), **row, **times} for row in _score_rows(problem, data, found)]
            if setting == standard:
                more, placebo = _reference_rows(problem, data, found, setting, seeds)
                rows += [{**label, **asdict(setting), **row, **times} for row in more]
                spent += placebo
    return Unit(rows, time.process_time() - begun, spent)


# -- training ----------------------------------------------------------------------------------------------------
def _matrix(data: Data) -> Any:
    return xgboost.DMatrix(data.X_train, data.y_train, nthread=1)


def _train(problem: Problem, setting: Setting, matrix: Any) -> Trained:
    """Train as XGBoost 1.6.2 did by default: exact greedy, one thread."""
    params = {
        "objective": OBJECTIVE[problem.task],
        "base_score": BASE_SCORE[problem.task],
        "tree_method": "exact",
        "nthread": 1,
        "eta": setting.eta,
        "max_depth": setting.max_depth,
        "min_child_weight": setting.min_child_weight,
        "reg_lambda": setting.reg_lambda,
    }
    after_round = np.empty(setting.num_boost_round)
    begun = time.process_time()
    booster = xgboost.Booster(params, [matrix])
    for i in range(setting.num_boost_round):
        booster.update(matrix, i)
        after_round[i] = time.process_time() - begun
    reading = partial(
        scores.read, booster, objective=OBJECTIVE[problem.task], eta=setting.eta, reg_lambda=setting.reg_lambda
    )
    read, seconds = _timed(reading)
    return Trained(booster, read, after_round, seconds)


# -- scores ------------------------------------------------------------------------------------------------------
def _cuts(
    problem: Problem, training: Training, model: Trained, data: Data, shuffles: Sequence[int]
) -> Iterator[tuple[Setting, Measured, dict[str, float]]]:
    """Each setting of a training with its scores and the times of the model."""
    running: dict[Score, FloatArray] = {}
    before: Cut | None = None
    found: Measured | None = None
    last = training.settings[-1].num_boost_round
    for setting in training.settings:
        rounds = setting.num_boost_round
        times = {"train_seconds": 0.0, "read_seconds": 0.0, "alone_seconds": float(model.after_round[rounds - 1])}
        if found is not None and before is not None and before.rounds == rounds:  # the same model once more
            found = replace(found, scores={score: (vector, 0.0) for score, (vector, _) in found.scores.items()})
            yield setting, found, times
            continue
        if rounds == last:
            times |= {"train_seconds": float(model.after_round[-1]), "read_seconds": model.read_seconds}
        cut = Cut(rounds, scores.cut(model.read, 0, rounds))
        found = _measured(problem, model, cut, before, running, data, shuffles)
        yield setting, found, times
        before = cut


def _measured(
    problem: Problem,
    model: Trained,
    cut: Cut,
    before: Cut | None,
    running: dict[Score, FloatArray],
    data: Data,
    shuffles: Sequence[int],
) -> Measured:
    """All scores of a cut model; `running` holds what the trees before its last stretch have added up to."""
    whole = cut.model
    stretch = whole if before is None else scores.cut(model.read, before.rounds, cut.rounds)
    found: dict[Score, tuple[FloatArray, float]] = {}

    def add(score: Score, part: FloatArray) -> FloatArray:
        running[score] = part if before is None else running[score] + part
        return running[score]

    def tree_inner_so_far(score: Score, X: Any, y: Any) -> FloatArray:
        margin = None if before is None else scores.predict(before.model, X)
        return add(score, scores.tree_inner(stretch, X, y, METHODS[score.ifa], base_margin=margin))

    for domain, shuffle in zip(DOMAINS, shuffles, strict=True):
        X, y = data.rows(domain)
        for ifa, method in METHODS.items():
            found[Score("ForestInner", domain, ifa)] = _timed(scores.forest_inner, whole, X, y, method)
            of_trees, size = Score("TreeInner", domain, ifa), Score("Abs", domain, ifa)
            if ifa == "PreDecomp":
                found[of_trees] = _timed(scores.tree_inner, whole, X, y, method)
            else:
                found[of_trees] = _timed(tree_inner_so_far, of_trees, X, y)
            part, seconds = _timed(scores.absolute, stretch, X, method)
            found[size] = add(size, part), seconds
        found[Score("Permutation", domain, "")] = _timed(scores.permutation, whole, X, y, shuffle)
        found |= _added_scores(whole, domain, X, y)
    total_gain = _total_gain(model.booster, cut.rounds, data.X_train.shape[1])
    error = float(np.abs(_unit(found[GAIN][0], 1) - _unit(total_gain, 1)).max())
    risk = risk_of(problem, data.y_valid, scores.predict(whole, data.X_valid))
    return Measured(found, risk, error, total_gain)


def _added_scores(model: scores.Model, domain: str, X: Any, y: Any) -> dict[Score, tuple[FloatArray, float]]:
    """Scores that the paper does not have (`names.ADDED`)."""
    found = {
        Score("TreeInner", domain, "Centred"): _timed(scores.centred, model, X, y),
        Score("TreeInner", domain, "Saabas"): _timed(scores.tree_inner, model, X, y, "saabas"),
        Score("ForestInner(label)", domain, "PreDecomp"): _timed(TIMES_LABEL, model, X, y),
    }
    if domain == ACCOUNT.domain:  # on the training rows it costs as much and answers no question of the study
        found[ACCOUNT] = _timed(scores.account, model, X, y)
    return found


def _timed(work: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    begun = time.process_time()
    result = work(*arguments)
    return result, time.process_time() - begun


def _total_gain(booster: Any, rounds: int, n_features: int) -> FloatArray:
    """XGBoost's own total gain of the first rounds: (features,)."""
    part = booster if rounds == booster.num_boosted_rounds() else booster[:rounds]
    gains = part.get_score(importance_type="total_gain")
    return np.array([gains.get(f"f{k}", 0.0) for k in range(n_features)])


# -- rows --------------------------------------------------------------------------------------------------------
def _score_rows(problem: Problem, data: Data, found: Measured) -> Iterator[dict[str, Any]]:
    for score, (vector, seconds) in found.scores.items():
        error = found.error if score == GAIN else NAN
        yield _row(problem, data, score, vector, risk=found.risk, error=error, seconds=seconds)


def _reference_rows(
    problem: Problem, data: Data, found: Measured, standard: Setting, seeds: Seeds
) -> tuple[list[dict[str, Any]], float]:
    """Rows to hold the others against, and the CPU seconds of training the placebo's model."""
    X = np.concatenate([data.X_train, data.X_valid])
    y = np.concatenate([data.y_train, data.y_valid])
    f, f_seconds = _timed(f_test, data.X_train, data.y_train)
    t, t_seconds = _timed(linear_t, X, y)
    placebo = permuted_labels(data, seeds.generator("placebo"))
    model = _train(problem, standard, _matrix(placebo))
    valid = placebo.X_valid, placebo.y_valid
    inner, inner_seconds = _timed(scores.tree_inner, model.read, *valid)
    centred, seconds = _timed(scores.centred, model.read, *valid)
    risk = risk_of(problem, placebo.y_valid, scores.predict(model.read, placebo.X_valid))
    rows = [
        _row(problem, data, Score("F-test", "Train", ""), f, risk=NAN, seconds=f_seconds),
        _row(problem, data, Score("Linear |t|", "Train+Valid", ""), t, risk=NAN, seconds=t_seconds),
        _row(problem, data, Score("Placebo TreeInner", "Valid", "PreDecomp"), inner, risk=risk, seconds=inner_seconds),
        _row(problem, data, Score("Placebo TreeInner", "Valid", "Centred"), centred, risk=risk, seconds=seconds),
        _row(problem, data, Score("Minus total gain", "Train", ""), -found.total_gain, risk=found.risk, seconds=0.0),
    ]
    return rows, float(model.after_round[-1])


def _row(
    problem: Problem,
    data: Data,
    score: Score,
    vector: FloatArray,
    *,
    risk: float,
    seconds: float,
    error: float = NAN,
) -> dict[str, Any]:
    relevant, length_one = data.relevant, _unit(vector, 2)
    first = slice(0, CANDIDATES)
    simulated = problem.dataset == "Simulated"
    return {
        **score._asdict(),
        "auc": area_under_curve(relevant, vector),
        "auc_first10": area_under_curve(relevant[first], vector[first]) if simulated else NAN,
        "score_noisy": float(length_one[~relevant].mean()),
        "score_signal": float(length_one[relevant].mean()),
        "risk": risk,
        "error": error,
        "score_seconds": seconds,
    }


def _unit(vector: FloatArray, order: int) -> FloatArray:
    """Divide by the l1 or l2 norm; a vector of zeros (a model without splits) stays as it is."""
    norm = float(np.linalg.norm(vector, order))
    return vector / norm if norm > 0 else vector


def area_under_curve(positive: Any, score: Any) -> float:
    """Chance that a positive is scored above a negative, a tie counting one half."""
    positive = np.asarray(positive, np.bool_)
    n = int(positive.sum())
    above = rankdata(score)[positive].sum() - n * (n + 1) / 2.0
    return float(above / (n * (len(positive) - n)))


def risk_of(problem: Problem, y: Any, margin: FloatArray) -> float:
    """Risk on some rows: mean squared error, or 1 - AUC."""
    if problem.task == "regression":
        return float(np.mean((np.asarray(y, np.float64) - margin) ** 2))
    return 1.0 - area_under_curve(np.asarray(y) > 0.5, margin)
