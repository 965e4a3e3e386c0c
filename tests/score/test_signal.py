"""The signal score and `holds` are their definitions, by the libraries' own trees, for every library and loss."""

import itertools
import pickle
from dataclasses import dataclass, field, replace
from functools import partial

import catboost
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from scipy.special import expit, softmax
from sklearn import ensemble

import treeinner as ti
from tests.cases import same_bits
from tests.forests import make_model
from tests.losses.cases import make
from tests.models import Models
from tests.oracle import path, tree_values
from tests.score import signal_oracle as oracle
from tests.score.test_definition import KINDS, kernel_case
from treeinner import _core

N, ROUNDS, P = 120, 10, 6
QUERY, MARGIN, CLUSTERS = np.arange(N) // 12, np.linspace(-1, 1, N), np.arange(N) // 4
WEIGHTED = {"sample_weight": np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.5], N)}


def rows(kind, seed):
    """Rows and their target: gaps in column 2, categories in columns 3 and 4, nothing but ones in column 5."""
    X, y = make(kind, N, seed)
    X = np.column_stack([X, X[:, 0] - X[:, 1], np.ones(N)]).astype(np.float32).astype(float)
    X[:, 3:5] = np.minimum(np.floor(np.abs(2 * X[:, 3:5])), 4)
    X[np.random.default_rng(seed).random(N) < 0.2, 2] = np.nan
    return X, y


# -- losses by hand: gradient in the margin, and its derivative, of (y, margin), (n, K) or (n, K, K); None: kinks ------
def logistic(scale=1.0, positive=1.0):
    """Log loss of two classes; scale of the margin, weight of the positives."""
    weight = lambda y: np.where(y == 1, positive, 1.0)  # noqa: E731
    return (
        lambda y, m: weight(y) * scale * (expit(scale * m) - y),
        lambda y, m: weight(y) * scale**2 * expit(scale * m) * expit(-scale * m),
    )


def each_class(loss):
    """Loss of the indicator of each of three classes."""
    return tuple(lambda y, m, f=f: f(np.eye(3)[y[:, 0].astype(int)], m) for f in loss)


def softmax_matrix(y, m):
    """Second derivatives of the log loss of several classes: (n, K, K)."""
    p = softmax(m, axis=1)
    return p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :])


def quantile(*levels):
    """Pinball loss."""
    return lambda y, m: np.where(m > y, 1.0 - np.array(levels), -np.array(levels)), None


def cox_sum(y, m, power):
    """Breslow's hazards over risk sets; of a tie XGBoost lets a row feel its own event and those before it."""
    time, before = np.abs(y[:, 0]), np.triu(np.ones((len(y), len(y)), bool))
    at_risk = time[None] >= time[:, None]  # (event's row, row)
    felt = at_risk & ((time[None] > time[:, None]) | before) & (y > 0)
    return np.exp(power * m) * (1 / (at_risk @ np.exp(m)) ** power * felt).sum(axis=0)[:, None]


def over_queries(term):
    """Sum over the other rows j of a row's query of term(y_i - y_j, m_i - m_j)."""
    return lambda y, m: ((QUERY[:, None] == QUERY) * term(y - y.T, m - m.T)).sum(axis=1, keepdims=True)


