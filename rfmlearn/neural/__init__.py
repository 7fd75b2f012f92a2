# SPDX-License-Identifier: BSD-3-Clause
"""Trained networks: the features of their layers, and how width scales them."""

from rfmlearn.neural._abc import ABC_TABLE, Exponents
from rfmlearn.neural._diagnostics import WidthScan, coordinate_check, feature_movement
from rfmlearn.neural._dichotomy import WidthLimit, classify_parametrization
from rfmlearn.neural._layers import LayerFeatures, layer_features
from rfmlearn.neural._limit import InfiniteLinearNetwork
from rfmlearn.neural._mlp import ABCMLPClassifier, ABCMLPRegressor
from rfmlearn.neural._monitor import AlignmentMonitor
from rfmlearn.neural._transformer import NFMTransformer

__all__ = [
    "ABC_TABLE",
    "ABCMLPClassifier",
    "ABCMLPRegressor",
    "AlignmentMonitor",
    "Exponents",
    "InfiniteLinearNetwork",
    "LayerFeatures",
    "NFMTransformer",
    "WidthLimit",
    "WidthScan",
    "classify_parametrization",
    "coordinate_check",
    "feature_movement",
    "layer_features",
]
