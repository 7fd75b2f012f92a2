# SPDX-License-Identifier: BSD-3-Clause
"""
What a trained network looks at
===============================

The neural feature ansatz (arXiv 2212.13881): in a trained network the matrix ``W^T W`` of a layer
is proportional to a power of the average gradient outer product (AGOP) at its input. Here it is
on small real tables, beside the controls without which it proves nothing.
"""

# %%
# Five hidden layers, trained by gradient descent from two initialisations: the usual one, and one
# whose first layer starts at a thousandth of it. ``WIDTH = 1024`` is the size of the paper's study;
# it takes some minutes.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from rfmlearn import ABCMLPClassifier, RFMClassifier
from rfmlearn.features import alignment
from rfmlearn.inspection import AlignmentDisplay, FeatureMatrixDisplay
from rfmlearn.neural import layer_features

WIDTH = 128
TABLES = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}


def network(first_layer_scale):
    return ABCMLPClassifier(
        (WIDTH,) * 5,
        parametrization="standard",
        optimizer="sgd",
        learning_rate=0.1,
        first_layer_scale=first_layer_scale,
        max_epochs=100,
        batch_size=64,
        random_state=0,
    )


# %%
# Four correlations of the first layer, for each table and each initialisation: of the NFM with the
# square root of the AGOP, before and after training; of the NFM with its initial value; and of the
# change of the weights with the square root of the AGOP. The last column compares the network's
# features with those of a Recursive Feature Machine, which has no network.

head = ("untrained", "trained", "with initial", "change", "with RFM's M")
print(f"{'':28s}" + "".join(f"{name:>14s}" for name in head))
nets, machines = {}, {}
for name, load in TABLES.items():
    X, y = load(return_X_y=True)
    X = X[:, X.std(axis=0) > 0]
    X = StandardScaler().fit_transform(X).astype(np.float32)
    machines[name] = RFMClassifier().fit(X, y)
    for scale in (1.0, 1e-3):
        net = nets[name, scale] = network(scale).fit(X, y), X
        first = layer_features(net[0], X)[0]
        values = (
            layer_features(net[0].initial(), X)[0].alignment,
            first.alignment,
            first.alignments["pearson with initial nfm"],
            layer_features(net[0], X, subtract_init=True)[0].alignment,
            alignment(first.nfm, machines[name].feature_matrix_, "pearson"),
        )
        cells = "".join(f"{value:14.3f}" for value in values)
        print(f"{name + f', first layer x {scale:g}':28s}{cells}")

# %%
# The untrained network is aligned too. What training adds shows in the other columns: with a small
# first layer the NFM has little to do with its initial value, and is aligned all the same.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained", sharey=True)
for ax, scale, title in ((left, 1.0, "default first layer"), (right, 1e-3, "small first layer")):
    net, X = nets["digits", scale]
    AlignmentDisplay.from_estimator(net, X, ax=ax)
    ax.set_title(f"digits, {title}")

# %%
# The pixels that the first layer looks at, and those that the Recursive Feature Machine does. (The
# three pixels of the 64 that are always empty were left out; they are drawn as 0.)

X, _ = load_digits(return_X_y=True)
alive = X.std(axis=0) > 0
figure, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
pictures = (
    ("network, default first layer", layer_features(*nets["digits", 1.0])[0].nfm),
    ("network, small first layer", layer_features(*nets["digits", 1e-3])[0].nfm),
    ("Recursive Feature Machine", machines["digits"].feature_matrix_),
)
for ax, (title, M) in zip(axes, pictures):
    diagonal = np.zeros(64)
    diagonal[alive] = M.diagonal()
    FeatureMatrixDisplay(diagonal, image_shape=(8, 8)).plot(ax)
    ax.set_title(title, fontsize=9)
plt.show()
