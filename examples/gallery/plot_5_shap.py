"""
With shap's plots
=================

`ti.TreeExplainer` is called like `shap.TreeExplainer`, and `to_shap` turns any attribution into a `shap.Explanation`:
shap draws what treeinner computed.
"""

import matplotlib.pyplot as plt
import shap
import xgboost as xgb
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import treeinner as ti

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.5, random_state=0)
model = xgb.XGBClassifier(n_estimators=60, max_depth=3, learning_rate=0.1, n_jobs=1)
model.fit(X_train, y_train)

# %%
# TreeSHAP, as shap computes it.

explanation = ti.TreeExplainer(model)(X_valid)
shap.plots.beeswarm(explanation, show=False)
plt.tight_layout()

# %%
# PreDecomp of one row in shap's waterfall.

plt.figure()
shap.plots.waterfall(ti.attribute(model, X_valid).to_shap()[0], show=False)
plt.tight_layout()
