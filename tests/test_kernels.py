# SPDX-License-Identifier: BSD-3-Clause
"""Every registered kernel: values, symmetry, positive definiteness, tiny distances."""

import numpy as np
import pytest
import reference
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp
from sklearn.kernel_ridge import KernelRidge

from rfmlearn import RFMRegressor
from rfmlearn.kernels import (
    KERNELS,
    Kernel,
    Laplace,
    Lpq,
    Matern,
    Polynomial,
    PowerExponential,
    ProductLaplace,
    RadialKernel,
    RationalQuadratic,
    Rows,
    resolve_kernel,
)
from rfmlearn.kernels._rows import squared_distances

# of those of infinitely wide networks test_infinite_width.py has the references
INVARIANT = [name for name in sorted(KERNELS) if KERNELS[name].translation_invariant]
kernels = pytest.mark.parametrize("name", INVARIANT)


def rows(n=30, d=3, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, dtype=torch.float64, generator=generator).to(dtype)


@kernels
def test_values_follow_the_formula(name):
    X, Q = rows(), rows(20, seed=1)
    K = KERNELS[name]().matrix(Rows.of(Q, bandwidth=1.7), Rows.of(X, bandwidth=1.7))
    expected = reference.matrix(name, Q.numpy(), X.numpy(), np.eye(3), 1.7)
    np.testing.assert_allclose(K, expected, rtol=1e-13)


@kernels
def test_the_gram_matrix_is_symmetric_positive_definite_with_unit_diagonal(name):
    K = KERNELS[name]().gram(Rows.of(rows(300)))
    assert torch.equal(K, K.T)
    assert torch.equal(K.diagonal(), torch.ones(300, dtype=K.dtype))
    assert torch.linalg.eigvalsh(K)[0] > 0
    twice = KERNELS[name]().gram(Rows.of(rows(20).repeat(2, 1)))
    assert torch.linalg.eigvalsh(twice)[0] > -1e-13


@pytest.mark.parametrize("exponent", [0.0, -1.0, 2.1])
def test_an_exponent_outside_0_to_2_is_refused(exponent):
    with pytest.raises(ValueError, match=r"must lie in \(0, 2\]"):
        PowerExponential(exponent)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("gap", [1e-9, 1e-6, 1e-3, 1.0])
def test_tiny_distances_keep_their_digits(dtype, gap):
    # far from the origin, so that the expanded form would be left with no digit at all
    a = rows(50, 8, dtype=dtype) + 5
    step = torch.nn.functional.normalize(rows(50, 8, seed=1)).to(dtype) * gap
    b = a + step
    sq, _ = squared_distances(Rows.of(b), Rows.of(a))
    true = (b.double() - a.double()).square().sum(1)
    eps = torch.finfo(dtype).eps
    rtol = 40 * eps if gap < 1 else 40 * eps * 250  # |u|^2 + |v|^2 is at most 500 here
    np.testing.assert_allclose(sq.diagonal().double(), true, rtol=rtol)


def test_equal_rows_are_at_distance_zero_whatever_block_they_come_in():
    X, S = rows(40, 6), rows(6, 6, seed=1)
    all_rows = Rows.of(X, S, 0.3)
    one_by_one = [Rows.of(X[i : i + 1], S, 0.3) for i in range(40)]
    for i, row in enumerate(one_by_one):
        sq, (_, columns) = squared_distances(row, all_rows)
        assert sq[0, i] == 0
        assert columns.tolist() == [i]


def test_self_pairs_are_zero_and_reported():
    X = Rows.of(rows(20))
    index = torch.tensor([3, 3, 19])
    sq, (i, j) = squared_distances(X[index], X, (torch.arange(3), index))
    assert sq[[0, 1, 2], index].tolist() == [0, 0, 0]
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == [(0, 3), (1, 3), (2, 19)]


