# SPDX-License-Identifier: BSD-3-Clause
"""Linear Recursive Feature Machines: sparse vectors and matrices of low rank.

The recursion with linear functions (arXiv 2401.04553): fit the shortest coefficients in the
metric, take the AGOP of what was fitted as the new metric, fit again. With a diagonal metric
this is iteratively reweighted least squares, and finds sparse vectors; with a full one it finds
matrices of low rank.
"""

from numbers import Integral, Real
from typing import NamedTuple

import torch

from rfmlearn import _backend
from rfmlearn._metric import Metric
from rfmlearn._typing import ArrayLike
from rfmlearn.features import psd_eigh

__all__ = ["LinearRFMResult", "complete_matrix", "linear_rfm"]

# The smoothing ends where it would drown in rounding.
LEAST_SMOOTHING = 1e-14


class LinearRFMResult(NamedTuple):
    """What `linear_rfm` and `complete_matrix` return.

    Parameters
    ----------
    coef : array or tensor
        The coefficients W, or the completed matrix.
    feature_matrix : array or tensor of shape (d, d) or (d,)
        The metric M in which they were fitted, its largest eigenvalue 1.
    n_iter : int
        Number of updates made.
    change : float
        Size of the last change of W relative to W; not above `tol` if the recursion settled.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn.linear import linear_rfm
    >>> linear_rfm(np.eye(2), np.array([3.0, 0.0])).coef
    array([3., 0.])
    """

    coef: object
    feature_matrix: object
    n_iter: int
    change: float


class Measured:
    """Linear measurements ``<A_i, W>`` of all outputs: rows A (m, d), targets Y (m, c).

    Or, where A is (m, k, d), of a matrix W (k, d), with Y (m, 1).
    """

    def __init__(self, A, Y):
        self.A, self.Y, self.size = A, Y, A.shape[-1]

    def solve(self, metric, alpha):
        """Return W, (c, d) or (k, d), the least ``|A W - Y|^2 + alpha tr W M^-1 W^T``.

        With alpha = 0 the shortest of the exact (or the least-squares) ones.
        """
        root = metric.dense(self.size, diag=False) if metric.root is None else metric.root
        Z = self.A * root if root.ndim == 1 else self.A @ root
        flat = Z.flatten(1)
        wide = flat.shape[0] < flat.shape[1]
        values, V = psd_eigh(flat @ flat.mT if wide else flat.mT @ flat)
        target = self.Y if wide else flat.mT @ self.Y
        inverse = torch.where(values + alpha > 0, 1 / (values + alpha), 0)
        U = V @ (inverse[:, None] * (V.mT @ target))
        W = flat.mT @ U if wide else U
        W = W.mT if Z.ndim == 2 else W.reshape(Z.shape[1:])
        return W * root if root.ndim == 1 else W @ root


class Entries:
    """Some entries of a matrix Y of shape (n, d)."""

    def __init__(self, Y, seen):
        self.Y, self.seen, self.size = torch.where(seen, Y, 0), seen, Y.shape[1]

    def solve(self, metric, alpha):
        """Return W, (n, d), each row the shortest that agrees with its entries.

        Of row i with the entries o it is ``M[:, o] (M[o, o] + alpha)^-1 Y[i, o]``.
        """
        M = metric.dense(self.size, diag=False)
        own = torch.eye(self.size).to(M)
        ridge = alpha + self.size * torch.finfo(M.dtype).eps
        W = torch.empty_like(self.Y)
        for rows in _backend.blocks(len(W), 2 * M.nbytes, M.device, min_rows=1):
            seen = self.seen[rows].to(M)
            systems = M * seen[:, :, None] * seen[:, None] + own * (1 - seen + ridge)[:, None]
            W[rows] = (seen * torch.linalg.solve(systems, self.Y[rows])) @ M
        return W


def recursion(problem, *, diag, alpha, agop_power, max_iter, decay, tol):
    """Yield (iteration, W, metric, relative change) until the recursion settles.

    To the AGOP ``W^T W`` the share ``decay^t`` of its largest eigenvalue is added, which keeps
    directions alive that are not found yet.
    """
    metric, W = Metric(), None
    for iteration in range(max_iter + 1):
        previous, W = W, problem.solve(metric, alpha)
        length = W.norm()
        change = float((W - previous).norm() / length) if previous is not None else float("inf")
        yield iteration, W, metric, change
        if change <= tol or not _backend.holds(length > 0):
            return
        smoothing = max(decay ** (iteration + 1), LEAST_SMOOTHING)
        metric = (_weights if diag else _smoothed)(W / W.abs().max(), smoothing, agop_power)


