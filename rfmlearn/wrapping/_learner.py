# SPDX-License-Identifier: BSD-3-Clause
"""Feature learning around any scikit-learn estimator."""

import inspect
from functools import update_wrapper, wraps
from numbers import Integral, Real
from types import MethodType

import numpy as np
from sklearn import get_config
from sklearn.base import (
    ClassNamePrefixFeaturesOutMixin,
    MetaEstimatorMixin,
    TransformerMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from rfmlearn import _backend
from rfmlearn._base._kept import kept
from rfmlearn._base._model import BaseModel
from rfmlearn._base._progress import STOPPING_CONSTRAINTS, Listeners, Progress
from rfmlearn._base._sklearn import HasMethods, Interval, StrOptions, check_weight, fit_context
from rfmlearn._typing import Any, ArrayLike, Callable, RandomState, Self
from rfmlearn.wrapping._recursion import WrappedRecursion, parted

FIELDS = [("iteration", np.int64), ("train_score", np.float64), ("validation_score", np.float64)]


def _has(method):
    """Return a check whether the wrapped estimator has a method."""
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), method)


class _WithItsWeights:
    """A ``fit`` that has `sample_weight` in its signature where that of the wrapped estimator has.

    Others look there: scikit-learn's calibration, for instance, would else leave the weights out.
    """

    def __init__(self, fit):
        self.fit = fit
        update_wrapper(self, fit)

    def __get__(self, learner, owner=None):
        if learner is None:
            return self.fit
        if has_fit_parameter(learner.estimator, "sample_weight"):
            return MethodType(self.fit, learner)
        return MethodType(_without_weights(self.fit), learner)


def _without_weights(fit):
    @wraps(fit)
    def plain(self, X, y, **fit_params):
        return fit(self, X, y, **fit_params)

    whole = inspect.signature(fit)
    kept = [p for name, p in whole.parameters.items() if name != "sample_weight"]
    plain.__signature__ = whole.replace(parameters=kept)
    return plain


