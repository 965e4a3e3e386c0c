"""
One prediction, step by step
============================

From the base value to the raw prediction of one row, the largest steps first. Base value and steps add up to what the
model itself predicts.
"""

import numpy as np
import xgboost as xgb
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import treeinner as ti

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.5, random_state=0)
model = xgb.XGBClassifier(n_estimators=60, max_depth=3, learning_rate=0.1, n_jobs=1)
model.fit(X_train, y_train)

attribution = ti.attribute(model, X_valid)
margin = model.predict(X_valid, output_margin=True)
unsure = int(np.abs(margin).argmin())  # the row that the model is least sure about
ti.plots.waterfall(attribution, unsure)

# %%
# They add up.

total = attribution.base_values[unsure] + attribution.values[unsure].sum()
print(f"base value and steps: {total:.4f}, the model itself: {margin[unsure]:.4f}")
