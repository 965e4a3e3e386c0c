"""Results as tables, in a terminal and in a notebook: every name is text, and nothing is loaded from elsewhere."""

import re
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest

from tests.show.results import NAMES, NASTY, Parts, make_breakdown, make_comparison, make_importance, make_signal
from treeinner.errors import Note
from treeinner.explain.attribute import Attribution
from treeinner.explain.explainer import TreeExplainer
from treeinner.read import read_model
from treeinner.score.result import FoldSpread
from treeinner.select.selector import TreeInnerSelector
from treeinner.show import html
from treeinner.show.table import SHOWN, importance_text, of_comparison, of_importance

NASTY = NASTY[5:]


# -- a terminal ----------------------------------------------------------------------------------------------------
def test_text_is_aligned_best_first_and_says_rows_loss_and_level():
    assert repr(make_importance()).splitlines() == [
        "TreeInner(centred)",
        "feature         score  std error  q value  verdict",
        "bmi                 3       0.15  2.1e-27  signal",
        "age                 1       0.15  4.4e-08  signal",
        "blood pressure    0.2       0.15     0.23  unclear",
        "sex                 0          0        1  unclear",
        "noise            -0.4       0.15    0.016  harmful",
        "100 rows; first-order reduction of half the squared error per row; verdicts at q <= 0.1",
    ]


def test_holds_is_shown_where_its_error_is_below_one_half():
    shown = repr(make_signal()).splitlines()
    assert shown[1:7] == [
        "feature         score  std error  q value         holds  verdict",
        "bmi                 3       0.15  2.1e-27   1.20 ± 0.05  signal",
        "age                 1       0.15  4.4e-08   0.82 ± 0.10  signal",
        "blood pressure    0.2       0.15     0.23                unclear",
        "sex                 0          0        1                unclear",
        "noise            -0.4       0.15    0.016  -0.13 ± 0.20  harmful",
    ]
    rows = Parts(of_importance(make_signal()).html()).rows
    assert rows[0][-2:] == ["holds", "verdict"]
    assert [row[-2] for row in rows[1:]] == ["1.20 ± 0.05", "0.82 ± 0.10", "", "", "-0.13 ± 0.20"]
    assert "holds" not in repr(make_signal(has_errors=False)) + repr(make_importance())


def test_text_without_errors_or_rows_and_of_many_features():
    gain = importance_text(make_importance(score="total_gain", has_errors=False, n_rows=0)).splitlines()
    assert gain[1].split() == ["feature", "score"]
    assert gain[-1] == "gain, summed over the training rows"
    shown = importance_text(make_importance(score="mean_abs", method="treeshap")).splitlines()
    assert shown[1].split() == ["feature", "score", "std", "error"]  # a mean of sizes is not tested
    many = make_importance(np.linspace(1, 2, 30), tuple(f"f{k}" for k in range(30)))
    assert importance_text(many).splitlines()[2 + SHOWN] == "... and 10 more"
    assert len(importance_text(many, None).splitlines()) == 33


def test_a_breakdown_shows_its_sum_and_notes_are_named_by_their_codes():
    notes = (Note("dart", "Something was assumed."), Note("training_rows_unchecked", "It cannot be told.", quiet=True))
    lines = importance_text(replace(make_breakdown(), notes=notes)).splitlines()
    assert lines[-3].split()[:2] == ["(base)", "0.3"]
    assert lines[-2].split()[-1] == "4.1"
    assert lines[-1].endswith("; training rows: not checked; notes: dart")


def test_names_cannot_move_the_cursor():
    assert "line\\nbreak \\x1b[31m" in importance_text(make_importance(names=NASTY))


def test_a_comparison():
    c = make_comparison()
    lines = repr(c).splitlines()
    assert lines[0] == "half the squared error: 1.9 train, 5.5 valid"
    assert lines[1].split() == ["feature", "train", "valid", "change", "std", "error", "q", "value", "holds", "verdict"]
    assert lines[2].split()[:4] == ["noise", "1.1", "-0.4", "1.5"]
    assert lines[2].split()[-4:] == ["-0.13", "->", "-0.13", "worse"]
    assert [line.split()[-3:] for line in lines[-4:-1]] == [
        ["0.3", "0.2", "0.1"], ["trees)", "9", "9.5", "0.5"][1:], ["1.9", "5.5", "3.6"],
    ]  # fmt: skip
    assert lines[-1].startswith("train: 100 rows, valid: 100 rows; reduction of half the squared error per row")
    assert "... and 4 more" in of_comparison(c).text(1)
    rows = Parts(of_comparison(c).html()).rows
    assert rows[1][0] == "noise"
    assert rows[-1] == ["(loss)", "", "3.6", "", "1.9", "5.5", *[""] * 4]


