"""The numbers that pages of the documentation quote, each measured by one function here.

    python examples/doc_numbers.py l2 rates     # prints these tables
    python examples/doc_numbers.py --write      # all of them, written into their pages (about ten minutes on one core)

A page marks the place of a table with <!-- numbers NAME --> and <!-- end -->. Seeds are fixed; XGBoost 3.2 and
LightGBM 4.7 made the numbers on the pages.
"""

import argparse
import re
import warnings
from pathlib import Path

import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import treeinner as ti

DOCS = Path(__file__).parents[1] / "docs"


def table(head, rows):
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def mean_error(values, digits):
    """Mean ± standard error over replications."""
    values = np.asarray(values, float)
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


def percent(values):
    return f"{100 * np.mean(values):.1f} %"


def boost(X, y, rounds=60, **params):
    params = {"eta": 0.1, "max_depth": 4, "nthread": 1, **params}
    model = xgb.train(params, xgb.DMatrix(X, y, nthread=1), rounds)
    return ti.read_model(model, learning_rate=params["eta"])  # one tree does not tell it


def score(model, X, y, **how):
    return ti.importance(model, X, y, n_jobs=1, **how)


def above(imp, level=0.05):
    """Features with a score above 0 and a two-sided p value below the level: half of the level is expected of noise."""
    return (imp.scores > 0) & (imp.p_values < level)


def signal(imp):
    """Features with the verdict "signal": q at most 0.1, score above 0."""
    return np.array(imp.verdicts) == "signal"


# -- problems --------------------------------------------------------------------------------------------------------
def friedman(rng, n, noise=1.0, columns=25):
    """Friedman's function of the first five columns; the others are noise."""
    X = rng.random((n, columns))
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, signal + noise * rng.normal(size=n)


def linear(rng, n, columns=14, relevant=4):
    """Equal linear effects of the first columns, noise of the same variance as the signal."""
    X = rng.normal(size=(n, columns))
    return X, X[:, :relevant].sum(axis=1) + np.sqrt(relevant) * rng.normal(size=n)


def binary_beside_random(seed):
    """Blood pressure of 442 patients from nine binary features and one column of random numbers, in two halves."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    y = X.pop("bp")
    X = X.gt(X.median()).astype(int)
    X["random"] = np.random.default_rng(seed).random(len(X))
    return train_test_split(X, y, test_size=0.5, random_state=seed)


def rare_levels(rng, n, one_in):
    """Binary columns, 1 in one row of so many; four of twelve matter."""
    X = (rng.random((n, 12)) < 1 / one_in).astype(float)
    return X, 2 * X[:, :4].sum(axis=1) + rng.normal(size=n)


# -- tables ----------------------------------------------------------------------------------------------------------
def l2():
    """theory.md: what l2 does to the common level of a node."""
    rows = []
    for lam in (0, 10, 100):
        sums = {"predecomp": [], "saabas": [], "centred": []}
        for seed in range(200):
            rng = np.random.default_rng(seed)
            X, y = rng.normal(size=(2000, 10)), 1 + rng.normal(size=2000)
            model = boost(X[:1000], y[:1000], 1, eta=1.0, reg_lambda=lam, base_score=0.0)
            for method, values in sums.items():
                asked = {"score": "tree_inner", "method": method, "std_errors": False}
                values.append(score(model, X[1000:], y[1000:], **asked).scores.sum())
        rows.append([lam, *(mean_error(values, 4) for values in sums.values())])
    return table(["l2", "PreDecomp", "Saabas", "centred"], rows)


def breakdown():
    """guide/which-score.md: signal's sum, and what the loss really did."""
    rows = []
    for noise, eta in ((1, 0.1), (1, 0.3), (1, 1.0), (5, 0.1), (5, 1.0)):
        parts = []
        for seed in range(20):
            X, y = friedman(np.random.default_rng(seed), 2000, noise)
            model = boost(X[:1000], y[:1000], 100, eta=eta)
            found, paid = (
                score(model, X[1000:], y[1000:], score=name, std_errors=False) for name in ("signal", "loss")
            )
            fall = paid.losses.before - paid.losses.after
            signals, noises = paid.scores[:5].sum(), paid.scores[5:].sum()
            parts.append([fall, found.scores[:5].sum(), found.scores[5:].sum(), signals, noises, paid.base])
        worse = sum(fall < 0 for fall, *_ in parts)
        rows.append([noise, eta, *(f"{part:.2f}" for part in np.mean(parts, axis=0)), f"{worse} of 20"])
    head = ["noise sd", "learning rate", "fall of the loss", "signal: 5 signals", "signal: 20 noise columns"]
    return table([*head, "breakdown: 5 signals", "breakdown: 20 noise columns", "breakdown: base", "loss rose"], rows)


