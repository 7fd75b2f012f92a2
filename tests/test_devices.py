# SPDX-License-Identifier: BSD-3-Clause
"""Placement: the whole recursion on a fake GPU, and for real on every device there is."""

import numpy as np
import pytest
import torch
from fake_cuda import fake_cuda, get_item, set_item, to
from sklearn.base import clone

from rfmlearn import ABCMLPRegressor, RFMClassifier, RFMRegressor, _backend
from rfmlearn.kernels import KERNELS, Rows, resolve_kernel
from rfmlearn.kernels._convolution import ConvolutionalKernel
from rfmlearn.kernels._patches import Grid, PatchKernel
from rfmlearn.kernels._rows import squared_distances
from rfmlearn.neural import layer_features
from rfmlearn.rfm._problems import AllRows, OnCenters
from rfmlearn.rfm._recursion import recursive_features
from rfmlearn.rfm._spec import RecursionSpec
from rfmlearn.solvers import SOLVERS, CholeskySolver, KernelSystem, PCGSolver

GRID = Grid((2, 4, 4), (3, 3), 1, (1, 1))
REAL = ["cpu"]
REAL += [f"cuda:{i}" for i in range(torch.cuda.device_count())]
REAL += ["mps"] if torch.backends.mps.is_available() else []


@pytest.fixture
def fake(monkeypatch):
    """A mode in which tensors have a device and a shape but no values.

    Every question that the code asks of a value is whether something went wrong; the
    answer is no.
    """
    monkeypatch.setattr(_backend, "holds", lambda condition: False)
    with fake_cuda():
        yield


@pytest.mark.parametrize("kernel", sorted(KERNELS))
@pytest.mark.parametrize("solver", sorted(SOLVERS))
@pytest.mark.parametrize("diag", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_samples", [None, 20])
def test_the_recursion_stays_on_its_device(fake, kernel, solver, diag, weighted, n_samples):
    check_placement(kernel, diag, weighted, n_samples, solver=SOLVERS[solver]())


@pytest.mark.parametrize("kernel", sorted(KERNELS))
@pytest.mark.parametrize("diag", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_never_stored_stays_on_its_device(fake, kernel, diag, weighted):
    check_placement(kernel, diag, weighted, None, solver=PCGSolver(), dense=False, outputs=2)
    check_placement(kernel, diag, weighted, 20, centers=(torch.arange(10), torch.arange(10, 40)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "kernel",
    [
        PatchKernel(GRID, KERNELS["laplace"]()),
        PatchKernel(GRID, KERNELS["ntk"](1)),
        ConvolutionalKernel(GRID, 2, True, False),
        ConvolutionalKernel(GRID, 2, False, True),
    ],
    ids=["patch_laplace", "cntk", "deep", "pooled"],
)
def test_kernels_of_images_stay_on_their_device(fake, kernel, weighted, monkeypatch):
    # torch's own fake of these two indexes in Python, which this build refuses (see fake_cuda)
    def unfold(grid, X):
        return X.new_zeros((len(X), grid.positions, grid.patch_length)) + X[:, None, :1]

    def fold(grid, patches):
        return patches.new_zeros((len(patches), 32)) + patches.sum((1, 2))[:, None]

    monkeypatch.setattr(Grid, "unfold", unfold)
    monkeypatch.setattr(Grid, "fold", fold)
    check_placement(kernel, False, weighted, 20, d=32, solver=CholeskySolver())


def test_corrections_in_float32_stay_on_their_device(fake, monkeypatch):
    monkeypatch.setattr("rfmlearn.solvers._pcg._CORRECTED_FROM", 10)
    device = torch.device("cuda")
    X = torch.randn(50, 4, device=device, dtype=torch.float64)
    Y = torch.randn(50, 3, device=device, dtype=torch.float64)
    K = KERNELS["laplace"]().gram(Rows.of(X))
    solver = PCGSolver()
    assert solver.solve(KernelSystem(K, 0.1), Y).coef.device.type == "cuda"
    one_round = solver._corrections(KernelSystem(K, 0.1), torch.float32)
    x, _ = one_round(torch.zeros_like(Y), Y, Y.norm(dim=0), 0.1, 3)
    assert (x.device.type, x.dtype) == ("cuda", torch.float64)


def check_placement(
    kernel, diag, weighted, n_samples, d=4, outputs="all", centers=None, solver=None, dense=True
):
    device, n, c = torch.device("cuda"), 50, 3
    X, Y = torch.randn(n, d, device=device), torch.randn(n, c, device=device)
    spec = RecursionSpec(
        alphas=(1e-3, 1.0),
        agop_alpha=0.1,
        max_iter=2,
        diag=diag,
        agop_power=0.5,
        center_gradients=outputs == "all",
        n_agop_samples=n_samples,
        agop_outputs=outputs,
    )
    weight = torch.ones(n, device=device) if weighted else None
    data = X, Y, weight, torch.zeros(d, device=device), resolve_kernel(kernel)
    problem = AllRows(*data, solver, dense) if centers is None else OnCenters(*data, centers)
    states = recursive_features(problem, spec)
    states = list(states)
    assert len(states) == 3
    for state in states:
        predictor = state.predictor
        for tensor in (
            predictor.coef,
            predictor.bandwidth,
            predictor.rows.values,
            predictor.rows.resolution,
            state.solutions[1].residual,
            state.solutions[1].jitter,
            predictor.scores(torch.randn(70, d, device=device)),
            predictor.gradients(torch.randn(70, d, device=device)),
            predictor.scores(torch.randn(70, d)),  # further rows may come from the host
        ):
            assert tensor.device.type == "cuda"
            assert tensor.dtype == torch.float32


def test_the_fake_device_would_notice_a_mix(fake):
    x = torch.randn(3, 2, device="cuda")
    with pytest.raises(RuntimeError, match="device"):
        x + torch.randn(3, 2)
    with pytest.raises(RuntimeError, match="device"):
        x[:2] @ torch.randn(2, 2)


def test_the_fake_indexing_is_that_of_torch():
    x = torch.arange(24.0).reshape(4, 6)
    i, j = torch.tensor([0, 3, 1]), torch.tensor([5, 0, 2])
    for index in (
        1,
        slice(1, 3),
        i,
        (i, j),
        (slice(None), slice(2, 4)),
        (slice(None), None),
        (slice(None), -1),
        (slice(None), slice(-2, None), None),
        slice(None, 2),
    ):
        assert torch.equal(get_item(x, index), x[index]), index
    for index, value in (
        (1, 7.0),
        (slice(1, 3), torch.zeros(2, 6)),
        ((i, j), -1.0),
        ((i, j), torch.arange(3.0)),
        ((slice(0, 2), slice(1, 3)), 4.0),
    ):
        a, b = x.clone(), x.clone()
        a[index] = value
        set_item(b, index, value)
        assert torch.equal(a, b), index
    assert to(x, "cpu", torch.float64).dtype == to(x, i.double()).dtype == torch.float64


@pytest.mark.parametrize("device", REAL)
@pytest.mark.parametrize("Estimator", [RFMRegressor, RFMClassifier])
def test_every_real_device_gives_the_answer_of_the_cpu(device, Estimator):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5)).astype(np.float32)
    y = X[:, 0] * X[:, 1]
    if Estimator is RFMClassifier:
        y = (y > 0).astype(int)
    expected = Estimator(n_agop_samples=100, random_state=0).fit(X, y)
    model = Estimator(n_agop_samples=100, random_state=0, device=device).fit(X, y)
    # half of the relative residual that a solver accepts, 4 sqrt(eps)
    np.testing.assert_allclose(model.feature_matrix_, expected.feature_matrix_, atol=7e-4)
    np.testing.assert_allclose(model.input_gradients(X), expected.input_gradients(X), atol=2e-2)


def test_auto_takes_what_there_is():
    assert _backend.resolve_device("auto").type == REAL[-1].split(":")[0]
    X = np.random.default_rng(0).normal(size=(20, 2))
    RFMRegressor(device="auto", max_iter=1).fit(X.astype(np.float32), X[:, 0]).predict(X)


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "meta", "cpu:1"])
def test_a_device_that_is_not_there_is_refused(device):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=r"device='.*' (is not|was asked for)"):
        RFMRegressor(device=device).fit(X, X[:, 0])
    model = RFMRegressor(max_iter=1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="device="):
        model.set_params(device=device).predict(X)


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is there")
def test_cuda_is_not_replaced_by_the_cpu_in_silence():
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(ValueError, match=r"device='cuda' was asked for.*Use device='cpu'"):
        RFMClassifier(device="cuda").fit(X, X[:, 0] > 0)


