# SPDX-License-Identifier: BSD-3-Clause
"""Alignment during training, as a callback."""

from numbers import Integral

import numpy as np

from rfmlearn._typing import Any, ArrayLike
from rfmlearn.neural._layers import layer_features


class AlignmentMonitor:
    """Callback that measures the alignment of each layer while a network is trained.

    Set it on an `ABCMLPClassifier` or `ABCMLPRegressor` with ``set_callbacks``;
    `rfmlearn.inspection.AlignmentDisplay` draws what it noted.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows at which gradients are taken.
    every : int, default=1
        Measure after each so many epochs.
    **options
        Further parameters of `layer_features`, such as ``agop_power`` or ``subtract_init``.

    Attributes
    ----------
    epochs : list of int
        When it measured, in the last fit.
    alignments : list of ndarray of shape (n_layers,)
        What it measured: the correlation of each layer's NFM with its AGOP's power.

    Examples
    --------
    >>> from rfmlearn import ABCMLPRegressor
    >>> from rfmlearn.datasets import make_multi_index
    >>> from rfmlearn.neural import AlignmentMonitor
    >>> X, y, _ = make_multi_index(100, 5, random_state=0)
    >>> monitor = AlignmentMonitor(X, every=10)
    >>> net = ABCMLPRegressor((32,), max_epochs=30, random_state=0).set_callbacks(monitor)
    >>> _ = net.fit(X, y)
    >>> monitor.epochs
    [10, 20, 30]
    """

    def __init__(self, X: ArrayLike, every: int = 1, **options: Any) -> None:
        number: Any = every
        if not (isinstance(number, Integral) and every >= 1):
            raise ValueError(f"every={every!r} must be a positive number of epochs.")
        self.X = X
        self.every = every
        self.options = options
        self.epochs: list[int] = []
        self.alignments: list[np.ndarray] = []

    def setup(self, estimator: Any, context: Any) -> None:
        """Forget an earlier fit.

        Parameters
        ----------
        estimator : estimator
            The one that is fitted.
        context : CallbackContext
            Of the fit, or of one epoch.
        """
        self.epochs, self.alignments = [], []

    def teardown(self, estimator: Any, context: Any) -> None:
        """Do nothing: what was noted stays.

        Parameters
        ----------
        estimator : estimator
            The one that is fitted.
        context : CallbackContext
            Of the fit, or of one epoch.
        """

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Do nothing.

        Parameters
        ----------
        estimator : estimator
            The one that is fitted.
        context : CallbackContext
            Of the fit, or of one epoch.
        """

    def on_fit_task_end(
        self, estimator: Any, context: Any, *, fitted_estimator: Any = None
    ) -> bool:
        """Measure, if it is the turn of this epoch.

        Parameters
        ----------
        estimator : estimator
            The one that is fitted.
        context : CallbackContext
            Of the fit, or of one epoch.
        fitted_estimator : estimator
            The estimator as of this epoch.

        Returns
        -------
        bool
            False: never stop the fit.
        """
        if context.task_name != "epoch" or fitted_estimator.n_iter_ % self.every:
            return False
        layers = layer_features(fitted_estimator, self.X, **self.options)
        self.epochs.append(int(fitted_estimator.n_iter_))
        self.alignments.append(np.array([layer.alignment for layer in layers]))
        return False
