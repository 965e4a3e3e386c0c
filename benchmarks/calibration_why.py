"""Why some rates of docs/evidence/calibration.md are outside their limits: the numbers under "Why" on that page.

Run `python benchmarks/calibration_why.py`, 20 minutes on one core. The designs are those of designs.py.
"""

import argparse
from dataclasses import replace

import numpy as np

import designs
import treeinner as ti
from designs import KINDS, SIGNALS, SIZES, STUDIES, TARGETS, Cell

MANY, AT = 100_000, 5000  # rows that stand for the truth; rows at which it is told in standard errors
CORRELATED = KINDS["correlated .8"]
GAUSSIAN, BINARY, RARE, CLASSES = (TARGETS[k] for k in (0, 3, 4, 5))


def stumps(loss, seed):
    return designs.xgboost(loss, seed, max_depth=1)


def true_t(cell, draws, key, *, n=MANY, exact=False, alone=False, score=ti.importance):
    """(column, true score in standard errors at 5000 rows) of the noise columns that the models use.

    exact: gradients where the own effect is put back, not their second-order form. alone: of the columns that are
    correlated, one; the others are 0.
    """
    out = []
    for draw in range(draws):
        rng = cell.rng(draw, key)
        (X, y), (A, b) = cell.sample(rng, cell.n_train), (None, None)
        if alone:
            X[:, CORRELATED[1:]] = 0
        model = ti.read_model(cell.make(cell.target.loss, draw).fit(X, y))
        if exact:
            model = replace(model, find_loss=(replace(model.loss, core=None, curvature=None), ""))
        A, b = cell.sample(rng, n)
        if alone:
            A[:, CORRELATED[1:]] = 0
        imp, used = designs.quiet(score, model, A, b), designs.used(model)
        t = np.divide(imp.scores, imp.std_errors, out=np.zeros(len(used)), where=imp.std_errors > 0)
        out += [(k, t[k] * np.sqrt(AT / n)) for k in range(SIGNALS, len(used)) if used[k]]
    return np.array(out)


def tell(name, found):
    """Print how far from 0 the true scores of noise are."""
    correlated = np.isin(found[:, 0], CORRELATED)
    for which, mask in (("all", correlated | True), ("correlated", correlated), ("others", ~correlated)):
        t = found[mask, 1]
        print(f"{name:45} {which:10} t {t.mean():+.2f} (sd {t.std():.2f}), below 0: {np.mean(t < 0):.0%}", flush=True)


def coverage(cell, draws):
    """Print how often intervals of holds contain the truth, where they are printed and everywhere."""
    found = []
    for draw in draws:
        rng = cell.rng(draw)
        model = cell.fit(rng, draw)
        many = designs.score(model, *cell.sample(rng, designs.N_TRUTH))
        used = designs.used(model) > 0
        for n in SIZES:
            for _ in range(cell.samples):
                imp = designs.score(model, *cell.sample(rng, n))
                low, high = imp.holds_interval()
                inside, shown = (low <= many.holds) & (many.holds <= high), imp.holds_std_errors < 0.5
                known = used & np.isfinite(imp.holds_std_errors)
                found += [(n, k >= SIGNALS, shown[k], inside[k]) for k in np.flatnonzero(known)]
    found = np.array(found)
    for noise in (0, 1):
        for n in SIZES[1:]:
            of = found[(found[:, 0] == n) & (found[:, 1] == noise)]
            shown = of[of[:, 2] > 0, 3]
            text = f"{shown.mean():.3f} of {len(shown)}" if len(shown) else "-"
            name = f"{cell.target.name}, {cell.model}, {'noise' if noise else 'signals'}, {n} rows"
            print(f"{name:60} printed: {text}; all: {of[:, 3].mean():.3f} of {len(of)}", flush=True)


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    for target in (BINARY, CLASSES, GAUSSIAN):
        for name, make in (("XGBoost", designs.xgboost), ("additive", designs.additive), ("depth 1", stumps)):
            tell(f"{target.name}, {name}", true_t(Cell(target, name, make), 20, 77))
    few = Cell(BINARY, "XGBoost", designs.xgboost, n_train=designs.FEW)
    tell("binary, 50 %, XGBoost, 300 training rows", true_t(few, 10, 77, n=60_000))
    for exact in (False, True):
        found = true_t(Cell(BINARY, "XGBoost", designs.xgboost), 6, 77, n=20_000, exact=exact)
        tell(f"binary, 50 %, XGBoost{', exact gradients' * exact}", found)
    for target in (GAUSSIAN, RARE):
        cell = Cell(target, "eta 1.0", designs.setting(1.0, 3))
        tell(f"{target.name}, eta 1, depth 3", true_t(cell, 10, 78))
        tell(f"{target.name}, eta 1, depth 3, one of the correlated", true_t(cell, 10, 78, alone=True))
        tell(f"{target.name}, eta 1, depth 3, forest_inner", true_t(cell, 10, 78, score=ti.forest_inner))
    for study, target, models in (
        ("libraries", "lognormal", ("XGBoost",)),
        ("libraries", "binary, 5 %", ("LightGBM",)),
        ("forests", "binary, 5 %", ("RandomForest", "ExtraTrees")),
    ):
        every = {"libraries": 5, "forests": 3}[study]  # draws that measure coverage in calibration.py
        for cell in STUDIES[study]:
            if cell.target.name == target and cell.model in models:
                coverage(cell, range(0, 20 * every, every))


if __name__ == "__main__":
    main()