def rates():
    """guide/intervals.md: p values of noise features as the learning rate grows."""
    kinds = {
        "signal": score,
        "TreeInner": lambda *data: score(*data, score="tree_inner"),
        "`forest_inner`": lambda *data: ti.forest_inner(*data, n_jobs=1),
        "loss breakdown": lambda *data: score(*data, score="loss"),
    }
    rows = []
    for eta in (0.1, 0.3, 0.5, 1.0, 1.3):
        seen = {kind: [] for kind in kinds}
        for seed in range(24):
            X, y = linear(np.random.default_rng(seed), 3000)
            model = boost(X[:1500], y[:1500], 80, eta=eta, max_depth=3)
            for kind, measure in kinds.items():
                imp = measure(model, X[1500:], y[1500:])
                seen[kind].append([above(imp)[4:].mean(), signal(imp)[:4].mean()])
        rows.append([eta, *(" / ".join(map(percent, np.array(shares).T)) for shares in seen.values())])
    return table(["learning rate", *kinds], rows)


def methods():
    """guide/intervals.md: what p values of TreeInner cost by other methods."""
    kinds = {method: [] for method in ("centred", "predecomp", "saabas", "treeshap")}
    for seed in range(60):
        X, y = friedman(np.random.default_rng(seed), 2000, columns=30)
        model = boost(X[:1000], y[:1000])
        for method, values in kinds.items():
            imp = score(model, X[1000:], y[1000:], score="tree_inner", method=method)
            chosen = signal(imp)
            values.append([above(imp)[5:].mean(), chosen[5:].sum() / max(chosen.sum(), 1), chosen[:5].mean()])
    rows = []
    for method, values in kinds.items():
        size, fdr, power = np.mean(values, axis=0)
        rows.append([f"`{method}`", percent(size), f"{fdr:.2f}", f"{power:.2f}"])
    return table(["method", "noise above 0, p < 0.05", "false signals", "signals found"], rows)


def proxies():
    """guide/intervals.md: how often a column is found that is only correlated with a signal."""
    rows = []
    for correlation in (0.0, 0.5, 0.9):
        found = []
        for seed in range(100):
            rng = np.random.default_rng(seed)
            X, y = linear(rng, 2000)
            X[:, 4] = correlation * X[:, 0] + np.sqrt(1 - correlation**2) * X[:, 4]
            model = boost(X[:1000], y[:1000])
            found.append(signal(score(model, X[1000:], y[1000:]))[4])
        rows.append([correlation, percent(found)])
    return table(["correlation with a signal", "called signal"], rows)


def rare():
    """guide/intervals.md: coverage where a level is nearly absent."""
    shares, rows = (30, 50, 100), []
    for n in (100, 300, 1000):
        covered = []
        for one_in in shares:
            inside = []
            for seed in range(10):
                rng = np.random.default_rng(seed)
                model = boost(*rare_levels(rng, 1000, one_in))
                truth = score(model, *rare_levels(rng, 200_000, one_in), std_errors=False).scores[:4]
                for _ in range(40):
                    imp = score(model, *rare_levels(rng, n, one_in))
                    low, high = (end[:4] for end in imp.interval())
                    inside.append(((low <= truth) & (truth <= high)).mean())
            covered.append(percent(inside))
        rows.append([n, *covered])
    return table(["held-out rows", *(f"level in 1 of {one_in} rows" for one_in in shares)], rows)