SQUARED = lambda y, m: m - y, lambda y, m: np.ones_like(m)
ABSOLUTE = lambda y, m: np.sign(m - y), None
CLASSES = each_class((lambda y, m: softmax(m, axis=1) - y, softmax_matrix))
POISSON = lambda y, m: np.exp(m) - y, lambda y, m: np.exp(m)
GAMMA = lambda y, m: 1 - y * np.exp(-m), lambda y, m: y * np.exp(-m)
TWEEDIE = lambda y, m: np.exp(m / 2) - y * np.exp(-m / 2), lambda y, m: (np.exp(m / 2) + y * np.exp(-m / 2)) / 2
HUBER = lambda y, m: np.clip(m - y, -0.75, 0.75), lambda y, m: (np.abs(m - y) <= 0.75) * 1.0
LOG_COSH = lambda y, m: np.tanh(m - y), None  # a user's own, of which only the gradient is known
SQUARED_LOG = (
    lambda y, m: (np.log1p(m) - np.log1p(y)) / (1 + m),
    lambda y, m: (1 - np.log1p(m) + np.log1p(y)) / (1 + m) ** 2,
)
COX = lambda y, m: cox_sum(y, m, 1) - (y > 0), lambda y, m: cox_sum(y, m, 1) - cox_sum(y, m, 2)
# A row's own margin alone moves in the derivative.
PAIRS = (
    over_queries(lambda y, m: np.sign(y) * (expit(np.sign(y) * m) - 1)),
    over_queries(lambda y, m: (y != 0) * expit(m) * expit(-m)),
)
QUERY_RMSE = over_queries(lambda y, m: (m - y) / 12), over_queries(lambda y, m: (1 - np.eye(N)) / 12)
LEVELS = [0.25, 0.5, 0.875]  # the parameters of losses are float32 in XGBoost: these are exact


# -- models ----------------------------------------------------------------------------------------------------------
@dataclass
class Case:
    """A model, rows that it has not seen, and what the oracle needs."""

    model: object
    X: np.ndarray
    y: np.ndarray
    trees: list
    start: np.ndarray  # (n, K) margin before the first round
    loss: tuple
    given: dict = field(default_factory=dict)
    forest: bool = False
    near: float = 1e-9  # of what the rows add to a score; where the gradient is known to fewer digits: more

    def importance(self, **options):
        """What is tested."""
        return ti.importance(self.model, self.X, self.y, **{"n_jobs": 1, **self.given, **options})

    def gradient(self, margin):
        """Of the loss: (n, K)."""
        return self.loss[0](self.y.reshape(len(self.y), -1), margin)

    def answer(self, **options):
        """What it should be."""
        curvature = self.loss[1] and partial(self.loss[1], self.y.reshape(len(self.y), -1))
        given = {"weight": self.given.get("sample_weight"), "clusters": self.given.get("clusters"), **options}
        p = self.X.shape[1]
        return oracle.answer(self.trees, self.start, self.gradient, curvature, p, forest=self.forest, **given)

    @property
    def margin(self):
        """Of the whole model: (n, K)."""
        return self.start + sum(tree.step for tree in self.trees)

    def part(self, which):
        """Some of the rows."""
        X = self.X.iloc[which] if hasattr(self.X, "iloc") else self.X[which]
        trees = [replace(tree, leaf=tree.leaf[which], step=tree.step[which]) for tree in self.trees]
        given = {name: values[which] for name, values in self.given.items()}
        return replace(self, X=X, y=self.y[which], trees=trees, start=self.start[which], given=given)


def of_xgboost(objective, kind, loss, start=0.0, *, K=1, given=None, told=None, near=1e-9, **params):
    """A booster of XGBoost with a column of categories; its base_score is given, so that the start is exact."""
    (A, a), (X, y), given = rows(kind, 0), rows(kind, 1), given or {}
    types = {"feature_types": ["q", "q", "q", "c", "q", "q"], "enable_categorical": True}
    params = {"max_depth": 3, "eta": 0.4, "nthread": 1, "base_score": start, "objective": objective, **params}
    booster = xgb.train(params, xgb.DMatrix(A, a, **types, qid=given.get("qid")), ROUNDS)
    model = ti.read_model(booster, objective=told)
    at = given.get("base_margin")
    begin = np.full((N, K), start) if at is None else at[:, None]
    case = Case(model, X, y, oracle.xgboost_trees(booster, xgb.DMatrix(X, **types)), begin, loss, given, near=near)
    margin = booster.predict(xgb.DMatrix(X, **types, base_margin=at), output_margin=True).reshape(N, -1)
    np.testing.assert_allclose(case.margin, margin, rtol=0, atol=1e-5)  # XGBoost adds up in float32
    return case


