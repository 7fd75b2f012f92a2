# SPDX-License-Identifier: BSD-3-Clause
"""
Grokking
========

Perfect on the training rows from the beginning, at chance on fresh ones for a long time, and then
suddenly right. What changes in between is the metric: grokking is feature learning, and happens
without a network, without gradient descent and without a change of the training error.
"""

# %%
# Addition modulo p
# -----------------
#
# The sum of two numbers modulo 31, each number a one-hot vector. A Recursive Feature Machine
# learns from 65% of the pairs. It interpolates them exactly at every iterate (``alpha=0``), and
# is asked for the other 35%.
#
# Mallinar, Beaglehole, Zhu, Radhakrishnan, Pandit and Belkin (arXiv 2407.20199) report this for p
# = 61. Here is the smaller p = 31 over five draws of the training pairs, and three controls: the
# metric not learned, the AGOP itself instead of its root, and gradients that are not centred.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.callback import ScoringMonitor
from sklearn.datasets import load_sample_images

from rfmlearn import ABCMLPClassifier, RFMClassifier
from rfmlearn.neural import layer_features

P, SHARE, SEEDS = 31, 0.65, range(5)
first, second = np.divmod(np.arange(P * P), P)
X = np.hstack([np.eye(P)[first], np.eye(P)[second]])
y = (first + second) % P


def by_iterate(model, X, y, X_test, y_test, task):
    """Fit, and return the accuracies on training and test rows after each iterate or epoch."""
    monitor = ScoringMonitor(
        scoring=lambda now, X_, y_: {"train": now.score(X, y), "test": now.score(X_test, y_test)}
    )
    model.set_callbacks(monitor).fit(X, y)
    log = [row for row in monitor.get_logs().data if row["task_name"] == task]
    return np.array([[row["train"], row["test"]] for row in log])


def grok(seed, max_iter=16, **options):
    """Fit, and return the machine with the accuracies by iterate on training and other pairs."""
    order = np.random.default_rng(seed).permutation(P * P)
    learn, test = np.split(order, [int(SHARE * P * P)])
    settings = {
        "kernel": "gaussian",
        "bandwidth": 2.5,
        "bandwidth_mode": "constant",
        "alpha": 0.0,
        "agop_power": 0.5,
        "matrix_scaling": None,
        "center_gradients": True,
    }
    machine = RFMClassifier(max_iter=max_iter, **{**settings, **options})
    return machine, by_iterate(machine, X[learn], y[learn], X[test], y[test], "iterate")


start = time.perf_counter()
machines, courses = zip(*(grok(seed) for seed in SEEDS))
print(f"{(time.perf_counter() - start) / len(SEEDS):.1f} s a run of 16 updates\n")
print("seed   train, iterate 0   test, iterate 0    above 0.99 from")
for seed, course in zip(SEEDS, courses):
    passed = int(np.argmax(course[:, 1] > 0.99))
    print(f"{seed:4d}   {course[0, 0]:16.2f} {course[0, 1]:17.2f} {passed:18d}")
controls = {
    "M not learned": {"max_iter": 0},
    "AGOP, power 1": {"agop_power": 1.0},
    "gradients not centred": {"center_gradients": False},
}
print("\nmedian accuracy on the other pairs at the last iterate")
last = {"as published": np.median([course[-1, 1] for course in courses])}
for name, options in controls.items():
    last[name] = np.median([grok(seed, **options)[1][-1, 1] for seed in range(3)])
for name, accuracy in last.items():
    print(f"   {name:24s}{accuracy:6.2f}")

# %%
# What the metric has learned: the block of M that joins the two numbers is circulant, its entries
# depend on a - b only. A Fourier transform makes it diagonal, and in Fourier coefficients
# addition modulo p is a product.


def circulant_share(B):
    """Share of the variance of a block that a - b explains."""
    wrapped = np.subtract.outer(np.arange(P), np.arange(P)) % P
    means = np.array([B[wrapped == k].mean() for k in range(P)])
    return 1 - ((B - means[wrapped]) ** 2).sum() / ((B - B.mean()) ** 2).sum()