def unclean():
    """guide/held-out.md: a target of pure noise, on rows that are clean and on rows that are not."""
    kinds = (
        "clean rows", "the training rows", "rows used for early stopping", "clean rows, after early stopping on others",
        "clean rows, each five times, with `clusters=`", "the same without `clusters=`",
    )  # fmt: skip
    seen = {kind: [] for kind in kinds}

    def count(kind, imp):
        used = imp.std_errors > 0
        seen[kinds[kind]].append([above(imp, level)[used].mean() for level in (0.05, 0.01)])

    settings = {"num_leaves": 8, "bagging_fraction": 0.5, "bagging_freq": 1, "feature_fraction": 0.5, "verbose": -1}
    for seed in range(50):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(1400, 40)), rng.normal(size=1400)
        fit, stop, fresh = (lgb.Dataset(X[:1000], y[:1000]), slice(1000, 1200), slice(1200, 1400))
        stopped = lgb.train(
            {**settings, "num_threads": 1, "seed": seed}, fit, 100,
            valid_sets=[fit.create_valid(X[stop], y[stop])], callbacks=[lgb.early_stopping(100, verbose=False)],
        )  # fmt: skip
        full = lgb.train({**settings, "num_threads": 1, "seed": seed}, lgb.Dataset(X[:1000], y[:1000]), 40)
        five = np.repeat(np.arange(1200, 1400), 5)
        count(0, score(full, X[fresh], y[fresh]))
        count(1, score(full, X[:1000], y[:1000]))
        if stopped.best_iteration > 1:
            count(2, score(stopped, X[stop], y[stop]))
            count(3, score(stopped, X[fresh], y[fresh]))
        count(4, score(full, X[five], y[five], clusters=five))
        count(5, score(full, X[five], y[five]))
    rows = [[kind, *map(percent, np.array(shares).T)] for kind, shares in seen.items()]
    return table(["scored on", "noise above 0, p < 0.05", "noise above 0, p < 0.01"], rows)


def folds():
    """guide/held-out.md: cross-validated scores."""
    false, found = [], []
    settings = {"n_estimators": 40, "num_leaves": 8, "learning_rate": 0.1, "n_jobs": 1, "verbose": -1}
    for seed in range(100):
        X, y = friedman(np.random.default_rng(seed), 600)
        imp = ti.cross_importance(lgb.LGBMRegressor(**settings), X, y, random_state=seed, n_jobs=1)
        false.append(above(imp)[5:].mean())
        found.append(signal(imp)[:5].mean())
    rows = [[mean_error(100 * np.array(false), 1) + " %", percent(found)]]
    return table(["noise above 0, p < 0.05", "signals found"], rows)


def copies():
    """guide/correlated.md: a signal in two columns."""
    alone, one, two, both, shuffled = [], [], [], [], []
    settings = {"n_estimators": 100, "max_depth": 3, "learning_rate": 0.1, "subsample": 0.5, "colsample_bytree": 0.5}
    pair = {"both": ["bmi", "bmi_again"]}
    for seed in range(20):
        X, y = load_diabetes(return_X_y=True, as_frame=True)
        rng = np.random.default_rng(seed)
        X["bmi_again"] = X["bmi"] + rng.normal(0, 0.1 * X["bmi"].std(), len(X))
        X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.4, random_state=seed)
        model = xgb.XGBRegressor(**settings, n_jobs=1).fit(X_train, y_train)
        single = xgb.XGBRegressor(**settings, n_jobs=1).fit(X_train.drop(columns="bmi_again"), y_train)
        alone.append(score(single, X_valid.drop(columns="bmi_again"), y_valid)["bmi"].score)
        imp = score(model, X_valid, y_valid)
        one.append(imp["bmi"].score)
        two.append(imp["bmi_again"].score)
        both.append(score(model, X_valid, y_valid, feature_groups=pair)["both"].score)
        rise = [
            ti.permutation_importance(model, X_valid, y_valid, random_state=0, n_jobs=1, feature_groups=groups)
            for groups in (None, pair)
        ]
        shuffled.append([rise[0]["bmi"].score, rise[0]["bmi_again"].score, rise[1]["both"].score])
    permuted = [f"{value:.0f}" for value in np.mean(shuffled, axis=0)]
    rows = [
        ["signal", *(f"{np.mean(values):.0f}" for values in (alone, one, two, both))],
        ["permutation", "", *permuted],
    ]
    return table(["score", "`bmi` without its copy", "`bmi`", "`bmi_again`", "both as a group"], rows)


