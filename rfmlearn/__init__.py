# SPDX-License-Identifier: BSD-3-Clause
"""Neural feature learning with and without the network, in scikit-learn's manners.

Names are loaded when first used: ``import rfmlearn`` alone loads neither torch nor
scikit-learn. What editors and type checkers know of them is in ``__init__.pyi``.
"""

from importlib import import_module

__version__ = "0.1.0"

# Where each estimator lives; the public modules besides.
_ROOMS = {
    "ABCMLPClassifier": "neural",
    "ABCMLPRegressor": "neural",
    "ConvRFMClassifier": "images",
    "ConvRFMRegressor": "images",
    "KernelRegimeClassifier": "regimes",
    "KernelRegimeRegressor": "regimes",
    "LinearRFMRegressor": "linear",
    "NFMTransformer": "neural",
    "RFMClassifier": "rfm",
    "RFMClassifierCV": "rfm",
    "RFMRegressor": "rfm",
    "RFMRegressorCV": "rfm",
    "RecursiveFeatureLearner": "wrapping",
}
_MODULES = {"datasets", "features", "inspection", "kernels", "linear", "neural", "solvers"}

__all__ = ["__version__", *_ROOMS, *_MODULES]


def __getattr__(name):
    if name in _ROOMS:
        return getattr(import_module(f"rfmlearn.{_ROOMS[name]}"), name)
    if name in _MODULES:
        return import_module(f"rfmlearn.{name}")
    raise AttributeError(f"module 'rfmlearn' has no attribute {name!r}")


def __dir__():
    return sorted(__all__)
