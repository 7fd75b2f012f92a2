# SPDX-License-Identifier: BSD-3-Clause
"""Inputs and comparisons of the field cases."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import rfmlearn

try:
    import torch

    CUDA = torch.cuda.is_available()
except ImportError:
    torch, CUDA = None, False

gpu = pytest.mark.skipif(not CUDA, reason="needs CUDA")
REGRESSORS = ["RFMRegressor", "KernelRegimeRegressor"]
PREDICTORS = [*REGRESSORS, "RFMClassifier"]
EVERY = [*PREDICTORS, "NFMTransformer"]


def make(name, **kw):
    """the estimator with those of kw that it knows, and random_state=0"""
    cls = getattr(rfmlearn, name)
    known = cls().get_params()
    kw = {"random_state": 0, **kw}
    return cls(**{k: v for k, v in kw.items() if k in known})


def smooth(n=60, d=3, seed=0):
    """inputs and a smooth target that only the first two columns matter for"""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, min(1, d - 1)] ** 2
    return X, y


def blobs(n_per=20, k=3, d=4, seed=0, gap=4.0):
    """k well separated classes 0..k-1, shuffled"""
    rng = np.random.default_rng(seed)
    centres = gap * rng.normal(size=(k, d))
    y = np.repeat(np.arange(k), n_per)
    X = centres[y] + rng.normal(size=(len(y), d))
    p = rng.permutation(len(y))
    return X[p], y[p]


def data_for(name, n=60, d=3, seed=0):
    X, y = smooth(n, d, seed)
    return (X, (y > np.median(y)).astype(int)) if name == "RFMClassifier" else (X, y)


def out(est, X):
    """the estimator's continuous output, which shows small differences that labels hide"""
    for m in ("predict_proba", "predict", "transform"):
        if hasattr(est, m):
            return np.asarray(getattr(est, m)(X), dtype=float)


def close(a, b, tol, scale=None):
    """max |a-b| <= tol * scale, where scale is the spread of b if not given; NaN fails"""
    a, b = np.asarray(a, float), np.asarray(b, float)
    s = (np.std(b) if scale is None else scale) or 1.0
    assert a.shape == b.shape, (a.shape, b.shape)
    assert np.isfinite(a).all() and np.isfinite(b).all(), "not finite"
    worst = np.max(np.abs(a - b)) / s
    assert worst <= tol, f"differs by {worst:.3g} of the spread, {tol} allowed"


def finite(a):
    assert np.isfinite(np.asarray(a, dtype=float)).all(), "NaN or inf in the output"


def r2(y, p):
    y, p = np.asarray(y, float), np.asarray(p, float)
    return 1 - np.sum((y - p) ** 2) / np.sum((y - y.mean()) ** 2)


def child(code, timeout=300, **env):
    """run code in a fresh interpreter that can import what we can; return its stdout"""
    e = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **env}
    r = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=e,
    )
    assert r.returncode == 0, f"exit {r.returncode}: {r.stderr[-1500:]}"
    return r.stdout


# what a child process needs to report how much its memory grew
PEAK = """
import resource, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
import rfmlearn
def peak():  # MiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
def make(name, **kw):
    c = getattr(rfmlearn, name); k = c().get_params()
    return c(**{a: b for a, b in {"random_state": 0, **kw}.items() if a in k})
"""
