# SPDX-License-Identifier: BSD-3-Clause
"""Feature matrices of trained networks, against definitions and exact identities."""

import warnings

import numpy as np
import pytest
import scipy.sparse
import torch
from network_helpers import randn, redraw
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from rfmlearn import ABCMLPClassifier, ABCMLPRegressor
from rfmlearn.features import agop, alignment, matrix_power
from rfmlearn.neural import _capture, layer_features

f64 = torch.float64


class Tangled(nn.Module):
    """Convolution in groups, batch-norm, in-place relu, a reused layer, skips, dropout."""

    def __init__(self):
        super().__init__()
        self.a = nn.utils.skip_init(nn.Conv2d, 4, 6, 3, padding=1, stride=2, groups=2)
        self.norm = nn.BatchNorm2d(6)
        self.b = nn.utils.skip_init(nn.Conv2d, 6, 4, 2)
        self.wide = nn.utils.skip_init(nn.Linear, 16, 30)
        self.narrow = nn.utils.skip_init(nn.Linear, 30, 5)
        self.again = nn.utils.skip_init(nn.Linear, 5, 5)
        self.out = nn.utils.skip_init(nn.Linear, 5, 3)
        self.relu, self.drop = nn.ReLU(inplace=True), nn.Dropout(0.5)

    def forward(self, x):
        h = self.relu(self.norm(self.a(x)))
        h = self.relu(self.b(h)).flatten(1)
        h = torch.tanh(self.narrow(self.drop(self.relu(self.wide(h)))))
        h = h + torch.tanh(self.again(h))
        h = h + torch.tanh(self.again(h))
        return self.out(h)


LAYERS = ["a", "b", "wide", "narrow", "again", "again", "out"]


def patches(layer, h):
    """What a layer reads: rows, positions and inputs (n, p, d)."""
    if isinstance(layer, nn.Linear):
        return h[:, None]
    unfold = nn.Unfold(layer.kernel_size, padding=layer.padding, stride=layer.stride)
    return unfold(h).mT


def run(model, X, replace=None):
    """Run a network; `replace` maps a call's number to the patches it is to read instead."""
    calls = []

    def pre(layer, args):
        calls.append((layer, args[0]))

    def post(layer, args, z):
        number = len(calls) - 1
        if replace is None or number not in replace:
            return z
        W = _capture.weight_matrix(layer)
        made = replace[number] @ W.mT + layer.bias
        return made[:, 0] if isinstance(layer, nn.Linear) else made.mT.reshape(z.shape)

    hooks = []
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            hooks += [layer.register_forward_pre_hook(pre), layer.register_forward_hook(post)]
    F = model(X)
    for hook in hooks:
        hook.remove()
    return F, calls


def by_definition(model, X, weight=None, center=False):
    """AGOP of each call: jacrev of the outputs with respect to the patches it reads."""
    model.eval()
    w = torch.ones(len(X), dtype=f64) if weight is None else torch.as_tensor(weight)
    _, calls = run(model, X)
    found = []
    for number, (layer, h) in enumerate(calls):
        P = patches(layer, h).detach()
        # rows do not touch each other: the jacobian of the sum holds every row's gradient
        J = torch.func.jacrev(lambda P, k=number: run(model, X, {k: P})[0].sum(0))(P)
        G = J.permute(1, 2, 0, 3)  # rows, positions, outputs, inputs
        if center:
            G = G - torch.einsum("n,npcd->cd", w, G) / (w.sum() * G.shape[1])
        found.append((torch.einsum("n,npcd,npce->de", w, G, G) / w.sum()).detach().numpy())
    return found


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", [False, True])
def test_every_layers_agop_is_that_of_the_definition(center, weighted):
    model, X = redraw(Tangled()), randn(9, 4, 6, 6, seed=1)
    weight = np.random.default_rng(0).uniform(0.1, 2, 9) if weighted else None
    layers = layer_features(model, X, center_gradients=center, sample_weight=weight, batch_size=4)
    assert [layer.name for layer in layers] == LAYERS
    assert [layer.call for layer in layers] == [0, 0, 0, 0, 0, 1, 0]
    for layer, expected in zip(layers, by_definition(model, X, weight, center)):
        assert isinstance(layer.agop, np.ndarray)
        scale = np.abs(expected).max()
        if layer.name == "out" and center:  # equal gradients: exactly none are left
            assert (layer.agop == 0).all()
            assert scale < 1e-14
        else:
            assert_allclose(layer.agop, expected, atol=1e-12 * scale)


