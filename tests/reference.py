# SPDX-License-Identifier: BSD-3-Clause
"""A naive Recursive Feature Machine in float64: plain loops, written from the formulas.

Slow on purpose. It shares no line with the package.
"""

import math

import numpy as np

# p of the kernels of a p-norm, at their defaults
NORM = {"product_laplace": 1.0, "lpq": 1.5}


def kernel_value(name, r, L, q=1.5):
    if name in ("laplace", "product_laplace", "lpq"):
        return math.exp(-r / L)
    if name == "gaussian":
        return math.exp(-(r**2) / (2 * L**2))
    if name == "matern":
        return (1 + math.sqrt(3) * r / L) * math.exp(-math.sqrt(3) * r / L)
    if name == "rational_quadratic":
        return 1 / (1 + r**2 / (2 * L**2))
    return math.exp(-((r / L) ** q))


def kernel_slope(name, r, L, q=1.5):
    """phi'(r) / r for r > 0."""
    k = kernel_value(name, r, L, q)
    if name == "laplace":
        return -k / (L * r)
    if name == "gaussian":
        return -k / L**2
    if name == "matern":
        return -3 / L**2 * math.exp(-math.sqrt(3) * r / L)
    if name == "rational_quadratic":
        return -(k**2) / L**2
    return -q * r ** (q - 2) / L**q * k


def root(M):
    values, V = np.linalg.eigh(M)
    return (V * np.sqrt(np.maximum(values, 0))) @ V.T


def distance(x, z, M, name="laplace"):
    v = x - z
    if name in NORM:
        return float(sum(abs(u) ** NORM[name] for u in root(M) @ v) ** (1 / NORM[name]))
    return math.sqrt(max(v @ M @ v, 0.0))


def rms_distance(X, w, M, name="laplace"):
    """Over all pairs of rows, each drawn by weight; the norm of those of all coordinates.

    Of the polynomial kernel the rms length of a row.
    """
    if name == "polynomial":
        return math.sqrt(sum(wi * x @ M @ x for wi, x in zip(w, X, strict=True)) / w.sum())
    if name in NORM:
        p = NORM[name]
        Z = X @ root(M)
        return sum(rms_distance(z[:, None], w, np.eye(1)) ** p for z in Z.T) ** (1 / p)
    total = 0.0
    for i in range(len(X)):
        for j in range(len(X)):
            total += w[i] * w[j] * distance(X[i], X[j], M) ** 2
    return math.sqrt(total / w.sum() ** 2)


def matrix(name, A, B, M, L, q=1.5):
    K = np.zeros((len(A), len(B)))
    for i, x in enumerate(A):
        for j, z in enumerate(B):
            if name == "polynomial":
                K[i, j] = (x @ M @ z / L**2 + 1) ** 2
                continue
            K[i, j] = kernel_value(name, distance(x, z, M, name), L, q)
    return K


def gradient(name, x, X, coef, M, L, q=1.5):
    """Gradient of sum_j coef_j k(x, x_j); the term of x = x_j is 0."""
    g = np.zeros(len(x))
    if name == "polynomial":
        for a, z in zip(coef, X, strict=True):
            g += a * 2 * (x @ M @ z / L**2 + 1) / L**2 * (M @ z)
        return g
    if name in NORM:
        S, p = root(M), NORM[name]
        for a, z in zip(coef, X, strict=True):
            u = S @ (x - z)
            u[abs(u) < 1e-14] = 0  # equal coordinates: the product rounds
            r = (abs(u) ** p).sum() ** (1 / p)
            if r > 0:
                slope = kernel_value(name, r, L) / L * r ** (1 - p)
                g -= a * slope * (S @ (np.sign(u) * abs(u) ** (p - 1)))
        return g
    for a, z in zip(coef, X, strict=True):
        r = distance(x, z, M)
        if np.array_equal(x, z) or r == 0:
            continue
        g += a * kernel_slope(name, r, L, q) * (M @ (x - z))
    return g


def spread(Y, w=None):
    """Return the weighted standard deviation of each column: the unit in which it is fitted."""
    w = np.ones(len(Y)) if w is None else w
    mean = (w[:, None] * Y).sum(0) / w.sum()
    return np.sqrt((w[:, None] * (Y - mean) ** 2).sum(0) / w.sum())


def rfm(
    X,
    Y,
    *,
    kernel="laplace",
    bandwidth=1.0,
    adaptive=True,
    alpha=1e-3,
    max_iter=3,
    diag=False,
    w=None,
    power=1.0,
    center=False,
    q=1.5,
):
    """Return M, dual coefficients (n, c), intercept (c,) and L after max_iter updates."""
    n, d = X.shape
    w = np.ones(n) if w is None else np.asarray(w, dtype=float)
    intercept = (w[:, None] * Y).sum(0) / w.sum()
    M = np.eye(d)
    for t in range(max_iter + 1):
        L = bandwidth * (rms_distance(X, w, M, kernel) if adaptive else 1.0)
        K = matrix(kernel, X, X, M, L, q)
        # (K + alpha W^-1) a = y - intercept
        coef = np.linalg.solve(K + alpha * np.diag(1 / w), Y - intercept)
        if t == max_iter:
            return M, coef, intercept, L
        G = np.array(
            [[gradient(kernel, x, X, coef[:, c], M, L, q) for c in range(Y.shape[1])] for x in X]
        )
        if center:
            G = G - np.einsum("i,icd->cd", w, G) / w.sum()
        A = np.zeros((d, d))
        for i in range(n):
            for c in range(Y.shape[1]):
                A += w[i] * np.outer(G[i, c], G[i, c])
        A /= w.sum()
        if diag:
            A = np.diag(np.diag(A))
        values, V = np.linalg.eigh(A)
        values = np.maximum(values, 0) ** power
        M = (V * (values / values.max())) @ V.T
    return None


def predict(name, Q, X, coef, intercept, M, L, q=1.5):
    return matrix(name, Q, X, M, L, q) @ coef + intercept
