# SPDX-License-Identifier: BSD-3-Clause
"""Ensembles of infinitely wide networks, against reference values and finite networks."""

import math
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct
from sklearn.kernel_ridge import KernelRidge

from rfmlearn import KernelRegimeClassifier, KernelRegimeRegressor
from rfmlearn.kernels import NNGP, NTK, Rows

ORACLES = Path(__file__).parent / "oracles"
NETS = {"relu": (math.sqrt(2), 0.1), "erf": (1.5, 0.05)}


def data(n=30, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2


def gram(kernel, A, B=None):
    A = Rows.of(torch.as_tensor(A))
    return (kernel.gram(A) if B is None else kernel.matrix(A, Rows.of(torch.as_tensor(B)))).numpy()


def check(values, key, depth, activation, scales, reg, relative, time, regime, what):
    kind, (w, b) = NNGP if regime == "nngp" else NTK, scales
    X = values["Xtr"]
    level = gram(kind(depth, activation, w, b), X).diagonal().mean() if relative else 1.0
    model = KernelRegimeRegressor(
        regime, depth=depth, activation=activation, weight_std=w, bias_std=b, alpha=reg * level,
        training_time=None if time is None else 0.1 * time,  # theirs: steps of a rate of 0.1
    ).fit(X, values["Y"])  # fmt: skip
    mean, cov = model.predict(values["Xte"], return_cov=True)
    expected = values[key]
    found = (
        mean.reshape(expected.shape) if what == "mean" else cov.reshape(*cov.shape[:2], -1)[..., 0]
    )
    assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max(), err_msg=key)
    _, std = model.predict(values["Xte"], return_std=True)
    variance = np.einsum("ii...->i...", cov)
    # of a difference of numbers of order one
    assert_allclose(std**2, variance, atol=1e-12)


@pytest.mark.parametrize("activation", sorted(NETS))
def test_predictions_of_neural_tangents(activation):
    seen = 0
    with np.load(ORACLES / "nt_predictions.npz") as values:
        for key in values.files:
            name, *parts = key.split("|")
            if name != activation or len(parts) != 5:
                continue
            convention, reg, time, regime, what = parts
            time = None if time == "tNone" else float(time[1:])
            check(
                values, key, 2, activation, NETS[activation], float(reg[3:]), convention == "abs0",
                time, regime.replace("ntkgp", "ntk_gp"), what,
            )  # fmt: skip
            seen += 1
        model = KernelRegimeRegressor(
            activation=activation, weight_std=NETS[activation][0], bias_std=NETS[activation][1]
        )
        model.fit(values["Xtr"], values["Y"])
        assert_allclose(model.max_learning_rate_, values[f"{activation}|max_lr"], rtol=1e-12)
    assert seen == 2 * (3 * 6 + 2 * 24)


def test_relu_posteriors_in_fifty_digits():
    seen = 0
    with np.load(ORACLES / "posteriors_relu_exact.npz") as values:
        for key in values.files:
            parts = key.split("|")
            if len(parts) != 6:
                continue
            _, depth, reg, time, regime, what = parts
            scales = {"d1": (1.5, 0.05), "d3": (math.sqrt(2), 0.1)}[depth]
            time = None if time == "tNone" else float(time[1:])
            check(
                values, key, int(depth[1:]), "relu", scales, float(reg[3:-3]),
                reg.endswith("rel"), time, regime.replace("ntkgp", "ntk_gp"), what,
            )  # fmt: skip
            seen += 1
    assert seen > 0


def test_infinite_time_is_kernel_ridge_regression():
    X, y = data()
    Q = data(10, seed=1)[0]
    for regime, kind in (("ntk", NTK), ("ntk_gp", NTK), ("nngp", NNGP)):
        model = KernelRegimeRegressor(regime, alpha=0.3).fit(X, y)
        ridge = KernelRidge(alpha=0.3, kernel="precomputed").fit(gram(kind(), X), y)
        assert_allclose(model.predict(Q), ridge.predict(gram(kind(), Q, X)), rtol=1e-9)
        late = KernelRegimeRegressor(regime, alpha=0.3, training_time=1e7).fit(X, y)
        assert_allclose(late.predict(Q), model.predict(Q), rtol=1e-7)


def test_finite_time_is_the_flow_of_its_equation():
    # df/dt = -(1/m) T W (f - y), noise on the diagonal, from f = 0: by a matrix exponential
    X, y = data(12)
    w = np.random.default_rng(1).uniform(0.5, 2, 12)
    time, alpha = 3.7, 0.2
    model = KernelRegimeRegressor(alpha=alpha, training_time=time).fit(X, y, sample_weight=w)
    T = gram(NTK(), X)
    A = T @ np.diag(w) + alpha * np.eye(12)
    dual = np.diag(w) @ np.linalg.solve(A, (np.eye(12) - expm(-A * time / w.sum())) @ y)
    assert_allclose(model.predict(X), T @ dual, rtol=1e-9)


