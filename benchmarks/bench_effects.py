# SPDX-License-Identifier: BSD-3-Clause
"""Effects of the papers over seeds: the ansatz in the first layer, and modular arithmetic.

    python benchmarks/bench_effects.py [--seeds 5] [--large]

Medians of the seeds. The examples show the others (simplicity bias, spurious features, lottery
tickets, a star in a corner, neural collapse), each over five seeds. --large adds p = 61.
"""

import argparse
import time

import numpy as np
from sklearn.callback import ScoringMonitor
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from rfmlearn import ABCMLPClassifier, RFMClassifier
from rfmlearn.neural import layer_features

TABLES = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}
OPERATIONS = {
    "x + y": lambda x, y, p: (x + y) % p,
    "x - y": lambda x, y, p: (x - y) % p,
    "x * y": lambda x, y, p: (x * y) % p,
    "x / y": lambda x, y, p: np.array([a * pow(int(b), -1, p) % p for a, b in zip(x, y)]),
}


def ansatz(X, y, seed, scale):
    """Return correlations of the first layer: with the AGOP, its root, the initial NFM; of dW."""
    net = ABCMLPClassifier(
        (256,) * 3,
        parametrization="standard",
        optimizer="sgd",
        learning_rate=0.1,
        first_layer_scale=scale,
        max_epochs=200,
        random_state=seed,
    ).fit(X, y)
    first, change = (layer_features(net, X, subtract_init=s)[0] for s in (False, True))
    return (
        layer_features(net.initial(), X)[0].alignment,
        first.alignment,
        layer_features(net, X, agop_power=1.0)[0].alignment,
        first.alignments["pearson with initial nfm"],
        change.alignment,
    )


def arithmetic(p, share, operation, seed, max_iter):
    """Return the first iterate above 0.99, accuracy at iterate 0 and at the last, and seconds."""
    x, y = np.divmod(np.arange(p * p), p)
    if operation == "x / y":
        x, y = x[y > 0], y[y > 0]
    X, labels = np.hstack([np.eye(p)[x], np.eye(p)[y]]), OPERATIONS[operation](x, y, p)
    order = np.random.default_rng(seed).permutation(len(X))
    learn, test = np.split(order, [int(share * len(X))])
    machine = RFMClassifier(
        "gaussian",
        bandwidth=2.5,
        bandwidth_mode="constant",
        alpha=0.0,
        max_iter=max_iter,
        agop_power=0.5,
        matrix_scaling=None,
        center_gradients=True,
    )
    monitor = ScoringMonitor(scoring=lambda m, X_, y_: {"test": m.score(X[test], labels[test])})
    start = time.perf_counter()
    machine.set_callbacks(monitor).fit(X[learn], labels[learn])
    seconds = time.perf_counter() - start
    log = monitor.get_logs().data
    scores = np.array([row["test"] for row in log if row["task_name"] == "iterate"])
    passed = np.flatnonzero(scores > 0.99)
    return (passed[0] if len(passed) else np.inf), scores[0], scores[-1], seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--large", action="store_true")
    args = parser.parse_args()
    head = ("untrained", "AGOP^1/2", "AGOP", "initial NFM", "dW, AGOP^1/2")
    print("Pearson correlation of the first layer's W'W, 3 x 256, SGD, median (least) of seeds")
    print(f"{'':36s}" + "".join(f"{name:>16s}" for name in head))
    for name, load in TABLES.items():
        X, y = load(return_X_y=True)
        X = StandardScaler().fit_transform(X[:, X.std(axis=0) > 0]).astype(np.float32)
        for scale in (1e-3, 1.0):
            rows = np.array([ansatz(X, y, seed, scale) for seed in range(args.seeds)])
            cells = "".join(
                f"{f'{m:.3f} ({least:.3f})':>16s}"
                for m, least in zip(np.median(rows, axis=0), rows.min(axis=0))
            )
            print(f"{f'{name}, first layer x {scale:g}':36s}{cells}", flush=True)
    print(
        "\nmodular arithmetic: iterate above 0.99, median (last) of seeds; accuracy; seconds a run"
    )
    cases = [(17, 0.8, "x + y", 14), (23, 0.75, "x + y", 16), (31, 0.65, "x + y", 16)]
    if args.large:
        cases += [(61, 0.5, operation, 24) for operation in OPERATIONS]
    for p, share, operation, max_iter in cases:
        rows = np.array(
            [arithmetic(p, share, operation, seed, max_iter) for seed in range(args.seeds)]
        )
        passed, first, last, seconds = np.median(rows, axis=0)
        print(
            f"{operation}, p = {p}, {share:.0%}: {passed:.0f} ({rows[:, 0].max():.0f}); iterate 0 "
            f"{first:.2f}, last {last:.2f} (least {rows[:, 2].min():.2f}); {seconds:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
