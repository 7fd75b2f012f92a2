# SPDX-License-Identifier: BSD-3-Clause
"""
Learning which directions matter
================================

A target that depends on three of twenty columns, two of them through their product only, so
that neither correlates with it. Kernel ridge regression weighs all columns alike; a
Recursive Feature Machine finds the three.
"""

# %%
# The data: ``y = x0 x1 + sin(2 x2) + noise``, all columns standard normal.

import matplotlib.pyplot as plt
import numpy as np

from rfmlearn import RFMClassifier, RFMRegressor
from rfmlearn.datasets import make_multi_index
from rfmlearn.features import top_directions

X, y, subspace = make_multi_index(1280, 20, random_state=0)
X_new, y_new, _ = make_multi_index(1280, 20, random_state=1)

# %%
# With ``max_iter=0`` the metric stays the identity: plain kernel ridge regression.

ridge = RFMRegressor(max_iter=0).fit(X, y)
model = RFMRegressor().fit(X, y)
print(f"R2 on fresh rows: kernel ridge {ridge.score(X_new, y_new):.3f}")
print(f"                  RFM          {model.score(X_new, y_new):.3f}")

# %%
# The learned matrix M is nearly zero outside the first three columns, and its three leading
# eigenvectors span the three that matter: the smallest cosine between the two subspaces is
# close to 1.

directions, strengths = top_directions(model.feature_matrix_, 3)
cosines = np.linalg.svd(directions @ subspace.T, compute_uv=False)
print(f"smallest cosine {cosines.min():.4f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
image = left.imshow(model.feature_matrix_, cmap="RdBu_r", vmin=-1, vmax=1)
figure.colorbar(image, ax=left, shrink=0.8)
left.set(title="feature_matrix_", xticks=range(0, 20, 5), yticks=range(0, 20, 5))
right.bar(range(20), model.feature_importances_)
right.set(title="feature_importances_", xlabel="column", xticks=range(0, 20, 5))

# %%
# How many updates? Early stopping holds rows out, scores every iterate on them, and keeps
# the best. The ``history_`` tells the story.

stopped = RFMRegressor(max_iter=15, early_stopping=True, random_state=0).fit(X, y)
print("iterate  train score  validation score")
for row in stopped.history_:
    print(f"{row['iteration']:7d}  {row['train_score']:11.4f}  {row['validation_score']:16.4f}")
print(f"kept iterate {stopped.best_iter_} of {stopped.n_iter_}")

# %%
# ``transform`` maps rows to coordinates in which Euclidean distance is the learned one. Here
# the class is the sign of ``x0 x1``: no single column tells anything of it, and among twenty
# the pattern is lost. In the two leading coordinates of a classifier's metric, fitted to
# other rows, it is plain to see.

classifier = RFMClassifier().fit(X, X[:, 0] * X[:, 1] > 0)
truth = X_new[:, 0] * X_new[:, 1] > 0
print(f"accuracy on fresh rows {classifier.score(X_new, truth):.3f}")

Z = classifier.transform(X_new, n_components=2)
figure, axis = plt.subplots(figsize=(4.6, 4.2), layout="constrained")
for label, colour in ((True, "tab:red"), (False, "tab:blue")):
    axis.scatter(*Z[truth == label].T, s=6, color=colour, label=f"x0 x1 > 0: {label}")
axis.legend(loc="upper right", markerscale=2)
axis.set(title="Fresh rows in learned coordinates", xlabel="first", ylabel="second")
