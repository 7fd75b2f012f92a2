# SPDX-License-Identifier: BSD-3-Clause
"""Every registered solver against a float64 solution, and what happens when there is none."""

import numpy as np
import pytest
import scipy.linalg
import torch
from numpy.linalg import LinAlgError

from rfmlearn import RFMRegressor
from rfmlearn.kernels import Gaussian, RadialKernel, Rows
from rfmlearn.solvers import SOLVERS, KernelSystem, NotPositiveDefiniteError, resolve_solver

solvers = pytest.mark.parametrize("name", sorted(SOLVERS))


def kernel_matrix(n=80, d=3, dtype=torch.float64, width=1.0):
    X = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return Gaussian().gram(Rows.of(X.to(dtype), bandwidth=width))


@solvers
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_all_columns_equal_the_direct_solution(name, weighted, dtype):
    K = kernel_matrix(dtype=dtype)
    rng = np.random.default_rng(1)
    Y, w = rng.normal(size=(80, 3)), rng.uniform(0.1, 4, 80) if weighted else np.ones(80)
    alpha = 0.1
    expected = scipy.linalg.solve(K.double().numpy() + alpha * np.diag(1 / w), Y, assume_a="pos")
    s = torch.as_tensor(w, dtype=dtype).sqrt() if weighted else None
    system = KernelSystem(K if s is None else s[:, None] * K * s, alpha, s)
    before = system.matrix.clone()
    solution = resolve_solver(name).solve(system, torch.as_tensor(Y, dtype=dtype))
    assert torch.equal(system.matrix, before)
    # condition number of the system: at most (80 * 4 + alpha) / alpha; the error is at most
    # that times the residual, which is rounding for a direct solver
    residual = 100 * torch.finfo(dtype).eps
    if name == "pcg":
        residual += resolve_solver(name).tol_for(dtype)
    norms = np.linalg.norm(expected, axis=0).max()
    np.testing.assert_allclose(solution.coef.double(), expected, atol=3200 * residual * norms)
    assert float(solution.jitter) == 0
    assert float(solution.residual) < residual
    assert bool(solution.converged)


@solvers
def test_a_solver_serves_systems_of_different_sizes_in_turn(name):
    solver = resolve_solver(name)
    for n in (30, 50, 30):
        K, y = kernel_matrix(n), torch.ones(n, 1, dtype=torch.float64)
        coef = solver.solve(KernelSystem(K, 0.5), y).coef
        # relative to the norm of y, the root of n
        np.testing.assert_allclose(K @ coef + 0.5 * coef, y, atol=1e-10 * n**0.5)


@solvers
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_singular_matrix_gets_a_jitter_and_says_so(name, dtype):
    # two equal rows with different targets and no ridge: no solution without jitter
    K = kernel_matrix(40, dtype=dtype, width=5.0)
    K = torch.cat([torch.cat([K, K], 1), torch.cat([K, K], 1)])
    y = torch.randn(80, 1, dtype=dtype, generator=torch.Generator().manual_seed(3))
    solution = resolve_solver(name).solve(KernelSystem(K, 0.0), y)
    eps = torch.finfo(dtype).eps
    assert 0 < float(solution.jitter) <= 80 * eps**0.5
    assert float(solution.residual) <= 4 * eps**0.5
    shifted = K.double() + float(solution.jitter) * torch.eye(80, dtype=torch.float64)
    residual = shifted @ solution.coef.double() - y.double()
    assert residual.norm() / y.double().norm() < 4.1 * eps**0.5


@solvers
def test_an_indefinite_matrix_is_a_typed_error(name):
    K = -torch.eye(5, dtype=torch.float64)
    with pytest.raises(NotPositiveDefiniteError, match="Raise alpha"):
        resolve_solver(name).solve(KernelSystem(K, 0.1), torch.ones(5, 1, dtype=torch.float64))
    assert issubclass(NotPositiveDefiniteError, LinAlgError)


