# SPDX-License-Identifier: BSD-3-Clause
"""Recursive Feature Machines on image patches: the estimators."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.feature_selection import SelectFromModel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch.nn import functional

from rfmlearn import ConvRFMClassifier, ConvRFMRegressor, RFMRegressor
from rfmlearn.features import alignment, matrix_power
from rfmlearn.kernels import NTK, Laplace
from rfmlearn.neural import layer_features

f64 = torch.float64
SHAPE = (2, 6, 5)


def images(n, seed=0, shape=SHAPE):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, int(np.prod(shape)))))


# ------------------------------------------------------------------------------ estimators


def contrast(n, seed=0, shape=(1, 6, 6)):
    X = images(n, seed, shape).numpy()
    return X, (np.diff(X.reshape(n, *shape), axis=3) ** 2).mean((1, 2, 3))


def test_one_patch_is_the_recursion_on_rows():
    X, y = contrast(60)
    Q = images(10, 1, (1, 6, 6)).numpy()
    for kernel, rows in (("cntk", NTK(1, "relu", 2**0.5, 0.1)), ("patch_laplace", Laplace())):
        conv = ConvRFMRegressor((1, 6, 6), patch_size=6, kernel=kernel, agop_power=1.0).fit(X, y)
        full = RFMRegressor(rows, max_iter=3).fit(X, y)
        assert_allclose(conv.predict(Q), full.predict(Q), rtol=1e-8)
        assert_allclose(conv.feature_matrix_, full.feature_matrix_, rtol=1e-7, atol=1e-8)
        assert_allclose(conv.input_gradients(Q), full.input_gradients(Q), rtol=1e-7, atol=1e-9)
        assert_allclose(conv.transform(Q), full.transform(Q), rtol=1e-7, atol=1e-8)
        assert_allclose(conv.feature_importances_, full.feature_importances_, rtol=1e-7, atol=1e-9)


def test_importances_are_those_of_pixels():
    X, y = contrast(40, shape=SHAPE)
    X[:, 30:] = 7.0  # the second channel says nothing
    model = ConvRFMRegressor(SHAPE, patch_size=(2, 3), stride=2, padding=1, max_iter=1).fit(X, y)
    diagonal = model.feature_matrix_.diagonal().reshape(2, 2, 3)
    expected = np.zeros((2, 8, 7))
    for i in range(0, 7, 2):
        for j in range(0, 5, 2):
            expected[:, i : i + 2, j : j + 3] += diagonal
    expected = expected[:, 1:-1, 1:-1].ravel()
    assert_allclose(model.feature_importances_, expected / expected.sum(), rtol=1e-6)
    chosen = SelectFromModel(model, prefit=True).transform(X)
    assert_array_equal(chosen, X[:, expected >= expected.mean()])


def test_the_metric_is_the_patch_agop_of_the_fitted_function():
    X, y = contrast(40, shape=(2, 5, 5))
    w = np.random.default_rng(1).uniform(0.3, 2, 40)
    options = {"image_shape": (2, 5, 5), "padding": 1, "stride": 2}
    first = ConvRFMRegressor(max_iter=0, **options).fit(X, y, w)
    grid = first.kernel_.grid
    # f as a function of the patches, by autograd on the formula of one hidden layer
    predictor = first._predictor()
    U = predictor.rows.values.clone().requires_grad_()
    P, q = grid.positions, grid.patch_length
    V = predictor.rows.values

    def tangent(u, v):
        k, p, r = (2 / q * (a * b).sum(-1) + 0.01 for a, b in ((u, v), (u, u), (v, v)))
        cos = (k / (p * r).sqrt()).clamp(max=1 - 1e-15)
        th = cos.arccos()
        E = (p * r).sqrt() * (th.sin() + (np.pi - th) * cos) / (2 * np.pi)
        return 2 * E + 0.01 + 2 * (np.pi - th) / (2 * np.pi) * k

    pairs = tangent(U[:, None], V[None]).mean(2)
    # of the own term the kink counts as 0: what is left of it is twice the covariance
    off = 1 - torch.eye(40, dtype=f64)
    own = (4 / q * (U * V).sum(-1)).mean(1)
    total = (pairs * off @ predictor.coef).sum() + (own * predictor.coef[:, 0]).sum()
    (G,) = torch.autograd.grad(total, U)
    expected = torch.einsum("n,npa,npb->ab", torch.from_numpy(w / w.sum()), G, G).numpy()
    second = ConvRFMRegressor(max_iter=1, agop_power=1.0, **options).fit(X, y, w)
    expected /= np.linalg.eigvalsh(expected)[-1]
    assert P == 9
    assert_allclose(second.feature_matrix_, expected, atol=1e-7)


def test_weights_are_repetitions():
    X, y = contrast(30)
    times = np.random.default_rng(0).integers(0, 3, 30)
    model = ConvRFMRegressor((1, 6, 6), max_iter=1, alpha=0.1)
    weighted = model.fit(X, y, sample_weight=times).predict(X)
    repeated = model.fit(X.repeat(times, 0), y.repeat(times)).predict(X)
    assert_allclose(weighted, repeated, rtol=1e-6)


def test_images_are_mapped_and_filters_read():
    X, y = contrast(80, shape=(2, 6, 6))
    model = ConvRFMRegressor((2, 6, 6), patch_size=(2, 3), agop_power=1.0).fit(X, y)
    assert model.components_.shape == (12, 2, 2, 3)
    M = np.einsum("k,ka,kb->ab", model.strengths_, *(model.components_.reshape(12, -1),) * 2)
    assert_allclose(M, model.feature_matrix_, atol=1e-10)
    patches = model.kernel_.grid.unfold(torch.from_numpy(X)).numpy()
    norms = np.sqrt(np.einsum("npa,ab,npb->np", patches, model.feature_matrix_, patches))
    assert_allclose(model.patch_norms(X).reshape(80, -1), norms, rtol=1e-7, atol=1e-9)
    responses = model.transform(X, 12)
    assert responses.shape == (80, 12, 5, 4)
    assert_allclose(np.linalg.norm(responses, axis=1), model.patch_norms(X), rtol=1e-6, atol=1e-8)
    # patches side by side are mapped one by one
    tiled = ConvRFMRegressor((2, 6, 6), patch_size=3, stride=3, max_iter=1).fit(X, y)
    root = matrix_power(tiled.feature_matrix_, 0.5)
    corner = X.reshape(80, 2, 6, 6)[:, :, 3:, :3].reshape(80, -1) @ root
    found = tiled.transform(X).reshape(80, 2, 6, 6)[:, :, 3:, :3].reshape(80, -1)
    assert_allclose(found, corner, rtol=1e-8, atol=1e-10)


def test_early_stopping_keeps_the_best_iterate():
    X, y = contrast(250, shape=(1, 8, 8))
    options = {"image_shape": (1, 8, 8), "random_state": 0}
    model = ConvRFMRegressor(early_stopping=True, max_iter=4, **options).fit(X, y)
    assert len(model.X_fit_) == 200  # a fifth is held out
    assert model.best_iter_ == model.history_["validation_score"].argmax() > 0
    alone = ConvRFMRegressor(max_iter=model.best_iter_, **options)
    held = ~(X[:, None] == model.X_fit_).all(axis=2).any(axis=1)
    alone.fit(model.X_fit_, y[[(row == X).all(axis=1).argmax() for row in model.X_fit_]])
    assert_allclose(model.predict(X[held]), alone.predict(X[held]), rtol=1e-9)
    given = ConvRFMRegressor(early_stopping=True, **options)
    assert len(given.fit(X[:80], y[:80], X_val=X[80:], y_val=y[80:]).X_fit_) == 80


def test_what_is_fitted_and_what_is_refused():
    X, y = contrast(40)
    labels = np.where(y > np.median(y), "rough", "smooth")
    model = ConvRFMClassifier((1, 6, 6), max_iter=1).fit(X.astype(np.float32), labels)
    assert model.feature_matrix_.dtype == model.transform(X).dtype == np.float32
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert not any(isinstance(v, torch.Tensor) for v in vars(model).values())
    pipe = make_pipeline(StandardScaler(), clone(model)).fit(X, labels)
    assert pipe.predict_proba(X).shape == (40, 2)
    row = ConvRFMRegressor(patch_size=5, padding=1).fit(X[:, :4], y)  # one row of pixels
    assert row.feature_matrix_.shape == (5, 5)
    for shape in ((40, 1, 6, 6), (40, 6, 6)):
        message = r"X\.reshape\(len\(X\), -1\), and image_shape=\(1, 6, 6\)"
        with pytest.raises(ValueError, match=message):
            model.predict(X.reshape(shape))
    for shape in ((6, 6), (1, 6, 7), (0, 6, 6)):
        with pytest.raises(ValueError, match="must be \\(channels, height, width\\) of the 36"):
            ConvRFMRegressor(shape).fit(X, y)
    with pytest.raises(ValueError, match="one layer and no pooling"):
        ConvRFMRegressor((1, 6, 6), kernel="patch_laplace", depth=2).fit(X, y)
    with pytest.raises(ValueError, match="A patch of 9 x 9 does not fit"):
        ConvRFMRegressor((1, 6, 6), patch_size=9).fit(X, y)


@pytest.mark.parametrize("depth", [1, 2])
def test_adaptive_scale_does_not_see_the_unit_of_pixels(depth):
    X, y = contrast(30)
    kinds = ["cntk", "cnngp"] + ["patch_laplace"] * (depth == 1)
    for kernel in kinds:
        model = ConvRFMRegressor((1, 6, 6), kernel=kernel, depth=depth, max_iter=1, padding=1)
        here = model.fit(X, y).predict(X)
        assert_allclose(model.fit(100 * X, y).predict(100 * X), here, rtol=1e-6)


@pytest.mark.slow
def test_noisy_digits_gain_from_the_metric():
    # digits somewhere on a noisy canvas, 500 of them, 5 seeds: the chosen number of updates against
    # the fixed kernel (arXiv 2309.00570); neither has seen the test images
    X, y = load_digits(return_X_y=True)
    gains = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        canvas = np.zeros((len(X), 12, 12), dtype=np.float32)
        for image, digit in zip(canvas, X.reshape(-1, 8, 8)):
            i, j = rng.integers(0, 5, 2)
            image[i : i + 8, j : j + 8] = digit / 16
        canvas += 0.25 * rng.normal(size=canvas.shape).astype(np.float32)
        canvas, order = canvas.reshape(len(X), -1), rng.permutation(len(X))
        train, test = order[:500], order[500:1500]
        options = {"kernel": "patch_laplace", "agop_power": 1.0, "alpha": 1e-2, "random_state": 0}
        fixed = ConvRFMClassifier((1, 12, 12), max_iter=0, **options)
        stopped = ConvRFMClassifier((1, 12, 12), max_iter=4, early_stopping=True, **options)
        chosen = stopped.fit(canvas[train], y[train]).best_iter_
        learned = ConvRFMClassifier((1, 12, 12), max_iter=chosen, **options)  # on all rows too
        scores = [
            m.fit(canvas[train], y[train]).score(canvas[test], y[test]) for m in (fixed, learned)
        ]
        gains.append(scores[1] - scores[0])
    assert np.mean(gains) > 0.02


@pytest.mark.slow
def test_the_convolutional_ansatz_on_digits():
    # first layer at a hundredth of its usual size, three seeds: the filters are aligned with the
    # patch AGOP and are not those of the start
    X, y = load_digits(return_X_y=True)
    images = torch.from_numpy(X / 16).float().reshape(-1, 1, 8, 8)
    labels = torch.from_numpy(y)
    for seed in range(3):
        torch.manual_seed(seed)
        net = torch.nn.Sequential(
            torch.nn.Conv2d(1, 64, 3),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(2304, 10),
        )
        with torch.no_grad():
            net[0].weight.mul_(1e-2)
        start = layer_features(net, images)[0].nfm
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(20):
            for rows in torch.randperm(len(images)).split(100):
                optimizer.zero_grad()
                functional.cross_entropy(net(images[rows]), labels[rows]).backward()
                optimizer.step()
        first = layer_features(net, images)[0]
        assert first.alignment > 0.9
        assert alignment(start, first.nfm, "pearson") < 0.8


@pytest.mark.slow
def test_a_star_in_the_corner_is_found():
    # one of two patterns of 3 x 3 in a corner decides, noise everywhere
    stars = np.array([[[0, 1, 0], [1, 1, 1], [0, 1, 0]], [[1, 0, 1], [0, 1, 0], [1, 0, 1]]])
    gains = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(700, 3, 24, 24)), rng.integers(0, 2, 700)
        X[:, 0, :3, :3] += 2.0 * stars[y]
        X = X.reshape(700, -1).astype(np.float32)
        scores = [
            ConvRFMClassifier((3, 24, 24), max_iter=t, kernel="patch_laplace", agop_power=1.0)
            .fit(X[:200], y[:200])
            .score(X[200:], y[200:])
            for t in (0, 1)
        ]
        gains.append(scores[1] - scores[0])
    assert np.mean(gains) > 0.08


def test_identities_of_the_patch_agop():
    X = images(20, shape=(2, 6, 6))
    # linear convolution, all its outputs: P K^T K
    torch.manual_seed(0)
    conv = torch.nn.Conv2d(2, 5, 3, dtype=f64)
    net = torch.nn.Sequential(torch.nn.Unflatten(1, (2, 6, 6)), conv, torch.nn.Flatten())
    (layer,) = layer_features(net, X, agop_outputs="all")
    K = conv.weight.detach().flatten(1).numpy()
    assert_allclose(layer.agop, 16 * K.T @ K, rtol=1e-12)
    assert_allclose(layer.nfm, K.T @ K, rtol=1e-12)
    # relu on images and their negatives, orthonormal read-out: half of it
    head = torch.nn.Linear(80, 80, bias=False, dtype=f64)
    torch.nn.init.orthogonal_(head.weight, generator=torch.manual_seed(0))
    conv.bias.data.zero_()
    net = torch.nn.Sequential(net[0], conv, torch.nn.ReLU(), net[2], head)
    first = layer_features(net, torch.cat([X, -X]), agop_outputs="all")[0]
    # sums of 640 gradients: entries may cancel to rounding of the largest
    expected = 8 * K.T @ K
    assert_allclose(first.agop, expected, rtol=1e-12, atol=1e-14 * np.abs(expected).max())
    # patches side by side: the sum of the diagonal blocks of the AGOP of images
    y = np.sin(X[:, 0].numpy()) + X[:, 7].numpy()
    tiled = {"image_shape": (2, 6, 6), "stride": 3, "agop_power": 1.0}
    before, after = (ConvRFMRegressor(max_iter=t, **tiled).fit(X, y) for t in (0, 1))
    G = torch.from_numpy(before.input_gradients(X)[:, 0]).reshape(20, 2, 2, 3, 2, 3)
    blocks = G.permute(0, 2, 4, 1, 3, 5).reshape(20, 4, 18)
    expected = torch.einsum("npa,npb->ab", blocks, blocks)
    expected /= torch.linalg.matrix_norm(expected, 2)
    assert_allclose(after.feature_matrix_, expected, rtol=1e-8, atol=1e-10)


def test_patches_of_one_pixel():
    """With one channel M is 1: the kernel does not change from update to update."""
    X = np.random.default_rng(0).normal(size=(30, 16))
    for kernel in ("patch_laplace", "cntk", "cnngp"):
        fits = [
            ConvRFMRegressor((1, 4, 4), patch_size=1, kernel=kernel, max_iter=k).fit(X, X[:, 0])
            for k in (0, 2)
        ]
        assert_allclose(fits[1].feature_matrix_, [[1.0]])
        assert_allclose(fits[0].predict(X), fits[1].predict(X), rtol=1e-6)
