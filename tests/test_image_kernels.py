# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of images: patches, values, gradients."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.nn import functional

from rfmlearn.kernels import NNGP, NTK, Laplace, Rows
from rfmlearn.kernels._convolution import ConvolutionalKernel
from rfmlearn.kernels._geometry import geometry_of
from rfmlearn.kernels._patches import Grid, PatchKernel

f64 = torch.float64
SHAPE = (2, 6, 5)
GRIDS = {
    "plain": Grid(SHAPE, (3, 3)),
    "stride": Grid(SHAPE, (2, 3), 2),
    "padding": Grid(SHAPE, (3, 3), 1, (1, 1)),
}


def images(n, seed=0, shape=SHAPE):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, int(np.prod(shape)))))


def kernels(grid):
    yield PatchKernel(grid, Laplace())
    yield PatchKernel(grid, NTK(1))
    for depth in (1, 2):
        for tangent in (True, False):
            for pooling in (True, False):
                if depth == 2 and min(grid.size) < max(grid.patch) and grid.padding == (0, 0):
                    continue
                yield ConvolutionalKernel(grid, depth, tangent, pooling)


# ------------------------------------------------------------------------------ patches


@pytest.mark.parametrize("name", GRIDS)
def test_patches_are_cut_row_by_row(name):
    grid, X = GRIDS[name], images(3)
    around = [(0, 0), (0, 0), *((p, p) for p in grid.padding)]
    padded = np.pad(X.numpy().reshape(3, *SHAPE), around)
    expected = [
        padded[:, :, i : i + grid.patch[0], j : j + grid.patch[1]].reshape(3, -1)
        for i in range(0, padded.shape[2] - grid.patch[0] + 1, grid.stride)
        for j in range(0, padded.shape[3] - grid.patch[1] + 1, grid.stride)
    ]
    U = grid.unfold(X)
    assert_array_equal(U, np.stack(expected, axis=1))
    assert U.shape[1:] == (grid.positions, grid.patch_length)
    # fold is the transpose of unfold
    V = torch.randn(U.shape, generator=torch.manual_seed(0), dtype=f64)
    assert_allclose((U * V).sum(), (X * grid.fold(V)).sum(), rtol=1e-12)
    # windows of a further layer hold what its patches hold
    inner = Grid((1, *SHAPE[1:]), grid.patch, grid.stride, grid.padding)
    single = images(1, 1, inner.image_shape)
    filled = torch.cat([single[0], torch.zeros(1, dtype=f64)])[inner.windows()]
    assert_array_equal(filled, inner.unfold(single)[0])


def test_a_patch_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="A patch of 7 x 3 does not fit into an image of 6 x 5"):
        Grid(SHAPE, (7, 3))
    with pytest.raises(ValueError, match="does not fit"):
        ConvolutionalKernel(Grid(SHAPE, (3, 3)), 3)


# ------------------------------------------------------------------------------ kernels


@pytest.mark.parametrize("name", GRIDS)
def test_gradients_are_finite_differences(name):
    grid, X, Z = GRIDS[name], images(4), images(3, 1)
    root = torch.linalg.qr(torch.randn(grid.patch_length, grid.patch_length, dtype=f64))[0]
    root = root @ torch.diag(torch.linspace(0.3, 1.5, grid.patch_length, dtype=f64)) @ root.mT
    coef = torch.randn(3, 2, generator=torch.manual_seed(1), dtype=f64)
    for kernel in kernels(grid):

        def outputs(X, kernel=kernel):
            return kernel.matrix(kernel.rows(X, root), kernel.rows(Z, root)) @ coef

        # in the metric, then in pixels
        slots = kernel.gradients(kernel.rows(X, root), kernel.rows(Z, root), coef) @ root
        found, step = geometry_of(kernel).fold(slots), 1e-5
        for k in range(0, X.shape[1], 7):
            e = step * torch.eye(X.shape[1], dtype=f64)[k]
            numeric = (outputs(X + e) - outputs(X - e)) / (2 * step)
            assert_allclose(found[:, :, k], numeric, atol=2e-8 * found.abs().max())
        # slots are independent of each other: move one patch, leave the pixels it shares
        U, moved = kernel.rows(X, root), kernel.rows(X, root)
        p = grid.positions // 2
        for number, sign in ((0, 1), (1, -1)):
            moved = kernel.rows(X, root)
            moved.values[:, p, 1] += sign * step
            moved = type(moved)(moved.values, moved.values.square().sum(-1), moved.resolution)
            value = kernel.matrix(moved, kernel.rows(Z, root)) @ coef
            total = value if number == 0 else total - value  # noqa: F821
        G = kernel.gradients(U, kernel.rows(Z, root), coef).unflatten(1, (2, grid.positions))
        assert_allclose(G[:, :, p, 1], total / (2 * step), atol=2e-8 * G.abs().max())


