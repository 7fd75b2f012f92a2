# SPDX-License-Identifier: BSD-3-Clause
"""scikit-learn's own checks: every registered kernel, diagonal and full, solver; networks."""

import os

from sklearn.utils.estimator_checks import parametrize_with_checks

from rfmlearn import (
    ABCMLPClassifier,
    ABCMLPRegressor,
    ConvRFMClassifier,
    ConvRFMRegressor,
    KernelRegimeClassifier,
    KernelRegimeRegressor,
    NFMTransformer,
    RFMClassifier,
    RFMRegressor,
)
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
NETWORKS = [
    ABCMLPClassifier(),
    ABCMLPRegressor(),
    NFMTransformer(),
    NFMTransformer(ABCMLPRegressor((8, 8), max_epochs=20), matrix="agop", layer=1, n_components=2),
]


REGIMES = [KernelRegimeClassifier(), *(KernelRegimeRegressor(r) for r in ("ntk", "nngp", "ntk_gp"))]
REGIMES.append(KernelRegimeRegressor(training_time=10.0, depth=1, activation="erf"))


IMAGES = [
    ConvRFMClassifier(),
    ConvRFMRegressor(),
    ConvRFMRegressor(kernel="patch_laplace", max_iter=1),
    ConvRFMClassifier(kernel="cnngp", depth=2, padding=1, pooling="mean", max_iter=1),
]


@parametrize_with_checks([*VARIANTS, *NETWORKS, *REGIMES, *IMAGES])
def test_check_estimator(estimator, check):
    check(estimator)
