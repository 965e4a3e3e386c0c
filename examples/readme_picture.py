"""The picture of the README: three rankings of the model in its first block, on the same data.

    python examples/readme_picture.py               # writes docs/images/readme.png

`patient` is only the number of the row. Total gain and mean |SHAP| put it third and fourth; signal, with its intervals
and what of each effect holds, puts it last. How typical that is: `python examples/doc_numbers.py typical`.
"""

from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from xgboost import XGBRegressor

import treeinner as ti

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "readme.png"
NOISE, BLUE, RED = "patient", "#0072B2", "#D55E00"


def draw_plain(ax, imp, title, label):
    """Draw bars, best first, without errors: there are none."""
    order, rows = imp.order, np.arange(len(imp))
    names = [imp.feature_names[k] for k in order]
    ax.barh(rows, imp.scores[order], color=[RED if name == NOISE else BLUE for name in names], height=0.5)
    ax.set_yticks(rows, names)
    ax.set_ylim(len(rows) - 0.35, -0.65)
    ax.set_xlabel(label)
    ax.set_title(f"{title}: {NOISE} is number {names.index(NOISE) + 1} of {len(names)}", fontsize="medium", pad=28)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)


def main():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X_train, X_valid, y_train, y_valid = train_test_split(X.assign(patient=X.index), y, test_size=0.5, random_state=0)
    model = XGBRegressor(max_depth=4, learning_rate=0.2, subsample=0.5, colsample_bytree=0.5).fit(X_train, y_train)

    widths = [2, 2, 3.6]
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.4), layout="constrained", width_ratios=widths, facecolor="white")
    draw_plain(axes[0], ti.total_gain(model), "Total gain", "gain of the training rows, in thousands")
    axes[0].xaxis.set_major_formatter(lambda gain, _: f"{gain / 1000:,.0f}")
    draw_plain(axes[1], ti.mean_abs(model, X_valid), "Mean |SHAP|", "mean |SHAP| of the held-out rows")
    imp = ti.importance(model, X_valid, y_valid)
    title = f"Signal: {NOISE} is number {imp[NOISE].rank} of {len(imp)}"
    imp.plot(ax=axes[2]).set_title(title, fontsize="medium", pad=28)
    for ax in axes:
        for label in ax.get_yticklabels():
            if label.get_text() == NOISE:
                label.set(color=RED, fontweight="bold")
    figure.savefig(PICTURE, dpi=100, metadata={"Software": None})
    print(f"{PICTURE.name}: {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    mpl.use("Agg")
    main()
