# SPDX-License-Identifier: BSD-3-Clause
"""
Simplicity bias
===============

Two pictures side by side, and each of them alone would tell the class. Networks look at the
simpler one and ignore the other. So does a Recursive Feature Machine, whose matrix M shows which.
"""

# %%
# Left a handwritten 0 or 1, right a piece of one of two photographs, of a temple or of a flower:
# a 0 always comes with the temple, a 1 with the flower. Digits are easier than pieces of
# photographs. In the first paper (arXiv 2212.13881), which joins images of CIFAR-10 to digits of
# MNIST, networks and Recursive Feature Machines follow the digit.

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_sample_images

from rfmlearn import ABCMLPClassifier, RFMClassifier
from rfmlearn.inspection import FeatureMatrixDisplay
from rfmlearn.neural import layer_features

parser = argparse.ArgumentParser(description="Which of two pictures side by side is learned?")
parser.add_argument("--data", type=Path, help="folder with mnist.npz and cifar10_small.npz")
args = parser.parse_args()
SEEDS = range(5)

# %%
# With ``--data`` digits of MNIST beside planes and trucks of CIFAR-10, 32 x 32, as in the paper.

if args.data:
    SIDE = 32
    with np.load(args.data / "mnist.npz") as file:
        kept = np.flatnonzero(file["y_train"] < 2)[:2000]
        digits = np.pad(file["X_train"][kept], ((0, 0), (2, 2), (2, 2))).reshape(2000, -1) / 255
        names = file["y_train"][kept]
    with np.load(args.data / "cifar10_small.npz") as file:
        objects = {
            part: [file[f"X_{part}"][file[f"y_{part}"] == k].mean(axis=3) / 255 for k in (0, 9)]
            for part in ("train", "test")
        }
else:
    SIDE = 8
    digits, names = load_digits(return_X_y=True)
    digits = digits / 16
    photos = [photo.mean(axis=2) / 255 for photo in load_sample_images().images]


def piece(label, part, rng):
    """Return a plane or truck, or every fourth pixel of a random square of a photograph."""
    if args.data:
        return objects[part][label][rng.integers(len(objects[part][label]))].ravel()
    i, j = (rng.integers(0, size - 32) for size in photos[label].shape)
    return photos[label][i : i + 32 : 4, j : j + 32 : 4].ravel()


def pairs(rows, part, rng, n=500):
    """Return left halves, right halves, and classes; digits are drawn from the given rows."""
    y = rng.integers(0, 2, n)
    left = np.stack([digits[rng.choice(rows[names[rows] == label])] for label in y])
    return left, np.stack([piece(label, part, rng) for label in y]), y


def machine(seed):
    return RFMClassifier(max_iter=3)


def network(seed):
    return ABCMLPClassifier(
        (256, 256), parametrization="standard", optimizer="sgd", learning_rate=0.1,
        first_layer_scale=1e-3, max_epochs=50, random_state=seed,
    )  # fmt: skip


# %%
# Learned from pairs; tested on fresh pairs, on pairs whose digit was exchanged for one of the
# other class, and on pairs whose photograph was. The control: fitted to either half alone. Both
# halves can be learned, so what is ignored is not ignored for lack of information.

KINDS = ("pairs", "digit exchanged", "photo exchanged", "digit alone", "photo alone")
results = {"RFM": [], "network": []}
shares = {"RFM": [], "network": []}
matrices = {}
for seed in SEEDS:
    rng = np.random.default_rng(seed)
    learn, test = np.split(rng.permutation(len(digits)), [1000])
    left, right, y = pairs(learn, "train", rng)
    left_new, right_new, y_new = pairs(test, "test", rng)
    other = np.array([rng.choice(np.flatnonzero(y_new != label)) for label in y_new])
    for name, make in (("RFM", machine), ("network", network)):
        both = make(seed).fit(np.hstack([left, right]), y)
        results[name].append([
            both.score(np.hstack([left_new, right_new]), y_new),
            both.score(np.hstack([left_new[other], right_new]), y_new),
            both.score(np.hstack([left_new, right_new[other]]), y_new),
            make(seed).fit(left, y).score(left_new, y_new),
            make(seed).fit(right, y).score(right_new, y_new),
        ])  # fmt: skip
        if name == "RFM":
            M = both.feature_matrix_
        else:
            M = layer_features(both, np.hstack([left, right]))[0].nfm
        matrices[name] = M
        shares[name].append(M.diagonal()[: SIDE**2].sum() / M.trace())

print("accuracy, median (and range) of five seeds\n")
print(f"{'':18s}{'RFM':>20s}{'network':>20s}")
for k, kind in enumerate(KINDS):
    cells = []
    for rows in results.values():
        column = np.array(rows)[:, k]
        cells.append(f"{np.median(column):.2f} ({column.min():.2f} {column.max():.2f})")
    print(f"{kind:18s}" + "".join(f"{cell:>20s}" for cell in cells))
print(f"{'M on the digit':18s}" + "".join(f"{np.median(s):>20.2f}" for s in shares.values()))

# %%
# With the digit exchanged both follow the digit into the wrong class; the photograph may be
# exchanged without harm. M says so beforehand, without a second data set.

figure, axes = plt.subplots(1, 3, figsize=(9, 2.4), layout="constrained")
shown = right.std(axis=1).argmax()
axes[0].imshow(
    np.hstack([left[shown].reshape(SIDE, SIDE), right[shown].reshape(SIDE, SIDE)]), cmap="gray"
)
axes[0].set(title="a pair", xticks=[], yticks=[])
for ax, (name, M) in zip(axes[1:], matrices.items()):
    diagonal = np.hstack([half.reshape(SIDE, SIDE) for half in np.split(M.diagonal(), 2)])
    FeatureMatrixDisplay(diagonal.ravel(), image_shape=(SIDE, 2 * SIDE)).plot(ax)
    ax.set_title(f"diagonal of M, {name}")

# %%
# The claims of this page, held:

for name in results:
    median = dict(zip(KINDS, np.median(results[name], axis=0)))
    assert median["pairs"] > 0.98
    assert median["digit exchanged"] < 0.05
    assert median["photo exchanged"] > 0.95
    assert median["photo alone"] > 0.6
    assert np.median(shares[name]) > 0.75
plt.show()