@solvers
def test_nan_is_told_apart_from_an_indefinite_matrix(name):
    K = kernel_matrix(5)
    K[2, 3] = K[3, 2] = torch.nan
    with pytest.raises(NotPositiveDefiniteError, match="holds NaN or inf"):
        resolve_solver(name).solve(KernelSystem(K, 0.1), torch.ones(5, 1, dtype=torch.float64))


def test_a_fit_warns_once_and_names_the_jitter():
    rng = np.random.default_rng(0)
    X = np.tile(rng.normal(size=(30, 2)), (2, 1))
    y = rng.normal(size=60)
    with pytest.warns(scipy.linalg.LinAlgWarning, match=r"up to .*e-.* was added") as record:
        model = RFMRegressor("gaussian", alpha=0.0, max_iter=2).fit(X, y)
    assert len(record) == 1
    assert record[0].filename == __file__
    assert (model.history_["jitter"] > 0).all()
    # duplicates that disagree: only their mean can be fitted
    mean = (y[:30] + y[30:]) / 2
    np.testing.assert_allclose(model.predict(X[:30]), model.predict(X[30:]), atol=1e-9)
    assert np.abs(model.predict(X[:30]) - mean).max() < 0.5 * np.abs(y[:30] - y[30:]).max()


def test_a_kernel_that_is_not_positive_definite_is_reported_by_fit():
    class Distance(RadialKernel):
        def value_(self, sq):
            return -sq.sqrt()

        def slope_(self, sq):
            return -1 / sq.sqrt()

    X = np.random.default_rng(0).normal(size=(20, 2))
    model = RFMRegressor(Distance())
    with pytest.raises(LinAlgError, match="if the kernel is your own"):
        model.fit(X, X[:, 0])
    assert not hasattr(model, "dual_coef_")


@solvers
def test_float32_reaches_its_tolerance_where_one_factorisation_does_not(name):
    # condition number 2e6 = 0.2 / eps, and a target that no kernel row explains
    n = 2000
    X = torch.randn(n, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    K = Gaussian().gram(Rows.of(X.float()))
    y = torch.randn(n, 1, generator=torch.Generator().manual_seed(1))
    alpha = 1e-3
    solution = resolve_solver(name).solve(KernelSystem(K, alpha), y)
    assert float(solution.jitter) == 0
    wide = K.double() + alpha * torch.eye(n, dtype=torch.float64)
    factor = torch.linalg.cholesky_ex(K + alpha * torch.eye(n)).L
    once = torch.cholesky_solve(y, factor)

    def residual(coef):
        return float((wide @ coef.double() - y.double()).norm() / y.double().norm())

    tolerance = 4 * torch.finfo(torch.float32).eps ** 0.5
    assert residual(once) > tolerance
    assert residual(solution.coef) <= tolerance
    np.testing.assert_allclose(float(solution.residual), residual(solution.coef), rtol=0.01)


@pytest.mark.parametrize("seed", range(6))
def test_refinement_is_patient_near_what_float32_can_hold(seed):
    # one condition number, several targets: whether a step halves a residual of so few eps is luck
    n, generator = 1000, torch.Generator().manual_seed(seed)
    X = torch.randn(n, 1, dtype=torch.float64, generator=generator)
    y = torch.randn(n, 1, generator=generator)
    K = Gaussian().gram(Rows.of(X.float()))
    alpha = 5 * torch.finfo(torch.float32).eps * float(torch.linalg.matrix_norm(K, 2))
    solution = resolve_solver("cholesky").solve(KernelSystem(K, alpha), y)
    assert float(solution.jitter) == 0
    wide = K.double() + alpha * torch.eye(n, dtype=torch.float64)
    left = (wide @ solution.coef.double() - y.double()).norm() / y.double().norm()
    assert float(left) <= 4 * torch.finfo(torch.float32).eps ** 0.5


@solvers
def test_a_target_of_zeros_has_the_solution_zero(name):
    K = kernel_matrix(20)
    solution = resolve_solver(name).solve(KernelSystem(K, 0.1), torch.zeros(20, 2).double())
    assert not solution.coef.any()
    assert float(solution.residual) == float(solution.jitter) == 0
