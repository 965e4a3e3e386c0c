"""What the code of some pages takes as given, in one place.

A page whose first block makes its own data and model needs nothing here. For the others, a function returns the names
that the blocks use and writes the files that they read into the current directory, which is an empty one.
"""

import io
import re
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path

import numpy as np
import xgboost
from sklearn.datasets import load_diabetes

# Languages of blocks that are not code of ours to run; "{...}" are directives of MyST.
NOT_RUN = {"", "text", "json", "toml", "bibtex", "mermaid"}

START = Path(__file__).parent.parent / "docs" / "guide" / "start-here.md"


def price_files():
    """A model of prices and its rows in files, with the columns that the page on the command line names."""
    rng = np.random.default_rng(0)
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    X = X.rename(columns={"bmi": "body_mass", "s5": "height"})
    model = xgboost.XGBRegressor(n_estimators=60, max_depth=3, learning_rate=0.1, n_jobs=1).fit(X[:250], y[:250])
    model.save_model("model.json")
    frame = X.assign(price=y, w=rng.uniform(0.5, 2, len(X)), day=rng.integers(0, 40, len(X)))
    frame["region"] = rng.choice(["north", "south"], len(X))
    frame[:250].to_parquet("train.parquet")
    frame[250:].to_parquet("valid.parquet")
    frame[250:350].to_parquet("january.parquet")
    frame[350:].to_parquet("july.parquet")
    return {}


@cache
def _first_block(page):
    code = re.search(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[1]
    namespace = {}
    with redirect_stdout(io.StringIO()):
        exec(compile(code, str(page), "exec"), namespace)
    return namespace


def start_here():
    """Names of the first block of docs/guide/start-here.md, on which the other guides go on."""
    started = dict(_first_block(START))
    return {**started, **{name: started[name].copy() for name in ("X", "X_train", "X_valid")}}


def flights():
    """Names of the first block of docs/guide/why-worse.md."""
    return dict(_first_block(START.parent / "why-worse.md"))


GOING_ON = "held-out which-score intervals correlated predictions plots page bad-input"
PRELUDES = {
    "docs/cli.md": price_files,
    **{f"docs/guide/{name}.md": start_here for name in GOING_ON.split()},
    "docs/guide/segments.md": flights,
    "docs/coming-from.md": start_here,
}
