"""plots.partial: what is drawn are the contributions, the rows' own means, and a line whose slope is `holds`."""

import re

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from catboost import CatBoostRegressor
from scipy.stats import t as student
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402

import treeinner as ti  # noqa: E402
from tests.show.legible import check_legible, clean_style, titled  # noqa: E402, F401
from treeinner.show.plots import style  # noqa: E402

LINE, RIGHT = "line that fits the rows best: its slope is holds", "the model is right"
N = 400
RNG = np.random.default_rng(0)
TOWNS = np.array(["Aachen", "Berlin", "Celle", None], object)
X = pd.DataFrame(RNG.normal(size=(2 * N, 3)), columns=["bmi", "age", "noise"]).assign(
    visits=RNG.integers(0, 5, 2 * N).astype(float), town=pd.Categorical(TOWNS[RNG.integers(0, 4, 2 * N)]), constant=1.0
)
X.loc[::7, "bmi"] = np.nan
ETA = X["bmi"].fillna(-1) + np.sin(3 * X["age"]) + 0.3 * X["visits"] + 0.4 * X["town"].cat.codes - 0.8
Y = (ETA + RNG.logistic(size=2 * N)).to_numpy()
WEIGHT = RNG.integers(0, 3, N).astype(float)
TRAIN, VALID = slice(0, N), slice(N, 2 * N)
SMALL = {"n_estimators": 12, "max_depth": 3, "n_jobs": 1}
NUMBERS = ["bmi", "age", "noise", "visits"]
pytestmark = pytest.mark.filterwarnings("ignore::treeinner.TreeInnerWarning")


def fitted(model, columns, y=Y, frame=X, **given):
    """A model of the first rows, the others with their targets, and no more arguments."""
    return model.fit(frame[TRAIN][columns], y[TRAIN], **given), frame[VALID][columns], y[VALID], {}


def booster(y=Y, columns=NUMBERS, **settings):
    return fitted(xgb.XGBRegressor(**SMALL, enable_categorical=True, **settings), columns, y)


def light(made, y, **given):
    return fitted(made.set_params(**SMALL, verbose=-1), NUMBERS, y, **given)


def with_catboost():
    frame = X.assign(town=X["town"].astype(object).fillna("none"))
    model = CatBoostRegressor(iterations=12, depth=3, thread_count=1, verbose=False, allow_writing_files=False)
    return fitted(model, [*NUMBERS, "town"], frame=frame, cat_features=["town"])


def with_pipeline():
    step = make_column_transformer((OneHotEncoder(sparse_output=False), ["town"]), remainder="passthrough")
    return fitted(make_pipeline(step, xgb.XGBRegressor(**SMALL)), ["age", "town"])


def by_sklearn(model, y):
    return fitted(model, NUMBERS, y, X[NUMBERS].fillna(0))


