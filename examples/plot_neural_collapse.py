# SPDX-License-Identifier: BSD-3-Clause
"""
Neural collapse, layer by layer
===============================

In the last layers of a trained network the rows of a class come together in a point. A deep
Recursive Feature Machine, whose layers are made of AGOPs and random weights, does the same without
gradient descent.
"""

# %%
# Each layer fits a kernel machine to its rows, takes the AGOP as M, and passes on ``relu(W
# M^(1/2) x)`` with random W. (Beaglehole, Sukenik, Mondelli and Belkin, arXiv 2402.13728.) The
# measure is the variance within the classes over the variance between them. The control leaves M
# the identity: the same random layers, no features.

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from rfmlearn import ABCMLPClassifier, RFMClassifier

SEEDS, DEPTH, WIDTH = range(5), 6, 512
X, y = load_digits(return_X_y=True)


def collapse(H, y):
    """Return the variance within the classes over that between them."""
    means = np.stack([H[y == label].mean(axis=0) for label in np.unique(y)])
    within = ((H - means[np.searchsorted(np.unique(y), y)]) ** 2).sum(axis=1).mean()
    between = ((means - H.mean(axis=0)) ** 2).sum(axis=1).mean()
    return within / between


def deep(H, H_new, y, rng, **options):
    """Return the collapse of training and fresh rows layer by layer, and the last accuracy."""
    course = [(collapse(H, y_train), collapse(H_new, y_test))]
    for _ in range(DEPTH):
        machine = RFMClassifier(**options).fit(H, y)
        W = rng.normal(size=(H.shape[1], WIDTH)) * (2 / WIDTH) ** 0.5
        H, H_new = (np.maximum(machine.transform(rows) @ W, 0) for rows in (H, H_new))
        course.append((collapse(H, y_train), collapse(H_new, y_test)))
    return np.array(course), RFMClassifier(max_iter=0).fit(H, y).score(H_new, y_test)


def trained(H, H_new, y, seed):
    net = ABCMLPClassifier(
        (256,) * 4, parametrization="standard", max_epochs=200, random_state=seed
    ).fit(H, y)
    course = [(collapse(H, y), collapse(H_new, y_test))]
    H, H_new = (torch.as_tensor(rows, dtype=torch.float32) for rows in (H, H_new))
    with torch.no_grad():
        for layer in net.to_torch():
            H, H_new = layer(H), layer(H_new)
            if isinstance(layer, torch.nn.ReLU):
                course.append((collapse(H.numpy(), y), collapse(H_new.numpy(), y_test)))
    return np.array(course), net.score(start_new, y_test)


LAYERS = {
    "deep RFM, Laplace": {"max_iter": 1},
    "deep RFM, Gaussian": {"max_iter": 1, "kernel": "gaussian", "bandwidth": 2.0},
    "random layers, M = I": {"max_iter": 0},
}
courses = {name: [] for name in (*LAYERS, "trained network")}
accuracy = {name: [] for name in courses}
for seed in SEEDS:
    rng = np.random.default_rng(seed)
    learn, test = np.split(rng.permutation(len(X)), [800])
    scaler = StandardScaler().fit(X[learn])
    start, start_new = (scaler.transform(X[rows]).astype(np.float32) for rows in (learn, test))
    y_train, y_test = y[learn], y[test]
    runs = {name: deep(start, start_new, y_train, rng, **how) for name, how in LAYERS.items()}
    runs["trained network"] = trained(start, start_new, y_train, seed)
    for name, (course, score) in runs.items():
        courses[name].append(course)
        accuracy[name].append(score)

print("variance within / between classes, training rows, median of five seeds, by layer\n")
medians = {name: np.median(runs, axis=0) for name, runs in courses.items()}
for name, course in medians.items():
    print(f"{name:22s}" + "".join(f"{value:8.3f}" for value in course[:, 0]))
print("\nthe same of fresh rows\n")
for name, course in medians.items():
    print(f"{name:22s}" + "".join(f"{value:8.3f}" for value in course[:, 1]))
print("\naccuracy of the last layer on fresh rows")
for name, scores in accuracy.items():
    print(f"{name:22s}{np.median(scores):8.3f}")

# %%
# Training rows collapse; fresh rows follow some of the way. The accuracy does not gain by it:
# collapse is a property of features that were learned from these labels, no promise of
# generalisation.

figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
for (name, course), colour in zip(
    medians.items(), ("tab:red", "tab:orange", "tab:grey", "tab:blue")
):
    ax.plot(course[:, 0], "o-", color=colour, label=f"{name}, training rows")
    ax.plot(course[:, 1], "o:", color=colour, label=f"{name}, fresh rows")
ax.set(xlabel="layer", ylabel="variance within / between classes", yscale="log")
ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))

# %%
# The claims of this page, held:

laplace, gaussian, fixed, net = (course[:, 0] for course in medians.values())
assert laplace[-1] < laplace[0] / 10
assert gaussian[-1] < gaussian[0] / 100
assert fixed[-1] > fixed[0]
assert net[-1] < net[0] / 2
plt.show()
