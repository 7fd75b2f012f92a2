# SPDX-License-Identifier: BSD-3-Clause
"""The feature-learning limit of infinite width: the network, the MLP estimators, the regime."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from torch.nn import functional

from rfmlearn import (
    ABCMLPClassifier,
    ABCMLPRegressor,
    KernelRegimeClassifier,
    KernelRegimeRegressor,
)
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


# --------------------------------------------------------------------- the regime


def mup(**parameters):
    defaults = {"depth": 1, "activation": "identity", "bias_std": 0.0, "alpha": 0.0}
    return KernelRegimeRegressor("mup", **{**defaults, **parameters})


def test_the_first_moment_is_that_of_the_tangent_kernel():
    X, Y = data()
    for weight_std in (1.0, [0.5, 2.0]):
        first = mup(weight_std=weight_std, learning_rate=1e-6, training_time=1).fit(X, Y)
        lazy = KernelRegimeRegressor(
            "ntk", depth=1, activation="identity", bias_std=0.0, alpha=0.0,
            weight_std=weight_std, learning_rate=1e-6, training_time=1,
        ).fit(X, Y)  # fmt: skip
        assert_allclose(first.predict(X), lazy.predict(X), rtol=1e-5)
        assert first.width_ == INF
        # and later on they part: features are learned
        late, lazy = (
            model.set_params(learning_rate=0.5, training_time=20).fit(X, Y)
            for model in (first, lazy)
        )
        assert np.abs(late.predict(X) - lazy.predict(X)).max() > 0.05


def test_the_penalty_of_the_limit_is_the_nuclear_norm():
    # over all U, V with V U = B the least (|U|^2 + |V|^2) / 2 is the sum of singular values of B:
    # for one output its length (Srebro, Rennie and Jaakkola 2004)
    X, Y = data()
    y, alpha = Y[:, 0], 5.0
    Z = X / 5**0.5  # the weights are of rows over sqrt(d)

    def objective(b):
        return np.square(y - Z @ b).sum() / 2 + alpha * np.linalg.norm(b)

    best = minimize(objective, np.ones(5), tol=1e-12)
    model = mup(alpha=alpha, learning_rate=0.5, training_time=6000).fit(X, y)
    assert_allclose(model.predict(X), Z @ best.x, atol=1e-5)


def test_a_finite_network_is_that_of_the_mlp_estimator():
    X, Y = data()
    y = (Y[:, 0] - Y[:, 0].mean()) / Y[:, 0].std()
    for activation in ("tanh", "sigmoid"):
        ours = KernelRegimeRegressor(
            "mup", depth=2, activation=activation, weight_std=1.0, bias_std=1.0, alpha=0.0,
            learning_rate=0.1, training_time=30, width=40, random_state=3,
        ).fit(X, y)  # fmt: skip
        theirs = ABCMLPRegressor(
            (40, 40), activation=activation, base_width=1, optimizer="sgd", learning_rate=0.1,
            max_epochs=30, batch_size=60, random_state=3,
        )  # fmt: skip
        assert_allclose(ours.predict(X), theirs.fit(X, y).predict(X), rtol=1e-8, atol=1e-8)
        assert_allclose(ours.input_gradients(X), theirs.input_gradients(X), rtol=1e-7, atol=1e-8)
        assert ours.width_ == 40
        assert len(ours.loss_curve_) == 30
        start = theirs.initial().predict(X)
        assert_allclose(ours.loss_curve_[0], np.square(y - start).mean(), rtol=1e-8)


def test_weights_units_and_spread_of_the_regime():
    X, Y = data(30)
    times = np.random.default_rng(0).integers(0, 3, 30)
    model = mup(alpha=0.2, bias_std=0.3, training_time=50, normalize_y=True)
    weighted = model.fit(X, Y, sample_weight=times).predict(X)
    assert_allclose(
        weighted, model.fit(X.repeat(times, 0), Y.repeat(times, 0)).predict(X), rtol=1e-8
    )
    shifted = clone(model).fit(X, 1000 * Y + 5000, sample_weight=times)
    assert_allclose(shifted.predict(X), 1000 * weighted + 5000, rtol=1e-8)
    mean, std = shifted.predict(X, return_std=True)
    assert_array_equal(std, np.zeros_like(mean))
    assert shifted.sample_y(X[:3], 4).shape == (3, 2, 4)
    step = 1e-6 * np.eye(5)[2]
    numeric = (shifted.predict(X + step) - shifted.predict(X - step)) / 2e-6
    assert_allclose(shifted.input_gradients(X)[:, :, 2], numeric, rtol=1e-5)
    network = shifted.to_torch()
    assert_allclose(network(torch.from_numpy(X)).detach(), shifted.predict(X), rtol=1e-10)
    assert_allclose(layer_features(shifted, X)[0].init_nfm, np.eye(5) / 5, rtol=1e-12)
    assert not hasattr(KernelRegimeRegressor("ntk"), "to_torch")


def test_classes_of_the_regime():
    X, Y = data(90)
    labels = np.array(["a", "b", "c"])[(Y[:, 0] > 1).astype(int) + (Y[:, 0] > -1)]
    model = KernelRegimeClassifier("mup", learning_rate=0.3, random_state=0).fit(X, labels)
    assert model.score(X, labels) > 0.9
    assert_allclose(model.predict_proba(X).sum(1), 1)
    two = KernelRegimeClassifier("mup", depth=1, activation="identity").fit(X, labels == "a")
    assert two.decision_function(X).shape == (90,)
    assert two.score(X, labels == "a") > 0.85


def test_what_the_regime_refuses_and_leaves():
    X, Y = data(30)
    finite = mup(activation="tanh", width=8, training_time=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="spread in closed form at infinite width only"):
        finite.predict(X, return_std=True)
    with pytest.raises(ValueError, match="The training diverged with learning_rate=100"):
        mup(learning_rate=100.0).fit(X, Y)
    for refused in ({"training_time": 1.5}, {"activation": "erf"}, {"alpha": [0.1, 1.0]}):
        with pytest.raises(ValueError, match="regime='mup' trains by whole steps"):
            mup(**refused).fit(X, Y)
    with pytest.raises(ValueError, match="activation='tanh' must be one of"):
        KernelRegimeRegressor(activation="tanh").fit(X, Y)
    with pytest.raises(AttributeError, match="this is 'mup'"):
        finite.log_marginal_likelihood()
    # nothing of an earlier fit stays
    again = finite.set_params(regime="ntk", activation="relu").fit(X, Y)
    assert not hasattr(again, "coefs_")
    assert hasattr(again, "alpha_")
