"""`treeinner demo`: the whole job on bundled data, in seconds."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from treeinner import plots
from treeinner.attribution import Attribution, attribute
from treeinner.cli import options, output
from treeinner.compiled import instruction_set
from treeinner.errors import DataError, MissingDependencyError
from treeinner.model import Model, read_model
from treeinner.page import report
from treeinner.scores import Comparison, Importance, compare, total_gain
from treeinner.scores.result import Q_LIMIT

NEEDED = {"xgboost": "xgboost", "sklearn": "scikit-learn", "matplotlib": "matplotlib"}  # module: what pip calls it
CARDINALITIES = (2, 10, 100, 442)  # a noise column with more distinct values offers more chances to overfit
TARGET = "progression"
PICTURES = {
    "bar.png": "the ranking; grey is not told apart from noise, the pale bar behind is total gain",
    "gap.png": "training rows (rings) against held-out rows (dots): noise falls most",
    "rounds.png": "the score round by round: a falling curve is a feature that is being overfitted",
    "curve.png": "the held-out loss round by round: what each feature took off it, or added to it",
    "beeswarm.png": "what each feature adds to each prediction",
    "waterfall.png": "one prediction, step by step",
}

FloatArray = NDArray[np.float64]
FOLDER_HELP = "Folder to write to; created if it does not exist."
Folder = Annotated[Path, options.about_output("--output", "-o", help=FOLDER_HELP, metavar="DIR")]


@options.command
def demo_command(folder: Folder = Path("demo")) -> None:
    """Show the whole job in seconds, on bundled data.

    A model of diabetes progression, with columns of random numbers added: which scores rank them high, and which do
    not. Writes plots, a page, a model and data files to try the other commands on. Needs xgboost, scikit-learn and
    matplotlib.
    """
    missing = [package for module, package in NEEDED.items() if find_spec(module) is None]
    if missing:
        raise MissingDependencyError(
            f"the demo needs {' and '.join(missing)}, not installed here; "
            "install what it needs with: pip install 'treeinner[cli,xgboost,sklearn,plots]'"
        )
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file; name a folder to write to: treeinner demo -o DIR.")
    folder.mkdir(parents=True, exist_ok=True)
    names, X_train, X_valid, y_train, y_valid = _make_data()
    trained = _train(names, X_train, y_train)
    model = read_model(trained)
    print(f"{model}; instruction set: {instruction_set()}\n")
    comparison = compare(model, X_train, y_train, X_valid, y_valid)
    gain = total_gain(model)
    _show_ranking(gain, comparison.valid["abs_treeshap"], comparison.valid["tree_inner"])
    attribution = _show_predictions(model, X_valid, trained.predict(X_valid, output_margin=True))
    _write_pictures(folder, gain, comparison, attribution)
    page = folder / "page.html"
    report(model, X_valid, y_valid, X_train=X_train, y_train=y_train, path=page, title="Diabetes progression")
    trained.save_model(folder / "model.json")
    for side, X, y in (("train", X_train, y_train), ("valid", X_valid, y_valid)):
        columns = dict(zip([*names, TARGET], [*X.T, y], strict=True))
        output.write(columns, output.Destination(folder / f"{side}.parquet", output.Format.parquet))
    _print_what_to_look_at(folder, page)


def _make_data(seed: int = 0) -> tuple[Any, ...]:
    """Diabetes progression of 442 patients, ten real measurements and four columns of noise: names, and both halves."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    rng = np.random.default_rng(seed)
    bunch = load_diabetes()
    noise = [rng.integers(0, n, len(bunch.target)).astype(float) for n in CARDINALITIES]
    X = np.column_stack([bunch.data, *noise])
    names = [*bunch.feature_names, *(f"noise_{n}" for n in CARDINALITIES)]
    return names, *train_test_split(X, bunch.target, test_size=0.5, random_state=seed)


def _train(names: list[str], X: FloatArray, y: FloatArray) -> Any:
    import xgboost

    model = xgboost.XGBRegressor(n_estimators=100, max_depth=3, learning_rate=0.05, subsample=0.5, colsample_bynode=0.3)
    model.fit(X, y)
    model.get_booster().feature_names = names
    return model


