# SPDX-License-Identifier: BSD-3-Clause
"""Multilayer perceptrons in the abc-parametrisations, as scikit-learn estimators."""

import numpy as np
from scipy.special import expit, softmax

from rfmlearn._base._sklearn import StrOptions
from rfmlearn._base._targets import centre
from rfmlearn._base._tasks import ClassifierTask, RegressorTask
from rfmlearn._typing import ArrayLike, RandomState, Sequence
from rfmlearn.neural._mlp_base import BaseABCMLP
from rfmlearn.neural._train import LOSSES


class ABCMLPRegressor(RegressorTask, BaseABCMLP):
    """Multilayer perceptron in an abc-parametrisation, for numbers.

    Trained on half the squared error. Targets are centred and scaled inside, so that a
    learning rate does not depend on the unit of y.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(256, 256)
        Widths of the hidden layers; () is a linear model. ``float("inf")``, one layer with
        ``activation="identity"``, "mup" and "sgd", is the exact limit of infinite width
        (`rfmlearn.neural.InfiniteLinearNetwork`).
    activation : {"relu", "tanh", "gelu", "silu", "sigmoid", "identity"}, default="relu"
        Between the layers.
    parametrization : {"mup", "standard", "ntk", "mean_field"}, default="mup"
        How weights and learning rates scale with width: `rfmlearn.neural.ABC_TABLE`. At
        `base_width` all are the same network. With "mup" the best learning rate hardly
        moves with width, and features are learned at any; "ntk" becomes a kernel method as
        it gets wider; "standard" has one learning rate for all weights, too large for
        wide networks; "mean_field" is for one hidden layer.
    base_width : int, default=64
        Width at which the exponents of the parametrisation start to count.
    init_scale : float, default=1.0
        Factor of all initial weights. With 1 they are normal with standard deviation
        ``1 / sqrt(fan_in)`` at `base_width`, in hidden layers times sqrt(2) for activations
        of relu's kind. Biases start at 0.
    first_layer_scale : float, default=1.0
        Factor of the first layer's, on top. A small one, 1e-3, lets its features be those
        that were learned, not those that were drawn.
    zero_init_output : bool, default=False
        Start the output weights at 0, and so the outputs.
    fit_intercept : bool, default=True
        Whether the biases of all layers are trained. Without, they stay 0.
    optimizer : {"adam", "sgd"}, default="adam"
        AdamW, or gradient descent with `momentum`.
    learning_rate : float, default=None
        At `base_width`; None means 1e-3 for Adam, 0.05 for gradient descent. With
        more inputs than `base_width` the first layer's is lower in proportion.
    momentum : float, default=0.0
        Of gradient descent.
    weight_decay : float, default=0.0
        Of the weights, not the biases: with "sgd" the gradient of ``weight_decay / 2`` times
        their squares is added to that of the loss, with "adam" it is decoupled.
    batch_size : int or "auto", default="auto"
        Rows a step, shuffled each epoch. "auto" takes all rows up to 256, else 64.
    max_epochs : int, default=200
        Passes over the rows. 0 leaves the network as initialised.
    tol : float, default=1e-4
        Early stopping: the least gain on held-out rows that counts as progress.
    early_stopping : bool, default=False
        Measure the loss on held-out rows after each epoch, stop when it no longer improves,
        and keep the best weights.
    validation_fraction : float, default=0.1
        Part of the training rows to hold out, of each class in proportion, unless `fit` is
        given ``X_val``.
    n_iter_no_change : int, default=20
        Early stopping: number of steps without progress that ends the fit.
    warm_start : bool, default=False
        Continue from the weights of the previous fit; the optimiser starts anew.
    device : str, default="cpu"
        "cpu", "cuda", "cuda:1", "mps", or "auto" for the best there is. Looked up when the
        estimator is used. What is fitted is NumPy whatever the device.
    random_state : int, RandomState instance or None, default=None
        For the initial weights, the order of the rows and those held out.

    Attributes
    ----------
    coefs_ : list of ndarray of shape (fan_in, fan_out)
        Weights of each layer, multipliers included.
    intercepts_ : list of ndarray of shape (fan_out,)
        Biases.
    init_coefs_, init_intercepts_ : list of ndarray
        The same before training.
    n_iter_ : int
        Number of epochs made.
    best_iter_ : int
        Epoch kept: the best on held-out rows with early stopping, else the last.
    history_ : structured ndarray of shape (`n_iter_`,)
        ``epoch``, ``train_loss`` (mean over its steps, each before the step) and
        ``validation_loss`` (NaN without held-out rows).
    n_outputs_ : int
        Outputs of the network.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had string column names.

    See Also
    --------
    ABCMLPClassifier : The same for classes.
    NFMTransformer : The features that a network has learned, as a transformer.

    Notes
    -----
    Of each weight ``W = n^-a w`` with ``w ~ N(0, n^-2b)`` and learning rate ``eta n^-c``,
    n the width over `base_width` [1]_; for Adam [2]_.

    References
    ----------
    .. [1] G. Yang, E. J. Hu. Tensor Programs IV: feature learning in infinite-width neural
       networks. ICML 2021. arXiv 2011.14522.
    .. [2] G. Yang et al. Tensor Programs V: tuning large neural networks via zero-shot
       hyperparameter transfer. arXiv 2203.03466.

    Examples
    --------
    >>> from rfmlearn import ABCMLPRegressor
    >>> from rfmlearn.datasets import make_multi_index
    >>> X, y, _ = make_multi_index(600, 5, random_state=0)
    >>> model = ABCMLPRegressor(random_state=0).fit(X[:500], y[:500])
    >>> bool(model.score(X[500:], y[500:]) > 0.8)
    True
    """

    def _resolve_loss(self):
        return "squared"

    def _target_unit(self, Y, weight):
        targets = centre(Y, weight)
        return targets.intercept, targets.scale


