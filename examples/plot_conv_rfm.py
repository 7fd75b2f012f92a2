# SPDX-License-Identifier: BSD-3-Clause
"""
Features of image patches
=========================

The first layer of a convolutional network sees patches. What it has learned about them is in its
filters K, as ``K^T K``, and, by the convolutional ansatz (arXiv 2309.00570), in the average outer
product of gradients with respect to patches. A Recursive Feature Machine on patches learns the
same from images without a network.
"""

# %%
# A trained network
# -----------------
#
# Two convolutions on handwritten digits, the first initialised at a hundredth of the usual size, so
# that what is in its filters was learned. For each layer the correlation of ``K^T K`` with the
# square root of the patch AGOP, and for comparison the same before training.

import copy

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits, load_sample_images
from torch import nn

from rfmlearn import ConvRFMClassifier, RFMClassifier
from rfmlearn.features import alignment
from rfmlearn.inspection import FilterDisplay
from rfmlearn.neural import layer_features

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
images, labels = torch.from_numpy(X).reshape(-1, 1, 8, 8), torch.from_numpy(y)


def network(seed):
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(1, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(64 * 16, 10),
    )  # fmt: skip
    with torch.no_grad():
        net[0].weight.mul_(1e-2)
    return net


def train(net, epochs=30):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[rows]), labels[rows]).backward()
            optimizer.step()
    return net


print(f"{'':6s} {'layer':>6s} {'untrained':>10s} {'trained':>8s} {'with initial':>13s}")
for seed in range(3):
    net = network(seed)
    start = copy.deepcopy(net)
    train(net)
    for before, after in zip(layer_features(start, images), layer_features(net, images)):
        kept = alignment(before.nfm, after.nfm, "pearson")
        print(
            f"seed {seed} {after.name:>6s} {before.alignment:10.3f} {after.alignment:8.3f} "
            f"{kept:13.3f}"
        )

# %%
# Without a network
# -----------------
#
# Digits somewhere on a noisy canvas, 500 to learn from: every update of the metric, and the one
# that early stopping chooses on held-out images, never on those of the test.


def noisy(seed):
    rng = np.random.default_rng(seed)
    canvas = np.zeros((len(X), 12, 12), dtype=np.float32)
    for image, digit in zip(canvas, X.reshape(-1, 8, 8)):
        i, j = rng.integers(0, 5, 2)
        image[i : i + 8, j : j + 8] = digit
    canvas += 0.25 * rng.normal(size=canvas.shape).astype(np.float32)
    order = rng.permutation(len(X))
    return canvas.reshape(len(X), -1), order[:500], order[500:1500]


options = {"kernel": "patch_laplace", "agop_power": 1.0, "alpha": 1e-2, "random_state": 0}
scores, chosen, full = [], [], []
for seed in range(2):
    Z, learn, test = noisy(seed)
    models = [ConvRFMClassifier((1, 12, 12), max_iter=t, **options) for t in range(5)]
    scores.append([m.fit(Z[learn], y[learn]).score(Z[test], y[test]) for m in models])
    best = ConvRFMClassifier((1, 12, 12), max_iter=4, early_stopping=True, **options)
    chosen.append(best.fit(Z[learn], y[learn]).score(Z[test], y[test]))
    full.append([
        RFMClassifier(max_iter=t).fit(Z[learn], y[learn]).score(Z[test], y[test]) for t in (0, 3)
    ])  # fmt: skip
print("\naccuracy on noisy digits, mean of two seeds")
print("  ConvRFM by update   ", *(f"{s:.3f}" for s in np.mean(scores, axis=0)))
print(f"  ConvRFM, chosen      {np.mean(chosen):.3f}")
print("  RFM on whole rows    {:.3f} (fixed kernel), {:.3f}".format(*np.mean(full, axis=0)))

# %%
# The filters that both have found: eigenvectors of M beside filters of the network.

figure, (left, right) = plt.subplots(1, 2, figsize=(7, 3.6), layout="constrained")
FilterDisplay.from_estimator(best, n_filters=9, ax=left)
left.set_title("ConvRFM, noisy digits: eigenvectors of M")
FilterDisplay.from_estimator(net, n_filters=9, ax=right)
right.set_title("network, digits: longest filters")

# %%
# Edge detectors
# --------------
#
# What M makes of a photograph. Random crops are told apart by whether their contrast is upright or
# level. The length of a patch, less its mean, under M is then large where there is an edge.

photo = load_sample_images().images[0].mean(axis=2) / 255
rng = np.random.default_rng(0)
corners = rng.integers(0, np.array(photo.shape) - 10, size=(800, 2))
crops = np.stack([photo[i : i + 10, j : j + 10] for i, j in corners])
crops = (crops - crops.mean(axis=(1, 2), keepdims=True)) / (
    crops.std(axis=(1, 2), keepdims=True) + 0.02
)
upright, level = (np.abs(np.diff(crops, axis=axis)).mean(axis=(1, 2)) for axis in (2, 1))
detector = ConvRFMClassifier((1, 10, 10), kernel="patch_laplace", agop_power=1.0, max_iter=2)
detector.fit(crops.reshape(800, -1).astype(np.float32), upright > level)

window = photo[100:340:2, 180:460:2]
grid_of_patches = np.lib.stride_tricks.sliding_window_view(window, (3, 3)).reshape(-1, 9)
grid_of_patches = grid_of_patches - grid_of_patches.mean(axis=1, keepdims=True)
M = detector.feature_matrix_
norms = np.sqrt(np.einsum("na,ab,nb->n", grid_of_patches, M, grid_of_patches).clip(0))
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
axes[0].imshow(window, cmap="gray")
axes[0].set_title("photograph")
axes[1].imshow(norms.reshape(window.shape[0] - 2, -1), cmap="magma")
axes[1].set_title("length of patches under M")
FilterDisplay.from_estimator(detector, n_filters=4, ax=axes[2])
axes[2].set_title("eigenvectors of M")
for ax in axes:
    ax.set_axis_off()
plt.show()
