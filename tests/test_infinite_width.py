# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of infinitely wide networks, against mpmath, neural-tangents and random networks.

`oracles/README.md` tells where the reference values come from.
"""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from rfmlearn import RFMRegressor
from rfmlearn.datasets import make_multi_index
from rfmlearn.kernels import NNGP, NTK, Kernel, Rows
from rfmlearn.kernels.activations import DUALS, Homogeneous, Monomial, Polynomial, Rbf, Smooth

ORACLES = Path(__file__).parent / "oracles"

THEIRS = {
    **{name: name for name in ("identity", "relu", "abs", "erf", "sin", "cos", "gelu")},
    "leaky_relu_0.1": Homogeneous(0.1, 1.0),
    "rbf_0.5": Rbf(0.5),
    "gaussian_exp(-x^2)": "gaussian",
    "sigmoid_like": "sigmoid_like",
    "monomial2": Monomial(2),
    "monomial3": Monomial(3),
    "polynomial_[0.3,1.0,0.5]": Polynomial((0.3, 1.0, 0.5)),
    "rectified_monomial2": "relu_squared",
    **{name: name for name in ("exp", "gabor", "sign")},
}
PHI = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "abs": np.abs,
    "erf": np.vectorize(math.erf),
    "sin": np.sin,
    "cos": np.cos,
    "rbf": lambda x: np.sqrt(2) * np.sin(x + np.pi / 4),
    "gelu": np.vectorize(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    "gaussian": lambda x: np.exp(-(x**2)),
    "sigmoid_like": np.vectorize(lambda x: (1 + math.erf(x / 2.4020563531719796)) / 2),
    "monomial2": lambda x: x**2,
    "monomial3": lambda x: x**3,
    "exp": np.exp,
    "gabor": lambda x: np.exp(-(x**2)) * np.sin(x),
    "sign": np.sign,
    "relu_squared": lambda x: np.maximum(x, 0) ** 2,
}


def rows(X, dtype=torch.float64):
    return Rows.of(torch.as_tensor(np.asarray(X), dtype=dtype))


def stored(name, activations, scales=None):
    """Yield kernel, rows, reference and key of a file of reference values."""
    with np.load(ORACLES / name) as values:
        scales = values["configs_Wstd_bstd"] if scales is None else scales
        for key in values.files:
            if key.count("|") != 3:
                continue
            activation, depth, config, what = key.split("|")
            if activation not in activations:
                continue
            kind = NNGP if "nngp" in what else NTK
            w, b = (float(s) for s in scales[int(config[1:])])
            kernel = kind(int(depth[1:]), activations[activation], w, b)
            yield kernel, values["X1"], values["X2"], what, values[key], key


def value(kernel, X1, X2, what, dtype=torch.float64):
    if what.endswith("11"):
        return kernel.matrix(rows(X1, dtype), rows(X1, dtype), torch.arange(len(X1))).numpy()
    return kernel.matrix(rows(X1, dtype), rows(X2, dtype)).numpy()


def test_every_entry_near_coincidence_and_antipodes():
    seen = 0
    for kernel, X1, X2, what, expected, key in stored(
        "mp_near_coincident.npz", {"relu": "relu", "erf": "erf"}
    ):
        found = value(kernel, X1, X2, what)
        assert_allclose(found, expected, rtol=1e-12, err_msg=key)
        # in float32 the rows themselves are rounded: by 1e-7 of the angle's complement
        single = value(kernel, X1, X2, what, torch.float32)
        assert_allclose(
            single, expected, rtol=1e-4, atol=1e-7 * np.abs(expected).max(), err_msg=key
        )
        seen += 1
    assert seen == 2 * 6 * 3 * 4


def test_relu_in_fifty_digits():
    scales = [(math.sqrt(2), 0.0), (1.5, 0.05), (1.0, 0.3)]
    for kernel, X1, X2, what, expected, key in stored(
        "kernels_relu_exact.npz", {"relu": "relu"}, scales
    ):
        assert_allclose(value(kernel, X1, X2, what), expected, rtol=1e-12, err_msg=key)


def test_values_of_neural_tangents():
    names = set()
    for kernel, X1, X2, what, expected, key in stored("nt_kernels.npz", THEIRS):
        found = value(kernel, X1, X2, what)
        if what.endswith("12"):
            # columns 4 to 9 are duplicate, multiple, antipode and near duplicates of rows, where
            # the reference is rounded; the 50-digit values above cover them
            keep = [0, 1, 2, 3, 10, 11, 12, 13]
            found, expected = found[:, keep], expected[:, keep]
        bound = 1e-10 * np.abs(expected)
        if what.endswith("12"):
            # of gabor with the tiny row the reference subtracts exponentials that differ by 1e-7:
            # 2e-16 / 1e-7 of its value (50 digits agree with ours to 1e-15)
            bound[:, 5] *= 10 if key.startswith("gabor") else 1
            # orthogonal rows: a covariance of 0 up to rounding, which odd activations keep
            bound[4, 6] += 1e-14 * np.abs(expected[np.isfinite(expected)]).max()
        # exp overflows in both; the reference is NaN for zero rows of polynomials, and on the
        # diagonal of the squared relu
        same = (found == expected) | np.isnan(expected)
        with np.errstate(invalid="ignore"):
            assert (same | (np.abs(found - expected) <= bound)).all(), key
        names.add(key.split("|")[0])
    assert names == set(THEIRS)


def test_input_gradients_of_neural_tangents():
    seen = 0
    scales = [(math.sqrt(2), 0.0), (1.5, 0.05), (1.0, 1.0)]
    for kernel, X1, X2, _, expected, key in stored("nt_input_gradients.npz", THEIRS, scales):
        found = kernel.gradients(rows(X1), rows(X2), torch.eye(len(X2), dtype=torch.float64))
        assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max(), err_msg=key)
        seen += 1
    assert seen == 6 * 3 * 3 * 2


# ------------------------------------------------------------------- without the files


def test_one_hidden_layer_of_relu_by_hand():
    # unit vectors at 60 degrees, w^2 = 2, d = 2: K = (sin + (pi - th) cos) / pi / 2 by Cho and Saul
    X = np.array([[1.0, 0.0], [0.5, math.sqrt(0.75)], [-1.0, 0.0]])
    th = math.pi / 3
    E = (math.sin(th) + (math.pi - th) * math.cos(th)) / math.pi
    K = NNGP(1, weight_std=math.sqrt(2), bias_std=0.0).matrix(rows(X), rows(X), torch.arange(3))
    assert_allclose(K[0], [1, E, 0], atol=1e-15)
    T = NTK(1, weight_std=math.sqrt(2), bias_std=0.0).matrix(rows(X), rows(X), torch.arange(3))
    assert_allclose(T[0], [2, E + (1 - th / math.pi) / 2, 0], atol=1e-15)


@pytest.mark.parametrize("activation", sorted(DUALS))
def test_duals_are_expectations(activation):
    # Gauss-Hermite in two dimensions; kinks converge slowly there
    x, w = np.polynomial.hermite_e.hermegauss(180)
    w = w / w.sum()
    X = np.array([[1.0, 0.3], [-0.4, 0.9]])
    covariance = X @ X.T / 2 + 0.04
    root = np.linalg.cholesky(covariance)
    a, b = root[0, 0] * x[:, None] + 0 * x, root[1, 0] * x[:, None] + root[1, 1] * x
    phi = PHI[activation]
    if activation == "sign":  # jumps converge more slowly still
        E = 4 * multivariate_normal.cdf([0, 0], cov=covariance) - 1
    else:
        E = (w[:, None] * w * phi(a) * phi(b)).sum()
    K = NNGP(1, activation, weight_std=1.0, bias_std=0.2).matrix(rows(X), rows(X))
    smooth = activation not in ("relu", "leaky_relu", "abs", "sign", "relu_squared")
    assert_allclose(K[0, 1], E + 0.04, rtol=1e-10 if smooth else 5e-3)


@pytest.mark.parametrize("activation", sorted(DUALS))
@pytest.mark.parametrize("kind", [NNGP, NTK])
def test_gradients_are_finite_differences(kind, activation):
    rng = np.random.default_rng(0)
    X, Z, step = rng.normal(size=(5, 3)), rng.normal(size=(4, 3)), 1e-6
    kernel = kind(2, activation, weight_std=(0.9, 1.1, 1.2), bias_std=(0.1, 0.0, 0.3))
    G = kernel.gradients(rows(X), rows(Z), torch.eye(4, dtype=torch.float64)).numpy()
    for k in range(3):
        e = step * np.eye(3)[k]
        up, down = (kernel.matrix(rows(X + s * e), rows(Z)).numpy() for s in (1, -1))
        assert_allclose(G[:, :, k], (up - down) / (2 * step), atol=1e-7 * np.abs(G).max())


SMOOTH = sorted(name for name, act in DUALS.items() if isinstance(act, Smooth))


@pytest.mark.parametrize("activation", SMOOTH)
@pytest.mark.parametrize("kind", [NNGP, NTK])
def test_gradients_of_smooth_kernels_where_rows_coincide(kind, activation):
    # at many rows, since the sign of a rounding error used to decide on each
    rng = np.random.default_rng(0)
    X, step = 0.3 * rng.normal(size=(100, 3)), 1e-4
    kernel = kind(2, activation, bias_std=0.2)
    G = kernel.gradients(rows(X), rows(X), torch.eye(100).double(), torch.arange(100))
    own = G[torch.arange(100), torch.arange(100)].numpy()
    for k in range(3):
        e = step * np.eye(3)[k]
        up, down = (kernel.matrix(rows(X + s * e), rows(X)).diagonal().numpy() for s in (1, -1))
        # central differences: the error is of the order of step^2, rounding 1e-16 / step
        atol = 1e-6 * np.abs(own).max() + 1e-11
        assert_allclose(own[:, k], (up - down) / (2 * step), rtol=0, atol=atol)


@pytest.mark.parametrize("activation", ["relu", "abs", "leaky_relu", "erf", "gelu", "relu_squared"])
@pytest.mark.parametrize("kind", [NNGP, NTK])
def test_gram_matrices_are_symmetric_and_positive(kind, activation):
    X = np.random.default_rng(0).normal(size=(60, 4))
    X[5], X[6], X[7], X[8] = X[4], -X[4], 3 * X[4], 0.0
    for b in (0.0, 0.1):
        K = kind(3, activation, bias_std=b).gram(rows(X))
        assert torch.equal(K, K.T)
        assert torch.linalg.eigvalsh(K)[0] > -1e-12 * K.diagonal().mean()
        found = kind(3, activation, bias_std=b).gradients(
            rows(X), rows(X), torch.ones(60, 1).double()
        )
        assert torch.isfinite(found).all()
        if b == 0 and activation in ("relu", "abs", "leaky_relu"):
            assert (K[8] == 0).all()
            assert_allclose(K[7], 3 * K[4], rtol=1e-12)  # homogeneous


def test_a_relu_ntk_on_the_diagonal_counts_layers():
    # w = sqrt 2, b = 0: T(x, x) = (L + 1) K(x, x), and K does not change with depth
    X = np.random.default_rng(0).normal(size=(6, 3))
    for depth in (0, 1, 4, 12):
        K = NNGP(depth, weight_std=math.sqrt(2), bias_std=0.0).gram(rows(X)).diagonal()
        T = NTK(depth, weight_std=math.sqrt(2), bias_std=0.0).gram(rows(X)).diagonal()
        assert_allclose(K, 2 * (X**2).sum(1) / 3, rtol=1e-13)
        assert_allclose(T, (depth + 1) * K, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_the_ntk_is_the_limit_of_finite_networks(activation):
    rng, n, seeds = np.random.default_rng(0), 4096, 12
    X, w, b = rng.normal(size=(4, 3)), 1.3, 0.2
    slope = {
        "relu": lambda z: (z > 0).astype(float),
        "erf": lambda z: 2 / np.sqrt(np.pi) * np.exp(-(z**2)),
    }
    phi, dphi, Ts, Ks = PHI[activation], slope[activation], [], []
    for _ in range(seeds):
        W0, b0, b1 = rng.normal(size=(3, n)), rng.normal(size=n), rng.normal(size=n)
        W1, W2 = rng.normal(size=(n, n)), rng.normal(size=n)
        z1 = w / np.sqrt(3) * X @ W0 + b * b0
        z2 = w / np.sqrt(n) * phi(z1) @ W1 + b * b1
        d2 = w / np.sqrt(n) * W2 * dphi(z2)  # output with respect to z2, then z1
        d1 = w / np.sqrt(n) * d2 @ W1.T * dphi(z1)
        T = w**2 / n * phi(z2) @ phi(z2).T + b**2  # last layer, then the two below
        T = T + d2 @ d2.T * (w**2 / n * phi(z1) @ phi(z1).T + b**2)
        T = T + d1 @ d1.T * (w**2 / 3 * X @ X.T + b**2)
        Ts.append(T)
        Ks.append(w**2 / n * phi(z2) @ phi(z2).T + b**2)
    for kind, found in ((NTK, Ts), (NNGP, Ks)):
        expected = kind(2, activation, w, b).gram(rows(X)).numpy()
        error = np.std(found, axis=0) / np.sqrt(seeds)
        assert (np.abs(np.mean(found, axis=0) - expected) < 4 * error + 2e-3 * expected.max()).all()


def test_rfm_learns_with_the_ntk():
    X, y, subspace = make_multi_index(600, 10, random_state=0)
    Q, q, _ = make_multi_index(600, 10, random_state=1)
    plain, model = (RFMRegressor("ntk", max_iter=t).fit(X, y) for t in (0, 3))
    assert model.score(Q, q) > plain.score(Q, q) + 0.1
    directions = np.linalg.eigh(model.feature_matrix_)[1][:, -3:]
    assert np.linalg.norm(subspace @ directions) ** 2 / 3 > 0.95


def test_rfm_centres_the_rows_by_weight():
    X, y, _ = make_multi_index(60, 4, random_state=0)
    w = np.random.default_rng(0).uniform(0.2, 2, 60)
    here = RFMRegressor("ntk", max_iter=2).fit(X, y, w)
    there = RFMRegressor("ntk", max_iter=2).fit(X + [5.0, -7.0, 0.0, 100.0], y, w)
    assert_allclose(there.feature_matrix_, here.feature_matrix_, atol=1e-7)
    alone = RFMRegressor("nngp", max_iter=0, alpha=0.1, bandwidth_mode="constant").fit(X, y, w)
    Z = X - np.average(X, axis=0, weights=w)
    K, mean = NNGP().gram(rows(Z)).numpy(), np.average(y, weights=w)
    dual = np.linalg.solve(K + np.diag(0.1 / w), y - mean)
    assert_allclose(alone.predict(X), K @ dual + mean, rtol=1e-7)


def test_what_makes_no_network_is_refused():
    for options, words in (
        ({"activation": "step"}, "activation='step' must be one of"),
        ({"depth": -1}, "number of hidden layers"),
        ({"depth": 1.5}, "number of hidden layers"),
        ({"weight_std": 0.0}, "weight_std=0.0 must be positive"),
        ({"bias_std": -1.0}, "bias_std=-1.0 must be not negative"),
        ({"bias_std": (0.1, 0.2)}, r"one number, or depth \+ 1"),
    ):
        with pytest.raises(ValueError, match=words):
            NTK(**options)
    assert isinstance(NTK(), Kernel)
    assert hash(NTK()) == hash(NTK())
