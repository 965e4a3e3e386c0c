"""What selection costs beside the fits that it needs: CPU time on 2000 rows x 50 columns, one thread.

Run `python benchmarks/selection/cost.py`. The fits are those of the default estimator, three times five folds; they are
timed inside the very run that they are part of. Each is the median of several runs, in turns.
"""

import time

import numpy as np
import xgboost as xgb

import treeinner as ti

ROWS, COLUMNS, TIMES = 2000, 50, 7
BOUNDS = {"marginal": 1.4, "conditional": 3.5}


def data():
    """Ten blocks of five correlated columns; signals in four of them."""
    rng = np.random.default_rng(0)
    blocks = np.repeat(rng.normal(size=(ROWS, COLUMNS // 5)), 5, axis=1)
    X = 0.8**0.5 * blocks + 0.2**0.5 * rng.normal(size=(ROWS, COLUMNS))
    return X, X[:, 0] + 0.5 * X[:, 5] + X[:, 10] * X[:, 15] + rng.normal(size=ROWS)


def ratio(test, X, y):
    """CPU time of a selection over that of the fits in it."""
    fit, spent = xgb.XGBModel.fit, 0.0

    def timed(self, *args, **kwargs):
        nonlocal spent
        start = time.process_time()
        try:
            return fit(self, *args, **kwargs)
        finally:
            spent += time.process_time() - start

    xgb.XGBModel.fit = timed
    try:
        start = time.process_time()
        ti.TreeInnerSelector(test=test, random_state=0, n_jobs=1).fit(X, y)
        return (time.process_time() - start) / spent
    finally:
        xgb.XGBModel.fit = fit


def main():
    """Print the ratios beside their bounds."""
    X, y = data()
    for test in BOUNDS:
        ratio(test, X, y)  # imports
    found = {test: [] for test in BOUNDS}
    for _ in range(TIMES):
        for test, ratios in found.items():
            ratios.append(ratio(test, X, y))
    for test, ratios in found.items():
        low, middle, high = np.quantile(ratios, [0, 0.5, 1])
        print(f"{test}: {middle:.2f} x the fits ({low:.2f} to {high:.2f}), {BOUNDS[test]} wanted")


if __name__ == "__main__":
    main()