def test_every_layers_agop_is_that_of_finite_differences():
    model, X, step = redraw(Tangled(), seed=3).eval(), randn(5, 4, 6, 6, seed=4), 1e-6
    _, calls = run(model, X)
    for number, found in enumerate(layer_features(model, X)):
        P = patches(calls[number][0], calls[number][1]).detach()
        G = torch.zeros(*P.shape, 3, dtype=f64)
        for p in range(P.shape[1]):
            for j in range(P.shape[2]):
                moved = torch.zeros_like(P)
                moved[:, p, j] = step
                up, down = (run(model, X, {number: P + s * moved})[0] for s in (1, -1))
                G[:, p, j] = (up - down).detach() / (2 * step)
        expected = torch.einsum("npdc,npec->de", G, G).numpy() / len(X)
        # the differences lose half the digits, and kinks of relu more at a few entries
        assert_allclose(found.agop, expected, atol=1e-6 * np.abs(expected).max())


def test_nfm_is_the_weights_gram_in_patch_order():
    model = redraw(Tangled())
    layers = layer_features(model, randn(3, 4, 6, 6))
    W = model.wide.weight.detach().numpy()
    assert_allclose(layers[2].nfm, W.T @ W, rtol=1e-13)
    # a group sees its own channels only
    assert layers[0].nfm.shape == (36, 36)
    K = model.a.weight.detach().flatten(1).numpy()
    assert_allclose(layers[0].nfm[:18, :18], K[:3].T @ K[:3], rtol=1e-13)
    assert (layers[0].nfm[:18, 18:] == 0).all()


def test_mixtures_of_outputs_have_the_same_mean():
    # 3 outputs from 2 signs a row: the error falls as 1 / sqrt(rows)
    net = redraw(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)))
    X = randn(40_000, 4, seed=2)
    exact = layer_features(net, X, agop_outputs="all")
    mixed = layer_features(net, X, agop_outputs=1)
    automatic = layer_features(net, X)
    for a, b, c in zip(exact, mixed, automatic):
        assert 0 < np.linalg.norm(b.agop - a.agop) < 0.03 * np.linalg.norm(a.agop)
        assert_allclose(c.agop, b.agop, rtol=1e-12)  # 120,000 gradients: one mixture a row
    few = layer_features(net, X[:100])
    assert_allclose(few[0].agop, layer_features(net, X[:100], agop_outputs="all")[0].agop)
    assert_allclose(mixed[0].agop, layer_features(net, X, agop_outputs=1)[0].agop, rtol=0)


