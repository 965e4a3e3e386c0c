"""
Which features to keep
======================

Ten measurements of patients, and ten columns of random numbers. The marginal test keeps whatever helps the trees; the
conditional test keeps what a column tells beyond all the others: s3, s4 and s5 are blood values that go together. With
q = 0.1, one in ten of what is kept may be wrong on average; here it is one of the random columns.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

import treeinner as ti

X, y = load_diabetes(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
X = X.assign(**{f"random {i}": rng.normal(size=len(X)) for i in range(10)})

figure, axes = plt.subplots(1, 2, figsize=(12, 6), layout="constrained")
for ax, test in zip(axes, ("marginal", "conditional"), strict=True):
    selector = ti.TreeInnerSelector(test=test, random_state=0).fit(X, y)
    ti.plots.bar(selector.importance_, ax=ax)
    ax.set_title(f"{test} test: {selector.support_.sum()} of {X.shape[1]} kept")
plt.show()
