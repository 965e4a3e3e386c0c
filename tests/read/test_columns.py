"""Who gets the credit: groups by hand, and the raw columns of a pipeline, found by changing one at a time."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import xgboost as xgb
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  # makes IterativeImputer importable
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

import treeinner as ti
from tests.models import Models
from treeinner.read.columns import Credit, credit

N = 240
rng = np.random.default_rng(7)
NUMBERS = pd.DataFrame(rng.normal(size=(N, 4)), columns=["age", "age_2", "size", "size_of"])  # names that begin alike
WORDS = pd.DataFrame({"colour": rng.choice(["red", "dark_red", "blue"], N), "town": rng.choice([*"abcdefgh"], N)})
MIXED = pd.concat([WORDS, NUMBERS], axis=1)
HOLED = NUMBERS.mask(rng.random((N, 4)) < 0.2)
HOLED_WORDS = WORDS.mask(rng.random((N, 2)) < 0.2)
Y = NUMBERS.sum(axis=1).to_numpy() + 2 * (WORDS["colour"] == "red").to_numpy() + 0.1 * rng.normal(size=N)


def pipeline(steps, X=MIXED, y=Y):
    """A pipeline whose model splits every column that the steps make."""
    model = xgb.XGBRegressor(n_estimators=60, max_depth=4, colsample_bynode=0.2, min_child_weight=0, n_jobs=1)
    return make_pipeline(steps, model).fit(X, y)


def owners(pipe, X=MIXED, groups=None):
    """What each column that the model splits is reported as."""
    model = ti.read_model(pipe)
    found = credit(model, None, groups, X)
    features = [feature for (feature,) in model.trees.player_features]
    return {features[player]: found.names[name] for player, name in zip(found.player, found.name, strict=True)}, found


CHECKED = {
    "scaled": (StandardScaler(), NUMBERS),
    "splines": (SplineTransformer(n_knots=4), NUMBERS),
    "one-hot": (OneHotEncoder(), WORDS),
    "dense": (OneHotEncoder(drop="first", sparse_output=False), WORDS),
    "rare together": (OneHotEncoder(min_frequency=40), WORDS),
    "ordinal": (OrdinalEncoder(), WORDS),
    "target": (TargetEncoder(), WORDS),
    "bins": (KBinsDiscretizer(n_bins=[2, 3, 4, 5], quantile_method="averaged_inverted_cdf"), NUMBERS),
    "imputed": (SimpleImputer(add_indicator=True), HOLED),
    "neighbours": (KNNImputer(add_indicator=True), HOLED),
    "iterative": (IterativeImputer(), HOLED),
    "words": (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), HOLED_WORDS),
    "best": (make_pipeline(SelectKBest(f_regression, k=2), StandardScaler()), NUMBERS),
    "own function": (FunctionTransformer(lambda X: np.asarray(X) ** 3), NUMBERS),
    "union": (make_union(StandardScaler(), SplineTransformer(n_knots=3)), NUMBERS),
    "text": (make_column_transformer((TfidfVectorizer(analyzer="char"), "colour"), (StandardScaler(), ["age"])), MIXED),
    "frames": (make_column_transformer((OneHotEncoder(sparse_output=False), ["town"]), (StandardScaler(), ["age"]))
               .set_output(transform="pandas"), MIXED),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKED)
def test_a_column_belongs_to_the_raw_column_that_moves_it(name):
    """The oracle: rotate one raw column, in rows without gaps, then in all rows, and see what moves."""
    steps, X = CHECKED[name]
    pipe = pipeline(steps, X)
    found, made = owners(pipe, X)
    assert made.names == tuple(X.columns)
    whole = X[~X.isna().any(axis=1)]
    moved = {}
    for rows in (X, whole):  # what moves in rows without gaps counts
        before = sp.csr_array(pipe[0].transform(rows)).toarray()
        for raw in X.columns:
            other = rows.assign(**{raw: np.roll(rows[raw].to_numpy(), 1)})
            after = sp.csr_array(pipe[0].transform(other)).toarray()
            moved |= dict.fromkeys(np.flatnonzero((np.abs(after - before) > 1e-9).any(axis=0)).tolist(), raw)
    assert len(found) > 1
    assert found == {j: moved[j] for j in found}


def test_interactions_are_groups_of_their_own_and_mixtures_keep_their_names():
    found, _ = owners(
        pipeline(PolynomialFeatures(2, include_bias=False), NUMBERS[["age", "size"]]), NUMBERS[["age", "size"]]
    )
    assert found == {0: "age", 1: "size", 2: "age", 3: "age*size", 4: "size"}
    encode = ColumnTransformer([("p", PCA(2), ["age", "size", "age_2"]), ("s", StandardScaler(), ["size_of"])])
    found, made = owners(pipeline(encode, NUMBERS), NUMBERS)
    assert found == {0: "p__pca0", 1: "p__pca1", 2: "size_of"}
    assert made.names == (*NUMBERS.columns, "p__pca0", "p__pca1")
    found, _ = owners(pipeline(Normalizer(), NUMBERS), NUMBERS)
    assert found == dict(enumerate(NUMBERS.columns))  # every column is made from all, and called as before


def test_any_table_and_a_level_that_few_rows_have():
    encode = make_column_transformer((OneHotEncoder(), ["town"]), (StandardScaler(), ["age"]))
    X = MIXED.assign(town=np.where(np.arange(N) > N - 3, "rare", MIXED["town"]))
    expected = {**dict.fromkeys(range(9), "town"), 9: "age"}
    target = Y + 9 * (X["town"] == "rare")
    for rows in (X, pl.from_pandas(X), pl.from_pandas(X).to_arrow()):
        assert owners(pipeline(encode, X, target), rows)[0] == expected
    assert "onehotencoder__town_rare" in owners(pipeline(encode, X, target), X[:-2])[1].names  # no row tells
    sparse = sp.random(N, 30, 0.2, format="csr", random_state=0)
    found, made = owners(pipeline(MaxAbsScaler(), sparse, np.asarray(sparse.sum(axis=1)).ravel()), sparse)
    assert found == {j: f"f{j}" for j in found}
    assert len(made.names) == 30


def test_encoded_columns_and_groups_of_either_kind():
    pipe = pipeline(make_column_transformer((OneHotEncoder(), ["colour"]), (StandardScaler(), ["age", "size"])))
    names = ti.read_model(pipe).feature_names
    assert owners(pipe, groups="encoded")[1].names == names
    assert owners(pipe, groups={"c": list(names[:3])})[1].names == ("c", *names[3:])
    raw = owners(pipe, groups={"both": ["colour", "age"]})
    assert set(raw[0].values()) == {"both", "size"}
    assert credit(ti.read_model(pipe), None, None).names == names  # no rows to look at
    with pytest.raises(ValueError, match="needs rows"):
        credit(ti.read_model(pipe), None, "original")
    failing = pipeline(FunctionTransformer(lambda X: X if len(X) == N else 1 / 0), NUMBERS)
    with pytest.raises(ti.UnsupportedModelError, match="feature_groups='encoded'"):
        owners(failing, NUMBERS)


# -- without a pipeline ------------------------------------------------------------------------------------------------
MODELS = Models(plain=lambda: ti.read_model(xgb.XGBRegressor(n_estimators=20, n_jobs=1).fit(NUMBERS.to_numpy(), Y)))


def test_names_are_the_model_s_else_those_of_x():
    assert credit(MODELS["plain"], None, None).names == ("f0", "f1", "f2", "f3")
    assert credit(MODELS["plain"], tuple("abcd"), "original").names == tuple("abcd")
    assert credit(ti.read_model(MODELS["plain"], feature_names=list("wxyz")), tuple("abcd"), None).names == tuple(
        "wxyz"
    )
    assert credit(MODELS["plain"], tuple("abcd"), {"ac": ["a", 2], "d": "d"}).names == ("ac", "b", "d")


@pytest.mark.parametrize(
    ("error", "groups", "word"),
    [
        (ValueError, "prefix:_", "not recognised"),
        (ValueError, 3, "not recognised"),
        (ValueError, {"g": []}, "no features"),
        (ValueError, {"g": ["aa"]}, "names 'aa'"),
        (ValueError, {"g": [4]}, "numbered 0..3"),
        (TypeError, {"g": [1.5]}, "name or position"),
        (ValueError, {"g": ["a"], "h": [0]}, "is in groups"),
        (ValueError, {"b": ["a"]}, "rename the groups"),
    ],
)
def test_groups_that_make_no_sense(error, groups, word):
    with pytest.raises(error, match=word):
        credit(MODELS["plain"], tuple("abcd"), groups)


def test_values_of_players_add_up_by_name():
    values = rng.normal(size=(3, 4, 2))
    shares = Credit(tuple("pqr"), np.array([0, 3, 1, 3, 2]), np.array([0, 0, 1, 2, 2]), np.array([1, 0.5, 1, 0.5, 1]))
    matrix = np.zeros((4, 3))
    matrix[shares.player, shares.name] = shares.part
    assert shares.places is None
    for axis in (1, -2):
        np.testing.assert_allclose(shares.add_up(values, axis), np.einsum("apb,pn->anb", values, matrix), rtol=1e-15)
    one = Credit(tuple("pqrst"), np.array([2, 0, 3, 1]), np.array([0, 1, 3, 4]), np.ones(4))
    np.testing.assert_array_equal(one.places, [1, 4, 0, 3])
    np.testing.assert_array_equal(one.add_up(values, 1)[:, [1, 4, 0, 3]], values)
    assert one.add_up(values, 1)[:, 2].tolist() == [[0.0, 0.0]] * 3
