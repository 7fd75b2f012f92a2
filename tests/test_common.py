# SPDX-License-Identifier: BSD-3-Clause
"""scikit-learn's own checks: every registered kernel, diagonal and full, solver; networks."""

import os
import warnings

import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import estimator_checks_generator

from rfmlearn import (
    ABCMLPClassifier,
    ABCMLPRegressor,
    ConvRFMClassifier,
    ConvRFMRegressor,
    KernelRegimeClassifier,
    KernelRegimeRegressor,
    LinearRFMRegressor,
    NFMTransformer,
    RecursiveFeatureLearner,
    RFMClassifier,
    RFMClassifierCV,
    RFMRegressor,
    RFMRegressorCV,
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
SEARCHES = [
    RFMRegressorCV(bandwidths=1.0, alphas=(0.01, 1.0), max_iter=1, cv=3),
    RFMClassifierCV(bandwidths=1.0, alphas=(0.01, 1.0), diag=False, max_iter=1, cv=2),
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


LINEAR = [LinearRFMRegressor(), LinearRFMRegressor(diag=False, agop_power=0.5)]
LEARNERS = [
    RecursiveFeatureLearner(estimator, **how)
    for estimator, how in (
        # of support vector machines weights and repeated rows differ (scikit-learn's own list of
        # expected failures has them): inside a pipeline, whose fit has no weights
        (make_pipeline(SVR()), {}),
        (make_pipeline(SVC()), {"diag": True}),
        (Ridge(), {}),
        (LogisticRegression(max_iter=1000), {"agop_power": 0.5}),
        (KernelRidge(kernel="laplacian"), {"center_gradients": True}),
        (KNeighborsClassifier(), {"n_agop_samples": 20}),
        (KNeighborsRegressor(), {"early_stopping": True}),
        (DecisionTreeClassifier(random_state=0), {}),
        (RFMRegressor(max_iter=0), {"gradient": "analytic"}),
        (RFMClassifier(max_iter=0), {"gradient": "numeric"}),
    )
]


# Their class weights go the way of any other weight, which one of them shows: 1,000 updates each.
WEIGHTED_ALIKE = [model for model in VARIANTS if isinstance(model, RFMClassifier)][1:]


def checks():
    models = [*VARIANTS, *SEARCHES, *NETWORKS, *REGIMES, *IMAGES, *LINEAR, *LEARNERS]
    for number, model in enumerate(models):
        for estimator, check in estimator_checks_generator(model):
            name = check.func.__name__
            if name == "check_class_weight_classifiers" and model in WEIGHTED_ALIKE:
                continue
            label = " ".join(str(model).split())[:60]
            yield pytest.param(estimator, check, id=f"{number}-{label}-{name}")


@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_check_estimator(estimator, check):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        check(estimator)