def test_rows_that_differ_in_a_null_direction_of_the_metric_coincide():
    X = rows(10, 4)
    v = torch.tensor([1.0, 1.0, 0, 0], dtype=torch.float64)
    S = torch.outer(v, v) / 10  # rank one
    moved = X + 100 * torch.tensor([1.0, -1.0, 2.0, 3.0], dtype=torch.float64)
    sq, (i, j) = squared_distances(Rows.of(moved, S), Rows.of(X, S))
    assert torch.equal(sq.diagonal(), torch.zeros(10, dtype=torch.float64))
    assert set(zip(i.tolist(), j.tolist(), strict=True)) == {(k, k) for k in range(10)}


@kernels
def test_duplicated_rows_leave_gradients_finite_and_right(name):
    X = rows(15)
    double = X.repeat(2, 1)
    coef = torch.randn(30, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    G = KERNELS[name]().gradients(Rows.of(double), Rows.of(double), coef)
    expected = [
        [
            reference.gradient(name, x, double.numpy(), coef[:, c].numpy(), np.eye(3), 1.0)
            for c in range(2)
        ]
        for x in double.numpy()
    ]
    np.testing.assert_allclose(G, expected, atol=1e-12)


@kernels
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_coincide_at_the_median_do_no_harm(name, dtype):
    # the data are centred at the median, which for discrete columns is itself a row
    rng = np.random.default_rng(0)
    X = rng.integers(-1, 2, size=(60, 2)).astype(dtype)
    assert (np.median(X, axis=0) == X).all(axis=1).sum() > 1
    y = X[:, 0] + rng.normal(size=60)
    model = RFMRegressor(name, alpha=0.1, max_iter=3).fit(X, y)
    assert np.isfinite(model.feature_matrix_).all()
    assert np.isfinite(model.input_gradients(X)).all()
    expected = reference.rfm(X.astype(float), y[:, None], kernel=name, alpha=0.1, max_iter=3)[0]
    atol = 1e-8 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(model.feature_matrix_, expected, atol=atol)


def test_a_slope_that_is_not_finite_is_reported():
    class Broken(RadialKernel):
        def value_(self, sq):
            return torch.exp(-sq)

        def slope_(self, sq):
            return torch.full_like(sq, torch.nan)

    X = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(ValueError, match="its slope is not finite"):
        RFMRegressor(Broken()).fit(X, X[:, 0])


def test_a_kernel_of_the_users_own():
    class Matern32(RadialKernel):
        """exp(-r) (1 + r)"""

        def value_(self, sq):
            r = sq.sqrt()
            return (1 + r) * torch.exp(-r)

        def slope_(self, sq):
            return -torch.exp(-sq.sqrt())

    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    y = np.sin(X[:, 0])
    model = RFMRegressor(Matern32(), max_iter=2).fit(X, y)
    assert model.score(X, y) > 0.9
    step = 1e-5 * np.eye(3)
    numeric = np.stack([(model.predict(X + e) - model.predict(X - e)) / 2e-5 for e in step], axis=1)
    np.testing.assert_allclose(model.input_gradients(X)[:, 0], numeric, atol=1e-8)


def test_names_resolve_to_kernels():
    assert resolve_kernel("power_exponential") == PowerExponential(1.5)
    kernel = PowerExponential(0.5)
    assert resolve_kernel(kernel) is kernel


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Matern(), gp.Matern(1.3, nu=1.5)),
        (Matern(2.5), gp.Matern(1.3, nu=2.5)),
        (RationalQuadratic(), gp.RationalQuadratic(1.3, 1.0)),
        (RationalQuadratic(0.2), gp.RationalQuadratic(1.3, 0.2)),
        (RationalQuadratic(1e6), gp.RBF(1.3)),
    ],
    ids=str,
)
def test_kernels_of_gaussian_processes(ours, theirs):
    X, Q = rows(), rows(20, seed=1)
    K = ours.matrix(Rows.of(Q, bandwidth=1.3), Rows.of(X, bandwidth=1.3))
    # a million widths are one to the fourth power of the distance, in units of the mixture
    rtol = 1e-4 if ours == RationalQuadratic(1e6) else 1e-12
    np.testing.assert_allclose(K, theirs(Q.numpy(), X.numpy()), rtol=rtol)
    model = RFMRegressor(ours, bandwidth=1.3, bandwidth_mode="constant", max_iter=0, alpha=0.1)
    y = np.sin(X[:, 0].numpy())
    process = GaussianProcessRegressor(theirs, alpha=0.1, optimizer=None)
    process.fit(X.numpy(), y - y.mean())
    found = model.fit(X.numpy(), y).predict(Q.numpy()) - y.mean()
    np.testing.assert_allclose(found, process.predict(Q.numpy()), atol=10 * rtol)
    step = 1e-5 * np.eye(3)
    up, down = (np.stack([model.predict(X.numpy() + s * e) for e in step], 1) for s in (1, -1))
    np.testing.assert_allclose(
        model.input_gradients(X.numpy())[:, 0], (up - down) / 2e-5, atol=1e-8
    )


