"""Plots: what they show, that nothing overlaps, and pictures of each.

The numbers are made by hand, so that a picture changes only if the drawing does.
Regenerate the pictures with: TREEINNER_WRITE_BASELINES=1 python -m pytest tests/show/test_plots.py -k picture
"""

import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402
from matplotlib.testing.compare import compare_images  # noqa: E402

from tests.show.results import NAMES, make_breakdown, make_comparison, make_importance  # noqa: E402
from treeinner.score.infer import unknown  # noqa: E402
from treeinner.show import plots  # noqa: E402
from treeinner.show.plots import style  # noqa: E402
from treeinner.show.table import VERDICT_COLOURS  # noqa: E402

BASELINES = Path(__file__).parent.parent / "baseline_images"
# Root mean square over the 256 levels of each pixel. Measured: matplotlib 3.9 against 3.11 gives 0.0 (see `posed`);
# one thing of its own missing, such as the rings of gap or a line of rounds, gives 4.7 to 13.
TOLERANCE = 1.5
STYLE = {"font.family": "DejaVu Sans", "text.hinting": "no_autohint"}


@pytest.fixture(autouse=True)
def clean_style():
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.use("Agg")
        mpl.rcParams.update(STYLE)
        yield
    plt.close("all")


LONG = tuple(f"measurement_of_sensor_{i:03d}_in_the_long_building_on_mondays"[:60].ljust(60, "x") for i in range(200))
MANY = np.linspace(1, -0.2, 200) ** 3


def texts(labels):
    return [label.get_text() for label in labels]


def said(ax):
    """The label of the scores on one line."""
    return ax.get_xlabel().replace("\n", " ")


def drawn(ax):
    ax.figure.canvas.draw()
    return ax


def bars_of(ax, color=None):
    return [p for p in ax.patches if p.get_width() and (color is None or to_hex(p.get_facecolor()) == color.lower())]


# -- pictures ----------------------------------------------------------------------------------------------
PICTURES = {
    "bar": lambda: plots.bar(make_importance(), total_gain=make_comparison().before.scores, top=4),
    "gap": lambda: plots.gap(make_comparison()),
    "rounds": lambda: plots.rounds(make_importance()),
    "curve": lambda: plots.curve(make_breakdown(), 2),
}


def posed(ax):
    """The figure in a fixed layout and without text, both of which differ between versions of matplotlib and FreeType.

    What the texts say and that they do not overlap is tested below.
    """
    ax.figure.set_layout_engine("none")
    ax.figure.set_size_inches(7, 4.5)
    for axes, place in zip(ax.figure.axes, ([0.25, 0.3, 0.5, 0.55], [0.9, 0.3, 0.02, 0.55]), strict=False):
        axes.set_position(place)
    for artist in (*ax.figure.findobj(mpl.text.Text), *ax.figure.findobj(mpl.legend.Legend)):
        artist.set_visible(False)
    return ax.figure


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name, tmp_path):
    figure = posed(PICTURES[name]())
    expected, actual = BASELINES / f"{name}.png", tmp_path / f"{name}.png"
    figure.savefig(actual, dpi=60, metadata={"Software": None})
    if os.environ.get("TREEINNER_WRITE_BASELINES"):
        figure.savefig(expected, dpi=60, metadata={"Software": None})
    different = compare_images(str(expected), str(actual), tol=TOLERANCE)
    assert different is None, different


@pytest.mark.skipif(bool(os.environ.get("TREEINNER_WRITE_BASELINES")), reason="writing the pictures")
def test_a_missing_bar_is_seen(tmp_path):
    ax = PICTURES["bar"]()
    bars_of(ax, style.BLUE)[0].set_width(0)
    posed(ax).savefig(tmp_path / "bar.png", dpi=60)
    assert compare_images(str(BASELINES / "bar.png"), str(tmp_path / "bar.png"), tol=TOLERANCE) is not None


def test_the_pictures_are_small():
    assert sum(p.stat().st_size for p in BASELINES.glob("*.png")) < 400_000


