# SPDX-License-Identifier: BSD-3-Clause
"""Recursive Feature Machines on the patches of images."""

from rfmlearn._base._sklearn import StrOptions
from rfmlearn._base._tasks import ClassifierTask, RegressorTask
from rfmlearn._typing import RandomState, Sequence
from rfmlearn.images._machine import BaseConvRFM
from rfmlearn.solvers import Solver


class ConvRFMRegressor(RegressorTask, BaseConvRFM):
    """Recursive Feature Machine on image patches, for numbers.

    Kernel ridge regression with the kernel of a convolutional network, whose first layer sees
    patches in a metric M that is learned: fit, take the outer product of the gradients with respect
    to each patch, averaged over images and summed over positions, as the new M, and fit again. The
    features of a convolutional network, without one.

    Parameters
    ----------
    image_shape : tuple of int, default=None
        Channels, height and width of an image, whose pixels a row of X holds in this order
        (``images.reshape(len(images), -1)``). None takes a row of X as one row of pixels.
    patch_size : int or tuple of int, default=3
        Edge of a patch, or its height and width.
    stride : int, default=1
        Step from patch to patch.
    padding : int, default=0
        Pixels of 0 around the image.
    kernel : {"cntk", "cnngp", "patch_laplace"}, default="cntk"
        "cntk": the neural tangent kernel of an infinitely wide convolutional network with relu;
        "cnngp": the covariance of such networks at random; "patch_laplace": the mean over
        positions of Laplace kernels of the two patches there, the cheapest.
    depth : int, default=1
        Convolutions of the network, all with the same window, stride and padding; the metric is
        in the first. From 2 on it takes some ten times as long.
    pooling : {"flatten", "mean"}, default="flatten"
        What the network's read-out sees: the positions one by one, or their mean. With "mean"
        every pair of positions has a covariance: for small images or large strides.
    bandwidth : float, default=1.0
        Factor of the scale of the patches, which follows the metric: the root mean square distance
        of two patches at the same position for "patch_laplace", of a pixel for the networks.
    alpha : float, default=1e-3
        Ridge: added to the diagonal of the kernel matrix.
    max_iter : int, default=3
        Number of AGOP updates; 0 is the fixed kernel.
    agop_power : float, default=0.5
        ``M = AGOP^agop_power``. 1.0 learns faster, and overshoots earlier.
    center_gradients : bool, default=False
        Subtract the mean gradient of each output at each position.
    n_agop_samples : int, default=None
        Take each AGOP over that many random training images; None takes all.
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
        Score each iterate on held-out images, stop when it no longer improves, and keep the
        best one. Recommended: the accuracy often falls after its peak.
    validation_fraction : float, default=0.2
        Part of the training images to hold out, of each class in proportion, unless `fit` is
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
        For the held-out images and `n_agop_samples`.

    Attributes
    ----------
    feature_matrix_ : ndarray of shape (patch, patch)
        The learned M, for patches of channels times height times width numbers.
    feature_importances_ : ndarray of shape (n_features,)
        For each pixel, the diagonal of M summed over the places that it takes in patches; the
        sum is 1. It tells channels apart; pixels of a channel differ where patches cover them
        unequally often.
    components_ : ndarray of shape (patch, channels, height, width)
        Eigenvectors of M as filters, the strongest first.
    strengths_ : ndarray of shape (patch,)
        Their eigenvalues.
    kernel_ : Kernel
        The kernel, as an object.
    dual_coef_ : ndarray of shape (n_fit,) or (n_fit, n_outputs)
        Coefficients of the kernel expansion.
    X_fit_ : ndarray of shape (n_fit, n_features)
        The images of the expansion.
    intercept_ : float or ndarray
        Added to every output.
    bandwidth_ : float
        L at the iterate kept.
    n_iter_, best_iter_ : int
        Updates made, and the iterate kept.
    history_ : structured ndarray of shape (n_updates + 1,)
        One row an iterate: ``iteration``, ``bandwidth``, ``train_score`` and
        ``validation_score`` (1 minus the squared error in units of the training targets'
        variance; NaN without held-out images), and of the solver ``residual``, ``jitter``,
        ``solver_iterations`` and ``converged``. ``pandas.DataFrame(history_)`` shows it.
    n_features_in_ : int
        Number of pixels, channels included.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the pixels, where X had string column names.

    See Also
    --------
    ConvRFMClassifier : The same for classes.
    RFMRegressor : The same with one metric for the whole row.

    Notes
    -----
    The recursion is that of `RFMRegressor`, with patches in the place of rows [1]_. The gradient
    with respect to a patch counts each patch as a slot of its own; that of the image,
    `input_gradients`, is the sum over the slots that share a pixel. For n images with P positions a
    kernel matrix takes P times the time of one of rows, and an AGOP twice that plus
    ``2 n^2 P c q`` multiplications for c outputs and patches of q numbers. Kernels as in [2]_.

    References
    ----------
    .. [1] D. Beaglehole, A. Radhakrishnan, P. Pandit, M. Belkin. Mechanism of feature learning in
       convolutional neural networks. arXiv 2309.00570.
    .. [2] S. Arora et al. On exact computation with an infinitely wide neural net. NeurIPS 2019.
       arXiv 1904.11955.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn import ConvRFMRegressor
    >>> X = np.random.default_rng(0).normal(size=(500, 64))
    >>> images = X.reshape(-1, 8, 8)
    >>> y = (images[:, :, 1:] * images[:, :, :-1]).mean(axis=(1, 2))    # neighbours in a row
    >>> fixed, learned = (
    ...     ConvRFMRegressor((1, 8, 8), max_iter=t).fit(X[:300], y[:300]).score(X[300:], y[300:])
    ...     for t in (0, 3)
    ... )
    >>> bool(learned > fixed + 0.05)
    True
    """


