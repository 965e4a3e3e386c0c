"""Which feature made the loss rise? Kinds of change, four libraries, two tasks. Writes evidence/change.md.

Run `make change-promise` (about 20 minutes of one core). Results go to build/change.jsonl, a line for each (rows, task,
library, model, kind, draw), so that a run that was interrupted continues where it stopped; `--minutes 10` stops then,
`--write-only` writes the page from what there is. All methods see the same rows and the same model.
"""

import argparse
import functools
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import ks_2samp

import treeinner as ti

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "build" / "change.jsonl", ROOT / "docs" / "evidence" / "change.md"
TASKS = ("regression", "classification")
LIBRARIES = ("XGBoost", "LightGBM", "CatBoost", "scikit-learn")
# Kind of change -> whether one column is the culprit.
KINDS = {
    "nothing": False, "unit": True, "shift": True, "torn": True, "missing": True, "concept": True, "new category": True,
    "harmless shift": False, "label noise": False,
}  # fmt: skip
BY = {"compare": "centred", "compare, TreeSHAP": "treeshap"}  # `method` of compare
METHODS = (*BY, "mean |SHAP|", "permutation", "KS", "PSI")
ROWS, FEWER, TRAINING, LARGE = 2000, 1000, 1000, 40_000  # of each set; in a smaller study; of a model; in truth
MODELS, DRAWS = 5, 10
COLUMNS = [*(f"x{j}" for j in range(5)), "shop", *(f"noise{j}" for j in range(6))]
VERDICTS, WRONG = ("worse", "better"), ("innocent", "praised")
SHOP, HARMLESS = 5, 7  # column with categories; column of noise that shifts
LEVELS, EFFECTS = list("abcde"), np.array([-0.6, 0.0, 0.3, 0.9, 1.5])  # the last shop opens later


# -- rows ----------------------------------------------------------------------------------------------------------
def signal(X, shop):
    return X[:, 0] + X[:, 1] * X[:, 2] + np.sin(2 * X[:, 3]) + 0.5 * X[:, 4] + EFFECTS[shop]


def rows(task, kind, hit, n, rng):
    """(frame, target): columns with correlation 1/4, six of them of use; then what the kind of change does to them."""
    X = 0.5 * rng.normal(size=(n, 1)) + np.sqrt(0.75) * rng.normal(size=(n, 12))
    opened = kind == "new category"
    shop = np.where(opened & (rng.random(n) < 0.4), 4, rng.integers(0, 4, n))
    truth = X.copy()
    if kind == "concept":
        truth[:, hit] *= -1
    f, noise = signal(truth, shop), rng.normal(size=n)
    if kind == "label noise":
        noise = 1.5 * noise + rng.normal(size=n)
    y = f + noise if task == "regression" else (rng.random(n) < expit(1.5 * f)).astype(int)
    if kind == "label noise" and task == "classification":
        y = np.where(rng.random(n) < 0.2, 1 - y, y)
    if kind == "unit":
        X[:, hit] *= 3
    if kind == "shift":
        X[:, hit] += 1.5
    if kind == "torn":
        X[:, hit] = rng.permutation(X[:, hit])
    if kind == "missing":
        X[rng.random(n) < 0.5, hit] = np.nan
    if kind == "harmless shift":
        X[:, HARMLESS] += 2
    frame = pd.DataFrame(X, columns=COLUMNS)
    frame["shop"] = pd.Categorical.from_codes(shop, LEVELS)
    return frame, y


