"""
What sinks, what rises
======================

Four scores of one model: total gain, which the training rows make; the mean size of SHAP values, which needs no target;
permutation importance and signal, which held-out rows make. Two columns are random numbers.
"""

import numpy as np
import xgboost as xgb
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import treeinner as ti

X, y = load_diabetes(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
X["noise_10"], X["noise_442"] = rng.integers(0, 10, len(X)), rng.integers(0, 442, len(X))
X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.4, random_state=0)
estimator = xgb.XGBRegressor(n_estimators=100, max_depth=4, learning_rate=0.05, n_jobs=1)

model = estimator.fit(X_train, y_train)
gain, shap = ti.total_gain(model), ti.mean_abs(model, X_valid)
permutation = ti.permutation_importance(model, X_valid, y_valid, random_state=0)
ti.plots.ranks([gain, shap, permutation, ti.importance(model, X_valid, y_valid)])

# %%
# How far the signal score depends on the rows: five folds, each scored by a model that has not seen it.

ti.plots.stability(ti.cross_importance(estimator, X, y, cv=5, random_state=0))