# -- bar ---------------------------------------------------------------------------------------------------
def test_bar_is_in_order_with_scores_intervals_and_colours():
    importance = make_importance()
    ax = drawn(plots.bar(importance))
    order = importance.order
    assert texts(ax.get_yticklabels()) == [NAMES[k] for k in order]
    low, high = ax.get_ylim()
    assert low > high  # the first row is on top
    np.testing.assert_allclose([p.get_width() for p in ax.patches], importance.scores[order])
    assert set(importance.verdicts) == set(VERDICT_COLOURS) == {"signal", "unclear", "harmful"}
    expected = [VERDICT_COLOURS[importance.verdicts[k]] for k in order]
    assert [to_hex(p.get_facecolor()) for p in ax.patches] == [c.lower() for c in expected]
    # The ends of the intervals are those of the result; a feature without spread has none.
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    used = [k for k in order if importance.scores[k] != 0]
    np.testing.assert_allclose(ends.T, [side[used] for side in importance.interval(0.95)])
    assert said(ax) == "TreeInner(centred) first-order reduction of half the squared error per row"
    assert texts(ax.get_legend().get_texts()) == [
        "signal (q <= 0.1)", "unclear", "harmful", "95% interval",
    ]  # fmt: skip


def test_total_gain_has_an_axis_of_its_own():
    importance = make_importance((4.0, 3.0, 2.0, 1.0, 0.0))
    ax = plots.bar(importance, total_gain=7 * importance.scores)
    gains, scores = bars_of(ax, style.ORANGE), bars_of(ax, style.BLUE) + bars_of(ax, style.GREY)
    assert len(gains) == 4
    np.testing.assert_allclose([p.get_width() for p in gains], [p.get_width() for p in scores])
    (above,) = ax.child_axes
    assert above.get_xlabel() == "total gain of the training rows"
    drawn(ax)
    np.testing.assert_allclose(above.get_xlim(), np.array(ax.get_xlim()) * 7)


def test_gain_as_importance_goes_by_name():
    importance = make_importance((4.0, 3.0, 2.0, 1.0, 0.0))
    backwards = make_importance((0.0, 1.0, 2.0, 3.0, 4.0), NAMES[::-1], score="total_gain")
    gains = bars_of(plots.bar(importance, total_gain=backwards), style.ORANGE)
    np.testing.assert_allclose([p.get_width() for p in gains], [4, 3, 2, 1])
    with pytest.raises(ValueError, match="has no feature 'age'"):
        plots.bar(importance, total_gain=make_importance(names="abcde"))
    with pytest.raises(ValueError, match=r"shape \(2,\).*5 features"):
        plots.bar(importance, total_gain=[1.0, 2.0])


def test_gain_beside_scores_that_are_all_negative():
    ax = plots.bar(make_importance((-1.0, -2.0), ("a", "b")), total_gain=[1.0, 3.0])
    np.testing.assert_allclose([p.get_width() for p in bars_of(ax, style.ORANGE)], [2 / 3, 2])
    assert "total gain (axis above)" in texts(ax.get_legend().get_texts())


def test_bar_without_standard_errors_draws_no_interval_and_positive_scores_in_colour():
    ax = plots.bar(make_importance(has_errors=False))
    assert not ax.collections
    assert len(bars_of(ax, style.BLUE)) == 3
    assert len(bars_of(ax, style.GREY)) == 1


def test_bar_of_one_row_has_no_infinite_interval():
    ax = drawn(plots.bar(make_importance((1.0, 2.0), ("a", "b"), statistics=unknown(np.array([1.0, 2.0])))))
    assert not ax.collections
    assert np.isfinite(ax.get_xlim()).all()


