# SPDX-License-Identifier: BSD-3-Clause
"""Recursive Feature Machines on the patches of images."""

from rfmlearn.images._estimators import ConvRFMClassifier, ConvRFMRegressor

__all__ = ["ConvRFMClassifier", "ConvRFMRegressor"]
