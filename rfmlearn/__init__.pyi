from . import datasets, features, inspection, kernels, linear, neural, solvers
from .images import ConvRFMClassifier, ConvRFMRegressor
from .linear import LinearRFMRegressor
from .neural import ABCMLPClassifier, ABCMLPRegressor, NFMTransformer
from .regimes import KernelRegimeClassifier, KernelRegimeRegressor
from .rfm import RFMClassifier, RFMClassifierCV, RFMRegressor, RFMRegressorCV
from .wrapping import RecursiveFeatureLearner

__version__: str

__all__ = [
    "ABCMLPClassifier",
    "ABCMLPRegressor",
    "ConvRFMClassifier",
    "ConvRFMRegressor",
    "KernelRegimeClassifier",
    "KernelRegimeRegressor",
    "LinearRFMRegressor",
    "NFMTransformer",
    "RFMClassifier",
    "RFMClassifierCV",
    "RFMRegressor",
    "RFMRegressorCV",
    "RecursiveFeatureLearner",
    "__version__",
    "datasets",
    "features",
    "inspection",
    "kernels",
    "linear",
    "neural",
    "solvers",
]