@functools.cache
def fitted(task, library, number):
    """A small model of each library at its usual settings: 60 rounds, rate .1, about 15 leaves."""
    X, y = rows(task, "nothing", 0, TRAINING, np.random.default_rng([TASKS.index(task), number]))
    kind = "Regressor" if task == "regression" else "Classifier"
    common = {"n_estimators": 60, "learning_rate": 0.1}
    if library == "XGBoost":
        import xgboost

        make = getattr(xgboost, f"XGB{kind}")
        model = make(**common, max_depth=4, n_jobs=1, enable_categorical=True)
    elif library == "LightGBM":
        import lightgbm

        model = getattr(lightgbm, f"LGBM{kind}")(**common, num_leaves=15, n_jobs=1, verbose=-1)
    elif library == "CatBoost":
        import catboost

        model = getattr(catboost, f"CatBoost{kind}")(
            iterations=60, learning_rate=0.1, depth=4, one_hot_max_size=10, cat_features=["shop"], thread_count=1,
            verbose=0, allow_writing_files=False,
        )  # fmt: skip
    else:
        import sklearn.ensemble

        make = getattr(sklearn.ensemble, f"HistGradientBoosting{kind}")
        model = make(max_iter=60, learning_rate=0.1, max_leaf_nodes=15, early_stopping=False)
    return model.fit(X, y)


# -- what each method says -------------------------------------------------------------------------------------------
@functools.cache
def truth(task, library, number, kind):
    """The change in two large samples, and its standard error, as each method of compare has it."""
    if kind == "nothing":
        return dict.fromkeys(BY, np.zeros((2, len(COLUMNS))))
    seeds = [[TASKS.index(task), number, 10**6 + side] for side in range(2)]
    sides = zip(("nothing", kind), seeds, strict=True)
    sides = [rows(task, change, number, LARGE, np.random.default_rng(seed)) for change, seed in sides]
    model = ti.read_model(fitted(task, library, number))
    found = {name: ti.compare(model, *sides, method=method, n_jobs=1).change for name, method in BY.items()}
    return {name: (change.score, change.std_error) for name, change in found.items()}


def shap(model, X):
    """Mean |SHAP| of the columns; of CatBoost with categories by its own function."""
    if "catboost" in type(model).__module__:
        import catboost

        values = model.get_feature_importance(catboost.Pool(X, cat_features=["shop"]), "ShapValues", thread_count=1)
        return np.abs(values[:, :-1]).mean(axis=0)
    return ti.mean_abs(model, X, n_jobs=1).scores


def permutation(model, X, y):
    """Rise of the loss when a column is shuffled, two shuffles; of CatBoost with categories by scikit-learn's."""
    if "catboost" in type(model).__module__:
        from sklearn.inspection import permutation_importance

        metric = "neg_mean_squared_error" if "Regressor" in type(model).__name__ else "neg_log_loss"
        return permutation_importance(model, X, y, n_repeats=2, random_state=0, scoring=metric).importances_mean
    return ti.permutation_importance(model, X, y, n_repeats=2, random_state=0, n_jobs=1).scores


def drift(a, b):
    """KS statistic (labels: total variation) and population stability index by tenths, gaps as a value of their own."""
    ks, psi = np.zeros((2, len(COLUMNS)))
    for j, name in enumerate(COLUMNS):
        x, z = (frame[name].cat.codes if name == "shop" else frame[name].fillna(-99) for frame in (a, b))
        cuts = np.unique(x if name == "shop" else np.quantile(x, np.arange(0.1, 1, 0.1)))
        cuts = np.r_[-50, cuts]
        p, q = (np.bincount(np.searchsorted(cuts, v), minlength=len(cuts) + 1) / len(v) for v in (x, z))
        ks[j] = np.abs(p - q).sum() / 2 if name == "shop" else ks_2samp(x, z).statistic
        p, q = p.clip(1e-4), q.clip(1e-4)
        psi[j] = ((q - p) * np.log(q / p)).sum()
    return ks, psi


def judged(found, true, error):
    """What a comparison calls, how much of it wrongly, and which intervals cover the true change."""
    change = found.change
    low, high = (np.abs(end - change.score) for end in found.interval())
    half = np.maximum(low, high) * np.sqrt(1 + (error / np.where(change.std_error > 0, change.std_error, 1)) ** 2)
    used = change.std_error > 0
    worse, better = (np.array(found.verdicts) == verdict for verdict in VERDICTS)
    return {
        "truth": int(np.argmax(true)),
        "worse": np.flatnonzero(worse).tolist(),
        "better": np.flatnonzero(better).tolist(),
        "innocent": np.flatnonzero(worse & (true <= 2 * error)).tolist(),  # pays no less in truth
        "praised": np.flatnonzero(better & (true >= -2 * error)).tolist(),  # pays no more
        "covered": int((np.abs(change.score - true) <= half)[used].sum()),
        "used": int(used.sum()),
    }


