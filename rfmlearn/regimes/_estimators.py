# SPDX-License-Identifier: BSD-3-Clause
"""Ensembles of infinitely wide networks, in closed form, as scikit-learn estimators."""

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rfmlearn import _backend
from rfmlearn._base._sklearn import StrOptions
from rfmlearn._base._tasks import ClassifierTask, RegressorTask
from rfmlearn._typing import Any, ArrayLike, RandomState, Sequence
from rfmlearn.kernels.activations import Homogeneous, Sign, Smooth
from rfmlearn.regimes import _closed_form
from rfmlearn.regimes._machine import BaseKernelRegime


class KernelRegimeRegressor(RegressorTask, BaseKernelRegime):
    """Prediction of an ensemble of infinitely wide networks, for numbers.

    The mean over all random initialisations of networks trained by gradient flow on the mean
    squared error, and what spread they have, in closed form.

    Parameters
    ----------
    regime : {"ntk", "nngp", "ntk_gp"}, default="ntk"
        "ntk": all layers are trained; the mean is kernel regression with the neural tangent
        kernel, the covariance that of the ensemble. It is the spread over initialisations, not
        a Bayesian posterior. "nngp": only the last layer is trained, or, at infinite time, the
        Bayesian posterior of the network. "ntk_gp": the Gaussian process whose kernel is the NTK.
    depth : int, default=2
        Hidden layers.
    activation : str or activation object, default="relu"
        "relu", "leaky_relu" (slope 0.01), "abs", "identity", "erf", "sin", "cos", "rbf", "gelu",
        "gaussian", "sigmoid_like", "exp", "gabor", "sign", "relu_squared", "monomial2",
        "monomial3", or an object of `rfmlearn.kernels.activations`.
    weight_std : float or sequence of float, default=None
        Weight scale of all layers, or of each of the ``depth + 1``; None keeps the size of a
        signal.
    bias_std : float or sequence of float, default=0.1
        Bias scale of all layers, or of each of the ``depth + 1``.
    alpha : float or sequence of float, default=0.1
        Added to the diagonal of the kernel matrix, absolute as in `GaussianProcessRegressor`:
        the variance of the noise. The diagonal of the NTK grows with depth, so that the same
        alpha means less in deeper networks. Of several the one with the least leave-one-out
        error is taken (closed form, one eigendecomposition; infinite time).
    training_time : float, default=None
        Time of the gradient flow on the mean squared error: steps times learning rate. None is
        infinity.
    normalize_y : bool, default=False
        Centre and scale the targets, as in `GaussianProcessRegressor`; without it the prior mean
        is 0.
    device : str, default="cpu"
        "cpu", "cuda", "cuda:1", "mps", or "auto" for the best there is. Looked up when the
        estimator is used. What is fitted is NumPy whatever the device.
    random_state : int, RandomState instance or None, default=None
        For `sample_y`.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel of the training.
    X_train_, y_train_ : ndarray
        Training rows and targets; those of weight 0 are left out.
    alpha_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Dual coefficients.
    L_ : ndarray of shape (n_samples, n_samples)
        Cholesky factor of the kernel matrix plus `alpha`, weights applied, where
        `training_time` is None.
    best_alpha_ : float
        The alpha of the fit.
    loo_errors_ : ndarray of shape (n_alphas,)
        Mean squared leave-one-out error, in units of the normalised targets, for each of
        several `alpha`. A row of weight k is left out whole.
    max_learning_rate_ : float
        Above it gradient descent with unit steps on the mean squared error diverges.
    log_marginal_likelihood_value_ : float
        Of the training targets; for "nngp" and "ntk_gp" at infinite time.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had string column names.

    See Also
    --------
    KernelRegimeClassifier : The same for classes.
    RFMRegressor : With ``kernel="ntk"`` learns features too, which no kernel regime does.
    ABCMLPRegressor : Networks that learn features, of finite width and in the limit of infinite
        width.

    Notes
    -----
    With T the tangent kernel, m the number of targets and ``H_t = A^-1 (1 - exp(-t A / m))`` for
    ``A = T + alpha I`` the mean is ``T* H_t y`` [1]_ [2]_.

    References
    ----------
    .. [1] A. Jacot, F. Gabriel, C. Hongler. Neural tangent kernel. NeurIPS 2018.
       arXiv 1806.07572.
    .. [2] J. Lee et al. Wide neural networks of any depth evolve as linear models under gradient
       descent. NeurIPS 2019. arXiv 1902.06720.

    Examples
    --------
    >>> from rfmlearn import KernelRegimeRegressor
    >>> from rfmlearn.datasets import make_multi_index
    >>> X, y, _ = make_multi_index(600, 5, random_state=0)
    >>> model = KernelRegimeRegressor().fit(X[:500], y[:500])
    >>> bool(model.score(X[500:], y[500:]) > 0.7)
    True
    >>> mean, std = model.predict(X[500:], return_std=True)
    >>> std.shape
    (100,)
    """

    _parameter_constraints = {
        **BaseKernelRegime._parameter_constraints,
        "normalize_y": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        regime: str = "ntk",
        *,
        depth: int = 2,
        activation: str | Homogeneous | Sign | Smooth = "relu",
        weight_std: float | Sequence[float] | None = None,
        bias_std: float | Sequence[float] = 0.1,
        alpha: float | Sequence[float] = 0.1,
        training_time: float | None = None,
        normalize_y: bool = False,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        self.regime = regime
        self.depth = depth
        self.activation = activation
        self.weight_std = weight_std
        self.bias_std = bias_std
        self.alpha = alpha
        self.training_time = training_time
        self.normalize_y = normalize_y
        self.device = device
        self.random_state = random_state

    def _normalizes(self):
        return self.normalize_y

    @_backend.isolated
    def predict(self, X: ArrayLike, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predict the mean of the ensemble, and its spread.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            Return the standard deviation as well.
        return_cov : bool, default=False
            Return the covariance between the rows as well.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            In the shape that y had.
        std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            With `return_std`. Without the noise that `alpha` stands for.
        cov : ndarray of shape (n_samples, n_samples) or (n_samples, n_samples, n_outputs)
            With `return_cov`.

        Raises
        ------
        RuntimeError
            If both are asked for.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be asked for.")
        mean = self._scores(X)
        if not (return_std or return_cov):
            return mean
        spread = _closed_form.covariance(self, self._check(X), diagonal=return_std)
        unit = self._unit[1].astype(spread.dtype)
        if return_std:
            spread = np.sqrt(spread.clip(min=0))[:, None] * unit
            return mean, spread[:, 0] if self._flat else spread
        spread = spread[:, :, None] * unit**2
        return mean, spread[:, :, 0] if self._flat else spread

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = None
    ) -> np.ndarray:
        """Draw functions: predictions of that many networks of the ensemble.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState instance or None, default=None
            Seed; None takes that of the estimator.

        Returns
        -------
        ndarray of shape (n_rows, n_samples) or (n_rows, n_outputs, n_samples)
            Joint draws over the rows.
        """
        rng = check_random_state(self.random_state if random_state is None else random_state)
        mean, cov = self.predict(X, return_cov=True)
        if mean.ndim == 1:
            return rng.multivariate_normal(mean, cov, n_samples).T
        return np.stack(
            [rng.multivariate_normal(m, cov[:, :, k], n_samples).T for k, m in enumerate(mean.T)],
            axis=1,
        )

    def log_marginal_likelihood(self) -> float:
        """Return the log marginal likelihood of the training targets, summed over outputs.

        Returns
        -------
        float
            In units of the normalised targets.

        Raises
        ------
        AttributeError
            For "ntk", whose ensemble is no posterior, and at a finite training time.
        """
        check_is_fitted(self, "alpha_")
        if not hasattr(self, "log_marginal_likelihood_value_"):
            raise AttributeError(
                "Only regime='nngp' and 'ntk_gp' with training_time=None have a marginal "
                "likelihood, and this estimator was fitted with others."
            )
        return self.log_marginal_likelihood_value_


class KernelRegimeClassifier(ClassifierTask, BaseKernelRegime):
    """Prediction of an ensemble of infinitely wide networks, for classes.

    Networks trained on the squared error to -1 and 1, or to one-hot vectors of more classes (see
    `KernelRegimeRegressor`).

    Parameters
    ----------
    regime : {"ntk", "nngp", "ntk_gp"}, default="ntk"
        "ntk": all layers are trained; the mean is kernel regression with the neural tangent
        kernel. "nngp": only the last layer is trained, or, at infinite time, the Bayesian
        posterior of the network. "ntk_gp": the Gaussian process whose kernel is the NTK, whose
        mean is that of "ntk".
    depth : int, default=2
        Hidden layers.
    activation : str or activation object, default="relu"
        "relu", "leaky_relu" (slope 0.01), "abs", "identity", "erf", "sin", "cos", "rbf", "gelu",
        "gaussian", "sigmoid_like", "exp", "gabor", "sign", "relu_squared", "monomial2",
        "monomial3", or an object of `rfmlearn.kernels.activations`.
    weight_std : float or sequence of float, default=None
        Weight scale of all layers, or of each of the ``depth + 1``; None keeps the size of a
        signal.
    bias_std : float or sequence of float, default=0.1
        Bias scale of all layers, or of each of the ``depth + 1``.
    alpha : float or sequence of float, default=1.0
        Added to the diagonal of the kernel matrix: the variance of the noise. The diagonal of
        the NTK grows with depth, so that the same alpha means less in deeper networks. Of
        several the one with the least squared leave-one-out error is taken (closed form, one
        eigendecomposition; infinite time).
    training_time : float, default=None
        Time of the gradient flow on the mean squared error: steps times learning rate. None is
        infinity.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights in the fit. A model that fits
        every row (a small ridge, a long training) hardly feels them; to move the decision, choose
        its threshold with `TunedThresholdClassifierCV`.
    device : str, default="cpu"
        "cpu", "cuda", "cuda:1", "mps", or "auto" for the best there is. Looked up when the
        estimator is used. What is fitted is NumPy whatever the device.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    kernel_ : Kernel
        The kernel of the training.
    X_train_, y_train_ : ndarray
        Training rows and labels; those of weight 0 are left out.
    alpha_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Dual coefficients; one column for two classes.
    L_ : ndarray of shape (n_samples, n_samples)
        Cholesky factor of the kernel matrix plus `alpha`, weights applied, where
        `training_time` is None.
    best_alpha_ : float
        The alpha of the fit.
    loo_errors_ : ndarray of shape (n_alphas,)
        Mean squared leave-one-out error for each of several `alpha`.
    max_learning_rate_ : float
        Above it gradient descent with unit steps on the mean squared error diverges.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had string column names.

    See Also
    --------
    KernelRegimeRegressor : The same for numbers.

    Examples
    --------
    >>> from rfmlearn import KernelRegimeClassifier
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelRegimeClassifier().fit(scale(X), y)
    >>> bool(model.score(scale(X), y) > 0.95)
    True
    """

    _parameter_constraints = {
        **BaseKernelRegime._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        regime: str = "ntk",
        *,
        depth: int = 2,
        activation: str | Homogeneous | Sign | Smooth = "relu",
        weight_std: float | Sequence[float] | None = None,
        bias_std: float | Sequence[float] = 0.1,
        alpha: float | Sequence[float] = 1.0,
        training_time: float | None = None,
        class_weight: dict | str | None = None,
        device: str = "cpu",
    ) -> None:
        self.regime = regime
        self.depth = depth
        self.activation = activation
        self.weight_std = weight_std
        self.bias_std = bias_std
        self.alpha = alpha
        self.training_time = training_time
        self.class_weight = class_weight
        self.device = device