def scores():
    """guide/which-score.md: a random column beside nine binary ones, by score and method."""
    settings = {"learning_rate": 0.1, "subsample": 0.8, "colsample_bytree": 0.3, "n_jobs": 1}
    kinds = {
        "`total_gain`": lambda model, X, y: ti.total_gain(model),
        "`mean_abs`, `treeshap`": lambda model, X, y: ti.mean_abs(model, X, n_jobs=1),
        '`mean_abs`, `predecomp`, `over="trees"`': lambda model, X, y: ti.mean_abs(
            model, X, method="predecomp", over="trees", n_jobs=1
        ),
        "`permutation_importance`": lambda model, X, y: ti.permutation_importance(
            model, X, y, random_state=0, n_jobs=1
        ),
        '`forest_inner`, `predecomp`, `against="label"`': lambda model, X, y: ti.forest_inner(
            model, X, y, method="predecomp", against="label", n_jobs=1
        ),
        '`forest_inner`, `predecomp`, `against="residual"`': lambda model, X, y: ti.forest_inner(
            model, X, y, method="predecomp", against="residual", n_jobs=1
        ),
        "`forest_inner`": lambda model, X, y: ti.forest_inner(model, X, y, n_jobs=1),
        "`loss`": lambda model, X, y: score(model, X, y, score="loss"),
        **{
            f"`tree_inner`, `{method}`": lambda model, X, y, method=method: score(
                model, X, y, score="tree_inner", method=method
            )
            for method in ("centred", "predecomp", "saabas", "treeshap")
        },
        "`signal`": score,
    }
    found = {kind: [] for kind in kinds}
    for seed in range(100):
        X_train, X_valid, y_train, y_valid = binary_beside_random(seed)
        model = ti.read_model(xgb.XGBRegressor(random_state=seed, **settings).fit(X_train, y_train))
        for kind, measure in kinds.items():
            one = measure(model, X_valid, y_valid)["random"]
            found[kind].append([one.rank, one.score < 0, one.verdict == "signal"])
    rows = []
    for kind, values in found.items():
        rank, below, called = np.array(values, float).T
        tested = kind != "`total_gain`" and not kind.startswith("`mean_abs`")
        counts = [int(below.sum()), int(called.sum())] if tested else ["", ""]
        rows.append([kind, f"{rank.mean():.1f}", *counts])
    return table(["score and method", "mean rank", "below 0", "called signal"], rows)


def typical():
    """guide/which-score.md: ranks of the patient's number, the README's example over many splits."""
    settings = {"max_depth": 4, "learning_rate": 0.2, "subsample": 0.5, "colsample_bytree": 0.5, "n_jobs": 1}
    kinds = {
        "total gain": lambda model, X, y: ti.total_gain(model),
        "mean \\|SHAP\\|": lambda model, X, y: ti.mean_abs(model, X, n_jobs=1),
        "permutation": lambda model, X, y: ti.permutation_importance(model, X, y, random_state=0, n_jobs=1),
        "signal": score,
    }
    found = {kind: [] for kind in kinds}
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    for seed in range(200):
        split = train_test_split(X.assign(patient=X.index), y, test_size=0.5, random_state=seed)
        X_train, X_valid, y_train, y_valid = split
        model = ti.read_model(xgb.XGBRegressor(**settings).fit(X_train, y_train))
        for kind, measure in kinds.items():
            one = measure(model, X_valid, y_valid)["patient"]
            found[kind].append([one.rank, one.rank <= 5, one.rank >= 10, one.verdict == "signal"])
    rows = []
    for kind, values in found.items():
        rank, top, bottom, called = np.array(values, float).T
        tested = kind in ("permutation", "signal")
        rows.append([kind, f"{rank.mean():.1f}", percent(top), percent(bottom), percent(called) if tested else ""])
    return table(["score", "mean rank of 11", "among the first five", "last or last but one", "called signal"], rows)


TABLES = {
    "l2": ("theory.md", l2),
    "breakdown": ("guide/which-score.md", breakdown),
    "rates": ("guide/intervals.md", rates),
    "methods": ("guide/intervals.md", methods),
    "proxies": ("guide/intervals.md", proxies),
    "rare": ("guide/intervals.md", rare),
    "unclean": ("guide/held-out.md", unclean),
    "folds": ("guide/held-out.md", folds),
    "copies": ("guide/correlated.md", copies),
    "typical": ("guide/which-score.md", typical),
    "scores": ("guide/which-score.md", scores),
}


def write(name, page, text):
    path = DOCS / page
    place = re.compile(rf"(<!-- numbers {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    old = path.read_text(encoding="utf-8")
    assert place.search(old), f"{page} has no place for the table {name!r}"
    path.write_text(place.sub(lambda found: f"{found[1]}{text}\n{found[2]}", old), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *TABLES], metavar="NAME", help=", ".join(TABLES))
    parser.add_argument("--write", action="store_true", help="write the tables into their pages")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ti.TreeInnerWarning)  # training rows are scored on purpose
    for name in asked.names or TABLES:
        page, measure = TABLES[name]
        text = measure()
        print(f"{page}: {measure.__doc__.split(': ', 1)[1]}\n\n{text}\n", flush=True)
        if asked.write:
            write(name, page, text)


if __name__ == "__main__":
    main()
