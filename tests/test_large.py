# SPDX-License-Identifier: BSD-3-Clause
"""Large systems: conjugate gradients, matrices that are not stored, centres, many outputs."""

import warnings

import numpy as np
import pytest
import scipy.linalg
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from rfmlearn import RFMRegressor, RFMRegressorCV, _backend
from rfmlearn.kernels import KERNELS, Gaussian, Laplace, Rows
from rfmlearn.kernels._lazy import LazyGram
from rfmlearn.rfm._path import Path
from rfmlearn.rfm._spec import RecursionSpec
from rfmlearn.solvers import (
    KernelSystem,
    NotPositiveDefiniteError,
    PCGSolver,
    resolve_solver,
)

kernels = pytest.mark.parametrize("kernel", sorted(KERNELS))


def data(n, d=5, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    return X, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * rng.normal(size=n)


@kernels
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [50, 500, pytest.param(3000, marks=pytest.mark.slow)])
def test_both_solvers_predict_the_same(kernel, weighted, n):
    X, y = data(n)
    Q, _ = data(100, seed=1)
    w = np.random.default_rng(2).uniform(0.2, 3, n) if weighted else None
    predicted = [
        RFMRegressor(kernel, alpha=0.1, max_iter=0, solver=solver).fit(X, y, w).predict(Q)
        for solver in ("cholesky", "pcg")
    ]
    scale = np.abs(predicted[0]).max()
    np.testing.assert_allclose(predicted[1], predicted[0], atol=1e-8 * scale)


def test_updates_on_loose_solutions_learn_the_same_metric():
    X, y = data(300)
    exact = RFMRegressor(alpha=0.1, solver="cholesky").fit(X, y)
    loose = RFMRegressor(alpha=0.1, solver="pcg").fit(X, y)
    # all but the last solved to 1e-3, which moves M by about as much an update
    np.testing.assert_allclose(loose.feature_matrix_, exact.feature_matrix_, atol=5e-3)
    assert (loose.history_["residual"][:-1] > 1e-8).any()
    assert loose.history_["residual"][-1] <= 1e-10
    # early stopping may keep any iterate, so that none is solved loosely
    kept = RFMRegressor(alpha=0.1, solver="pcg", early_stopping=True, random_state=0).fit(X, y)
    assert (kept.history_["residual"] <= 1e-10).all()
    tight = RFMRegressor(alpha=0.1, solver=PCGSolver(tol=1e-12), max_iter=0).fit(X, y)
    assert tight.history_["residual"] <= 1e-12


def test_the_search_scores_the_same_with_either_solver():
    X, y = data(300)
    options = {"kernels": "laplace", "alphas": (0.1, 1.0), "bandwidths": 1.0, "random_state": 0}
    a, b = (RFMRegressorCV(**options, solver=s, cv=2).fit(X, y) for s in ("cholesky", "pcg"))
    a, b = a.cv_results_["mean_test_score"], b.cv_results_["mean_test_score"]
    # guides to 1e-2 in float32: second order in the squared error at its optimum, first
    # order in the metric
    np.testing.assert_allclose(a, b, rtol=2e-2)


@kernels
@pytest.mark.parametrize("weighted", [False, True])
def test_a_lazy_matrix_is_the_stored_one(kernel, weighted, monkeypatch):
    monkeypatch.setitem(_backend.BLOCK_BYTES, "cpu", 40 * 40 * 8)  # tiles of 40
    X = torch.as_tensor(data(130)[0])
    rows = Rows.of(X, bandwidth=2.0)
    s = torch.rand(130, dtype=torch.float64) + 0.1 if weighted else None
    K = KERNELS[kernel]().gram(rows)
    if weighted:
        K = K * s[:, None] * s
    lazy = LazyGram(KERNELS[kernel](), rows, s)
    V = torch.randn(130, 3, dtype=torch.float64)
    np.testing.assert_allclose(lazy @ V, K @ V, rtol=1e-11, atol=1e-11)
    index = torch.tensor([5, 120, 7])
    np.testing.assert_allclose(lazy[:, index], K[:, index], rtol=1e-13)
    np.testing.assert_allclose(lazy.diagonal(), K.diagonal(), rtol=1e-13)
    assert (len(lazy), lazy.dtype, lazy.device) == (130, K.dtype, K.device)


