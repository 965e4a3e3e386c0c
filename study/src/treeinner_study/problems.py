"""The four problems of the study: two data sets, each with a classification and a regression task.

Both data sets hide five relevant features among noise, and the signal is their mean after scaling each to [0, 1].
The text of the paper and the program behind its published table draw the labels differently: there are two processes.

| | `as_run` (made the published table; the default) | `as_written` (section 4.1 of the text) |
|---|---|---|
| regression: noise | standard deviation 100 Var(signal) | variance 100 Var(signal) |
| classification, Simulated | Logistic(2 signal) | Logistic(2 signal - 1) |
| classification, ChIP | Logistic(4 signal) | Logistic(2 signal - 1) |

Var(signal) is that of the rows at hand, training and validation rows apart. From one seed both processes draw the same
features, the same relevant ones and the same random numbers behind the labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from treeinner_study.names import PROBLEMS, Problem

__all__ = ["PROCESS", "PROCESSES", "SIGNAL", "Data", "Seeds", "make_data", "permuted_labels"]

Process = Literal["as_run", "as_written"]
PROCESSES: tuple[Process, ...] = ("as_run", "as_written")
PROCESS: dict[str, str] = {
    "as_run": "as the program behind the published table drew them: noise of standard deviation 100 Var(signal) for "
    "regression; for classification, a 1 with chance Logistic(2 signal) in Simulated and Logistic(4 signal) in ChIP",
    "as_written": "as the text of the paper has it: noise of variance 100 Var(signal) for regression; for "
    "classification, a 1 with chance Logistic(2 signal - 1)",
}
SIGNAL = "The signal is the mean of the five relevant features, each on [0, 1]."

N_RELEVANT = 5
SIMULATED_ROWS = 1000  # for training, and as many for validation
SIMULATED_FEATURES = 50
CANDIDATES = 10  # relevant features of Simulated are among the first ten

FloatArray = NDArray[np.float64]
Rows = tuple[FloatArray, FloatArray]  # training rows, validation rows


@dataclass(frozen=True, eq=False)
class Data:
    """One replication: X (rows, features) and y in float32, which is what XGBoost sees."""

    X_train: NDArray[np.float32]
    y_train: NDArray[np.float32]
    X_valid: NDArray[np.float32]
    y_valid: NDArray[np.float32]
    relevant: NDArray[np.bool_]  # (features,)

    def rows(self, domain: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return X and y of "Train" or "Valid"."""
        return (self.X_train, self.y_train) if domain == "Train" else (self.X_valid, self.y_valid)


@dataclass(frozen=True)
class Seeds:
    """Where the random numbers of one replication come from; no other replication has a part in it."""

    seed: int
    problem: Problem
    replication: int

    def sequence(self, purpose: Literal["data", "permutation", "placebo"]) -> np.random.SeedSequence:
        """Return the seed for one purpose."""
        number = ("data", "permutation", "placebo").index(purpose)
        return np.random.SeedSequence([self.seed, PROBLEMS.index(self.problem), self.replication, number])

    def generator(self, purpose: Literal["data", "permutation", "placebo"]) -> np.random.Generator:
        """Return a generator for one purpose."""
        return np.random.default_rng(self.sequence(purpose))


def make_data(problem: Problem, process: Process, rng: np.random.Generator, chip: Rows | None = None) -> Data:
    """Draw one replication.

    Parameters
    ----------
    chip
        Features of the ChIP files as they are (`chip.load_chip`): (3912, 80) and (3897, 80).
    """
    if problem.dataset == "ChIP":
        assert chip is not None, "ChIP needs its files"
        (train, valid), relevant = _chip_features(chip, rng)
        # Scaled already; in Simulated the largest value of feature j is j.
        scaled = train, valid
    else:
        (train, valid), relevant = _simulated_features(rng)
        largest = np.arange(1, SIMULATED_FEATURES + 1)
        scaled = train / largest, valid / largest
    labels = [_labels(problem, process, X[:, relevant].mean(axis=1), rng) for X in scaled]
    return Data(
        np.ascontiguousarray(train, np.float32),
        labels[0].astype(np.float32),
        np.ascontiguousarray(valid, np.float32),
        labels[1].astype(np.float32),
        relevant,
    )


def permuted_labels(data: Data, rng: np.random.Generator) -> Data:
    """Return the placebo: the same rows with their labels shuffled, so that no feature says anything about them."""
    y_train, y_valid = rng.permutation(data.y_train), rng.permutation(data.y_valid)
    return Data(data.X_train, y_train, data.X_valid, y_valid, data.relevant)


def _simulated_features(rng: np.random.Generator) -> tuple[Rows, NDArray[np.bool_]]:
    """Independent features; feature j, from 1, is uniform on 0, 1, ..., j."""
    above = np.arange(1, SIMULATED_FEATURES + 1) + 1
    shape = (SIMULATED_ROWS, SIMULATED_FEATURES)
    train, valid = rng.integers(0, above, shape), rng.integers(0, above, shape)
    relevant = np.zeros(SIMULATED_FEATURES, np.bool_)
    relevant[rng.choice(CANDIDATES, N_RELEVANT, replace=False)] = True
    return (train.astype(np.float64), valid.astype(np.float64)), relevant


def _chip_features(chip: Rows, rng: np.random.Generator) -> tuple[Rows, NDArray[np.bool_]]:
    """Real features on [0, 1] by the range of the training rows; every noisy one shuffled, train and valid apart."""
    low = chip[0].min(axis=0)
    width = chip[0].max(axis=0) - low
    width[width == 0] = 1.0  # a constant column stays 0
    train, valid = ((X - low) / width for X in chip)
    relevant = np.zeros(train.shape[1], np.bool_)
    relevant[rng.choice(train.shape[1], N_RELEVANT, replace=False)] = True
    for X in (train, valid):
        for column in np.flatnonzero(~relevant):
            X[:, column] = rng.permutation(X[:, column])
    return (train, valid), relevant


def _labels(problem: Problem, process: Process, signal: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw the labels of some rows from their signal."""
    if problem.task == "regression":
        variance = 100.0 * float(signal.var())
        # The published table came from a program that took the variance for the standard deviation.
        deviation = variance if process == "as_run" else variance**0.5
        return signal + deviation * rng.standard_normal(len(signal))
    slope = 4.0 if process == "as_run" and problem.dataset == "ChIP" else 2.0
    logit = slope * signal - (1.0 if process == "as_written" else 0.0)
    chance = 1.0 / (1.0 + np.exp(-logit))
    return (rng.random(len(signal)) < chance).astype(np.float64)