def _weights(W, smoothing, agop_power):
    """Return the diagonal metric of the coefficients W."""
    A = W.square().sum(0)
    return Metric.of(A / A.max() + smoothing, agop_power, "spectral")


def _smoothed(W, smoothing, agop_power):
    """Return the metric of the coefficients W, ``(W^T W + e I)^agop_power``, from their SVD."""
    _, lengths, V = torch.linalg.svd(W, full_matrices=False)
    values = (lengths / lengths[0]).square()
    values, floor = ((v + smoothing) / (1 + smoothing) for v in (values, 0))
    values, floor = values**agop_power, floor**agop_power
    own = torch.eye(V.shape[1]).to(V)
    M = (V.mT * (values - floor)) @ V + floor * own
    root = (V.mT * (values.sqrt() - floor**0.5)) @ V + floor**0.5 * own
    factor = V.mT * (values - floor).sqrt() if 2 * len(V) <= len(own) else None
    return Metric(M, root, factor, floor)


def run(problem, example, *, diag, alpha, agop_power, max_iter, decay, tol):
    """Return the last iterate as a `LinearRFMResult` of arrays like the example."""
    largest = float("inf")
    bounds = {
        "alpha": (lambda v: 0 <= v < largest, "must be 0 or positive, and finite"),
        "agop_power": (lambda v: 0 < v < largest, "must be positive and finite"),
        "max_iter": (lambda v: isinstance(v, Integral) and v >= 0, "must be 0, 1, 2, ..."),
        "decay": (lambda v: 0 < v < 1, "must lie between 0 and 1"),
        "tol": (lambda v: v >= 0, "must not be negative"),
    }
    given = {
        "alpha": alpha,
        "agop_power": agop_power,
        "max_iter": max_iter,
        "decay": decay,
        "tol": tol,
    }
    for name, (fine, rule) in bounds.items():
        if not (isinstance(given[name], Real) and fine(given[name])):
            raise ValueError(f"{name}={given[name]!r} {rule}.")
    options = {**given, "diag": diag}
    for iteration, W, metric, change in recursion(problem, **options):  # noqa: B007
        pass
    M = metric.dense(W.shape[1], diag)
    return LinearRFMResult(
        _backend.in_kind_of(W, example), _backend.in_kind_of(M, example), iteration, change
    )


