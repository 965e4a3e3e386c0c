"""Digests of what the golden models give, to the last bit: `python -m tests.kernels.bits` prints them as JSON.

`tests/golden/bits.json` holds them; tests/kernels/test_bits.py compares, and says what was changed by intention.
"""

import hashlib
import json
import warnings

import numpy as np

import treeinner as ti
from tests.read.test_golden import CASES, GOLDEN, answer, data, is_text, model_of, rows

METHODS = ("predecomp", "saabas", "treeshap")
TARGET = {"binary": "y_binary", "multiclass": "y_class", "poisson": "y_count"}
NUMERIC = sorted(case for case in CASES if not is_text(case))


def digest(*arrays):
    """Digest of numbers and shapes."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(repr((array.shape, array.dtype.str)).encode() + np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:16]


def attempt(work):
    """Digest of the arrays, or the name of our own error."""
    try:
        return digest(*work())
    except ti.TreeInnerError as error:
        return type(error).__name__


def bits_of(case):
    """Name -> digest, or the class of the error."""
    X, X_train = rows(case), rows(case, "X_train")
    model = ti.read_model(GOLDEN / case)
    needs = model.trees.known.needs
    told = ti.read_model(GOLDEN / case, **{name: float(answer(case, name)) for name in needs}) if needs else model
    y = data()[TARGET.get(model_of(case), "y")]
    y = np.column_stack([y] * model.n_outputs) if model_of(case) == "vector" else y

    def attribution(method):
        found = ti.attribute(told, X, method=method)
        return found.values, found.base_values

    def scores(method):
        found = ti.importance(told, X_train, y, score="tree_inner", method=method)
        return found.scores, found.std_errors

    out = {"margin": digest(model.predict(X)), "leaf": digest(model.apply(X))}
    out |= {f"attribution {method}": attempt(lambda m=method: attribution(m)) for method in METHODS}
    if model.loss.core is None:
        return out  # its gradients are numpy's, which has other last bits elsewhere; so are those of TreeSHAP's scores
    by_path = ("centred", "predecomp", "saabas")
    return out | {f"scores {method}": attempt(lambda m=method: scores(m)) for method in by_path}


def main():
    """Print all digests."""
    warnings.simplefilter("ignore")
    print(json.dumps({case: bits_of(case) for case in NUMERIC}, indent=1))


if __name__ == "__main__":
    main()
