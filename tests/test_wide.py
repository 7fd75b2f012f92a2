# SPDX-License-Identifier: BSD-3-Clause
"""Tables with many more columns than rows: only the range of the AGOP is decomposed."""

import pickle

import numpy as np
import pytest
import reference
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, SVR

from rfmlearn import (
    ABCMLPRegressor,
    LinearRFMRegressor,
    NFMTransformer,
    RecursiveFeatureLearner,
    RFMClassifier,
    RFMRegressor,
    RFMRegressorCV,
    features,
)
from rfmlearn.features import GradientMoments, few, psd_eigh


def wide(n=12, d=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.stack([X[:, 0] * X[:, 1], X[:, 2]], axis=1)


def test_the_range_is_decomposed_as_the_whole_is():
    rng = np.random.default_rng(0)
    # eigenvalues over twelve orders of magnitude
    Q = np.linalg.qr(rng.normal(size=(400, 20)))[0]
    spectrum = np.logspace(0, -12, 20)
    M = torch.from_numpy((Q * spectrum) @ Q.T)
    values, V = psd_eigh(M, rank=20)
    whole, _ = psd_eigh(M)
    assert values.shape == (28,) and V.shape == (400, 28)
    # a decomposition is exact for a matrix that differs by rounding, d eps of the largest
    limit = 400 * np.finfo(float).eps
    assert_allclose(values[-20:], spectrum[::-1], atol=limit, rtol=1e-10)
    assert_allclose(values[-20:], whole[-20:], atol=limit, rtol=1e-10)
    assert_allclose((V * values) @ V.mT, M, atol=limit)
    assert_allclose(V.mT @ V, np.eye(28), atol=1e-13)
    assert not values[:8].any()
    # nothing to gain: the whole
    assert psd_eigh(M, rank=100)[1].shape == (400, 400)
    assert psd_eigh(M[:200, :200], rank=2)[1].shape == (200, 200)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(
    ("kernel", "power"),
    # not the fourth, whose limit below would be 5e-4
    [("laplace", 1.0), ("laplace", 0.5), ("product_laplace", 1.0)],
)
def test_the_recursion_is_that_of_the_formulas(kernel, power, center):
    X, Y = wide()
    assert few(12 * 2, 300)
    unit = reference.spread(Y)
    M, coef, intercept, L = reference.rfm(
        X, Y / unit, kernel=kernel, max_iter=2, power=power, center=center
    )
    model = RFMRegressor(
        kernel, max_iter=2, agop_power=power, center_gradients=center, matrix_scaling="spectral"
    ).fit(X, Y)
    Q, _ = wide(5, seed=1)
    expected = reference.predict(kernel, Q, X, coef, intercept, M, L) * unit
    # in the null space of the AGOP, which is 0 for us, the loops keep what rounding leaves: up to
    # d eps of the largest eigenvalue (Weyl), then to the power of M. Distances along the axes see
    # its root. A prediction differs by as much for each coefficient.
    limit = (300 * np.finfo(float).eps) ** (power / 2 if kernel == "product_laplace" else power)
    assert_allclose(model.feature_matrix_, M, atol=limit)
    assert_allclose(
        model.predict(Q), expected, rtol=0, atol=limit * np.abs(coef).sum() * unit.max()
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fits_are_those_of_the_whole_decomposition(dtype, monkeypatch):
    X, Y = wide(30, 400)
    X, labels = X.astype(dtype), np.digitize(Y[:, 0], [-0.5, 0.5])
    models = [
        RFMRegressor(max_iter=3),
        RFMRegressor(max_iter=2, n_agop_samples=10, random_state=0),
        RFMRegressor("product_laplace", max_iter=2, agop_power=0.5),
        RFMClassifier("gaussian", max_iter=2),
        RecursiveFeatureLearner(SVR(), max_iter=2),
    ]
    fitted = []
    for least in (256, 10_000):
        monkeypatch.setattr(features, "_WIDE", least)
        for model in models:
            y = labels if isinstance(model, RFMClassifier) else Y[:, 0]
            model.fit(X, y)
            fitted.append((model.predict(X), model.feature_matrix_))
    # rounding, times what three updates make of it
    atol = 2e-3 if dtype == np.float32 else 1e-9
    for one, other in zip(fitted[:5], fitted[5:], strict=True):
        for a, b in zip(one, other, strict=True):
            assert_allclose(a, b, atol=atol)


def test_the_number_of_gradients_bounds_the_rank():
    moments = GradientMoments()
    rng = np.random.default_rng(0)
    for n in (3, 4):
        moments.add(torch.from_numpy(rng.normal(size=(n, 2, 50))))
    assert moments.rank == 14 == torch.linalg.matrix_rank(moments.result())


KEPT = {
    "identity": RFMRegressor(max_iter=0),
    "diagonal": RFMRegressor(max_iter=1, diag=True),
    "product": RFMRegressor("product_laplace", max_iter=1),
    "best at the identity": RFMRegressor(max_iter=2, early_stopping=True, tol=1e6, random_state=0),
    "many outputs": RFMRegressor(max_iter=1, agop_outputs="all"),
    "many classes": RFMClassifier(max_iter=1, agop_outputs="all"),
    "cv": RFMRegressorCV(max_iter=1, random_state=0),
    "linear": LinearRFMRegressor(max_iter=1),
    "linear, full": LinearRFMRegressor(max_iter=2, diag=False),
    "linear, full, identity": LinearRFMRegressor(max_iter=0, diag=False),
    "around, identity": RecursiveFeatureLearner(SVR(), max_iter=0),
    "around": RecursiveFeatureLearner(SVR(), max_iter=2),
    "around a classifier": RecursiveFeatureLearner(SVC(kernel="linear"), max_iter=1),
    "around, diagonal": RecursiveFeatureLearner(LogisticRegression(), max_iter=1, diag=True),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_model_of_few_rows_is_a_few_times_its_rows(name):
    """A dense matrix of 1,500 columns would be 25 times the 60 rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1500))
    y = X[:, 0] + X[:, 1]
    if "many outputs" in name:
        y = X[:, :40]
    elif "many classes" in name:
        y = np.arange(60) % 30
    elif is_classifier(KEPT[name]):
        y = y > 0
    model = KEPT[name].fit(X, y)
    stored = pickle.dumps(model)
    assert len(stored) < 4 * X.nbytes
    again, M = pickle.loads(stored), model.feature_matrix_
    assert_array_equal(again.feature_matrix_, M)
    assert_allclose(
        M.diagonal() if M.ndim == 2 else M,
        model.feature_importances_ * np.sum(M.diagonal() if M.ndim == 2 else M),
        rtol=1e-10,
        atol=1e-15,
    )
    if hasattr(model, "transform") and M.ndim == 2:
        values, V = np.linalg.eigh(M)
        root = (V * np.sqrt(values.clip(0))) @ V.T
        Z, want = model.transform(X[:5]), X[:5] @ root
        # a wrapper keeps the spread by a number; sqrt(eps) of an eigenvalue that vanishes
        if isinstance(model, RecursiveFeatureLearner):
            want = want * (np.sum(Z * want) / np.sum(want * want))
        assert_allclose(Z, want, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("matrix", ["nfm", "agop"])
def test_the_features_of_a_narrow_layer_are_a_few_times_its_weights(matrix, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1500)).astype(dtype)
    net = ABCMLPRegressor((8,), max_epochs=2, random_state=0)
    model = NFMTransformer(net, matrix=matrix).fit(X, X[:, 0])
    W = model.estimator_.coefs_[0]
    own = len(pickle.dumps(model)) - len(pickle.dumps(model.estimator_))
    assert own < 4 * W.nbytes
    assert_allclose(
        model.feature_matrices_[0], W @ W.T, atol=2e-6 if dtype == np.float32 else 1e-12
    )
    M = model.feature_matrices_[0] if matrix == "nfm" else model.gradient_matrices_[0]
    values, V = np.linalg.eigh(M.astype(np.float64))
    values, V = values[-8:], V[:, -8:]
    # the root of the NFM, or of the root of the AGOP
    lengths = values ** (0.5 if matrix == "nfm" else 0.25)
    again = pickle.loads(pickle.dumps(model))
    size = np.sqrt(np.finfo(dtype).eps)
    assert_allclose(again.transform(X), (X @ V * lengths) @ V.T, atol=size * lengths.max())
    assert again.transform(X).shape == (60, len(again.get_feature_names_out()))
    components = again.components_
    assert_allclose(components @ components.T, np.eye(1500), atol=size)
    assert len(again.explained_ratio_) == 1500
    assert_allclose(again.explained_ratio_[:8].sum(), 1, rtol=1e-5)
