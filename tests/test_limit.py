# SPDX-License-Identifier: BSD-3-Clause
"""The feature-learning limit of infinite width: the network, and the MLP estimators."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from torch.nn import functional

from rfmlearn import ABCMLPClassifier, ABCMLPRegressor, KernelRegimeRegressor
from rfmlearn.neural import InfiniteLinearNetwork, layer_features
from rfmlearn.neural._abc import make_network

f64, INF = torch.float64, float("inf")


def data(n=60, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=(d, 2)) + 0.3 * rng.normal(size=(n, 2))


def descend(network, X, Y, loss, steps=40, batch=None, momentum=0.0):
    """Train by torch's own gradient descent; return the outputs at all rows."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=momentum)
    generator = np.random.default_rng(0)
    for _ in range(steps):
        rows = slice(None) if batch is None else generator.choice(len(X), batch, replace=False)
        optimizer.zero_grad()
        loss(network(X[rows]), Y[rows]).backward()
        optimizer.step()
    return network(X).detach()


def mse(F, Y):
    return (F - Y).square().mean()


def cross_entropy(F, Y):
    return functional.cross_entropy(F, Y.argmax(1))


# --------------------------------------------------------------------- the network


@pytest.mark.parametrize("loss", [mse, cross_entropy])
@pytest.mark.parametrize("batch", [None, 16])
def test_the_limit_is_any_network_with_orthogonal_initial_columns(loss, batch):
    X, Y = map(torch.from_numpy, data())
    d, k, width = 5, 2, 30
    limit = InfiniteLinearNetwork(d, k, input_scale=0.7, output_scale=1.3)
    wide = make_network([d, width, k], "identity", f64, torch.device("cpu"))
    Q = torch.linalg.qr(torch.randn(width, d + k, generator=torch.manual_seed(0), dtype=f64))[0]
    with torch.no_grad():
        wide[0].weight.copy_(0.7 * Q[:, :d])
        wide[-1].weight.copy_(1.3 * Q[:, d:].mT)
        wide[0].bias.zero_()
        wide[-1].bias.zero_()
    options = {"batch": batch, "momentum": 0.5}
    found, expected = (descend(net, X, Y, loss, **options) for net in (limit, wide))
    assert_allclose(found, expected, rtol=1e-9)
    # the same features, too: seen through the span of the initial columns
    U, W = (net[0].weight.detach() for net in (limit, wide))
    assert_allclose(U.mT @ U, W.mT @ W, rtol=1e-9, atol=1e-12)
    assert (U - U.new_zeros(U.shape).fill_diagonal_(0.7)).abs().max() > 0.1


@pytest.mark.parametrize("loss", [mse, cross_entropy])
@pytest.mark.parametrize("batch", [None, 16])
def test_random_networks_approach_the_limit_as_they_widen(loss, batch):
    X, Y = map(torch.from_numpy, data())
    limit = InfiniteLinearNetwork(5, 2)
    F = descend(limit, X, Y, loss, steps=10, batch=batch)
    start = InfiniteLinearNetwork(5, 2)
    widths, errors = [64, 256, 1024, 4096], []
    for width in widths:
        nets = [start.finite(width, random_state=seed) for seed in range(8)]
        found = torch.stack([descend(net, X, Y, loss, steps=10, batch=batch) for net in nets])
        errors.append(((found - F).square().mean() / F.square().mean()).sqrt())
    slope = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    # the errors of 8 networks have a spread of about 1 / sqrt(16) = 0.25 in the logarithm; over
    # log(64) = 4.2 that is 0.25 * sqrt(2) / 4.2 = 0.08 in the slope
    assert slope == pytest.approx(-0.5, abs=0.16)
    assert errors[-1] < 0.05


def test_features_of_the_limit_can_be_read():
    X, Y = data(200, 8)
    Y = X[:, :2] @ [[2.0, 1.0], [-1.0, 2.0]]
    limit = InfiniteLinearNetwork(8, 2, input_scale=0.1)
    descend(limit, torch.from_numpy(X), torch.from_numpy(Y), mse, steps=200)
    M = layer_features(limit, X)[0].nfm
    assert np.trace(M[:2, :2]) > 0.95 * np.trace(M)


# --------------------------------------------------------------------- the MLP estimators


