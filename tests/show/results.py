"""Results made by hand, so that what is shown changes only if the showing does."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np

from treeinner.score.compare import Comparison
from treeinner.score.infer import difference, of_sums
from treeinner.score.result import Importance, Losses

NASTY = [  # names that would do harm if they were anything but text
    "</script><b>bold</b>", "<img src=x onerror=alert(1)>", "\"'&amp;", "\u202ertl \u05e9\u05dc\u05d5\u05dd",
    "emoji \U0001f9ea", "{{data}}", "lone \ud83e half", "<!--<script>", "<b>\"'&lt;</b>\u2028", "line\nbreak \x1b[31m",
]  # fmt: skip
NAMES = ("age", "bmi", "blood pressure", "noise", "sex")


def make_importance(means=(1.0, 3.0, 0.2, -0.4, 0.0), names=NAMES, *, n=100, spread=1.5, rounds=30, **fields):
    """Scores with these means per row, whose shares spread by `spread` around them."""
    means = np.asarray(means, float)
    spread = np.where(means == 0, 0.0, spread)  # a feature that is not used has no spread
    shares = means + spread * np.where(np.arange(n) % 2, 1.0, -1.0)[:, None]
    statistics = of_sums(shares.sum(0), (shares**2).sum(0), (shares**4).sum(0), n, factor=1 / n)
    # Each feature earns twice its score in the first half and gives half of that back.
    half = rounds // 2
    by_round = np.concatenate([np.full(half, 2.0 / half), np.full(rounds - half, -1.0 / (rounds - half))])
    given = {
        "score": "tree_inner", "method": "centred", "feature_names": tuple(names), "statistics": statistics,
        "n_rows": n, "sum_of_weights": float(n), "rounds": by_round[:, None] * means,
        "loss_name": "half the squared error",
    }  # fmt: skip
    return Importance(**{**given, **fields})


def make_signal(holds=(0.82, 1.2, 0.4, -0.13, np.nan), errors=(0.1, 0.05, 0.5, 0.2, np.nan), **fields):
    """An importance of score="signal", with the part of each effect that holds."""
    found = make_importance(score="signal", **fields)
    known = replace(found.statistics, holds=np.array(holds), holds_std_error=np.array(errors))
    return replace(found, statistics=known)


def make_breakdown(means=(1.0, 3.0, 0.2, -0.4, 0.0), names=NAMES, before=9.0, base=0.3, **fields):
    """An importance of score="loss", whose lines add up from the loss before to the loss after."""
    importance = make_importance(means, names, score="loss", **fields)
    n = len(importance.rounds)
    losses = Losses(
        before=before, after=before - sum(means) - base, least=0.0, first_order=1.0, base=base,
        base_rounds=np.full(n, base / n),
    )  # fmt: skip
    return replace(importance, losses=losses)


def make_comparison(first=(1.2, 3.5, 0.9, 1.1, 0.1), second=(1.0, 3.0, 0.2, -0.4, 0.0), names=NAMES, **fields):
    """Two sets of rows; the loss rises from 1.9 to 5.5: .5 by harder targets, .1 by the base, 3 by the features."""
    a, b = make_breakdown(first, names), make_breakdown(second, names, before=9.5, base=0.2)
    change = difference(a.statistics, b.statistics)
    signal = make_signal(names=names), make_signal((0.4, 1.1, 0.4, -0.13, np.nan), names=names)
    return Comparison(
        before=a, after=b, change=change, names=("train", "valid"), signal_before=signal[0], signal_after=signal[1],
        **fields,
    )  # fmt: skip


class Parts(HTMLParser):
    """Elements with their attributes, the text of each row's cells, and that inside script, style and title."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.rows, self.texts, self.text, self.inside = [], [], [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag in ("script", "style", "title"):
            self.texts.append([tag, dict(attrs), ""])
        if tag in ("td", "th", "script", "style", "title"):
            self.inside.append(tag)

    def handle_endtag(self, tag):
        if self.inside and tag == self.inside[-1]:
            self.inside.pop()

    def handle_data(self, data):
        self.text += data
        if self.inside and self.inside[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        elif self.inside:
            self.texts[-1][2] += data
