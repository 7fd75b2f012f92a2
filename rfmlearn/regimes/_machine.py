# SPDX-License-Identifier: BSD-3-Clause
"""Networks of infinite width as estimators: what regressor and classifier share."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rfmlearn import _backend
from rfmlearn._base._model import BaseModel
from rfmlearn._base._params import listed
from rfmlearn._base._sklearn import Interval, StrOptions, fit_context
from rfmlearn._base._targets import centre
from rfmlearn._typing import ArrayLike, Self
from rfmlearn.kernels import NNGP, NTK
from rfmlearn.kernels.activations import DUALS, Homogeneous, Sign, Smooth
from rfmlearn.regimes import _closed_form
from rfmlearn.regimes._closed_form import Regime

REGIMES = {
    "nngp": Regime(NNGP, NNGP, True),
    "ntk": Regime(NTK, NNGP, False),
    "ntk_gp": Regime(NTK, NTK, True),
}


class BaseKernelRegime(BaseModel):
    """The parameters and the mathematics that both estimators share; a subclass adds a task."""

    _parameter_constraints = {
        "regime": [StrOptions(set(REGIMES))],
        "depth": [Interval(Integral, 0, None, closed="left")],
        "activation": [StrOptions(set(DUALS)), Homogeneous, Sign, Smooth],
        "weight_std": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "bias_std": [Interval(Real, 0, None, closed="left"), "array-like"],
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "training_time": [Interval(Real, 0, None, closed="left"), None],
        "device": [str],
    }

    def _resolve_kernel(self, kind):
        """Return the kernel of a class, NTK or NNGP, with the parameters of the estimator."""

        def plain(name):
            value = getattr(self, name)
            if value is None or isinstance(value, Real):
                return value
            return tuple(map(float, listed(name, value)))

        return kind(int(self.depth), self.activation, plain("weight_std"), plain("bias_std"))

    @fit_context()
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
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
        device, regime = _backend.resolve_device(self.device), REGIMES[self.regime]
        alphas = np.asarray(listed("alpha", self.alpha, of="number >= 0"), dtype=float)
        if alphas.size == 0 or not (alphas >= 0).all():
            raise ValueError(f"alpha={self.alpha!r} must be a number >= 0, or a sequence of them.")
        if np.ndim(self.alpha) == 0:
            alphas = alphas[0]
        rows = self._rows_to_fit(X, y, sample_weight)
        Y, weight = rows.Y, rows.weight
        mean, scale = np.zeros(Y.shape[1]), np.ones(Y.shape[1])
        if self._normalizes():
            targets = centre(Y, weight)
            Y, mean, scale = targets.matrix, targets.intercept, targets.scale
        kernel, flat = self._resolve_kernel(regime.trains), rows.target.flat(rows.y)
        found = _closed_form.fit(
            regime, kernel, rows.X, Y, weight, alphas, self.training_time, device
        )
        coef = found.pop("coef")
        return self._store(
            {
                **rows.seen,
                **self._task_attributes(rows.target, weight),
                **found,
                "kernel_": kernel,
                "X_train_": np.array(rows.X),
                "y_train_": np.array(rows.y),
                "alpha_": coef[:, 0] if flat else coef,
                "_prior": self._resolve_kernel(regime.prior),
                "_is_gp": regime.is_gp,
                "_unit": (mean, scale),
                "_flat": flat,
            }
        )

    def _normalizes(self):
        return False

    @_backend.isolated
    def _scores(self, X):
        """Return the mean at the rows of X, (n,) or (n, n_outputs)."""
        check_is_fitted(self, "alpha_")
        F = _backend.to_numpy(_closed_form.expansion(self).scores(self._check(X)))
        mean, scale = self._unit
        F = (F * scale + mean).astype(F.dtype)
        return F[:, 0] if self._flat else F

    @_backend.isolated
    def input_gradients(self, X: ArrayLike) -> np.ndarray:
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
        G = _backend.to_numpy(_closed_form.expansion(self).gradients(self._check(X)))
        return (G * self._unit[1][:, None]).astype(G.dtype)
