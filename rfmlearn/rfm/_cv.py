# SPDX-License-Identifier: BSD-3-Clause
"""Recursive Feature Machines that choose their own parameters by cross-validation."""

import numpy as np
from joblib import delayed

from rfmlearn._base._calibration import calibrate, probabilities
from rfmlearn._base._tasks import ClassifierTask, RegressorTask
from rfmlearn._typing import Any, ArrayLike, Callable, RandomState, Sequence
from rfmlearn.kernels import Kernel
from rfmlearn.rfm._estimators import RFMClassifier, RFMRegressor
from rfmlearn.rfm._path import Path
from rfmlearn.rfm._scoring import last_scores
from rfmlearn.rfm._selection import BaseRFMCV
from rfmlearn.solvers import Solver


class RFMRegressorCV(RegressorTask, BaseRFMCV):
    """Recursive Feature Machine regression with built-in choice of its parameters.

    Cross-validates kernel, bandwidth, ridge and number of updates together, then
    fits the best on all rows.

    Parameters
    ----------
    kernels : str, Kernel or sequence of them, default=("laplace", "product_laplace", "gaussian")
        Kernels to try: "laplace", "product_laplace", "gaussian", "power_exponential",
        "matern", "rational_quadratic", "lpq", "polynomial", "ntk", "nngp", objects of
        `rfmlearn.kernels`, or of your own subclass of `rfmlearn.kernels.Kernel`.
    bandwidths : float or sequence of float, default=(0.5, 1.0, 2.0)
        Bandwidths to try: factors of the root mean square distance with
        ``bandwidth_mode="adaptive"``, lengths with "constant".
    alphas : float or sequence of float, default=(1e-3, 1e-2, 1e-1, 1.0, 10.0)
        Ridges to try.
    diag : "auto", bool or sequence of bool, default="auto"
        Kinds of metric to try, full and diagonal. "auto" is one for each kernel: diagonal
        for "product_laplace", which sees the axes, and full for those that do not.
    bandwidth_mode : {"adaptive", "constant"}, default="adaptive"
        Whether the bandwidth follows the metric.
    max_iter : int, default=5
        Iterates 0 to `max_iter` are tried; 0 is kernel ridge regression.
    agop_alpha : float, default=1e-2
        Ridge of the fits along the way, whose AGOP is taken. That it is the same for all
        `alphas` is what lets them share one recursion.
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
    cv : int, splitter or iterable of splits, default=None
        None takes 5 shuffled folds up to 3,000 rows, and one random split with a fifth held out
        beyond: of each class in proportion, by group where `fit` is given groups. Otherwise as
        in `GridSearchCV`.
    scoring : str or callable, default=None
        None is minus the mean squared error of the outputs, which chooses better than the
        accuracy for classes too; of several targets each in units of its variance. Otherwise a
        scorer as in `GridSearchCV`, which is given the sample weights where it takes them.
    refit : bool, default=True
        Fit the best parameters on all rows. Without it there is only `cv_results_`.
    n_jobs : int, default=None
        Number of joblib workers over recursions (one for each fold, kernel, bandwidth and kind
        of metric). They share the memory.
    device : str, default="cpu"
        "cpu", "cuda", "cuda:1", "mps", or "auto" for the best there is. Looked up when the
        estimator is used. What is fitted is NumPy whatever the device.
    random_state : int, RandomState instance or None, default=None
        For the default splits, `n_agop_samples`, `agop_outputs` and `n_centers`.

    Attributes
    ----------
    best_params_ : dict
        Best ``kernel``, ``bandwidth``, ``diag``, ``max_iter`` and ``alpha``, and `agop_alpha`,
        without which they would not make the same model. Of candidates whose mean scores are
        within 1e-4 of the best, relative to it, the one with the fewest updates, then the largest
        ridge.
    best_iter_ : int
        Its iterate.
    best_score_ : float
        Its mean score over the splits.
    best_index_ : int
        Its row in `cv_results_`.
    cv_results_ : dict of ndarray
        One row a candidate, as in `GridSearchCV`: ``params``, ``param_*``,
        ``split*_test_score``, ``mean_test_score``, ``std_test_score``, ``rank_test_score``.
    n_iter_ : int
        Number of updates made in each recursion: `max_iter`.
    n_splits_ : int
        Number of splits.

    See Also
    --------
    RFMRegressor : One set of parameters. The refitted estimator has all its attributes and
        methods.

    Notes
    -----
    Choosing the iterate by the leave-one-out error of the final fit would be optimistic,
    because the metric has seen every label. Here the whole path is cross-validated: for
    each split one recursion on its training rows yields all iterates, and each iterate one
    kernel matrix that serves all ridges.

    Examples
    --------
    >>> from rfmlearn import RFMRegressorCV
    >>> from rfmlearn.datasets import make_multi_index
    >>> X, y, _ = make_multi_index(200, 6, random_state=0)
    >>> model = RFMRegressorCV(bandwidths=1.0, max_iter=3, random_state=0).fit(X, y)
    >>> model.best_params_["max_iter"] > 0
    True
    """

    _plain_class = RFMRegressor


