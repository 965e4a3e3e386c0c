"""What a notebook shows: bars, intervals and verdicts; every name is text, and nothing is loaded from elsewhere."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import xgboost as xgb

import treeinner as ti
from treeinner import html
from treeinner.errors import short
from treeinner.scores.display import SHOWN
from treeinner.scores.result import VERDICTS

NASTY = ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"'&amp;", "noise", "bmi"]


class Parts(HTMLParser):
    """Elements with their attributes, and the text of each row's cells."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.rows, self.text, self.in_cell = [], [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag):
        self.in_cell &= tag not in ("td", "th")

    def handle_data(self, data):
        self.text += data
        if self.in_cell:
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    return X, 2 * X[:, 4] + X[:, 0] + rng.normal(size=400)


@pytest.fixture(scope="module")
def model(rows):
    X, y = rows
    trained = xgb.XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1).fit(X[:200], y[:200])
    return ti.read_model(trained, feature_names=NASTY)


@pytest.fixture(scope="module")
def importance(model, rows):
    return ti.importance(model, rows[0][200:], rows[1][200:])


@pytest.fixture(scope="module")
def attribution(model, rows):
    return ti.attribute(model, rows[0][200:])


@pytest.mark.parametrize("name", ["importance", "attribution", "model"])
def test_names_are_text_and_nothing_is_loaded(name, request):
    shown = request.getfixturevalue(name)._repr_html_()
    parts = Parts(shown)
    known = {"div", "b", "table", "caption", "thead", "tbody", "tr", "th", "td", "svg", "rect", "line"}
    assert {tag for tag, _ in parts.elements} <= known
    for _, attrs in parts.elements:
        assert not {"src", "href", "class", "id"} & set(attrs)
        assert not any(key.startswith("on") for key in attrs)
    assert not re.search(r"https?:|url\(|@import", shown)


@pytest.mark.parametrize("name", ["importance", "attribution"])
def test_every_name_is_shown_as_it_is(name, request):
    cells = {cell for row in Parts(request.getfixturevalue(name)._repr_html_()).rows for cell in row}
    assert set(NASTY) <= cells


def test_importance_shows_bars_intervals_and_verdicts(importance):
    parts = Parts(importance._repr_html_())
    header, *body = parts.rows
    assert [cell for cell in header if cell] == ["feature", "score", "95% interval", "q value", "verdict"]
    for place, (k, cells) in enumerate(zip(importance.order, body, strict=True), 1):
        low, high = importance.ci_low[k], importance.ci_high[k]
        assert cells == [
            str(place), NASTY[k], "", f"{importance.scores[k]:.4g}", f"{low:.4g} to {high:.4g}",
            f"{importance.q_values[k]:.2g}", importance.verdicts[k],
        ]  # fmt: skip
    assert set(importance.verdicts) <= set(VERDICTS)
    assert f"{importance.title} on 200 rows: {importance.unit}" in parts.text


def test_bars_have_the_length_of_the_score_and_the_colour_of_the_verdict(importance):
    parts = Parts(importance._repr_html_())
    bars = [attrs for tag, attrs in parts.elements if tag == "rect"]
    scores = importance.scores[importance.order]
    ends = np.concatenate([importance.ci_low, importance.ci_high, importance.scores, [0.0]])
    expected = np.abs(scores) * 160 / (ends.max() - ends.min())
    np.testing.assert_allclose([float(b["width"]) for b in bars], np.maximum(expected, 0.5), atol=0.051)  # one decimal
    colours = dict(zip(VERDICTS, (html.BLUE, html.GREY, html.VERMILLION), strict=True))
    assert [b["fill"] for b in bars] == [colours[importance.verdicts[k]] for k in importance.order]
    assert sum(tag == "line" for tag, _ in parts.elements) == 2 * len(bars)  # an interval and a zero line each


def test_without_standard_errors_there_is_no_interval_and_no_verdict(model, rows):
    parts = Parts(ti.importance(model, rows[0], rows[1], std_errors=False)._repr_html_())
    assert all(cells[-3:] == ["", "", ""] for cells in parts.rows[1:])
    assert sum(tag == "line" for tag, _ in parts.elements) == len(NASTY)  # the zero lines
    gain = Parts(ti.total_gain(model)._repr_html_())
    assert "nan" not in gain.text.lower()


def test_many_features_are_counted():
    X = np.random.default_rng(0).normal(size=(60, SHOWN + 7))
    model = xgb.XGBRegressor(n_estimators=3, n_jobs=1).fit(X, X[:, 0])
    parts = Parts(ti.importance(model, X, X[:, 0])._repr_html_())
    assert len(parts.rows) == 1 + SHOWN
    assert "... and 7 more features" in parts.text


def test_attribution_shows_one_row_by_its_parts_and_several_by_their_size(attribution):
    one = Parts(attribution[3]._repr_html_())
    order = np.argsort(-np.abs(attribution.values[3]), kind="stable")
    assert [cells[0] for cells in one.rows[1:]] == [NASTY[k] for k in order]
    assert [cells[2] for cells in one.rows[1:]] == [f"{attribution.values[3, k]:.4g}" for k in order]
    fills = [attrs["fill"] for tag, attrs in one.elements if tag == "rect"]
    assert fills == [html.VERMILLION if attribution.values[3, k] >= 0 else html.BLUE for k in order]
    several = Parts(attribution._repr_html_())
    size = np.abs(attribution.values).mean(axis=0)
    assert [cells[2] for cells in several.rows[1:]] == [f"{x:.4g}" for x in np.sort(size)[::-1]]
    assert "mean |value|" in several.text
    assert attribution.base_definition in several.text
    assert attribution.unit in several.text


def test_model_says_what_it_is(model):
    shown = {cells[0]: cells[1] for cells in Parts(model._repr_html_()).rows}
    assert shown["library"] == "xgboost"
    assert shown["objective"] == "reg:squarederror"
    assert shown["trees"] == shown["rounds"] == "10"
    assert shown["exactness"] == model.exactness


@pytest.mark.parametrize(
    ("number", "digits", "text"),
    [
        (123.83, 2, "124"), (99.4, 2, "99"), (0.01234, 2, "0.012"), (12345.6, 4, "12346"), (1234.5, 4, "1234"),
        (-250000.0, 4, "-250000"), (3.2e6, 4, "3.2e+06"), (float("nan"), 2, "nan"), (0.0, 4, "0"),
    ],
)  # fmt: skip
def test_numbers_in_tables_have_no_exponent_that_hides_their_size(number, digits, text):
    assert short(number, digits) == text


def test_the_account_of_the_loss_is_shown_to_its_sum(model, rows):
    imp = ti.importance(model, rows[0][200:], rows[1][200:], score="loss")
    lines = repr(imp).splitlines()
    assert lines[0] == "Loss(centred) on 200 rows: reduction of the loss per row"
    assert lines[-2].split() == ["(base)", short(imp.base)]
    assert lines[-1].startswith("(loss before - after)")
    shown = [float(line.rsplit(maxsplit=1)[1]) for line in lines[-2:]]
    # Four digits of each line.
    np.testing.assert_allclose(imp.scores.sum() + shown[0], shown[1], rtol=1e-3)
    table = Parts(imp._repr_html_()).rows
    assert [row[1] for row in table[-2:]] == ["(base)", "(loss before - after)"]
    assert [row[3] for row in table[-2:]] == [short(imp.base), short(imp.losses.before - imp.losses.after)]
    assert "(base)" not in repr(ti.importance(model, rows[0][200:], rows[1][200:]))