def test_a_linear_network_is_the_gaussian_process_of_scikit_learn():
    # depth 0: K = w^2 x.z / d + b^2
    X, y = data()
    Q = data(10, seed=1)[0]
    for targets, normalize in ((y, False), (5 * y + 9, True), (np.c_[y, -3 * y], True)):
        ours = KernelRegimeRegressor(
            "nngp", depth=0, weight_std=math.sqrt(3), bias_std=0.5, alpha=0.1, normalize_y=normalize
        ).fit(X, targets)
        theirs = GaussianProcessRegressor(
            DotProduct(0.5), alpha=0.1, optimizer=None, normalize_y=normalize
        ).fit(X, targets)
        for options in ({"return_std": True}, {"return_cov": True}):
            for a, b in zip(ours.predict(Q, **options), theirs.predict(Q, **options)):
                assert a.shape == b.shape
                assert_allclose(a, b, rtol=1e-7, atol=1e-9)
        if targets.ndim == 1:
            value = theirs.log_marginal_likelihood_value_
            assert_allclose(ours.log_marginal_likelihood_value_, value, rtol=1e-9)
            assert ours.log_marginal_likelihood() == ours.log_marginal_likelihood_value_


def test_the_spread_is_that_of_finite_networks():
    # a linearised network of one hidden layer, width 2000, trained to the end, 300 of them
    X, y = data(8, 2)
    Q = data(5, 2, seed=1)[0]
    rng, n, both, alpha = np.random.default_rng(0), 2000, np.r_[X, Q], 1e-3
    outputs = []
    for _ in range(300):
        W, b, V, c = rng.normal(size=(2, n)), rng.normal(size=n), rng.normal(size=n), rng.normal()
        z = both @ W + 0.1 * b  # weight scale sqrt 2 over sqrt(d = 2)
        h = np.maximum(z, 0)
        f = math.sqrt(2 / n) * h @ V + 0.1 * c
        outputs.append(f)
    T = gram(NTK(1), both)
    fitted = T[8:, :8] @ np.linalg.inv(T[:8, :8] + alpha * np.eye(8))
    ends = [f[8:] + fitted @ (y - f[:8]) for f in outputs]
    mean, cov = KernelRegimeRegressor(depth=1, alpha=alpha).fit(X, y).predict(Q, return_cov=True)
    error = np.sqrt(np.diag(cov) / 300)
    assert (np.abs(np.mean(ends, axis=0) - mean) < 4 * error).all()
    # the relative error of a variance from 300 draws is sqrt(2 / 300) = 8%
    assert_allclose(np.var(ends, axis=0), np.diag(cov), rtol=0.35)


@pytest.mark.parametrize("regime", ["ntk", "nngp", "ntk_gp"])
@pytest.mark.parametrize("time", [None, 5.0])
def test_weights_are_repetitions(regime, time):
    X, y = data(20)
    times = np.random.default_rng(0).integers(0, 3, 20)
    model = KernelRegimeRegressor(regime, training_time=time, normalize_y=True)
    w = model.fit(X, y, sample_weight=times).predict(X, return_std=True)
    r = model.fit(X.repeat(times, 0), y.repeat(times)).predict(X, return_std=True)
    for a, b in zip(w, r):
        assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("regime", ["ntk", "nngp", "ntk_gp"])
def test_several_alphas_are_judged_by_leaving_rows_out(regime):
    X, y = data(25)
    Y, alphas = np.c_[y, np.cos(X[:, 0])], [1e-2, 1e-1, 1.0]
    w = np.random.default_rng(0).uniform(0.3, 2, 25)
    w[3] = 0.0  # left out altogether
    model = KernelRegimeRegressor(regime, alpha=alphas).fit(X, Y, sample_weight=w)
    expected, rows = [], np.arange(25)
    for alpha in alphas:
        one, error = KernelRegimeRegressor(regime, alpha=alpha), 0.0
        for i in np.flatnonzero(w):
            kept = rows != i
            one.fit(X[kept], Y[kept], sample_weight=w[kept])
            error += w[i] * np.square(one.predict(X[[i]]) - Y[i]).mean()
        expected.append(error / w.sum())
    assert_allclose(model.loo_errors_, expected, rtol=1e-8)
    best = alphas[np.argmin(expected)]
    assert model.best_alpha_ == best
    alone = KernelRegimeRegressor(regime, alpha=best).fit(X, Y, sample_weight=w)
    assert_array_equal(model.predict(X), alone.predict(X))
    assert_allclose(model.max_learning_rate_, alone.max_learning_rate_, rtol=1e-9)
    assert not hasattr(alone, "loo_errors_")
    # without a ridge a matrix that rounding leaves singular is no candidate
    twice = KernelRegimeRegressor(regime, alpha=[0.0, 0.1]).fit(np.r_[X, X], np.r_[Y, Y])
    assert twice.best_alpha_ == 0.1
    for refused in ([], [-1.0, 1.0], [[1.0]]):
        with pytest.raises(ValueError, match="must be a number >= 0, or a sequence"):
            KernelRegimeRegressor(regime, alpha=refused).fit(X, Y)
    with pytest.raises(ValueError, match="compared at infinite time only"):
        KernelRegimeRegressor(regime, alpha=alphas, training_time=1.0).fit(X, Y)