class ABCMLPClassifier(ClassifierTask, BaseABCMLP):
    """Multilayer perceptron in an abc-parametrisation, for classes.

    Two classes are one output, more are one output each.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(256, 256)
        Widths of the hidden layers; () is a linear model. ``float("inf")``, one layer with
        ``activation="identity"``, "mup" and "sgd", is the exact limit of infinite width
        (`rfmlearn.neural.InfiniteLinearNetwork`).
    activation : {"relu", "tanh", "gelu", "silu", "sigmoid", "identity"}, default="relu"
        Between the layers.
    parametrization : {"mup", "standard", "ntk", "mean_field"}, default="mup"
        How weights and learning rates scale with width: `rfmlearn.neural.ABC_TABLE`. At
        `base_width` all are the same network. With "mup" the best learning rate hardly
        moves with width, and features are learned at any; "ntk" becomes a kernel method as
        it gets wider; "standard" has one learning rate for all weights, too large for
        wide networks; "mean_field" is for one hidden layer.
    base_width : int, default=64
        Width at which the exponents of the parametrisation start to count.
    init_scale : float, default=1.0
        Factor of all initial weights. With 1 they are normal with standard deviation
        ``1 / sqrt(fan_in)`` at `base_width`, in hidden layers times sqrt(2) for activations
        of relu's kind. Biases start at 0.
    first_layer_scale : float, default=1.0
        Factor of the first layer's, on top. A small one, 1e-3, lets its features be those
        that were learned, not those that were drawn.
    zero_init_output : bool, default=False
        Start the output weights at 0, and so the outputs.
    fit_intercept : bool, default=True
        Whether the biases of all layers are trained. Without, they stay 0.
    loss : {"cross_entropy", "squared"}, default="cross_entropy"
        "squared" is half the squared error to -1 and 1, or of more classes to one-hot
        vectors.
    optimizer : {"adam", "sgd"}, default="adam"
        AdamW, or gradient descent with `momentum`.
    learning_rate : float, default=None
        At `base_width`; None means 1e-3 for Adam, 0.05 for gradient descent. With
        more inputs than `base_width` the first layer's is lower in proportion.
    momentum : float, default=0.0
        Of gradient descent.
    weight_decay : float, default=0.0
        Of the weights, not the biases: with "sgd" the gradient of ``weight_decay / 2`` times
        their squares is added to that of the loss, with "adam" it is decoupled.
    batch_size : int or "auto", default="auto"
        Rows a step, shuffled each epoch. "auto" takes all rows up to 256, else 64.
    max_epochs : int, default=200
        Passes over the rows. 0 leaves the network as initialised.
    tol : float, default=1e-4
        Early stopping: the least gain on held-out rows that counts as progress.
    early_stopping : bool, default=False
        Measure the loss on held-out rows after each epoch, stop when it no longer improves,
        and keep the best weights.
    validation_fraction : float, default=0.1
        Part of the training rows to hold out, of each class in proportion, unless `fit` is
        given ``X_val``.
    n_iter_no_change : int, default=20
        Early stopping: number of steps without progress that ends the fit.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights in the fit. A model that fits
        every row (a small ridge, a long training) hardly feels them; to move the decision, choose
        its threshold with `TunedThresholdClassifierCV`.
    warm_start : bool, default=False
        Continue from the weights of the previous fit; the optimiser starts anew.
    device : str, default="cpu"
        "cpu", "cuda", "cuda:1", "mps", or "auto" for the best there is. Looked up when the
        estimator is used. What is fitted is NumPy whatever the device.
    random_state : int, RandomState instance or None, default=None
        For the initial weights, the order of the rows and those held out.

    Attributes
    ----------
    coefs_ : list of ndarray of shape (fan_in, fan_out)
        Weights of each layer, multipliers included.
    intercepts_ : list of ndarray of shape (fan_out,)
        Biases.
    init_coefs_, init_intercepts_ : list of ndarray
        The same before training.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    n_iter_ : int
        Number of epochs made.
    best_iter_ : int
        Epoch kept: the best on held-out rows with early stopping, else the last.
    history_ : structured ndarray of shape (`n_iter_`,)
        ``epoch``, ``train_loss`` (mean over its steps, each before the step) and
        ``validation_loss`` (NaN without held-out rows).
    n_outputs_ : int
        Outputs of the network.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had string column names.

    See Also
    --------
    ABCMLPRegressor : The same for numbers.
    NFMTransformer : The features that a network has learned, as a transformer.

    Notes
    -----
    Of each weight ``W = n^-a w`` with ``w ~ N(0, n^-2b)`` and learning rate ``eta n^-c``,
    n the width over `base_width` [1]_; for Adam [2]_.

    References
    ----------
    .. [1] G. Yang, E. J. Hu. Tensor Programs IV: feature learning in infinite-width neural
       networks. ICML 2021. arXiv 2011.14522.
    .. [2] G. Yang et al. Tensor Programs V: tuning large neural networks via zero-shot
       hyperparameter transfer. arXiv 2203.03466.

    Examples
    --------
    >>> from rfmlearn import ABCMLPClassifier
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ABCMLPClassifier(random_state=0).fit(scale(X), y)
    >>> bool(model.score(scale(X), y) > 0.95)
    True
    """

    _parameter_constraints = {
        **BaseABCMLP._parameter_constraints,
        "loss": [StrOptions(set(LOSSES))],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        hidden_layer_sizes: float | Sequence[int] = (256, 256),
        *,
        activation: str = "relu",
        parametrization: str = "mup",
        base_width: int = 64,
        init_scale: float = 1.0,
        first_layer_scale: float = 1.0,
        zero_init_output: bool = False,
        fit_intercept: bool = True,
        loss: str = "cross_entropy",
        optimizer: str = "adam",
        learning_rate: float | None = None,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        batch_size: int | str = "auto",
        max_epochs: int = 200,
        tol: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        class_weight: dict | str | None = None,
        warm_start: bool = False,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            hidden_layer_sizes,
            activation=activation,
            parametrization=parametrization,
            base_width=base_width,
            init_scale=init_scale,
            first_layer_scale=first_layer_scale,
            zero_init_output=zero_init_output,
            fit_intercept=fit_intercept,
            optimizer=optimizer,
            learning_rate=learning_rate,
            momentum=momentum,
            weight_decay=weight_decay,
            batch_size=batch_size,
            max_epochs=max_epochs,
            tol=tol,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            warm_start=warm_start,
            device=device,
            random_state=random_state,
        )
        self.loss = loss
        self.class_weight = class_weight

    def _resolve_loss(self):
        return self.loss

    def _target_unit(self, Y, weight):
        return np.zeros(Y.shape[1]), np.ones(Y.shape[1])

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return the outputs of the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one score, positive for ``classes_[1]``; for more one score a
            class. With ``loss="cross_entropy"`` they are log-odds and logits.
        """
        return self._scores(X)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns are in the order of `classes_`. With
            ``loss="cross_entropy"`` the softmax of the outputs, with "squared" the nearest
            point of the simplex, smoothed as `RFMClassifier` does.
        """
        scores = self._scores(X)
        if self._loss == "squared":
            return super().predict_proba(X)
        if scores.ndim == 2:
            return softmax(scores, axis=1)
        return np.column_stack([expit(-scores), expit(scores)])
