"""
Features that belong together
=============================

The data have ten measurements of the cell nuclei, each as a mean, an error and a worst value: three columns that say
nearly the same. How they share a signal depends on how the splits happened to fall. `feature_groups` scores what
belongs together as one, with its own standard error: not the sum of three errors, because row scores are added first.
"""

import matplotlib.pyplot as plt
import xgboost as xgb
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import treeinner as ti

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.5, random_state=0)
model = xgb.XGBClassifier(n_estimators=60, max_depth=3, learning_rate=0.1, n_jobs=1)
model.fit(X_train, y_train)

measured = [name.removeprefix("mean ") for name in X.columns if name.startswith("mean ")]
groups = {name: [f"mean {name}", f"{name} error", f"worst {name}"] for name in measured}

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
ti.plots.bar(ti.importance(model, X_valid, y_valid), max_display=12, ax=left)
ti.plots.bar(ti.importance(model, X_valid, y_valid, feature_groups=groups), ax=right)
left.set_title("single columns")
right.set_title("measurements")
plt.show()
