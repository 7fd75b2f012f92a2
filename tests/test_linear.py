# SPDX-License-Identifier: BSD-3-Clause
"""Linear RFM: reweighted least squares, sparse vectors, matrices of low rank."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LassoCV, Ridge
from sklearn.model_selection import GridSearchCV

from rfmlearn import LinearRFMRegressor
from rfmlearn.features import agop
from rfmlearn.linear import complete_matrix, linear_rfm


def sparse(seed, n=50, d=100, k=5):
    rng = np.random.default_rng(seed)
    w = np.zeros(d)
    w[rng.choice(d, k, replace=False)] = rng.normal(size=k)
    A = rng.normal(size=(n, d))
    return A, A @ w, w


def low_rank(seed, n=60, d=60, rank=2, seen=0.35):
    rng = np.random.default_rng(seed)
    whole = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d))
    return whole, rng.random(whole.shape) < seen


def away(found, truth):
    return np.linalg.norm(found - truth) / np.linalg.norm(truth)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0])
def test_a_diagonal_step_is_one_of_reweighted_least_squares(p):
    # L1: weights (w^2 + e)^(p/2 - 1) of the penalty (Daubechies et al. 2010), solved as the
    # shortest solution of the system in rescaled unknowns
    A, y, _ = sparse(0)
    w = np.linalg.pinv(A) @ y
    for t in range(1, 6):
        e = 0.9**t * (w**2).max()
        scale = (w**2 + e) ** ((1 - p / 2) / 2)
        w = scale * np.linalg.lstsq(A * scale, y, rcond=None)[0]
        ours = linear_rfm(A, y, agop_power=1 - p / 2, max_iter=t, tol=0)
        np.testing.assert_allclose(ours.coef, w, rtol=0, atol=1e-12)
        assert ours.n_iter == t


@pytest.mark.parametrize("c", [2, 9])
@pytest.mark.parametrize("power", [0.5, 1.0])
def test_a_full_step_is_that_of_the_formulas(c, power):
    rng = np.random.default_rng(0)
    A, Y, d = rng.normal(size=(10, 6)), rng.normal(size=(10, c)), 6
    M, alpha = np.eye(d), 0.3
    for t in range(4):
        # the least |A W^T - Y|^2 + alpha tr W M^-1 W^T, from its normal equations
        W = np.linalg.solve(A.T @ A + alpha * np.linalg.inv(M), A.T @ Y).T
        ours = linear_rfm(A, Y, diag=False, alpha=alpha, agop_power=power, max_iter=t, tol=0)
        np.testing.assert_allclose(ours.coef, W, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ours.feature_matrix, M, rtol=1e-9, atol=1e-12)
        values, V = np.linalg.eigh(W.T @ W)
        M = (V * (values / values[-1] + 0.9 ** (t + 1)) ** power) @ V.T
        M /= np.linalg.eigvalsh(M)[-1]
        model = LinearRFMRegressor(
            alpha, diag=False, agop_power=power, max_iter=t + 1, tol=0, fit_intercept=False
        ).fit(A, Y)
        # the scale of each target is taken out first: the metric is that of targets of size 1
        again = linear_rfm(
            A,
            Y / np.sqrt(np.mean(Y**2, axis=0)),
            diag=False,
            alpha=alpha,
            agop_power=power,
            max_iter=t + 1,
            tol=0,
        )
        np.testing.assert_allclose(model.feature_matrix_, again.feature_matrix, rtol=1e-9)


def test_sparse_recovery():
    # L2: the shortest solution is far off, the last one exact
    for seed in range(5):
        A, y, w = sparse(seed)
        first, last = (linear_rfm(A, y, max_iter=t, tol=1e-12) for t in (0, 300))
        assert away(first.coef, w) > 0.6
        assert away(last.coef, w) < 1e-10


@pytest.mark.slow
def test_matrix_completion():
    # L3: 60 x 60, rank 2, 35% of the entries: from 1.0 to 1e-6 on those not seen, where e has
    # fallen to 0.9^200 = 7e-10
    for seed in range(5):
        whole, seen = low_rank(seed)
        Y = np.where(seen, whole, np.nan)
        first, last = (complete_matrix(Y, max_iter=t, tol=1e-9) for t in (0, 250))
        assert away(first.coef[~seen], whole[~seen]) > 0.9
        assert away(last.coef[~seen], whole[~seen]) < 1e-6
        np.testing.assert_allclose(last.coef[seen], whole[seen], atol=1e-8)


def test_completion_is_sensing_of_single_entries():
    whole, seen = low_rank(1, 8, 6, 1, 0.7)
    A = np.zeros((seen.sum(), 8, 6))
    A[(np.arange(len(A)), *np.nonzero(seen))] = 1
    for alpha in (0.0, 0.1):
        options = {"alpha": alpha, "max_iter": 6, "tol": 0}
        one = complete_matrix(np.where(seen, whole, np.nan), **options)
        other = linear_rfm(A, whole[seen], **options)
        np.testing.assert_allclose(one.coef, other.coef, atol=1e-9)
        np.testing.assert_allclose(one.feature_matrix, other.feature_matrix, atol=1e-9)


def test_sensing_of_a_matrix_of_low_rank():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(15, 2)) @ rng.normal(size=(2, 20))
    A = rng.normal(size=(180, 15, 20))
    y = np.einsum("mkd,kd->m", A, W)
    assert away(linear_rfm(A, y, max_iter=0).coef, W) > 0.5
    assert away(linear_rfm(A, y).coef, W) < 1e-7


def test_tensors_in_tensors_out_and_zero_stays_zero():
    A, y, _ = sparse(2)
    found = linear_rfm(torch.from_numpy(A), torch.from_numpy(y), max_iter=3)
    assert isinstance(found.coef, torch.Tensor)
    np.testing.assert_array_equal(found.coef, linear_rfm(A, y, max_iter=3).coef)
    nothing = linear_rfm(A, 0 * y)
    assert not nothing.coef.any()
    assert nothing.n_iter == 0


def test_it_does_not_depend_on_units_or_rotation():
    A, y, _ = sparse(3)
    np.testing.assert_allclose(
        linear_rfm(A, 1e-9 * y, max_iter=20).coef, 1e-9 * linear_rfm(A, y, max_iter=20).coef
    )
    Y = np.stack([y, A[:, 0] - A[:, 1], A[:, 2]], axis=1)
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(100, 100)))[0]
    options = {"diag": False, "max_iter": 10, "alpha": 0.1}
    np.testing.assert_allclose(
        linear_rfm(A @ Q, Y, **options).coef, linear_rfm(A, Y, **options).coef @ Q, atol=1e-10
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linear_rfm(np.ones(3), np.ones(3)), r"A must have shape"),
        (lambda: linear_rfm(np.ones((3, 2)), np.ones(4)), r"y of shape \(4,\) does not fit"),
        (lambda: linear_rfm(np.ones((3, 2, 2)), np.ones((3, 2))), "does not fit"),
        (lambda: linear_rfm(np.full((3, 2), np.nan), np.ones(3)), "NaN or inf"),
        (lambda: linear_rfm(np.ones((3, 2)), np.ones(3), decay=1.0), "decay=1.0 must lie"),
        (lambda: linear_rfm(np.ones((3, 2)), np.ones(3), alpha=-1.0), "alpha=-1.0"),
        (lambda: complete_matrix(np.full((3, 2), np.nan)), "known entries"),
        (lambda: complete_matrix(np.array([[np.inf, 1.0]])), "holds inf"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_iterate_0_is_ridge_regression():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 7)) + 3, rng.normal(size=(40, 2)) - 5
    weight = rng.random(40)
    for y in (Y, Y[:, 0]):
        for intercept in (True, False):
            ours = LinearRFMRegressor(0.3, max_iter=0, fit_intercept=intercept)
            ours.fit(X, y, weight)
            ridge = Ridge(0.3, fit_intercept=intercept).fit(X, y, weight)
            np.testing.assert_allclose(ours.coef_, ridge.coef_, rtol=1e-10)
            np.testing.assert_allclose(ours.intercept_, ridge.intercept_, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(ours.predict(X), ridge.predict(X), rtol=1e-10)


def test_it_finds_the_columns_that_matter_without_shrinking_them():
    # against the lasso with its penalty by cross-validation: the mean of ten draws
    errors = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, X_new = rng.normal(size=(100, 300)), rng.normal(size=(1000, 300))
        w = np.concatenate([[2, -1, 0.7], np.zeros(297)])
        y = X @ w + 0.3 * rng.normal(size=100) + 7
        model, lasso = LinearRFMRegressor().fit(X, y), LassoCV(cv=5).fit(X, y)
        errors.append([np.mean((m.predict(X_new) - X_new @ w - 7) ** 2) for m in (model, lasso)])
        assert set(model.feature_importances_.argsort()[-3:]) == {0, 1, 2}
        np.testing.assert_allclose(
            agop(model, X), np.outer(model.coef_, model.coef_), rtol=1e-12, atol=1e-15
        )
    ours, lasso = np.mean(errors, axis=0)
    assert ours < lasso / 2


def shared_directions(seed, noise):
    """Twelve outputs, each in units of its spread, of two directions."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(60, 2)))[0]
    X = rng.normal(size=(100, 60))
    shares = rng.normal(size=(2, 12))
    shares /= np.linalg.norm(shares, axis=0)
    return X, X @ basis @ shares + noise * rng.normal(size=(100, 12)), basis


