"""Are the p values of features that carry no signal uniform, or on the safe side?

Run `python benchmarks/calibration.py` (about 10 minutes on one core); `--write` puts the tables into
docs/calibration.md. Every replication draws data, trains a model on 1000 rows, and takes one-sided p values on rows
that the model has not seen. A noise feature is one that is independent of the target and of every other feature. Shares
are among the noise features that the model splits on (the others have p = 1), and their standard errors are taken over
replications, because the features of one model are not independent of each other.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import treeinner as ti
from treeinner.inference import benjamini_hochberg, t_tail
from treeinner.scores.exact import ExactSums

PAGE = Path(__file__).parent.parent / "docs" / "calibration.md"
N_TRAIN = 1000
ROUNDS = 40


# -- problems ------------------------------------------------------------------------------------------------
@dataclass
class Sample:
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None
    clusters: np.ndarray | None = None

    def rows(self, start, stop):
        cut = lambda a: None if a is None else a[start:stop]  # noqa: E731
        return Sample(self.X[start:stop], self.y[start:stop], cut(self.weight), cut(self.clusters))


Draw = Callable[[np.random.Generator, int], tuple[Sample, np.ndarray]]  # -> rows, which features are noise


def _simulated(rng, n):
    """Return the paper's Simulated features, its signal in [0, 1], and which features are noise."""
    levels = np.arange(1, 51)
    X = rng.integers(0, levels + 1, size=(n, 50)).astype(float)
    relevant = rng.choice(10, 5, replace=False)
    noise = np.ones(50, bool)
    noise[relevant] = False
    return X, (X / levels)[:, relevant].mean(axis=1), noise


def simulated_regression(rng, n):
    X, signal, noise = _simulated(rng, n)
    return Sample(X, signal + rng.normal(scale=100 * signal.var(), size=n)), noise


def simulated_classification(rng, n):
    X, signal, noise = _simulated(rng, n)
    return Sample(X, (rng.random(n) < 1 / (1 + np.exp(-2 * signal))).astype(float)), noise


def friedman(rng, n):
    X = rng.random((n, 40))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return Sample(X, y + rng.normal(size=n)), np.arange(40) >= 5


def pure_noise(rng, n):
    return Sample(rng.random((n, 40)), rng.normal(size=n)), np.ones(40, bool)


def heavy_tails(rng, n):
    return Sample(rng.random((n, 40)), rng.standard_t(2, size=n)), np.ones(40, bool)


def interaction(rng, n):
    X = rng.random((n, 30))
    y = 3 * np.sign((X[:, 0] - 0.5) * (X[:, 1] - 0.5)) + rng.normal(size=n)
    return Sample(X, y), np.arange(30) >= 2


def graded(rng, n):
    """Five relevant features, from weak to weaker: together 10 % of the variance."""
    X = rng.random((n, 40))
    return Sample(X, X[:, :5] @ [0.8, 0.6, 0.4, 0.3, 0.2] + rng.normal(size=n)), np.arange(40) >= 5


def weighted(rng, n):
    X = rng.random((n, 40))
    weight = np.exp(rng.normal(size=n))
    y = 2 * X[:, 0] + rng.normal(size=n) / np.sqrt(weight)
    return Sample(X, y, weight=weight), np.arange(40) >= 1


