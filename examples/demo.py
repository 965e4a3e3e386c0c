"""The whole job in seconds, on data that ships with scikit-learn: `make demo`.

Diabetes progression of 442 patients, with four columns of random numbers added. Which scores rank them high, and which
do not? Prints a table, and writes a page and a plot into demo/.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from xgboost import XGBRegressor

import treeinner as ti

FOLDER = Path("demo")
CARDINALITIES = (2, 10, 100, 442)  # a noise column with more distinct values offers more chances to overfit


def main() -> None:
    """Train, score, show."""
    mpl.use("Agg")  # no window, and no need of a screen
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    rng = np.random.default_rng(0)
    noise = {f"noise_{n}": rng.integers(0, n, len(X)).astype(float) for n in CARDINALITIES}
    X = pd.concat([X, pd.DataFrame(noise, index=X.index)], axis=1)
    X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.5, random_state=0)
    model = XGBRegressor(n_estimators=100, max_depth=3, learning_rate=0.05, subsample=0.5, colsample_bynode=0.3)
    model.fit(X_train, y_train)

    imp = ti.importance(model, X_valid, y_valid)
    print("Which features carry signal? noise_* are random numbers.\n")
    print(imp)

    gain = ti.total_gain(model)
    worst = min(noise, key=lambda name: gain[name].rank)
    print(
        f"\nLook at {worst}: by total gain these random numbers are number {gain[worst].rank} of {len(gain)}, by "
        f"signal on held-out rows number {imp[worst].rank}, {imp[worst].verdict}."
    )
    if called := [name for name in noise if imp[name].verdict == "signal"]:
        print(f"Called signal by chance: {', '.join(called)}. At q <= 0.1, one in ten of those called may be noise.")
    print()

    FOLDER.mkdir(exist_ok=True)
    ti.plots.bar(imp, total_gain=gain).figure.savefig(FOLDER / "bar.png", dpi=120)
    page = ti.report(
        model, X_valid, y_valid, X_train=X_train, y_train=y_train, path=FOLDER / "page.html",
        title="Diabetes progression",
    )  # fmt: skip
    print(f"Look at {FOLDER / 'bar.png'}, and at {page} in a browser.")


if __name__ == "__main__":
    main()
