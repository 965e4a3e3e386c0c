"""`by=`: segments of the rows against an oracle, against single rows, against the whole; what differs, how surely."""

import datetime
import itertools
import pickle
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.stats
import xgboost as xgb
from sklearn.ensemble import RandomForestRegressor

import treeinner as ti
from tests.score.test_signal import CASES
from treeinner.rows.segments import segments_of

FLOAT32 = 1e-6  # the core adds some shares in float32: of the largest, in a handful of rows
COLUMNS = ["segment", "feature", "score", "std_error", "q_value", "holds"]
COLUMNS += ["difference", "difference_std_error", "difference_q_value"]


def made(n=600, seed=0, regions=("a", "b", "c"), effect=0.0):
    """A model and n rows of regions; in the second region x1 has an effect that training did not show."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(500 + n, 4)), columns=["x0", "x1", "x2", "x3"])
    region = rng.choice(regions, 500 + n)
    late = (np.arange(500 + n) >= 500) & (region == regions[1])
    y = X["x0"] + X["x1"] * np.where(late, 1.0 - effect, 1.0) + rng.normal(size=500 + n)
    model = xgb.XGBRegressor(n_estimators=30, max_depth=3, learning_rate=0.2, n_jobs=1).fit(X[:500], y[:500])
    return model, X[500:].reset_index(drop=True), y[500:].to_numpy(), region[500:]


@pytest.fixture(scope="module")
def fitted():
    return made()


def assert_same(a, b):
    """Two results by segment have the same bits."""
    assert a.labels == b.labels
    for x, y in ((vars(a.statistics), vars(b.statistics)), (vars(a.difference), vars(b.difference)), (a.same, b.same)):
        for name in x:
            np.testing.assert_array_equal(x[name], y[name])


# -- what a segment's numbers are ------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", CASES)
def test_segments_are_the_oracles_rows(name):
    case, rng = CASES[name], np.random.default_rng(1)
    by = rng.choice(["low", "mid", "top"], len(case.X))
    imp, answer = case.importance(by=by), case.answer()
    found, whole = imp.by_segment, case.importance()
    assert found.labels == ("low", "mid", "top")
    for a, b in ((imp.scores, whole.scores), (imp.holds, whole.holds)):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(imp.std_errors, whole.std_errors, rtol=2e-7)  # row scores in float32, in another order
    terms, chance = (answer.fixed + answer.own).sum(axis=2), answer.chance.sum(axis=1) / answer.weight.sum()
    near = max(case.near, FLOAT32)
    for k, label in enumerate(found.labels):
        here = by == label
        clusters = [None if answer.clusters is None else answer.clusters[some] for some in (here, ~here)]
        own, rest = (
            replace(answer, weight=answer.weight[some], clusters=each, s=answer.s[some], l=answer.l[some])
            for some, each in zip((here, ~here), clusters, strict=True)
        )
        score, other = (terms[some].sum(axis=0) / part.weight.sum() for some, part in ((here, own), (~here, rest)))
        size = np.abs(terms).sum(axis=0).max() / own.weight.sum()
        assert (found.rows[k], found.weights[k]) == (here.sum(), pytest.approx(own.weight.sum()))
        np.testing.assert_allclose(found.statistics.score[k], score - chance, rtol=0, atol=near * size)
        np.testing.assert_allclose(found.difference.score[k], score - other, rtol=0, atol=3 * near * size)
        error, error_rest = own.error(terms[here]), rest.error(terms[~here])
        np.testing.assert_allclose(found.statistics.std_error[k], error, rtol=1e-5, atol=1e-6 * error.max())
        if answer.clusters is None:  # other rows are independent rows
            both = np.hypot(error, error_rest)
            np.testing.assert_allclose(found.difference.std_error[k], both, rtol=1e-5, atol=1e-6 * both.max())
        s, steep = own.s.sum(axis=(0, 2)), (own.s - own.l).sum(axis=(0, 2))
        holds = np.divide(s, steep, out=np.full(len(s), np.nan), where=steep > 1e-12)
        np.testing.assert_allclose(found.statistics.holds[k], holds, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("score", ["signal", "tree_inner", "loss"])
@pytest.mark.parametrize("method", ["centred", "predecomp", "treeshap"])
def test_segments_add_up_to_the_whole_and_to_the_fall_of_the_loss(fitted, score, method):
    if score == "signal" and method != "centred":
        pytest.skip("signal is centred")
    model, X, y, region = fitted
    weight = np.random.default_rng(3).choice([0.0, 0.5, 2.0], len(y))
    imp = ti.importance(model, X, y, by=region, score=score, method=method, sample_weight=weight)
    found = imp.by_segment
    share = found.weights / found.weights.sum()
    np.testing.assert_allclose(
        share @ found.statistics.score, imp.scores, rtol=0, atol=1e-12 * np.abs(imp.scores).max()
    )
    for name, whole in (("loss_before", imp.losses.before), ("loss_after", imp.losses.after)):
        assert share @ getattr(found, name) == pytest.approx(whole, rel=1e-12)
    for label, loss in zip(found.labels, found.loss_after, strict=True):
        here = region == label
        mine = 0.5 * np.average((y - model.predict(X))[here] ** 2, weights=weight[here])
        assert loss == pytest.approx(mine, rel=1e-5)  # XGBoost predicts in float32
    if score == "loss":  # what scores leave of the fall is the base's, and that of all rows comes from the leaves
        base = found.loss_before - found.loss_after - found.statistics.score.sum(axis=1)
        assert share @ base == pytest.approx(imp.base, abs=1e-9)


@pytest.mark.parametrize("score", ["tree_inner", "loss"])
def test_a_segment_is_its_rows_with_the_reference_of_all(fitted, score):
    model, X, y, region = fitted
    whole = ti.importance(model, X, y, score=score, by=region)
    every, rounds = ti.attribute(model, X, method="centred", reference=whole), np.zeros((len(y), 4))
    before = np.full(len(y), float(model.get_booster().attr("x") or model.intercept_[0]))
    total = np.zeros((len(y), 4))
    for number in range(30):
        part = ti.read_model(model, iteration_range=(0, number + 1))
        reference = ti.importance(part, X, y, score="tree_inner", std_errors=False)
        so_far = ti.attribute(part, X, method="centred", reference=reference).values
        margin = model.predict(X, iteration_range=(0, number + 1)).astype(float)
        step = margin - before
        rounds += (so_far - total) * ((y - before) - (step / 2 if score == "loss" else 0.0))[:, None]
        before, total = margin, so_far
    np.testing.assert_allclose(total, every.values, rtol=0, atol=1e-9)
    for label, found in zip(whole.by_segment.labels, whole.by_segment.statistics.score, strict=True):
        np.testing.assert_allclose(found, rounds[region == label].mean(axis=0), rtol=0, atol=1e-5)  # float32 margins


@pytest.mark.parametrize("name", ["xgb_clusters", "skl_votes", "lgb_quantile"])
def test_clusters_with_rows_on_both_sides_move_both(name):
    case = CASES[name]
    by = np.random.default_rng(1).choice(["u", "v"], len(case.X))
    imp, answer = case.importance(by=by), case.answer()
    terms, alive = (answer.fixed + answer.own).sum(axis=2), answer.weight > 0
    moves, spread = {}, 0.0
    for label, sign in (("u", 1.0), ("v", -1.0)):  # what each cluster does to the difference
        here = alive & (by == label)
        clusters = np.unique(answer.clusters[here])
        sums = np.array([terms[here & (answer.clusters == one)].sum(axis=0) for one in clusters])
        for one, move in zip(clusters, sums - sums.mean(axis=0), strict=True):
            moves[one] = moves.get(one, 0.0) + sign * move / answer.weight[here].sum()
        own = (sums - sums.mean(axis=0)) / answer.weight[here].sum()
        spread = spread + (own**2).sum(axis=0) / (len(clusters) - 1)  # n / (n - 1) is of each side alone
    expected = np.sqrt(sum(move**2 for move in moves.values()) + spread)
    np.testing.assert_allclose(imp.by_segment.difference.std_error[0], expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(*imp.by_segment.difference.std_error, rtol=1e-9)
    assert case.importance(by=by, score="tree_inner").top(2).segments["holds"].isna().all()


def test_bits_do_not_depend_on_threads_batches_or_the_order_of_rows(fitted, tmp_path):
    model, X, y, region = fitted
    cluster, order = np.arange(len(y)) // 3, np.random.default_rng(0).permutation(len(y))
    one = ti.importance(model, X, y, by=region, clusters=cluster, n_jobs=1)
    table = X.assign(region=region, cluster=cluster, y=y).iloc[order]
    batches = [table.iloc[i : i + 70] for i in range(0, len(y), 70)]
    table.to_parquet(tmp_path / "rows.parquet")
    given = {"y": "y", "by": "region", "clusters": "cluster"}
    for source in (table, pl.from_pandas(table), tmp_path / "rows.parquet", lambda: iter(batches)):
        other = ti.importance(model, source, **given)
        assert_same(one.by_segment, other.by_segment)
    assert_same(one.by_segment, pickle.loads(pickle.dumps(one)).by_segment)


def test_groups_outputs_and_out_of_bag(fitted):
    model, X, y, region = fitted
    grouped = ti.importance(model, X, y, by=region, feature_groups={"pair": ["x1", "x2"]})
    assert grouped.by_segment.statistics.score.shape == (3, 3)
    classes = np.digitize(y, [-1, 1])
    several = xgb.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(X, classes)
    imp = ti.importance(several, X, classes, by=region, score="loss")
    share = imp.by_segment.weights / len(y)
    np.testing.assert_allclose(share @ imp.by_segment.statistics.score, imp.scores, rtol=0, atol=1e-12)
    assert imp.for_output("2").by_segment is None
    forest = RandomForestRegressor(20, max_depth=4, random_state=0).fit(X, y)
    imp = ti.importance(forest, X, y, by=region, oob=True, score="tree_inner")
    np.testing.assert_allclose(share @ imp.by_segment.statistics.score, imp.scores, rtol=0, atol=1e-12)


# -- what differs ----------------------------------------------------------------------------------------------------
def test_the_region_where_an_effect_is_gone_is_found():
    model, X, y, region = made(3_000, effect=1.0)
    imp = ti.importance(model, X.assign(region=region), y, by="region")
    table = imp.segments
    assert list(table.columns) == COLUMNS
    assert len(table) == 12
    worst = table.loc[table["difference"].idxmin()]
    assert (worst["segment"], worst["feature"]) == ("b", "x1")
    assert worst["difference_q_value"] < 1e-3
    assert abs(worst["holds"]) < 0.3
    test = imp.segment_test
    assert list(test.columns) == ["feature", "cochran_q", "df", "p_value", "q_value"]
    assert test["feature"][0] == "x1"
    assert test["q_value"][0] < 1e-3
    assert imp.top(2).segments["feature"].tolist() == list(imp.top(2).feature_names) * 3


def test_cochrans_q_is_its_formula_and_its_p_value_welchs(fitted):
    model, X, y, region = fitted
    imp = ti.importance(model, X, y, by=region)
    found, same = imp.by_segment.statistics, imp.by_segment.same
    weight = 1 / found.std_error**2
    mean = (weight * found.score).sum(axis=0) / weight.sum(axis=0)
    q = (weight * (found.score - mean) ** 2).sum(axis=0)
    np.testing.assert_allclose(same["cochran_q"], q, rtol=1e-9)
    assert same["df"].tolist() == [2.0] * 4
    rough = ((1 - weight / weight.sum(axis=0)) ** 2 / found.df).sum(axis=0)
    p = scipy.stats.f.sf(q / 2 / (1 + rough / 4), 2, 8 / (3 * rough))
    np.testing.assert_allclose(same["p_value"], p, rtol=1e-9)


def test_where_nothing_differs_one_in_twenty_differs():
    apart, same = [], []
    for seed in range(40):
        model, X, y, region = made(400, seed)
        found = ti.importance(model, X, y, by=region, n_jobs=1).by_segment
        apart.append(found.difference.p_value.ravel() < 0.05)
        same.append(found.same["p_value"] < 0.05)
    # 480 and 160 tests, in part of the same rows: 0.05 and three binomial standard errors (of 320 and 160).
    assert np.mean(apart) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 320)
    assert np.mean(same) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 160)
    assert np.mean(apart) > 0.02  # and not by being blind


# -- labels ----------------------------------------------------------------------------------------------------------
DATES = pd.Series(pd.to_datetime(["2024-01-31", "2024-02-01", "2023-12-31", "2024-02-29"] * 50))
LABELS = {
    "numbers": ([2, 10, 1, 10] * 50, None, ("1", "2", "10")),
    "floats": (np.array([2.0, np.nan, 1.5, 2.0] * 50), None, ("1.5", "2", "(missing)")),
    "text": (["b", "a", None, "b"] * 50, None, ("a", "b", "(missing)")),
    "intervals": (pd.cut(pd.Series([1.0, 8.0, 20.0, 8.0] * 50), [0, 5, 10, 30]), None,
                  ("(0, 5]", "(5, 10]", "(10, 30]")),
    "two": (pd.DataFrame({"r": list("xyx") * 67, "s": [10, 1, 2] * 67})[:200], None, ("x / 2", "x / 10", "y / 1")),
    "months": (DATES, "M", ("2023-12", "2024-01", "2024-02")),
    "month ends": (DATES.dt.date, "ME", ("2023-12", "2024-01", "2024-02")),
    "quarters of text": (DATES.astype(str), "Q", ("2023Q4", "2024Q1")),
    "weeks of polars": (pl.Series(DATES.dt.date.tolist()), "W",
                        ("2023-12-25/2023-12-31", "2024-01-29/2024-02-04", "2024-02-26/2024-03-03")),
    "months of a zone": (DATES.dt.tz_localize("Europe/Berlin"), "M", ("2023-12", "2024-01", "2024-02")),
    "months and text": (pd.DataFrame({"r": ["1010", "1011"] * 100, "d": DATES}), "M",
                        ("1010 / 2023-12", "1010 / 2024-01", "1011 / 2024-02")),
    "days": (DATES.to_numpy(), None, ("2023-12-31", "2024-01-31", "2024-02-01", "2024-02-29")),
}  # fmt: skip


@pytest.mark.parametrize("kind", LABELS)
def test_labels_are_text_in_order(fitted, kind):
    model, X, y, _ = fitted
    by, freq, labels = LABELS[kind]
    found = ti.importance(model, X[:200], y[:200], by=by, freq=freq).by_segment
    assert found.labels == labels
    assert found.rows.sum() == 200


@pytest.mark.parametrize("freq", ["D", "W-WED", "MS", "QE-NOV", "QS-OCT", "QS-FEB", "YE-MAR", "YS-APR"])
def test_periods_are_those_of_resample(freq):
    days = pd.Series(1, index=pd.date_range("2021-11-03", "2024-07-01", freq="7D"))
    rows, (keys, labels) = days.resample(freq).sum(), segments_of(days.index, len(days), freq)
    assert np.bincount(keys).tolist() == rows[rows > 0].tolist()
    assert "S-" not in freq or list(labels) == rows.index.strftime("%Y-%m").tolist()


def test_columns_are_found_by_name_and_a_feature_may_be_one_of_them(fitted):
    model, X, y, region = fitted
    table = X.assign(region=region, year=[2020, 2021] * 300, y=y)
    imp = ti.importance(model, table, "y", by=["region", "year"])
    assert imp.by_segment.labels == tuple(f"{r} / {t}" for r, t in itertools.product("abc", (2020, 2021)))
    plain = xgb.XGBRegressor(n_estimators=3, n_jobs=1).fit(X.round().to_numpy(), y)  # stores no names
    assert len(ti.importance(plain, X.round(), y, by="x3").by_segment.labels) == X["x3"].round().nunique()


def test_small_segments_have_a_note_and_rows_without_weight_are_no_segment(fitted):
    model, X, y, region = fitted
    by = region.astype(object)
    by[:3], by[3:5] = "tiny", "gone"
    with pytest.warns(ti.TreeInnerWarning, match=r"fewer than 30 rows: 'tiny' \(3\)") as seen:
        imp = ti.importance(model, X, y, by=by, sample_weight=(by != "gone") * 1.0)
    assert imp.by_segment.labels == ("a", "b", "c", "tiny")
    with pytest.warns(ti.TreeInnerWarning, match=r"rows: 'a town whose\.\.\.not short, -1' \(6\), \.\.\.; their"):
        ti.importance(model, X, y, by=[f"a town whose name is not short, {9 - i % 100}" for i in range(600)])
    assert max(len(str(one.message)) for one in seen) <= 175  # with the code
    alone = ti.importance(model, X, y, by=np.where(np.arange(len(y)) == 0, "one", "others"))
    assert np.isinf(alone.by_segment.statistics.std_error[0]).all()
    assert (alone.by_segment.difference.p_value == 1).all()


BAD = {
    "one level": ({"by": ["a"] * 600}, "one level, 'a'"),
    "short": ({"by": ["a", "b"]}, "'a', 'b'; pass one label for each of the 600 rows, or columns"),
    "mapping": ({"by": {"region": ["a", "b"] * 300}}, "by holds a dict; pass"),
    "no column": ({"by": "region"}, "no such column"),
    "no dates": ({"by": ["a", "b"] * 300, "freq": "M"}, "needs dates"),
    "numbers are no dates": ({"by": [1, 2] * 300, "freq": "M"}, "needs dates"),
    "no period": ({"by": [datetime.date(2024, 1, 1)] * 600, "freq": "moon"}, "'moon' is no period"),
    "weekdays": ({"by": [datetime.date(2024, 1, 1)] * 600, "freq": "B"}, "'B' is no period"),
    "several periods": ({"by": [datetime.date(2024, 1, 1)] * 600, "freq": "2M"}, "'2M' is no period"),
    "freq alone": ({"freq": "M"}, "pass by="),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_told_apart_is_refused(fitted, name):
    model, X, y, _ = fitted
    given, words = BAD[name]
    with pytest.raises((ti.DataError, ValueError), match=words):
        ti.importance(model, X, y, **given)


def test_a_thousand_segments_and_no_more(fitted):
    model, X, y, _ = fitted
    many = pd.concat([X, X], ignore_index=True)
    for freq, words in ((None, "1,001 different labels, at most 1,000"), ("M", "needs dates")):
        with pytest.raises(ti.DataError, match=words):
            ti.importance(model, many, np.tile(y, 2), by=np.arange(1_200) % 1_001, freq=freq)
    with pytest.warns(ti.TreeInnerWarning, match="small_segments"):
        found = ti.importance(model, many, np.tile(y, 2), by=np.arange(1_200) % 1_000)
    assert len(found.by_segment.labels) == 1_000
    with pytest.raises(ti.DataError, match="read again"):
        ti.importance(model, iter([(X, y)]), by="x0")


# -- windows of time -------------------------------------------------------------------------------------------------
def test_windows_with_a_reference_are_scored_once_and_compared_without_their_rows():
    model, X, y, region = made(4_000, effect=1.0)
    old = np.arange(4_000) < 2_000
    reference = ti.importance(model, X[old], y[old])
    days = [np.flatnonzero(~old & (region == name)) for name in "ab"]
    kept = []
    for rows in days:
        acc = ti.ImportanceAccumulator(model, reference=reference)
        for part in np.array_split(rows, 3):
            acc.update(X.iloc[part], y[part])
        kept.append(pickle.loads(pickle.dumps(acc)))
    for rows, acc in zip(days, kept, strict=True):
        imp = acc.result()
        phi = ti.attribute(model, X.iloc[rows], method="centred", reference=reference).values
        left = y[rows, None] - model.predict(X.iloc[rows])[:, None] + phi  # without the feature's own effect
        np.testing.assert_allclose(imp.holds, (phi * left).sum(axis=0) / (phi * phi).sum(axis=0), rtol=1e-4)
        assert np.isfinite(imp.std_errors).all()
        again = ti.attribute(model, X.iloc[rows], method="centred", reference=imp).values
        np.testing.assert_array_equal(phi, again)
    found = kept[0].compare(kept[1], names=("a", "b"))
    loss = [0.5 * np.mean((y[rows] - model.predict(X.iloc[rows])) ** 2) for rows in days]
    assert found.loss_before == pytest.approx(loss[0], rel=1e-5)  # XGBoost predicts in float32
    rise = found.loss_after - found.loss_before
    # Gradients are summed in the leaves in units of 2^-32.
    assert rise == pytest.approx(found.harder + found.base + found.change.score.sum(), rel=1e-8)
    assert found.feature_names[found.order[0]] == "x1"
    assert found.verdicts[1] == "worse"
    assert found.change.std_error[1] == pytest.approx(
        np.hypot(found.before.std_errors[1], found.after.std_errors[1]), rel=1e-12
    )
    both = sum(kept).result()
    part = np.array([len(rows) for rows in days]) / sum(map(len, days))
    means = part @ np.array([acc.result().scores for acc in kept])
    np.testing.assert_allclose(both.scores, means, rtol=0, atol=1e-12)
    with pytest.raises(ti.DataError, match="no segments"):
        kept[0].update(X, y, by=region)
    with pytest.raises(ValueError, match="second pass"):
        kept[0].second_pass()
    unlike = ti.ImportanceAccumulator(model).update(X, y)
    weighted = kept[1].update(X, y, sample_weight=np.linspace(0.1, 1.0, len(y)))
    for other, words in ((unlike, "same model"), ((X, y), "got tuple"), (weighted, "sample_weight was given")):
        with pytest.raises((ti.ModelError, ti.DataError, TypeError), match=words):
            kept[0].compare(other)
    for other, words in ((made(10, 5)[0], "another model"), (RandomForestRegressor(2).fit(X, y), "cannot be compared")):
        with pytest.raises(ValueError, match=words):
            ti.ImportanceAccumulator(other, reference=reference)


def test_the_example_with_a_state_per_day_finds_the_months_that_went_wrong(tmp_path, capsys):
    pytest.importorskip("pandas", minversion="2.2")
    found = runpy.run_path(Path(__file__).parents[2] / "examples" / "daily.py")["main"](tmp_path)
    worse = {
        month: [name for name, verdict in zip(one.feature_names, one.verdicts, strict=True) if verdict == "worse"]
        for month, one in found.items()
    }
    wrong = {"2025-09": ["temperature"], "2025-11": ["hour", "weekday"]}
    assert worse == {month: wrong.get(month, []) for month in found}
    assert "2025-11" in capsys.readouterr().out