def measure(n, task, library, number, kind, draw):
    """One pair of sets of rows: what is called, whether intervals cover, which column comes first by each method."""
    model, hit = fitted(task, library, number), SHOP if kind == "new category" else number
    rng = np.random.default_rng([TASKS.index(task), number, list(KINDS).index(kind), 1 + draw])  # 0: of the training
    before, after = (rows(task, change, number, n, rng) for change in ("nothing", kind))
    found, seconds = {}, []
    for name, method in BY.items():
        began = time.process_time()
        found[name] = ti.compare(model, before, after, method=method, n_jobs=1)
        seconds.append(time.process_time() - began)
    began = time.process_time()
    for side in (before, after) if draw == 0 else ():
        for score in ("loss", "signal"):
            ti.importance(model, *side, score=score, n_jobs=1)
    seconds.append(time.process_time() - began if draw == 0 else None)
    by = {name: comparison.change.score for name, comparison in found.items()}
    by["mean |SHAP|"] = np.abs(shap(model, after[0]) - shap(model, before[0]))
    by["permutation"] = permutation(model, *before) - permutation(model, *after)
    by["KS"], by["PSI"] = drift(before[0], after[0])
    true = truth(task, library, number, kind)
    return {
        "first": {name: int(np.argmax(score)) for name, score in by.items()},
        "hit": hit,
        "called": {name: judged(comparison, *true[name]) for name, comparison in found.items()},
        "seconds": seconds,
    }


# -- running -----------------------------------------------------------------------------------------------------------
def jobs():
    """Keys of all draws: two of every model and kind, then two more; fewer rows come last."""
    return [
        (n, task, library, number, kind, draw)
        for n in (ROWS, FEWER) for first in range(0, DRAWS, 2) for number in range(MODELS)
        for task in TASKS for library in LIBRARIES for kind in KINDS for draw in (first, first + 1)
        if n == ROWS or KINDS[kind]
    ]  # fmt: skip


def load(path):
    """{key: record}; a line that was cut off is left out."""
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
    with path.open("a") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file.write("\n")  # after a line that was cut off
        for key in wanted:
            if key not in done and time.monotonic() < until:
                began = time.process_time()
                record = measure(*key)
                file.write(json.dumps({"key": key, **record, "cpu": round(time.process_time() - began, 3)}) + "\n")
                file.flush()


# -- the page ----------------------------------------------------------------------------------------------------------
def table(head, lines):
    texts = [[str(cell).replace("|", r"\|") for cell in row] for row in (head, ["---"] * len(head), *lines)]
    return "\n".join("| " + " | ".join(row) + " |" for row in texts)


def rate(hits, digits=2):
    """.92, of zeros and ones; "" of none."""
    return f"{np.mean(hits):.{digits}f}".removeprefix("0") if len(hits) else ""


def picked(results, **wanted):
    """The results of some keys."""
    place = {name: i for i, name in enumerate(("n", "task", "library", "number", "kind"))}
    return {key: r for key, r in results.items() if all(key[place[name]] == value for name, value in wanted.items())}


def of(results, **wanted):
    """Records of some keys."""
    return list(picked(results, **wanted).values())


def first(records, name):
    """Zeros and ones: whether the culprit comes first by a method."""
    return [r["first"][name] == r["hit"] for r in records]


