# SPDX-License-Identifier: BSD-3-Clause
"""
Learning to learn, at infinite width
====================================

Model-agnostic meta-learning looks for initial weights from which one gradient step solves a new
task. What it finds is in the features: the second experiment of Tensor Programs IV
(arXiv 2011.14522). In muP a linear network has a limit that learns them; kernel regimes have fixed
features, and gain nothing from the tasks seen before.

Without arguments on a made-up world of classes that differ in four directions of forty. On
handwritten characters::

    python examples/plot_maml.py --images omniglot.npz
"""

# %%
# Classes are points in a subspace, rows are points near them. A task is to tell five new classes
# apart from one row of each.

import argparse
import time

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.decomposition import PCA
from torch.nn import functional

from rfmlearn import KernelRegimeClassifier
from rfmlearn.features import top_directions
from rfmlearn.neural import InfiniteLinearNetwork

parser = argparse.ArgumentParser(description="First-order MAML at widths 2 to 512, and its limit.")
parser.add_argument("--images", help=".npz with X_packed (bits), shape, y, alphabet")
parser.add_argument("--steps", type=int, help="meta-steps")
parser.add_argument("--widths", type=int, nargs="+", default=[2, 8, 32, 128, 512])
args = parser.parse_args()
WAYS, TASKS, INNER_RATE, INNER_STEPS_AT_TEST = 5, 32, 0.4, 20


