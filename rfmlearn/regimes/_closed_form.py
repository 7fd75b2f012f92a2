# SPDX-License-Identifier: BSD-3-Clause
"""Networks of infinite width as kernel methods: means and covariances in closed form."""

from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse.linalg import eigsh

from rfmlearn import _backend
from rfmlearn.kernels import Rows
from rfmlearn.kernels._expansion import Predictor


class Regime(NamedTuple):
    """A regime: which kernel trains, which one is the prior, and whether the result is a GP."""

    trains: type
    prior: type
    is_gp: bool


class Flow(NamedTuple):
    """Training in function space: how far it went, and the factors of the system.

    Attributes
    ----------
    rate : float or None
        Time over the number of targets; None is infinity.
    factors : tuple of ndarray
        Eigenvalues and eigenvectors of ``A = s K s + alpha I``; of infinite time nothing, for then
        the fitted Cholesky factor is what counts.
    """

    rate: float | None
    factors: tuple


def fit(regime, kernel, X, R, weight, alphas, training_time, device):
    """Return the fitted attributes of the numerical part.

    Parameters
    ----------
    regime : Regime
        The regime.
    kernel : Kernel
        The kernel that trains.
    X : ndarray of shape (n, d)
        Training rows.
    R : ndarray of shape (n, c)
        Targets of the network.
    weight : ndarray of shape (n,)
        Positive row weights.
    alphas : float or ndarray
        Ridge, or ridges of which the best is taken.
    training_time : float or None
        Time of the flow; None is infinity.
    device : torch.device
        Where to compute.

    Returns
    -------
    dict
        Attributes by name; ``coef`` of shape (n, c) among them.
    """
    several, tensor = np.ndim(alphas) > 0, _placing(X.dtype, device)
    alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    n, found, spectrum, rate = len(X), {}, None, None
    if several and training_time is not None:
        raise ValueError(
            "Several values of alpha are compared at infinite time only: pass one alpha, or "
            "training_time=None."
        )
    advice = "Pass X as float32 to halve it, or take RFMRegressor(NTK(), max_iter=0)."
    with _backend.memory_guard(n, 4 * n * n * X.dtype.itemsize, device, advice=advice):
        A = kernel.gram(Rows.of(tensor(X)))
        if not _backend.holds(torch.isfinite(A).all()):
            raise ValueError(
                f"The kernel matrix is not finite in {X.dtype}: covariances overflow from layer "
                "to layer. Lower weight_std (None keeps the size of a signal) or depth, or bring "
                "the columns of X to similar scales with StandardScaler."
            )
        s, R = tensor(np.sqrt(weight))[:, None], tensor(R)
        A.mul_(s).mul_(s.mT)
        count = float(weight.sum() * R.shape[1])
        if training_time is not None:
            rate = training_time / count
        if several or rate is not None:
            spectrum = torch.linalg.eigh(A)
            top = float(spectrum[0][-1])
        else:
            top = _largest_eigenvalue(A)
        if several:
            found["loo_errors_"] = errors = _leave_one_out(spectrum, alphas, s, R)
            alphas = alphas[[np.argmin(errors)]]
        found["best_alpha_"] = alpha = float(alphas[0])
        if rate is None:
            A.diagonal().add_(alpha)
            inverse = _Inverse(None, (_cholesky(A),))
            found["L_"], kept = _backend.to_numpy(inverse.factors[0]), ()
        else:
            inverse = _Inverse(rate, ((spectrum[0] + alpha).clamp(min=0), spectrum[1]))
            kept = tuple(map(_backend.to_numpy, inverse.factors))
        coef = _backend.to_numpy(s * inverse(s * R))
        if regime.is_gp and rate is None:
            found["log_marginal_likelihood_value_"] = _log_likelihood(*inverse.factors, s, R)
    return {
        **found,
        "coef": coef,
        "max_learning_rate_": 2 * count / top if top > 0 else np.inf,
        "_flow": Flow(rate, kept),
        "_sqrt_weight": np.sqrt(weight),
    }


def expansion(model):
    """Return the mean of a fitted estimator, in units of the network, as a kernel expansion."""
    tensor = _placing(model.X_train_.dtype, _backend.resolve_device(model.device))
    coef = tensor(model.alpha_.reshape(len(model.X_train_), -1))
    return Predictor(model.kernel_, Rows.of(tensor(model.X_train_)), coef, None, coef.new_ones(()))