@pytest.mark.parametrize("name", GRIDS)
def test_matrices_are_symmetric_positive_and_free_of_tiles(name, monkeypatch):
    grid, X = GRIDS[name], images(9)
    X[4], X[5] = X[3], 0.0
    for kernel in kernels(grid):
        rows = kernel.rows(X)
        K = kernel.gram(rows)
        assert torch.equal(K, K.mT)
        assert torch.linalg.eigvalsh(K)[0] > -1e-12 * K.diagonal().mean()
        assert_allclose(kernel.matrix(rows, rows, torch.arange(9)), K, rtol=1e-10, atol=1e-12)
        G = kernel.gradients(rows, rows, torch.ones(9, 1, dtype=f64), torch.arange(9))
        assert torch.isfinite(G).all()
        with monkeypatch.context() as small:
            small.setattr("rfmlearn._backend.block_bytes", lambda device: 8 * 8)
            assert_allclose(kernel.gram(rows), K, rtol=1e-10, atol=1e-12)
            again = kernel.gradients(rows, rows, torch.ones(9, 1, dtype=f64), torch.arange(9))
        assert_allclose(again, G, atol=1e-9 * G.abs().max())


def test_a_patch_as_large_as_the_image_is_a_fully_connected_network():
    X, Z = images(5), images(4, 1)
    whole = Grid(SHAPE, SHAPE[1:])
    for tangent, kind in ((True, NTK), (False, NNGP)):
        base = kind(1, weight_std=2**0.5, bias_std=0.1)
        expected = base.matrix(Rows.of(X), Rows.of(Z))
        for kernel in (PatchKernel(whole, base), ConvolutionalKernel(whole, 1, tangent)):
            assert_allclose(
                kernel.matrix(kernel.rows(X), kernel.rows(Z)),
                expected,
                rtol=1e-13,
            )
            pooled = ConvolutionalKernel(whole, 1, tangent, True)
            assert_allclose(
                pooled.matrix(kernel.rows(X), kernel.rows(Z)),
                expected,
                rtol=1e-13,
            )


def test_a_patch_of_one_pixel_is_the_mean_over_positions():
    X, Z, single = images(5), images(4, 1), Grid(SHAPE, (1, 1))
    for depth in (1, 2, 3):
        for tangent, kind in ((True, NTK), (False, NNGP)):
            base = kind(depth, weight_std=2**0.5, bias_std=0.1)
            U, V = (x.reshape(len(x), 2, 30) for x in (X, Z))
            expected = sum(base.matrix(Rows.of(U[:, :, p]), Rows.of(V[:, :, p])) for p in range(30))
            kernel = ConvolutionalKernel(single, depth, tangent)
            found = kernel.matrix(kernel.rows(X), kernel.rows(Z))
            assert_allclose(found, expected / 30, rtol=1e-12)


@pytest.mark.parametrize("pooling", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
def test_kernels_are_those_of_wide_networks(depth, pooling):
    # width 400, 60 networks: the mean over networks and its own spread
    width, nets, b = 400, 60, 0.1
    X = images(3, shape=(2, 5, 5)).numpy()
    grid = Grid((2, 5, 5), (3, 3), 1, (1, 1))
    rng, Ts, Ks = np.random.default_rng(0), [], []
    for _ in range(nets):
        h, channels, pre = torch.from_numpy(X).reshape(3, 2, 5, 5), 2, []
        weights = []
        for _ in range(depth):
            W = torch.from_numpy(rng.normal(size=(width, channels, 3, 3))).requires_grad_()
            beta = torch.from_numpy(rng.normal(size=width)).requires_grad_()
            scale = (2 / (channels * 9)) ** 0.5
            h = functional.conv2d(h, scale * W, b * beta, padding=1).relu()
            channels, pre = width, [*pre, h]
            weights += [W, beta]
        flat = h.mean((2, 3)) if pooling else h.flatten(1)
        v = torch.from_numpy(rng.normal(size=flat.shape[1])).requires_grad_()
        c = torch.from_numpy(rng.normal(size=1)).requires_grad_()
        f = (2 / flat.shape[1]) ** 0.5 * flat @ v + b * c
        grads = [torch.autograd.grad(y, [*weights, v, c], retain_graph=True) for y in f]
        J = torch.stack([torch.cat([g.flatten() for g in row]) for row in grads])
        Ts.append((J @ J.mT).numpy())
        Ks.append((2 / flat.shape[1] * flat @ flat.mT + b * b).detach().numpy())
    for tangent, found in ((True, Ts), (False, Ks)):
        kernel = ConvolutionalKernel(grid, depth, tangent, pooling)
        expected = kernel.gram(kernel.rows(torch.from_numpy(X))).numpy()
        error = np.std(found, axis=0) / nets**0.5
        bias = 3 / width * expected.max()  # of a finite width
        assert (np.abs(np.mean(found, axis=0) - expected) < 4 * error + bias).all()