def test_bar_counts_what_it_leaves_out():
    importance = make_importance(MANY, LONG)
    ax = drawn(plots.bar(importance, top=20))
    labels = texts(ax.get_yticklabels())
    assert len(labels) == 21
    assert labels[-1] == "... and 180 more"
    assert labels[:20] == list(LONG[:20])
    assert texts(ax.texts) == [f"together {MANY[20:].sum():.3g}"]
    with pytest.raises(ValueError, match="top=0"):
        plots.bar(importance, top=0)


# -- gap ---------------------------------------------------------------------------------------------------
def test_gap_shows_both_sides_of_the_features_that_matter_on_either():
    # "noise" is the best on the training rows and the worst on the others: it must not be left out.
    comparison = make_comparison((1.0, 3.0, 0.5, 4.0, 0.1), (1.0, 2.5, 0.4, -0.3, 0.0))
    ax = drawn(plots.gap(comparison, top=3))
    assert texts(ax.get_yticklabels()) == ["bmi", "age", "noise", "... and 2 more"]
    *_, train, valid = ax.collections
    np.testing.assert_allclose(train.get_offsets(), [[3.0, 0], [1.0, 1], [4.0, 2]])
    np.testing.assert_allclose(valid.get_offsets(), [[2.5, 0], [1.0, 1], [-0.3, 2]])
    assert [to_hex(c) for c in valid.get_facecolors()] == [style.BLUE.lower()] * 2 + [style.VERMILLION.lower()]
    assert said(ax) == "TreeInner(centred) first-order reduction of half the squared error per row"


def test_gap_names_the_two_sides():
    shown = plots.gap(replace(make_comparison(), names=("old", "new"))).get_legend().get_texts()
    assert texts(shown) == ["old", "new, 95% interval: signal", "the same, unclear", "the same, harmful"]


# -- rounds ------------------------------------------------------------------------------------------------
def test_rounds_end_at_the_score():
    importance = make_importance()
    ax = drawn(plots.rounds(importance))
    lines = {line.get_label(): line for line in ax.lines if line.get_label() in NAMES}
    assert set(lines) == set(NAMES)
    for name, line in lines.items():
        assert line.get_ydata()[0] == 0
        assert len(line.get_ydata()) == 31
        np.testing.assert_allclose(line.get_ydata()[-1], importance.scores[NAMES.index(name)], atol=1e-12)
    # Names stand in the order of the ends.
    named = sorted(ax.texts, key=lambda t: -t.get_position()[1])
    assert texts(named) == [NAMES[k] for k in importance.order]


def test_rounds_of_the_signal_score_are_tree_inners():
    label = plots.rounds(make_importance(score="signal")).get_ylabel()
    assert label == plots.rounds(make_importance()).get_ylabel()
    assert label.startswith("cumulative TreeInner(centred)")


def test_rounds_of_chosen_features_by_name_or_position():
    ax = plots.rounds(make_importance(), features=["noise", 1])
    assert texts(ax.texts) == ["bmi", "noise"]
    with pytest.raises(ValueError, match="'height' is not a feature"):
        plots.rounds(make_importance(), features=["height"])
    with pytest.raises(ValueError, match="feature 9 does not exist; there are 5"):
        plots.rounds(make_importance(), features=[9])
    with pytest.raises(ValueError, match="There are no scores by round"):
        plots.rounds(replace(make_importance(), rounds=None))


# -- curve -------------------------------------------------------------------------------------------------
def heights(ax):
    """Label -> height of its areas at each round, (below, above) the start."""
    areas = ax.collections
    out = {}
    for below, above in zip(areas[::2], areas[1::2], strict=True):
        spans = []
        for area in (below, above):
            x, y = area.get_paths()[0].vertices.T
            spans.append(np.array([np.ptp(y[x == at]) for at in np.unique(x)]))
        out[below.get_label()] = spans
    return out


