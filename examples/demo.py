"""What `make demo` shows: which features carry signal, on rows that the model has not seen.

Trains an XGBoost model on real data to which noise columns were added, ranks the features by total gain, by mean
|SHAP| and by TreeInner, explains three predictions, and writes plots and a page to share into demo/.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import xgboost as xgb
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import treeinner as ti

CARDINALITIES = (2, 10, 100, 442)  # a noise column with more distinct values offers more chances to overfit
OUT = Path("demo")


def make_data(seed=0):
    """Diabetes progression of 442 patients, ten real measurements, and four columns of pure noise."""
    rng = np.random.default_rng(seed)
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    for n in CARDINALITIES:
        X[f"noise_{n}"] = rng.integers(0, n, len(X)).astype(float)
    return train_test_split(X, y, test_size=0.5, random_state=seed)


def show_ranking(model, X_valid, y_valid):
    """Total gain and mean |SHAP|, which reward overfitting, beside TreeInner on held-out rows."""
    gain = ti.importance(model, score="total_gain")
    shap = ti.importance(model, X_valid, score="abs", method="treeshap", level="forest")
    inner = ti.importance(model, X_valid, y_valid)
    print("Which features carry signal? Ranks among 14; noise_* are random numbers.\n")
    print(f"{'feature':>10}  {'total gain':>10}  {'mean |SHAP|':>11}  {'TreeInner on held-out rows':>34}   verdict")
    for k in inner.order:
        interval = f"{inner.scores[k]:>9.3g}  [{inner.ci_low[k]:>9.3g}, {inner.ci_high[k]:>9.3g}]"
        verdict = "signal" if inner.q_values[k] < 0.05 else "no better than noise"
        ranks = f"{f'rank {gain.ranks[k]}':>10}  {f'rank {shap.ranks[k]}':>11}"
        print(f"{inner.feature_names[k]:>10}  {ranks}  {interval:>34}   {verdict}")
    print("\nScores are sums over the held-out rows with 95 % intervals; the verdict asks all 14 at once (q < 0.05).\n")
    return gain, inner


def show_predictions(model, X_valid):
    """Where three predictions come from."""
    a = ti.attribute(model, X_valid)
    margin = model.predict(X_valid, output_margin=True)
    print("Where three predictions come from (PreDecomp, the largest contributions of each):\n")
    for i in range(3):
        largest = np.argsort(-np.abs(a.values[i]))[:3]
        parts = "  ".join(f"{a.feature_names[k]} {a.values[i, k]:+.1f}" for k in largest)
        rest = a.values[i].sum() - a.values[i, largest].sum()
        total = a.base_values[i] + a.values[i].sum()
        sum_of_all = f"= {total:.2f}  (the model itself: {margin[i]:.2f})"
        print(f"  average {a.base_values[i]:.1f}  {parts}  the rest {rest:+.1f}  {sum_of_all}")
    worst = np.abs(a.base_values + a.values.sum(axis=1) - margin).max()
    print(f"  largest difference to the model's own float32 margin over {len(margin)} rows: {worst:.1e}\n")
    return a


def write_pictures(model, gain, inner, comparison, attribution):
    """Save each plot under demo/."""
    figures = {
        "bar.png": ti.plots.bar(inner, total_gain=gain),
        "gap.png": ti.plots.gap(comparison),
        "rounds.png": ti.plots.rounds(inner),
        "beeswarm.png": ti.plots.beeswarm(attribution),
        "waterfall.png": ti.plots.waterfall(attribution, 0),
    }
    for name, ax in figures.items():
        ax.figure.savefig(OUT / name, dpi=120)


def main():
    mpl.use("Agg")
    OUT.mkdir(exist_ok=True)
    X_train, X_valid, y_train, y_valid = make_data()
    model = xgb.XGBRegressor(n_estimators=100, max_depth=3, learning_rate=0.05, subsample=0.5, colsample_bynode=0.3)
    model.fit(X_train, y_train)
    print(f"{ti.read_model(model)}; instruction set: {ti.instruction_set()}\n")
    gain, inner = show_ranking(model, X_valid, y_valid)
    attribution = show_predictions(model, X_valid)
    comparison = ti.compare(model, X_train, y_train, X_valid, y_valid)
    write_pictures(model, gain, inner, comparison, attribution)
    path = OUT / "page.html"
    page = ti.report(model, X_valid, y_valid, X_train=X_train, y_train=y_train, path=path, title="Diabetes")
    print(f"Look at {page} in a browser: ranking, training against held-out rows, every row explained.")
    print(f"Pictures: {', '.join(str(p) for p in sorted(OUT.glob('*.png')))}")


if __name__ == "__main__":
    main()
