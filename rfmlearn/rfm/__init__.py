# SPDX-License-Identifier: BSD-3-Clause
"""Recursive Feature Machines on the rows of a table."""

from rfmlearn.rfm._cv import RFMClassifierCV, RFMRegressorCV
from rfmlearn.rfm._estimators import RFMClassifier, RFMRegressor

__all__ = ["RFMClassifier", "RFMClassifierCV", "RFMRegressor", "RFMRegressorCV"]
