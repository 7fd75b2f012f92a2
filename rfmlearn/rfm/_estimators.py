# SPDX-License-Identifier: BSD-3-Clause
"""Recursive Feature Machines for regression and classification."""

from rfmlearn._base._sklearn import StrOptions
from rfmlearn._base._tasks import ClassifierTask, RegressorTask
from rfmlearn._typing import RandomState
from rfmlearn.kernels import Kernel
from rfmlearn.rfm._machine import BaseKernelMachine
from rfmlearn.solvers import Solver


class BaseRFM(BaseKernelMachine):
    """The parameters that both estimators share."""

    def __init__(
        self,
        kernel: str | Kernel = "laplace",
        *,
        bandwidth: float = 1.0,
        bandwidth_mode: str = "adaptive",
        alpha: float = 1e-3,
        agop_alpha: float | None = None,
        max_iter: int = 5,
        diag: bool = False,
        agop_power: float = 1.0,
        matrix_scaling: str | None = "spectral",
        center_gradients: bool = False,
        n_agop_samples: int | None = None,
        agop_outputs: str | int = "auto",
        n_centers: int | None = None,
        solver: str | Solver = "auto",
        memory_budget: int | None = None,
        tol: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 2,
        warm_start: bool = False,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.bandwidth_mode = bandwidth_mode
        self.alpha = alpha
        self.agop_alpha = agop_alpha
        self.max_iter = max_iter
        self.diag = diag
        self.agop_power = agop_power
        self.matrix_scaling = matrix_scaling
        self.center_gradients = center_gradients
        self.n_agop_samples = n_agop_samples
        self.agop_outputs = agop_outputs
        self.n_centers = n_centers
        self.solver = solver
        self.memory_budget = memory_budget
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state


class RFMRegressor(RegressorTask, BaseRFM):
    r"""Recursive Feature Machine regression.

    Kernel ridge regression whose metric M is learned: fit, take the average gradient
    outer product (AGOP) of the fitted function as the new M, fit again in the distance
    ``sqrt((x - z)^T M (x - z))``, and so on. Directions in which the target does not
    change fade out of the distance.

    Scale the columns first (`StandardScaler`) unless their units are comparable.

    Parameters
    ----------
    kernel : str or Kernel, default="laplace"
        Function of two rows: "laplace", "product_laplace", "gaussian", "power_exponential",
        "matern", "rational_quadratic", "lpq", "polynomial", "ntk", "nngp", an object of
        `rfmlearn.kernels` to set its parameters, or one of your own subclass of
        `rfmlearn.kernels.Kernel`.
    bandwidth : float, default=1.0
        With ``bandwidth_mode="adaptive"`` a factor of the root mean square distance between
        training rows in the current metric, so that 1.0 suits any number of features; with
        "constant" the length L itself, in units of X.
    bandwidth_mode : {"adaptive", "constant"}, default="adaptive"
        Whether the bandwidth follows the metric.
    alpha : float, default=1e-3
        Ridge: added to the diagonal of the kernel matrix, whose own diagonal is 1.
    agop_alpha : float, default=None
        Ridge of the fits along the way, whose AGOP is taken; None means `alpha`. A
        different value costs a second solve an iterate.
    max_iter : int, default=5
        Number of AGOP updates; 0 is kernel ridge regression.
    diag : bool, default=False
        Learn one weight per feature instead of a full matrix. Cheaper for many features,
        and better where features matter one by one rather than in combinations.
    agop_power : float, default=1.0
        ``M = AGOP^agop_power``. 0.5 changes the metric more gently.
    matrix_scaling : {"spectral", "trace"} or None, default="spectral"
        Scale M to a largest eigenvalue of 1, to trace n_features, or leave it. An adaptive
        bandwidth makes up for any scale, so that only `feature_matrix_` and `transform` show it.
        With ``bandwidth_mode="constant"`` predictions depend on it, and with None on the unit of y.
    center_gradients : bool, default=False
        Subtract the mean gradient of each output before the outer product: a linear trend
        then does not count as a feature.
    n_agop_samples : int, default=None
        Take each AGOP over that many random training rows; None takes all.
    agop_outputs : {"auto", "all"} or int, default="auto"
        Sum the AGOP over all outputs, or over that many mixtures of them with random signs,
        drawn anew for each block of rows: right on average, and cheaper with many classes.
        "auto" is 8 mixtures where there are more than 16 outputs.
    n_centers : int, default=None
        Expand the predictor over that many random training rows where there are more
        (Nystrom): time and memory then grow with n_centers times n, and X, which may be a
        `numpy.memmap`, is read block by block. The equations are solved by conjugate
        gradients, whatever `solver` (of which only the `tol` is used).
    solver : {"auto", "cholesky", "pcg"} or Solver, default="auto"
        How the kernel system is solved: by a Cholesky factor, by preconditioned conjugate
        gradients, or by what is cheaper (see `rfmlearn.solvers.resolve_solver`). An object sets
        its parameters, as in ``PCGSolver(tol=1e-6)``.
    memory_budget : int, default=None
        Bytes that the kernel matrix and its solver may take; None is three quarters of what is
        free. Where the matrix does not fit, "pcg" computes it again, tile by tile, for every
        product.
    tol : float, default=1e-4
        Early stopping: the least gain on held-out rows that counts as progress.
    early_stopping : bool, default=False
        Score each iterate on held-out rows, stop when it no longer improves, and keep the best
        one. The score is the squared error of the outputs, which chooses better than the
        accuracy for classes too.
    validation_fraction : float, default=0.1
        Part of the training rows to hold out, of each class in proportion, unless `fit` is
        given ``X_val``.
    n_iter_no_change : int, default=2
        Early stopping: number of steps without progress that ends the fit.
    warm_start : bool, default=False
        Start from the `feature_matrix_` of the previous fit instead of the identity;
        `max_iter` further updates are made.
    device : str, default="cpu"
        "cpu", "cuda", "cuda:1", "mps", or "auto" for the best there is. Looked up when the
        estimator is used. What is fitted is NumPy whatever the device.
    random_state : int, RandomState instance or None, default=None
        For the held-out rows, `n_agop_samples`, `agop_outputs` and `n_centers`.

    Attributes
    ----------
    feature_matrix_ : ndarray of shape (n_features, n_features) or (n_features,)
        The learned M, its diagonal with ``diag=True``; the identity at iterate 0.
    feature_importances_ : ndarray of shape (n_features,)
        The diagonal of M, summing to 1.
    kernel_ : Kernel
        The kernel, as an object.
    dual_coef_ : ndarray of shape (n_fit,) or (n_fit, n_outputs)
        Coefficients of the kernel expansion.
    X_fit_ : ndarray of shape (n_fit, n_features)
        The rows of the expansion: all training rows but those of weight 0 and those held
        out, or the centres.
    intercept_ : float or ndarray of shape (n_outputs,)
        Weighted mean of y, added to every prediction.
    bandwidth_ : float
        L at the iterate kept.
    n_iter_ : int
        Number of updates made.
    best_iter_ : int
        Iterate kept: the best on held-out rows with early stopping, else the last.
    history_ : structured ndarray of shape (n_updates + 1,)
        One row an iterate: ``iteration``, ``bandwidth``, ``train_score`` and
        ``validation_score`` (1 minus the squared error in units of the training targets'
        variance; NaN without held-out rows), and of the solver ``residual``, ``jitter``,
        ``solver_iterations`` and ``converged``. ``pandas.DataFrame(history_)`` shows it.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had string column names.

    See Also
    --------
    RFMClassifier : The same for classes.
    sklearn.kernel_ridge.KernelRidge : The same without learning the metric.

    Notes
    -----
    Algorithm 1 of [1]_, with three differences: y is centred, the bandwidth follows the
    metric, and M is scaled by its largest eigenvalue, so that neither a rotation of X nor
    the unit of y changes the predictions.

    Each of the ``max_iter + 1`` solves takes n^2 (d + n / 3) multiplications and 2 n^2 numbers
    of memory with a Cholesky factor; from about 3,000 rows in float32 and 5,000 in float64
    conjugate gradients take over, at some 50 n^2 to 100 n^2 and little more than n^2
    numbers.

    References
    ----------
    .. [1] A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin. Mechanism for feature
       learning in neural networks and backpropagation-free machine learning models.
       Science 383 (2024). arXiv 2212.13881.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn import RFMRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 10))
    >>> y = X[:, 0] * X[:, 1]
    >>> model = RFMRegressor().fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.9)
    True
    >>> np.sort(model.feature_importances_.argsort()[-2:])
    array([0, 1])
    """


class RFMClassifier(ClassifierTask, BaseRFM):
    r"""Recursive Feature Machine classification.

    Kernel ridge regression on class indicators (one output of +-1 for two classes, one-hot
    for more) whose metric M is learned: fit, take the average gradient outer product
    (AGOP) of the fitted scores as the new M, fit again in the distance
    ``sqrt((x - z)^T M (x - z))``, and so on.

    Scale the columns first (`StandardScaler`) unless their units are comparable.

    Parameters
    ----------
    kernel : str or Kernel, default="laplace"
        Function of two rows: "laplace", "product_laplace", "gaussian", "power_exponential",
        "matern", "rational_quadratic", "lpq", "polynomial", "ntk", "nngp", an object of
        `rfmlearn.kernels` to set its parameters, or one of your own subclass of
        `rfmlearn.kernels.Kernel`.
    bandwidth : float, default=1.0
        With ``bandwidth_mode="adaptive"`` a factor of the root mean square distance between
        training rows in the current metric, so that 1.0 suits any number of features; with
        "constant" the length L itself, in units of X.
    bandwidth_mode : {"adaptive", "constant"}, default="adaptive"
        Whether the bandwidth follows the metric.
    alpha : float, default=1e-3
        Ridge: added to the diagonal of the kernel matrix, whose own diagonal is 1.
    agop_alpha : float, default=None
        Ridge of the fits along the way, whose AGOP is taken; None means `alpha`. A
        different value costs a second solve an iterate.
    max_iter : int, default=5
        Number of AGOP updates; 0 is kernel ridge regression.
    diag : bool, default=False
        Learn one weight per feature instead of a full matrix. Cheaper for many features,
        and better where features matter one by one rather than in combinations.
    agop_power : float, default=1.0
        ``M = AGOP^agop_power``. 0.5 changes the metric more gently.
    matrix_scaling : {"spectral", "trace"} or None, default="spectral"
        Scale M to a largest eigenvalue of 1, to trace n_features, or leave it. An adaptive
        bandwidth makes up for any scale, so that only `feature_matrix_` and `transform` show it.
        With ``bandwidth_mode="constant"`` predictions depend on it, and with None on the unit of y.
    center_gradients : bool, default=False
        Subtract the mean gradient of each output before the outer product: a linear trend
        then does not count as a feature.
    n_agop_samples : int, default=None
        Take each AGOP over that many random training rows; None takes all.
    agop_outputs : {"auto", "all"} or int, default="auto"
        Sum the AGOP over all outputs, or over that many mixtures of them with random signs,
        drawn anew for each block of rows: right on average, and cheaper with many classes.
        "auto" is 8 mixtures where there are more than 16 outputs.
    n_centers : int, default=None
        Expand the predictor over that many random training rows where there are more
        (Nystrom): time and memory then grow with n_centers times n, and X, which may be a
        `numpy.memmap`, is read block by block. The equations are solved by conjugate
        gradients, whatever `solver` (of which only the `tol` is used).
    solver : {"auto", "cholesky", "pcg"} or Solver, default="auto"
        How the kernel system is solved: by a Cholesky factor, by preconditioned conjugate
        gradients, or by what is cheaper (see `rfmlearn.solvers.resolve_solver`). An object sets
        its parameters, as in ``PCGSolver(tol=1e-6)``.
    memory_budget : int, default=None
        Bytes that the kernel matrix and its solver may take; None is three quarters of what is
        free. Where the matrix does not fit, "pcg" computes it again, tile by tile, for every
        product.
    tol : float, default=1e-4
        Early stopping: the least gain on held-out rows that counts as progress.
    early_stopping : bool, default=False
        Score each iterate on held-out rows, stop when it no longer improves, and keep the best
        one. The score is the squared error of the outputs, which chooses better than the
        accuracy for classes too.
    validation_fraction : float, default=0.1
        Part of the training rows to hold out, of each class in proportion, unless `fit` is
        given ``X_val``.
    n_iter_no_change : int, default=2
        Early stopping: number of steps without progress that ends the fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights in the fit. A model that fits
        every row (a small ridge, a long training) hardly feels them; to move the decision, choose
        its threshold with `TunedThresholdClassifierCV`.
    warm_start : bool, default=False
        Start from the `feature_matrix_` of the previous fit instead of the identity;
        `max_iter` further updates are made.
    device : str, default="cpu"
        "cpu", "cuda", "cuda:1", "mps", or "auto" for the best there is. Looked up when the
        estimator is used. What is fitted is NumPy whatever the device.
    random_state : int, RandomState instance or None, default=None
        For the held-out rows, `n_agop_samples`, `agop_outputs` and `n_centers`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    feature_matrix_ : ndarray of shape (n_features, n_features) or (n_features,)
        The learned M, its diagonal with ``diag=True``; the identity at iterate 0.
    feature_importances_ : ndarray of shape (n_features,)
        The diagonal of M, summing to 1.
    kernel_ : Kernel
        The kernel, as an object.
    dual_coef_ : ndarray of shape (n_fit,) or (n_fit, n_classes)
        Coefficients of the kernel expansion; one column for two classes.
    X_fit_ : ndarray of shape (n_fit, n_features)
        The rows of the expansion: all training rows but those of weight 0 and those held
        out, or the centres.
    intercept_ : float or ndarray of shape (n_classes,)
        Weighted mean of the class indicators, added to every score.
    bandwidth_ : float
        L at the iterate kept.
    n_iter_ : int
        Number of updates made.
    best_iter_ : int
        Iterate kept: the best on held-out rows with early stopping, else the last.
    history_ : structured ndarray of shape (n_updates + 1,)
        One row an iterate: ``iteration``, ``bandwidth``, ``train_score`` and
        ``validation_score`` (1 minus the squared error in units of the training targets'
        variance; NaN without held-out rows), and of the solver ``residual``, ``jitter``,
        ``solver_iterations`` and ``converged``. ``pandas.DataFrame(history_)`` shows it.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had string column names.

    See Also
    --------
    RFMRegressor : The same for numbers.

    Notes
    -----
    Algorithm 1 of [1]_, with the differences listed at `RFMRegressor`, and one output for
    two classes instead of two.

    `predict_proba` is the point of the probability simplex nearest to the scores, mixed with
    a little of the uniform distribution. It needs no further fit and agrees with `predict`,
    but is not calibrated: `RFMClassifierCV` calibrates, and so does scikit-learn's
    `CalibratedClassifierCV` around this one. The mixture was the best of the rules tried that
    need no fit: on 30 UCI sets its mean log-loss was 0.72, that of the nearest point alone
    1.95, of a softmax at its best fixed temperature 0.67 (with ``alpha=1.0`` 0.58, 0.69 and
    0.63).

    References
    ----------
    .. [1] A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin. Mechanism for feature
       learning in neural networks and backpropagation-free machine learning models.
       Science 383 (2024). arXiv 2212.13881.

    Examples
    --------
    >>> from rfmlearn import RFMClassifier
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), RFMClassifier()).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _parameter_constraints = {
        **BaseRFM._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        kernel: str | Kernel = "laplace",
        *,
        bandwidth: float = 1.0,
        bandwidth_mode: str = "adaptive",
        alpha: float = 1e-3,
        agop_alpha: float | None = None,
        max_iter: int = 5,
        diag: bool = False,
        agop_power: float = 1.0,
        matrix_scaling: str | None = "spectral",
        center_gradients: bool = False,
        n_agop_samples: int | None = None,
        agop_outputs: str | int = "auto",
        n_centers: int | None = None,
        solver: str | Solver = "auto",
        memory_budget: int | None = None,
        tol: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 2,
        class_weight: dict | str | None = None,
        warm_start: bool = False,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            kernel,
            bandwidth=bandwidth,
            bandwidth_mode=bandwidth_mode,
            alpha=alpha,
            agop_alpha=agop_alpha,
            max_iter=max_iter,
            diag=diag,
            agop_power=agop_power,
            matrix_scaling=matrix_scaling,
            center_gradients=center_gradients,
            n_agop_samples=n_agop_samples,
            agop_outputs=agop_outputs,
            n_centers=n_centers,
            solver=solver,
            memory_budget=memory_budget,
            tol=tol,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            warm_start=warm_start,
            device=device,
            random_state=random_state,
        )
        self.class_weight = class_weight
