"""Does signal rank and find relevant features better than what users would take instead? Writes evidence/rivals.md.

Run `make rivals` (about 25 minutes of one core). Results go to build/rivals.jsonl, a line for each (design, setting,
draw, method), so that a run that was interrupted continues where it stopped; `--minutes 30` stops then, `--write-only`
writes the page from what there is. Every method sees the same draws and, where it explains a model, the same model.
The ChIP problems need their files (TREEINNER_CHIP, or they are fetched); without them they are left out.
"""

import argparse
import functools
import json
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit, softmax
from scipy.stats import rankdata
from scipy.stats import t as student

import treeinner as ti
from rivals_designs import LONG_STEPS, PLACEBO, REAL, designs, draw

RESULTS = Path(__file__).parent.parent / "build" / "rivals.jsonl"
DRAWS = 30
Q = 0.1

SETTINGS = {
    "defaults": {},
    "regularised": {
        "n_estimators": 200, "learning_rate": 0.05, "max_depth": 4, "min_child_weight": 5,
        "subsample": 0.8, "colsample_bytree": 0.8,
    },
    "rate 1": {"learning_rate": 1.0, "max_depth": 3},
}  # fmt: skip
COMPARED = ("defaults", "regularised")


# -- models ------------------------------------------------------------------------------------------------------
def estimator(task, setting, **more):
    import xgboost as xgb

    options = {"n_jobs": 1, "random_state": 0, **SETTINGS.get(setting, {}), **more}
    if task in ("binary", "classes"):
        return xgb.XGBClassifier(**options)
    return xgb.XGBRegressor(**options | ({"objective": "count:poisson"} if task == "poisson" else {}))


@functools.lru_cache(maxsize=1)
def fitted(design, setting, number):
    data = draw(design, number)
    return ti.read_model(estimator(data.task, setting).fit(*data.train))


# -- methods -----------------------------------------------------------------------------------------------------
class Found(NamedTuple):
    """What a method says of the columns: scores, p values and which it keeps (None: it has no such thing)."""

    score: np.ndarray
    p: np.ndarray | None = None
    kept: np.ndarray | None = None


def tested(score, p):
    """Found by p values: above 0 at q .1, by Benjamini and Hochberg."""
    if p is None or np.isnan(p).all():
        return Found(score)
    p = np.where(np.isnan(p), 1.0, p)
    order = np.argsort(p)
    steps = p[order] * len(p) / np.arange(1, len(p) + 1)
    q = np.empty(len(p))
    q[order] = np.minimum.accumulate(steps[::-1])[::-1]
    return Found(score, p, (q <= Q) & (score > 0))


def found(importance):
    return tested(importance.scores, importance.p_values)


def by_rows(terms):
    """Means of the rows' terms (rows, columns), by t with effective rows."""
    n, score = len(terms), terms.mean(axis=0)
    error = terms.std(axis=0, ddof=1) / np.sqrt(n)
    rows = (terms**2).sum(axis=0) ** 2 / np.maximum((terms**4).sum(axis=0), 1e-300)
    z = np.divide(score, error, out=np.zeros_like(score), where=error > 0)
    return tested(score, np.where(error > 0, 2 * student.sf(abs(z), np.clip(rows - 1, 1, n - 1)), 1.0))


def by_score(score, method="centred"):
    def scored(design, setting, number):
        model = fitted(design, setting, number)
        return found(ti.importance(model, *draw(design, number).valid, score=score, method=method, n_jobs=1))

    return scored


def forest_inner(**paper):
    def scored(design, setting, number):
        return found(ti.forest_inner(fitted(design, setting, number), *draw(design, number).valid, n_jobs=1, **paper))

    return scored


def final_form(design, setting, number):
    """The form without rounds: the final contribution times the gradient without it; tested by a plain t."""
    data, model = draw(design, number), fitted(design, setting, number)
    X, y = data.valid
    reference = ti.importance(model, X, y, n_jobs=1)
    phi = ti.attribute(model, X, method="centred", reference=reference, n_jobs=1).values.reshape(*X.shape, -1)
    margin = np.asarray(model.predict(X)).reshape(len(X), 1, -1) - phi
    if data.task == "classes":
        residual = np.eye(phi.shape[2])[y.astype(int)][:, None] - softmax(margin, axis=2)
    else:
        mean = {"binary": expit, "poisson": np.exp}.get(data.task, lambda m: m)
        residual = y[:, None, None] - mean(margin)
    return by_rows((phi * residual).sum(axis=2))


def mean_shap(design, setting, number):
    return found(ti.mean_abs(fitted(design, setting, number), draw(design, number).valid[0], n_jobs=1))


def total_gain(design, setting, number):
    return found(ti.total_gain(fitted(design, setting, number)))


def permutation(design, setting, number):
    model, data = fitted(design, setting, number), draw(design, number)
    return found(ti.permutation_importance(model, *data.valid, random_state=number, n_jobs=1))


def row_losses(data, setting, columns):
    """Loss of every row to score, by a model of some columns."""
    X, y = data.valid
    model = estimator(data.task, setting).fit(data.train[0][:, columns], data.train[1])
    if data.task in ("binary", "classes"):
        return -np.log(model.predict_proba(X[:, columns])[np.arange(len(y)), y.astype(int)])
    mean = model.predict(X[:, columns]).astype(float)
    return mean - y * np.log(mean) if data.task == "poisson" else (y - mean) ** 2 / 2


