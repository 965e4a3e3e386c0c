"""How good a ranking or a choice of features is, given which features are relevant."""

import numpy as np
from scipy.stats import rankdata


def auc(score, relevant):
    """Chance that a relevant feature has a higher score than another one, ties counted half; NaN without both kinds."""
    relevant = np.asarray(relevant, bool)
    n_true, n_false = relevant.sum(), (~relevant).sum()
    if not n_true or not n_false:
        return np.nan
    ranks = rankdata(score)
    return float((ranks[relevant].sum() - n_true * (n_true + 1) / 2) / (n_true * n_false))


def false_share(kept, relevant):
    """Share of the kept features that are not relevant; 0 if none was kept. Its mean over replications is the FDR."""
    kept, relevant = np.asarray(kept, bool), np.asarray(relevant, bool)
    return float((kept & ~relevant).sum() / max(kept.sum(), 1))


def power(kept, relevant):
    """Share of the relevant features that were kept; NaN if there are none."""
    kept, relevant = np.asarray(kept, bool), np.asarray(relevant, bool)
    return float(kept[relevant].mean()) if relevant.any() else np.nan


def refit_loss(train, test, kept, task, seed=0):
    """Loss on the test rows of a booster trained on the kept columns, of the mean of y if none was kept.

    Squared error, or log loss for a binary target. `train` and `test` are (X, y). The booster is stopped early on the
    last fifth of the training rows, as a careful user would do it: features of noise cost less than without.
    """
    import xgboost as xgb

    (X, y), (X_test, y_test) = train, test
    kept = np.flatnonzero(kept)
    prediction = np.full(len(y_test), np.mean(y))
    if len(kept):
        model = xgb.XGBClassifier if task == "binary" else xgb.XGBRegressor
        cut = len(X) * 4 // 5
        options = {"n_estimators": 500, "max_depth": 3, "learning_rate": 0.05, "early_stopping_rounds": 25}
        fitted = model(**options, n_jobs=1, random_state=seed)
        X, X_test = X[:, kept], X_test[:, kept]
        fitted.fit(X[:cut], y[:cut], eval_set=[(X[cut:], y[cut:])], verbose=False)
        prediction = fitted.predict_proba(X_test)[:, 1] if task == "binary" else fitted.predict(X_test)
    if task == "binary":
        return float(-np.mean(np.log(np.where(y_test > 0, prediction, 1 - prediction))))
    return float(np.mean((y_test - prediction) ** 2))