def covariance(model, X, diagonal):
    """Return the covariance of one output between the rows of X, in units of the network."""
    tensor = _placing(model.X_train_.dtype, _backend.resolve_device(model.device))
    rows, at = Rows.of(tensor(model.X_train_)), Rows.of(tensor(X))
    prior, s, flow = model._prior, tensor(model._sqrt_weight)[:, None], model._flow
    factors = (model.L_,) if flow.rate is None else flow.factors
    inverse = _Inverse(flow.rate, tuple(map(tensor, factors)))
    cross = model.kernel_.matrix(at, rows)
    start = prior.diagonal(at) if diagonal else prior.gram(at)
    if model._is_gp:
        seen = s * inverse(s * cross.mT, times=2)
        cov = start - ((cross * seen.mT).sum(1) if diagonal else cross @ seen)
        return _backend.to_numpy(cov)
    W = (s * inverse(s * cross.mT)).mT
    K, other = prior.gram(rows), prior.matrix(at, rows)
    if diagonal:
        return _backend.to_numpy(start + ((W @ K) * W).sum(1) - 2 * (W * other).sum(1))
    both = W @ other.mT
    return _backend.to_numpy(start + W @ K @ W.mT - both - both.mT)


class _Inverse:
    """``H_t = A^-1 (1 - exp(-rate A))`` for ``A = s K s + alpha I``, rate None for ``A^-1``.

    `factors` are the Cholesky factor of A, or its eigenvalues and eigenvectors.
    """

    def __init__(self, rate, factors):
        self.rate, self.factors = rate, factors

    def __call__(self, V, times=1):
        """Return ``H V``; with times = 2 at twice the training time."""
        if self.rate is None:
            return torch.cholesky_solve(V, *self.factors)
        (values, vectors), rate = self.factors, times * self.rate
        # -> rate where the eigenvalue is 0
        safe = torch.where(values > 0, values, torch.ones_like(values))
        shrunk = torch.where(values > 0, -torch.expm1(-rate * safe) / safe, rate)
        return vectors @ (shrunk[:, None] * (vectors.mT @ V))


def _placing(dtype, device):
    """Return what makes tensors of arrays."""
    return lambda array: _backend.to_tensor(np.asarray(array, dtype=dtype), device)


def _cholesky(A):
    L, info = torch.linalg.cholesky_ex(A)
    if _backend.holds(info != 0):
        raise np.linalg.LinAlgError(
            "The kernel matrix plus alpha is not positive definite to rounding: two rows "
            "(nearly) coincide, or the kernel has fewer features than there are rows. "
            "Raise alpha."
        )
    return L


def _largest_eigenvalue(A):
    """Return the largest eigenvalue of a positive semi-definite matrix."""
    A = _backend.to_numpy(A)
    if len(A) < 3:
        return float(np.linalg.eigvalsh(A)[-1])
    if not A.any():
        return 0.0
    # a direction that no structure of the data is orthogonal to, as ones are to centred rows
    start = np.random.default_rng(0).standard_normal(len(A)).astype(A.dtype)
    return float(eigsh(A, k=1, v0=start, return_eigenvectors=False)[0])


def _leave_one_out(spectrum, alphas, s, R):
    """Return the weighted mean squared error of each row by a fit without it, for each alpha.

    ``e_i = u_i / (s_i (A^-1)_ii)`` with ``u = A^-1 s R`` and ``A = s K s + alpha I``.
    """
    values, V = (t.double() for t in spectrum)
    least = len(values) * torch.finfo(spectrum[0].dtype).eps * values[-1]
    s, R = s.double(), R.double()
    rotated, squares = V.mT @ (s * R), V.square()
    errors = []
    for alpha in alphas:
        # a matrix that is singular to rounding tells nothing
        if not _backend.holds(values[0] + alpha > least):
            errors.append(np.inf)
            continue
        inverse = 1 / (values + alpha)
        residual = (V @ (inverse[:, None] * rotated)) / (squares @ inverse)[:, None]
        errors.append(float(residual.square().sum() / (s.square().sum() * R.shape[1])))
    return np.array(errors)


def _log_likelihood(L, s, R):
    """Return the log marginal likelihood of the targets, summed over outputs.

    In units of the normalised targets, as scikit-learn's `GaussianProcessRegressor`.
    """
    n, c = R.shape
    white = torch.linalg.solve_triangular(L, s * R, upper=False)
    # the noise of a row is alpha / weight: the determinant of s K s + alpha over that of s
    log_det = 2 * L.diagonal().log().sum() - 2 * s.log().sum()
    value = -0.5 * white.square().sum() - 0.5 * c * log_det - 0.5 * c * n * np.log(2 * np.pi)
    return float(value)
