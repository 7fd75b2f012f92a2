# SPDX-License-Identifier: BSD-3-Clause
"""Accuracy of ConvRFMClassifier by update on image tasks: mean of five seeds.

    python benchmarks/bench_images.py [--data DIR] [--kernel patch_laplace] [--power 1.0]

Digits, digits on a noisy canvas, and noise with a star in a corner that decides; with --data, a
folder with mnist.npz and cifar10_small.npz, images of each as well. "chosen" is the iterate
that early stopping keeps, by images held out of the training ones.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from rfmlearn import ConvRFMClassifier, RFMClassifier

STARS = np.array([[[0, 1, 0], [1, 1, 1], [0, 1, 0]], [[1, 0, 1], [0, 1, 0], [1, 0, 1]]])


def digits(rng):
    X, y = load_digits(return_X_y=True)
    return X / 16, y, (1, 8, 8), 500


def noisy_digits(rng):
    X, y = load_digits(return_X_y=True)
    canvas = np.zeros((len(X), 12, 12))
    for image, digit in zip(canvas, X.reshape(-1, 8, 8)):
        i, j = rng.integers(0, 5, 2)
        image[i : i + 8, j : j + 8] = digit / 16
    return canvas + 0.25 * rng.normal(size=canvas.shape), y, (1, 12, 12), 500


def star(rng):
    X, y = rng.normal(size=(700, 3, 24, 24)), rng.integers(0, 2, 700)
    X[:, 0, :3, :3] += 2.0 * STARS[y]
    return X, y, (3, 24, 24), 200


def of_file(path, n):
    def load(rng):
        with np.load(path) as file:
            X = np.concatenate([file["X_train"], file["X_test"]]) / 255.0
            y = np.concatenate([file["y_train"], file["y_test"]]).ravel()
        if X.shape[-1] == 3:
            X = X.transpose(0, 3, 1, 2)
        shape = X.shape[1:] if X.ndim == 4 else (1, *X.shape[1:])
        return X, y, shape, n

    return load


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--kernel", default="patch_laplace")
    parser.add_argument("--power", type=float, default=1.0)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--images", type=int, default=1000, help="to learn from, of --data")
    parser.add_argument("--tasks", nargs="+", help="only these")
    args = parser.parse_args()
    tasks = {"digits": digits, "noisy digits": noisy_digits, "star": star}
    if args.data:
        for name in ("mnist", "cifar10_small"):
            tasks[name] = of_file(args.data / f"{name}.npz", args.images)
    print(f"kernel={args.kernel!r}, agop_power={args.power}, alpha=1e-2, patch 3")
    head = " ".join(f"{f'update {t}':>9s}" for t in range(args.updates + 1))
    print(f"{'':14s} {head} {'chosen':>8s} {'gain':>7s} {'RFM, 0':>8s} {'RFM, 3':>8s}")
    for name in args.tasks or tasks:
        load, rows = tasks[name], []
        for seed in range(args.seeds):
            rng = np.random.default_rng(seed)
            X, y, shape, n = load(rng)
            order = rng.permutation(len(X))[: n + 1000]
            X = X[order].reshape(len(order), -1).astype(np.float32)
            y, options = y[order], {"kernel": args.kernel, "agop_power": args.power, "alpha": 1e-2}

            def score(model, X=X, y=y, n=n):
                return model.fit(X[:n], y[:n]).score(X[n:], y[n:])

            stopped = ConvRFMClassifier(
                shape, max_iter=args.updates, early_stopping=True, random_state=0, **options
            )
            chosen = stopped.fit(X[:n], y[:n]).best_iter_

            rows.append(
                [
                    *(
                        score(ConvRFMClassifier(shape, max_iter=t, **options))
                        for t in range(args.updates + 1)
                    ),
                    # the number of updates that held-out images choose, fitted on all
                    score(ConvRFMClassifier(shape, max_iter=chosen, **options)),
                    *(score(RFMClassifier(max_iter=t)) for t in (0, 3)),
                ]
            )
        *updates, chosen, fixed, rfm = np.mean(rows, axis=0)
        cells = " ".join(f"{u:9.3f}" for u in updates)
        gain = chosen - updates[0]
        print(f"{name:14s} {cells} {chosen:8.3f} {gain:+7.3f} {fixed:8.3f} {rfm:8.3f}", flush=True)


if __name__ == "__main__":
    main()
