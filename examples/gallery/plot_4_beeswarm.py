"""
All rows at a glance
====================

`attribute` splits every prediction over its features. A dot is a row: how far the feature moved its prediction, dark
where the feature's value is low and bright where it is high. The unit is that of the margin, here log-odds.
"""

import xgboost as xgb
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import treeinner as ti

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.5, random_state=0)
model = xgb.XGBClassifier(n_estimators=60, max_depth=3, learning_rate=0.1, n_jobs=1)
model.fit(X_train, y_train)

attribution = ti.attribute(model, X_valid)
ti.plots.beeswarm(attribution, top=12)
