# SPDX-License-Identifier: BSD-3-Clause
"""The mathematics of infinitely wide networks in the kernel regimes: means and covariances."""

from typing import ClassVar, NamedTuple

import numpy as np
import torch
from scipy.sparse.linalg import eigsh
from sklearn.utils.validation import check_is_fitted

from rfmlearn import _backend
from rfmlearn._base import BaseModel, Integral, Interval, Real, StrOptions, _fit_context
from rfmlearn._predictor import Predictor
from rfmlearn.kernels import DUALS, NNGP, NTK, Homogeneous, Rows, Smooth


class _Regime(NamedTuple):
    """What makes a regime: which kernel trains, which one is the prior, and whether it is a GP."""

    trains: type
    prior: type
    is_gp: bool


_REGIMES = {
    "nngp": _Regime(NNGP, NNGP, True),
    "ntk": _Regime(NTK, NNGP, False),
    "ntk_gp": _Regime(NTK, NTK, True),
}


class _Inverse:
    """``H_t = A^-1 (1 - exp(-rate A))`` for ``A = s K s + alpha I``, rate None for ``A^-1``.

    `factors` are the Cholesky factor of A, or its eigenvalues and eigenvectors.
    """

    def __init__(self, rate, factors):
        self.rate, self.factors = rate, factors

    @classmethod
    def of(cls, A, rate):
        if rate is not None:
            values, V = torch.linalg.eigh(A)
            return cls(rate, (values.clamp(min=0), V))
        L, info = torch.linalg.cholesky_ex(A)
        if _backend.holds(info != 0):
            raise np.linalg.LinAlgError(
                "The kernel matrix plus alpha is not positive definite to rounding: two rows "
                "(nearly) coincide, or the kernel has fewer features than there are rows. "
                "Raise alpha."
            )
        return cls(None, (L,))

    def __call__(self, V, times=1):
        """Return ``H V``; with times = 2 at twice the training time."""
        if self.rate is None:
            return torch.cholesky_solve(V, *self.factors)
        (values, vectors), rate = self.factors, times * self.rate
        # -> rate where the eigenvalue is 0
        safe = torch.where(values > 0, values, torch.ones_like(values))
        shrunk = torch.where(values > 0, -torch.expm1(-rate * safe) / safe, rate)
        return vectors @ (shrunk[:, None] * (vectors.mT @ V))


