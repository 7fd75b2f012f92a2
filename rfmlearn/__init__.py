# SPDX-License-Identifier: BSD-3-Clause
"""Neural feature learning with and without the network, in scikit-learn's manners.

Names are loaded when first used: ``import rfmlearn`` alone loads neither torch nor
scikit-learn.
"""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "ABCMLPClassifier": "rfmlearn._mlp",
    "ABCMLPRegressor": "rfmlearn._mlp",
    "ConvRFMClassifier": "rfmlearn._conv",
    "ConvRFMRegressor": "rfmlearn._conv",
    "KernelRegimeClassifier": "rfmlearn._regimes",
    "KernelRegimeRegressor": "rfmlearn._regimes",
    "LinearRFMRegressor": "rfmlearn._linear",
    "NFMTransformer": "rfmlearn._nfm",
    "RFMClassifier": "rfmlearn._rfm",
    "RFMClassifierCV": "rfmlearn._rfm_cv",
    "RFMRegressor": "rfmlearn._rfm",
    "RFMRegressorCV": "rfmlearn._rfm_cv",
    "RecursiveFeatureLearner": "rfmlearn._learner",
}
_MODULES = {"datasets", "features", "inspection", "kernels", "linear", "neural", "solvers"}

__all__ = ["__version__", *_HOME, *_MODULES]


def __getattr__(name):
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in _MODULES:
        return import_module(f"rfmlearn.{name}")
    raise AttributeError(f"module 'rfmlearn' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
