# SPDX-License-Identifier: BSD-3-Clause
"""The models by name; each is made fresh for a cell."""

from importlib import import_module
from importlib.util import find_spec

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, StandardScaler
from sklearn.svm import SVC, SVR

from rfmlearn import RFMClassifier, RFMClassifierCV, RFMRegressor, RFMRegressorCV

_SVM_GRID = {"C": np.logspace(-1, 3, 9), "gamma": np.logspace(-4, 1, 11)}


def _svc(seed):
    return GridSearchCV(SVC(), _SVM_GRID, cv=5)


def _svr(seed):
    grid = {f"regressor__{name}": values for name, values in _SVM_GRID.items()}
    scaled = TransformedTargetRegressor(SVR(), transformer=StandardScaler())
    return GridSearchCV(scaled, grid, cv=5)


def _lightgbm(name):
    def make(seed):
        return getattr(import_module("lightgbm"), name)(random_state=seed, verbose=-1, n_jobs=1)

    return make


# name: (needed package or None, classifier, regressor); each is made from a seed
MODELS = {
    "rfm": (
        None,
        lambda seed: RFMClassifierCV(random_state=seed),
        lambda seed: RFMRegressorCV(random_state=seed),
    ),
    "rfm-plain": (
        None,
        lambda seed: RFMClassifier(random_state=seed),
        lambda seed: RFMRegressor(random_state=seed),
    ),
    "krr": (
        None,
        lambda seed: RFMClassifierCV(max_iter=0, random_state=seed),
        lambda seed: RFMRegressorCV(max_iter=0, random_state=seed),
    ),
    "svm": (None, _svc, _svr),
    "forest": (
        None,
        lambda seed: RandomForestClassifier(500, random_state=seed),
        lambda seed: RandomForestRegressor(500, random_state=seed),
    ),
    "hgb": (
        None,
        lambda seed: HistGradientBoostingClassifier(random_state=seed),
        lambda seed: HistGradientBoostingRegressor(random_state=seed),
    ),
    "lightgbm": ("lightgbm", _lightgbm("LGBMClassifier"), _lightgbm("LGBMRegressor")),
    "xrfm": ("xrfm", lambda seed: XRFMClassifier(seed), lambda seed: XRFMRegressor(seed)),
}


def why_not(name):
    """Return why a model cannot be run here, or None."""
    if name in MODELS:
        package = MODELS[name][0]
        if package and find_spec(package) is None:
            return f"the package {package} is not installed (pip install 'rfmlearn[bench]')"
        return None
    if "." not in name:
        return f"there is no such model; known are {', '.join(MODELS)}, or a dotted name"
    try:
        _dotted(name)
    except (ImportError, AttributeError) as error:
        return str(error)
    return None


def _dotted(name):
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def make(name, classes, seed=0):
    """Return a fresh pipeline: impute the median, scale, model."""
    if name in MODELS:
        model = MODELS[name][1 if classes else 2](seed)
    else:
        model = _dotted(name)()
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
    return make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler(), model
    )


class _XRFM(BaseEstimator):
    """xRFM at its defaults, in scikit-learn's manners.

    A fifth of the training rows is held out, which xRFM needs for its own choices.
    """

    def __init__(self, seed=0):
        self.seed = seed

    def _fit(self, X, y, stratify):
        from xrfm import xRFM

        split = {"test_size": 0.2, "random_state": self.seed}
        try:
            parts = train_test_split(X, y, stratify=stratify, **split)
        except ValueError:  # a class with a single row
            parts = train_test_split(X, y, **split)
        X_fit, X_val, y_fit, y_val = parts
        self.model_ = xRFM(random_state=self.seed, verbose=False)
        self.model_.fit(X_fit.astype(np.float32), y_fit, X_val.astype(np.float32), y_val)
        return self


class XRFMClassifier(ClassifierMixin, _XRFM):
    """See `_XRFM`."""

    def fit(self, X, y):
        self.encoder_ = LabelEncoder().fit(y)
        self.classes_ = self.encoder_.classes_
        codes = self.encoder_.transform(y)
        return self._fit(X, codes, codes)

    def predict_proba(self, X):
        return np.asarray(self.model_.predict_proba(X.astype(np.float32)))

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class XRFMRegressor(RegressorMixin, _XRFM):
    """See `_XRFM`."""

    def fit(self, X, y):
        self.mean_, self.scale_ = y.mean(), y.std() or 1.0
        return self._fit(X, ((y - self.mean_) / self.scale_).astype(np.float32), None)

    def predict(self, X):
        out = np.asarray(self.model_.predict(X.astype(np.float32))).ravel()
        return out.astype(float) * self.scale_ + self.mean_