class RFMClassifierCV(ClassifierTask, BaseRFMCV):
    """Recursive Feature Machine classification with built-in choice of its parameters.

    Cross-validates kernel, bandwidth, ridge and number of updates together, fits
    the best on all rows, and calibrates its probabilities on the held-out scores.

    Parameters
    ----------
    kernels : str, Kernel or sequence of them, default=("laplace", "product_laplace")
        Kernels to try: "laplace", "product_laplace", "gaussian", "power_exponential",
        "matern", "rational_quadratic", "lpq", "polynomial", "ntk", "nngp", objects of
        `rfmlearn.kernels`, or of your own subclass of `rfmlearn.kernels.Kernel`.
    bandwidths : float or sequence of float, default=(0.5, 1.0, 2.0)
        Bandwidths to try: factors of the root mean square distance with
        ``bandwidth_mode="adaptive"``, lengths with "constant".
    alphas : float or sequence of float, default=(1e-3, 1e-2, 1e-1, 1.0, 10.0)
        Ridges to try.
    diag : "auto", bool or sequence of bool, default="auto"
        Kinds of metric to try, full and diagonal. "auto" is one for each kernel: diagonal
        for "product_laplace", which sees the axes, and full for those that do not.
    bandwidth_mode : {"adaptive", "constant"}, default="adaptive"
        Whether the bandwidth follows the metric.
    max_iter : int, default=5
        Iterates 0 to `max_iter` are tried; 0 is kernel ridge regression.
    agop_alpha : float, default=1e-2
        Ridge of the fits along the way, whose AGOP is taken. That it is the same for all
        `alphas` is what lets them share one recursion.
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
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply the sample weights in the fit. A model that fits
        every row (a small ridge, a long training) hardly feels them; to move the decision, choose
        its threshold with `TunedThresholdClassifierCV`.
    cv : int, splitter or iterable of splits, default=None
        None takes 5 shuffled folds up to 3,000 rows, and one random split with a fifth held out
        beyond: of each class in proportion, by group where `fit` is given groups. Otherwise as
        in `GridSearchCV`.
    scoring : str or callable, default=None
        None is minus the mean squared error of the outputs, which chooses better than the
        accuracy for classes too; of several targets each in units of its variance. Otherwise a
        scorer as in `GridSearchCV`, which is given the sample weights where it takes them.
    refit : bool, default=True
        Fit the best parameters on all rows. Without it there is only `cv_results_`.
    n_jobs : int, default=None
        Number of joblib workers over recursions (one for each fold, kernel, bandwidth and kind
        of metric). They share the memory.
    device : str, default="cpu"
        "cpu", "cuda", "cuda:1", "mps", or "auto" for the best there is. Looked up when the
        estimator is used. What is fitted is NumPy whatever the device.
    random_state : int, RandomState instance or None, default=None
        For the default splits, `n_agop_samples`, `agop_outputs` and `n_centers`.

    Attributes
    ----------
    best_params_ : dict
        Best ``kernel``, ``bandwidth``, ``diag``, ``max_iter`` and ``alpha``, and `agop_alpha`,
        without which they would not make the same model. Of candidates whose mean scores are
        within 1e-4 of the best, relative to it, the one with the fewest updates, then the largest
        ridge.
    best_iter_ : int
        Its iterate.
    best_score_ : float
        Its mean score over the splits.
    best_index_ : int
        Its row in `cv_results_`.
    cv_results_ : dict of ndarray
        One row a candidate, as in `GridSearchCV`: ``params``, ``param_*``,
        ``split*_test_score``, ``mean_test_score``, ``std_test_score``, ``rank_test_score``.
    n_iter_ : int
        Number of updates made in each recursion: `max_iter`.
    n_splits_ : int
        Number of splits.
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
    temperature_ : float
        Divides the scores in `predict_proba`; fitted to the held-out scores of the best
        parameters.
    class_bias_ : ndarray of shape (n_classes,)
        Added to the scores over `temperature_`, so that the mean probability of a class is its
        frequency in the data; summing to 0, and all 0 where it gains next to nothing.

    See Also
    --------
    RFMClassifier : One set of parameters. The refitted estimator has all its attributes and
        methods.

    Notes
    -----
    Choosing the iterate by the leave-one-out error of the final fit would be optimistic,
    because the metric has seen every label. Here the whole path is cross-validated: for
    each split one recursion on its training rows yields all iterates, and each iterate one
    kernel matrix that serves all ridges.

    `predict_proba` is a softmax whose parameters, a temperature and a bias for each class, are
    fitted to held-out scores (C. Guo et al., ICML 2017). They are the probabilities of the data,
    weighted by `sample_weight` only: `class_weight` moves scores and decisions. The most probable
    class is that of `predict`: where the bias alone would make another more likely, both are
    equally likely. With `class_weight` decisions and probabilities are about different
    frequencies, and may differ.

    Examples
    --------
    >>> from rfmlearn import RFMClassifierCV
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RFMClassifierCV(bandwidths=1.0, max_iter=2, random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _plain_class = RFMClassifier
    _parameter_constraints = {
        **BaseRFMCV._parameter_constraints,
        "class_weight": RFMClassifier._parameter_constraints["class_weight"],
    }

    def __init__(
        self,
        kernels: str | Kernel | Sequence[str | Kernel] = ("laplace", "product_laplace"),
        *,
        bandwidths: float | Sequence[float] = (0.5, 1.0, 2.0),
        alphas: float | Sequence[float] = (1e-3, 1e-2, 1e-1, 1.0, 10.0),
        diag: str | bool | Sequence[bool] = "auto",
        bandwidth_mode: str = "adaptive",
        max_iter: int = 5,
        agop_alpha: float = 1e-2,
        agop_power: float = 1.0,
        matrix_scaling: str | None = "spectral",
        center_gradients: bool = False,
        n_agop_samples: int | None = None,
        agop_outputs: str | int = "auto",
        n_centers: int | None = None,
        solver: str | Solver = "auto",
        memory_budget: int | None = None,
        class_weight: dict | str | None = None,
        cv: Any = None,
        scoring: str | Callable | None = None,
        refit: bool = True,
        n_jobs: int | None = None,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            kernels,
            bandwidths=bandwidths,
            alphas=alphas,
            diag=diag,
            bandwidth_mode=bandwidth_mode,
            max_iter=max_iter,
            agop_alpha=agop_alpha,
            agop_power=agop_power,
            matrix_scaling=matrix_scaling,
            center_gradients=center_gradients,
            n_agop_samples=n_agop_samples,
            agop_outputs=agop_outputs,
            n_centers=n_centers,
            solver=solver,
            memory_budget=memory_budget,
            cv=cv,
            scoring=scoring,
            refit=refit,
            n_jobs=n_jobs,
            device=device,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def _calibrate(self, best, folds, target, parallel):
        """Return what is fitted to the held-out scores of the chosen parameters."""
        best = dict(best)
        path = Path.of(self._spec(alphas=(best.pop("alpha"),), **best))
        scores = parallel(delayed(last_scores)(path, train, test) for train, test in folds)
        F = np.concatenate(scores)
        codes = target.encoder.transform(np.concatenate([test.y for _, test in folds]))
        # without class weights: probabilities are those of the data
        weight = np.concatenate([test.sample_weight for _, test in folds])
        F = F[:, 0] if F.shape[1] == 1 else F
        ordered = self.class_weight is None
        temperature, bias = calibrate(F, codes, weight, ordered=ordered)
        return {"temperature_": temperature, "class_bias_": bias, "_ordered": ordered}

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return calibrated probabilities: ``softmax(scores / temperature_ + class_bias_)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns are in the order of `classes_`.
        """
        return probabilities(
            self._scores(X), self.temperature_, self.class_bias_, ordered=self._ordered
        )