def test_a_full_metric_finds_the_directions_that_outputs_share():
    X, Y, basis = shared_directions(1, 0.3)
    model = LinearRFMRegressor(diag=False).fit(X, Y)
    values, vectors = np.linalg.eigh(model.feature_matrix_)
    assert values[-3] < 1e-3
    assert np.linalg.norm(vectors[:, -2:].T @ basis) ** 2 / 2 > 0.98
    # with as much noise as signal it finds more of them than ridge regression
    gains = []
    for seed in range(6):
        X, Y, basis = shared_directions(seed, 1.0)
        _, vectors = np.linalg.eigh(LinearRFMRegressor(3.0, diag=False).fit(X, Y).feature_matrix_)
        B = Ridge(3.0).fit(X, Y).coef_
        found = (vectors[:, -2:].T, np.linalg.svd(B)[2][:2])
        gains.append(np.subtract(*(np.linalg.norm(V @ basis) ** 2 / 2 for V in found)))
    assert np.mean(gains) > 0.01


def test_it_goes_into_a_grid_search():
    A, y, _ = sparse(4)
    search = GridSearchCV(
        LinearRFMRegressor(), {"alpha": [1e-3, 1.0], "agop_power": [0.5, 1.0]}, cv=3
    )
    assert search.fit(A, y).best_score_ > 0.9