# -- a notebook ----------------------------------------------------------------------------------------------------
def make_attribution(rows=1, outputs=1, names=NASTY):
    """An attribution made by hand."""
    values = np.random.default_rng(0).normal(size=(rows, len(names), outputs))
    many = outputs > 1
    return Attribution(
        values=values if many else values[:, :, 0], base_values=np.ones((rows, outputs) if many else rows), data=None,
        feature_names=tuple(names), output_names=tuple(NASTY[:outputs]) if many else None, method="treeshap",
    )  # fmt: skip


def fold_spread(names=NASTY):
    return FoldSpread(np.array([[3.0, 1.0, 0.0, -1.0, 2.0], [1.0, 2.0, 0.5, -2.0, 4.0]]), tuple(names))


@pytest.mark.parametrize(
    "shown",
    [
        make_importance(names=NASTY), make_breakdown(names=NASTY), make_comparison(names=NASTY), fold_spread(),
        make_attribution(), make_attribution(3), make_attribution(outputs=3),
    ],
)  # fmt: skip
def test_names_are_text_and_nothing_is_loaded(shown):
    shown = shown._repr_html_()
    assert shown.count(html.SORT) == 1  # the only script; what follows is of the rest
    parts = Parts(shown.replace(html.SORT, ""))
    assert {tag for tag, _ in parts.elements} <= {
        "div", "b", "table", "thead", "tbody", "tfoot", "tr", "th", "td", "svg", "rect", "line",
    }  # fmt: skip
    for _, attrs in parts.elements:
        assert not {"src", "href", "class", "id"} & set(attrs)
        assert not any(key.startswith("on") for key in attrs)
    assert not re.search(r"https?:|url\(|@import", shown)
    assert set(NASTY) <= {row[0] for row in parts.rows}


def test_html_has_scores_intervals_and_verdicts():
    imp = make_importance()
    rows = Parts(of_importance(imp).html()).rows
    assert rows[0] == ["feature", "", "score", "95% interval", "std error", "q value", "verdict"]
    assert [(row[0], row[-1]) for row in rows[1:]] == [(NAMES[k], imp.verdicts[k]) for k in imp.order]
    low, high = (side[1] for side in imp.interval(0.95))
    assert rows[1][3] == f"{low:.3g} to {high:.3g}"
    bare = Parts(of_importance(make_importance(score="total_gain", has_errors=False)).html()).rows
    assert bare[0] == ["feature", "", "score"]


def test_html_of_one_row_adds_up_and_of_several_has_mean_sizes():
    one = make_attribution(outputs=3)
    rows = Parts(one._repr_html_()).rows
    margins = one.base_values[0] + one.values[0].sum(axis=0)
    assert NASTY[margins.argmax()] in Parts(one._repr_html_()).text  # the output with the largest margin
    assert float(rows[-1][2]) == pytest.approx(margins.max(), rel=1e-3)  # four digits
    parts = sum(float(row[2]) for row in rows[1:-1])  # the base value too
    assert parts == pytest.approx(margins.max(), abs=5 * 0.005)  # three digits each
    several = make_attribution(4)
    rows = Parts(several._repr_html_()).rows
    assert float(rows[1][2]) == pytest.approx(np.abs(several.values).mean(axis=0).max(), rel=5e-3)
    assert Parts(several[:0]._repr_html_()).rows[1][2] == "0"


def test_html_of_folds_models_and_explainers():
    folds = fold_spread(NAMES)
    rows = Parts(folds._repr_html_()).rows
    assert rows[1] == ["sex", "", "3", "2 to 4", "1.4", "1 to 2"]
    assert f"{folds.rank_stability:.2f}" in folds._repr_html_()
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = lgb.LGBMClassifier(n_estimators=4, n_jobs=1, verbose=-1, min_child_samples=5).fit(X, np.arange(60) % 3)
    lines = dict(Parts(read_model(model)._repr_html_()).rows)
    assert dict(Parts(TreeExplainer(model)._repr_html_()).rows) == lines
    assert lines["trees"].startswith("12 boosted trees in 4 rounds, ")
    assert lines["outputs"] == "3: 0, 1, 2"


def test_html_of_a_selector_is_scikit_learns_with_the_table_below():
    X = np.random.default_rng(0).normal(size=(200, 3))
    selector = TreeInnerSelector(lgb.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1), cv=2, repeats=1)
    assert "data-treeinner" not in selector._repr_mimebundle_()["text/html"]
    selector.fit(X, X[:, 1])
    shown = selector._repr_mimebundle_()["text/html"]
    assert "sk-" in shown
    table = shown[shown.index("<div style='overflow-x:auto'><b>") :]
    assert selector._repr_html_().endswith(table)
    rows = Parts(table).rows
    assert [rows[1][0], rows[1][-1]] == ["f1", "kept"]
    assert "1 of 3 features kept by the marginal test at q = 0.1" in shown


def test_bars_stay_inside():
    markup = html.bar(2.0, -9.0, 9.0, span=(-1.0, 3.0), colour=html.BLUE)[1]
    for number in re.findall(r"(?:x|x1|x2)='([^']+)'", markup):
        assert 0 <= float(number) <= 160
    assert "line" in html.bar(0.0, span=(0.0, 0.0), colour=html.GREY)[1]
