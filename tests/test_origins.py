"""From the columns of the model to the raw ones. The oracle: a raw column moves the columns made from it, no others."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  # makes IterativeImputer importable
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import IterativeImputer, KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

import treeinner as ti
from treeinner.readers import origins

N = 240
rng = np.random.default_rng(7)
NUMBERS = pd.DataFrame(rng.normal(size=(N, 4)), columns=["age", "age_2", "size", "size_of"])  # names that begin alike
WORDS = pd.DataFrame(
    {
        "colour": rng.choice(["red", "dark_red", "blue"], N),
        "colour_of": rng.choice([*"abcdefgh"], N, p=[0.4, 0.3, 0.14, *[0.032] * 5]),
        "town": rng.choice(["x", "y"], N),
    }
)
MIXED = pd.concat([WORDS, NUMBERS], axis=1)
HOLED = NUMBERS.mask(rng.random((N, 4)) < 0.2)
HOLED["size"] = NUMBERS["size"]  # no value missing: no indicator in "missing-only"
Y = NUMBERS["age"].to_numpy() + 2 * (WORDS["colour"] == "red").to_numpy() + 0.1 * rng.normal(size=N)
CLASSES = rng.choice([*"pqr"], N)


def dense(A):
    return np.asarray(A.toarray() if hasattr(A, "toarray") else A, dtype=object)


def moved_by(transformer, X, raw):
    """Which columns behind the transformer differ in some row when the rows of one raw column are rotated."""
    before, other = dense(transformer.transform(X)), X.copy()
    other[raw] = np.roll(other[raw].to_numpy(), 1)
    after = dense(transformer.transform(other))
    return {j for j in range(before.shape[1]) if not pd.Series(before[:, j]).equals(pd.Series(after[:, j]))}


def check_by_moving(transformer, X, y=Y):
    """Return the origins, after they were compared with what every raw column moves."""
    transformer.fit(X, y)
    width = dense(transformer.transform(X)).shape[1]
    found = origins([transformer], [f"f{j}" for j in range(width)])
    assert found.names == tuple(X.columns)
    for k, raw in enumerate(X.columns):
        assert moved_by(transformer, X, raw) == {j for j, made in enumerate(found.of_column) if k in made}, raw
    return found


ONE_BY_ONE = {
    "standard": (StandardScaler(), NUMBERS),
    "min max": (MinMaxScaler(), NUMBERS),
    "max abs": (MaxAbsScaler(), NUMBERS),
    "robust": (RobustScaler(), NUMBERS),
    "quantile": (QuantileTransformer(n_quantiles=20), NUMBERS),
    "power": (PowerTransformer(), NUMBERS),
    "binarizer": (Binarizer(), NUMBERS),
    "ordinal": (OrdinalEncoder(), WORDS),
    "target of numbers": (TargetEncoder(), WORDS),
    "bins, ordinal": (KBinsDiscretizer(n_bins=3, encode="ordinal", quantile_method="linear"), NUMBERS),
    "imputer": (SimpleImputer(), HOLED),
    "imputer of words": (SimpleImputer(strategy="constant", fill_value="?"), WORDS),
    "identity": (FunctionTransformer(), NUMBERS),
    "log": (FunctionTransformer(np.tanh), NUMBERS),
    "own function": (FunctionTransformer(lambda X: X**3, feature_names_out="one-to-one"), NUMBERS),
    "nested": (make_pipeline(StandardScaler(), "passthrough", make_pipeline(None, MinMaxScaler())), NUMBERS),
}
SEVERAL = {
    "one-hot": (OneHotEncoder(), WORDS),
    "one-hot, first dropped": (OneHotEncoder(drop="first", sparse_output=False), WORDS),
    "one-hot, binary dropped": (OneHotEncoder(drop="if_binary"), WORDS),
    "one-hot, rare together": (OneHotEncoder(min_frequency=20), WORDS),
    "one-hot, few categories": (OneHotEncoder(max_categories=3, drop="first", handle_unknown="ignore"), WORDS),
    "one-hot of numbers": (OneHotEncoder(handle_unknown="infrequent_if_exist"), NUMBERS.round().clip(-1, 1)),
    "bins": (KBinsDiscretizer(n_bins=[2, 3, 4, 5], quantile_method="linear"), NUMBERS),
    "bins, dense": (KBinsDiscretizer(n_bins=3, encode="onehot-dense", quantile_method="linear"), NUMBERS),
    "splines": (SplineTransformer(n_knots=4), NUMBERS),
    "splines without bias": (SplineTransformer(n_knots=3, degree=2, include_bias=False), NUMBERS),
    "imputer with indicator": (SimpleImputer(add_indicator=True), HOLED),
    "indicators": (MissingIndicator(), HOLED),
    "all indicators of some": (make_union(StandardScaler(), MissingIndicator(features="missing-only")), HOLED),
    "union": (FeatureUnion([("a", StandardScaler()), ("b", "drop"), ("c", "passthrough")]), NUMBERS),
    "k best": (SelectKBest(f_regression, k=2), NUMBERS),
    "variance, then scale": (make_pipeline(VarianceThreshold(0.9), StandardScaler()), NUMBERS),
    "rfe": (RFE(LinearRegression(), n_features_to_select=3), NUMBERS),
    "from model": (SelectFromModel(LinearRegression(), max_features=2, threshold=-np.inf), NUMBERS),
    "selected levels": (make_pipeline(OneHotEncoder(sparse_output=False), SelectKBest(f_regression, k=4)), WORDS),
}


@pytest.mark.parametrize("name", [*ONE_BY_ONE, *SEVERAL])
def test_a_raw_column_moves_its_own_columns_and_no_others(name):
    transformer, X = (ONE_BY_ONE | SEVERAL)[name]
    found = check_by_moving(transformer, X)
    assert len(found.mixed) == 0
    assert sorted(j for columns in found.columns for j in columns) == list(range(len(found.of_column)))
    if name in ONE_BY_ONE:
        assert [columns.tolist() for columns in found.columns] == [[k] for k in range(X.shape[1])]


def test_target_encoder_has_a_column_for_every_class():
    found = check_by_moving(TargetEncoder(), WORDS, CLASSES)
    assert [columns.tolist() for columns in found.columns] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


NUMERIC = make_column_selector(dtype_include=np.number)
COLUMN_CHOICES = {
    "names": ["age", "size"],
    "one name": "age",
    "numbers": [3, -1],
    "slice of names": slice("age", "size"),
    "slice of numbers": slice(3, 6, 2),
    "mask": [False, False, False, True, False, True, True],
    "array of masks": np.arange(7) > 4,
    "selector": NUMERIC,
    "function": lambda X: ["size_of"],
    "nothing": [],
}


@pytest.mark.parametrize("choice", COLUMN_CHOICES)
@pytest.mark.parametrize("remainder", ["drop", "passthrough", OrdinalEncoder()])
def test_columns_of_a_column_transformer(choice, remainder):
    columns = COLUMN_CHOICES[choice]
    inside = FunctionTransformer(np.tanh) if choice == "one name" else StandardScaler()
    names = ["age"] if choice == "one name" else columns
    both = ColumnTransformer(
        [("words", OneHotEncoder(), ["town", "colour"]), ("n", inside, names)], remainder=remainder
    )
    found = check_by_moving(both, MIXED)
    dropped = [raw for raw, made in zip(found.names, found.columns, strict=True) if not len(made)]
    assert bool(dropped) == (remainder == "drop")
    assert len(found.columns[0]) == 3
    assert len(found.columns[2]) == 2


def test_nested_column_transformers_and_a_text_column():
    X = MIXED.assign(text=rng.choice(["good house", "bad house", "old bad garden"], N))
    binned = make_pipeline(SimpleImputer(), KBinsDiscretizer(3, quantile_method="linear"))
    inner = make_column_transformer((binned, [0]), remainder="passthrough")
    outer = make_column_transformer(
        ("drop", ["town"]),
        (inner, ["size", "age"]),
        (make_pipeline(TfidfVectorizer(), TfidfTransformer(), TruncatedSVD(2)), "text"),  # many columns, one origin
        (make_pipeline(OneHotEncoder(), PCA(2)), ["colour_of"]),
        (TargetEncoder(), ["colour", "colour_of"]),
        sparse_threshold=1.0,
    )
    found = check_by_moving(outer, X)
    made = dict(zip(found.names, (columns.tolist() for columns in found.columns), strict=True))
    assert made == {"colour": [8], "colour_of": [6, 7, 9], "town": [], "age": [3], "age_2": [], "size": [0, 1, 2],
                    "size_of": [], "text": [4, 5]}  # fmt: skip


def test_interactions_belong_to_no_one_column():
    powers = make_pipeline(StandardScaler(), PolynomialFeatures(3), MinMaxScaler())
    found = check_by_moving(powers, NUMBERS[["age", "size"]])
    names, owner = found.owners()
    assert names == ("age", "size", "(constant)", "age*size")
    # 1, a, s, a2, as, s2, a3, a2s, as2, s3
    assert owner.tolist() == [2, 0, 1, 0, 3, 1, 0, 3, 3, 1]
    assert found.mixed.tolist() == [4, 7, 8]
    X = NUMBERS.iloc[:, :3].set_axis(["a", "b", "a*b"], axis=1)
    twice = origins([PolynomialFeatures(2, include_bias=False).fit(X)], [""] * 9)
    with pytest.raises(ti.UnsupportedModelError, match=r"'a\*b' has the name of another column"):
        twice.owners()


@pytest.mark.filterwarnings("ignore:Skipping features")
@pytest.mark.parametrize("imputer", [KNNImputer(add_indicator=True), IterativeImputer(max_iter=2, random_state=0)])
def test_a_filled_value_counts_to_its_own_column(imputer):
    """Other columns choose what is filled in, so the oracle is asked on rows without a missing value."""
    X = HOLED.assign(empty=np.nan)
    imputer.fit(X)
    width = imputer.transform(X).shape[1]
    found = origins([imputer], [f"f{j}" for j in range(width)])
    full = NUMBERS.assign(empty=np.nan)
    for k, raw in enumerate(NUMBERS.columns):
        moved = moved_by(imputer, full, raw)
        assert moved == {k}
        assert k in found.columns[k]
    indicators = {"KNNImputer": [[0, 4], [1, 5], [2], [3, 6], [7]], "IterativeImputer": [[0], [1], [2], [3], []]}
    assert [columns.tolist() for columns in found.columns] == indicators[type(imputer).__name__]


@pytest.mark.filterwarnings("ignore:Skipping features")
@pytest.mark.parametrize("strategy", ["mean", "constant"])
@pytest.mark.parametrize("keep", [False, True])
def test_columns_without_a_value_that_an_imputer_drops(strategy, keep):
    X = HOLED.assign(empty=np.nan)[["age", "empty", "size"]]
    imputer = SimpleImputer(strategy=strategy, keep_empty_features=keep, fill_value=1.0).fit(X)
    width = imputer.transform(X).shape[1]
    found = origins([imputer], [f"f{j}" for j in range(width)])
    assert found.columns[2].tolist() == [width - 1]
    assert found.columns[1].tolist() == ([1] if width == 3 else [])
    assert width == 3 or not keep


class Declared(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return 2 * np.asarray(X)


class Undeclared(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.asarray(X)[:, ::-1]


class OwnEncoder(OneHotEncoder):
    def transform(self, X):
        return super().transform(X)[:, ::-1]


class OwnSelector(SelectKBest):
    def transform(self, X):
        return np.asarray(X)[:, self.get_support()]


@pytest.mark.parametrize(
    "make", [lambda: OwnSelector(f_regression, k=2), lambda: ti.TreeInnerSelector(max_features=2, random_state=0)]
)
def test_selectors_are_followed_whoever_wrote_them(make):
    """Ours has a transform of its own, for frames of every library."""
    selector = make()
    found = check_by_moving(selector, NUMBERS)
    assert [len(columns) for columns in found.columns] == selector.get_support().astype(int).tolist()
    assert 1 <= selector.get_support().sum() <= 2


def test_a_transformer_of_the_user_is_taken_if_it_declares_itself_one_to_one():
    found = origins([Declared().fit(NUMBERS)], ["a"] * 4)
    assert found.names == ("x0", "x1", "x2", "x3")
    assert [columns.tolist() for columns in found.columns] == [[0], [1], [2], [3]]
    only = origins([Undeclared().fit(NUMBERS[["age"]])], ["a"])  # nothing to mix
    assert only.columns[0].tolist() == [0]


@pytest.mark.parametrize(
    ("step", "X", "name"),
    [
        (PCA(2), NUMBERS, "PCA may make a column from several of its 4 input columns"),
        (make_pipeline(StandardScaler(), TruncatedSVD(2)), NUMBERS, "TruncatedSVD"),
        (Normalizer(), NUMBERS, "Normalizer"),
        (Undeclared(), NUMBERS, "Undeclared"),
        (OwnEncoder(sparse_output=False), WORDS, "OwnEncoder"),
        (FunctionTransformer(lambda X: X, validate=True), NUMBERS, "feature_names_out='one-to-one'"),
        (ColumnTransformer([("p", PCA(1), ["age", "size"])]), NUMBERS, "PCA"),
    ],
)  # fmt: skip
def test_what_mixes_columns_is_refused_by_name_with_what_to_do(step, X, name):
    width = step.fit(X).transform(X).shape[1]
    with pytest.raises(ti.UnsupportedModelError, match=r"pass feature_groups=\{name:") as told:
        origins([step], [f"f{j}" for j in range(width)])
    assert name in str(told.value)


def as_older_versions_store_it(step):
    """Before 1.9 a FunctionTransformer that validates nothing stores nothing."""
    for name in ("n_features_in_", "feature_names_in_"):
        vars(step).pop(name, None)
    return step


def test_what_does_not_say_its_columns_is_refused():
    unknown = as_older_versions_store_it(FunctionTransformer(lambda X: X).fit(NUMBERS))
    with pytest.raises(ti.ModelError, match="FunctionTransformer does not store how many columns"):
        origins([unknown], ["a"] * 4)
    wrong = FunctionTransformer(lambda X: X.iloc[:, :2], feature_names_out="one-to-one").fit(NUMBERS)
    with pytest.raises(ti.ModelError, match="makes 2 columns, but 4 were expected"):
        origins([wrong], ["a"] * 2)


def test_steps_that_store_no_names_pass_on_those_of_the_next():
    first = FunctionTransformer(np.tanh)
    steps = Pipeline([("f", first), ("s", StandardScaler())]).set_output(transform="pandas").fit(NUMBERS)
    as_older_versions_store_it(first)
    assert origins([steps], ["a"] * 4).names == tuple(NUMBERS.columns)
    assert origins([first], [*"abcd"]).names == (*"abcd",)