CLASSES = np.array(["dog", "cat", "cow"])[np.digitize(Y, [-1, 1])]
COUNTS = np.floor(np.exp(0.3 * Y)).clip(0, 20)
QUERY = np.repeat(np.arange(N // 10), 10)
CASES = {
    "squared error": booster,
    "weights, some 0": lambda: (*booster()[:3], {"sample_weight": WEIGHT}),
    "clusters": lambda: (*booster()[:3], {"clusters": QUERY}),
    "base_margin": lambda: (*booster()[:3], {"base_margin": np.linspace(-1, 1, N)}),
    "categories": lambda: booster(columns=["town", "bmi"]),
    "groups": lambda: (*booster()[:3], {"feature_groups": {"both": ["bmi", "age"]}}),
    "logistic, weighted classes": lambda: booster((Y > 0) * 1.0, objective="binary:logistic", scale_pos_weight=3.0),
    "absolute error": lambda: booster(objective="reg:absoluteerror"),
    "poisson": lambda: booster(COUNTS, objective="count:poisson"),
    "cox": lambda: booster(np.where(COUNTS > 1, COUNTS + 1, -COUNTS - 1), objective="survival:cox"),
    "quantile": lambda: light(lgb.LGBMRegressor(objective="quantile", alpha=0.7), Y),
    "ranking": lambda: (*light(lgb.LGBMRanker(), COUNTS, group=[10] * (N // 10))[:3], {"qid": QUERY}),
    "three classes": lambda: by_sklearn(HistGradientBoostingClassifier(max_iter=10), CLASSES),
    "forest": lambda: by_sklearn(RandomForestRegressor(20, max_depth=5, random_state=0), Y),
    "forest of classes": lambda: by_sklearn(RandomForestClassifier(20, max_depth=5, random_state=0), CLASSES),
    "catboost": with_catboost,
    "pipeline": with_pipeline,
}


def lines_of(ax, label):
    (line,) = (one for one in ax.lines if one.get_label() == label)
    return line.get_xdata(), line.get_ydata()


def points_of(ax, label="mean of similar rows, 95 % interval"):
    """Places, means, and ends of the intervals of the points under a label."""
    (bars,) = (one for one in ax.containers if one.get_label() == label)
    (ends,) = bars.lines[2]
    return (*bars.lines[0].get_data(), np.array([segment[:, 1] for segment in ends.get_segments()]))


# -- laws ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", CASES)
def test_the_slope_of_the_line_is_holds(case):
    model, rows, y, given = CASES[case]()
    imp = ti.importance(model, rows, y, **given)
    used = [name for name, holds in zip(imp.feature_names, imp.holds, strict=True) if np.isfinite(holds)]
    for output in (None,) if imp.outputs is None else imp.output_names:
        axes = ti.plots.partial(model, rows, y, used, output=output, importance=imp, **given)
        exact = imp if output is None else imp.for_output(output)
        for name, (left, _) in zip(used, axes, strict=True):
            x, line = lines_of(left, LINE)
            k = imp.feature_names.index(name)
            # Sums over rows in another order: rounding alone.
            np.testing.assert_allclose(np.ptp(line) / np.ptp(x) * np.sign(line[1]), exact.holds[k], rtol=1e-9)
            np.testing.assert_array_equal(*lines_of(left, RIGHT))
        plt.close("all")


def test_a_dot_is_what_a_row_contributes_and_what_is_left_of_its_target():
    model, rows, y, _ = booster()
    imp = ti.importance(model, rows, y)
    a = ti.attribute(model, rows, method="centred", reference=imp)
    (left, _), *_ = ti.plots.partial(model, rows, y, "age")
    x, up = left.collections[0].get_offsets().T
    np.testing.assert_allclose(x, a[:, "age"], atol=1e-12)
    # The library predicts in float32.
    np.testing.assert_allclose(up, y - (model.predict(rows) - a[:, "age"]), atol=1e-5)


@pytest.mark.parametrize("given", [{}, {"sample_weight": WEIGHT}])
@pytest.mark.parametrize("name", ["visits", "town"])
def test_points_over_values_are_weighted_means_with_their_intervals(name, given):
    model, rows, y, _ = booster(columns=["town", "visits", "bmi"])
    imp = ti.importance(model, rows, y, **given)
    w = given.get("sample_weight", np.ones(N))
    phi = ti.attribute(model, rows, method="centred", reference=imp)[:, name]
    left_over = phi + y - model.predict(rows)
    ((_, right),) = ti.plots.partial(model, rows, y, name, importance=imp, **given)
    at, means, ends = points_of(right)
    values = at.tolist() if name == "visits" else [label.get_text() for label in right.get_xticklabels()]
    assert sorted(values) == sorted(rows[name].dropna().unique())
    line = lines_of(right, "mean contribution")[1]
    for i, value in enumerate(values):
        here = (rows[name] == value).to_numpy() & (w > 0)
        r, weight, n = left_over[here], w[here], here.sum()
        mean = np.average(r, weights=weight)
        half = student.ppf(0.975, n - 1) * np.sqrt(n / (n - 1) * ((weight * (r - mean)) ** 2).sum()) / weight.sum()
        # The library predicts in float32.
        np.testing.assert_allclose([means[i], *ends[i]], [mean, mean - half, mean + half], rtol=1e-4, atol=1e-5)
        if name == "visits":
            np.testing.assert_allclose(line[i], np.average(phi[here], weights=weight), atol=1e-9)
    if name == "town":
        assert len(line) == 0  # categories are not on a line
        heaviest = [w[(rows[name] == town).to_numpy()].sum() for town in values]
        assert heaviest == sorted(heaviest, reverse=True)
        here = rows[name].isna().to_numpy()
        mean = np.average(left_over[here], weights=w[here])
        np.testing.assert_allclose(points_of(right, "missing values")[1], mean, atol=1e-5)


def test_clusters_are_the_units_of_the_intervals():
    model, rows, y, _ = booster(columns=["visits"])
    twice = (pd.concat([rows, rows]), np.concatenate([y, y]))
    once, again = (
        ti.plots.partial(model, rows, y, "visits"),
        ti.plots.partial(model, *twice, "visits", clusters=np.tile(np.arange(N), 2)),
    )
    for one, other in zip(points_of(once[0, 1]), points_of(again[0, 1]), strict=True):
        np.testing.assert_allclose(one, other)


# -- pictures --------------------------------------------------------------------------------------------------------
def test_titles_state_the_finding():
    model, rows, y, _ = booster()
    imp = ti.importance(model, rows, y)
    axes = ti.plots.partial(model, rows, y, ["bmi", "noise"], importance=imp)
    bmi, noise = (titled(left) for left in axes[:, 0])
    assert imp["bmi"].holds_std_error < 0.5
    holds, error = imp["bmi"].holds, imp["bmi"].holds_std_error  # above 100 % as the table has it
    part = f"{100 * holds:.0f} ± {100 * error:.0f} % of the effect holds"
    assert bmi == "bmi: " + (part if holds <= 1 else f"holds {holds:.2f} ± {error:.2f}")
    assert ("not clear" in noise) == (imp["noise"].holds_std_error >= 0.5)
    model, rows, y, _ = CASES["three classes"]()
    imp = ti.importance(model, rows, y)
    (left, _), *_ = ti.plots.partial(model, rows, y, "bmi", output="cow")
    assert re.search("holds .* for cow|for cow holds", titled(left))
    (left, _), *_ = ti.plots.partial(model, rows, y, "bmi")
    best = imp.output_names[imp.outputs.score[imp.feature_names.index("bmi")].argmax()]
    assert re.search(f"holds .* for {best}|for {best} holds", titled(left))


def test_without_names_the_best_features_are_drawn():
    model, rows, y, _ = booster()
    imp = ti.importance(model, rows, y)
    axes = ti.plots.partial(model, rows, y, max_display=2)
    assert axes.shape == (2, 2)
    assert [titled(left).split(":")[0] for left in axes[:, 0]] == list(imp.top(2).feature_names)
    assert len(ti.plots.partial(model, rows, y)) <= 4  # no more than help
    with pytest.raises(TypeError, match="pass names or positions in a list, or max_display=2"):
        ti.plots.partial(model, rows, y, 2)
    assert len(axes[0, 0].figure.legends) == 1


def test_many_rows_are_hexagons_and_rows_outside_are_counted():
    model, rows, y, _ = booster()
    many = pd.concat([rows] * 6), np.tile(y, 6)
    few, left = ti.plots.partial(model, rows, y, "bmi")[0, 0], ti.plots.partial(model, *many, "bmi")[0, 0]
    assert isinstance(left.collections[0], mpl.collections.PolyCollection)
    low, high = few.get_ylim()
    up = few.collections[0].get_offsets()[:, 1]
    share = float(re.search(r"([\d.]+) % of the rows", few.get_xlabel().replace("\n", " ")).group(1))
    np.testing.assert_allclose(share, 100 * np.mean((up < low) | (up > high)), rtol=0.05)


def test_axes_of_the_user():
    model, rows, y, _ = booster()
    figure, ax = plt.subplots()
    assert ti.plots.partial(model, rows, y, "bmi", ax=ax) is ax
    assert len(figure.legends) == 1
    figure, pair = plt.subplots(1, 2, layout="constrained")
    axes = ti.plots.partial(model, rows, y, "bmi", ax=pair)
    assert axes.ravel().tolist() == pair.tolist()
    with plt.style.context("dark_background"):
        (left, right), *_ = ti.plots.partial(model, rows, y, "bmi")
        (fit,) = (line for line in left.lines if line.get_label() == LINE)
        assert to_hex(fit.get_color()) == "#ffffff"
        (model_line,) = (line for line in right.lines if line.get_label() == "mean contribution")
        assert model_line.get_color() == style.BLUE


def test_long_names_stay_inside_and_are_not_formulas():
    long, longer = (f"measurement_$of$_sensor_{i}_in_the_long_building_on_mondays_and_on_other_days" for i in (3, 4))
    rows = X[["bmi", "town", "age"]].rename(columns={"bmi": long, "age": longer})
    rows["town"] = rows["town"].cat.rename_categories({"Celle": "a town with a name that is much too long for a tick"})
    model = xgb.XGBRegressor(n_estimators=12, max_depth=3, n_jobs=1, enable_categorical=True).fit(rows[TRAIN], Y[TRAIN])
    axes = ti.plots.partial(model, rows[VALID], Y[VALID], [long, "town", longer])
    assert len({titled(left).split(":")[0] for left in axes[:, 0]}) == 3  # short, and still different
    check_legible(axes[0, 0].figure)


def test_a_group_has_no_values_of_its_own():
    model, rows, y, given = CASES["groups"]()
    (left, right), *_ = ti.plots.partial(model, rows, y, "both", **given)
    assert left.lines
    assert not right.axison


# -- refusals ----------------------------------------------------------------------------------------------------------
def test_what_cannot_be_drawn_is_refused_by_name():
    model, rows, y, _ = booster(columns=["bmi", "age", "constant"])
    with pytest.raises(ti.DataError, match="no effect of 'constant' to draw"):
        ti.plots.partial(model, rows, y, ["bmi", "constant"])
    with pytest.raises((ValueError, KeyError), match="'weight'"):
        ti.plots.partial(model, rows, y, "weight")
    with pytest.raises(ti.DataError, match=r"must be ti.importance.*of the same model, rows and features"):
        ti.plots.partial(model, rows, y, importance=ti.importance(model, rows, y, score="loss"))
    with pytest.raises(ti.DataError, match="of the same model, rows and features"):
        ti.plots.partial(model, rows[:50], y[:50], importance=ti.importance(model, rows, y))
    with pytest.raises(ValueError, match="ax= has 3 Axes; for 1 feature, pass 1 or 2"):
        ti.plots.partial(model, rows, y, "bmi", ax=plt.subplots(1, 3)[1])
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        ti.plots.partial(model, rows, y, weights=y)
    with pytest.raises(TypeError, match="partial expected an object of type Importance"):
        ti.plots.partial(model, rows, y, importance=[1.0])
    model, rows, y, _ = CASES["three classes"]()
    with pytest.raises((ValueError, KeyError), match="'horse'"):
        ti.plots.partial(model, rows, y, "bmi", output="horse")
    constant = xgb.XGBRegressor(n_estimators=2, max_depth=3, n_jobs=1).fit(rows[:9], np.ones(9))
    with pytest.raises(ti.DataError, match="no effect of any feature to draw"):
        ti.plots.partial(constant, rows, np.arange(N) % 2)
