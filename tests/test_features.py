# SPDX-License-Identifier: BSD-3-Clause
"""The plain functions, on arrays, tensors and estimators."""

from functools import partial

import numpy as np
import pytest
import scipy.linalg
import torch

from rfmlearn import RFMClassifier, RFMRegressor
from rfmlearn.features import agop, alignment, matrix_power, top_directions


def psd(d=6, rank=6, seed=0):
    B = np.random.default_rng(seed).normal(size=(d, rank))
    return B @ B.T


@pytest.mark.parametrize("diag", [False, True])
@pytest.mark.parametrize("center", [False, True])
def test_agop_is_the_weighted_mean_of_outer_products(diag, center):
    rng = np.random.default_rng(0)
    G, w = rng.normal(size=(20, 3, 4)) + 1, rng.uniform(0, 2, 20)
    H = G - np.average(G, axis=0, weights=w) if center else G
    expected = sum(w[i] * np.outer(g, g) for i in range(20) for g in H[i]) / w.sum()
    if diag:
        expected = np.diag(expected)
    options = {"sample_weight": w, "center_gradients": center, "diag": diag}
    np.testing.assert_allclose(agop(G, **options), expected, rtol=1e-12, atol=1e-12)
    T = agop(torch.from_numpy(G), **options)
    assert isinstance(T, torch.Tensor)
    np.testing.assert_allclose(T, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(agop(G[:, 0]), G[:, 0].T @ G[:, 0] / 20)
    assert agop(G.astype(np.float32)).dtype == np.float32


def test_agop_of_an_estimator_equals_that_of_its_gradients(monkeypatch):
    from rfmlearn import _backend

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    w = rng.uniform(0, 2, 50)
    for model in (
        RFMRegressor(max_iter=1).fit(X, X[:, :2] ** 2),
        RFMClassifier(max_iter=1).fit(X, X[:, 0] > 0),
    ):
        expected = agop(model.input_gradients(X), sample_weight=w, center_gradients=True)
        monkeypatch.setitem(_backend.BLOCK_BYTES, "cpu", 1)
        blocked = agop(model, X, sample_weight=w, center_gradients=True)
        np.testing.assert_allclose(blocked, expected, rtol=1e-10, atol=1e-12)


def test_the_next_metric_is_the_agop_of_the_fitted_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y = np.sin(X[:, 0] + X[:, 1])
    for t in range(3):
        A = agop(RFMRegressor(max_iter=t).fit(X, y), X)
        M = RFMRegressor(max_iter=t + 1).fit(X, y).feature_matrix_
        np.testing.assert_allclose(M, A / np.linalg.eigvalsh(A)[-1], atol=1e-9)


@pytest.mark.parametrize("power", [0.25, 0.5, 1, 2])
def test_matrix_power_equals_scipy(power):
    M = psd()
    expected = scipy.linalg.fractional_matrix_power(M, power)
    np.testing.assert_allclose(matrix_power(M, power), expected, rtol=1e-9)
    np.testing.assert_allclose(matrix_power(torch.from_numpy(M), power), expected, rtol=1e-9)
    assert matrix_power(M.astype(np.float32), power).dtype == np.float32
    diagonal = matrix_power(np.array([4.0, 0.0, 9.0]), power)
    np.testing.assert_allclose(diagonal, [4**power, 0, 9**power])


def test_matrix_power_keeps_a_null_space():
    M = psd(rank=2)
    root = matrix_power(M, 0.5)
    np.testing.assert_allclose(root @ root, M, atol=1e-12)
    null = scipy.linalg.null_space(M, rcond=1e-10)
    # not sqrt(eps): eigenvalues at the level of rounding count as 0
    assert np.abs(root @ null).max() < 1e-13


def test_matrix_power_of_a_badly_scaled_float32_matrix():
    # squares of features in units that differ by 1e5: float32 alone would lose the small one
    scale = np.array([1e-5, 1.0])
    M = (scale[:, None] * np.array([[1.0, 0.5], [0.5, 1.0]]) * scale).astype(np.float32)
    root = matrix_power(M, 0.5).astype(float)
    np.testing.assert_allclose((root @ root)[0, 1], 0.5e-5, rtol=1e-5)
    np.testing.assert_allclose((root @ root)[1, 1], 1, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_is_no_negative_eigenvalue(dtype):
    # rank 3 in 400 dimensions: 397 eigenvalues of either sign at the level of rounding
    G = np.random.default_rng(0).normal(size=(3, 400)).astype(dtype)
    M = G.T @ G
    assert np.linalg.eigvalsh(M)[0] < 0
    root = matrix_power(M, 0.5)
    tolerance = 20 * np.finfo(dtype).eps * M.max() * 3  # of sums of 400 products
    np.testing.assert_allclose(root @ root, M, atol=tolerance)
    np.testing.assert_array_equal(matrix_power(np.zeros((2, 2), dtype), 0.5), 0)


def test_alignment_is_cosine_or_correlation():
    A, B = psd(seed=0), psd(seed=1)
    cosine = (A * B).sum() / np.linalg.norm(A) / np.linalg.norm(B)
    np.testing.assert_allclose(alignment(A, B), cosine)
    np.testing.assert_allclose(alignment(A, 7 * A), 1)
    pearson = np.corrcoef(A.ravel(), B.ravel())[0, 1]
    np.testing.assert_allclose(alignment(A, B, "pearson"), pearson)
    np.testing.assert_allclose(alignment(torch.from_numpy(A), B, "pearson"), pearson)
    assert isinstance(alignment(A, B), float)
    assert np.isnan(alignment(A, np.zeros((6, 6))))


def test_top_directions_are_leading_eigenvectors_with_a_fixed_sign():
    M = psd()
    directions, strengths = top_directions(M, 3)
    values = np.linalg.eigvalsh(M)[::-1]
    np.testing.assert_allclose(strengths, values[:3])
    np.testing.assert_allclose(directions @ directions.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(directions @ M, strengths[:, None] * directions, atol=1e-9)
    assert (np.take_along_axis(directions, np.abs(directions).argmax(1)[:, None], 1) > 0).all()
    directions, strengths = top_directions(np.array([1.0, 3.0, 2.0]))
    np.testing.assert_array_equal(directions, np.eye(3)[[1, 2, 0]])
    np.testing.assert_array_equal(strengths, [3, 2, 1])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: agop(np.ones(3)), ValueError, r"shape \(n, d\) or \(n, c, d\)"),
        (lambda: agop(np.ones((0, 3))), ValueError, "with n > 0"),
        (lambda: agop(np.ones((2, 3)), np.ones((2, 3))), TypeError, "X belongs with"),
        (lambda: agop(object(), np.ones((2, 3))), TypeError, "no input_gradients"),
        (lambda: agop(RFMRegressor()), TypeError, "X is needed"),
        (lambda: agop(np.ones((2, 3)), sample_weight=[1.0]), ValueError, "must hold 2 weights"),
        (lambda: agop(np.ones((2, 3)), sample_weight=[1.0, -1]), ValueError, "none negative"),
        (lambda: agop(np.ones((2, 3)), sample_weight=[0.0, 0]), ValueError, "not all 0"),
        (lambda: matrix_power(np.ones((2, 3)), 1), ValueError, r"\(d, d\) or \(d,\)"),
        (lambda: matrix_power(np.eye(2), -1), ValueError, "must be positive"),
        *(
            (partial(call, M), ValueError, message)
            for call in (partial(matrix_power, power=0.5), top_directions)
            for M, message in (
                (np.diag([1.0, -1e-3]), "negative eigenvalues"),
                (-np.eye(2), "negative eigenvalues"),
                (np.array([1.0, -1e-3]), "negative eigenvalues"),
                (np.array([[1.0, 0.5], [0.0, 1.0]]), "not symmetric"),
                (np.array([[1.0, np.nan], [np.nan, 1.0]]), "NaN or infinity"),
                (np.array([1.0, np.inf]), "NaN or infinity"),
            )
        ),
        (lambda: alignment(np.eye(2), np.eye(3)), ValueError, "shapes differ"),
        (lambda: alignment(np.eye(2), np.eye(2), "cos"), ValueError, "'cosine' or 'pearson'"),
        (lambda: top_directions(np.eye(2), 3), ValueError, r"must lie in 1, \.\.\., 2"),
        (lambda: top_directions(np.eye(2), 0), ValueError, r"must lie in 1, \.\.\., 2"),
    ],
)
def test_bad_input_gets_a_sentence(call, error, message):
    with pytest.raises(error, match=message):
        call()