def false_discoveries(results, name, *, both=False):
    """Mean over runs of the share of innocent columns among those called worse, 0 where nothing is called; its error.

    both: those called better too. Runs with the same model depend on each other: the error is that of the mean of
    independent models.
    """
    by_model = {}
    for (_, *model, _, _), r in results.items():
        called = r["called"][name]
        false, found = (sum(len(called[one]) for one in some[: 1 + both]) for some in (WRONG, VERDICTS))
        by_model.setdefault(tuple(model), []).append(false / max(found, 1))
    runs = np.concatenate(list(by_model.values()))
    deviations = [np.sum(shares - runs.mean()) for shares in by_model.values()]
    n = len(deviations)
    return runs.mean(), np.sqrt(n / (n - 1) * np.square(deviations).sum()) / len(runs) if n > 1 else np.nan


def calls_anything(records, name):
    """Zeros and ones: whether a run calls any column."""
    return [any(r["called"][name][verdict] for verdict in VERDICTS) for r in records]


def coverage(records, name):
    """Share of the intervals that cover."""
    return sum(r["called"][name]["covered"] for r in records) / max(sum(r["called"][name]["used"] for r in records), 1)


def targets_table(results):
    """What was promised and what was found, by method of compare, with 2,000 rows."""
    cells = {(kind, task): picked(results, n=ROWS, kind=kind, task=task) for kind in KINDS for task in TASKS}
    changed = [some for (kind, _), some in cells.items() if some and kind != "nothing"]
    lines = []
    for kind, limit in (("torn", ".9"), ("concept", ".75")):
        for tasks in (TASKS, *([task] for task in TASKS)):
            records = [r for task in tasks for r in cells[kind, task].values()]
            which = f"{kind}: culprit first, {' and '.join(tasks)}"
            lines.append([which, f"at least {limit}", *(rate(first(records, name), 3) for name in BY)])
    for both in (False, True):
        rates = np.array([[false_discoveries(each, name, both=both)[0] for each in changed] for name in BY])
        texts = [f"{rate(found, 3)}; highest {rate(found.max(keepdims=True), 3)}" for found in rates]
        which = "called worse or better" if both else "called worse"
        lines.append([f"false discovery rate, {which}: mean of kinds and tasks", "each at most .1", *texts])
    for task in TASKS:
        texts = [rate(calls_anything(cells["nothing", task].values(), name), 3) for name in BY]
        lines.append([f"no change: runs that call anything, {task}", "at most .1", *texts])
    covers = np.array([[coverage(some.values(), name) for some in cells.values() if some] for name in BY])
    texts = [f"{rate([found.min()], 3)} to {rate([found.max()], 3)}" for found in covers]
    lines.append(["coverage of 95 % intervals: lowest and highest kind and task", ".92 to .98", *texts])
    return table(["promise", "limit", *BY], lines)


def first_table(results, n=ROWS):
    """How often the culprit comes first, by method; of the harmless shift how often its column does.

    The kinds that have a limit have a line for both tasks, too.
    """
    lines = []
    for kind in (*(kind for kind, guilty in KINDS.items() if guilty), *(["harmless shift"] if n == ROWS else [])):
        for task in (*TASKS, *(["both"] if kind in ("torn", "concept") else [])):
            records = of(results, n=n, kind=kind, **({} if task == "both" else {"task": task}))
            blamed = [{**r, "hit": r["hit"] if KINDS[kind] else HARMLESS} for r in records]
            hits = [first(blamed, name) for name in METHODS]
            lines.append([kind, task, *map(rate, hits)])
    return table(["what happened", "task", *METHODS], lines)


def culprit_table(results):
    """The same of compare for the kinds with a limit, by the column that is the culprit: centred / TreeSHAP."""
    lines = []
    for kind in ("torn", "concept"):
        for task in TASKS:
            cells = [of(results, n=ROWS, kind=kind, task=task, number=number) for number in range(MODELS)]
            lines.append([kind, task, *(" / ".join(rate(first(cell, name)) for name in BY) for cell in cells)])
    parts = ("alone", "product", "product", "sine", "weak")
    return table(["what happened", "task", *(f"{COLUMNS[j]} ({part})" for j, part in enumerate(parts))], lines)