@_backend.isolated
def linear_rfm(
    A: ArrayLike | torch.Tensor,
    y: ArrayLike | torch.Tensor,
    *,
    diag: bool | None = None,
    alpha: float = 0.0,
    agop_power: float = 1.0,
    max_iter: int = 300,
    decay: float = 0.9,
    tol: float = 1e-9,
) -> LinearRFMResult:
    r"""Find sparse or low-rank coefficients from few linear measurements.

    The linear Recursive Feature Machine of [1]_. Among all W with ``<A_i, W> = y_i`` the one
    of least ``tr W M^-1 W^T`` is taken, then ``M = (W^T W + e)^agop_power``, with e falling
    geometrically, and so on.

    Parameters
    ----------
    A : array or tensor of shape (m, d) or (m, k, d)
        m measurements of a vector with d entries, or of a (k, d) matrix.
    y : array or tensor of shape (m,) or (m, c)
        What was measured; c outputs, measured by the same rows (m, d), share one metric.
    diag : bool, optional
        A diagonal metric finds few columns, a full one few directions. None means diagonal
        for measurements of shape (m, d), full for (m, k, d).
    alpha : float, default=0.0
        Ridge for noisy measurements; 0 asks for the exact values, or for least squares where
        they contradict each other.
    agop_power : float, default=1.0
        ``M = AGOP^agop_power``. 1 - p/2 is the reweighting for the sum of \|w\|^p (of singular
        values to the p): 0.5 aims at the sum of magnitudes, 1 at their number.
    max_iter : int, default=300
        Largest number of updates.
    decay : float, default=0.9
        Factor of e from one update to the next, in (0, 1). Slower finds more.
    tol : float, default=1e-9
        Stop when W changes by less, relative to its length.

    Returns
    -------
    LinearRFMResult
        ``coef`` of shape (d,), (c, d) or (k, d), ``feature_matrix``, ``n_iter``, ``change``.
        In float64, in the kind of A.

    Raises
    ------
    ValueError
        If the shapes do not fit, a number is not finite, or a parameter is out of range.

    See Also
    --------
    rfmlearn.LinearRFMRegressor : As a scikit-learn estimator, with intercept.
    complete_matrix : For measurements that are entries of a matrix.

    References
    ----------
    .. [1] A. Radhakrishnan, M. Belkin, D. Drusvyatskiy. Linear Recursive Feature Machines
       provably recover low-rank matrices. arXiv 2401.04553.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn.linear import linear_rfm
    >>> rng = np.random.default_rng(0)
    >>> w = np.zeros(100)
    >>> w[:5] = [1.0, -2.0, 3.0, -1.0, 2.0]
    >>> A = rng.standard_normal((50, 100))
    >>> found = linear_rfm(A, A @ w)
    >>> bool(abs(found.coef - w).max() < 1e-7)
    True
    """
    T, Y = (_backend.to_tensor(V, dtype=torch.float64) for V in (A, y))
    if T.ndim not in (2, 3) or not T.numel():
        raise ValueError(f"A must have shape (m, d) or (m, k, d), none 0; got {tuple(T.shape)}.")
    if Y.shape[:1] != T.shape[:1] or Y.ndim > (2 if T.ndim == 2 else 1) or not Y.ndim:
        raise ValueError(f"y of shape {tuple(Y.shape)} does not fit A of shape {tuple(T.shape)}.")
    if _backend.holds(~(torch.isfinite(T).all() & torch.isfinite(Y).all())):
        raise ValueError("A or y holds NaN or inf.")
    diag = T.ndim == 2 if diag is None else diag
    problem = Measured(T, Y.reshape(len(Y), -1))
    options = {"agop_power": agop_power, "max_iter": max_iter, "decay": decay, "tol": tol}
    found = run(problem, A, diag=diag, alpha=alpha, **options)
    return found._replace(coef=found.coef[0]) if T.ndim == 2 and Y.ndim == 1 else found


@_backend.isolated
def complete_matrix(
    Y: ArrayLike | torch.Tensor,
    *,
    alpha: float = 0.0,
    agop_power: float = 1.0,
    max_iter: int = 300,
    decay: float = 0.9,
    tol: float = 1e-8,
) -> LinearRFMResult:
    """Fill in the missing entries of a matrix of low rank.

    `linear_rfm` where entries are what is measured, with a full metric of the columns.

    Parameters
    ----------
    Y : array or tensor of shape (n, d)
        The matrix, NaN where it is not known.
    alpha : float, default=0.0
        Ridge for noisy entries; 0 keeps those that are known.
    agop_power : float, default=1.0
        ``M = AGOP^agop_power``, as in `linear_rfm`, like the next two.
    max_iter : int, default=300
        Largest number of updates.
    decay : float, default=0.9
        Factor of the smoothing from one update to the next.
    tol : float, default=1e-8
        Stop when the matrix changes by less, relative to its length.

    Returns
    -------
    LinearRFMResult
        ``coef`` is the completed matrix, (n, d), ``feature_matrix`` (d, d).

    Raises
    ------
    ValueError
        If Y is no matrix, holds inf, nothing in it is known, or a parameter is out of range.

    Notes
    -----
    An update solves a system of the d columns for each row: n d^3 multiplications. Transpose
    wide matrices.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn.linear import complete_matrix
    >>> rng = np.random.default_rng(0)
    >>> whole = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    >>> Y = np.where(rng.random(whole.shape) < 0.6, whole, np.nan)
    >>> bool(abs(complete_matrix(Y).coef - whole).max() < 1e-5)
    True
    """
    T = _backend.to_tensor(Y, dtype=torch.float64)
    seen = ~torch.isnan(T)
    if T.ndim != 2 or not _backend.holds(seen.any()):
        raise ValueError(f"Y must be a matrix with known entries; got shape {tuple(T.shape)}.")
    if _backend.holds(torch.isinf(T).any()):
        raise ValueError("Y holds inf; write NaN where an entry is not known.")
    problem = Entries(T, seen)
    options = {"agop_power": agop_power, "max_iter": max_iter, "decay": decay, "tol": tol}
    return run(problem, Y, diag=False, alpha=alpha, **options)