def lofo(design, setting, number):
    """Leave one feature out: what the loss of the scored rows rises by when the model is fitted without the column."""
    data = draw(design, number)
    every = np.arange(data.X.shape[1])
    whole = row_losses(data, setting, every)
    return by_rows(np.column_stack([row_losses(data, setting, np.delete(every, k)) - whole for k in every]))


def boruta(design, setting, number):
    """Boruta with the same booster, on all rows, since it needs none to score; ranked by its ranking."""
    from boruta import BorutaPy

    data = draw(design, number)
    search = BorutaPy(estimator(data.task, setting), n_estimators=100, max_iter=30, random_state=number)
    search.fit(data.X, data.y)
    return Found(-search.ranking_, kept=search.support_)


def cross_fitted(design, setting, number):
    """Not a rival: signal on all rows, each scored once by a model that has not seen it."""
    data = draw(design, number)
    asked = {"cv": 5, "random_state": number, "n_jobs": 1}
    return found(ti.cross_importance(estimator(data.task, setting), data.X, data.y, **asked))


SIGNAL, CROSS, BORUTA, LOFO = "signal", "signal, cross-fitted", "Boruta", "LOFO"
METHODS: dict[str, Callable] = {
    SIGNAL: by_score("signal"),
    "TreeInner(PreDecomp)": by_score("tree_inner", "predecomp"),
    "TreeInner(centred)": by_score("tree_inner"),
    "ForestInner, the paper's": forest_inner(method="predecomp", against="residual"),
    "forest_inner": forest_inner(),
    "mean |SHAP|": mean_shap,
    "permutation": permutation,
    "total gain": total_gain,
    "final form": final_form,
    CROSS: cross_fitted,
    LOFO: lofo,
    BORUTA: boruta,
}
SLOW = {CROSS: 15, LOFO: 6, BORUTA: 12}  # draws of the methods that fit many times
RIVALS = [name for name in METHODS if name not in (SIGNAL, CROSS, "final form")]
BESIDE = (SIGNAL, "TreeInner(centred)", "forest_inner", "final form", "permutation")  # of the two studies beside


def jobs():
    """(design, setting, draw, method), draw by draw, so that a run cut short has a bit of everything; the slow last."""
    methods = [name for name in METHODS if name != BORUTA or find_spec("boruta")]
    beside = [(name, "rate 1") for name in LONG_STEPS] + [(name, "defaults") for name in REAL]
    out = []
    for number in range(DRAWS):
        for design in designs():
            for setting in COMPARED:
                for method in methods:
                    enough = number >= SLOW.get(method, DRAWS)
                    slow = design.startswith("ChIP") and method in (LOFO, BORUTA)
                    once = method in (CROSS, BORUTA) and setting == "defaults"
                    if not (enough or slow or once):
                        out.append((design, setting, number, method))
        out += [(*cell, number, method) for cell in beside for method in BESIDE]
        out += [(PLACEBO, setting, number, method) for setting in COMPARED for method in METHODS if method not in SLOW]
    return sorted(out, key=lambda job: job[3] in SLOW)


def measure(design, setting, number, method):
    """What one method makes of one draw.

    auc: of relevant against noise columns; top: share of relevant ones among as many at the top; power and fdp: of what
    is kept; size: share of noise columns with p < .05; kept: how many columns.
    """
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            score, p, kept = METHODS[method](design, setting, number)
        except ti.UnsupportedModelError as refused:  # PreDecomp of clipped leaves
            return {"refused": str(refused)}
    out = {"seconds": round(time.process_time() - began, 3)}
    if kept is not None:
        out["kept"] = int(kept.sum())
    relevant = draw(design, number).relevant
    true, noise = relevant == 1, relevant == 0
    if true.any():
        out |= {"auc": auc(score[true], score[noise]), "top": top(score[true], score[noise])}
        if kept is not None:
            out |= {"power": kept[true].mean(), "fdp": kept[noise].sum() / max(kept[true | noise].sum(), 1)}
        if p is not None:
            out["size"] = (p[noise] < 0.05).mean()
    return {name: round(float(value), 5) for name, value in out.items()}


def auc(true, noise):
    """Chance that a relevant column has a higher score than a column of noise, ties counted half."""
    n = len(true)
    ranks = rankdata(np.concatenate([true, noise]))[:n]
    return (ranks.sum() - n * (n + 1) / 2) / (n * len(noise))


def top(true, noise):
    """Share of relevant columns among the best so many; columns of equal score share their places."""
    n, both = len(true), np.concatenate([true, noise])
    cut = np.sort(both)[-n]
    places, level = n - (both > cut).sum(), (both == cut).sum()
    return ((true > cut).sum() + places * (true == cut).sum() / level) / n


# -- running -----------------------------------------------------------------------------------------------------
def load(path):
    """{(design, setting, draw, method): record}; a line that was cut off is left out."""
    out = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        out[tuple(record.pop("key"))] = record
    return out


def run(path, wanted, minutes=np.inf):
    """Add a line for each job that is not done; stops after so many minutes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done, until = load(path), time.monotonic() + 60 * minutes
    with path.open("a") as file:
        file.write("\n")  # after a line that was cut off
        for key in wanted:
            if key not in done and time.monotonic() < until:
                file.write(json.dumps({"key": key, **measure(*key)}) + "\n")
                file.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop after so many minutes; a later run goes on")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="run these only")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write-only", action="store_true", help="write the page from the results there are")
    args = parser.parse_args()
    if not args.write_only:
        run(args.results, [job for job in jobs() if job[3] in args.methods], args.minutes)
    import rivals_page  # it imports this module

    rivals_page.write(load(args.results))


if __name__ == "__main__":
    main()
