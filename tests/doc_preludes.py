"""What the code of some pages takes as given, in one place.

A page whose first block makes its own data and model needs nothing here. For the others, a function returns the names
that the blocks use and writes the files that they read into the current directory, which is an empty one.
"""

import numpy as np
import xgboost
from sklearn.datasets import load_diabetes

# Languages of blocks that are not code of ours to run; "{...}" are directives of MyST.
NOT_RUN = {"", "text", "json", "toml", "bibtex", "mermaid"}


def price_files():
    """A model of prices and its rows in files, with the columns that the page on the command line names."""
    rng = np.random.default_rng(0)
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X = X.rename(columns={"bmi": "body_mass", "s5": "height"})
    model = xgboost.XGBRegressor(n_estimators=60, max_depth=3, learning_rate=0.1, n_jobs=1).fit(X[:250], y[:250])
    model.save_model("model.json")
    frame = X.assign(price=y, w=rng.uniform(0.5, 2, len(X)), day=rng.integers(0, 40, len(X)))
    frame[:250].to_parquet("train.parquet")
    frame[250:].to_parquet("valid.parquet")
    return {}


PRELUDES = {"docs/cli.md": price_files}
