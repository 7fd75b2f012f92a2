# SPDX-License-Identifier: BSD-3-Clause
"""Speed of the networks, each against the same work done otherwise in this process.

Training: `ABCMLPClassifier` against scikit-learn's `MLPClassifier`, same widths, epochs and
batches, on digits. Reading: `layer_features` of a network of 10,000 x 784 inputs and 10 outputs
against one epoch of forward and backward passes. Runs alternate; the table quotes medians.

    python benchmarks/bench_networks.py [--width 1024] [--repeats 3]
"""

import argparse
import time
import warnings
from itertools import pairwise
from statistics import median

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from torch import nn

from rfmlearn import ABCMLPClassifier
from rfmlearn.neural import layer_features

EPOCHS, BATCH = 10, 200


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def training(width, repeats):
    X, y = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    print(f"{EPOCHS} epochs on digits, batches of {BATCH}: seconds")
    print(f"{'':24s}{'scikit-learn':>14s}{'rfmlearn':>12s}{'ratio':>8s}")
    for dtype in (np.float64, np.float32):
        rows = X.astype(dtype)
        for sizes in ((width,), (width, width)):
            rivals = (
                MLPClassifier(
                    sizes, batch_size=BATCH, max_iter=EPOCHS, tol=0, n_iter_no_change=EPOCHS
                ),
                ABCMLPClassifier(sizes, batch_size=BATCH, max_epochs=EPOCHS),
            )
            times = [[], []]
            for _ in range(repeats):
                for found, net in zip(times, rivals):
                    found.append(seconds(lambda net=net, rows=rows: net.fit(rows, y)))
            theirs, ours = map(median, times)
            name = f"{dtype.__name__}, {len(sizes)} hidden"
            print(f"{name:24s}{theirs:14.2f}{ours:12.2f}{theirs / ours:8.2f}")


def reading(width, repeats):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(10_000, 784, generator=generator)
    Y = torch.randint(10, (10_000,), generator=generator)
    print("\n10,000 x 784 inputs, 10 outputs, float32: seconds")
    print(f"{'':24s}{'one epoch':>14s}{'features':>12s}{'epochs':>8s}")
    for depth in (1, 3, 5):
        sizes = [784, *[width] * depth, 10]
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        net = nn.Sequential(*(x for layer in layers for x in (layer, nn.ReLU())))[:-1]

        def epoch(net=net):
            for rows in torch.arange(10_000).split(500):
                net.zero_grad()
                nn.functional.cross_entropy(net(X[rows]), Y[rows]).backward()

        times = [[], []]
        for _ in range(repeats):
            times[0].append(seconds(epoch))
            times[1].append(seconds(lambda net=net: layer_features(net, X)))
        one, ours = map(median, times)
        print(f"{f'{depth} hidden layers':24s}{one:14.2f}{ours:12.2f}{ours / one:8.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # ten epochs are few
    training(arguments.width, arguments.repeats)
    reading(arguments.width, arguments.repeats)


if __name__ == "__main__":
    main()
