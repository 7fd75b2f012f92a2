# SPDX-License-Identifier: BSD-3-Clause
"""Fit and predict time, and peak memory, by number of rows; against xRFM and KernelRidge.

One process; the models alternate, the table quotes medians. All learn the same target of 50
features in float32, one output, five updates by default: `rfmlearn` as it comes, `centers` with
n_centers=4000, xRFM its leaf model (kernel "l2", no splitting), and scikit-learn's KernelRidge
with the same Laplace-like kernel, which learns no metric. The floor of `rfmlearn` is what it
cannot avoid with the steps that its solver took, at the rates measured at the start: each kernel
matrix once, one triangle of it read for each product, each AGOP.

    python benchmarks/bench_scaling.py [--rows 5000 10000 20000 40000] [--repeats 3]
        [--models rfmlearn xrfm ridge centers] [--updates 5] [--rival-max 20000] [--out scaling]
"""

import argparse
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from _machine import MemoryWatch, floor_seconds, machine_rates
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score

from rfmlearn import RFMRegressor
from rfmlearn.datasets import make_multi_index

D, N_QUERIES = 50, 5000


class XRFM:
    """The leaf model of xRFM, all updates made, the best on 200 of the rows kept."""

    def __init__(self, updates):
        self.updates = updates

    def fit(self, X, y):
        from xrfm import RFM

        self.model = RFM(
            kernel="l2", iters=self.updates, bandwidth=10.0, device="cpu", verbose=False
        )
        X, y = torch.from_numpy(X), torch.from_numpy(y)[:, None]
        held_out = X[:200], y[:200]
        self.model.fit(
            (X, y), held_out, iters=self.updates, reg=1e-3, early_stop_rfm=False, verbose=False
        )
        return self

    def predict(self, X):
        return self.model.predict(torch.from_numpy(X)).numpy().ravel()


def make(name, updates):
    return {
        "rfmlearn": lambda: RFMRegressor(max_iter=updates),
        "centers": lambda: RFMRegressor(max_iter=updates, n_centers=4000, random_state=0),
        "xrfm": lambda: XRFM(updates),
        "ridge": lambda: KernelRidge(kernel="laplacian", alpha=1e-3),
    }[name]()


def data(n, seed=0):
    """Return rows and targets: a multi-index function of three directions, a tenth noise."""
    X, y, _ = make_multi_index(n + N_QUERIES, D, noise=0.1, random_state=seed)
    X, y = X.astype(np.float32), y.astype(np.float32)
    return X[:n], y[:n], X[n:], y[n:]


def measure(name, updates, X, y, Q, q):
    model = make(name, updates)
    with MemoryWatch() as memory:
        start = time.perf_counter()
        model.fit(X, y)
        fitted = time.perf_counter()
        predicted = model.predict(Q)
        done = time.perf_counter()
    return {
        "fit s": fitted - start,
        "predict s": done - fitted,
        "peak MB": memory.growth / 2**20,
        "R2": r2_score(q, predicted),
        "steps": int(model.history_["solver_iterations"].sum()) if name == "rfmlearn" else 0,
    }


def exponent(sizes, seconds):
    """Return the slope of log seconds against log n."""
    return np.polyfit(np.log(sizes), np.log(seconds), 1)[0]


def draw(results, models, path):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for ax, column in zip(axes, ("fit s", "peak MB"), strict=True):
        for name in models:
            sizes = [n for n, model in results if model == name]
            ax.loglog(sizes, [results[n, name][column] for n in sizes], "o-", label=name)
        sizes = sorted({n for n, _ in results})
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
        ax.minorticks_off()
        ax.set(xlabel="rows", ylabel=column)
    axes[0].legend()
    figure.savefig(path, dpi=110)
    print(f"Picture: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[5000, 10_000, 20_000, 40_000])
    parser.add_argument(
        "--models", nargs="+", default=["rfmlearn", "xrfm", "ridge"], metavar="NAME"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--rival-max", type=int, default=20_000, help="largest n for the rivals")
    parser.add_argument("--out", default="scaling", help="stem of the table and the picture")
    args = parser.parse_args()
    rates = machine_rates()
    lines = [
        f"d={D}, {args.updates} updates, float32, {torch.get_num_threads()} threads; GEMM "
        f"{rates['gemm'] / 1e9:.0f} GFLOP/s, exp {rates['exp'] / 1e9:.2f} and sqrt "
        f"{rates['sqrt'] / 1e9:.2f} G elements/s, reading {rates['read'] / 1e9:.1f} GB/s",
        "",
        f"{'n':>8s} {'model':10s} {'fit s':>9s} {'predict s':>9s} {'peak MB':>9s} {'R2':>7s} "
        f"{'x floor':>8s} {'xrfm / it':>9s}",
    ]
    print("\n".join(lines), flush=True)
    warm = data(300)
    for name in args.models:  # libraries and thread pools
        measure(name, 1, *warm)
    results = {}
    for n in args.rows:
        table = data(n)
        models = [m for m in args.models if m in ("rfmlearn", "centers") or n <= args.rival_max]
        runs = {name: [] for name in models}
        for _ in range(args.repeats):
            for name in models:
                runs[name].append(measure(name, args.updates, *table))
        for name in models:
            results[n, name] = {k: median(r[k] for r in runs[name]) for k in runs[name][0]}
        for name in models:
            row = results[n, name]
            floor = "-"
            if name == "rfmlearn":
                least = sum(floor_seconds(n, D, args.updates, rates, row["steps"]).values())
                floor = f"{row['fit s'] / least:.2f}"
            ratio = f"{results[n, 'xrfm']['fit s'] / row['fit s']:.1f}" if "xrfm" in models else "-"
            lines.append(
                f"{n:8d} {name:10s} {row['fit s']:9.2f} {row['predict s']:9.2f} "
                f"{row['peak MB']:9.0f} {row['R2']:7.4f} {floor:>8s} {ratio:>9s}"
            )
            print(lines[-1], flush=True)
    for name in args.models:
        sizes = [n for n, model in results if model == name]
        if len(sizes) > 1:
            slope = exponent(sizes, [results[n, name]["fit s"] for n in sizes])
            lines.append(f"{name}: fit time grows as n^{slope:.2f} from {sizes[0]} to {sizes[-1]}")
            print(lines[-1])
    Path(f"{args.out}.txt").write_text("\n".join(lines) + "\n")
    draw(results, args.models, f"{args.out}.png")


if __name__ == "__main__":
    main()
