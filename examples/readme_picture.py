"""The picture of the README, and how typical it is.

Blood pressure of 442 patients, from nine binary features (above the median or not) and one column of random numbers.
Total gain and mean |SHAP| rank the random column first; TreeInner on held-out rows scores it below 0. The features have
the names that scikit-learn gives them, so that the picture agrees with what the README's code prints.

    python examples/readme_picture.py               # writes docs/images/readme.png
    python examples/readme_picture.py --seeds 200   # counts ranks over 200 draws of noise, split and row sampling
"""

import argparse
import textwrap
from pathlib import Path

import matplotlib as mpl
import numpy as np
import xgboost as xgb
from sklearn.datasets import load_diabetes
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

import treeinner as ti

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "readme.png"
NOISE = "random"
COLOURS = {"noise": "#D55E00", "feature": "#0072B2", "faint": "#9AA5AE"}  # Okabe and Ito, and a grey
SETTINGS = {"learning_rate": 0.1, "subsample": 0.8, "colsample_bytree": 0.3, "n_jobs": 1}


def make_data(seed, as_flags=True):
    """Training and held-out rows; features are "above the median or not", or as measured."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    y = X.pop("bp")
    if as_flags:
        X = X.gt(X.median()).astype(int)
    X[NOISE] = np.random.default_rng(seed).random(len(X))
    return train_test_split(X, y, test_size=0.5, random_state=seed)


def scores_of(seed, as_flags=True):
    """R2 on the held-out rows (trained with the random column, and without it), and the three scores."""
    X_train, X_valid, y_train, y_valid = make_data(seed, as_flags)
    model = xgb.XGBRegressor(random_state=seed, **SETTINGS).fit(X_train, y_train)
    gain = ti.total_gain(model)
    shap = ti.mean_abs(model, X_valid)
    without = xgb.XGBRegressor(random_state=seed, **SETTINGS).fit(X_train.drop(columns=NOISE), y_train)
    r2 = [r2_score(y_valid, m.predict(X_valid[list(m.feature_names_in_)])) for m in (model, without)]
    return r2, gain, shap, ti.importance(model, X_valid, y_valid)


def count(n_seeds, as_flags):
    """Where the random column comes out, over many draws."""
    found = []
    for seed in range(n_seeds):
        r2, gain, shap, inner = scores_of(seed, as_flags)
        k, last = inner.feature_names.index(NOISE), len(inner.scores)
        called = np.array(inner.verdicts) == "signal"
        found.append(
            {
                "R2 on held-out rows": r2[0],
                "R2 without the random column": r2[1],
                "R2: better without": r2[1] > r2[0],
                "total gain: first": gain.ranks[k] == 1,
                "total gain: among the first three": gain.ranks[k] <= 3,
                "mean |SHAP|: first": shap.ranks[k] == 1,
                "mean |SHAP|: among the first three": shap.ranks[k] <= 3,
                "TreeInner: last": inner.ranks[k] == last,
                "TreeInner: below 0": inner.scores[k] < 0,
                "TreeInner: interval above 0": inner.interval()[0][k] > 0,
                "TreeInner: called signal": called[k],
                "other features called signal": np.delete(called, k).sum(),
            }
        )
    print(f"{NOISE!r} in {n_seeds} draws, other features {'binary' if as_flags else 'as measured'}: means")
    for name in found[0]:
        print(f"  {name:36} {np.mean([one[name] for one in found]):.3f}")


def draw_panel(ax, scores, names, colours, errors=None):
    """Draw bars, best first; the random column and its name have a colour of their own."""
    order = np.argsort(-scores, kind="stable")
    rows = np.arange(len(order))
    ax.barh(rows, scores[order], color=[colours[k] for k in order], height=0.72)
    if errors is not None:
        low, high = (end[order] for end in errors)
        ax.hlines(rows, low, high, color="black", linewidth=1.1)
        ax.axvline(0, color="black", linewidth=0.8)
    ax.set_yticks(rows, [names[k] for k in order], fontsize=11)
    ax.invert_yaxis()
    for label, k in zip(ax.get_yticklabels(), order, strict=True):
        if names[k] == NOISE:
            label.set(color=COLOURS["noise"], fontweight="bold")
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=9)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def draw(seed=0):
    """Draw three panels side by side, each in its own unit: the ranks are the point."""
    import matplotlib.pyplot as plt

    _, gain, shap, inner = scores_of(seed)
    names = inner.feature_names
    with plt.rc_context({"font.family": "DejaVu Sans"}):
        figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained", facecolor="white")
        plain = [COLOURS["noise" if name == NOISE else "feature"] for name in names]
        draw_panel(axes[0], gain.scores, names, plain)
        draw_panel(axes[1], shap.scores, names, plain)
        signal = [verdict == "signal" for verdict in inner.verdicts]
        tested = [
            COLOURS["noise" if name == NOISE else "feature" if signal[k] else "faint"] for k, name in enumerate(names)
        ]
        draw_panel(axes[2], inner.scores, names, tested, inner.interval())
        titles = ("Total gain", "Mean |SHAP|", "TreeInner, held-out rows")
        below = (
            gain.unit,
            "mean |SHAP value|, mmHg",
            f"{textwrap.fill(inner.unit, 40)}\nline: 95 % interval; grey: unclear",
        )
        for ax, title, label in zip(axes, titles, below, strict=True):
            ax.set_title(title, fontsize=13, fontweight="bold", loc="left")
            ax.set_xlabel(label, fontsize=9.5)
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)
        figure.savefig(PICTURE, dpi=130, facecolor="white", metadata={"Software": None})
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1000:.0f} kB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="count over N draws; no picture")
    asked = parser.parse_args()
    if asked.seeds:
        count(asked.seeds, as_flags=True)
        count(asked.seeds, as_flags=False)
    else:
        mpl.use("Agg")
        PICTURE.parent.mkdir(exist_ok=True)
        draw()


if __name__ == "__main__":
    main()
