# SPDX-License-Identifier: BSD-3-Clause
"""MLPs in the abc-parametrisations: the table, the passes, training, and what width does."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from rfmlearn import ABCMLPClassifier, ABCMLPRegressor
from rfmlearn.neural import (
    ABC_TABLE,
    AlignmentMonitor,
    classify_parametrization,
    layer_features,
)
from rfmlearn.neural._abc import Scaling, linear_layers, make_network
from rfmlearn.neural._modules import MODULES
from rfmlearn.neural._train import LOSSES, Backpropagation, make_optimizer

f64 = torch.float64
CPU = torch.device("cpu")


def data(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def network(sizes, activation="tanh", seed=0, parametrization="standard", optimizer="sgd"):
    net = make_network(sizes, activation, f64, CPU)
    scaling = Scaling(parametrization, optimizer, sizes, 256)
    scaling.initialize(net, [MODULES[activation].gain] * (len(sizes) - 2) + [1.0], seed)
    return net


# --------------------------------------------------------------------- the passes


@pytest.mark.parametrize("activation", sorted(MODULES))
@pytest.mark.parametrize(
    ("loss", "outputs"), [("squared", 2), ("cross_entropy", 1), ("cross_entropy", 3)]
)
def test_gradients_are_those_of_autograd(activation, loss, outputs):
    rng = np.random.default_rng(0)
    net = network((4, 9, 3, outputs), activation)
    X, w = torch.as_tensor(rng.normal(size=(7, 4))), torch.as_tensor(rng.uniform(0.5, 2, 7))
    Y = torch.eye(3, dtype=f64)[torch.as_tensor(rng.integers(0, 3, 7))]
    Y = Y if outputs == 3 else 2 * Y[:, :outputs] - 1
    total = (LOSSES[loss].values(net(X), Y) * w).sum()
    expected = torch.autograd.grad(total / 7, list(net.parameters()))
    with torch.no_grad():
        found = Backpropagation(net, 10)(X, Y, w, LOSSES[loss])
    assert_allclose(found, total.detach(), rtol=1e-14)
    for p, g in zip(net.parameters(), expected):
        assert_allclose(p.grad, g, atol=1e-15)


# --------------------------------------------------------------------- the table


def test_the_table_is_that_of_tensor_programs():
    sgd = {
        "standard": [(0, 0, 0), (0, 0.5, 0), (0, 0.5, 0)],
        "ntk": [(0, 0, 0), (0.5, 0, 0), (0.5, 0, 0)],
        "mup": [(-0.5, 0.5, 0), (0, 0.5, 0), (0.5, 0.5, 0)],
    }
    for name, rows in sgd.items():
        assert list(ABC_TABLE[name, "sgd"].values()) == rows
    # Tensor Programs V, table 8: input and bias rate 1; hidden variance 1/n, rate 1/n; output
    # variance 1/n^2, rate 1/n
    assert list(ABC_TABLE["mup", "adam"].values()) == [(0, 0, 0), (0, 0.5, 1), (0, 1, 1)]
    # stability: a1 + b1 = 0, a_l + b_l = 1/2, a_L+1 + b_L+1 >= 1/2; r of muP is 0, of NTK 1/2
    for (name, optimizer), rows in ABC_TABLE.items():
        assert rows["input"].a + rows["input"].b == 0
        assert rows["output"].a + rows["output"].b >= 0.5
        if "hidden" in rows:
            assert rows["hidden"].a + rows["hidden"].b == 0.5
        if optimizer == "sgd" and name != "mean_field":
            (a1, *_), (al, *_), (aL, bL, c) = rows.values()
            r = min(aL + bL, 2 * aL + c) + c - 1 + min(2 * a1 + 1, 2 * al)
            assert r == {"standard": -1, "ntk": 0.5, "mup": 0}[name]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(("parametrization", "optimizer"), sorted(ABC_TABLE))
def test_plain_weights_train_as_the_multiplied_ones_do(parametrization, optimizer, momentum):
    """Four steps of the definition: W = n^-a w with rate eta n^-c, decay and epsilon of w."""
    sizes = (3, 512, 64, 2) if parametrization != "mean_field" else (3, 512, 2)
    net = network(sizes, seed=1, parametrization=parametrization, optimizer=optimizer)
    scaling, eta, decay = Scaling(parametrization, optimizer, sizes, 256), 0.01, 0.3
    rng = np.random.default_rng(2)
    X, Y = torch.as_tensor(rng.normal(size=(8, 3))), torch.as_tensor(rng.normal(size=(8, 2)))
    rows, bias_rows = ABC_TABLE[parametrization, optimizer], [s / 256 for s in sizes[1:-1]]
    kinds = ["input", *["hidden"] * (len(sizes) - 3), "output"]
    n = [sizes[1] / 256, *(s / 256 for s in sizes[1:-1])]
    w, multiplier, rate = [], [], []
    for i, (layer, kind) in enumerate(zip(linear_layers(net), kinds)):
        a, _, c = rows[kind]
        multiplier.append(n[i] ** -a)
        w.append((layer.weight.detach() / multiplier[-1]).clone().requires_grad_())
        rate.append(eta * n[i] ** -c)
        a, c, width = (
            (rows["input"].a, rows["input"].c, bias_rows[i]) if kind != "output" else (0, 0, 1)
        )
        multiplier.append(width**-a)
        w.append((layer.bias.detach() / multiplier[-1]).clone().requires_grad_())
        rate.append(eta * width**-c)
    decays = [decay, 0.0] * len(kinds)
    state = [{"m": 0.0, "v": 0.0} for _ in w]
    opt = make_optimizer(optimizer, scaling.parameter_groups(net, eta, decay), momentum)
    passes = Backpropagation(net, 8)
    for t in range(1, 5):
        H = X
        for i in range(len(kinds)):
            H = H @ (multiplier[2 * i] * w[2 * i]).mT + multiplier[2 * i + 1] * w[2 * i + 1]
            H = torch.tanh(H) if i < len(kinds) - 1 else H
        grads = torch.autograd.grad(LOSSES["squared"].values(H, Y).mean(), w)
        with torch.no_grad():
            for p, g, lr, lam, s in zip(w, grads, rate, decays, state):
                if optimizer == "sgd":
                    s["m"] = momentum * s["m"] + g + lam * p
                    p -= lr * s["m"]
                else:
                    s["m"] = 0.9 * s["m"] + 0.1 * g
                    s["v"] = 0.999 * s["v"] + 0.001 * g**2
                    p *= 1 - lr * lam
                    step = (s["m"] / (1 - 0.9**t)) / ((s["v"] / (1 - 0.999**t)).sqrt() + 1e-8)
                    p -= lr * step
            passes(X, Y, torch.ones(8, dtype=f64), LOSSES["squared"])
        opt.step()
    for i, layer in enumerate(linear_layers(net)):
        moved = (multiplier[2 * i] * w[2 * i]).detach()
        assert_allclose(layer.weight.detach(), moved, rtol=1e-7, atol=1e-10)
        assert_allclose(
            layer.bias.detach(),
            (multiplier[2 * i + 1] * w[2 * i + 1]).detach(),
            rtol=1e-6,
            atol=1e-10,
        )


@pytest.mark.parametrize(
    ("a", "b", "c", "name", "r"),
    [
        ((0, 0, 0), (0, 0.5, 0.5), 0, "unstable", -1),  # standard
        ((0, 0, 0), (0, 0.5, 0.5), 1, "kernel", 0.5),  # standard, rate / n
        ((0, 0.5, 0.5), (0, 0, 0), 0, "kernel", 0.5),  # NTK
        ((-0.5, 0, 0, 0.5), (0.5, 0.5, 0.5, 0.5), 0, "feature learning", 0),  # muP
        ((0, 1), (0, 0), -1, "feature learning", 0),  # mean field, one hidden layer
        ((0, 0.5, 0.5), (0, 0, 0), 2, "trivial", 2.5),  # NTK with a rate that vanishes
        ((0, 0, 0.5), (0, 0.25, 0), 0, "unstable", 0),  # hidden weights too large
    ],
)
def test_the_dichotomy_of_tensor_programs(a, b, c, name, r):
    regime = classify_parametrization(a, b, c)
    assert (regime.name, regime.stable) == (name, name != "unstable")
    if name != "unstable" or r == -1:
        assert regime.r == r
    # the same network under a + t, b - t, c - 2t
    for t in (0.5, -1):
        moved = classify_parametrization([x + t for x in a], [x - t for x in b], c - 2 * t)
        assert (moved.name, moved.r) == (regime.name, regime.r)


def test_the_dichotomy_says_what_decided():
    assert classify_parametrization((0, 0), (1, 0.5), 0).reason == "a_1 + b_1 = 0 does not hold"
    assert "a_2 + b_2 = 1/2" in classify_parametrization((0, 0, 0), (0, 0, 0.5), 1).reason
    with pytest.raises(ValueError, match="two or more layers; got 1 and 1"):
        classify_parametrization([0], [0], 0)


def test_all_parametrisations_are_one_network_at_the_base_width():
    X, y = data()
    fitted = [
        ABCMLPRegressor((32,), base_width=32, parametrization=p, max_epochs=5, random_state=0)
        .fit(X, y).predict(X)
        for p in ("standard", "ntk", "mup", "mean_field")
    ]  # fmt: skip
    for other in fitted[1:]:
        assert_allclose(other, fitted[0], rtol=1e-12)
    with pytest.raises(ValueError, match="defined for one hidden layer; got 2"):
        ABCMLPRegressor((8, 8), parametrization="mean_field").fit(X, y)


def test_initial_weights_have_the_sizes_asked_for():
    X, y = data(20, 50)
    options = {"max_epochs": 0, "random_state": 0}
    net = ABCMLPRegressor((2000, 1000), base_width=250, **options).fit(X, y)
    # muP with Adam: He's variance in the inputs and the hidden layer, 1 / (base n^2) at the end
    assert_allclose(net.coefs_[0].std(), (2 / 50) ** 0.5, rtol=0.02)
    assert_allclose(net.coefs_[1].std(), (2 / 2000) ** 0.5, rtol=0.02)
    unit = np.sqrt(np.mean((y - y.mean()) ** 2))  # targets are scaled inside
    assert_allclose(net.coefs_[2].std() / unit, 250**-0.5 / 4, rtol=0.1)
    small = ABCMLPRegressor(
        (2000, 1000), base_width=250, init_scale=0.5, first_layer_scale=1e-3, **options
    ).fit(X, y)
    assert_allclose(small.coefs_[0], 5e-4 * net.coefs_[0], rtol=1e-12)
    assert_allclose(small.coefs_[1], 0.5 * net.coefs_[1], rtol=1e-12)
    zero = ABCMLPRegressor((20,), zero_init_output=True, **options).fit(X, y)
    assert_allclose(zero.predict(X), y.mean(), rtol=1e-12)
    assert zero.n_iter_ == 0
    assert all((b == 0).all() for b in net.intercepts_[:-1])


# --------------------------------------------------------------------- training


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_full_batch_with_weights_equals_repeated_rows(optimizer):
    X, y = data(40)
    times = np.random.default_rng(0).integers(0, 4, 40)
    net = ABCMLPRegressor((32, 32), optimizer=optimizer, max_epochs=50, random_state=0)
    weighted = clone(net).fit(X, y, sample_weight=times)
    repeated = clone(net).fit(X.repeat(times, axis=0), y.repeat(times))
    assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-9)
    labels = np.digitize(y, [-0.5, 0.5])
    net = ABCMLPClassifier((32,), optimizer=optimizer, max_epochs=50, random_state=0)
    weighted = clone(net).fit(X, labels, sample_weight=times)
    repeated = clone(net).fit(X.repeat(times, axis=0), labels.repeat(times))
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-7)


def test_units_of_y_do_not_matter_and_shapes_follow_y():
    X, y = data()
    net = ABCMLPRegressor((16,), max_epochs=20, random_state=0)
    one = clone(net).fit(X, y).predict(X)
    assert_allclose(clone(net).fit(X, 1e6 * y + 7e6).predict(X), 1e6 * one + 7e6, rtol=1e-6)
    assert clone(net).fit(X, y[:, None]).predict(X).shape == (60, 1)
    two = clone(net).fit(X, np.c_[y, -y])
    assert two.predict(X).shape == (60, 2)
    assert two.coefs_[-1].shape == (16, 2)
    net.set_params(zero_init_output=True)
    assert_allclose(clone(net).fit(X, np.full(60, 3.0)).predict(X), 3.0, rtol=1e-12)
    linear = ABCMLPRegressor((), optimizer="sgd", max_epochs=2000, random_state=0).fit(X, y)
    A = np.c_[X, np.ones(60)]
    expected = A @ np.linalg.lstsq(A, y, rcond=None)[0]
    assert_allclose(linear.predict(X), expected, atol=1e-6)


def test_seeds_are_kept_and_the_global_generators_left_alone():
    X, y = data(300)
    np_before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()
    nets = [ABCMLPRegressor((16,), max_epochs=3, random_state=s).fit(X, y) for s in (0, 0, 1)]
    assert_array_equal(np.random.get_state()[1], np_before)
    assert torch.equal(torch.get_rng_state(), torch_before)
    assert_array_equal(nets[0].predict(X), nets[1].predict(X))
    assert np.abs(nets[0].predict(X) - nets[2].predict(X)).max() > 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_fitted_is_numpy_in_the_dtype_of_x(dtype):
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X).astype(dtype)
    net = ABCMLPClassifier((16,), max_epochs=5, random_state=0).fit(X, y)
    arrays = [*net.coefs_, *net.intercepts_, *net.init_coefs_, *net.init_intercepts_]
    assert all(isinstance(a, np.ndarray) and a.dtype == dtype for a in arrays)
    assert net.decision_function(X).dtype == net.predict_proba(X).dtype == dtype
    assert not any(isinstance(v, torch.Tensor | torch.nn.Module) for v in vars(net).values())
    again = pickle.loads(pickle.dumps(net))
    assert_array_equal(again.decision_function(X), net.decision_function(X))
    with torch.no_grad():
        F = net.to_torch()(torch.as_tensor(X)).numpy()
    assert_allclose(F, net.decision_function(X), rtol=1e-4 if dtype == np.float32 else 1e-12)


def test_input_gradients_are_finite_differences():
    X, y = data()
    net = ABCMLPRegressor((16,), activation="tanh", max_epochs=10, random_state=0)
    net.fit(X, np.c_[y, y**2])
    G = net.input_gradients(X)
    assert G.shape == (60, 2, 4)
    for j in range(4):
        e = 1e-6 * np.eye(4)[j]
        assert_allclose(G[:, :, j], (net.predict(X + e) - net.predict(X - e)) / 2e-6, atol=1e-7)


def test_probabilities_and_losses():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for labels in (y, np.array(["no", "yes"])[(y > 0).astype(int)]):
        for loss in ("cross_entropy", "squared"):
            net = ABCMLPClassifier((64,), loss=loss, max_epochs=300, random_state=0)
            P = net.fit(X, labels).predict_proba(X)
            assert_allclose(P.sum(1), 1, rtol=1e-12)
            assert_array_equal(net.classes_[P.argmax(1)], net.predict(X))
            assert net.score(X, labels) > 0.95
            assert (P > 0).all()
    # logits: the probability of the second class is the logistic function of the score
    net = ABCMLPClassifier((8,), max_epochs=5, random_state=0).fit(X, y > 0)
    p = net.predict_proba(X)[:, 1]
    assert_allclose(np.log(p / (1 - p)), net.decision_function(X), rtol=1e-8)
    heavy = ABCMLPClassifier((8,), class_weight={0: 1, 1: 50}, random_state=0).fit(X, y > 0)
    assert (heavy.predict_proba(X)[:, 1] > p).mean() > 0.5


def test_early_stopping_keeps_the_best_weights():
    X, y = data(200)
    y = y + np.random.default_rng(1).normal(size=200)
    net = ABCMLPRegressor(
        (256,),
        learning_rate=1e-2,
        max_epochs=300,
        early_stopping=True,
        n_iter_no_change=5,
        random_state=0,
    ).fit(X[:120], y[:120], X_val=X[120:], y_val=y[120:])
    losses = net.history_["validation_loss"]
    assert net.n_iter_ == len(losses) < 300
    assert net.best_iter_ == losses.argmin() + 1
    unit = np.mean((y[:120] - y[:120].mean()) ** 2)
    kept = np.mean((net.predict(X[120:]) - y[120:]) ** 2) / 2 / unit
    assert_allclose(kept, losses.min(), rtol=1e-9)
    inside = ABCMLPRegressor((64,), early_stopping=True, max_epochs=5, random_state=0).fit(X, y)
    assert np.isfinite(inside.history_["validation_loss"]).all()
    assert np.isnan(ABCMLPRegressor((8,), max_epochs=2).fit(X, y).history_["validation_loss"]).all()


def test_warm_start_goes_on_from_the_weights():
    X, y = data()
    options = {"optimizer": "sgd", "hidden_layer_sizes": (16,), "random_state": 0}
    whole = ABCMLPRegressor(max_epochs=20, **options).fit(X, y)
    parts = ABCMLPRegressor(max_epochs=10, warm_start=True, **options).fit(X, y)
    start = parts.init_coefs_[0].copy()
    parts.fit(X, y)
    assert_allclose(parts.predict(X), whole.predict(X), rtol=1e-9)
    assert_array_equal(parts.init_coefs_[0], start)
    with pytest.raises(ValueError, match=r"sizes \[4, 16, 1\], which does not fit \[4, 8, 1\]"):
        parts.set_params(hidden_layer_sizes=(8,)).fit(X, y)


def test_bad_training_is_told():
    X, y = data()
    with pytest.raises(ValueError, match=r"diverged.*StandardScaler, or lower learning_rate"):
        ABCMLPRegressor(optimizer="sgd", learning_rate=1e6).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="higher than before training"):
        ABCMLPRegressor(
            (64,), optimizer="sgd", learning_rate=2.0, max_epochs=3, random_state=0
        ).fit(X, y)
    with pytest.raises(ValueError, match="positive whole numbers"):
        ABCMLPRegressor((8, 0)).fit(X, y)
    with pytest.raises(ValueError, match="positive whole numbers"):
        ABCMLPRegressor((8, 2.5)).fit(X, y)
    with pytest.raises(ValueError, match="finds no such device"):
        ABCMLPRegressor(device="cuda:77").fit(X, y)


def test_grid_search_and_callbacks(capsys):
    X, y = data()
    search = GridSearchCV(
        ABCMLPRegressor(max_epochs=3), {"hidden_layer_sizes": [(4,), [8, 8], 6]}, cv=2
    )
    assert search.fit(X, y).best_estimator_.n_iter_ == 3
    monitor = AlignmentMonitor(X, every=2)
    net = ABCMLPRegressor((8, 8), max_epochs=5, random_state=0).set_callbacks(
        monitor, ProgressBar()
    )
    net.fit(X, y)
    assert capsys.readouterr().out
    assert monitor.epochs == [2, 4]
    shorter = ABCMLPRegressor((8, 8), max_epochs=4, random_state=0).fit(X, y)
    assert_allclose(monitor.alignments[1], [f.alignment for f in layer_features(shorter, X)])
    stop = SimpleNamespace(
        setup=lambda estimator, context: None,
        teardown=lambda estimator, context: None,
        on_fit_task_begin=lambda estimator, context: None,
        on_fit_task_end=lambda estimator, context: context.task_name == "epoch",
    )
    assert ABCMLPRegressor((8,), max_epochs=9).set_callbacks(stop).fit(X, y).n_iter_ == 1