def test_a_scalar_of_the_users_and_one_of_several_heads():
    net = redraw(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    X = randn(6, 3)
    x = X.clone().requires_grad_()
    G = torch.autograd.grad(net(x).logsumexp(1).sum(), x)[0].numpy()
    found = layer_features(net, X, output=lambda F: F.logsumexp(1))
    assert_allclose(found[0].agop, G.T @ G / 6, rtol=1e-12)

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.idle = net, redraw(nn.Linear(3, 7))

        def forward(self, x):
            return {"main": self.net(x), "idle": self.idle(x)}

    heads = Heads()
    with pytest.raises(ValueError, match=r"returns dict for .* rows.*Pass output="):
        layer_features(heads, X)
    found = layer_features(heads, X, output=lambda F: F["main"])
    assert [layer.name for layer in found] == ["net.0", "net.2", "idle"]
    assert_allclose(found[0].agop, layer_features(net, X)[0].agop, rtol=1e-13)
    assert (found[2].agop == 0).all()


def test_the_model_is_left_as_it_was_on_success_and_on_error():
    model = redraw(Tangled()).train()
    model.norm.eval()
    model.again.weight.requires_grad_(False)
    model.out.register_forward_hook(lambda *args: None)
    before = {k: v.clone() for k, v in model.state_dict().items()}

    def state():
        return (
            [m.training for m in model.modules()],
            [p.requires_grad for p in model.parameters()],
            [p.grad is None for p in model.parameters()],
            [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        )

    was = state()
    layer_features(model, randn(4, 4, 6, 6))
    assert state() == was
    with pytest.raises(RuntimeError, match=r"shape|channels|size"):  # torch's own words
        layer_features(model, randn(4, 5, 6, 6))
    assert state() == was
    with pytest.raises(ZeroDivisionError):
        layer_features(model, randn(4, 4, 6, 6), output=lambda F: 1 / 0)
    assert state() == was
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    with torch.no_grad():  # whatever the caller's grad mode
        layer_features(model, randn(4, 4, 6, 6))
        assert not torch.is_grad_enabled()


def test_a_frozen_network_has_features_and_a_detached_one_says_why_not():
    net = redraw(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)))
    X = randn(6, 3)
    expected = layer_features(net, X)[0].agop
    frozen = net.requires_grad_(False)
    assert_allclose(layer_features(frozen, X)[0].agop, expected, rtol=1e-13)

    class Detached(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            with torch.no_grad():
                return self.net(x)

    with pytest.raises(ValueError, match=r"'net\.0' runs under torch\.no_grad"):
        layer_features(Detached(), X)


def test_networks_of_scikit_learn_skorch_and_pipelines():
    from skorch import NeuralNetRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
    for model in (
        MLPClassifier((6, 5), activation="logistic", max_iter=5, random_state=0),
        MLPRegressor(hidden_layer_sizes=(6,), activation="tanh", max_iter=5, random_state=0),
    ):
        with pytest.raises(NotFittedError):
            layer_features(model, X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # five iterations are few
            model.fit(X, y)
        layers = layer_features(model, X)
        assert_allclose(layers[0].nfm, model.coefs_[0] @ model.coefs_[0].T, rtol=1e-12)
        # the AGOP by finite differences of a forward pass of our own
        phi = np.tanh if model.activation == "tanh" else lambda z: 1 / (1 + np.exp(-z))

        def forward(H, model=model, phi=phi):
            for W, b in zip(model.coefs_[:-1], model.intercepts_[:-1]):
                H = phi(H @ W + b)
            return H @ model.coefs_[-1] + model.intercepts_[-1]

        step = 1e-6 * np.eye(4)
        G = np.stack([(forward(X + s) - forward(X - s)) / 2e-6 for s in step], axis=2)
        assert_allclose(layers[0].agop, agop(G), rtol=1e-7)
        assert_allclose(layer_features(FrozenEstimator(model), X)[0].agop, layers[0].agop)
    pipe = make_pipeline(StandardScaler(), ABCMLPClassifier((8,), max_epochs=2, random_state=0))
    pipe.fit(X, y)
    direct = layer_features(pipe[-1].to_torch(), pipe[:-1].transform(X))
    assert_allclose(layer_features(pipe, X)[0].agop, direct[0].agop, rtol=1e-13)
    net = NeuralNetRegressor(nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)), verbose=0)
    with pytest.raises(NotFittedError):
        layer_features(net, X)
    net.initialize()
    assert layer_features(net, X)[0].nfm.shape == (4, 4)
    with pytest.raises(TypeError, match="StandardScaler is not a network"):
        layer_features(StandardScaler(), X)
    with pytest.raises(ValueError, match="no Linear or Conv2d"):
        layer_features(nn.Sequential(nn.Tanh(), nn.PReLU()), X)
    with pytest.raises(ValueError, match="no rows"):
        layer_features(net, X[:0])


def test_embeddings_sequences_and_half_precision():
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    redraw(model)
    tokens = np.array([[0, 1, 2], [3, 4, 0]])
    with pytest.warns(UserWarning, match=r"Not read, .*: 0 \(Embedding\)\.$"):
        first, last = layer_features(model, tokens)
    # (n, 3 positions, 2) outputs are six; each is a function of its own position
    assert_allclose(last.agop, 3 * last.nfm, rtol=1e-12)
    assert first.agop.shape == (3, 3)
    half = nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 2))
    redraw(half)
    X = randn(50, 6)
    exact = layer_features(half, X)[0].agop
    rounded = layer_features(half.to(torch.bfloat16), X)[0].agop
    assert_allclose(rounded, exact, atol=0.05 * np.abs(exact).max())


