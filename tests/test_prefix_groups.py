"""feature_groups="prefix:_": the columns of pandas.get_dummies. The oracle is pandas.from_dummies, its inverse."""

import numpy as np
import pandas as pd
import pytest
import xgboost as xgb

import treeinner as ti
from treeinner.groups import by_prefix, resolve_groups

N = 200
rng = np.random.default_rng(3)
RAW = pd.DataFrame(
    {
        "colour": rng.choice(["red", "dark_red", "light_blue"], N),
        "eye_colour": rng.choice(["green", "blue"], N),
        "town": rng.choice([*"xyz"], N),
        "size": rng.normal(size=N),
        "house_size": rng.normal(size=N),
    }
)
Y = RAW["size"].to_numpy() + 2 * (RAW["colour"] == "red").to_numpy() + 0.1 * rng.normal(size=N)
WORDS = ["colour", "eye_colour", "town"]


def fitted(X):
    return xgb.XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1).fit(X[:120], Y[:120])


@pytest.mark.parametrize("separator", ["_", "=", "__", " is "])
def test_dummies_are_put_back_as_get_dummies_took_them_apart(separator):
    X = pd.get_dummies(RAW, prefix_sep=separator)
    expected = {raw: [f"{raw}{separator}{level}" for level in sorted(RAW[raw].unique())] for raw in WORDS}
    found = by_prefix(X.columns, separator)
    assert found == expected  # by its own name: eye_colour, not eye; size and house_size stand alone
    assert resolve_groups(f"prefix:{separator}", [*X.columns]).names == ("size", "house_size", *WORDS)


def test_the_groups_are_those_of_from_dummies():
    dummies = pd.get_dummies(RAW[["colour", "town"]])
    back = pd.from_dummies(dummies, sep="_")
    assert list(by_prefix(dummies.columns, "_")) == list(back.columns)
    pd.testing.assert_frame_equal(back, RAW[["colour", "town"]], check_dtype=False)


def test_scores_are_those_of_the_explicit_groups():
    X = pd.get_dummies(RAW, drop_first=True)
    rows = X[120:], Y[120:]
    model = fitted(X)
    by_hand = {"colour": ["colour_light_blue", "colour_red"], "town": ["town_y", "town_z"]}
    one, other = (ti.importance(model, *rows, feature_groups=groups) for groups in ("prefix:_", by_hand))
    assert one.feature_names == other.feature_names
    assert "eye_colour_green" in one.feature_names  # the one level that is left: no group
    np.testing.assert_array_equal(one.scores, other.scores)
    np.testing.assert_array_equal(one.std_errors, other.std_errors)
    np.testing.assert_allclose(one.scores.sum(), ti.importance(model, *rows).scores.sum(), rtol=1e-12)  # another order


@pytest.mark.parametrize(
    "names",
    [
        ["eye_colour_blue", "eye_colour_green", "eye_size"],
        ["colour_dark_red", "colour_dark_blue", "colour_light_red"],
        ["size", "a_b_c_d", "a_b_c_e", "a_b_x_y"],
    ],
)
def test_names_that_can_be_read_in_two_ways_are_refused(names):
    with pytest.raises(ValueError, match=r"ambiguous: .* or of .*prefix_sep='='"):
        by_prefix(names, "_")


def test_columns_that_are_no_dummies_are_refused_by_name():
    X = pd.get_dummies(RAW).rename(columns={"size": "house_price"})
    with pytest.raises(ti.DataError, match=r"'house' takes in 'house_price', which is no dummy: .* different values"):
        ti.importance(fitted(X), X[120:], Y[120:], feature_groups="prefix:_")


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_dummies_with_missing_values_are_dummies(value):
    """0, 1 and missing can be split in two ways."""
    X = pd.get_dummies(RAW, dtype=float)
    X.loc[rng.random(N) < 0.3, [name for name in X if "colour_" in name]] = value
    assert "colour" in ti.importance(fitted(X), X[120:], Y[120:], feature_groups="prefix:_").feature_names


@pytest.mark.parametrize("word", ["prefix:", "prefix", "orginal", ""])
def test_other_words_are_refused(word):
    X = pd.get_dummies(RAW)
    with pytest.raises(ValueError, match="pass 'original' for the raw columns of a pipeline, 'prefix:_'"):
        ti.importance(fitted(X), X[120:], Y[120:], feature_groups=word)


def test_a_separator_that_groups_nothing_and_a_prefix_that_is_a_column():
    with pytest.raises(ValueError, match="no two columns have the same text before '='"):
        by_prefix([*pd.get_dummies(RAW)], "=")
    with pytest.raises(ValueError, match="have the name of a feature outside the group"):
        resolve_groups("prefix:_", ["colour", "colour_red", "colour_blue"])