def test_the_areas_of_a_curve_add_up_to_the_fall_of_the_loss():
    account = make_breakdown()
    ax = drawn(plots.curve(account, ["noise", "bmi", "age"]))
    (loss,) = (line.get_ydata() for line in ax.lines if line.get_label() == "loss")
    assert loss[0] == account.losses.before
    np.testing.assert_allclose(loss[-1], account.losses.after)
    areas = heights(ax)
    assert list(areas) == ["bmi", "age", "noise", "1 other, helpful", "base (roots of the trees)"]
    net = sum(below - above for below, above in areas.values())
    np.testing.assert_allclose(net, account.losses.before - loss, atol=1e-12)
    # By feature, and harm above the start.
    cumulated = np.concatenate([np.zeros((1, 5)), np.cumsum(account.by_round(), axis=0)])
    for name, (below, above) in list(areas.items())[:3]:
        np.testing.assert_allclose(below - above, cumulated[:, NAMES.index(name)], atol=1e-12)
    assert not areas["noise"][0].any()
    assert areas["noise"][1][1:].all()
    assert "loss: 9 to 4.9" in texts(ax.texts)


def test_a_curve_does_not_hide_harm_among_the_other_features():
    ax = plots.curve(make_breakdown((1.0, 3.0, 0.5, -0.5, 0.0)), 1)
    areas = heights(ax)
    np.testing.assert_allclose(areas["2 others, helpful"][0][-1], 1.5)
    np.testing.assert_allclose(areas["1 other, harmful"][1][-1], 0.5)
    # A feature that helps and then harms is drawn on the side where it is.
    importance = make_breakdown((0.0, 3.0), ("turns", "b"), base=0.0)
    rounds = importance.rounds.copy()
    rounds[:, 0] = np.where(np.arange(30) < 10, 0.2, -0.2)
    below, above = heights(plots.curve(replace(
        importance, rounds=rounds, losses=replace(importance.losses, after=importance.losses.before - 3 + 2)
    )))["turns"]  # fmt: skip
    np.testing.assert_allclose((below - above)[[10, 30]], [2.0, -2.0], atol=1e-12)
    assert below[10] > 0 == above[10]
    assert above[30] > 0 == below[30]


def test_a_curve_of_something_else_is_a_clear_error():
    with pytest.raises(ValueError, match=r"plots.curve draws score='loss', got score='tree_inner'; use ti.importance"):
        plots.curve(make_importance())
    with pytest.raises(ValueError, match="There are no scores by round"):
        plots.curve(replace(make_breakdown(), rounds=None))
    with pytest.raises(ValueError, match=r"needs every feature; pass the importance itself, not its top\(\)"):
        plots.curve(make_breakdown().top(2))


# -- names, sizes, styles ----------------------------------------------------------------------------------
WIDE = {
    "bar": lambda ax: plots.bar(make_importance(MANY, LONG), ax=ax),
    "bar of 200": lambda ax: plots.bar(make_importance(MANY, LONG), top=200 if ax is None else 30, ax=ax),
    "gap": lambda ax: plots.gap(make_comparison(MANY, MANY, LONG), ax=ax),
    "rounds": lambda ax: plots.rounds(make_importance(MANY, LONG), 15, ax=ax),
    "curve": lambda ax: plots.curve(make_breakdown(MANY, LONG), 15, ax=ax),
}
BESIDE = ("rounds", "curve")  # names stand at the ends of lines


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("name", WIDE)
def test_nothing_overlaps_with_long_names_and_200_features(name, own):
    ax = None
    if not own:
        _, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
        ax = axes[0]
    returned = WIDE[name](ax)
    assert own or returned is ax
    ax = drawn(returned)
    labels = ax.texts if name in BESIDE else ax.get_yticklabels()
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.y0)
    assert len(boxes) >= 15
    for below, above in pairwise(boxes):
        assert below.y1 <= above.y0 + 1  # pixels are whole
    inside = ax.figure.bbox
    for box in boxes:
        assert box.x0 >= -1
        assert box.x1 <= inside.x1 + 1
        assert box.y0 >= -1
        assert box.y1 <= inside.y1 + 1
    assert len(set(texts(labels))) == len(labels)  # shortened names stay different
    body = ax.get_window_extent()
    assert body.width > 100
    legend = ax.get_legend()
    if legend is not None:  # it stands below the plot and hides nothing
        assert legend.get_window_extent().y1 <= body.y0
    if name not in BESIDE:
        assert max(box.x1 for box in boxes) <= body.x0


