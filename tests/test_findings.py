"""Sixteen ways in which the first edition was wrong in silence, each on data like those it was found on."""

import json
import warnings

import catboost
import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn import ensemble as sk
from sklearn.datasets import load_breast_cancer
from sklearn.utils.class_weight import compute_sample_weight

import treeinner as ti
from tests.exactness_models import saturating
from treeinner.ensemble import Ensemble
from treeinner.errors import DataError, ModelError, TreeInnerError, TreeInnerWarning, UnknownParameterError

N, COLUMNS = 1200, 5
TRAIN, VALID = slice(0, N // 2), slice(N // 2, N)
LIBRARIES = ("xgboost", "lightgbm", "catboost", "sklearn")
LOSS = 1e-9  # of sums of 600 float64 terms in another order


def table(seed=0):
    """Five columns, of which the first matters most and the last two not at all, and the signal."""
    X = np.random.default_rng(seed).normal(size=(N, COLUMNS))
    return X, 2 * X[:, 0] + X[:, 1] * X[:, 2]


def regression(seed=0):
    X, signal = table(seed)
    return X, signal + np.random.default_rng(seed + 1).normal(size=N)


def labels(seed=0, odds=-2.0):
    """One class in five."""
    X, signal = table(seed)
    return X, (signal + odds + np.random.default_rng(seed + 1).logistic(size=N) > 0).astype(int)


# -- 1. clipped leaves ---------------------------------------------------------------------------------------
def visits():
    """Counts of visits, as in RAND HIE: exposure is the margin before the first tree, far below the counts."""
    X, signal = table()
    exposure = np.log(np.random.default_rng(2).uniform(0.1, 1.0, N))
    return X, np.random.default_rng(3).poisson(np.exp(exposure + 2 + 0.4 * signal)).astype(float), exposure


@pytest.fixture(scope="module")
def poisson():
    X, y, exposure = visits()
    matrix = xgboost.DMatrix(X[TRAIN], y[TRAIN], base_margin=exposure[TRAIN])
    return xgboost.train({"objective": "count:poisson", "max_depth": 4, "eta": 0.1, "nthread": 1}, matrix, 60)


def test_1_clipped_leaves_do_not_touch_the_default_and_predecomp_says_that_it_does_not_hold(poisson, tmp_path):
    X, y, exposure = visits()
    poisson.save_model(tmp_path / "model.ubj")
    for model in (poisson, tmp_path / "model.ubj"):
        read = ti.read_model(model)
        imp = ti.importance(read, X[VALID], y[VALID], base_margin=exposure[VALID], method="centred")
        assert imp.top(1).feature_names == ti.total_gain(read).top(1).feature_names == ("f0",)
        assert imp.q_values[0] < 0.01
        assert imp.q_values[3:].min() > 0.05
        (said,) = read.doubts("tree_inner", "predecomp", base_margin=True)
        assert "max_delta_step (0.7 by default for count:poisson)" in said
        assert "method='centred'" in said
        assert read.doubts("tree_inner", "centred", base_margin=True) == ()
        assert "max_delta_step" in read.exactness


def test_1_a_base_margin_of_the_training_that_is_left_out_is_missed(poisson):
    X, y, exposure = visits()
    (said,) = ti.read_model(poisson).doubts("loss", "centred")
    assert "trained with base_margin" in said
    assert ti.read_model(poisson).doubts("abs", "saabas") == ()
    matrix = xgboost.DMatrix(X[TRAIN], y[TRAIN])
    for rows in (1.0, 0.5):  # without one the first root is 0, or what row sampling makes of it
        params = {"objective": "count:poisson", "nthread": 1, "subsample": rows}
        assert ti.read_model(xgboost.train(params, matrix, 3)).doubts("loss", "centred") == ()
    start = {"init_score": exposure[TRAIN]}
    model = lightgbm.LGBMRegressor(objective="poisson", n_estimators=5, n_jobs=1, verbose=-1).fit(
        X[TRAIN], y[TRAIN], **start
    )
    assert "init_score" in ti.read_model(model).doubts("tree_inner", "centred")[0]


def clipped_models():
    quiet = {"n_jobs": 1, "verbose": -1, "n_estimators": 8}
    silent = {"iterations": 8, "thread_count": 1, "verbose": False, "allow_writing_files": False}
    small = {"n_estimators": 8, "max_depth": 3, "n_jobs": 1}
    yield xgboost.XGBRegressor(max_delta_step=0.2, **small), "max_delta_step"
    yield xgboost.XGBRegressor(monotone_constraints=(1, 1, -1, 0, 0), **small), "monotone"
    yield xgboost.XGBRegressor(objective="reg:absoluteerror", **small), "medians"
    yield lightgbm.LGBMRegressor(max_delta_step=0.2, **quiet), "max_delta_step"
    yield lightgbm.LGBMRegressor(path_smooth=9.0, **quiet), "path_smooth"
    yield lightgbm.LGBMRegressor(monotone_constraints=[1, 1, -1, 0, 0], **quiet), "monotone"
    yield lightgbm.LGBMRegressor(objective="quantile", alpha=0.7, **quiet), "renewed"
    yield catboost.CatBoostRegressor(loss_function="MAE", **silent), "method Exact"
    yield sk.HistGradientBoostingRegressor(loss="absolute_error", max_iter=8), "renews the leaves"
    yield sk.GradientBoostingRegressor(loss="huber", n_estimators=8), "renews the leaves"
    yield sk.RandomForestRegressor(8, monotonic_cst=[1, 1, -1, 0, 0]), "monotonic"


@pytest.mark.parametrize(("model", "reason"), clipped_models(), ids=lambda given: str(given).partition("(")[0])
def test_1_every_kind_of_clipping_is_said_of_predecomp_alone(model, reason):
    X, y = regression()
    if "3.4" in xgboost.__version__ and reason == "medians":
        pytest.skip("XGBoost 3.4 renews no leaves")
    read = ti.read_model(model.fit(X, y))
    (said,) = read.doubts("tree_inner", "predecomp")
    assert said.startswith("PreDecomp does not hold for this model: ")
    assert reason in said
    assert reason in read.exactness
    for method in ("centred", "saabas", "treeshap", lambda tree, rows: rows):
        assert read.doubts("tree_inner", method) == read.doubts("loss", method) == ()


@pytest.mark.parametrize("library", LIBRARIES)
def test_1_plain_models_have_nothing_to_say(library):
    X, y = regression()
    model = {
        "xgboost": xgboost.XGBRegressor(n_estimators=8, n_jobs=1),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=8, n_jobs=1, verbose=-1),
        "catboost": catboost.CatBoostRegressor(iterations=8, verbose=False, allow_writing_files=False),
        "sklearn": sk.HistGradientBoostingRegressor(max_iter=8),
    }[library].fit(X, y)
    read = ti.read_model(model)
    assert (read.notes, read.exactness) == ((), "exact")
    for score in ("tree_inner", "loss", "forest_inner", "abs"):
        assert read.doubts(score, "predecomp") == ()


