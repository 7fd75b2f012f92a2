# SPDX-License-Identifier: BSD-3-Clause
"""The models by name; each is made fresh for a cell."""

from importlib import import_module
from importlib.util import find_spec

from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rfmlearn import RFMClassifier, RFMClassifierCV, RFMRegressor, RFMRegressorCV
from rfmlearn.benchmark import _rivals


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
    "ntk": (
        None,
        lambda seed: _rivals.NTKClassifier(),
        lambda seed: _rivals.NTKRegressor(),
    ),
    "svm": (
        None,
        lambda seed: _rivals.SVMClassifier(),
        lambda seed: _rivals.SVMRegressor(),
    ),
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
    "xrfm": (
        "xrfm",
        lambda seed: _rivals.XRFMClassifier(seed=seed),
        lambda seed: _rivals.XRFMRegressor(seed=seed),
    ),
    "xrfm20": (
        "xrfm",
        lambda seed: _rivals.XRFMClassifier(n_configurations=20, seed=seed),
        lambda seed: _rivals.XRFMRegressor(n_configurations=20, seed=seed),
    ),
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
    except Exception as error:  # whatever a module raises when it is imported
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