class BaseKernelRegime(BaseModel):
    """The parameters and the mathematics that both estimators share; a subclass adds a task."""

    _parameter_constraints = {
        "regime": [StrOptions(set(_REGIMES))],
        "depth": [Interval(Integral, 0, None, closed="left")],
        "activation": [StrOptions(set(DUALS)), Homogeneous, Smooth],
        "weight_std": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "bias_std": [Interval(Real, 0, None, closed="left"), "array-like"],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "training_time": [Interval(Real, 0, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "device": [str],
    }
    early_stopping: ClassVar[bool] = False

    def _kernel(self, kind):
        def plain(value):
            return value if value is None or np.ndim(value) == 0 else tuple(map(float, value))

        return kind(int(self.depth), self.activation, plain(self.weight_std), plain(self.bias_std))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows, centred and scaled. float32 stays float32; everything else becomes
            float64.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets; class labels, one per row, for a classifier.
        sample_weight : array-like of shape (n_samples,), default=None
            Precision of each row in units of the others: its noise is ``alpha / weight``, and its
            loss counts that much. Weight k counts as the row repeated k times, weight 0 as the
            row left out.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, the data hold NaN, infinities or text, there is
            one class only, or the device is not there.
        numpy.linalg.LinAlgError
            If the kernel matrix plus `alpha` is not positive definite.
        MemoryError
            If the kernel matrices do not fit into what is free.
        """
        device, regime = _backend.resolve_device(self.device), _REGIMES[self.regime]
        kernel = self._kernel(regime.trains)
        X, y, weight, target, _ = self._rows_to_fit(X, y, sample_weight, None, None, None, None)
        Y = target.encode(y)
        mean, scale = np.zeros(Y.shape[1]), np.ones(Y.shape[1])
        if self._normalizes():
            mean = np.average(Y, axis=0, weights=weight)
            scale = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weight))
            scale[scale == 0] = 1.0

        def tensor(array):
            return _backend.to_tensor(np.asarray(array, dtype=X.dtype), device)

        n, item = len(X), X.dtype.itemsize
        advice = "Pass X as float32 to halve it, or take RFMRegressor(NTK(), max_iter=0)."
        with _backend.memory_guard(n, 4 * n * n * item, device, advice=advice):
            rows = Rows.of(tensor(X))
            K = kernel.gram(rows)
            s = tensor(np.sqrt(weight))[:, None]
            A = s * K * s.mT
            top = _largest_eigenvalue(A)
            A.diagonal().add_(self.alpha)
            count = weight.sum() * Y.shape[1]
            inverse = _Inverse.of(A, self._rate(count))
            R = tensor((Y - mean) / scale)
            coef = s * inverse(s * R)
            evidence = None
            if regime.is_gp and self.training_time is None:
                evidence = _log_likelihood(*inverse.factors, s, R)
        own = self._task_attributes(target)
        self.kernel_ = kernel
        self.X_train_, self.y_train_ = np.array(X), np.array(y)
        flat = target.flat(y)
        self.alpha_ = _backend.to_numpy(coef)[:, 0] if flat else _backend.to_numpy(coef)
        self._flow = inverse.rate, tuple(_backend.to_numpy(F) for F in inverse.factors)
        self.max_learning_rate_ = 2 * float(count) / top if top > 0 else np.inf
        self._sqrt_weight = np.sqrt(weight)
        self._mean, self._scale, self._flat = mean, scale, flat
        self._total_weight = float(weight.sum())
        optional = {"log_marginal_likelihood_value_": evidence, "L_": None}
        if inverse.rate is None:
            (optional["L_"],) = self._flow[1]
        for name, value in optional.items():
            vars(self).pop(name, None)  # of an earlier fit
            if value is not None:
                setattr(self, name, value)
        for name, value in own.items():
            setattr(self, name, value)
        return self

    def _normalizes(self):
        return False

    def _rate(self, count):
        """Return learning rate x time / number of targets; None for infinity."""
        if self.training_time is None:
            return None
        return self.learning_rate * self.training_time / float(count)

    def _placed(self):
        """Return what maps arrays to the device, and the training rows there."""
        check_is_fitted(self, "alpha_")
        device = _backend.resolve_device(self.device)

        def tensor(array):
            return _backend.to_tensor(np.asarray(array, dtype=self.X_train_.dtype), device)

        return tensor, Rows.of(tensor(self.X_train_))

    def _scores(self, X):
        """Return the mean at the rows of X, (n,) or (n, n_outputs)."""
        F = _backend.to_numpy(self._predictor().scores(self._check(X)))
        F = (F * self._scale + self._mean).astype(F.dtype)
        return F[:, 0] if self._flat else F

    def _predictor(self):
        """Return the mean as a kernel expansion, in units of the normalised targets."""
        tensor, rows = self._placed()
        coef = tensor(self.alpha_.reshape(len(rows), -1))
        return Predictor(self.kernel_, rows, coef, None, coef.new_ones(()))

    def input_gradients(self, X):
        """Gradients of the mean with respect to the input.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Where to take them.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs, n_features)
            In units of y per unit of each feature. Where a kernel has a kink, at a training row
            for relu, the mean of both sides.
        """
        check_is_fitted(self, "alpha_")
        G = _backend.to_numpy(self._predictor().gradients(self._check(X)))
        return (G * self._scale[:, None]).astype(G.dtype)

    def _covariance(self, X, diagonal):
        """Return the covariance of one output between the rows of X, before scaling."""
        tensor, rows = self._placed()
        regime, at = _REGIMES[self.regime], Rows.of(tensor(self._check(X)))
        prior, s = self._kernel(regime.prior), tensor(self._sqrt_weight)[:, None]
        rate, factors = self._flow
        inverse = _Inverse(rate, tuple(map(tensor, factors)))
        cross = self.kernel_.matrix(at, rows)
        start = prior.diagonal(at) if diagonal else prior.gram(at)
        if regime.is_gp:
            seen = s * inverse(s * cross.mT, times=2)
            return start - ((cross * seen.mT).sum(1) if diagonal else cross @ seen)
        W = (s * inverse(s * cross.mT)).mT
        K, other = prior.gram(rows), prior.matrix(at, rows)
        if diagonal:
            return start + ((W @ K) * W).sum(1) - 2 * (W * other).sum(1)
        both = W @ other.mT
        return start + W @ K @ W.mT - both - both.mT


def _largest_eigenvalue(A):
    """Return the largest eigenvalue of a positive semi-definite matrix."""
    A = _backend.to_numpy(A).astype(np.float64)
    if len(A) < 3:
        return float(np.linalg.eigvalsh(A)[-1])
    if not A.any():
        return 0.0
    # a direction that no structure of the data is orthogonal to, as ones are to centred rows
    start = np.random.default_rng(0).standard_normal(len(A))
    return float(eigsh(A, k=1, v0=start, return_eigenvectors=False)[0])


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