@pytest.mark.parametrize("batch_size", [60, 16])
@pytest.mark.parametrize("kind", [ABCMLPRegressor, ABCMLPClassifier])
def test_wide_mlps_approach_the_one_of_infinite_width(kind, batch_size):
    X, Y = data()
    y = Y if kind is ABCMLPRegressor else (Y[:, 0] > 0).astype(int) + (Y[:, 1] > 0)
    options = {"activation": "identity", "optimizer": "sgd", "batch_size": batch_size}
    options |= {"max_epochs": 6, "first_layer_scale": 0.5, "momentum": 0.3, "weight_decay": 0.01}
    outputs = "predict" if kind is ABCMLPRegressor else "decision_function"
    widths, errors = [64, 256, 1024, 4096], []
    for width in widths:
        error = []
        for seed in range(6):  # the seed is that of the batches as well
            nets = [kind(w, random_state=seed, **options).fit(X, y) for w in (width, INF)]
            found, limit = (getattr(net, outputs)(X) for net in nets)
            error.append(np.square(found - limit).mean() / np.var(limit))
        errors.append(np.mean(error) ** 0.5)
    # 6 networks: see above
    assert np.polyfit(np.log(widths), np.log(errors), 1)[0] == pytest.approx(-0.5, abs=0.18)
    k = found.shape[1]
    assert [W.shape for W in nets[1].coefs_] == [(5, 5 + k), (5 + k, k)]


def test_what_an_mlp_of_infinite_width_can_and_cannot():
    X, Y = data()
    options = {"activation": "identity", "optimizer": "sgd"}
    model = ABCMLPRegressor(INF, max_epochs=300, **options).fit(X, Y)
    line = LinearRegression().fit(X, Y)
    assert_allclose(model.predict(X), line.predict(X), atol=0.02)
    assert_array_equal(model.predict(X), clone(model).fit(X, Y).predict(X))  # nothing is random
    assert (model.initial().predict(X) == model.initial().intercepts_[-1]).all()
    more = ABCMLPRegressor(INF, max_epochs=150, warm_start=True, **options).fit(X, Y).fit(X, Y)
    assert_allclose(more.predict(X), model.predict(X), rtol=1e-10)
    for refused in ({"activation": "relu"}, {"optimizer": "adam"}, {"parametrization": "ntk"}):
        with pytest.raises(ValueError, match="A layer of infinite width has a closed form with"):
            ABCMLPRegressor(INF, **{**options, **refused}).fit(X, Y)
    for sizes in ((INF, 5), (5, INF), (2.5,)):
        with pytest.raises(ValueError, match="or be one layer of infinite width"):
            ABCMLPRegressor(sizes, **options).fit(X, Y)


def test_the_first_step_is_that_of_the_tangent_kernel():
    X, Y = data()
    y = Y[:, 0]
    options = {"activation": "identity", "optimizer": "sgd", "base_width": 1}

    def pair(rate, steps):
        limit = ABCMLPRegressor(
            INF, learning_rate=rate, max_epochs=steps, batch_size=60, fit_intercept=False, **options
        ).fit(X, y)
        flow = KernelRegimeRegressor(
            "ntk", depth=1, activation="identity", bias_std=0.0, alpha=0.0, normalize_y=True,
            training_time=rate * steps,
        ).fit(X, y)  # fmt: skip
        return limit.predict(X) - y.mean(), flow.predict(X) - y.mean()

    first, lazy = pair(1e-6, 1)
    assert_allclose(first, lazy, rtol=1e-5)
    # and later on they part: features are learned
    late, lazy = pair(0.5, 20)
    assert np.abs(late - lazy).max() > 0.05


def test_the_penalty_of_the_limit_is_the_nuclear_norm():
    # over all U, V with V U = B the least (|U|^2 + |V|^2) / 2 is the sum of singular values of B:
    # for one output its length (Srebro, Rennie and Jaakkola 2004)
    X, Y = data()
    y, decay = Y[:, 0], 0.08
    unit = (y - y.mean()) / y.std()  # what the network is trained on

    def objective(b):
        return np.square(unit - X @ b).mean() / 2 + decay * np.linalg.norm(b)

    best = minimize(objective, np.ones(5), tol=1e-12)
    model = ABCMLPRegressor(
        INF, activation="identity", optimizer="sgd", base_width=1, weight_decay=decay,
        learning_rate=0.5, max_epochs=6000, batch_size=60, fit_intercept=False,
    ).fit(X, y)  # fmt: skip
    assert_allclose((model.predict(X) - y.mean()) / y.std(), X @ best.x, atol=1e-5)


def test_an_activation_of_networks_only_is_refused_by_kernels():
    X, Y = data(30)
    with pytest.raises(ValueError, match="'activation' parameter"):
        KernelRegimeRegressor(activation="tanh").fit(X, Y)