def test_initial_weights():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    model = ABCMLPRegressor((16,), max_epochs=20, random_state=0).fit(X, X[:, 0] ** 2)
    W, W0 = model.coefs_[0].T, model.init_coefs_[0].T
    trained, change = layer_features(model, X), layer_features(model, X, subtract_init=True)
    assert_allclose(trained[0].init_nfm, W0.T @ W0, rtol=1e-12)
    assert_allclose(change[0].nfm, (W - W0).T @ (W - W0), rtol=1e-10)
    assert_allclose(change[0].agop, trained[0].agop)
    module, start = model.to_torch(), model.initial().to_torch()
    for init in (start, start.state_dict()):
        again = layer_features(module, X, init=init, subtract_init=True)
        assert_allclose(again[0].nfm, change[0].nfm, rtol=1e-12)
    assert set(trained[0].alignments) == {
        f"{how} with {what}"
        for how in ("pearson", "cosine")
        for what in ("agop^1/2", "agop", "initial nfm")
    }
    root = matrix_power(trained[0].agop, 0.5)
    assert trained[0].alignment == alignment(trained[0].nfm, root, "pearson")
    assert trained[0].alignments["pearson with agop^1/2"] == trained[0].alignment
    assert trained[0].alignments["cosine with agop"] == alignment(trained[0].nfm, trained[0].agop)
    whole = layer_features(model, X, agop_power=1.0)[0].alignment
    assert whole == trained[0].alignments["pearson with agop"]
    with pytest.raises(ValueError, match="needs the initial weights"):
        layer_features(module, X, subtract_init=True)
    with pytest.raises(ValueError, match=r"init has nothing for the weight of '0'"):
        layer_features(module, X, init={}, subtract_init=True)
    with pytest.raises(ValueError, match="80 weights"):
        layer_features(module, X, sample_weight=[1.0])


# ---------------------------------------------------------------- what is not measured is said


def test_rows_that_see_each_other_are_refused():
    X = randn(20, 6)
    norm = nn.BatchNorm1d(8, track_running_stats=False)
    with pytest.raises(ValueError, match="rows see each other"):
        layer_features(nn.Sequential(nn.Linear(6, 8), norm, nn.ReLU(), nn.Linear(8, 2)), X)

    class Centred(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(6, 2)

        def forward(self, x):
            return self.a(x - x.mean(0))

    with pytest.raises(ValueError, match="rows see each other"):
        layer_features(Centred(), X)
    tracked = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    assert len(layer_features(tracked, X)) == 2


class Hidden(nn.Module):
    """Weights that no module's call shows."""

    def __init__(self):
        super().__init__()
        self.by_function, self.by_forward = nn.Linear(6, 6), nn.Linear(6, 6)
        self.raw = nn.Parameter(torch.eye(6))
        self.cell, self.read = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 2)
        self.unused = nn.Linear(6, 6)

    def forward(self, x):
        x = nn.functional.linear(x, self.by_function.weight)
        x = self.by_forward.forward(x) @ self.raw
        return self.read(self.cell(x[:, None])[0][:, -1])