@pytest.mark.parametrize("names", [("a$b$", "x_1^2", "tab\tand\nline", "", " ")])
def test_names_are_not_formulas(names):
    ax = drawn(plots.bar(make_importance((5.0, 4.0, 3.0, 2.0, 1.0), names)))
    assert texts(ax.get_yticklabels()) == ["a$b$", "x_1^2", "tab and line", "''", "' '"]
    assert not any(label.get_parse_math() for label in ax.get_yticklabels())


def test_one_feature():
    one = make_importance((1.0,), ("only",))
    for ax in (
        plots.bar(one, total_gain=[3.0]),
        plots.rounds(one),
        plots.gap(make_comparison((1.0,), (0.5,), ("only",))),
    ):
        drawn(ax)
        width, height = ax.figure.get_size_inches()
        assert 1.5 < height < width < 9


def test_the_users_axes_and_style_are_kept():
    before = dict(mpl.rcParams)
    figure, (left, right) = plt.subplots(1, 2, layout="constrained")
    plt.sca(right)
    assert plots.bar(make_importance(), ax=left) is left
    assert plt.gcf() is figure
    assert plt.gca() is right
    assert plt.get_fignums() == [figure.number]
    assert dict(mpl.rcParams) == before
    with plt.style.context("dark_background"):
        ax = plots.bar(make_importance())
        assert to_hex(ax.collections[0].get_color()[0]) == "#ffffff"  # intervals are drawn in the colour of text


# -- units and imports -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"method": "predecomp"}, "TreeInner(PreDecomp) first-order reduction of half the squared error per row"),
        ({"score": "loss"}, "Loss breakdown(centred) reduction of half the squared error per row"),
        ({}, "TreeInner(centred) first-order reduction of half the squared error per row"),
        ({"score": "signal"}, "Signal half the squared error per row"),
        ({"score": "forest_inner", "method": "treeshap"}, "ForestInner(TreeSHAP) half the squared error per row"),
        ({"score": "mean_abs", "method": "treeshap"}, "Mean |TreeSHAP| margin"),
        (
            {"score": "permutation", "method": "logistic"},
            "Permutation importance rise of half the squared error per row",
        ),
        ({"score": "total_gain", "n_rows": 0}, "Total gain gain, summed over the training rows"),
        (
            {"output_names": ("dog",)},
            "output dog, TreeInner(centred) first-order reduction of half the squared error per row",
        ),
    ],
)
def test_the_axis_says_the_unit(fields, label):
    assert said(plots.bar(make_importance(**fields))) == label


class Attribution:
    """Stands for one: plots recognise it by its name."""


@pytest.mark.parametrize(
    ("draw", "make", "message"),
    [
        (plots.bar, Attribution, r"bar expected an Importance \(from ti.importance\), got an Attrib.*to_shap"),
        (plots.rounds, make_comparison, "rounds expected an Importance.*got a Comparison.*to draw that, use gap"),
        (plots.gap, make_importance, "gap expected a Comparison.*got an Importance.*use bar, rounds or curve"),
        (plots.curve, lambda: [1.0], "curve expected an Importance.*got an object of type list.$"),
    ],
)
def test_a_result_of_another_kind_is_a_clear_error(draw, make, message):
    with pytest.raises(TypeError, match=message):
        draw(make())


def test_matplotlib_is_imported_only_to_draw_and_its_absence_is_explained():
    code = """if True:
        import sys
        from treeinner.show.plots import style
        assert "matplotlib" not in sys.modules
        sys.modules["matplotlib"] = None
        try:
            style.matplotlib()
        except ImportError as error:
            print(type(error).__name__, error)
    """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[0] == "MissingDependencyError"
    assert 'pip install "treeinner[plots]"' in ran.stdout
