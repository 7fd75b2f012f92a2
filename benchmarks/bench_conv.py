# SPDX-License-Identifier: BSD-3-Clause
"""One update of ConvRFM on 2,000 images of 28 x 28: time, memory and the floor.

    python benchmarks/bench_conv.py [--rows 2000] [--kernel cntk]

The floor is the arithmetic of one kernel matrix per metric and one AGOP at the rates measured in
the same run: the products of patches and of coefficients at the GEMM rate, and for each pair of
images and position one square root and one exponential (Laplace) or arc sine (cntk), twice in the
AGOP.
"""

import argparse
import time

import numpy as np
from _machine import machine_rates, peak_bytes

from rfmlearn import ConvRFMClassifier


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--patch", type=int, default=5)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--kernel", choices=["cntk", "patch_laplace"], default="cntk")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(args.rows, 784)).astype(np.float32)
    y = rng.integers(args.classes, size=args.rows)
    rates, before = machine_rates(), peak_bytes()
    seconds = []
    for updates in (0, 1):
        model = ConvRFMClassifier(
            (1, 28, 28), patch_size=args.patch, kernel=args.kernel, max_iter=updates
        )
        start = time.perf_counter()
        model.fit(X, y)
        seconds.append(time.perf_counter() - start)
    peak = peak_bytes() - before
    n, q, c = args.rows, args.patch**2, args.classes
    positions = (28 - args.patch + 1) ** 2
    last = "exp" if args.kernel == "patch_laplace" else "asin"
    elements = n * n * positions * (1 / rates["sqrt"] + 1 / rates[last])
    flops = n * n * positions * (2 * q + 2 * q + 2 * c * q)
    # a kernel matrix computes each pair once, the gradients both ways
    floor = flops / rates["gemm"] + 1.5 * elements
    print(f"{n} x 1 x 28 x 28, patch {args.patch}, {positions} positions, {c} classes, float32")
    print(f"{'':24s} {'seconds':>8s}")
    print(f"{'fixed kernel, whole fit':24s} {seconds[0]:8.1f}")
    print(f"{'one update, whole fit':24s} {seconds[1]:8.1f}")
    print(f"{'the update alone':24s} {seconds[1] - seconds[0]:8.1f}")
    print(f"{'floor of the update':24s} {floor:8.1f}")
    print(
        f"peak memory beside the input {peak / 2**20:.0f} MB ({peak / (4 * n * n):.1f} n^2 floats)"
    )


if __name__ == "__main__":
    main()
