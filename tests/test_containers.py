# SPDX-License-Identifier: BSD-3-Clause
"""`set_output` and `transform_output` choose what transform returns, and nothing else."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from rfmlearn import (
    ABCMLPRegressor,
    ConvRFMRegressor,
    KernelRegimeRegressor,
    LinearRFMRegressor,
    NFMTransformer,
    RecursiveFeatureLearner,
    RFMRegressor,
    RFMRegressorCV,
)
from rfmlearn.datasets import make_multi_index
from rfmlearn.neural import layer_features


def behind_a_scaler(estimator):
    return make_pipeline(StandardScaler(), PCA(4), estimator)


NETWORK = MLPRegressor(
    hidden_layer_sizes=(8,), solver="lbfgs", alpha=1, max_iter=5000, random_state=0
)
MODELS = [
    RFMRegressor(max_iter=1),
    RFMRegressorCV(max_iter=1, cv=2),
    ConvRFMRegressor(image_shape=(1, 2, 3), patch_size=2, max_iter=1),
    NFMTransformer(ABCMLPRegressor((8,), max_epochs=2, random_state=0)),
    KernelRegimeRegressor(),
    LinearRFMRegressor(),
    RecursiveFeatureLearner(SVR()),
    RecursiveFeatureLearner(behind_a_scaler(SVR())),
    RecursiveFeatureLearner(behind_a_scaler(SVR(kernel="linear"))),
    RecursiveFeatureLearner(behind_a_scaler(GaussianProcessRegressor(alpha=0.1, normalize_y=True))),
    RecursiveFeatureLearner(behind_a_scaler(RFMRegressor(max_iter=1))),
    RecursiveFeatureLearner(behind_a_scaler(NETWORK)),
    RecursiveFeatureLearner(behind_a_scaler(SVR(kernel="poly")), max_iter=1),
    RecursiveFeatureLearner(GridSearchCV(behind_a_scaler(SVR()), {"svr__C": [1.0, 10.0]}, cv=2)),
    RecursiveFeatureLearner(SVR(), early_stopping=True, random_state=0),
]


@pytest.mark.parametrize("named", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize("model", MODELS, ids=lambda e: " ".join(str(e).split())[:70])
def test_frames_from_transformers_change_no_number(model, named):
    X, y, _ = make_multi_index(80, 6, random_state=0)
    rows = pd.DataFrame(X, columns=list("abcdef")) if named else X
    plain = clone(model).fit(rows, y)
    methods = [m for m in ("predict", "transform") if hasattr(plain, m)]
    expected = {m: getattr(plain, m)(rows) for m in methods}
    score = plain.score(rows, y) if "predict" in methods else None
    with warnings.catch_warnings(), sklearn.config_context(transform_output="pandas"):
        warnings.simplefilter("error")
        found = clone(model).fit(rows, y)
        for method, value in expected.items():
            result = getattr(found, method)(rows)
            assert isinstance(result, pd.DataFrame) == (method == "transform")
            # equal but for the order of sums over rows of another memory layout
            assert_allclose(result, value, rtol=1e-7, atol=1e-9)
        if score is not None:
            assert found.score(rows, y) == pytest.approx(score, rel=1e-7)
    assert getattr(found, "gradient_", None) == getattr(plain, "gradient_", None)


@pytest.mark.parametrize("estimator", [SVR(), behind_a_scaler(SVR())], ids=["plain", "pipeline"])
def test_set_output_of_a_pipeline(estimator):
    X, y, _ = make_multi_index(80, 6, random_state=0)
    rows = pd.DataFrame(X, columns=list("abcdef"))
    pipe = make_pipeline(StandardScaler(), RecursiveFeatureLearner(estimator))
    expected = clone(pipe).fit(X, y).predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe.set_output(transform="pandas").fit(rows, y)
        assert_allclose(pipe.predict(rows), expected, rtol=1e-7)
        names = pipe[:-1].transform(rows).columns
        assert list(names) == list("abcdef")
        assert list(pipe.transform(rows).columns) == list(pipe.get_feature_names_out())


def test_layers_behind_a_scaler_that_makes_frames():
    X, y, _ = make_multi_index(80, 6, random_state=0)
    model = make_pipeline(StandardScaler(), clone(NETWORK)).fit(X, y)
    frames = clone(model).set_output(transform="pandas").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layers = layer_features(frames, X)
    for one, other in zip(layers, layer_features(model, X), strict=True):
        np.testing.assert_allclose(one.agop, other.agop, rtol=1e-6)
