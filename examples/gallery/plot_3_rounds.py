"""
By boosting round
=================

The score added up round by round. A curve that rises and then falls is a feature that helped early and was overfitted
later; the dot is its best round.
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
model = xgb.XGBRegressor(n_estimators=300, max_depth=4, learning_rate=0.05, n_jobs=1)
model.fit(X_train, y_train)

imp = ti.importance(model, X_valid, y_valid)
ti.plots.rounds(imp)

# %%
# The noise alone.

ti.plots.rounds(imp, features=["noise_10", "noise_442"])
