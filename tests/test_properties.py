# SPDX-License-Identifier: BSD-3-Clause
"""Exact identities of the recursion, named as in the list of oracles (O5 to O18).

Gaussian identities hold to rounding. For Laplace the square root of a distance doubles the
loss of digits, and five updates amplify it: tolerances of 1e-6 there.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ortho_group

from rfmlearn import RFMRegressor
from rfmlearn.features import agop
from rfmlearn.kernels import KERNELS, PowerExponential, RadialKernel

ATOL = {name: 1e-8 if name == "gaussian" else 1e-6 for name in KERNELS}
RADIAL = [name for name in sorted(KERNELS) if issubclass(KERNELS[name], RadialKernel)]
kernels = pytest.mark.parametrize("kernel", sorted(KERNELS))
# of a central difference: exact for a parabola, short where a kernel bends sharply
STEP = {"polynomial": 1e-3, "lpq": 1e-6}
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=10, deadline=None)


def data(seed, n=40, d=4, outputs=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.column_stack(
        [np.sin(X @ rng.normal(size=d)) + X[:, 0] * X[:, 1] for _ in range(outputs)]
    )
    return X, Y if outputs > 1 else Y[:, 0], rng.normal(size=(25, d)), rng


def fitted(kernel, X, y, **options):
    weight = options.pop("sample_weight", None)
    return RFMRegressor(kernel, **{"max_iter": 3, **options}).fit(X, y, sample_weight=weight)


@given(seed=seeds)
@few
def test_o5_agop_of_linear_and_quadratic_functions(seed):
    rng = np.random.default_rng(seed)
    n, c, d = 30, 3, 5
    X, A = rng.normal(size=(n, d)), rng.normal(size=(c, d))
    linear = np.broadcast_to(A, (n, c, d))
    np.testing.assert_allclose(agop(linear), A.T @ A, atol=1e-13)
    Q = rng.normal(size=(d, d))
    Q = Q + Q.T
    quadratic = X @ Q
    np.testing.assert_allclose(agop(quadratic), Q @ (X.T @ X / n) @ Q, atol=1e-11)
    np.testing.assert_allclose(
        agop(quadratic, center_gradients=True), Q @ np.cov(X.T, bias=True) @ Q, atol=1e-11
    )


@kernels
@given(seed=seeds)
@few
def test_o6_uncentred_is_centred_plus_the_outer_product_of_the_mean(kernel, seed):
    X, Y, _, _ = data(seed, outputs=2)
    G = fitted(kernel, X, Y).input_gradients(X)
    mean = G.mean(axis=0)
    np.testing.assert_allclose(
        agop(G), agop(G, center_gradients=True) + mean.T @ mean, rtol=1e-10, atol=1e-12
    )


@kernels
@given(seed=seeds)
@few
def test_o7_rotating_the_outputs_changes_nothing(kernel, seed):
    X, Y, Q, _ = data(seed, outputs=3)
    # uncorrelated outputs of one spread: each has a unit of its own, which a rotation then leaves
    Y = (Y - Y.mean(0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(Y.T, bias=True))).T
    R = ortho_group.rvs(3, random_state=seed)
    a, b = fitted(kernel, X, Y), fitted(kernel, X, Y @ R)
    np.testing.assert_allclose(b.feature_matrix_, a.feature_matrix_, atol=ATOL[kernel])
    np.testing.assert_allclose(b.predict(Q), a.predict(Q) @ R, atol=ATOL[kernel])


@pytest.mark.parametrize(
    "kernel", [*sorted(KERNELS), PowerExponential(0.7), PowerExponential(2.0)], ids=str
)
@pytest.mark.parametrize("diag", [False, True])
@pytest.mark.parametrize("where", ["test", "train"])
def test_o10_gradients_equal_finite_differences(kernel, diag, where):
    X, Y, Q, _ = data(0, outputs=2)
    model = fitted(kernel, X, Y, diag=diag)
    points = Q if where == "test" else X
    # at a training row Laplace has a kink, which a central difference straddles evenly
    step = STEP.get(kernel, 1e-5)
    numeric = np.empty((len(points), 2, X.shape[1]))
    for k in range(X.shape[1]):
        e = step * np.eye(X.shape[1])[k]
        numeric[:, :, k] = (model.predict(points + e) - model.predict(points - e)) / (2 * step)
    # truncation (step^2) and rounding (eps / step) are both near 1e-10
    atol = 1e-8 * np.abs(numeric).max()
    if kernel == "lpq":
        # its third derivative is gap^-1.5 where a coordinate of two rows is as near as gap, here
        # 1e-4: step^2 / 6 gap^-1.5 = 2e-7 times one row's share
        atol *= 10
    if kernel == "ntk" and where == "train":
        # the two sides of its kink differ in curvature: an error of step times one row's share
        atol *= 100
    np.testing.assert_allclose(model.input_gradients(points), numeric, rtol=0, atol=atol)


@pytest.mark.parametrize("kernel", RADIAL)
@given(seed=seeds)
@few
def test_o11_rotation_of_the_input(kernel, seed):
    X, y, Q, _ = data(seed)
    R = ortho_group.rvs(4, random_state=seed)
    a, b = fitted(kernel, X, y), fitted(kernel, X @ R, y)
    np.testing.assert_allclose(b.feature_matrix_, R.T @ a.feature_matrix_ @ R, atol=ATOL[kernel])
    np.testing.assert_allclose(b.predict(Q @ R), a.predict(Q), atol=ATOL[kernel])


@kernels
@pytest.mark.parametrize("diag", [False, True])
@given(seed=seeds)
@few
def test_o12_translation_and_permutation(kernel, diag, seed):
    X, y, Q, rng = data(seed)
    shift, order = 10 * rng.normal(size=4), rng.permutation(4)
    a = fitted(kernel, X, y, diag=diag)
    b = fitted(kernel, X + shift, y, diag=diag)
    np.testing.assert_allclose(b.predict(Q + shift), a.predict(Q), atol=ATOL[kernel])
    c = fitted(kernel, X[:, order], y, diag=diag)
    np.testing.assert_allclose(c.predict(Q[:, order]), a.predict(Q), atol=ATOL[kernel])
    M = a.feature_matrix_[order] if diag else a.feature_matrix_[np.ix_(order, order)]
    np.testing.assert_allclose(c.feature_matrix_, M, atol=ATOL[kernel])


@kernels
@pytest.mark.parametrize("scaling", ["spectral", "trace"])
@given(seed=seeds)
@few
def test_o13_units_of_x_and_y(kernel, scaling, seed):
    X, y, Q, rng = data(seed)
    c = float(np.exp(rng.normal()))
    constant = {"bandwidth_mode": "constant", "matrix_scaling": scaling}
    a = fitted(kernel, X, y, bandwidth=2.0, **constant)
    b = fitted(kernel, c * X, y, bandwidth=2.0 * c, **constant)
    np.testing.assert_allclose(b.predict(c * Q), a.predict(Q), atol=ATOL[kernel])
    adaptive = fitted(kernel, c * X, y, matrix_scaling=scaling).predict(c * Q)
    np.testing.assert_allclose(
        adaptive, fitted(kernel, X, y, matrix_scaling=scaling).predict(Q), atol=ATOL[kernel]
    )
    five = fitted(kernel, X, 5 * y, bandwidth=2.0, **constant).predict(Q)
    np.testing.assert_allclose(five, 5 * a.predict(Q), atol=5 * ATOL[kernel])


@kernels
@given(seed=seeds)
@few
def test_o14_duplicated_data_with_alpha_doubled(kernel, seed):
    X, y, Q, _ = data(seed)
    a = fitted(kernel, X, y, alpha=0.01)
    b = fitted(kernel, np.tile(X, (2, 1)), np.tile(y, 2), alpha=0.02)
    np.testing.assert_allclose(b.predict(Q), a.predict(Q), atol=ATOL[kernel])
    np.testing.assert_allclose(b.feature_matrix_, a.feature_matrix_, atol=ATOL[kernel])


@kernels
@given(seed=seeds)
@few
def test_o15_a_metric_is_a_linear_map_of_the_input(kernel, seed):
    X, y, Q, _ = data(seed)
    # AGOP^0.1 is close to the identity: a well conditioned M, so that M^-1/2 exists
    a = fitted(kernel, X, y, max_iter=1, agop_power=0.1, bandwidth_mode="constant")
    S = a.transform(np.eye(4))
    b = fitted(kernel, X @ S, y, max_iter=0, bandwidth_mode="constant")
    np.testing.assert_allclose(b.predict(Q @ S), a.predict(Q), atol=ATOL[kernel])
    np.testing.assert_allclose(
        a.input_gradients(Q), b.input_gradients(Q @ S) @ S, atol=10 * ATOL[kernel]
    )


@kernels
@pytest.mark.parametrize("diag", [False, True])
def test_o16_a_null_direction_stays_null(kernel, diag):
    X, y, Q, _ = data(0, d=5)
    # a metric whose null space is the last two axes, by hand
    M = np.array([1.0, 0.5, 0.2, 0, 0])
    model = fitted(kernel, X, y, max_iter=0, diag=diag, warm_start=True)
    model.feature_matrix_ = M if diag else np.diag(M)
    model.set_params(max_iter=3).fit(X, y)
    learned = model.feature_matrix_ if diag else np.diag(model.feature_matrix_)
    np.testing.assert_array_equal(learned[3:], 0)
    moved = Q + [0, 0, 0, 7.0, -3.0]
    np.testing.assert_array_equal(model.predict(moved), model.predict(Q))


@kernels
def test_o17_one_row_and_two_rows(kernel):
    X, y, Q, _ = data(0, n=2)
    one = fitted(kernel, X[:1], y[:1])
    np.testing.assert_array_equal(one.feature_matrix_, np.eye(4))
    np.testing.assert_allclose(one.predict(Q), y[0])
    assert one.n_iter_ == 0
    two = fitted(kernel, X, y)
    v = X[0] - X[1]
    p = {"product_laplace": 1, "lpq": 1.5}.get(kernel, 2)
    v = np.sign(v) * abs(v) ** (p - 1)
    v = v / np.linalg.norm(v)
    # exactly so in exact arithmetic; rounding leaves a few eps
    np.testing.assert_allclose(two.feature_matrix_, np.outer(v, v), atol=1e-12)
    assert np.linalg.matrix_rank(two.feature_matrix_, tol=1e-10) == 1


@kernels
@pytest.mark.parametrize("diag", [False, True])
@given(seed=seeds)
@few
def test_o18_weights_are_repetitions(kernel, diag, seed):
    X, y, Q, rng = data(seed)
    w = rng.integers(0, 4, len(X))
    a = fitted(kernel, X, y, diag=diag, sample_weight=w)
    b = fitted(kernel, np.repeat(X, w, axis=0), np.repeat(y, w), diag=diag)
    assert len(a.X_fit_) == (w > 0).sum()
    np.testing.assert_allclose(a.predict(Q), b.predict(Q), atol=ATOL[kernel])
    np.testing.assert_allclose(a.feature_matrix_, b.feature_matrix_, atol=ATOL[kernel])
    np.testing.assert_allclose(a.bandwidth_, b.bandwidth_, rtol=1e-6)


@kernels
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_change_nothing(kernel, dtype, monkeypatch):
    from rfmlearn import _backend

    X, Y, Q, _ = data(0, n=60, outputs=3)
    X, Q = X.astype(dtype), Q.astype(dtype)
    whole = fitted(kernel, X, Y)
    monkeypatch.setitem(_backend.BLOCK_BYTES, "cpu", 1)
    monkeypatch.setattr(_backend, "MIN_BLOCK_ROWS", 7)
    parts = fitted(kernel, X, Y)
    atol = ATOL[kernel] if dtype == np.float64 else 2e-3
    if kernel == "polynomial":
        # its Gram matrix has rank 15, so that dual coefficients are residuals over alpha, near 50,
        # and cancel: eps sqrt(n) max(K) max(coef) = 6e-8 * 8 * 50 * 50 a sum, and three updates
        atol *= 10
    np.testing.assert_allclose(parts.predict(Q), whole.predict(Q), atol=atol)
    np.testing.assert_allclose(parts.feature_matrix_, whole.feature_matrix_, atol=atol)
    np.testing.assert_allclose(parts.input_gradients(Q), whole.input_gradients(Q), atol=10 * atol)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_far_outlier_leaves_the_digits_of_the_others(dtype):
    # constant bandwidth, so that the outlier changes nothing for the others but rounding
    X, y, Q, _ = data(0, n=60)
    far = np.vstack([X, np.full((1, 4), 1e5)])
    weight = np.r_[np.ones(60), 1e-12]
    options = {"bandwidth": 2.0, "bandwidth_mode": "constant"}
    a = fitted("laplace", X.astype(dtype), y, **options).predict(Q)
    b = fitted("laplace", far.astype(dtype), np.r_[y, 0], sample_weight=weight, **options)
    np.testing.assert_allclose(b.predict(Q), a, atol=1e-8 if dtype == np.float64 else 1e-3)