def library_table(results):
    """The same of compare by library: centred / TreeSHAP."""
    lines = []
    for kind in (kind for kind, guilty in KINDS.items() if guilty):
        for task in TASKS:
            cells = [of(results, n=ROWS, kind=kind, task=task, library=library) for library in LIBRARIES]
            lines.append([kind, task, *(" / ".join(rate(first(cell, name)) for name in BY) for cell in cells)])
    return table(["what happened", "task", *LIBRARIES], lines)


def called_table(results, name):
    """What is called at q .1 by a method of compare, and whether intervals cover."""
    lines = []
    for kind, guilty in KINDS.items():
        for task in TASKS:
            records = of(results, n=ROWS, kind=kind, task=task)
            if not records:
                continue
            own = [r["called"][name] for r in records]
            called, false = (sum(len(each[what]) for each in own) for what in ("worse", "innocent"))
            noise = sum(sum(j > SHOP for j in each["worse"]) for each in own)
            fdr, error = false_discoveries(picked(results, n=ROWS, kind=kind, task=task), name)
            lines.append([
                kind, task, rate([r["first"][name] == r["called"][name]["truth"] for r in records]) if guilty else "",
                rate([r["hit"] in r["called"][name]["worse"] for r in records]) if guilty else "",
                f"{called / len(records):.2f}", f"{fdr:.3f} ± {error:.3f}", f"{false / max(called, 1):.3f}",
                f"{noise / max(called, 1):.3f}", rate(calls_anything(records, name)), f"{coverage(records, name):.3f}",
            ])  # fmt: skip
    head = [
        "what happened", "task", "first is first in truth", "culprit called worse", "called worse per run",
        "false discovery rate", "pooled: pay no less in truth", "pooled: noise columns",
        "runs that call anything", "coverage of 95 % intervals",
    ]  # fmt: skip
    return table(head, lines)


def cost_table(results):
    """Processor time of compare over that of scoring both sets by loss and signal."""
    lines = []
    for library in LIBRARIES:
        times = np.array([r["seconds"] for r in of(results, n=ROWS, library=library) if r["seconds"][-1]])
        if len(times):
            ratios = np.median([times[:, 0] / times[:, 2], times[:, 1] / times[:, 0]], axis=1)
            milliseconds = (f"{1e3 * t:.0f} ms" for t in np.median(times, axis=0))
            lines.append([library, *milliseconds, *(f"{ratio:.2f}" for ratio in ratios)])
    scoring = "importance of both sets, loss and signal"
    return table(["library", *BY, scoring, "compare / importance", "TreeSHAP / compare"], lines)


def write(results, page=PAGE):
    """Put the tables between their marks on the page."""
    from importlib.metadata import version

    packages = ("treeinner", "xgboost", "lightgbm", "catboost", "scikit-learn", "numpy")
    minutes = sum(r["cpu"] for r in results.values()) / 60
    made = (
        f"`make change-promise` made the tables ({len(results)} of {len(jobs())} draws; {minutes:.0f} minutes of "
        f"processor time, one thread; {', '.join(f'{name} {version(name)}' for name in packages)})."
    )
    parts = {
        "made": made, "targets": targets_table(results), "first": first_table(results),
        "fewer": first_table(results, FEWER), "culprits": culprit_table(results), "libraries": library_table(results),
        "cost": cost_table(results),
        "called": called_table(results, "compare"), "treeshap": called_table(results, "compare, TreeSHAP"),
    }  # fmt: skip
    text = page.read_text()
    for name, part in parts.items():
        start, end = f"<!-- {name} -->\n", f"\n<!-- end {name} -->"
        text = text[: text.index(start) + len(start)] + part + text[text.index(end) :]
    page.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=np.inf, help="stop after so many minutes; a later run goes on")
    for name, known in (("--tasks", TASKS), ("--libraries", LIBRARIES)):
        parser.add_argument(name, nargs="+", choices=known, default=known, help="run these only")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--write-only", action="store_true", help="write the page from the results there are")
    args = parser.parse_args()
    if not args.write_only:
        run(args.results, [job for job in jobs() if job[1] in args.tasks and job[2] in args.libraries], args.minutes)
    write(load(args.results))


if __name__ == "__main__":
    main()
