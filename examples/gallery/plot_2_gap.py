"""
Training against held-out rows
==============================

The ring is what a feature takes off the loss of the training rows; the other mark, with its interval, is the same on
rows that the model has not seen. The gap is optimism: credit for fitting the training rows that new rows do not
confirm.
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

comparison = ti.compare(model, (X_train, y_train), (X_valid, y_valid), names=("train", "valid"))
ti.plots.gap(comparison)

# %%
# The same as steps from the loss of the training rows to that of the held-out rows.

ti.plots.change(comparison)