def test_random_rows_do_not_touch_the_global_generator():
    before = torch.get_rng_state()
    a = _backend.random_rows(100, 10, 3, "cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(a, _backend.random_rows(100, 10, 3, "cpu"))
    assert len(set(a.tolist())) == 10


def test_the_rare_branches_stay_on_their_device_too(monkeypatch):
    device = torch.device("cuda")
    with fake_cuda():
        found = torch.zeros(5, dtype=torch.long, device=device)
        # every pair is said to be close
        monkeypatch.setattr(_backend, "holds", lambda condition: True)
        monkeypatch.setattr(_backend, "positions", lambda mask: (found,) * mask.ndim)
        rows = Rows.of(torch.randn(30, 4, device=device), torch.randn(4, 4, device=device))
        sq, pairs = squared_distances(rows[:10], rows, (torch.arange(10, device=device),) * 2)
        assert {t.device.type for t in (sq, *pairs)} == {"cuda"}
        solver = CholeskySolver()
        monkeypatch.setattr(_backend, "holds", lambda condition: False)
        system = KernelSystem(torch.randn(30, 30, device=device), 0.1)
        b = solver.solve(system, torch.randn(30, 2, device=device)).coef
        size = shift = torch.ones((), device=device)
        refined, residual = solver._refine(system, b, shift, b, size, 1e-4)
        assert refined.device.type == residual.device.type == "cuda"
        assert refined.dtype == torch.float32


@pytest.mark.parametrize("device", REAL)
def test_networks_train_alike_on_every_device(device):
    X = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    net = ABCMLPRegressor((16, 8), max_epochs=10, random_state=0)
    here, there = (clone(net).set_params(device=d).fit(X, X[:, 0]) for d in ("cpu", device))
    np.testing.assert_allclose(there.predict(X), here.predict(X), atol=1e-4)
    module = here.to_torch().to(device)
    for a, b in zip(layer_features(module, X), layer_features(here, X)):
        assert isinstance(a.agop, np.ndarray)
        np.testing.assert_allclose(a.agop, b.agop, rtol=1e-3, atol=1e-5)
    assert next(module.parameters()).device.type == device.split(":")[0]
