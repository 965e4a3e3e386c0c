"""
The validation curve, feature by feature
========================================

With `score="loss"`, scores and one more number, the base, add up to what the loss fell by on these rows. By round, they
are the validation curve, cut up by feature. Here the learning rate is large and two columns are random numbers.
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
model = xgb.XGBRegressor(n_estimators=60, max_depth=3, learning_rate=0.3, n_jobs=1)
model.fit(X_train, y_train)

breakdown = ti.importance(model, X_valid, y_valid, score="loss")
ti.plots.curve(breakdown)

# %%
# What each feature gained or cost in the end, and whether the rows show it clearly.

ti.plots.bar(breakdown)

# %%
# The loss before the first round and after the last one, from the scores and from the predictions.

print(f"scores and base: {breakdown.scores.sum() + breakdown.base:.1f}")
before, after = (((y_valid - p) ** 2).mean() / 2 for p in (model.intercept_[0], model.predict(X_valid)))
print(f"half the squared error before and after: {before:.1f} - {after:.1f} = {before - after:.1f}")
