# SPDX-License-Identifier: BSD-3-Clause
"""scikit-learn's own checks, for every registered kernel, diagonal and full, and solver."""

import os

from sklearn.utils.estimator_checks import parametrize_with_checks

from rfmlearn import RFMClassifier, RFMRegressor
from rfmlearn.kernels import KERNELS

assert os.environ["SCIPY_ARRAY_API"] == "1", "array API checks would be skipped silently"

VARIANTS = [
    Estimator(kernel=kernel, diag=diag)
    for Estimator in (RFMRegressor, RFMClassifier)
    for kernel in sorted(KERNELS)
    for diag in (False, True)
] + [
    Estimator(**how)
    for Estimator in (RFMRegressor, RFMClassifier)
    for how in ({"solver": "pcg"}, {"n_centers": 1000})
]


@parametrize_with_checks(VARIANTS)
def test_check_estimator(estimator, check):
    check(estimator)