@pytest.mark.parametrize(
    ("ours", "twin"),
    [
        (Lpq(1, 1), ProductLaplace()),
        (Lpq(2, 1), Laplace()),
        (Lpq(2.0, 0.5), PowerExponential(0.5)),
        (Lpq(2, 2), PowerExponential(2.0)),
    ],
    ids=str,
)
@pytest.mark.parametrize("diag", [False, True])
def test_p_norms_of_other_kernels(ours, twin, diag):
    X = rows(40).numpy()
    X = np.vstack([X, X[:3]])  # rows at no distance
    y = np.sin(X[:, 0]) + X[:, 1]
    a, b = (RFMRegressor(k, max_iter=2, diag=diag, alpha=0.1).fit(X, y) for k in (ours, twin))
    np.testing.assert_allclose(a.feature_matrix_, b.feature_matrix_, atol=1e-8)
    np.testing.assert_allclose(a.predict(rows(20, seed=1)), b.predict(rows(20, seed=1)), atol=1e-8)


def test_a_polynomial_is_learned_exactly():
    X, Q = rows(60).numpy(), rows(20, seed=1).numpy()

    def target(X):
        return X[:, 0] * X[:, 1] ** 2 - 2 * X[:, 2] + 1

    model = RFMRegressor(Polynomial(3), alpha=1e-10, max_iter=0).fit(X, target(X))
    np.testing.assert_allclose(model.predict(Q), target(Q), atol=1e-5)
    options = {"bandwidth": 1.3, "bandwidth_mode": "constant", "max_iter": 0, "alpha": 0.1}
    model = RFMRegressor(Polynomial(3, 0.5), **options).fit(X, target(X))
    ridge = KernelRidge(kernel="poly", degree=3, gamma=1 / 1.69, coef0=0.5, alpha=0.1)
    mean, middle = X.mean(axis=0), target(X).mean()
    ridge.fit(X - mean, target(X) - middle)
    np.testing.assert_allclose(model.predict(Q), ridge.predict(Q - mean) + middle, rtol=1e-8)


@pytest.mark.parametrize(
    ("kernel", "parameters", "message"),
    [
        *((Lpq, (p, 0.5), "p=.* must be a number from 1 to 2") for p in (0.5, 2.1, np.nan, "2")),
        *((Lpq, (1.5, q), "q=.* must be above 0 and at most p") for q in (0, 1.6, np.nan, None)),
        *((Polynomial, (d,), "degree=.* whole number") for d in (0, 21, 1.5, "2", None)),
        *((Polynomial, (2, c), "offset=.* negative") for c in (-1, np.inf, np.nan, "1")),
    ],
)
def test_parameters_out_of_range_are_named(kernel, parameters, message):
    with pytest.raises(ValueError, match=message):
        kernel(*parameters)