def repeated(rng, n, size=5):
    """Every row five times: n / 5 independent rows."""
    X, y = rng.random((n // size, 40)), rng.normal(size=n // size)
    return _in_clusters(X, y, size), np.ones(40, bool)


def subjects(rng, n, size=5):
    """Measure five rows per subject: features of the subject, its own level, and noise per row."""
    X, level = rng.random((n // size, 40)), rng.normal(size=n // size)
    sample = _in_clusters(X, level, size)
    return replace(sample, y=sample.y + rng.normal(size=n)), np.ones(40, bool)


def _in_clusters(X, y, size):
    label = np.repeat(np.arange(len(y)), size)
    return Sample(X[label], y[label], clusters=label)


# -- models --------------------------------------------------------------------------------------------------
def train_xgboost(train, *, sampled, rounds=ROUNDS, seed=0, valid=None):
    import xgboost as xgb

    params = {"eta": 0.1, "max_depth": 4, "max_bin": 64, "nthread": 1, "seed": seed}
    if sampled:
        params |= {"subsample": 0.5, "colsample_bynode": 0.5}
    params["objective"] = "binary:logistic" if _binary(train) else "reg:squarederror"
    data = xgb.QuantileDMatrix(train.X, train.y, weight=train.weight, max_bin=64, nthread=1)
    if valid is None:
        return ti.read_model(xgb.train(params, data, rounds)).ensemble
    watch = xgb.QuantileDMatrix(valid.X, valid.y, ref=data, max_bin=64, nthread=1)
    model = xgb.train(params, data, rounds, evals=[(watch, "valid")], early_stopping_rounds=rounds, verbose_eval=False)
    return ti.read_model(model[: model.best_iteration + 1]).ensemble


def train_lightgbm(train, *, sampled, rounds=ROUNDS, seed=0, valid=None):
    import lightgbm as lgb

    params = {"learning_rate": 0.1, "num_leaves": 12, "max_depth": 4, "max_bin": 63, "lambda_l2": 1.0}
    params |= {"num_threads": 1, "verbose": -1, "seed": seed, "force_col_wise": True}
    if sampled:
        params |= {"bagging_fraction": 0.5, "bagging_freq": 1, "feature_fraction_bynode": 0.5}
    params["objective"] = "binary" if _binary(train) else "regression"
    data = lgb.Dataset(train.X, train.y, weight=train.weight)
    if valid is None:
        return ti.read_model(lgb.train(params, data, rounds)).ensemble
    watch = lgb.Dataset(valid.X, valid.y, reference=data)
    stop = [lgb.early_stopping(rounds, verbose=False)]
    return ti.read_model(lgb.train(params, data, rounds, valid_sets=[watch], callbacks=stop)).ensemble


TRAINERS = {"XGBoost": train_xgboost, "LightGBM": train_lightgbm}


def _binary(sample):
    return set(np.unique(sample.y)) == {0.0, 1.0}


# -- one replication -----------------------------------------------------------------------------------------
@dataclass
class Tally:
    """Counts of one way of asking, replication by replication."""

    below_05: list = field(default_factory=list)
    below_01: list = field(default_factory=list)
    tests: list = field(default_factory=list)
    false_share: list = field(default_factory=list)  # of the discoveries at q <= 0.1

    def add(self, p, q, noise, used):
        asked = noise & used
        self.below_05.append(int((p[asked] < 0.05).sum()))
        self.below_01.append(int((p[asked] < 0.01).sum()))
        self.tests.append(int(asked.sum()))
        found = q <= 0.1
        self.false_share.append((found & noise).sum() / max(found.sum(), 1))

    def share(self, counts):
        """Share over all replications and its standard error (ratio estimator)."""
        counts, tests = np.array(counts, float), np.array(self.tests, float)
        share = counts.sum() / max(tests.sum(), 1)
        spread = ((counts - share * tests) ** 2).sum()
        return share, np.sqrt(spread * len(tests) / max(len(tests) - 1, 1)) / max(tests.sum(), 1)

    def fdr(self):
        return np.mean(self.false_share), np.std(self.false_share, ddof=1) / np.sqrt(len(self.false_share))

    def cells(self):
        shares = [self.share(self.below_05), self.share(self.below_01), self.fdr()]
        return [str(int(np.sum(self.tests)))] + [f"{a:.4f} ± {b:.4f}" for a, b in shares]


def used_features(model):
    return np.isin(np.arange(model.n_features), model.feature)


def ask(tally, model, valid, noise, *, clusters=True, weight=True):
    imp = ti.importance(
        model,
        valid.X,
        valid.y,
        sample_weight=valid.weight if weight else None,
        clusters=valid.clusters if clusters else None,
        n_jobs=1,
    )
    tally.add(imp.p_values, imp.q_values, noise, used_features(model))
    return imp


def seeds(name, replications):
    return np.random.SeedSequence([sum(name.encode()), len(name)]).spawn(replications)


# -- the studies ---------------------------------------------------------------------------------------------
HEAD = ["tests", "p < 0.05", "p < 0.01", "FDR at q <= 0.1"]
PROBLEMS: dict[str, Draw] = {
    "Simulated regression": simulated_regression,
    "Simulated classification": simulated_classification,
    "Friedman + 35 noise": friedman,
    "pure-noise target": pure_noise,
    "heavy tails (t, 2 df)": heavy_tails,
    "strong interaction": interaction,
}


def held_out(replications, problems=PROBLEMS, libraries=("XGBoost", "LightGBM"), sizes=(200, 1000)):
    """Noise features on clean held-out rows."""
    lines = []
    for name, draw in problems.items():
        for library in libraries:
            for sampled in (False, True):
                tallies = {size: Tally() for size in sizes}
                for seed in seeds(name, replications):
                    rng = np.random.default_rng(seed)
                    data, noise = draw(rng, N_TRAIN + max(sizes))
                    model = TRAINERS[library](data.rows(0, N_TRAIN), sampled=sampled)
                    for size, tally in tallies.items():
                        ask(tally, model, data.rows(N_TRAIN, N_TRAIN + size), noise)
                how = "rows 0.5, columns 0.5" if sampled else "all"
                lines += [[name, library, how, str(size), *tally.cells()] for size, tally in tallies.items()]
    return ["problem", "library", "sampling", "held-out rows", *HEAD], lines


def dependent_rows(replications):
    """Rows that are not independent, and weighted rows: scored rightly and wrongly."""
    lines = []
    for name, draw in {"rows repeated 5 times": repeated, "5 rows per subject": subjects}.items():
        right, wrong = Tally(), Tally()
        for seed in seeds(name, replications):
            data, noise = draw(np.random.default_rng(seed), 2 * N_TRAIN)
            model = train_lightgbm(data.rows(0, N_TRAIN), sampled=False)
            valid = data.rows(N_TRAIN, 2 * N_TRAIN)
            ask(right, model, valid, noise)
            ask(wrong, model, valid, noise, clusters=False)
        lines += [[name, "clusters=", *right.cells()], [name, "rows taken as independent", *wrong.cells()]]
    name, right, wrong = "weights exp(N(0, 1))", Tally(), Tally()
    for seed in seeds(name, replications):
        data, noise = weighted(np.random.default_rng(seed), 2 * N_TRAIN)
        model = train_lightgbm(data.rows(0, N_TRAIN), sampled=False)
        ask(right, model, data.rows(N_TRAIN, 2 * N_TRAIN), noise)
        ask(wrong, model, data.rows(N_TRAIN, 2 * N_TRAIN), noise, weight=False)
    lines += [[name, "sample_weight=", *right.cells()], [name, "weights left out", *wrong.cells()]]
    return ["problem", "scored with", *HEAD], lines


def unclean_rows(replications):
    """Rows that helped to choose the model."""
    clean, stopped, tuned, trained = Tally(), Tally(), Tally(), Tally()
    for seed in seeds("early stopping", replications):
        rng = np.random.default_rng(seed)
        data, noise = pure_noise(rng, 3 * N_TRAIN)
        train, valid = data.rows(0, N_TRAIN), data.rows(N_TRAIN, N_TRAIN + 200)
        fresh = data.rows(2 * N_TRAIN, 2 * N_TRAIN + 200)
        model = train_lightgbm(train, sampled=True, rounds=100, valid=valid)
        ask(clean, model, fresh, noise)
        ask(stopped, model, valid, noise)
        ask(trained, model, train, noise)
        models = [train_lightgbm(train, sampled=True, rounds=10, seed=s) for s in range(10)]
        best = min(models, key=lambda m: np.mean((valid.y - m.predict(valid.X, n_jobs=1)) ** 2))
        ask(tuned, best, valid, noise)
    lines = [
        ["early stopping on 200 rows", "200 fresh rows", *clean.cells()],
        ["early stopping on 200 rows", "the same 200 rows", *stopped.cells()],
        ["best of 10 seeds on 200 rows", "the same 200 rows", *tuned.cells()],
        ["early stopping on 200 rows", "the training rows", *trained.cells()],
    ]
    return ["model chosen by", "scored on", *HEAD], lines


def why(replications, sizes=(250, 1000, 4000), n_valid=1000, n_fresh=20_000):
    """Where the signal is strong: where false alarms of a plain test come from, and what removes them.

    as it is: what `importance` says, the sum of centred row scores over the standard error of the row scores, with
    effective rows. The others start from row scores. plain: z is the score over its standard error, Student's t has
    n - 1 degrees of freedom. around its true mean: z is taken around the mean row score of 20,000 fresh rows (their
    error added to the standard error), so that only the standard error and Student's t are at trial. effective rows:
    t with (sum s^2)^2 / sum s^4 - 1 degrees of freedom, s the row scores. centred: inner nodes hold the mean of their
    leaves over the held-out rows, in score and standard error.
    """
    lines = []
    for library, train in TRAINERS.items():
        for n_train in sizes:
            tallies, helpful = {}, Tally()
            for seed in seeds("why", replications):
                data, noise = friedman(np.random.default_rng(seed), n_train + n_valid + n_fresh)
                model = train(data.rows(0, n_train), sampled=False)
                used, valid = used_features(model), data.rows(n_train, n_train + n_valid)
                fresh = data.rows(n_train + n_valid, len(data.y))
                truth = ti.importance(model, fresh.X, fresh.y, n_jobs=1)
                means = replace(model, cover=node_counts(model, valid.X))
                plain, centred = row_scores(model, valid), row_scores(means, valid, method="saabas")
                p_values = {
                    "as it is": ti.importance(model, valid.X, valid.y, n_jobs=1).p_values,
                    "plain": p_value(plain),
                    "around its true mean": p_value(plain, truth.scores, truth.std_errors),
                    "effective rows": p_value(plain, effective=True),
                    "centred": p_value(centred),
                    "centred, effective rows": p_value(centred, effective=True),
                }
                for way, p in p_values.items():
                    tallies.setdefault(way, Tally()).add(p, benjamini_hochberg(p), noise, used)
                above = truth.scores > 2 * truth.std_errors  # of the score itself, not centred
                helpful.add(np.where(above, 0.0, 1.0), np.ones(len(used)), noise, used)
            above, error = helpful.share(helpful.below_05)
            for way, tally in tallies.items():
                cells = tally.cells()
                if way == "around its true mean":
                    cells[-1] = ""  # every feature is tested against its own mean: there is nothing to discover
                lines.append([library, str(n_train), f"{above:.3f} ± {error:.3f}", way, *cells])
    return ["library", "training rows", "noise features truly above 0", "p value", *HEAD], lines


def row_scores(model, valid, **how):
    """Score of every row: (rows, features). Every row is a cluster of its own, and clusters are kept."""
    accumulator = ti.ImportanceAccumulator(model, clustered=True, n_jobs=1, **how)
    accumulator.update(valid.X, valid.y, clusters=np.arange(len(valid.y)))
    state = accumulator._state
    return np.array([ExactSums(limbs, state.shares.exponent).totals() for limbs in state.clusters.values()])


def p_value(rows, mean=0.0, error=0.0, *, effective=False):
    """One-sided p values from row scores; `mean`, `error` per row: H0 is another mean than 0, known with an error."""
    n = len(rows)
    std_error = np.sqrt(n * rows.var(axis=0, ddof=1) + (n * error) ** 2)
    z = np.divide(rows.sum(axis=0) - n * mean, std_error, out=np.zeros(rows.shape[1]), where=std_error > 0)
    df = np.full(rows.shape[1], n - 1.0)
    if effective:
        fourth = (rows**4).sum(axis=0)
        kish = np.divide((rows**2).sum(axis=0) ** 2, fourth, out=np.ones(len(df)), where=fourth > 0)
        df = np.clip(kish - 1.0, 1.0, n - 1.0)
    return np.where(std_error > 0, t_tail(z, df), 1.0)


def node_counts(model, X):
    """How many rows of X reach each node: (n_nodes,)."""
    counts = np.zeros(model.n_nodes)
    leaves = model.apply(X, n_jobs=1)
    for tree in range(model.n_trees):
        nodes = np.arange(model.tree_start[tree], model.tree_start[tree + 1])
        at_leaf = nodes[model.feature[nodes] < 0]
        arrived = np.bincount(leaves[:, tree], minlength=int(model.leaf_id[at_leaf].max()) + 1)
        counts[at_leaf] = arrived[model.leaf_id[at_leaf]]
    for node, left, right in model.upwards:
        counts[node] = counts[left] + counts[right]
    return counts


def false_finds(replications):
    """How large the scores of noise features found at q <= 0.1 are, where the signal is strong."""
    lines = []
    for library, train in TRAINERS.items():
        size, false = [], {0.1: [], 0.05: [], 0.01: []}
        for seed in seeds("false finds", replications):  # a name that stays: the seeds follow from it
            data, noise = friedman(np.random.default_rng(seed), 2 * N_TRAIN)
            valid = data.rows(N_TRAIN, 2 * N_TRAIN)
            imp = ti.importance(train(data.rows(0, N_TRAIN), sampled=False), valid.X, valid.y, n_jobs=1)
            size += list(imp.scores[noise & (imp.q_values <= 0.1)] / imp.scores[~noise].min())
            for level, shares in false.items():
                found = imp.q_values <= level
                shares.append((found & noise).sum() / max(found.sum(), 1))
        fdr = [f"{np.mean(v):.4f} ± {np.std(v, ddof=1) / np.sqrt(len(v)):.4f}" for v in false.values()]
        lines.append([library, str(len(size)), f"{np.median(size):.4f}", f"{max(size):.4f}", *fdr])
    levels = ["FDR at q <= 0.1", "at q <= 0.05", "at q <= 0.01"]
    return ["library", "false discoveries", "median size", "largest size", *levels], lines


def power(replications, sizes=(200, 1000)):
    """What centring and effective rows cost: relevant features found at q <= 0.1, beside the plain test."""
    lines = []
    problems = {name: PROBLEMS[name] for name in ("Simulated classification", "Friedman + 35 noise")}
    for name, draw in {"weak signals": graded, **problems}.items():
        for library, train in TRAINERS.items():
            found = {(size, way): [] for size in sizes for way in ("as it is", "plain")}
            for seed in seeds(f"power {name}", replications):
                data, noise = draw(np.random.default_rng(seed), N_TRAIN + max(sizes))
                model = train(data.rows(0, N_TRAIN), sampled=False)
                for size in sizes:
                    valid = data.rows(N_TRAIN, N_TRAIN + size)
                    q_values = ti.importance(model, valid.X, valid.y, n_jobs=1).q_values
                    found[size, "as it is"].append((q_values <= 0.1)[~noise].mean())
                    q_values = benjamini_hochberg(p_value(row_scores(model, valid)))
                    found[size, "plain"].append((q_values <= 0.1)[~noise].mean())
            for (size, way), shares in found.items():
                cell = f"{np.mean(shares):.3f} ± {np.std(shares, ddof=1) / np.sqrt(len(shares)):.3f}"
                lines.append([name, library, str(size), way, cell])
    return ["problem", "library", "held-out rows", "p value", "relevant features with q <= 0.1"], lines


STUDIES = {
    "held_out": held_out,
    "why": why,
    "power": power,
    "false_finds": false_finds,
    "dependent_rows": dependent_rows,
    "unclean_rows": unclean_rows,
}


# -- printing ------------------------------------------------------------------------------------------------
def markdown(head, lines):
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def put_into_page(name, table):
    """Replace what stands between the marks of a study in docs/calibration.md."""
    start, stop = f"<!-- {name} -->", f"<!-- end {name} -->"
    before, _, rest = PAGE.read_text().partition(start)
    PAGE.write_text(f"{before}{start}\n{table}\n{stop}{rest.partition(stop)[2]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--only", choices=STUDIES)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/calibration.md")
    args = parser.parse_args()
    for name in [args.only] if args.only else STUDIES:
        began = time.process_time()
        replications = args.replications // 2 if name == "why" else args.replications  # two large models in each
        table = markdown(*STUDIES[name](replications))
        table += f"\n\n{replications} replications, {time.process_time() - began:.0f} s of processor time."
        print(f"\n{name}\n\n{table}", flush=True)
        if args.write:
            put_into_page(name, table)


if __name__ == "__main__":
    main()
