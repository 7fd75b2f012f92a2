# SPDX-License-Identifier: BSD-3-Clause
"""What the machine can do, and what a process has used."""

import resource
import threading
import time
from statistics import median

import torch


def timed(call, repeats=1):
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def machine_rates(n=3000):
    """Return GEMM in flop/s, exp, sqrt and asin in elements/s, reading in bytes/s; all float32."""
    A = torch.randn(n, n)
    out = torch.empty_like(A)
    v = torch.randn(n, 1)
    block, small = torch.rand(512, 512), torch.empty(512, 512)
    torch.mm(A, A, out=out)
    return {
        "gemm": 2 * n**3 / timed(lambda: torch.mm(A, A, out=out), 3),
        "read": 4 * n**2 / timed(lambda: torch.mm(A, v), 5),
        "exp": 512**2 / timed(lambda: torch.exp(block, out=small), 50),
        "sqrt": 512**2 / timed(lambda: torch.sqrt(block, out=small), 50),
        "asin": 512**2 / timed(lambda: torch.asin(block, out=small), 50),
    }


def floor_seconds(n, d, updates, rates, steps=0):
    """Return the unavoidable arithmetic of one output, each pair of the kernel matrix once.

    `steps` is the number of products in all that solvers took, each of which reads one
    triangle of the matrix; with 0 each solve is a Cholesky factor.
    """
    solves = (updates + 1) * n**3 / 3 / rates["gemm"]
    if steps:
        solves = steps * 2 * n**2 / rates["read"]
    distances = (updates + 1) * n**2 * d / rates["gemm"]
    roots = n**2 / 2 * (1 / rates["exp"] + 1 / rates["sqrt"])
    products = updates * (n**2 * d + 2 * n**2 * (d + 1)) / rates["gemm"]
    return {
        "solves": solves + distances,
        "kernel": (updates + 1) * roots,
        "AGOP": products + updates * roots,
    }


def peak_bytes():
    """Return the peak resident memory of this process."""
    try:
        with open("/proc/self/status") as lines:
            return next(int(x.split()[1]) * 1024 for x in lines if x.startswith("VmHWM"))
    except OSError:  # no /proc; there the peak may include that of the parent process
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class MemoryWatch:
    """Context that notes how far the anonymous memory of this process grows within it."""

    def __enter__(self):
        self.before, self.peak, self._done = self._now(), 0, False
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._done = True
        self._thread.join()
        self.growth = max(self.peak - self.before, 0)

    def _watch(self):
        while not self._done:
            self.peak = max(self.peak, self._now())
            time.sleep(0.005)

    @staticmethod
    def _now():
        try:
            with open("/proc/self/status") as lines:
                return next(int(x.split()[1]) * 1024 for x in lines if x.startswith("RssAnon"))
        except OSError:  # no /proc: the peak so far
            return peak_bytes()