def made_up_world(d=40, k=4, classes=1000, rows=20):
    """Return training and test classes, (classes, rows, d) each, and the subspace."""
    rng = np.random.default_rng(0)
    subspace = np.linalg.qr(rng.normal(size=(d, k)))[0].T
    centres = rng.normal(size=(classes, 1, k)) @ subspace * np.sqrt(d / k) / 2
    X = centres + 0.5 * rng.normal(size=(classes, rows, d))
    return X[: classes // 2], X[classes // 2 :], subspace


def characters(path, size=21, components=100):
    """Return characters to learn from, and of other alphabets for the test: small, whitened."""
    with np.load(path) as file:
        shape, y, alphabet = tuple(file["shape"]), file["y"], file["alphabet"]
        X = np.unpackbits(file["X_packed"], axis=1)[:, : np.prod(shape)].reshape(-1, *shape)
    step = shape[0] // size
    X = X[:, : size * step, : size * step].reshape(-1, size, step, size, step).mean((2, 4))
    X, held_out = X.reshape(len(X), -1), np.isin(alphabet, np.unique(alphabet)[-2:])
    pca = PCA(components, whiten=True, random_state=0).fit(X[~held_out])
    X = pca.transform(X) / np.sqrt(2)
    parts = (
        np.stack([X[y == label] for label in np.unique(y[mask])]) for mask in (~held_out, held_out)
    )
    return *parts, None


if args.images:
    known, unknown, subspace = characters(args.images)
else:
    known, unknown, subspace = made_up_world()
args.steps = args.steps or (2000 if args.images else 400)
known, unknown = (torch.from_numpy(part).float() for part in (known, unknown))
d = known.shape[2]
print(f"{len(known)} classes to learn from, {len(unknown)} for the test, {d} inputs")


def tasks(classes, n, generator, queries=5):
    """Return n tasks: support (n, 5, d), queries (n, 5 queries, d) and their labels."""
    chosen = torch.stack(
        [torch.randperm(len(classes), generator=generator)[:WAYS] for _ in range(n)]
    )
    rows = torch.rand(n, WAYS, classes.shape[1], generator=generator).argsort(2)[
        :, :, : queries + 1
    ]
    X = classes[chosen[:, :, None], rows]
    label = torch.arange(WAYS).repeat_interleave(queries).expand(n, -1)
    return X[:, :, 0], X[:, :, 1:].flatten(1, 2), label


# %%
# The network of all tasks in a batch at once, each with weights of its own. Gradients of the linear
# network by hand: those of the loss at the outputs, times what the other layer passes on.


def gradients(weights, X, label):
    U, b, V, c = weights
    h = X @ U.mT + b[:, None]
    P = functional.softmax(h @ V.mT + c[:, None], dim=2)
    G = (P - functional.one_hot(label, WAYS)) / X.shape[1]
    back = G @ V
    return back.mT @ X, back.sum(1), G.mT @ h, G.sum(1)


def adapt(weights, support, steps):
    """Return the weights after some steps on one row of each class."""
    label = torch.arange(WAYS).expand(len(support), -1)
    for _ in range(steps):
        weights = [w - INNER_RATE * g for w, g in zip(weights, gradients(weights, support, label))]
    return weights


def spread(network, n):
    """Return the weights of a network, a copy for each of n tasks."""
    return [p.detach().expand(n, *p.shape) for p in network.parameters()]


def accuracy(network, n=500):
    support, X, label = tasks(unknown, n, torch.Generator().manual_seed(1))
    right = []
    for part in torch.arange(n).split(50):
        U, b, V, c = adapt(spread(network, len(part)), support[part], INNER_STEPS_AT_TEST)
        F = (X[part] @ U.mT + b[:, None]) @ V.mT + c[:, None]
        right.append((F.argmax(2) == label[part]).float().mean())
    return float(torch.stack(right).mean())


def learn(network, rate=0.1, clip=0.5):
    """First-order MAML: descend along the gradient at the adapted weights."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.SGD(network.parameters(), lr=rate)
    for _ in range(args.steps):
        support, X, label = tasks(known, TASKS, generator)
        adapted = adapt(spread(network, TASKS), support, 1)
        for parameter, g in zip(network.parameters(), gradients(adapted, X, label)):
            parameter.grad = g.mean(0)
        torch.nn.utils.clip_grad_norm_(network.parameters(), clip)
        optimizer.step()


# %%
# The rivals: kernel regimes that see the five rows of a task and nothing else.


def of_kernel(regime, n=200, **options):
    support, X, label = tasks(unknown, 500, torch.Generator().manual_seed(1))
    model = KernelRegimeClassifier(regime, alpha=1e-2, bias_std=0.0, **options)
    right = []
    for task in range(n):
        model.fit(support[task].numpy(), np.arange(WAYS))
        right.append(model.score(X[task].numpy(), label[task].numpy()))
    return np.mean(right)


def limit():
    return InfiniteLinearNetwork(d, WAYS, output_scale=1 / 32, dtype=torch.float32)


start = limit()
published = {2: "55.34", "limit": "66.42", "ReLU NTK": "47.82", "ReLU GP": "47.60"}
published = published if args.images else {}
title = "TP4" if args.images else ""
print(f"\n{'':24s} {'accuracy':>9s} {'seconds':>8s} {title:>6s}")
print(f"{'limit, before':24s} {accuracy(start):9.3f}")
found = {}
for width in (*args.widths, "limit"):
    network, begin = start, time.perf_counter()
    if width != "limit":
        network = limit().finite(width, random_state=0)
    learn(network)
    found[width] = accuracy(network)
    name = f"muP, width {width}" if width != "limit" else "muP, limit"
    seconds = time.perf_counter() - begin
    print(f"{name:24s} {found[width]:9.3f} {seconds:8.1f} {published.get(width, ''):>6s}")
kernels = {
    "linear NTK": of_kernel("ntk", depth=1, activation="identity"),
    "ReLU NTK": of_kernel("ntk", depth=1),
    "ReLU GP": of_kernel("nngp", depth=1),
}
for name, value in kernels.items():
    print(f"{name:24s} {value:9.3f} {'':8s} {published.get(name, ''):>6s}")

# %%
# What was learned: the neural feature matrix ``U^T U`` of the first layer. At the start it is the
# identity; in the made-up world its largest directions become those in which the classes differ.

U = start[0].weight.detach().double().numpy()
directions, strengths = top_directions(U.T @ U)
figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.4), layout="constrained")
left.semilogx(args.widths, [found[w] for w in args.widths], "o-", color="tab:red", label="muP")
left.axhline(found["limit"], color="black", linestyle="--", label="muP, infinite width")
left.axhline(max(kernels.values()), color="tab:gray", linestyle=":", label="best kernel regime")
left.set(xlabel="width", ylabel="accuracy on new classes")
left.legend(frameon=False)
right.bar(np.arange(1, len(strengths) + 1), strengths, color="tab:red")
right.axhline(1.0, color="tab:gray", linestyle=":", label="before")
right.set(xlabel="eigenvalue of the NFM")
right.legend(frameon=False)
if subspace is not None:
    overlap = np.linalg.norm(directions[: len(subspace)] @ subspace.T) ** 2 / len(subspace)
    print(f"\noverlap of the top {len(subspace)} directions with the true subspace: {overlap:.3f}")
plt.show()