def test_a_fit_that_fails_leaves_the_last_one():
    X, y = data()
    model = KernelRegimeRegressor("nngp", depth=0, normalize_y=True).fit(X, y)
    before = model.predict(X)
    with pytest.raises(np.linalg.LinAlgError):
        model.set_params(alpha=0.0).fit(X, 100 * y + 7)
    assert_array_equal(model.predict(X), before)


def test_draws_have_the_ensembles_moments():
    X, y = data(10)
    Q = data(3, seed=1)[0]
    model = KernelRegimeRegressor(random_state=0).fit(X, np.c_[y, y**2])
    draws = model.sample_y(Q, 20_000)
    assert draws.shape == (3, 2, 20_000)
    mean, cov = model.predict(Q, return_cov=True)
    assert_allclose(draws.mean(2), mean, atol=4 * np.sqrt(cov.max() / 20_000))
    assert_allclose(np.cov(draws[:, 1]), cov[:, :, 1], atol=0.05 * cov.max())
    flat = model.fit(X, y)
    assert flat.sample_y(Q).shape == (3, 1)
    assert_array_equal(flat.sample_y(Q, 2), flat.sample_y(Q, 2))


@pytest.mark.parametrize("regime", ["ntk", "nngp"])
def test_input_gradients_are_finite_differences(regime):
    X, y = data()
    Q, step = data(10, seed=1)[0], 1e-6
    model = KernelRegimeRegressor(regime, normalize_y=True).fit(X, np.c_[y, 7 * y**2])
    G = model.input_gradients(Q)
    for k in range(3):
        e = step * np.eye(3)[k]
        numeric = (model.predict(Q + e) - model.predict(Q - e)) / (2 * step)
        assert_allclose(G[:, :, k], numeric, atol=1e-7 * np.abs(G).max())


def test_the_largest_learning_rate_of_centred_rows():
    # a linear kernel of rows that sum to 0 has the vector of ones in its null space
    X, y = data()
    X = X - X.mean(axis=0)
    model = KernelRegimeRegressor(depth=0, weight_std=1.0, bias_std=0.0, alpha=0.1).fit(X, y)
    top = np.linalg.eigvalsh(X @ X.T / 3)[-1]
    assert_allclose(model.max_learning_rate_, 2 * 30 / top, rtol=1e-9)


def test_too_many_rows_are_refused_with_advice(monkeypatch):
    monkeypatch.setattr("rfmlearn._backend.free_bytes", lambda device: 1000)
    with pytest.raises(MemoryError, match=r"Pass X as float32 to halve it, or take RFMRegressor"):
        KernelRegimeRegressor().fit(*data())


def test_classes_and_probabilities():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2)) + 3 * np.repeat([[0, 0], [1, 0], [0, 1]], 30, axis=0)
    labels = np.repeat(["a", "b", "c"], 30)
    model = KernelRegimeClassifier().fit(X, labels)
    assert model.score(X, labels) > 0.9
    P = model.predict_proba(X)
    assert_allclose(P.sum(1), 1)
    assert_array_equal(model.classes_[P.argmax(1)], model.predict(X))
    two = KernelRegimeClassifier("nngp", training_time=50.0).fit(X[:60], labels[:60])
    assert two.decision_function(X).shape == (90,)
    assert two.alpha_.shape == (60,)


def test_what_is_fitted_and_what_is_refused():
    X, y = data()
    model = KernelRegimeRegressor().fit(X.astype(np.float32), y)
    assert model.predict(X).dtype == model.alpha_.dtype == model.L_.dtype == np.float32
    assert not any(isinstance(v, torch.Tensor) for v in vars(model).values())
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(RuntimeError, match="At most one"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(AttributeError, match="this estimator was fitted with others"):
        model.log_marginal_likelihood()
    with pytest.raises(AttributeError, match="fitted with others"):
        KernelRegimeRegressor("nngp", training_time=2.0).fit(X, y).log_marginal_likelihood()
    with pytest.raises(np.linalg.LinAlgError, match="Raise alpha"):
        KernelRegimeRegressor("nngp", depth=0, alpha=0.0).fit(X, y)
    with pytest.raises(ValueError, match=r"depth \+ 1"):
        KernelRegimeRegressor(weight_std=[1.0, 2.0]).fit(X, y)
    start = KernelRegimeRegressor(training_time=0.0).fit(X, y)
    assert (start.predict(X) == 0).all()  # the mean of untrained networks
    assert_allclose(start.predict(X, return_cov=True)[1], gram(NNGP(), X), rtol=1e-10)
