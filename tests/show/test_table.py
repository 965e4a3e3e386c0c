"""Results as tables, in a terminal and in a notebook: every name is text, and nothing is loaded from elsewhere."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.show.results import NAMES, make_breakdown, make_comparison, make_importance, make_signal
from treeinner.errors import Note
from treeinner.score.infer import unknown
from treeinner.show import html
from treeinner.show.table import SHOWN, as_html, as_text, comparison_html, comparison_text

NASTY = ("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"'&amp;", "line\nbreak \x1b[31m", "bmi")


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
    rows = Parts(as_html(make_signal())).rows
    assert rows[0][-2:] == ["holds", "verdict"]
    assert [row[-2] for row in rows[1:]] == ["1.20 ± 0.05", "0.82 ± 0.10", "", "", "-0.13 ± 0.20"]
    assert "holds" not in repr(make_signal(has_errors=False)) + repr(make_importance())


def test_text_without_errors_or_rows():
    shown = as_text(make_importance(has_errors=False)).splitlines()
    assert shown[1].split() == ["feature", "score"]
    assert shown[-1] == "100 rows; first-order reduction of half the squared error per row"
    gain = as_text(make_importance(score="total_gain", has_errors=False, n_rows=0)).splitlines()
    assert gain[-1] == "gain, summed over the training rows"
    shown = as_text(make_importance(score="mean_abs", method="treeshap")).splitlines()
    assert shown[1].split() == ["feature", "score", "std", "error"]  # a mean of sizes is not tested


def test_text_of_one_row_and_of_many_features():
    assert "inf" in as_text(make_importance((1.0, 2.0), ("a", "b"), statistics=unknown(np.array([1.0, 2.0]))))
    many = make_importance(np.linspace(1, 2, 30), tuple(f"f{k}" for k in range(30)))
    lines = as_text(many).splitlines()
    assert lines[2 + SHOWN] == "... and 10 more"
    assert len(lines) == SHOWN + 4
    assert len(as_text(many, None).splitlines()) == 33


def test_a_breakdown_shows_its_sum_and_notes_are_named_by_their_codes():
    notes = (Note("dart", "Something was assumed."), Note("training_rows_unchecked", "It cannot be told.", quiet=True))
    lines = as_text(replace(make_breakdown(), notes=notes)).splitlines()
    assert lines[-3].split()[:2] == ["(base)", "0.3"]
    assert lines[-2].split()[-1] == "4.1"
    assert lines[-1].endswith("; training rows: not checked; notes: dart")


def test_names_cannot_move_the_cursor():
    assert "line\\nbreak \\x1b[31m" in as_text(make_importance(names=NASTY))


def test_a_comparison():
    c = make_comparison()
    lines = repr(c).splitlines()
    assert lines[0] == "half the squared error: 1.9 train, 5.5 valid"
    assert lines[1].split() == ["feature", "train", "valid", "change", "std", "error", "q", "value", "holds", "verdict"]
    assert lines[2].split()[:4] == ["noise", "1.1", "-0.4", "1.5"]
    assert lines[2].split()[-4:] == ["-0.13", "->", "-0.13", "worse"]
    assert "? -> " not in lines[4]  # blank where neither side is known well
    assert [line.split()[-3:] for line in lines[-4:-1]] == [
        ["0.3", "0.2", "0.1"], ["trees)", "9", "9.5", "0.5"][1:], ["1.9", "5.5", "3.6"],
    ]  # fmt: skip
    assert lines[-1].startswith("train: 100 rows, valid: 100 rows; reduction of half the squared error per row")
    assert "... and 4 more" in comparison_text(c, 1)
    rows = Parts(comparison_html(c)).rows
    assert rows[1][0] == "noise"
    assert rows[-1][:3] == ["(loss)", "1.9", "5.5"]


# -- a notebook ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [make_importance, make_breakdown])
def test_names_are_text_and_nothing_is_loaded(make):
    shown = make(names=NASTY)._repr_html_()
    parts = Parts(shown)
    assert {tag for tag, _ in parts.elements} <= {
        "div", "b", "table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "line",
    }  # fmt: skip
    for _, attrs in parts.elements:
        assert not {"src", "href", "class", "id"} & set(attrs)
        assert not any(key.startswith("on") for key in attrs)
    assert not re.search(r"https?:|url\(|@import", shown)
    assert set(NASTY) <= {row[1] for row in parts.rows}


def test_html_has_scores_intervals_and_verdicts():
    imp = make_importance()
    rows = Parts(as_html(imp)).rows
    assert rows[0] == ["", "feature", "", "score", "95% interval", "q value", "verdict"]
    assert [row[1] for row in rows[1:]] == [NAMES[k] for k in imp.order]
    assert [row[-1] for row in rows[1:]] == [imp.verdicts[k] for k in imp.order]
    low, high = (side[1] for side in imp.interval(0.95))
    assert rows[1][4] == f"{low:.3g} to {high:.3g}"
    assert "half the squared error" in as_html(imp)


def test_bars_stay_inside():
    markup = html.bar(2.0, -9.0, 9.0, span=(-1.0, 3.0), colour=html.BLUE)[1]
    for number in re.findall(r"(?:x|x1|x2)='([^']+)'", markup):
        assert 0 <= float(number) <= 160
    assert "line" in html.bar(0.0, span=(0.0, 0.0), colour=html.GREY)[1]