class ConvRFMClassifier(ClassifierTask, BaseConvRFM):
    """Recursive Feature Machine on image patches, for classes.

    `ConvRFMRegressor` on class indicators: one output of +-1 for two classes, one-hot for more.

    Parameters
    ----------
    image_shape : tuple of int, default=None
        Channels, height and width of an image, whose pixels a row of X holds in this order
        (``images.reshape(len(images), -1)``). None takes a row of X as one row of pixels.
    patch_size : int or tuple of int, default=3
        Edge of a patch, or its height and width.
    stride : int, default=1
        Step from patch to patch.
    padding : int, default=0
        Pixels of 0 around the image.
    kernel : {"cntk", "cnngp", "patch_laplace"}, default="cntk"
        "cntk": the neural tangent kernel of an infinitely wide convolutional network with relu;
        "cnngp": the covariance of such networks at random; "patch_laplace": the mean over
        positions of Laplace kernels of the two patches there, the cheapest.
    depth : int, default=1
        Convolutions of the network, all with the same window, stride and padding; the metric is
        in the first. From 2 on it takes some ten times as long.
    pooling : {"flatten", "mean"}, default="flatten"
        What the network's read-out sees: the positions one by one, or their mean. With "mean"
        every pair of positions has a covariance: for small images or large strides.
    bandwidth : float, default=1.0
        Factor of the scale of the patches, which follows the metric: the root mean square distance
        of two patches at the same position for "patch_laplace", of a pixel for the networks.
    alpha : float, default=1e-3
        Ridge: added to the diagonal of the kernel matrix.
    max_iter : int, default=3
        Number of AGOP updates; 0 is the fixed kernel.
    agop_power : float, default=0.5
        ``M = AGOP^agop_power``. 1.0 learns faster, and overshoots earlier.
    center_gradients : bool, default=False
        Subtract the mean gradient of each output at each position.
    n_agop_samples : int, default=None
        Take each AGOP over that many random training images; None takes all.
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
        Score each iterate on held-out images, stop when it no longer improves, and keep the
        best one. Recommended: the accuracy often falls after its peak.
    validation_fraction : float, default=0.2
        Part of the training images to hold out, of each class in proportion, unless `fit` is
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
        For the held-out images and `n_agop_samples`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    feature_matrix_ : ndarray of shape (patch, patch)
        The learned M, for patches of channels times height times width numbers.
    feature_importances_ : ndarray of shape (n_features,)
        For each pixel, the diagonal of M summed over the places that it takes in patches; the
        sum is 1. It tells channels apart; pixels of a channel differ where patches cover them
        unequally often.
    components_ : ndarray of shape (patch, channels, height, width)
        Eigenvectors of M as filters, the strongest first.
    strengths_ : ndarray of shape (patch,)
        Their eigenvalues.
    kernel_ : Kernel
        The kernel, as an object.
    dual_coef_ : ndarray of shape (n_fit,) or (n_fit, n_classes)
        Coefficients of the kernel expansion.
    X_fit_ : ndarray of shape (n_fit, n_features)
        The images of the expansion.
    intercept_ : float or ndarray
        Added to every output.
    bandwidth_ : float
        L at the iterate kept.
    n_iter_, best_iter_ : int
        Updates made, and the iterate kept.
    history_ : structured ndarray of shape (n_updates + 1,)
        One row an iterate: ``iteration``, ``bandwidth``, ``train_score`` and
        ``validation_score`` (1 minus the squared error in units of the training targets'
        variance; NaN without held-out images), and of the solver ``residual``, ``jitter``,
        ``solver_iterations`` and ``converged``. ``pandas.DataFrame(history_)`` shows it.
    n_features_in_ : int
        Number of pixels, channels included.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the pixels, where X had string column names.

    See Also
    --------
    ConvRFMRegressor : The same for numbers; notes and references.
    RFMClassifier : The same with one metric for the whole row.

    Examples
    --------
    >>> from rfmlearn import ConvRFMClassifier
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ConvRFMClassifier((1, 8, 8), max_iter=1).fit(X[:300] / 16, y[:300])
    >>> bool(model.score(X[300:600] / 16, y[300:600]) > 0.85)
    True
    >>> model.components_.shape
    (9, 1, 3, 3)
    """

    _parameter_constraints = {
        **BaseConvRFM._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        image_shape: Sequence[int] | None = None,
        *,
        patch_size: int | Sequence[int] = 3,
        stride: int = 1,
        padding: int = 0,
        kernel: str = "cntk",
        depth: int = 1,
        pooling: str = "flatten",
        bandwidth: float = 1.0,
        alpha: float = 1e-3,
        max_iter: int = 3,
        agop_power: float = 0.5,
        center_gradients: bool = False,
        n_agop_samples: int | None = None,
        solver: str | Solver = "auto",
        memory_budget: int | None = None,
        tol: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 2,
        class_weight: dict | str | None = None,
        warm_start: bool = False,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            image_shape,
            patch_size=patch_size,
            stride=stride,
            padding=padding,
            kernel=kernel,
            depth=depth,
            pooling=pooling,
            bandwidth=bandwidth,
            alpha=alpha,
            max_iter=max_iter,
            agop_power=agop_power,
            center_gradients=center_gradients,
            n_agop_samples=n_agop_samples,
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
