# SPDX-License-Identifier: BSD-3-Clause
"""Networks of infinite width as estimators: what regressor and classifier share."""

from typing import ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rfmlearn import _backend
from rfmlearn._base import BaseModel, Integral, Interval, Real, StrOptions, _fit_context
from rfmlearn._regime_kernels import KernelRegime
from rfmlearn._regime_networks import FeatureLearningRegime
from rfmlearn.kernels import DUALS, NNGP, NTK, Homogeneous, Sign, Smooth
from rfmlearn.neural._abc import ACTIVATIONS
from rfmlearn.neural._read import sequential

REGIMES = {
    "nngp": KernelRegime(NNGP, NNGP, True),
    "ntk": KernelRegime(NTK, NNGP, False),
    "ntk_gp": KernelRegime(NTK, NTK, True),
    "mup": FeatureLearningRegime(),
}

# What some fits leave and others do not.
_OPTIONAL = (
    "L_", "X_train_", "alpha_", "best_alpha_", "coefs_", "init_coefs_", "init_intercepts_",
    "intercepts_", "kernel_", "log_marginal_likelihood_value_", "loo_errors_", "loss_curve_",
    "max_learning_rate_", "width_", "y_train_",
)  # fmt: skip


def _is_network(model):
    return model.regime == "mup"


class BaseKernelRegime(BaseModel):
    """The parameters and the mathematics that both estimators share; a subclass adds a task."""

    _parameter_constraints = {
        "regime": [StrOptions(set(REGIMES))],
        "depth": [Interval(Integral, 0, None, closed="left")],
        "activation": [StrOptions({*DUALS, *ACTIVATIONS}), Homogeneous, Sign, Smooth],
        "weight_std": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "bias_std": [Interval(Real, 0, None, closed="left"), "array-like"],
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "training_time": [Interval(Real, 0, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "width": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "random_state": ["random_state"],
    }
    early_stopping: ClassVar[bool] = False

    def _kernel(self, kind):
        def plain(value):
            return value if value is None or np.ndim(value) == 0 else tuple(map(float, value))

        return kind(int(self.depth), self.activation, plain(self.weight_std), plain(self.bias_std))

    def _scales(self, default):
        """Return the weight and bias scales of each of depth + 1 layers."""
        values = default if self.weight_std is None else self.weight_std, self.bias_std
        # a kernel checks them
        NNGP(int(self.depth), "relu", *(v if np.ndim(v) == 0 else tuple(v) for v in values))
        return [np.broadcast_to(np.asarray(v, float), self.depth + 1) for v in values]

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
        device, regime = _backend.resolve_device(self.device), REGIMES[self.regime]
        alphas = np.asarray(self.alpha, dtype=float)
        if alphas.ndim > 1 or alphas.size == 0 or not (alphas >= 0).all():
            raise ValueError(f"alpha={self.alpha!r} must be a number >= 0, or a sequence of them.")
        X, y, weight, target, _ = self._rows_to_fit(X, y, sample_weight, None, None, None, None)
        Y = target.encode(y)
        mean, scale = np.zeros(Y.shape[1]), np.ones(Y.shape[1])
        if self._normalizes():
            mean = np.average(Y, axis=0, weights=weight)
            scale = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weight))
            scale[scale == 0] = 1.0
        unit, flat = (mean, scale), target.flat(y)
        found = regime.fit(self, X, y, (Y - mean) / scale, weight, device, unit, flat)
        self._unit, self._flat, self._total_weight = unit, flat, float(weight.sum())
        for name in _OPTIONAL:
            vars(self).pop(name, None)  # of an earlier fit
        for name, value in {**found, **self._task_attributes(target)}.items():
            setattr(self, name, value)
        return self

    def _normalizes(self):
        return False

    def __sklearn_is_fitted__(self):
        return hasattr(self, "alpha_") or hasattr(self, "coefs_")

    def _scores(self, X):
        """Return the mean at the rows of X, (n,) or (n, n_outputs)."""
        check_is_fitted(self)
        F = REGIMES[self.regime].scores(self, self._check(X))
        return F[:, 0] if self._flat else F

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
        check_is_fitted(self)
        return REGIMES[self.regime].gradients(self, self._check(X))

    @available_if(_is_network)
    def to_torch(self):
        """Return the fitted network as a torch module, with ``regime="mup"``.

        Returns
        -------
        nn.Sequential
            Linear layers and activations on the CPU, a copy. At infinite width the network of
            `n_features_in_` plus outputs units that equals it.
        """
        check_is_fitted(self)
        return sequential(self.coefs_, self.intercepts_, self.activation)