@pytest.mark.parametrize("nu", [0.5, 1.0, 3.5, np.inf, np.nan, "1.5", None])
def test_a_smoothness_without_a_closed_form_is_refused(nu):
    with pytest.raises(ValueError, match=r"must be 1\.5 or 2\.5"):
        Matern(nu)


@pytest.mark.parametrize("mixture", [0.0, -1.0, np.inf, np.nan, "1", None])
def test_a_mixture_is_a_positive_number(mixture):
    with pytest.raises(ValueError, match=r"mixture=.* must be a positive number"):
        RationalQuadratic(mixture)


def test_the_product_kernel_is_that_of_scikit_learn():
    X, Q = rows().numpy(), rows(20, seed=1).numpy()
    model = RFMRegressor("product_laplace", bandwidth=2.0, bandwidth_mode="constant", max_iter=0)
    model.set_params(alpha=0.1).fit(X, X[:, 0])
    ridge = KernelRidge(kernel="laplacian", gamma=0.5, alpha=0.1)
    ridge.fit(X, X[:, 0] - X[:, 0].mean())
    np.testing.assert_allclose(model.predict(Q), ridge.predict(Q) + X[:, 0].mean(), rtol=1e-10)


def test_the_product_kernel_takes_the_mean_of_both_slopes_where_a_coordinate_is_equal():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    model = RFMRegressor("product_laplace", max_iter=0).fit(X, [1.0, 2.0, 4.0])
    step = 1e-6 * np.eye(2)
    numeric = np.stack([(model.predict(X + e) - model.predict(X - e)) / 2e-6 for e in step], axis=1)
    np.testing.assert_allclose(model.input_gradients(X)[:, 0], numeric, atol=1e-8)


class Own(Kernel):
    """A Gaussian kernel as somebody would write it."""

    def matrix(self, A, B, self_index=None):
        return torch.exp(-torch.cdist(A.values, B.values).square() / 2)

    def gradients(self, A, B, coef, self_index=None):
        D = B.values[None] - A.values[:, None]
        return torch.einsum("ab,abd,bc->acd", self.matrix(A, B), D, coef)


def broken(**methods):
    return type("Broken", (Own,), methods)()


BROKEN = {
    "asymmetric": (
        broken(matrix=lambda s, A, B, i=None: Own().matrix(A, B) * (2 + A.values[:, :1])),
        "not symmetric",
    ),
    "shape": (broken(matrix=lambda s, A, B, i=None: Own().matrix(A, B)[:1]), "returns shape"),
    "dtype": (
        broken(matrix=lambda s, A, B, i=None: Own().matrix(A, B).float()),
        r"returns torch\.float32 for rows of torch\.float64",
    ),
    "type": (
        broken(matrix=lambda s, A, B, i=None: Own().matrix(A, B).numpy()), "returns ndarray"
    ),
    "gradients": (
        broken(gradients=lambda s, A, B, c, i=None: Own().gradients(A, B, c).mT),
        r"gradients returns shape",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("options", [{}, {"solver": "pcg"}, {"n_centers": 20}], ids=str)
def test_a_kernel_of_ones_own_is_asked_before_it_is_trusted(name, options):
    X = np.random.default_rng(0).normal(size=(40, 3))
    kernel, message = BROKEN[name]
    with pytest.raises((ValueError, TypeError), match=message):
        RFMRegressor(kernel, max_iter=1, **options).fit(X, X[:, 0])
    own, ours = (
        RFMRegressor(k, max_iter=1, **options, random_state=0) for k in (Own(), "gaussian")
    )
    found, expected = own.fit(X, X[:, 0]).predict(X), ours.fit(X, X[:, 0]).predict(X)
    # conjugate gradients stop at their tolerance, on centres 1e-8
    np.testing.assert_allclose(found, expected, atol=1e-6)
