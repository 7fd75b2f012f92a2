# SPDX-License-Identifier: BSD-3-Clause
"""The regimes whose networks are kernel methods: means and covariances in closed form."""

from typing import NamedTuple

import numpy as np
import torch
from scipy.sparse.linalg import eigsh

from rfmlearn import _backend
from rfmlearn._predictor import Predictor
from rfmlearn.kernels import Rows


class KernelRegime(NamedTuple):
    """What makes such a regime: which kernel trains, which one is the prior, and if it is a GP."""

    trains: type
    prior: type
    is_gp: bool

    def fit(self, model, X, y, R, weight, device, unit, flat):
        """Return the fitted attributes.

        Parameters
        ----------
        model : BaseKernelRegime
            The estimator, for its parameters.
        X : ndarray of shape (n, d)
            Training rows.
        y : ndarray
            Targets as they came, to be kept.
        R : ndarray of shape (n, c)
            Targets of the network.
        weight : ndarray of shape (n,)
            Positive row weights.
        device : torch.device
            Where to compute.
        unit : tuple of two ndarray of shape (c,)
            ``y = mean + scale R``.
        flat : bool
            Whether predictions are 1-D.

        Returns
        -------
        dict
            Attributes by name.
        """
        kernel, tensor = model._kernel(self.trains), _placing(X.dtype, device)
        alphas = np.atleast_1d(np.asarray(model.alpha, dtype=np.float64))
        n, item, several = len(X), X.dtype.itemsize, np.ndim(model.alpha) > 0
        if several and model.training_time is not None:
            raise ValueError(
                "Several values of alpha are compared at infinite time only: pass one alpha, or "
                "training_time=None."
            )
        advice = "Pass X as float32 to halve it, or take RFMRegressor(NTK(), max_iter=0)."
        with _backend.memory_guard(n, 4 * n * n * item, device, advice=advice):
            A = kernel.gram(Rows.of(tensor(X)))
            s, R = tensor(np.sqrt(weight))[:, None], tensor(R)
            A.mul_(s).mul_(s.mT)
            count = weight.sum() * R.shape[1]
            rate = None
            if model.training_time is not None:
                rate = model.learning_rate * model.training_time / float(count)
            found, spectrum = {}, None
            if several or rate is not None:
                spectrum = torch.linalg.eigh(A)
                top = float(spectrum[0][-1])
            else:
                top = _largest_eigenvalue(A)
            if several:
                errors = _leave_one_out(spectrum, alphas, s, R)
                found["loo_errors_"] = errors
                alphas = alphas[[np.argmin(errors)]]
            found["best_alpha_"] = alpha = float(alphas[0])
            if rate is None:
                A.diagonal().add_(alpha)
                inverse = _Inverse(None, (_cholesky(A),))
                found["L_"] = _backend.to_numpy(inverse.factors[0])
            else:
                inverse = _Inverse(rate, ((spectrum[0] + alpha).clamp(min=0), spectrum[1]))
            coef = _backend.to_numpy(s * inverse(s * R))
            if self.is_gp and rate is None:
                found["log_marginal_likelihood_value_"] = _log_likelihood(*inverse.factors, s, R)
        return {
            **found,
            "kernel_": kernel,
            "X_train_": np.array(X),
            "y_train_": np.array(y),
            "alpha_": coef[:, 0] if flat else coef,
            "max_learning_rate_": 2 * float(count) / top if top > 0 else np.inf,
            "_flow": (rate, tuple(_backend.to_numpy(F) for F in inverse.factors)),
            "_sqrt_weight": np.sqrt(weight),
        }

    def scores(self, model, X):
        """Return the mean at the rows of X, (n, c), in units of y."""
        F, (mean, scale) = _backend.to_numpy(_expansion(model).scores(X)), model._unit
        return (F * scale + mean).astype(F.dtype)

    def gradients(self, model, X):
        """Return the gradients (n, c, d) of the mean, in units of y."""
        G = _backend.to_numpy(_expansion(model).gradients(X))
        return (G * model._unit[1][:, None]).astype(G.dtype)

    def covariance(self, model, X, diagonal):
        """Return the covariance of one output between the rows of X, in units of R."""
        tensor = _placing(model.X_train_.dtype, _backend.resolve_device(model.device))
        rows, at = Rows.of(tensor(model.X_train_)), Rows.of(tensor(X))
        prior, s = model._kernel(self.prior), tensor(model._sqrt_weight)[:, None]
        rate, factors = model._flow
        inverse = _Inverse(rate, tuple(map(tensor, factors)))
        cross = model.kernel_.matrix(at, rows)
        start = prior.diagonal(at) if diagonal else prior.gram(at)
        if self.is_gp:
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


def _expansion(model):
    """Return the mean of a fitted estimator as a kernel expansion."""
    tensor = _placing(model.X_train_.dtype, _backend.resolve_device(model.device))
    coef = tensor(model.alpha_.reshape(len(model.X_train_), -1))
    return Predictor(model.kernel_, Rows.of(tensor(model.X_train_)), coef, None, coef.new_ones(()))


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