def of_lightgbm(objective, kind, loss, *, K=1, average=False, given=None, **params):
    """A booster of LightGBM with a column of categories; average: it starts at the mean of its target."""
    (A, a), (X, y), given = rows(kind, 0), rows(kind, 1), given or {}
    params |= {"objective": objective, "boost_from_average": average, "num_class": K, "num_leaves": 6, "verbose": -1}
    params |= {"min_data_in_leaf": 3, "cat_smooth": 1, "min_data_per_group": 3, "num_threads": 1}
    booster = lgb.train(params, lgb.Dataset(A, a, categorical_feature=[3]), ROUNDS)
    begin, forest = np.full(K, a.astype(np.float32).mean(dtype=float) * average), "boosting" in params
    trees = oracle.lightgbm_trees(booster, X, begin * (not forest))
    if forest:  # the mean of the rounds, each of which holds the start
        trees = [replace(tree, step=(tree.step - begin) / ROUNDS, round=0) for tree in trees]
    case = Case(booster, X, y, trees, np.tile(begin, (N, 1)), loss, given, forest)
    np.testing.assert_allclose(case.margin, booster.predict(X, raw_score=not forest).reshape(N, -1), rtol=0, atol=1e-12)
    return replace(case, start=case.start + np.reshape(given.get("base_margin", np.zeros(N)), (N, -1)))


def of_catboost(loss_function, kind, loss, *, given=None, categories=(), **params):
    """A model of CatBoost with symmetric trees."""
    (A, a), (X, y), given = rows(kind, 0), rows(kind, 1), given or {}
    A, X = (pd.DataFrame(each).astype(dict.fromkeys(categories, int)) for each in (A, X))
    if categories := list(categories):
        a = a + 5 * A[3] + 9 * ((5 * A[3] + A[4]) % 3)  # both of them together
    params |= {
        "loss_function": loss_function,
        "iterations": ROUNDS,
        "learning_rate": 0.3,
        "thread_count": 1,
        "depth": 4,
    }
    model = catboost.CatBoost({**params, "verbose": False, "allow_writing_files": False})
    model.fit(catboost.Pool(A, a, cat_features=categories, group_id=given.get("qid")))
    pool = catboost.Pool(X, cat_features=categories)
    margin = model.predict(pool, prediction_type="RawFormulaVal").reshape(N, -1)
    start = np.zeros_like(margin) + model.get_scale_and_bias()[1]
    case = Case(model, X, y, oracle.catboost_trees(model, pool), start, loss, given)
    np.testing.assert_allclose(case.margin, margin, rtol=0, atol=1e-12)
    return case


def of_histograms(model, kind, loss, given=None):
    """HistGradientBoosting with a column of categories, which it puts first."""
    (A, a), (X, y) = rows(kind, 0), rows(kind, 1)
    model.set_params(categorical_features=[3], max_iter=ROUNDS, max_leaf_nodes=6, min_samples_leaf=3).fit(A, a)
    start, trees = np.tile(model._baseline_prediction, (N, 1)), oracle.histogram_trees(model, X, [3, 0, 1, 2, 4, 5])
    case = Case(model, X, y, trees, start, loss, given or {})
    np.testing.assert_allclose(case.margin, model._raw_predict(X), rtol=0, atol=1e-12)
    return case


def of_sklearn(model, kind, loss, given=None):
    """GradientBoosting and forests of scikit-learn, without gaps."""
    (A, a), (X, y) = rows(kind, 0), rows(kind, 1)
    A, X = np.nan_to_num(A), np.nan_to_num(X)
    model.set_params(n_estimators=ROUNDS, random_state=0).fit(A, a)
    forest = not hasattr(model, "learning_rate")
    rate = 1 / ROUNDS if forest else model.learning_rate
    step = lambda tree, _: rate * tree.tree_.predict(X.astype(np.float32)).reshape(N, -1)  # noqa: E731
    trees = oracle.sklearn_trees(np.reshape(model.estimators_, (ROUNDS, 1)), X, step)
    start = np.zeros((N, trees[0].step.shape[1])) if forest else model._raw_predict_init(X).astype(float)
    case = Case(
        model, X, y, [replace(t, round=0) for t in trees] if forest else trees, start, loss, given or {}, forest
    )
    facts = model.predict_proba(X) if hasattr(model, "classes_") else model.predict(X)[:, None]
    np.testing.assert_allclose(case.margin, facts, rtol=0, atol=1e-12)
    return case


