"""A stranger's first hour with the installed package: `make wheel` runs this in an environment with nothing else.

README's code as pasted, own data with a Pipeline, the page, the command line; and at each step a mistake, whose message
must say what came and what to do. Not a test of pytest, which is not there.
"""

import sys

sys.path.pop(0)  # this folder: its `select` would hide Python's own

import io
import re
import subprocess
import tempfile
import warnings
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
# What README shows is what its code prints with this XGBoost. Another one may sample other rows.
SHOWN_WITH = "3.2."


def expect(right, what):
    """End with a message unless something is right."""
    if not right:
        sys.exit(f"stranger: {what}")


def mistake(call, *words):
    """Make a mistake; its message must hold these words."""
    try:
        call()
    except Exception as error:  # whatever a stranger would meet
        found = f"{type(error).__name__}: {error}"
        print(f"  {found}")
        expect(all(word in found for word in words), f"this message lacks {words}: {found}")
    else:
        expect(False, f"no error, though {words} was expected")


def readme():
    """Paste README's Python blocks, one after the other, into one session."""
    import xgboost

    blocks = re.findall(r"```(python|text)\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    names, printed = {"__name__": "__main__"}, ""
    for language, text in blocks:
        if language == "python":
            with redirect_stdout(io.StringIO()) as out:
                exec(compile(text, str(README), "exec"), names)
            printed = out.getvalue()
        elif printed:
            print(printed)
            if xgboost.__version__.startswith(SHOWN_WITH):
                expect(printed == text, f"README shows something else:\n{text}")
            printed = ""
    return names


def own_data():
    """A table as people have them: numbers, text, gaps, a column of noise."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    n = 1200
    X = pd.DataFrame(
        {
            "living area": rng.gamma(4.0, 30.0, n),
            "district": rng.choice(["north", "south", "west"], n),
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.uniform(0, 80, n)),
            "noise": rng.normal(size=n),
        }
    )
    y = 2.0 * X["living area"] + 60.0 * (X["district"] == "south") - X["age"].fillna(40.0) + rng.normal(0, 30, n)
    return X[:800], X[800:], y[:800].rename("price"), y[800:].rename("price")


def pipeline(folder):
    """Own data behind a Pipeline: names, one row, the selector, the page."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    import treeinner as ti

    X_train, X_valid, y_train, y_valid = own_data()
    encode = make_column_transformer((OneHotEncoder(), ["district"]), remainder="passthrough")
    model = make_pipeline(encode, HistGradientBoostingRegressor(random_state=0))
    mistake(lambda: ti.importance(model, X_valid, y_valid), "fit")
    model.fit(X_train, y_train)
    imp = ti.importance(model, X_valid, y_valid)
    print(imp)
    expect(set(imp.feature_names) == set(X_valid.columns), f"other names: {imp.feature_names}")
    expect(imp["living area"].verdict == imp["district"].verdict == "signal", "columns that matter are no signal")
    expect(imp["noise"].verdict != "signal", "noise is signal")
    mistake(lambda: imp["living_area"], "living area")
    mistake(lambda: ti.importance(model, X_valid), "y")
    mistake(lambda: ti.importance(model, X_valid.drop(columns="age"), y_valid), "age")
    mistake(lambda: ti.importance(model, X_valid, y_valid[:-1]), "400", "399")
    mistake(lambda: ti.importance(model, X_valid, y_valid[::-1]), "order")
    mistake(lambda: ti.importance(model, X_valid, y_valid, score="shap"), "signal")
    mistake(lambda: ti.importance(model, X_valid, y_valid, score="permutation"), "permutation_importance")
    linear = LinearRegression().fit(X_train[["noise"]], y_train)
    mistake(lambda: ti.importance(linear, X_valid, y_valid), "LinearRegression")
    one = ti.attribute(model, X_valid.iloc[0])
    parts = one.values.sum() + one.base_values[0]
    expect(abs(parts - model.predict(X_valid.iloc[[0]])[0]) < 1e-6 * abs(parts), "contributions do not add up")
    page = folder / "page.html"
    ti.report(model, X_valid, y_valid, path=page)
    expect(repr(float(X_valid["living area"].iloc[0])) not in page.read_text(encoding="utf-8"), "the page holds rows")
    selector = ti.TreeInnerSelector(q=0.1, random_state=0).fit(X_train, y_train)
    kept = list(selector.get_feature_names_out())
    expect({"living area", "district"} <= set(kept) and "noise" not in kept, f"the selector keeps {kept}")
    mistake(lambda: ti.TreeInnerSelector(test="both").fit(X_train, y_train), "marginal")


def command_line(folder):
    """The same from a shell."""
    import xgboost

    X_train, X_valid, y_train, y_valid = own_data()
    numbers = ["living area", "age", "noise"]
    xgboost.XGBRegressor(n_estimators=30).fit(X_train[numbers], y_train).save_model(folder / "model.json")
    X_valid.join(y_valid).to_csv(folder / "valid.csv", index=False)

    def typed(*arguments):
        command = [sys.executable, "-m", "treeinner", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    found = typed("importance", "model.json", "valid.csv", "--target", "price")
    print(found.stdout)
    expect(found.returncode == 0 and "living area" in found.stdout, found.stderr)
    for arguments, word in (
        (("importance", "model.json", "valid.csv", "--target", "prise"), "price"),
        (("importance", "valid.csv", "model.json", "--target", "price"), "not a model file"),
        (("importance", "model.json", "missing.csv", "--target", "price"), "missing.csv"),
        (("importance", "model.json", "valid.csv"), "--target"),
    ):
        wrong = typed(*arguments)
        print(f"  {wrong.stderr.strip().splitlines()[-1]}")
        expect(wrong.returncode == 2 and word in wrong.stderr, f"{arguments}: {wrong.stderr}")


def main():
    """All of it, in a folder that is gone afterwards."""
    import matplotlib

    matplotlib.use("Agg")
    import treeinner as ti

    where = Path(ti.__file__).resolve().parent
    expect(ROOT / "src" not in where.parents, f"treeinner is the repository's own, {where}, not an installed one")
    warnings.simplefilter("error", ti.TreeInnerWarning)  # nothing here deserves one
    with tempfile.TemporaryDirectory() as folder:
        readme()
        pipeline(Path(folder))
        command_line(Path(folder))
    print(f"treeinner {ti.__version__}: the first hour went well")


if __name__ == "__main__":
    main()