def _show_ranking(gain: Importance, shap: Importance, inner: Importance) -> None:
    """Total gain and mean |SHAP|, which reward overfitting, beside TreeInner on held-out rows."""
    names, n = inner.feature_names, len(inner)
    print(f"Which features carry signal? Ranks among {n}; noise_* are random numbers.\n")
    print(f"{'feature':>10}  {'total gain':>10}  {'mean |SHAP|':>11}  {'TreeInner on held-out rows':>34}   verdict")
    for k in inner.order:
        interval = f"{inner.scores[k]:>9.3g}  [{inner.ci_low[k]:>9.3g}, {inner.ci_high[k]:>9.3g}]"
        ranks = f"{f'rank {gain.ranks[k]}':>10}  {f'rank {shap.ranks[k]}':>11}"
        print(f"{names[k]:>10}  {ranks}  {interval:>34}   {inner.verdicts[k]}")
    print(f"\nTreeInner: {inner.unit}, with {inner.confidence:.0%} intervals.")
    print(f"The verdict counts all {n} tests: signal has q < {Q_LIMIT}.\n")
    noise = [k for k, name in enumerate(names) if name.startswith("noise_")]
    worst = min(noise, key=lambda k: int(gain.ranks[k]))
    below = sum(gain.ranks[k] > gain.ranks[worst] for k in range(n) if k not in noise)
    print(
        f"Look at {names[worst]}: total gain puts these random numbers above {below} real measurements\n"
        f"(rank {gain.ranks[worst]} of {n}), mean |SHAP| at rank {shap.ranks[worst]}, "
        f"TreeInner at rank {inner.ranks[worst]}.\n"
    )


def _show_predictions(model: Model, X: FloatArray, margin: NDArray[np.float32]) -> Attribution:
    """Where three predictions come from."""
    a = attribute(model, X)
    print("Where three predictions come from (PreDecomp, the largest contributions of each):\n")
    for i in range(3):
        largest = np.argsort(-np.abs(a.values[i]))[:3]
        parts = "  ".join(f"{a.feature_names[k]} {a.values[i, k]:+.1f}" for k in largest)
        rest = a.values[i].sum() - a.values[i, largest].sum()
        total = a.base_values[i] + a.values[i].sum()
        sum_of_all = f"= {total:.2f}  (the model itself: {margin[i]:.2f})"
        print(f"  base value {a.base_values[i]:.1f}  {parts}  the rest {rest:+.1f}  {sum_of_all}")
    worst = np.abs(a.base_values + a.values.sum(axis=1) - margin).max()
    print(f"  largest difference to the model's own float32 margin over {len(margin)} rows: {worst:.1e}\n")
    return a


def _write_pictures(folder: Path, gain: Importance, comparison: Comparison, attribution: Attribution) -> None:
    """Save each of PICTURES."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    mpl.use("Agg")  # no window, and no need of a screen
    inner = comparison.valid["tree_inner"]
    drawn = {
        "bar.png": plots.bar(inner, total_gain=gain),
        "gap.png": plots.gap(comparison),
        "rounds.png": plots.rounds(inner),
        "curve.png": plots.curve(comparison.valid["loss"]),
        "beeswarm.png": plots.beeswarm(attribution),
        "waterfall.png": plots.waterfall(attribution, 0),
    }
    for name, ax in drawn.items():
        figure: Any = ax.figure
        figure.savefig(folder / name, dpi=120)
        plt.close(figure)


def _print_what_to_look_at(folder: Path, page: Path) -> None:
    print(f"Look at {page} in a browser: ranking, training against held-out rows, every row explained.\n")
    print("Pictures:")
    for name, what in PICTURES.items():
        print(f"  {folder / name!s:<24}  {what}")
    print("\nThe same from files, as for a model of your own:")
    program = "treeinner" if shutil.which("treeinner") else f"{sys.executable} -m treeinner.cli"
    words = ["importance", str(folder / "model.json"), str(folder / "valid.parquet"), "--target", TARGET]
    print(f"  {program} {shlex.join(words)}")