class RecursiveFeatureLearner(
    ClassNamePrefixFeaturesOutMixin,
    MetaEstimatorMixin,
    TransformerMixin,
    CallbackSupportMixin,
    BaseModel,
):
    """Feature learning around any regressor or classifier.

    Fits the estimator, takes the average gradient outer product (AGOP) of its decision function,
    maps the rows by a power of it, and fits a fresh estimator to the mapped rows; and so on. What
    the estimator does not respond to fades out of its rows. It helps estimators that look at all
    columns alike (kernels, neighbours) where few directions matter.

    Scale the columns first (`StandardScaler`) unless their units are comparable.

    Parameters
    ----------
    estimator : estimator
        A regressor or classifier; clones are fitted, to arrays of numbers.
    max_iter : int, default=3
        Number of AGOP updates, each with a fit; 0 is the estimator itself.
    gradient : {"auto", "analytic", "numeric"} or callable, default="auto"
        How the gradients of the decision function (of the probabilities, where there is none; of
        the prediction, for a regressor) are found. Analytically for estimators of this package,
        linear ones, `SVC`, `SVR`, `NuSVC` and `NuSVR` (rbf, linear), `KernelRidge` (rbf,
        laplacian, linear), `GaussianProcessRegressor` (RBF, RationalQuadratic or Matern with
        ``nu`` of 0.5, 1.5 or 2.5, times a constant, plus noise or constants), networks
        (scikit-learn's MLPs, skorch), and searches and pipelines of scalers and PCA around
        these; otherwise, or with "numeric", by central differences, over half a standard
        deviation where the function is a staircase (trees, neighbours). A callable gets the
        fitted estimator and rows (n, d), and returns gradients (n, n_outputs, d).
    agop_power : float, default=1.0
        ``M = AGOP^agop_power``; the rows are mapped to ``X M^(1/2)``. 0.5 is gentler.
    diag : bool, default=False
        Use the diagonal of the AGOP: weights of columns, no mixtures of them.
    center_gradients : bool, default=False
        Subtract the mean gradient of each output before the outer product: a linear trend
        then does not count as a feature.
    n_agop_samples : int, default=None
        Take each AGOP over that many random training rows; None is all of them, or 2,000 where
        the gradients are differences.
    early_stopping : bool, default=False
        Score each iterate on held-out rows, stop when it no longer improves, and keep the
        best one.
    validation_fraction : float, default=0.1
        Part of the training rows to hold out, of each class in proportion.
    n_iter_no_change : int, default=2
        Early stopping: number of steps without progress that ends the fit.
    tol : float, default=1e-4
        Early stopping: the least gain on held-out rows that counts as progress.
    random_state : int, RandomState instance or None, default=None
        For the held-out rows and `n_agop_samples`. The estimator has its own.

    Attributes
    ----------
    estimator_ : estimator
        Fitted to the mapped rows.
    feature_matrix_ : ndarray of shape (n_features, n_features) or (n_features,)
        M, the square of the map, its largest eigenvalue 1; the identity at iterate 0.
    feature_importances_ : ndarray of shape (n_features,)
        The diagonal of M, summing to 1.
    n_iter_ : int
        Number of updates made.
    best_iter_ : int
        Iterate kept: the best on held-out rows with early stopping, else the last.
    gradient_ : {"analytic", "numeric", "callable"} or None
        How the gradients were found; None if there were none.
    history_ : structured ndarray of shape (n_updates + 1,)
        One row an iterate: ``iteration``, ``train_score`` and ``validation_score`` by the
        estimator's own `score` (NaN without held-out rows).
    classes_ : ndarray of shape (n_classes,)
        The labels, of a classifier.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had string column names.

    See Also
    --------
    RFMRegressor : The same with kernel ridge regression, much faster.
    NFMTransformer : The features of a network.

    Notes
    -----
    The recipe of [1]_ with another predictor in place of kernel ridge regression. The map is
    scaled so that the root mean square distance between rows stays what it was, which keeps the
    meaning of an estimator's own length scale.

    Besides ``max_iter + 1`` fits it takes gradients: about a prediction for each output, or
    2 d predictions of differences.

    References
    ----------
    .. [1] A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin. Mechanism for feature
       learning in neural networks and backpropagation-free machine learning models.
       Science 383 (2024). arXiv 2212.13881.

    Examples
    --------
    >>> from rfmlearn import RecursiveFeatureLearner
    >>> from rfmlearn.datasets import make_multi_index
    >>> from sklearn.svm import SVR
    >>> X, y, _ = make_multi_index(600, 10, random_state=0)
    >>> X_new, y_new, _ = make_multi_index(600, 10, random_state=1)
    >>> model = RecursiveFeatureLearner(SVR()).fit(X, y)
    >>> bool(model.score(X_new, y_new) > SVR().fit(X, y).score(X_new, y_new) + 0.15)
    True
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "predict"])],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "gradient": [StrOptions({"auto", "analytic", "numeric"}), callable],
        "agop_power": [Interval(Real, 0, None, closed="neither")],
        "diag": ["boolean"],
        "center_gradients": ["boolean"],
        "n_agop_samples": [Interval(Integral, 1, None, closed="left"), None],
        **STOPPING_CONSTRAINTS,
    }

    def __init__(
        self,
        estimator: Any,
        *,
        max_iter: int = 3,
        gradient: str | Callable = "auto",
        agop_power: float = 1.0,
        diag: bool = False,
        center_gradients: bool = False,
        n_agop_samples: int | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 2,
        tol: float = 1e-4,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.max_iter = max_iter
        self.gradient = gradient
        self.agop_power = agop_power
        self.diag = diag
        self.center_gradients = center_gradients
        self.n_agop_samples = n_agop_samples
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.random_state = random_state

    @property
    def _target_checks(self):
        return {"multi_output": True, "y_numeric": is_regressor(self.estimator)}

    @_WithItsWeights
    @fit_context(skip_nested=False)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, **fit_params: Any
    ) -> Self:
        """Learn the features and fit the estimator to them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets, as the estimator takes them.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the fits, the AGOP and the scores; the estimator must take them.
        **fit_params : dict
            For the ``fit`` of the estimator. `X_val` is mapped as the rows are.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        TypeError
            If the estimator is neither regressor nor classifier.
        ValueError
            If the data are unfit, ``gradient="analytic"`` is asked for a function that is not
            known, a callable returns gradients of another shape, or a gradient is not finite.
        """
        if not (is_regressor(self.estimator) or is_classifier(self.estimator)):
            raise TypeError(
                f"{type(self.estimator).__name__} is neither a regressor nor a classifier."
            )
        rng = check_random_state(self.random_state)
        X, y, seen = self._check_fit(X, y)
        if is_classifier(self.estimator):
            check_classification_targets(y)
        params = dict(fit_params)
        if sample_weight is not None:
            params["sample_weight"] = sample_weight
        if get_config()["enable_metadata_routing"]:
            params = dict(process_routing(self, "fit", **params).estimator.fit)
        weight = None
        if params.get("sample_weight") is not None:
            params["sample_weight"] = weight = check_weight(params["sample_weight"], X)
            if is_classifier(self.estimator) and (y[weight > 0] == y[weight > 0][0]).all():
                raise ValueError("sample_weight is 0 for the rows of all classes but one.")
        rows, held_out = (X, y, params), None
        if self.early_stopping:
            by_class = is_classifier(self.estimator) and (y.ndim == 1 or y.shape[1] == 1)
            rows, held_out = parted(*rows, self.validation_fraction, by_class, rng)
        recursion = self._recursion()
        history: list[tuple] = []
        progress, best = Progress(self.tol, self.n_iter_no_change), None

        def describe(state):
            return {**seen, **self._attributes(state, history, X, recursion.kind)}

        listeners = Listeners(self, "iterate", self.max_iter + 1, X, y, weight)
        states = recursion.iterates(*rows, self.max_iter, rng)
        for _ in range(self.max_iter + 1):
            listeners.begin()
            state = next(states, None)
            if state is None:  # nothing changes with the rows
                listeners.end_of_nothing()
                break
            scores = (np.nan if part is None else state.score(*part) for part in (rows, held_out))
            history.append((state.iteration, *scores))
            is_best = progress.judge(history[-1][2])
            if best is None or is_best or not self.early_stopping:
                best = state
            stop = listeners.end(lambda state=state: describe(state))
            if stop or (self.early_stopping and progress.exhausted):
                break
        listeners.finish(lambda: describe(best))
        return self._store(describe(best))

    def _attributes(self, state, history, X, kind):
        """Return the fitted attributes of one iterate."""
        importances = state.map.matrix.diagonal()
        return {
            "estimator_": state.estimator,
            "feature_importances_": (importances / importances.sum()).astype(X.dtype),
            "gradient_": kind,
            "n_iter_": history[-1][0],
            "best_iter_": state.iteration,
            "history_": np.array(history, dtype=FIELDS),
            "_map": state.map,
        }

    def _recursion(self):
        """Return what makes one iterate of the other."""
        return WrappedRecursion(
            lambda Z, y, params: clone(self.estimator).fit(Z, y, **params),
            gradient=self.gradient,
            diag=self.diag,
            agop_power=self.agop_power,
            center_gradients=self.center_gradients,
            n_agop_samples=self.n_agop_samples,
        )

    @_backend.isolated
    def _of(self, method, X, *args, **kwargs):
        Z = self._mapped(X)
        return getattr(self.estimator_, method)(Z, *args, **kwargs)

    def _mapped(self, X):
        """Return the mapped rows as an array, whatever container `set_output` asks for."""
        check_is_fitted(self, "estimator_")
        return self._map(self._check(X))

    def predict(self, X: ArrayLike, **predict_params: Any) -> Any:
        """Predict with the estimator fitted to the mapped rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        **predict_params : dict
            For the ``predict`` of the estimator, such as ``return_std=True``.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            What the estimator predicts; a tuple where it returns more.
        """
        return self._of("predict", X, **predict_params)

    @available_if(_has("predict_proba"))
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            What the estimator returns.
        """
        return self._of("predict_proba", X)

    @available_if(_has("decision_function"))
    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return the class scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            What the estimator returns.
        """
        return self._of("decision_function", X)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata reach the estimator.

        Returns
        -------
        MetadataRouter
            ``fit`` and ``score`` pass on to those of the estimator.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        mapping.add(caller="score", callee="score")
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the estimator's own score: R2 or accuracy.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights.

        Returns
        -------
        float
            The score.
        """
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        return self._of("score", X, y, **weights)

    def transform(self, X: ArrayLike) -> np.ndarray:
        """Map rows to the learned features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            ``X M^(1/2)``, times a number that keeps the root mean square distance between
            the training rows.
        """
        return self._mapped(X)

    @property
    def feature_matrix_(self):
        """M, the square of the map, its largest eigenvalue 1."""
        return kept(self, "_map").matrix.dense()

    @property
    def classes_(self):
        """The labels, of a classifier."""
        return self.estimator_.classes_

    @property
    def _n_features_out(self):
        return self.n_features_in_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags = inner.target_tags
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