shares = [circulant_share(machine.feature_matrix_[:P, P:]) for machine in machines]
print("\nvariance of that block explained by a - b:", *(f"{share:.2f}" for share in shares))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for course in courses:
    (train,) = left.plot(course[:, 0], color="tab:blue")
    (test,) = left.plot(course[:, 1], color="tab:red", alpha=0.7)
left.legend([train, test], ["pairs learned from", "other pairs"])
left.set(xlabel="update", ylabel="accuracy", title=f"addition modulo {P}, five seeds")
M = machines[0].feature_matrix_ - np.diag(machines[0].feature_matrix_.diagonal())
image = right.imshow(M, cmap="RdBu_r", vmin=-abs(M).max(), vmax=abs(M).max())
right.set(title="M without its diagonal", xticks=[0, P], yticks=[0, P])
figure.colorbar(image, ax=right, shrink=0.8)

# %%
# A star in a corner
# ------------------
#
# Crops of photographs, 24 x 24 in three colours. What decides the label is the brightness of four
# pixels in a corner; there are 20 crops to learn from, 200 to be tested on. The kernel machine is
# perfect on the 20 from the beginning, and each update of the metric draws it to the corner.

SHAPE, CORNER = (3, 24, 24), (slice(None), slice(1, 3), slice(1, 3))
photos = [photo / 255 for photo in load_sample_images().images]
corner = np.zeros(SHAPE, dtype=bool)
corner[CORNER] = True


def starred(n, rng):
    labels = rng.permutation(np.arange(n) % 2)
    images = np.empty((n, *SHAPE), dtype=np.float32)
    for image, label in zip(images, labels):
        photo = photos[rng.integers(2)]
        i, j = rng.integers(0, photo.shape[0] - 24), rng.integers(0, photo.shape[1] - 24)
        image[:] = photo[i : i + 24, j : j + 24].transpose(2, 0, 1)
        image[CORNER] = 0.75 if label else 0.25
    return images.reshape(n, -1), labels


kernel = []
for seed in SEEDS:
    rng = np.random.default_rng(seed)
    (Z, labels), (fresh, truth) = starred(20, rng), starred(200, rng)
    models = [RFMClassifier(max_iter=t).fit(Z, labels) for t in range(4)]
    assert all(model.score(Z, labels) == 1 for model in models)
    share = models[-1].feature_importances_[corner.ravel()].sum()
    kernel.append([*(model.score(fresh, truth) for model in models), share])
kernel = np.median(kernel, axis=0)
print("\nkernel, median of five seeds: train 1.00, test by update", end=" ")
print(*(f"{score:.2f}" for score in kernel[:4]), f"; share of M in the corner {kernel[4]:.2f}")

# %%
# The first paper (arXiv 2212.13881) shows networks that are perfect on training images long
# before they are on others. Ours, trained by Adam on the same 20 crops, goes on improving after
# it is perfect on them, some seeds much and some little, but does not get as far as the kernel:
# of what its first layer has learned a tenth is in the corner, which is 0.7% of the pixels.

EPOCHS = 120
print("\nnetwork   train perfect from    test at that epoch    test at the end   corner in dW'dW")
for seed in SEEDS:
    rng = np.random.default_rng(seed)
    (Z, labels), (fresh, truth) = starred(20, rng), starred(200, rng)
    net = ABCMLPClassifier(
        (256, 256), parametrization="standard", max_epochs=EPOCHS, random_state=seed
    )
    scores = by_iterate(net, Z, labels, fresh, truth, "epoch")
    perfect = int(np.argmax(scores[:, 0] == 1))
    moved = layer_features(net, Z, subtract_init=True)[0].nfm.diagonal()
    print(
        f"seed {seed}    {perfect + 1:18d}    {scores[perfect, 1]:18.2f}    "
        f"{scores[-1, 1]:15.2f}    {moved[corner.ravel()].sum() / moved.sum():15.2f}"
    )

# %%
# The claims of this page, held:

assert all(course[0, 1] < 0.05 and course[-1, 1] > 0.99 for course in courses)
assert last["M not learned"] < 0.05
assert min(shares) > 0.95
assert kernel[0] < 0.75
assert kernel[3] > 0.95
plt.show()
