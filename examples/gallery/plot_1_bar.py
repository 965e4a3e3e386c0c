"""
The ranking
===========

Ten real measurements of diabetes patients and two columns of random numbers. `bar` shows the score on rows that the
model has not seen, with its interval, and how much of each effect holds. The last column has the ranks by total gain,
which is computed from the training rows.
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
model = xgb.XGBRegressor(n_estimators=100, max_depth=4, learning_rate=0.05, n_jobs=1)
model.fit(X_train, y_train)

# %%
# A dot far right in the last column, beside a hollow grey mark, is a feature that the training rows overrate.

imp = ti.importance(model, X_valid, y_valid)
gain = ti.total_gain(model)
ti.plots.bar(imp, total_gain=gain)

# %%
# The same as a table, best first.

imp.to_frame()