# -- 2. custom objectives ------------------------------------------------------------------------------------
def softmax(y, margin):
    p = np.exp(margin - margin.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p - np.eye(margin.shape[1])[y.astype(int)], p * (1 - p)


class Saturating:
    """The same loss for CatBoost, which wants the derivatives of what it maximises."""

    def calc_ders_range(self, approxes, targets, weights):
        return [(20 * np.tanh((y - m) / 20), -1.0) for m, y in zip(approxes, targets)]  # noqa: B905 - numba's zip


def weighted(y, margin, weight):
    g, h = saturating(y, margin)
    return g * weight, h * weight


FUNCTIONS = {
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=12, max_depth=3, n_jobs=1, objective=saturating),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=12, n_jobs=1, verbose=-1, objective=saturating),
    "lightgbm, weights": lambda: lightgbm.LGBMRegressor(n_estimators=12, n_jobs=1, verbose=-1, objective=weighted),
    "catboost": lambda: catboost.CatBoostRegressor(
        iterations=12, depth=3, thread_count=1, verbose=False, allow_writing_files=False, loss_function=Saturating(),
        eval_metric="RMSE",
    ),
}  # fmt: skip


@pytest.mark.parametrize("library", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # CatBoost's, that numba cannot compile the loss
def test_2_the_gradient_comes_from_the_estimator(library):
    X, y = regression()
    y = 30 * y  # where the loss is no parabola
    given = {"sample_weight": 1 + np.arange(N // 2) % 2} if "weights" in library else {}
    model = FUNCTIONS[library]().fit(X[TRAIN], y[TRAIN], **given)
    read = ti.read_model(model)
    assert "objective function" in read.notes[0]
    assert ti.read_model(model, objective="squared_error").notes == ()
    assert read.doubts("tree_inner", "centred") == ()
    told, taken = (
        ti.importance(read, X[VALID], y[VALID], method="centred", objective=objective, std_errors=False)
        for objective in (lambda y, margin: 20 * np.tanh((margin - y) / 20), "auto")
    )
    np.testing.assert_allclose(taken.scores, told.scores, rtol=LOSS)
    assumed = ti.importance(read, X[VALID], y[VALID], method="centred", objective="squared_error", std_errors=False)
    assert np.abs(assumed.scores - told.scores).max() > 0.5 * told.scores.max()  # what was reported as exact


@pytest.mark.parametrize("wrapper", [xgboost.XGBClassifier, lightgbm.LGBMClassifier])
def test_2_several_outputs(wrapper):
    X, signal = table()
    y = np.digitize(signal, [-1, 1])
    model = wrapper(n_estimators=6, max_depth=3, n_jobs=1, objective=softmax).fit(X, y)
    named = {xgboost.XGBClassifier: "multi:softprob", lightgbm.LGBMClassifier: "multiclass"}[wrapper]
    own, told = (ti.importance(model, X, y, method="centred", std_errors=False, objective=o) for o in ("auto", named))
    np.testing.assert_allclose(own.scores, told.scores, rtol=LOSS)


def by_hand(margin, matrix):
    return saturating(matrix.get_label(), margin)


def logistic_by_hand(margin, matrix):
    p = 1 / (1 + np.exp(-margin))
    return 1.2 * (p - matrix.get_label()), p * (1 - p)


@pytest.mark.parametrize("params", [{"max_depth": 3}, {}, {"subsample": 0.5}], ids=str)
@pytest.mark.parametrize("saved", [False, True])
def test_2_a_booster_of_a_custom_objective_asks_for_it(params, saved):
    """With a hessian of 1, with other ones, and under the name of another loss."""
    X, y = regression()
    bit = labels()[1]
    params = {"nthread": 1, **params}
    cases = [
        xgboost.train(params, xgboost.DMatrix(X, y), 4, obj=by_hand),
        xgboost.train(params, xgboost.DMatrix(X, bit), 4, obj=logistic_by_hand),
        xgboost.train({**params, "objective": "binary:logistic"}, xgboost.DMatrix(X, bit), 4, obj=logistic_by_hand),
    ]
    for booster in cases:
        read = ti.read_model(xgboost.Booster(model_file=booster.save_raw("ubj")) if saved else booster)
        with pytest.raises(UnknownParameterError, match=r"does not store its loss.*Pass objective="):
            ti.importance(read, X, bit)
        assert ti.importance(read, X, score="abs", method="saabas").scores.any()
        assert ti.importance(read, X, bit, objective="reg:squarederror", method="centred").scores.any()


def test_2_a_base_score_set_by_hand_is_spoken_of_and_a_fitted_one_is_not():
    X, y = regression()
    matrix, params = xgboost.DMatrix(X, y), {"nthread": 1, "max_depth": 3}
    fitted, set_by_hand = (xgboost.train(params | more, matrix, 4) for more in ({}, {"base_score": 0.5}))
    custom = xgboost.train(params | {"base_score": 0.5}, matrix, 4, obj=by_hand)
    assert ti.read_model(fitted).doubts("tree_inner", "centred") == ()
    for booster in (set_by_hand, custom):
        for saved in (False, True):
            model = xgboost.Booster(model_file=booster.save_raw("ubj")) if saved else booster
            (said,) = ti.read_model(model).doubts("tree_inner", "centred")
            assert "taken to be reg:squarederror" in said
            assert "Pass objective='reg:squarederror' to confirm it" in said
            assert said in ti.read_model(model).exactness
            told = ti.read_model(model, objective="reg:squarederror")
            assert told.doubts("tree_inner", "centred") == ()
            assert ti.read_model(model).doubts("abs", "saabas") == ()
    wrapper = xgboost.XGBRegressor(n_estimators=4, base_score=0.5, n_jobs=1).fit(X, y)  # `objective` is a name
    assert ti.read_model(wrapper).doubts("tree_inner", "centred") == ()


def test_2_a_loaded_estimator_is_no_proof(tmp_path):
    X, y = regression()
    for objective in (saturating, "reg:squarederror"):
        model = xgboost.XGBRegressor(n_estimators=4, n_jobs=1, objective=objective, base_score=1.0).fit(X, y)
        model.save_model(tmp_path / "model.ubj")
        loaded = xgboost.XGBRegressor()
        loaded.load_model(tmp_path / "model.ubj")
        assert "taken to be reg:squarederror" in ti.read_model(loaded).doubts("tree_inner", "centred")[0]
        assert ti.read_model(model).doubts("tree_inner", "centred") == ()


def test_2_a_target_whose_mean_is_the_default_is_not_taken_for_a_custom_objective():
    X, y = regression()
    half = (np.argsort(np.argsort(y)) >= N // 2).astype(int)  # mean 0.5: the base score that a custom objective has
    for rows in (1.0, 0.7):
        params = {"nthread": 1, "max_depth": 3, "subsample": rows}
        squares = xgboost.train(params, xgboost.DMatrix(X, half), 4)
        assert "a base_score of 0.5" in ti.read_model(squares).doubts("tree_inner", "centred")[0]
        logistic = xgboost.train(params | {"objective": "binary:logistic"}, xgboost.DMatrix(X, half), 4)
        assert (ti.read_model(logistic).doubts("tree_inner", "centred") == ()) == (rows == 1)
        assert ti.read_model(logistic).objective.name == "binary:logistic"


def test_2_what_was_assumed_survives_saving(tmp_path):
    X, y = regression()
    model = ti.read_model(xgboost.train({"base_score": 0.5, "nthread": 1}, xgboost.DMatrix(X, y), 3))
    model.save(tmp_path / "model.ti")
    again = ti.read_model(tmp_path / "model.ti")
    assert again.doubts("tree_inner", "predecomp") == model.doubts("tree_inner", "predecomp") != ()


# -- 3. CatBoost's weights -----------------------------------------------------------------------------------
SILENT = {"iterations": 20, "depth": 4, "thread_count": 1, "verbose": False, "allow_writing_files": False}


@pytest.mark.parametrize(
    "more", [{"class_weights": [1, 3]}, {"auto_class_weights": "Balanced"}, {"scale_pos_weight": 4.0}], ids=str
)
def test_3_class_weights_ask_for_nothing_but_the_penalty_of_predecomp(more):
    X, y = labels()
    model = catboost.CatBoostClassifier(**SILENT, **more).fit(X[TRAIN], y[TRAIN])
    imp = ti.importance(model, X[VALID], y[VALID], method="centred")
    assert imp.top(1).feature_names == ("f0",)
    assert ti.read_model(model).doubts("tree_inner", "centred") == ()
    with pytest.raises(UnknownParameterError, match="l2_leaf_reg times the mean weight"):
        ti.importance(model, X[VALID], y[VALID], method="predecomp")


@pytest.mark.parametrize("whole", [False, True])
def test_3_weights_of_squared_error_are_found_in_the_trees(whole):
    X, y = regression()
    weight = np.random.default_rng(4).exponential(2.0, N) + 0.2
    weight = np.ceil(weight) if whole else weight
    model = catboost.CatBoostRegressor(**SILENT).fit(X, y, sample_weight=weight)
    read = ti.read_model(model)
    assert (read.exactness, read.doubts("tree_inner", "predecomp")) == ("exact", ())
    assert read.ensemble.params["reg_lambda"] == pytest.approx(3 * weight.mean(), rel=1e-6)  # float32 weights


def test_3_whole_weights_do_not_pass_as_none():
    X, y = labels()
    one_step = {"leaf_estimation_method": "Gradient", "leaf_estimation_iterations": 1}
    weight = np.random.default_rng(4).integers(1, 5, N)
    plain = catboost.CatBoostClassifier(**SILENT, **one_step).fit(X, y)
    assert ti.read_model(plain).exactness == "exact"
    model = catboost.CatBoostClassifier(**SILENT, **one_step).fit(X, y, sample_weight=weight)
    (said,) = ti.read_model(model).doubts("tree_inner", "predecomp")
    assert "taken to be unweighted" in said
    assert ti.read_model(model).exactness != "exact"
    assert ti.read_model(model).doubts("tree_inner", "centred") == ()
    assert ti.read_model(model, reg_lambda=3 * weight.mean()).exactness == "exact"


# -- 4. class weights of estimators --------------------------------------------------------------------------
CLASSIFIERS = {
    "lightgbm": lambda **more: lightgbm.LGBMClassifier(n_estimators=10, num_leaves=7, n_jobs=1, verbose=-1, **more),
    "hist": lambda **more: sk.HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=7, **more),
    "extra trees": lambda **more: sk.ExtraTreesClassifier(10, max_depth=4, random_state=0, **more),
    "forest": lambda **more: sk.RandomForestClassifier(10, max_depth=4, random_state=0, **more),
}


@pytest.mark.parametrize("spec", [{0: 1.0, 1: 8.0}, {1: 0.2}, "balanced"], ids=str)
@pytest.mark.parametrize("library", CLASSIFIERS)
def test_4_class_weights_weigh_the_scored_rows(library, spec):
    X, y = labels()
    names = np.array(["no", "yes"])  # weights go by label, whatever the codes
    by_code = isinstance(spec, str) or library == "hist"  # HistGradientBoosting looks up codes
    named = spec if by_code else {names[code]: weight for code, weight in spec.items()}
    model = CLASSIFIERS[library](class_weight=named).fit(X[TRAIN], names[y[TRAIN]])
    weight = compute_sample_weight(spec, y[VALID]) * np.linspace(0.5, 1.5, N // 2)
    own = ti.importance(model, X[VALID], names[y[VALID]], sample_weight=np.linspace(0.5, 1.5, N // 2), method="centred")
    assert own.sum_of_weights == pytest.approx(weight.sum())
    assert any("class_weight" in note for note in own.notes)
    assert any("class counts" in note for note in own.notes) == (spec == "balanced")
    bare = ti.read_model(model).ensemble  # trees know of no class_weight
    np.testing.assert_allclose(
        own.scores,
        ti.importance(bare, X[VALID], names[y[VALID]], sample_weight=weight, method="centred").scores,
        rtol=LOSS,
    )
    assert ti.importance(model, X[VALID], score="abs", method="saabas").sum_of_weights == N // 2


@pytest.mark.parametrize("spec", [{0: 1.0, 1: 8.0}, "balanced"], ids=str)
@pytest.mark.parametrize("library", ["lightgbm", "hist", "extra trees"])
def test_4_in_sample_gains_are_the_total_gain_again(library, spec):
    X, y = labels()
    model = CLASSIFIERS[library](class_weight=spec).fit(X, y)
    read = ti.read_model(model)
    assert read.exactness == "exact"
    in_sample = ti.importance(read, X, y, method="predecomp", std_errors=False).gains
    np.testing.assert_allclose(in_sample, ti.total_gain(read).scores, rtol=2e-6)  # LightGBM's six digits


def test_4_several_targets_and_subsamples():
    X, y = labels()
    other = (X[:, 1] > 0.5).astype(int)
    both = np.stack([y, other], axis=1)
    model = sk.RandomForestClassifier(5, max_depth=3, class_weight=[{0: 1.0, 1: 3.0}, {0: 2.0, 1: 1.0}]).fit(X, both)
    expected = np.where(y == 1, 3.0, 1.0) * np.where(other == 0, 2.0, 1.0)
    np.testing.assert_allclose(ti.read_model(model).row_weights(both), expected)
    model = sk.RandomForestClassifier(5, max_depth=3, class_weight="balanced_subsample").fit(X, y)
    np.testing.assert_allclose(ti.read_model(model).row_weights(y), compute_sample_weight("balanced", y))


def test_4_balanced_weights_need_all_rows_at_once():
    X, y = labels()
    model = CLASSIFIERS["lightgbm"](class_weight="balanced").fit(X, y)
    with pytest.raises(DataError, match=r"class counts of all rows.*\{label: weight\}"):
        ti.ImportanceAccumulator(model).update(X[:100], y[:100])
    model.class_weight = dict(enumerate(N / (2 * np.bincount(y))))
    batches = ti.ImportanceAccumulator(model, std_errors=False)
    for rows in (slice(0, 700), slice(700, None)):
        batches.update(X[rows], y[rows])
    assert np.array_equal(batches.result().scores, ti.importance(model, X, y, std_errors=False).scores)


# -- 5. forests ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "model",
    [
        sk.ExtraTreesRegressor(10, max_depth=5, random_state=0),
        lightgbm.LGBMRegressor(
            boosting_type="rf", n_estimators=10, colsample_bytree=0.6, subsample=1.0, subsample_freq=0, n_jobs=1,
            verbose=-1,
        ),
        xgboost.XGBRFRegressor(n_estimators=10, subsample=1.0, max_depth=4, n_jobs=1),
    ],
    ids=["sklearn", "lightgbm", "xgboost"],
)  # fmt: skip
def test_5_gains_of_forests_are_sums_over_the_trees_as_total_gain_is(model):
    X, y = regression()
    read = ti.read_model(model.fit(X, y))
    in_sample = ti.importance(read, X, y, method="predecomp")
    np.testing.assert_allclose(in_sample.gains, ti.total_gain(read).scores, rtol=2e-5)  # LightGBM's six digits
    with pytest.warns(UserWarning, match="trained on"):
        ti.compare(read, X, y, X, y, method="predecomp")


# -- 6. learning rate 1 --------------------------------------------------------------------------------------
def test_6_at_learning_rate_1_tree_inner_warns_and_the_account_keeps_its_size():
    small = tested = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2400, 16))
        y = X[:, :4].sum(axis=1) + rng.normal(size=2400)
        model = xgboost.XGBRegressor(n_estimators=60, learning_rate=1.0, max_depth=3, n_jobs=1).fit(X[:1200], y[:1200])
        with pytest.warns(TreeInnerWarning, match="overshoot.*score='loss'"):
            assert ti.importance(model, X[1200:], y[1200:]).overshoot > 0.3
        account = ti.importance(model, X[1200:], y[1200:], score="loss")
        assert account.q_values[:4].max() < 0.01
        small, tested = small + np.count_nonzero(account.p_values[4:] < 0.05), tested + 12
    assert small <= 0.05 * tested + 2 * np.sqrt(0.05 * 0.95 * tested)  # 11 of 48 in the first edition


# -- 7. columns in another order -----------------------------------------------------------------------------
def refused_or(expected, work):
    """Either the same numbers, or an error that says why not."""
    try:
        found = work()
    except TreeInnerError:
        return
    np.testing.assert_allclose(found, expected, rtol=LOSS)


def test_7_columns_keep_their_order_over_batches_merges_and_bytes():
    X, y = regression()
    model = ti.read_model(xgboost.XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(X, y))
    frame = pd.DataFrame(X, columns=list("abcde"))
    batches = [(frame[:500], y[:500]), (frame[500:][list("bacde")], y[500:])]
    expected = ti.importance(model, frame, y, std_errors=False).scores

    def accumulator(*batches):
        acc = ti.ImportanceAccumulator(model, std_errors=False)
        for batch in batches:
            acc.update(*batch)
        return acc

    refused_or(expected, lambda: accumulator(*batches).result().scores)
    first, second = (accumulator(batch) for batch in batches)
    refused_or(expected, lambda: (first + second).result().scores)
    refused_or(expected, lambda: (first + accumulator().from_bytes(second.to_bytes())).result().scores)


# -- 8. sums that wrap ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("choice", [{"method": "treeshap"}, {"score": "abs", "method": "saabas"}], ids=str)
@pytest.mark.parametrize("weight", [None, 1 / 3])
def test_8_sums_over_any_number_of_rows_are_right_or_refused(choice, weight):
    X, y = regression()
    model = xgboost.XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(X, y)
    given = {} if weight is None else {"sample_weight": np.full(N, weight)}
    acc = ti.ImportanceAccumulator(model, **choice).update(X, None if "score" in choice else y, **given)
    expected = acc.result().scores
    for _ in range(60):
        try:
            acc = acc + acc  # as many rows again
            scores = acc.result().scores
        except TreeInnerError:
            return
        np.testing.assert_allclose(scores, expected, rtol=LOSS)


# -- 9. threads ----------------------------------------------------------------------------------------------
# The first TreeSHAP call of several threads: tests/test_threads.py.


# -- 10. options ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "option",
    [{"learning_rate": rate} for rate in (-1, 0, np.nan, np.inf)] + [{"reg_lambda": l2} for l2 in (-1, np.nan)],
    ids=str,
)
def test_10_rates_and_penalties_that_none_can_have_are_refused(library, option):
    X, y = regression()
    model = {
        "xgboost": xgboost.XGBRegressor(n_estimators=2, n_jobs=1),
        "lightgbm": lightgbm.LGBMRegressor(n_estimators=2, n_jobs=1, verbose=-1),
        "catboost": catboost.CatBoostRegressor(**SILENT),
        "sklearn": sk.HistGradientBoostingRegressor(max_iter=2),
    }[library].fit(X[:200], y[:200])
    for call in (ti.importance, ti.permutation_importance):
        with pytest.raises(ValueError, match=f"{next(iter(option))}=.*expected a"):
            call(model, X, y, **option)


# -- 11. arguments -------------------------------------------------------------------------------------------
def test_11_arguments_are_used_or_refused():
    X, y = regression()
    model = ti.read_model(xgboost.XGBRegressor(n_estimators=5, n_jobs=1).fit(X[TRAIN], y[TRAIN]))
    sides = (X[TRAIN], y[TRAIN], X[VALID], y[VALID])
    assert repr(ti.compare(model, *sides, method="saabas")).startswith("TreeInner(Saabas)")
    for call in (
        lambda: ti.compare(model, *sides, score="abs"),
        lambda: ti.permutation_importance(model, X, y, method="saabas"),
        lambda: ti.permutation_importance(model, X, y, qid=y),
        lambda: ti.permutation_importance(model, X, y, std_errors=False),
        lambda: ti.importance(model, X, y, n_repeats=3),
    ):
        with pytest.raises(TypeError, match="unexpected argument"):
            call()
    with pytest.raises(ValueError, match="n_repeats=-3: expected at least one"):
        ti.permutation_importance(model, X, y, n_repeats=-3)
    with pytest.raises(ValueError, match="objective has no effect on 'total_gain'"):
        ti.total_gain(model, objective="nonsense")


# -- 12. losses outside the core -----------------------------------------------------------------------------
@pytest.mark.parametrize("method", ["centred", "predecomp", "saabas"])
def test_12_scores_do_not_depend_on_errors_and_rounds_add_up_to_the_last_bit(method):
    X, y = regression()
    params = {"objective": "reg:pseudohubererror", "max_depth": 3, "nthread": 1}
    model = xgboost.train(params, xgboost.DMatrix(X[TRAIN], y[TRAIN]), 10)
    assert ti.read_model(model).objective.core_loss() is None
    errors, none = (
        ti.importance(model, X[VALID], y[VALID], method=method, std_errors=given) for given in (True, False)
    )
    assert np.array_equal(errors.scores, none.scores)
    assert np.array_equal(errors.by_round().sum(axis=0), errors.scores)


# -- 13. what cannot be added up -----------------------------------------------------------------------------
def test_13_a_query_torn_over_two_batches_is_refused():
    X, y = labels()
    qid = np.repeat(np.arange(N // 20), 20)
    params = {"objective": "rank:ndcg", "max_depth": 3, "nthread": 1, "lambdarank_pair_method": "topk"}
    model = xgboost.train(params, xgboost.DMatrix(X, y, qid=qid), 10)
    expected = ti.importance(model, X, y, qid=qid, std_errors=False).scores

    def torn():
        acc = ti.ImportanceAccumulator(model, std_errors=False)
        for rows in (slice(0, 610), slice(610, None)):
            acc.update(X[rows], y[rows], qid=qid[rows])
        return acc.result().scores

    refused_or(expected, torn)


def test_13_clusters_1_and_text_1_are_one_cluster_or_an_error():
    X, y = regression()
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y)
    acc = ti.ImportanceAccumulator(model, clustered=True, method="saabas")
    acc.update(X[:600], y[:600], clusters=np.arange(600) // 20)
    refused_or(
        30,
        lambda: acc.update(X[600:], y[600:], clusters=(np.arange(600) // 20).astype(str)).result().statistics.n_units,
    )


@pytest.mark.parametrize("argument", ["objective", "method"])
def test_13_accumulators_of_different_functions_do_not_add_up(argument):
    X, y = regression()
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y)
    functions = {
        "objective": (lambda y, margin: margin - y, lambda y, margin: (margin - y) ** 3),
        "method": (lambda tree, rows: np.zeros((len(rows), 5)), lambda tree, rows: np.ones((len(rows), 5))),
    }[argument]
    a, b = (ti.ImportanceAccumulator(model, **{argument: function}).update(X, y) for function in functions)
    with pytest.raises(ModelError, match="without a name of its own"):
        _ = a + b


# -- 14. training rows among held-out rows -------------------------------------------------------------------
def test_14_training_rows_of_a_sampled_model_among_the_held_out_ones_are_seen():
    X, y = regression()
    model = xgboost.XGBRegressor(n_estimators=20, subsample=0.5, n_jobs=1).fit(X[TRAIN], y[TRAIN])
    with pytest.warns(TreeInnerWarning, match="train"):
        ti.compare(model, X[TRAIN], y[TRAIN], X, y)


# -- 15. covers and weights that cannot be -------------------------------------------------------------------
@pytest.fixture(scope="module")
def document():
    X, y = regression()
    booster = xgboost.train({"max_depth": 3, "nthread": 1}, xgboost.DMatrix(X, y), 3)
    return json.loads(booster.save_raw("json"))


@pytest.mark.parametrize("cover", [np.inf, 1e200, -1.0])
def test_15_covers_that_are_not_finite_are_refused(document, cover):
    X, y = regression()
    e = ti.read_model(xgboost.train({"max_depth": 3, "nthread": 1}, xgboost.DMatrix(X, y), 3)).ensemble
    changed = e.cover.copy()
    changed[0] = cover
    with pytest.raises(ModelError, match="a cover is negative, infinite or absurdly large"):
        _replaced(e, cover=changed)


def test_15_infinite_covers_in_a_file(document, tmp_path):
    document = json.loads(json.dumps(document))
    document["learner"]["gradient_booster"]["model"]["trees"][1]["sum_hessian"][0] = float("inf")
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(ModelError, match="the hessian of a node is infinite"):
        ti.read_model(tmp_path / "model.json")


def test_15_absurd_base_weights_are_refused_by_the_method_that_needs_them(document, tmp_path):
    X, y = regression()
    document = json.loads(json.dumps(document))
    document["learner"]["gradient_booster"]["model"]["trees"][1]["base_weights"][1] = 9e18
    (tmp_path / "model.json").write_text(json.dumps(document))
    read = ti.read_model(tmp_path / "model.json", learning_rate=0.3)
    with pytest.raises(ModelError, match="a node value is infinite, or absurdly large"):
        ti.attribute(read, X)
    a = ti.attribute(read, X, method="treeshap")
    np.testing.assert_allclose(a.base_values + a.values.sum(axis=1), read.predict(X), rtol=1e-10)
    assert ti.importance(read, X, y, method="centred").top(1).feature_names == ("f0",)


def _replaced(e: Ensemble, **arrays):
    return Ensemble(**(e.__getstate__() | arrays))


# -- 16. total gain ------------------------------------------------------------------------------------------
def test_16_total_gain_takes_no_rows():
    X, y = regression()
    model = xgboost.XGBRegressor(n_estimators=5, n_jobs=1).fit(X[TRAIN], y[TRAIN])
    with pytest.raises(ValueError, match=r"score='total_gain' is a separate function: ti.total_gain\(model\)"):
        ti.importance(model, X[VALID], y[VALID], score="total_gain")
    with pytest.raises(TypeError, match="positional argument"):
        ti.total_gain(model, X[VALID], y[VALID])
    stored = model.get_booster().get_score(importance_type="total_gain")
    np.testing.assert_allclose(ti.total_gain(model).scores, [stored[f"f{k}"] for k in range(COLUMNS)], rtol=1e-6)


# -- 24, 25. early stopping, unseen categories ---------------------------------------------------------------
def test_25_a_category_that_training_did_not_see_is_refused_by_name():
    """XGBoost 3.2 takes its neighbour's instead, in silence; later versions refuse it too."""
    X, y = regression()
    frame = pd.DataFrame({"number": X[:, 0], "word": pd.Categorical(np.array(list("aceg"))[np.arange(N) % 4])})
    model = xgboost.XGBRegressor(n_estimators=3, enable_categorical=True, n_jobs=1).fit(frame, y)
    frame["word"] = pd.Categorical(["b"] * N)
    with pytest.raises(DataError, match=r"'word' holds categories that the model has not seen in training: 'b'"):
        ti.importance(model, frame, y)


def test_24_an_early_stopped_file_says_which_rounds_are_used(tmp_path):
    X, y = load_breast_cancer(return_X_y=True)
    model = xgboost.XGBClassifier(n_estimators=60, early_stopping_rounds=5, n_jobs=1)
    model.fit(X[::2], y[::2], eval_set=[(X[1::2], y[1::2])], verbose=False)
    model.save_model(tmp_path / "model.ubj")
    (said,) = ti.read_model(tmp_path / "model.ubj").notes
    assert f"iteration_range=(0, {model.best_iteration + 1})" in said
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert said in ti.importance(tmp_path / "model.ubj", X[1::2], y[1::2]).notes
    assert ti.read_model(model).notes == ()
