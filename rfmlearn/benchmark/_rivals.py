# SPDX-License-Identifier: BSD-3-Clause
"""The competitors that need more than one line: searches, and xRFM in scikit-learn's manners."""

import warnings
from functools import partial
from importlib import import_module

import numpy as np
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import (
    GridSearchCV,
    ParameterSampler,
    StratifiedKFold,
    train_test_split,
)
from sklearn.preprocessing import LabelEncoder, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.metaestimators import available_if

from rfmlearn import KernelRegimeClassifier, KernelRegimeRegressor

# Beyond this many rows every second value and three folds: 90 fits instead of 495.
_MANY_ROWS = 1000


def _svm_search(n):
    """Return the grid and the number of folds for n rows."""
    step = 1 if n <= _MANY_ROWS else 2
    grid = {"C": np.logspace(-1, 3, 9)[::step], "gamma": np.logspace(-4, 1, 11)[::step]}
    return grid, (5 if n <= _MANY_ROWS else 3)


class SVMClassifier(ClassifierMixin, BaseEstimator):
    """A support vector machine after a grid search, and sigmoid calibration for probabilities."""

    def fit(self, X, y):
        grid, n_folds = _svm_search(len(X))
        # a class smaller than the number of folds is spread as far as it goes
        n_folds = int(np.clip(np.unique(y, return_counts=True)[1].max(), 2, n_folds))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            folds = list(StratifiedKFold(n_folds).split(X, y))
            self.search_ = GridSearchCV(SVC(), grid, cv=folds).fit(X, y)
            best = clone(self.search_.best_estimator_)
            calibrated = CalibratedClassifierCV(best, ensemble=False, cv=folds)
            try:
                self.calibrated_ = calibrated.fit(X, y)
            except ValueError:  # a class that is in one fold only
                self.calibrated_ = None
        self.classes_ = self.search_.classes_
        return self

    def predict(self, X):
        return self.search_.predict(X)

    @available_if(lambda self: getattr(self, "calibrated_", True) is not None)
    def predict_proba(self, X):
        return self.calibrated_.predict_proba(X)


class SVMRegressor(RegressorMixin, BaseEstimator):
    """Support vector regression of the scaled target after a grid search."""

    def fit(self, X, y):
        grid, n_folds = _svm_search(len(X))
        grid = {f"regressor__{name}": values for name, values in grid.items()}
        scaled = TransformedTargetRegressor(SVR(), transformer=StandardScaler())
        self.search_ = GridSearchCV(scaled, grid, cv=n_folds).fit(X, y)
        return self

    def predict(self, X):
        return self.search_.predict(X)


class _NTK(BaseEstimator):
    """The neural tangent kernel of depth 1 to 5, depth and ridge by leave-one-out error."""

    def fit(self, X, y):
        found = [
            self._kind(depth=depth, alpha=np.logspace(-4, 2, 13)).fit(X, y) for depth in range(1, 6)
        ]
        self.model_ = min(found, key=lambda model: model.loo_errors_.min())
        return self

    def predict(self, X):
        return self.model_.predict(X)


class NTKClassifier(ClassifierMixin, _NTK):
    """See `_NTK`."""

    _kind = KernelRegimeClassifier

    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(X)


class NTKRegressor(RegressorMixin, _NTK):
    """See `_NTK`."""

    _kind = partial(KernelRegimeRegressor, normalize_y=True)


class _XRFM(BaseEstimator):
    """xRFM with a fifth of the training rows held out, which it needs for its own choices.

    Parameters
    ----------
    n_configurations : int
        0 takes xRFM's defaults. Otherwise that many are drawn from the search space that its
        authors gave to TabArena (Lp-Lq and L2 Laplace kernels, bandwidth, ridge, exponents,
        diagonal or full metric) and the one with the least squared error on the held-out
        rows is kept.
    seed : int
        For the split, the draws and xRFM itself.
    """

    def __init__(self, n_configurations=0, seed=0):
        self.n_configurations = n_configurations
        self.seed = seed

    def _fit(self, X, y, stratify):
        split = {"test_size": 0.2, "random_state": self.seed}
        X = X.astype(np.float32)
        try:
            X_fit, X_val, y_fit, y_val = train_test_split(X, y, stratify=stratify, **split)
        except ValueError:  # a class with a single row
            X_fit, X_val, y_fit, y_val = train_test_split(X, y, **split)
        best = np.inf
        for parameters in self._configurations():
            model = import_module("xrfm").xRFM(random_state=self.seed, verbose=False, **parameters)
            model.fit(X_fit, y_fit, X_val, y_val)
            error = self._error(model, X_val, y_val) if self.n_configurations else 0.0
            if error < best or best == np.inf:
                best, self.model_ = error, model
        return self

    def _configurations(self):
        if not self.n_configurations:
            return [{}]
        space = {
            "bandwidth": loguniform(0.5, 200),
            "diag": [False, True],
            "exponent": np.linspace(0.7, 1.4, 701),
            "share": np.linspace(0, 0.8, 801),
            "kernel": ["lpq"] * 4 + ["l2"],
            "reg": loguniform(1e-6, 10),
        }
        drawn = ParameterSampler(space, self.n_configurations, random_state=self.seed)
        return [_xrfm_parameters(**configuration) for configuration in drawn]


def _xrfm_parameters(bandwidth, diag, exponent, share, kernel, reg):
    """Return a point of the search space as xRFM wants it."""
    model = {
        "kernel": kernel,
        "bandwidth": float(bandwidth),
        "bandwidth_mode": "constant",
        "exponent": float(exponent),
        "diag": diag,
    }
    if kernel == "lpq":
        model["norm_p"] = float(exponent + share * (2 - exponent))
    fit = {
        "reg": float(reg),
        "iters": 5,
        "early_stop_multiplier": 1.1,
        "return_best_params": True,
        "get_agop_best_model": True,
    }
    return {"rfm_params": {"model": model, "fit": fit}, "classification_mode": "prevalence"}


class XRFMClassifier(ClassifierMixin, _XRFM):
    """See `_XRFM`."""

    def fit(self, X, y):
        self.encoder_ = LabelEncoder().fit(y)
        self.classes_ = self.encoder_.classes_
        codes = self.encoder_.transform(y)
        return self._fit(X, codes, codes)

    @staticmethod
    def _error(model, X, codes):
        P = np.asarray(model.predict_proba(X))
        return np.mean((P - np.eye(P.shape[1])[codes]) ** 2)

    def predict_proba(self, X):
        return np.asarray(self.model_.predict_proba(X.astype(np.float32)))

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class XRFMRegressor(RegressorMixin, _XRFM):
    """See `_XRFM`."""

    def fit(self, X, y):
        self.mean_, self.scale_ = y.mean(), y.std() or 1.0
        return self._fit(X, ((y - self.mean_) / self.scale_).astype(np.float32), None)

    @staticmethod
    def _error(model, X, y):
        return np.mean((np.asarray(model.predict(X)).ravel() - y) ** 2)

    def predict(self, X):
        out = np.asarray(self.model_.predict(X.astype(np.float32))).ravel()
        return out.astype(float) * self.scale_ + self.mean_