TOP = {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": N, "lambdarank_normalization": False}
CASES = Models(
    xgb_squared=lambda: of_xgboost("reg:squarederror", "real", SQUARED, 0.5, given=WEIGHTED),
    xgb_clusters=lambda: of_xgboost("reg:squarederror", "real", SQUARED, given=WEIGHTED | {"clusters": CLUSTERS}),
    xgb_logistic=lambda: of_xgboost("binary:logistic", "bit", logistic(1.0, 2.5), base_score=0.5, scale_pos_weight=2.5,
                                    given={"base_margin": MARGIN}),
    xgb_softmax=lambda: of_xgboost("multi:softprob", "class", CLASSES, 0.5, K=3, num_class=3, num_parallel_tree=2,
                                   subsample=0.7, given=WEIGHTED),
    xgb_poisson=lambda: of_xgboost("count:poisson", "count", POISSON, base_score=1.0),
    xgb_gamma=lambda: of_xgboost("reg:gamma", "above", GAMMA, base_score=1.0, given=WEIGHTED),
    xgb_tweedie=lambda: of_xgboost("reg:tweedie", "count", TWEEDIE, base_score=1.0, tweedie_variance_power=1.5),
    xgb_absolute=lambda: of_xgboost("reg:absoluteerror", "real", ABSOLUTE, told="absolute_error", given=WEIGHTED),
    xgb_quantiles=lambda: of_xgboost("reg:quantileerror", "real", quantile(*LEVELS), K=3, quantile_alpha=LEVELS,
                                     told=f"quantile:alpha={','.join(map(str, LEVELS))}"),
    xgb_squared_log=lambda: of_xgboost("reg:squaredlogerror", "count", SQUARED_LOG, 0.5),
    xgb_cox=lambda: of_xgboost("survival:cox", "time", COX, base_score=1.0),
    xgb_pairs=lambda: of_xgboost("rank:pairwise", "rank", PAIRS, given={"qid": QUERY}, near=1e-6,  # ranks in float32
                                 lambdarank_score_normalization=False, **TOP),
    xgb_custom=lambda: of_xgboost("reg:squarederror", "real", LOG_COSH, told=LOG_COSH[0], near=1e-8),
    lgb_squared=lambda: of_lightgbm("regression", "real", SQUARED, average=True),
    lgb_forest=lambda: of_lightgbm("regression", "real", SQUARED, average=True, boosting="rf", bagging_fraction=0.6,
                                   bagging_freq=1),
    lgb_binary=lambda: of_lightgbm("binary", "bit", logistic(0.6, 2.0), sigmoid=0.6, scale_pos_weight=2.0,
                                   given={"base_margin": MARGIN}),
    lgb_each=lambda: of_lightgbm("multiclassova", "class", each_class(logistic(0.7)), K=3, sigmoid=0.7, given=WEIGHTED),
    lgb_cross_entropy=lambda: of_lightgbm("cross_entropy", "unit", logistic()),
    lgb_huber=lambda: of_lightgbm("huber", "real", HUBER, alpha=0.75),
    lgb_quantile=lambda: of_lightgbm("quantile", "real", quantile(0.8), alpha=0.8, given={"clusters": CLUSTERS}),
    cat_squared=lambda: of_catboost("RMSE", "real", SQUARED, categories=(3, 4), one_hot_max_size=1, given=WEIGHTED,
                                    max_ctr_complexity=4),
    cat_absolute=lambda: of_catboost("MAE", "real", quantile(0.5)),  # half of it, as CatBoost has it
    cat_classes=lambda: of_catboost("MultiClass", "class", CLASSES),
    cat_each=lambda: of_catboost("MultiClassOneVsAll", "class", each_class(logistic())),
    cat_queries=lambda: of_catboost("QueryRMSE", "rank", QUERY_RMSE, given={"qid": QUERY}),
    skl_poisson=lambda: of_histograms(ensemble.HistGradientBoostingRegressor(loss="poisson"), "count", POISSON,
                                      WEIGHTED),
    skl_classes=lambda: of_histograms(ensemble.HistGradientBoostingClassifier(), "class", CLASSES),
    skl_absolute=lambda: of_histograms(ensemble.HistGradientBoostingRegressor(loss="absolute_error"), "real", ABSOLUTE),
    skl_squared=lambda: of_sklearn(ensemble.GradientBoostingRegressor(), "real", SQUARED),
    skl_forest=lambda: of_sklearn(ensemble.RandomForestRegressor(), "real", SQUARED),
    skl_votes=lambda: of_sklearn(ensemble.RandomForestClassifier(), "class", each_class(SQUARED),
                                 {"clusters": CLUSTERS}),
)  # fmt: skip


# -- the definition --------------------------------------------------------------------------------------------------
def check(imp, case, answer, output=None):
    """Scores, errors and holds are the oracle's."""
    score, error, holds, holds_error = answer.result(output)
    size = np.abs(answer.tree_inner + answer.own).sum(axis=(0, 2)).max() / answer.weight.sum()
    np.testing.assert_allclose(imp.scores, score, rtol=0, atol=case.near * size)
    np.testing.assert_allclose(imp.std_errors, error, rtol=1e-6, atol=1e-7 * error.max())
    np.testing.assert_allclose(imp.holds, holds, rtol=case.near, atol=case.near, equal_nan=True)
    np.testing.assert_allclose(imp.holds_std_errors, holds_error, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_signal_and_holds_are_their_definitions(name):
    case = CASES[name]
    imp, answer = case.importance(), case.answer()
    assert (imp.score, imp.method) == ("signal", "centred")
    check(imp, case, answer)
    by_round = case.importance(score="tree_inner").by_round()
    np.testing.assert_array_equal(imp.by_round(), by_round)
    np.testing.assert_allclose(by_round, answer.rounds, rtol=0, atol=case.near * np.abs(answer.rounds).sum())
    K = case.start.shape[1]
    for output in range(K if K > 1 else 0):
        check(imp.for_output(output), case, answer, output)


@pytest.mark.parametrize("kind", KINDS)
def test_trees_of_every_shape_at_every_instruction_set(kind):
    made, before = kernel_case(kind)[0], _core.instruction_set()
    trees, X, values, found = made.trees, made.X, tree_values(made.trees, made.X), []
    for t, (a, b) in enumerate(itertools.pairwise(trees.start)):
        leaf = np.array([path(trees, t, row)[-1] for row in X]) - a
        shape = trees.left[a:b] - a, trees.right[a:b] - a, trees.column[a:b].tolist()
        found.append(oracle.binary_tree(*shape, leaf, values[t], int(trees.round[t])))
    start, loss = np.tile(trees.base, (len(X), 1)), logistic() if made.objective == "logistic" else SQUARED
    case = Case(made.model, X, made.y, found, start, loss, {"sample_weight": made.weight}, near=2e-9)
    answer = case.answer()
    try:
        for name in _core.instruction_sets():
            _core.use_instruction_set(name)
            case.model = make_model(replace(trees), made.model.loss)  # compiled anew for these instructions
            check(case.importance(), case, answer)
    finally:
        _core.use_instruction_set(before)


@pytest.mark.parametrize("name", ["xgb_squared", "xgb_softmax", "xgb_absolute", "cat_squared", "skl_votes"])
def test_a_group_has_the_effect_of_its_members_together(name):
    case = CASES[name]
    imp = case.importance(feature_groups={"ends": [0, 4]})
    check(imp, case, case.answer(groups=[[0, 4], [1], [2], [3], [5]]))
    low, high = imp.holds_interval(0.9)
    used = ~np.isnan(imp.holds)
    np.testing.assert_allclose(((low + high) / 2)[used], imp.holds[used], rtol=1e-12)
    assert np.all((high - low)[used] > 2 * 1.64 * imp.holds_std_errors[used])


@pytest.mark.parametrize("name", ["xgb_softmax", "xgb_absolute", "lgb_binary", "cat_squared", "skl_forest"])
def test_holds_follows_from_what_is_explained_and_the_margins(name):
    case, imp, w = CASES[name], CASES[name].importance(), CASES[name].given.get("sample_weight", np.ones(N))
    Phi = ti.attribute(case.model, case.X, method="centred", reference=imp).values.reshape(N, P, -1)
    for k in np.flatnonzero(~np.isnan(imp.holds)):
        s, l = (-w @ (Phi[:, k] * case.gradient(m)).sum(axis=1) for m in (case.margin - Phi[:, k], case.margin))  # noqa: E741
        assert imp.holds[k] == pytest.approx(s / (s - l), rel=1e-9, abs=1e-9)


# -- any partition, any order ----------------------------------------------------------------------------------------
PARTS = ["xgb_squared", "xgb_clusters", "xgb_softmax", "xgb_absolute", "xgb_pairs", "lgb_binary", "lgb_forest",
         "cat_squared", "cat_each", "skl_poisson", "skl_forest"]  # fmt: skip


def same(a, b):
    """Two results are one, to the last bit, `holds` included."""
    same_bits(a, b)
    for each in ("holds", "holds_std_errors"):
        np.testing.assert_array_equal(getattr(a, each), getattr(b, each), err_msg=each)


@pytest.mark.parametrize("name", PARTS)
def test_batches_threads_and_order_change_no_bit(name):
    case, whole = CASES[name], CASES[name].importance()
    largest = 2.5 if "sample_weight" in case.given else None
    given = {"score": "signal", "clustered": "clusters" in case.given, "largest_weight": largest, "n_jobs": 1}
    same(case.importance(n_jobs=3), whole)
    ends = [0, 12, 60, 84, N]  # whole queries
    batches = [case.part(np.arange(a, b)) for a, b in itertools.pairwise(ends)]
    first = [ti.ImportanceAccumulator(case.model, **given) for _ in range(2)]
    for i, batch in enumerate(batches):
        first[i % 2].update(batch.X, batch.y, **batch.given)
    second = [sum(first).second_pass() for _ in range(2)]
    for i, batch in enumerate(batches[::-1]):
        second[i // 2].update(batch.X, batch.y, **batch.given)
    same(sum(pickle.loads(pickle.dumps(second))).result(), whole)
    same(case.part(np.arange(N)[::-1]).importance(), whole)


@pytest.mark.parametrize("name", ["xgb_poisson", "lgb_squared", "cat_classes", "skl_forest", "xgb_cox"])
def test_weights_of_one_and_clusters_of_one_row_change_nothing(name):
    case = CASES[name]
    whole, one = case.importance(), case.importance(sample_weight=np.ones(N))
    same(one, whole)
    single = case.importance(clusters=np.arange(N))
    np.testing.assert_array_equal(single.scores, whole.scores)
    for each in ("std_errors", "holds", "holds_std_errors"):  # clusters are summed in float64
        np.testing.assert_allclose(getattr(single, each), getattr(whole, each), rtol=1e-9)


def test_a_file_has_the_bits_of_its_rows(tmp_path):
    case = CASES["xgb_squared"]
    frame = pd.DataFrame(case.X, columns=[f"f{i}" for i in range(P)])
    model = ti.read_model(case.model, feature_names=list(frame.columns))
    frame.assign(y=case.y, w=case.given["sample_weight"]).to_parquet(tmp_path / "rows.parquet", row_group_size=50)
    same(ti.importance(model, tmp_path / "rows.parquet", "y", sample_weight="w"), case.importance())


@pytest.mark.parametrize("name", ["xgb_squared", "xgb_softmax", "xgb_absolute", "lgb_each", "skl_poisson"])
def test_the_scale_of_the_weights_does_not_matter(name):
    case, w = CASES[name], CASES[name].given["sample_weight"]
    whole, eighth, third = (case.importance(sample_weight=w * factor) for factor in (1.0, 0.125, 1 / 3))
    for each in ("scores", "std_errors", "holds", "holds_std_errors"):
        a, b, c = (getattr(imp, each) for imp in (whole, eighth, third))
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-6, atol=1e-8 * np.nanmax(np.abs(a)))


def test_many_rows_over_threads_have_the_bits_and_the_scores_of_a_few():
    times, small = 100, CASES["lgb_binary"].importance()
    many = CASES["lgb_binary"].part(np.tile(np.arange(N), times))
    a, b = (many.importance(n_jobs=n) for n in (1, 4))
    same(a, b)
    np.testing.assert_allclose(a.scores, small.scores, rtol=0, atol=1e-9 * small.scores.max())
    np.testing.assert_allclose(a.holds, small.holds, rtol=1e-9)
    np.testing.assert_allclose(a.holds_std_errors * np.sqrt(times), small.holds_std_errors, rtol=0.01)  # n / (n - 1)


# -- little to go by -------------------------------------------------------------------------------------------------
def test_a_model_that_uses_no_feature_has_scores_of_0_and_nothing_that_holds():
    X, y = rows("real", 1)
    imp = ti.importance(xgb.train({"gamma": 1e9}, xgb.DMatrix(X, y), 3), X, y)
    np.testing.assert_array_equal(imp.scores, np.zeros(P))
    assert np.isnan(imp.holds).all()
    assert np.isnan(imp.holds_std_errors).all()


@pytest.mark.parametrize("name", ["xgb_squared", "xgb_logistic", "xgb_absolute", "cat_classes", "skl_forest"])
@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")
def test_a_handful_of_rows_is_scored_by_the_definition(name, n):
    part = CASES[name].part(np.arange(1, 1 + n))
    imp, answer = part.importance(), part.answer()
    score, _, holds, _ = answer.result()
    size = np.abs(answer.tree_inner).sum() + np.abs(answer.own).sum()
    np.testing.assert_allclose(imp.scores, score, rtol=0, atol=1e-8 * size)
    np.testing.assert_allclose(imp.holds, holds, rtol=1e-9, atol=1e-12, equal_nan=True)
    assert "few_rows" in [note.code for note in imp.notes]


def test_no_rows_and_other_attributions_are_refused_by_name():
    case = CASES["xgb_squared"]
    with pytest.raises(ti.DataError, match="row"):
        ti.importance(case.model, case.X[:0], case.y[:0])
    for method in ("predecomp", "saabas", "treeshap"):
        with pytest.raises(ValueError, match="signal"):
            case.importance(score="signal", method=method)
    other = case.importance(score="tree_inner")
    assert other.holds is None
    assert other.holds_std_errors is None


@pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")
def test_all_weight_in_one_row_is_that_row_alone():
    case, weight = CASES["xgb_logistic"], 3.0 * (np.arange(N) == 7)
    imp = case.importance(sample_weight=weight)
    np.testing.assert_array_equal(imp.scores, case.part([7]).importance().scores)
    assert not np.isfinite(imp.std_errors).any()
    assert np.isnan(imp.holds).all()  # a row alone is its own mean: nothing is contributed


@pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")
def test_rows_of_one_class_are_scored():
    ones = replace(CASES["xgb_logistic"], y=np.ones(N))
    check(ones.importance(), ones, ones.answer())
