# SPDX-License-Identifier: BSD-3-Clause
"""Fit time and peak memory of RFMClassifier against a straightforward RFM in torch.

The rival is the algorithm as one would first write it: LU solve, whole-matrix temporaries,
one-hot targets also for two classes. Both run in this process, alternating; the table
quotes medians. The floor is the arithmetic that the algorithm cannot avoid, at the rates
measured at the start of the same run.

    python benchmarks/bench_fit.py [--rows 5000] [--features 50] [--updates 5] [--repeats 5]
"""

import argparse
import subprocess
import sys
from statistics import median

import numpy as np
import torch
from _machine import floor_seconds, machine_rates, peak_bytes, timed

from rfmlearn import RFMClassifier


def make_data(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(np.float32)
    return X, (X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) > 0).astype(int)


class NaiveRFM:
    """Laplace RFM with a full M, adaptive bandwidth, M divided by its largest eigenvalue."""

    def __init__(self, updates, alpha=1e-3):
        self.updates, self.alpha = updates, alpha

    def distances(self, A, B):
        A, B = A @ self.root, B @ self.root
        squared = (A * A).sum(1)[:, None] + (B * B).sum(1)[None] - 2 * A @ B.T
        return torch.sqrt(torch.clamp(squared, min=0))

    def fit(self, X, y):
        self.X = torch.from_numpy(X)
        Y = torch.nn.functional.one_hot(torch.from_numpy(y)).float()
        self.mean = Y.mean(0)
        n, d = X.shape
        M = self.root = torch.eye(d)
        for update in range(self.updates + 1):
            Z = self.X @ self.root
            self.L = torch.sqrt(2 * Z.var(0, correction=0).sum())
            D = self.distances(self.X, self.X)
            D.fill_diagonal_(0)
            K = torch.exp(-D / self.L)
            self.coef = torch.linalg.solve(K + self.alpha * torch.eye(n), Y - self.mean)
            if update == self.updates:
                return self
            W = -K / (self.L * D)
            W[D == 0] = 0
            G = torch.stack(
                [(W @ a[:, None]) * self.X - W @ (a[:, None] * self.X) for a in self.coef.T],
                dim=1,
            )
            G = G @ M
            A = torch.einsum("nci,ncj->ij", G, G) / n
            values, V = torch.linalg.eigh(A)
            values = torch.clamp(values, min=0) / values.max()
            M = (V * values) @ V.T
            self.root = (V * values.sqrt()) @ V.T

    def predict(self, X):
        K = torch.exp(-self.distances(torch.from_numpy(X), self.X) / self.L)
        return (K @ self.coef + self.mean).argmax(1).numpy()


def peak_growth(which, args):
    """Return how much the peak memory of a process grew during the fit: median of three."""
    command = [sys.executable, __file__, "--child", which]
    for name in ("rows", "features", "updates"):
        command += [f"--{name}", str(getattr(args, name))]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
    return median(int(run.stdout) for run in runs)


def measure_in_child(which, args):
    X, y = make_data(args.rows, args.features)
    model = {"naive": NaiveRFM, "rfmlearn": lambda t: RFMClassifier(max_iter=t)}[which]
    small = make_data(200, args.features)
    model(1).fit(*small).predict(small[0])  # libraries, thread pools
    before = peak_bytes()
    model(args.updates).fit(X, y)
    print(peak_bytes() - before)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", choices=["naive", "rfmlearn"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        measure_in_child(args.child, args)
        return
    n, d, updates = args.rows, args.features, args.updates
    rates = machine_rates()
    floor = floor_seconds(n, d, updates, rates)
    X, y = make_data(n, d)
    Q, q = make_data(2000, d, seed=1)
    models = {"naive torch": NaiveRFM(updates), "rfmlearn": RFMClassifier(max_iter=updates)}
    seconds = {name: [] for name in models}
    for _ in range(args.repeats):
        for name, model in models.items():
            seconds[name].append(timed(lambda model=model: model.fit(X, y)))
    print(
        f"n={n}, d={d}, {updates} updates, float32, {torch.get_num_threads()} threads; "
        f"GEMM {rates['gemm'] / 1e9:.0f} GFLOP/s, exp {rates['exp'] / 1e9:.2f} and "
        f"sqrt {rates['sqrt'] / 1e9:.2f} G elements/s"
    )
    parts = ", ".join(f"{name} {value:.2f}" for name, value in floor.items())
    print(f"floor {sum(floor.values()):.2f} s ({parts})\n")
    print(f"{'':12s} {'fit s':>7s} {'x floor':>8s} {'accuracy':>9s} {'peak / n^2':>11s}")
    for (name, model), which in zip(models.items(), ("naive", "rfmlearn"), strict=True):
        middle = median(seconds[name])
        accuracy = (model.predict(Q) == q).mean()
        peak = peak_growth(which, args) / (4 * n**2)
        print(
            f"{name:12s} {middle:7.2f} {middle / sum(floor.values()):8.2f} "
            f"{accuracy:9.4f} {peak:11.2f}"
        )
    ratio = median(seconds["naive torch"]) / median(seconds["rfmlearn"])
    print(f"\nrfmlearn is {ratio:.2f} times as fast (ratio of medians of {args.repeats})")


if __name__ == "__main__":
    main()
