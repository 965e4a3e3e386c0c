"""
Attribution against value
=========================

What a feature adds to the prediction, for every value that it takes. The colour is a second feature: where dots of
different colours separate at the same value, the model has learned an interaction of the two.
"""

import lightgbm as lgb
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import treeinner as ti

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.5, random_state=0)
model = lgb.LGBMRegressor(n_estimators=80, num_leaves=15, learning_rate=0.05, n_jobs=1, verbose=-1)
model.fit(X_train, y_train)

attribution = ti.attribute(model, X_valid)
ti.plots.dependence(attribution, "bmi", color="s5")
