# SPDX-License-Identifier: BSD-3-Clause
"""Linear Recursive Feature Machines: sparse vectors and matrices of low rank."""

from rfmlearn.linear._estimator import LinearRFMRegressor
from rfmlearn.linear._functions import LinearRFMResult, complete_matrix, linear_rfm

__all__ = ["LinearRFMRegressor", "LinearRFMResult", "complete_matrix", "linear_rfm"]