def test_weights_that_took_part_and_were_not_read_are_named():
    with pytest.warns(UserWarning, match="Not read") as told:
        (only,) = layer_features(Hidden(), randn(12, 6))
    assert only.name == "read"
    (message,) = (str(entry.message) for entry in told)
    for name in (
        "the model itself (Hidden)",
        "by_function (Linear)",
        "by_forward (Linear)",
        "cell (LSTM)",
    ):
        assert name in message
    assert "unused" not in message and "read (" not in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agop_outputs": 0}, "agop_outputs"),
        ({"agop_outputs": "some"}, "agop_outputs"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": -1}, "batch_size"),
        ({"agop_power": 0}, "agop_power"),
        ({"output": "logits"}, "output"),
        ({"init": [1.0]}, "init"),
        ({"random_state": None}, "random_state"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=f"'{message}' parameter of layer_features"):
        layer_features(nn.Linear(6, 2), randn(5, 6), **options)


class Two(nn.Module):
    """A network of two inputs."""

    def __init__(self, weights):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(4, 3), nn.Linear(2, 3), nn.Linear(3, 1)
        self.load_state_dict({f"{k}.{w}": v for k in weights for w, v in weights[k].items()})

    def forward(self, x, z):
        return self.out(torch.tanh(self.a(x) + self.b(z)))


def test_several_inputs():
    torch.manual_seed(0)
    parts = {"a": nn.Linear(4, 3), "b": nn.Linear(2, 3), "out": nn.Linear(3, 1)}
    net = Two({name: part.state_dict() for name, part in parts.items()})
    X, Z = randn(30, 4).numpy(), randn(30, 2).numpy()
    # one linear layer of both inputs is the sum of one of each
    joint = nn.Sequential(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 1))
    with torch.no_grad():
        joint[0].weight.copy_(torch.cat([net.a.weight, net.b.weight], 1))
        joint[0].bias.copy_(net.a.bias + net.b.bias)
    joint[2].load_state_dict(net.out.state_dict())
    whole, last = layer_features(joint, np.hstack([X, Z]))
    for given in ((X, Z), {"z": Z, "x": X}, (torch.tensor(X), torch.tensor(Z))):
        a, b, out = layer_features(net, given)
        np.testing.assert_allclose(a.agop, whole.agop[:4, :4], rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(b.agop, whole.agop[4:, 4:], rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(out.agop, last.agop, rtol=1e-4, atol=1e-7)
    with pytest.raises(ValueError, match=r"different numbers of rows: \[29, 30\]"):
        layer_features(net, (X, Z[:29]))
    with pytest.raises(ValueError, match=r"missing 1 required .*'z' \(Several inputs"):
        layer_features(net, X)


class Mixed(nn.Module):
    """Two precisions, and a scale in a third."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((1,), 2.0, dtype=torch.float16))
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 1).double()

    def forward(self, x):
        return self.b(torch.tanh(self.a(x * self.scale)).double())


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_mixed_precisions(dtype):
    torch.manual_seed(0)
    net, X = Mixed(), (10 * randn(20, 4)).numpy().astype(dtype)
    a, b = layer_features(net, X)
    double = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    double[0].load_state_dict(net.a.state_dict())
    double[2].load_state_dict(net.b.state_dict())
    first, last = layer_features(double, X * 2)
    np.testing.assert_allclose(a.agop, first.agop, rtol=1e-3, atol=1e-4 * first.agop.max())
    np.testing.assert_allclose(b.agop, last.agop, rtol=1e-3)


class Mapped(nn.Module):
    """A network inside vmap, which hooks cannot enter."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return torch.func.vmap(self.layer)(x)


def plain():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.jit.trace(plain(), torch.ones(2, 4)), "hooks cannot enter"),
        (lambda: torch.export.export(plain(), (torch.ones(2, 4),)).module(), "hooks cannot enter"),
        (lambda: nn.Sequential(nn.Linear(4, 8), nn.LazyLinear(1)), "Run it once on some rows"),
        (lambda: nn.Linear(4, 1, device="meta"), "'meta'"),
        (lambda: nn.Linear(3, 1), r"rows of shape \(4,\).* cannot be multiplied"),
        (Mapped, "cannot be run, with its layers read"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_networks_that_cannot_be_read(make, message):
    with pytest.raises(ValueError, match=message):
        layer_features(make(), randn(6, 4))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda X: scipy.sparse.csr_array(X), TypeError, "sparse"),
        (lambda X: X.astype(str), ValueError, "not real numbers"),
        (lambda X: X.astype(complex), ValueError, "not real numbers"),
        (lambda X: torch.tensor(X).to(torch.complex64), ValueError, "not real numbers"),
        (lambda X: [X, X[:, :2]], ValueError, "Several inputs are given as a tuple"),
        (lambda X: X[:0], ValueError, "no rows"),
        (lambda X: 1.0, ValueError, "rows are needed"),
    ],
)
def test_rows_that_cannot_be_read(make, error, message):
    with pytest.raises(error, match=message):
        layer_features(plain(), make(randn(6, 4).numpy()))


def test_rows_in_other_containers():
    import pandas as pd

    X, net = randn(12, 6).numpy(), nn.Linear(6, 2)
    plain = layer_features(net, X)[0].agop
    frame = pd.DataFrame(X).convert_dtypes()
    assert_allclose(layer_features(net, frame)[0].agop, plain)
    with pytest.raises(ValueError, match="not a number"):
        layer_features(net, pd.DataFrame({"a": ["x", "y"]}))
    broken = X.copy()
    broken[3, 2] = np.inf
    with pytest.raises(ValueError, match="NaN or infinity"):
        layer_features(net, broken)
