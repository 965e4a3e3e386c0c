"""
Rows that come in batches
=========================

`ImportanceAccumulator` adds rows batch by batch, in memory that does not grow with them. Its sums are exact: batches,
files and machines may divide the rows in any way, and the result is the same to the last bit.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import xgboost as xgb
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import treeinner as ti

X, y = load_digits(return_X_y=True, as_frame=True)
X_train, X_valid, y_train, y_valid = train_test_split(X, y >= 5, test_size=0.7, random_state=0)
model = xgb.XGBClassifier(n_estimators=40, max_depth=3, learning_rate=0.2, n_jobs=1)
model.fit(X_train, y_train)

# %%
# The first pass gives the scores of TreeInner and of the loss breakdown; signal needs a second one.

accumulator = ti.ImportanceAccumulator(model, score="tree_inner")
batches = np.array_split(np.arange(len(X_valid)), 25)
rows, scores = [], []
with warnings.catch_warnings():
    warnings.simplefilter("ignore", ti.TreeInnerWarning)  # after one pass there are no standard errors, it says
    for batch in batches:
        so_far = accumulator.update(X_valid.iloc[batch], y_valid.iloc[batch]).result()
        rows.append(so_far.n_rows)
        scores.append(so_far["pixel_2_5"].score)

figure, ax = plt.subplots(layout="constrained")
ax.plot(rows, scores, label="score of pixel_2_5")
ax.set(xlabel="held-out rows so far", ylabel=so_far.unit)
ax.legend()
plt.show()

# %%
# A second pass over the same batches gives standard errors and p values: the same bits as all rows at once.

again = accumulator.second_pass()
for batch in batches:
    again.update(X_valid.iloc[batch], y_valid.iloc[batch])
at_once = ti.importance(model, X_valid, y_valid, score="tree_inner")
print(np.array_equal(again.result().scores, at_once.scores), np.array_equal(again.result().p_values, at_once.p_values))
