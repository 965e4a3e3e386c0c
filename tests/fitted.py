"""Real models of every library, with rows that they have not seen and what the oracle needs to score them."""

from dataclasses import dataclass

import catboost
import lightgbm as lgb
import numpy as np
import xgboost as xgb
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

import treeinner as ti
from treeinner.losses import encode_target

from . import oracle
from .models import Models

# Small trees are scored in batches of float32: a rounding of 6e-8 for each of a few dozen terms of either sign.
FLOAT32 = 1e-5
FLOAT64 = 1e-8  # other trees in float64, by means from leaf sums, which hold gradients to 2^-28 of the largest leaf


@dataclass
class Fitted:
    """A model, rows that it has not seen, and what else it takes."""

    model: object
    X: np.ndarray
    y: np.ndarray
    given: dict
    base: np.ndarray | None = None  # margin before the first tree, where it is not the model's own
    near: float = FLOAT32
    share: np.ndarray | None = None  # of out-of-bag rows

    def oracle(self):
        """Trees, and residuals of the rows: (rounds, rows, outputs)."""
        m = ti.read_model(self.model)
        kind = {"classes": m.classes, "n_outputs": m.n_outputs}
        y = encode_target(self.y, m.loss, n_rows=len(self.X), **kind)
        options = {"query": self.given.get("qid"), "weight": self.weight}
        gradient = lambda f: m.loss.gradients(y, f, **options)  # noqa: E731
        return m.trees, oracle.residuals(m.trees, self.X, gradient, base=self.base)

    @property
    def weight(self):
        """Weights of the rows."""
        return self.given.get("sample_weight")

    def importance(self, **options):
        """What is tested."""
        return ti.importance(self.model, self.X, self.y, **{"score": "tree_inner", **self.given, **options})


def halves(X, y):
    """Every other row for training, with gaps in the third column."""
    X = X.astype(np.float32)
    X[np.random.default_rng(0).random(len(X)) < 0.2, 2] = np.nan
    return X[::2], y[::2], X[1::2], y[1::2]


def boosted(X, y, rounds=15, *, data=None, **params):
    """A booster of XGBoost."""
    return xgb.train({"nthread": 1, "max_depth": 3, "seed": 0, **params}, xgb.DMatrix(X, y, **(data or {})), rounds)


def weights(n):
    """Weights of all sizes; every fifth row has none."""
    return np.random.default_rng(1).gamma(1.0, 1.0, n) * (np.arange(n) % 5 > 0)


def squared():
    """Squared error, categories, weights."""
    X, y = load_diabetes(return_X_y=True)
    X[:, 1] = X[:, 1] > 0  # the sexes as categories
    X, y, A, b = halves(X, y)
    kinds = {"feature_types": ["q", "c", *"q" * 8], "enable_categorical": True}
    return Fitted(
        boosted(X, y, data=kinds, max_cat_to_onehot=1), A.astype(float), b, {"sample_weight": weights(len(b))}
    )


def logistic():
    """Two classes, with weights inside the loss and a base margin."""
    X, y, A, b = halves(*load_breast_cancer(return_X_y=True))
    margin = np.linspace(-1, 1, len(b))
    model = boosted(X, y, objective="binary:logistic", scale_pos_weight=2.0, reg_lambda=10.0)
    return Fitted(model, A, b, {"base_margin": margin}, margin[:, None])


def softmax():
    """Three classes, two trees per class and round."""
    X, y, A, b = halves(*load_wine(return_X_y=True))
    params = {"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2, "subsample": 0.7}
    return Fitted(boosted(X, y, 8, **params), A, b, {"sample_weight": weights(len(b))})


def poisson():
    """Counts."""
    X, y, A, b = halves(*load_diabetes(return_X_y=True))
    return Fitted(boosted(X, np.rint(y / 30), 20, objective="count:poisson"), A, np.rint(b / 30), {})


def vector():
    """Vector leaves."""
    X, y, A, b = halves(*load_diabetes(return_X_y=True))
    Y, B = np.column_stack([y, X[:, 8] * 500]), np.column_stack([b, A[:, 8] * 500])
    return Fitted(boosted(X, Y, 8, multi_strategy="multi_output_tree", tree_method="hist"), A, B, {}, near=FLOAT64)


def ranking():
    """Queries."""
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(2).permutation(len(y))  # else a query has one class
    X, y, A, b = halves(X[order], y[order])
    qid, own = np.arange(len(y)) // 11, np.arange(len(b)) // 9
    params = {"objective": "rank:ndcg", "lambdarank_pair_method": "topk", "min_child_weight": 0.01}
    return Fitted(boosted(X, 2 - y, 6, data={"qid": qid}, **params), A, 2 - b, {"qid": own})


def lightgbm():
    """LightGBM with an l1 penalty."""
    X, y, A, b = halves(*load_diabetes(return_X_y=True))
    params = {"num_leaves": 8, "num_threads": 1, "verbose": -1, "lambda_l1": 5.0, "min_data_in_leaf": 5}
    return Fitted(lgb.train(params, lgb.Dataset(X, y), 15), A, b, {})


def histogram():
    """HistGradientBoosting."""
    X, y, A, b = halves(*load_wine(return_X_y=True))
    model = HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=5, min_samples_leaf=5, early_stopping=False)
    return Fitted(model.fit(X, y), A, b, {})


def symmetric():
    """CatBoost's symmetric trees."""
    X, y, A, b = halves(*load_diabetes(return_X_y=True))
    options = {"iterations": 15, "depth": 4, "thread_count": 1, "verbose": False, "allow_writing_files": False}
    model = catboost.CatBoostRegressor(**options).fit(X, y, sample_weight=weights(len(y)))
    return Fitted(model, A, b, {"sample_weight": weights(len(b))})


def forest():
    """A random forest of classes."""
    X, y, A, b = halves(*load_wine(return_X_y=True))
    return Fitted(RandomForestClassifier(6, max_depth=4, random_state=0).fit(X, y), A, b, {})


def out_of_bag():
    """A random forest on its out-of-bag rows."""
    X, y = load_diabetes(return_X_y=True)
    X = X[::3].astype(np.float32)
    model, weight = RandomForestRegressor(6, max_depth=4, random_state=0).fit(X, y[::3]), weights(len(X))
    unseen = ti.read_model(model).out_of_bag(X, y[::3]) * 1.0
    share = unseen * weight.sum() / (unseen @ weight)[:, None]
    return Fitted(model, X, y[::3], {"sample_weight": weight, "oob": True}, share=share, near=FLOAT64)


REAL = Models(
    squared=squared, logistic=logistic, softmax=softmax, poisson=poisson, vector=vector, ranking=ranking,
    lightgbm=lightgbm, histogram=histogram, symmetric=symmetric, forest=forest, out_of_bag=out_of_bag,
)  # fmt: skip
