"""What the code of some pages takes as given, in one place.

A page whose first block makes its own data and model needs nothing here. For the others, a function returns the names
that the blocks use and writes the files that they read into the current directory, which is an empty one.
"""

import numpy as np
import xgboost
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import treeinner

# Commands that take longer than a page should: their options are parsed, they are not run.
SLOW_COMMANDS = {"demo": "tests/test_cli_demo.py runs it"}

# Languages of blocks that are not code of ours to run; "{...}" are directives of MyST.
NOT_RUN = {"", "text", "json", "toml", "bibtex", "mermaid"}


def diabetes():
    """A small model and both halves of its data, under the names that every page uses."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.4, random_state=0)
    model = xgboost.XGBRegressor(n_estimators=30, max_depth=3, learning_rate=0.1, n_jobs=1).fit(X_train, y_train)
    return {
        "ti": treeinner, "model": model, "X": X, "y": y, "train_test_split": train_test_split,
        "X_train": X_train, "X_valid": X_valid, "y_train": y_train, "y_valid": y_valid,
    }  # fmt: skip


def picture():
    """The model of the README's picture, made as examples/readme_picture.py makes it, and its held-out rows."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    y = X.pop("bp")
    X = X.gt(X.median()).astype(int).assign(random=np.random.default_rng(0).random(len(X)))
    X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.5, random_state=0)
    settings = {"learning_rate": 0.1, "subsample": 0.8, "colsample_bytree": 0.3, "n_jobs": 1}
    model = xgboost.XGBRegressor(random_state=0, **settings).fit(X_train, y_train)
    return {"model": model, "X_valid": X_valid, "y_valid": y_valid}


def price_files():
    """A model of prices, with the columns that the page on the command line names."""
    rng = np.random.default_rng(0)
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X = X.rename(columns={"bmi": "body_mass", "s5": "height"})
    model = xgboost.XGBRegressor(n_estimators=60, max_depth=3, learning_rate=0.1, n_jobs=1).fit(X[:250], y[:250])
    model.save_model("model.json")
    frame = X.assign(price=y, w=rng.uniform(0.5, 2, len(X)), day=rng.integers(0, 40, len(X)))
    frame[:250].to_parquet("train.parquet")
    frame[250:].to_parquet("valid.parquet")
    return {"treeinner": treeinner, "model": model}


PRELUDES = {
    "README.md": picture,
    "docs/cli.md": price_files,
    "docs/guide/intervals.md": diabetes,
}
