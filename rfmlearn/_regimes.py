# SPDX-License-Identifier: BSD-3-Clause
"""Ensembles of infinitely wide networks, in closed form, as scikit-learn estimators."""

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rfmlearn._base import StrOptions
from rfmlearn._regime_base import REGIMES, BaseKernelRegime
from rfmlearn._tasks import ClassifierTask, RegressorTask


class KernelRegimeRegressor(RegressorTask, BaseKernelRegime):
    """Prediction of an ensemble of infinitely wide networks, for numbers.

    The mean over all random initialisations of networks trained by gradient flow on the mean
    squared error, and what spread they have, in closed form.

    Parameters
    ----------
    regime : {"ntk", "nngp", "ntk_gp", "mup"}, default="ntk"
        "ntk": all layers are trained; the mean is kernel regression with the neural tangent
        kernel, the covariance that of the ensemble. It is the spread over initialisations, not
        a Bayesian posterior. "nngp": only the last layer is trained, or, at infinite time, the
        Bayesian posterior of the network. "ntk_gp": the Gaussian process whose kernel is the NTK.
        "mup": networks in the maximal update parametrisation, which learn features at any width,
        trained by gradient descent. With one hidden layer and ``activation="identity"`` this is
        the exact limit of infinite width (`rfmlearn.neural.InfiniteLinearNetwork`). Elsewhere
        no closed form exists, and a network of the given `width` is trained.
    depth : int, default=2
        Hidden layers.
    activation : str or dual, default="relu"
        As in `rfmlearn.kernels.NNGP`; with "mup" one of `ABCMLPRegressor`.
    weight_std : float or sequence of float, default=None
        Weight scale of all layers, or of each of the ``depth + 1``; None keeps the size of a
        signal.
    bias_std : float or sequence of float, default=0.1
        Bias scale. With "mup" biases start at 0, and it acts on their learning rate.
    alpha : float or sequence of float, default=0.1
        Added to the diagonal of the kernel matrix, absolute as in `GaussianProcessRegressor`:
        the variance of the noise. The diagonal of the NTK grows with depth, so that the same
        alpha means less in deeper networks. Of several the one with the least leave-one-out
        error is taken (closed form, one eigendecomposition; infinite time). With "mup"
        ``alpha / 2`` times the squared weights is added to half the squared error.
    training_time : float, default=None
        Time of the gradient flow; None is infinity. With "mup" the number of gradient steps;
        None is 1000.
    learning_rate : float, default=1.0
        Multiplies the time. With "mup" the size of a step, in the same units.
    width : int, default=256
        Of the hidden layers of a network that has no closed form.
    normalize_y : bool, default=False
        Centre and scale the targets, as in `GaussianProcessRegressor`; without it the prior mean
        is 0.
    device : str, default="cpu"
        "cpu", "cuda", "cuda:1", "mps", or "auto" for the best there is. What is fitted is NumPy.
    random_state : int, RandomState instance or None, default=None
        For `sample_y`, and for the initial weights of a network of finite width.

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
    coefs_, intercepts_, init_coefs_, init_intercepts_ : list of ndarray
        With "mup" and only there, as in `ABCMLPRegressor`: the trained network and the initial
        one.
    loss_curve_ : ndarray of shape (n_steps,)
        With "mup": mean squared error before each step, in units of the normalised targets.
    width_ : float
        With "mup": `width`, or infinity.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had string column names.

    See Also
    --------
    KernelRegimeClassifier : The same for classes.
    RFMRegressor : With ``kernel="ntk"`` learns features too, which no kernel regime does.
    ABCMLPRegressor : Finite networks in all parametrisations, by mini-batches, with early stopping.

    Notes
    -----
    With T the tangent kernel, m the number of targets and ``H_t = A^-1 (1 - exp(-lr t A / m))`` for
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
    }

    def __init__(
        self,
        regime="ntk",
        *,
        depth=2,
        activation="relu",
        weight_std=None,
        bias_std=0.1,
        alpha=0.1,
        training_time=None,
        learning_rate=1.0,
        width=256,
        normalize_y=False,
        device="cpu",
        random_state=None,
    ):
        self.regime = regime
        self.depth = depth
        self.activation = activation
        self.weight_std = weight_std
        self.bias_std = bias_std
        self.alpha = alpha
        self.training_time = training_time
        self.learning_rate = learning_rate
        self.width = width
        self.normalize_y = normalize_y
        self.device = device
        self.random_state = random_state

    def _normalizes(self):
        return self.normalize_y

    def predict(self, X, return_std=False, return_cov=False):
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
        ValueError
            If a spread is asked for of one network of finite width.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be asked for.")
        mean = self._scores(X)
        if not (return_std or return_cov):
            return mean
        spread = REGIMES[self.regime].covariance(self, self._check(X), diagonal=return_std)
        unit = self._unit[1].astype(spread.dtype)
        if return_std:
            spread = np.sqrt(spread.clip(min=0))[:, None] * unit
            return mean, spread[:, 0] if self._flat else spread
        spread = spread[:, :, None] * unit**2
        return mean, spread[:, :, 0] if self._flat else spread

    def sample_y(self, X, n_samples=1, random_state=None):
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

    def log_marginal_likelihood(self):
        """Return the log marginal likelihood of the training targets, summed over outputs.

        Returns
        -------
        float
            In units of the normalised targets.

        Raises
        ------
        AttributeError
            For "ntk" and "mup", whose ensembles are no posterior, and at a finite training time.
        """
        check_is_fitted(self)
        if not hasattr(self, "log_marginal_likelihood_value_"):
            raise AttributeError(
                "Only regime='nngp' and 'ntk_gp' with training_time=None have a marginal "
                f"likelihood; this is {self.regime!r} at training_time={self.training_time}."
            )
        return self.log_marginal_likelihood_value_


class KernelRegimeClassifier(ClassifierTask, BaseKernelRegime):
    """Prediction of an ensemble of infinitely wide networks, for classes.

    Networks trained on the squared error to -1 and 1, or to one-hot vectors of more classes (see
    `KernelRegimeRegressor`).

    Parameters
    ----------
    regime : {"ntk", "nngp", "ntk_gp", "mup"}, default="ntk"
        As in `KernelRegimeRegressor`. The prediction of "ntk_gp" is that of "ntk".
    depth : int, default=2
        Hidden layers.
    activation : str or dual, default="relu"
        As in `rfmlearn.kernels.NNGP`; with "mup" one of `ABCMLPClassifier`.
    weight_std : float or sequence of float, default=None
        Weight scale of all layers, or of each of the ``depth + 1``; None keeps the size of a
        signal.
    bias_std : float or sequence of float, default=0.1
        Bias scale. With "mup" biases start at 0, and it acts on their learning rate.
    alpha : float or sequence of float, default=1.0
        Added to the diagonal of the kernel matrix. Of several the one with the least squared
        leave-one-out error is taken. With "mup" the weight of a penalty.
    training_time : float, default=None
        Time of the gradient flow; None is infinity. With "mup" the number of gradient steps;
        None is 1000.
    learning_rate : float, default=1.0
        Multiplies the time. With "mup" the size of a step, in the same units.
    width : int, default=256
        Of the hidden layers of a network that has no closed form.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights.
    device : str, default="cpu"
        "cpu", "cuda", "cuda:1", "mps", or "auto" for the best there is. What is fitted is NumPy.
    random_state : int, RandomState instance or None, default=None
        For the initial weights of a network of finite width.

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
    coefs_, intercepts_, init_coefs_, init_intercepts_ : list of ndarray
        With "mup" and only there, as in `ABCMLPClassifier`.
    loss_curve_ : ndarray of shape (n_steps,)
        With "mup": mean squared error before each step.
    width_ : float
        With "mup": `width`, or infinity.
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
        regime="ntk",
        *,
        depth=2,
        activation="relu",
        weight_std=None,
        bias_std=0.1,
        alpha=1.0,
        training_time=None,
        learning_rate=1.0,
        width=256,
        class_weight=None,
        device="cpu",
        random_state=None,
    ):
        self.regime = regime
        self.depth = depth
        self.activation = activation
        self.weight_std = weight_std
        self.bias_std = bias_std
        self.alpha = alpha
        self.training_time = training_time
        self.learning_rate = learning_rate
        self.width = width
        self.class_weight = class_weight
        self.device = device
        self.random_state = random_state
