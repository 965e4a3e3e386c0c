"""Digests of what the golden models give, to the last bit: `python -m tests.bits` prints them as JSON.

`tests/golden/bits.json` holds those of the first edition, but for what was changed by intention: tests/test_bits.py
lists that with its reasons, and compares.
"""

import hashlib
import json
import warnings
from functools import cache
from pathlib import Path

import numpy as np

import treeinner as ti

GOLDEN = Path(__file__).parent / "golden"
METHODS = ("predecomp", "saabas", "treeshap")
TARGET = {"binary": "y_binary", "multiclass": "y_class", "poisson": "y_count"}


def cases():
    """Model files of numeric rows, as "folder/file"."""
    paths = sorted(p for p in GOLDEN.glob("*-*/*") if p.suffix != ".npz" and p.stem not in ("ctr", "onehot"))
    return [f"{p.parent.name}/{p.name}" for p in paths]


@cache
def data():
    """Rows and targets."""
    with np.load(GOLDEN / "data.npz") as stored:
        return {name: stored[name] for name in stored.files}


@cache
def answers(folder):
    """What the library said of the models in a folder."""
    with np.load(GOLDEN / folder / "answers.npz") as stored:
        return {name: stored[name] for name in stored.files}


def rows(case, X):
    """The rows as the model saw them: a frame has no codes outside its levels."""
    X = X.copy()
    if "/frame." in case:
        X[:, -1] = np.where(np.isin(X[:, -1], np.arange(len(data()["levels"]))), X[:, -1], np.nan)
    return X


def digest(*arrays):
    """Digest of numbers and shapes."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(repr((array.shape, array.dtype.str)).encode() + np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:16]


def target(stored, case, n_outputs):
    """Target of the training rows for the model's loss."""
    model = case.split("/")[1].rsplit(".", 1)[0]
    y = stored[TARGET.get(model, "y")]
    return np.column_stack([y] * n_outputs) if model == "vector" else y


def bits_of(case):
    """Name -> digest, or the class of the error."""
    stored, path = data(), GOLDEN / case
    folder, model = case.split("/")
    truth = answers(folder)
    X, X_train = rows(case, stored["X"]), rows(case, stored["X_train"])
    e = ti.read_model(path).ensemble
    given = {name: float(truth[f"{model.rsplit('.', 1)[0]}.{name}"]) for name in e.needs if name != "training data"}
    out = {"margin": digest(e.predict(X)), "leaf": digest(e.apply(X))}
    y = target(stored, case, e.n_outputs)
    told = ti.read_model(path, **given)
    for method in METHODS:
        out[f"attribution {method}"] = attempt(lambda m=method: attribution(told, X, m))
        out[f"gains {method}"] = attempt(lambda m=method: gains(told, X_train, y, m))
    out["leaf sums"] = attempt(lambda: leaf_sums(told, X_train, y))
    return out


def attempt(work):
    """Digest, or the name of our own error."""
    try:
        return work()
    except ti.TreeInnerError as error:
        return type(error).__name__


def attribution(model, X, method):
    """Values and base values."""
    a = ti.attribute(model, X, method=method)
    return digest(a.values, a.base_values)


def gains(model, X, y, method):
    """The paper's TreeInner: a sum over rows, every tree divided by its learning rate."""
    return digest(ti.importance(model, X, y, method=method, std_errors=False).gains)


def leaf_sums(model, X, y):
    """Fixed-point sums of weights and gradients in the leaves of an accumulator that took two batches."""
    found = []
    for method, name in (("predecomp", "leaf_sums"), ("centred", "leaf_weights")):
        acc = ti.ImportanceAccumulator(model, method=method)
        acc.update(X[:100], y[:100]).update(X[100:], y[100:])
        found.append(acc._held.to_arrays()[0][f"0.{name}"])
    return digest(*found)


def main():
    """Print all digests."""
    warnings.simplefilter("ignore")
    print(json.dumps({case: bits_of(case) for case in cases()}, indent=1))


if __name__ == "__main__":
    main()