@pytest.mark.parametrize("solver", ["auto", "pcg"])
@pytest.mark.parametrize("max_iter", [0, 1])
def test_a_small_budget_is_kept_by_not_storing_the_matrix(solver, max_iter, monkeypatch):
    X, y = data(400)
    budget = 3 * 400 * 400 * 8 // 4
    whole = RFMRegressor(max_iter=max_iter, alpha=0.1, solver="pcg").fit(X, y)
    monkeypatch.setattr("rfmlearn.kernels.Laplace.gram", None)  # it would store the matrix
    budgeted = RFMRegressor(max_iter=max_iter, alpha=0.1, solver=solver, memory_budget=budget // 2)
    with pytest.raises(MemoryError, match="more than memory_budget"):
        budgeted.fit(X, y)
    monkeypatch.setattr(PCGSolver, "memory", lambda self, n, itemsize: 0)
    budgeted.fit(X, y)
    # a metric of either is that of a solution to 1e-3
    atol = 1e-3 if max_iter else 1e-8
    np.testing.assert_allclose(budgeted.predict(X), whole.predict(X), atol=atol)


@pytest.mark.parametrize("model", [RFMRegressor(max_iter=1), RFMRegressorCV(max_iter=0, cv=2)])
def test_what_takes_long_unasked_is_told(model, monkeypatch):
    X, y = data(400)
    monkeypatch.setattr(PCGSolver, "memory", lambda self, n, itemsize: 0)
    free = 4 * 150 * 150 * 8 // 3  # of which three quarters may be used
    monkeypatch.setattr("rfmlearn._backend.free_bytes", lambda device: free)
    with pytest.warns(UserWarning, match=r"takes long\. n_centers=4000") as told:
        model.fit(X, y)
    assert told[0].filename == __file__
    clone(model).set_params(memory_budget=free).fit(X, y)  # no warning: it was asked for
    clone(model).set_params(n_centers=50).fit(X, y)


def test_a_matrix_that_is_not_stored_is_not_copied_either():
    path = Path.of(RecursionSpec(solver="pcg", memory_budget=2**30))
    m = int(20 * 8000**0.5)
    own = (2 * 8000 * m + 3 * m * m) * 8
    _, dense, need = path.plan(8000, 1, 8)
    assert dense and need == 8000**2 * 12 + own  # the matrix and its float32 copy
    m = int(20 * 20_000**0.5)
    _, dense, need = path.plan(20_000, 1, 8)
    assert not dense and need == (2 * 20_000 * m + 3 * m * m) * 8


def test_auto_takes_what_is_cheaper_and_fits():
    def name(*args, **options):
        return resolve_solver("auto", *args, **options).name

    assert name(1000, 1, 4) == name(3000, 1, 8) == "cholesky"
    assert name(10_000, 1, 4) == name(20_000, 1, 8) == "pcg"
    assert name(5000, 1, 4) == "pcg"
    # many outputs make a step dearer, not the factor
    assert name(5000, 100, 4) == "cholesky"
    assert name(4000, 1, 4) == "pcg"
    assert name(4000, 1, 8) == "cholesky"
    assert name(1000, 1, 8, budget=10**6) == "pcg"
    assert resolve_solver("cholesky", 10**6).name == "cholesky"


def test_what_stops_short_is_warned_of_by_name(monkeypatch):
    monkeypatch.setattr("rfmlearn.solvers._pcg._SMALL", 100)
    X, y = data(300)
    with pytest.warns(ConvergenceWarning, match=r"residual of up to .* left after .* iterations"):
        model = RFMRegressor(solver=PCGSolver(max_iter=3), max_iter=0).fit(X, y)
    assert not model.history_["converged"].any()
    monkeypatch.setattr("rfmlearn.solvers._pcg._SMALL", 4096)
    model = RFMRegressor(solver=PCGSolver(max_iter=3), max_iter=0).fit(
        X, y
    )  # small enough to be factored
    exact = RFMRegressor(solver="cholesky", max_iter=0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-10)


def test_a_matrix_that_is_not_stored_and_not_positive_is_a_typed_error(monkeypatch):
    rows = Rows.of(torch.as_tensor(data(60)[0]))
    lazy = LazyGram(Laplace(), rows)
    monkeypatch.setattr(LazyGram, "_tile", lambda self, i, j: torch.full((60, 60), torch.nan))
    monkeypatch.setattr(LazyGram, "__getitem__", lambda self, key: torch.full((60, 38), torch.nan))
    with pytest.raises(NotPositiveDefiniteError, match="not finite"):
        PCGSolver().solve(KernelSystem(lazy, 0.1), torch.ones(60, 1, dtype=torch.float64))


def test_landmarks_multiply_where_systems_are_hard():
    solver, workspace = PCGSolver(), {}
    X = torch.as_tensor(data(900, 3)[0])
    K = Laplace().gram(Rows.of(X, bandwidth=5.0))
    y = torch.as_tensor(data(900)[1])[:, None]
    first = solver.solve(KernelSystem(K, 1e-4, workspace=workspace), y).n_iter
    second = solver.solve(KernelSystem(K, 1e-4, workspace=workspace), y).n_iter
    assert first > 30
    assert second < first
    # in the next fit they are few again: a solver object remembers nothing
    assert solver.solve(KernelSystem(K, 1e-4), y).n_iter == first


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("c", [1, 3, 8, 9])
def test_a_symmetric_product_is_a_product(dtype, c):
    A = torch.randn(70, 70, dtype=dtype, generator=torch.Generator().manual_seed(0))
    K, V = A + A.T, torch.randn(70, c, dtype=dtype)
    before = V.clone()
    expected = K.numpy().astype(float) @ V.numpy().astype(float)
    eps = torch.finfo(dtype).eps
    np.testing.assert_allclose(_backend.symmetric_product(K, V), expected, atol=500 * eps)
    assert torch.equal(V, before)


def test_float64_is_solved_in_float32_where_that_converges(monkeypatch):
    """Corrections from a float32 copy of the matrix; with a float32-singular one, float64."""
    from rfmlearn.solvers import _pcg

    used = []
    monkeypatch.setattr(
        _pcg, "_nystrom", lambda *args, old=_pcg._nystrom: used.append(args[2]) or old(*args)
    )
    X, y = data(1000, 3)
    rows, Y = Rows.of(torch.as_tensor(X)), torch.as_tensor(np.stack([y, 1e-6 * y**2], axis=1))
    for kernel, alpha, dtypes in (
        (Laplace(), 0.1, [torch.float32]),
        (Gaussian(), 1e-5, [torch.float32, torch.float64]),
    ):
        used.clear()
        K = kernel.gram(rows)
        solution = PCGSolver().solve(KernelSystem(K, alpha), Y)
        assert used == dtypes
        left = K @ solution.coef + alpha * solution.coef - Y
        assert (left.norm(dim=0) <= 1e-10 * Y.norm(dim=0)).all()
        assert solution.converged
        assert solution.coef.dtype == torch.float64


def test_one_set_of_landmarks_serves_all_ridges(monkeypatch):
    calls = []
    from rfmlearn.solvers import _pcg

    monkeypatch.setattr(
        _pcg, "_nystrom", lambda *args, old=_pcg._nystrom: calls.append(1) or old(*args)
    )
    X, y = data(200)
    RFMRegressorCV(
        "laplace", bandwidths=1.0, alphas=(0.1, 1.0, 10.0), cv=2, max_iter=1, solver="pcg",
        refit=False,
    ).fit(X, y)  # fmt: skip
    assert len(calls) == 2 * 2  # folds x iterates


# ------------------------------------------------------- systems that are nearly singular


def hard(case):
    X, y = data(200, 3)
    if case == "duplicates":
        X, y = np.tile(X, (2, 1)), np.concatenate([y, y + 0.1])
    elif case == "one feature repeated":
        X = np.repeat(X[:, :1], 5, axis=1)
    return X, y


@pytest.mark.parametrize("case", ["duplicates", "one feature repeated", "huge bandwidth"])
@pytest.mark.parametrize("alpha", [0.0, 1e-3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("how", [{"solver": "pcg"}, {"n_centers": 150, "random_state": 0}])
def test_nearly_singular_systems_give_a_right_answer_or_say_so(case, alpha, dtype, how):
    X, y = hard(case)
    bandwidth = 1e4 if case == "huge bandwidth" else 1.0
    options = {"alpha": alpha, "bandwidth": bandwidth, "max_iter": 1}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        predicted = RFMRegressor(**options, **how).fit(X.astype(dtype), y).predict(X)
    assert np.isfinite(predicted).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)
        expected = RFMRegressor(**options, solver="cholesky").fit(X, y).predict(X)
    # in units of the target; 150 of 200 or 400 centres are not all rows
    tolerance = 0.05 if "solver" in how else 0.6
    right = np.sqrt(np.mean((predicted - expected) ** 2)) < tolerance * y.std()
    assert right or {w.category for w in said} & {ConvergenceWarning, scipy.linalg.LinAlgWarning}
    # with a ridge, and in float64 throughout, there is no excuse
    assert right or (alpha == 0 and dtype == np.float32)
