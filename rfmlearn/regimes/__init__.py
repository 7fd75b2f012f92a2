# SPDX-License-Identifier: BSD-3-Clause
"""Infinitely wide networks in closed form."""

from rfmlearn.regimes._estimators import KernelRegimeClassifier, KernelRegimeRegressor

__all__ = ["KernelRegimeClassifier", "KernelRegimeRegressor"]
