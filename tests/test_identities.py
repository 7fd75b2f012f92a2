# SPDX-License-Identifier: BSD-3-Clause
"""Exact identities of trained networks and their AGOPs (O1 to O8)."""

from itertools import pairwise

import torch
from network_helpers import randn, redraw
from numpy.testing import assert_allclose
from torch import nn

from rfmlearn.features import alignment, matrix_power
from rfmlearn.neural import layer_features

f64 = torch.float64


def gram(W):
    return (W.mT @ W).numpy()


def bias_free(*widths, seed=0, scale=0.5):
    layers = []
    for i, (a, b) in enumerate(pairwise(widths)):
        layer = nn.utils.skip_init(nn.Linear, a, b, bias=False, dtype=f64)
        with torch.no_grad():
            layer.weight.copy_(scale * randn(b, a, seed=seed + i))
        layers.append(layer)
    return nn.Sequential(*layers)


def test_o1_one_sample_from_zero():
    # f(z) = g(B z) with B0 = 0: grad f grad f^T is proportional to B^T B at any z and step
    x, y = randn(1, 5), torch.tensor([[1.0]], dtype=f64)
    net = nn.Sequential(bias_free(5, 4)[0], *redraw(nn.Sequential(nn.Linear(4, 6), nn.Tanh())))
    net.append(redraw(nn.Linear(6, 1), seed=5))
    with torch.no_grad():
        net[0].weight.zero_()
    for _ in range(3):
        net.zero_grad()
        ((net(x) - y) ** 2).sum().backward()
        with torch.no_grad():
            net[0].weight -= 0.05 * net[0].weight.grad
        found = layer_features(net, randn(1, 5, seed=9))[0]
        assert 1 - alignment(found.nfm, found.agop) < 1e-14
    net[0].weight.data += randn(4, 5, seed=7)
    assert alignment(*((f := layer_features(net, x)[0]).nfm, f.agop)) < 0.99  # the control


def test_o2_balanced_linear_network():
    # W_i^T W_i = AGOP_i^(1/(L-i)) with no factor
    Q = [torch.linalg.qr(randn(5, 5, seed=s))[0] for s in range(4)]
    S = torch.diag(torch.tensor([1.5, 1.2, 1.0, 0.7, 0.3], dtype=f64))
    net = bias_free(5, 5, 5, 5)
    with torch.no_grad():
        for i in range(3):
            net[i].weight.copy_(Q[i + 1] @ S @ Q[i].mT)
    for i, layer in enumerate(layer_features(net, randn(7, 5, seed=8))):
        assert_allclose(layer.nfm, matrix_power(layer.agop, 1 / (3 - i)), atol=1e-13)


def test_o3_weight_decay_balances_a_linear_network():
    net, X = bias_free(4, 6, 5, 3, scale=0.8), randn(60, 4, seed=11)
    Y = X @ randn(4, 3, seed=12) + 0.1 * randn(60, 3, seed=13)
    decay, before = 0.05, layer_features(net, X)[0]
    optimizer = torch.optim.LBFGS(
        net.parameters(), max_iter=6000, tolerance_grad=1e-13, tolerance_change=0,
        history_size=50, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure():
        optimizer.zero_grad()
        value = (net(X) - Y).square().sum() / (2 * len(X))
        value = value + decay / 2 * sum(p.square().sum() for p in net.parameters())
        value.backward()
        return value

    optimizer.step(closure)
    for i, layer in enumerate(layer_features(net, X)):
        assert 1 - alignment(layer.nfm, matrix_power(layer.agop, 1 / (3 - i))) < 1e-9
    assert alignment(before.nfm, matrix_power(before.agop, 1 / 3)) < 0.99  # the control
    # O9 at the same stationary point: decay W^T W = -(1/n) sum (grad_h loss) h^T
    hidden = [X, net[0](X), net[1](net[0](X))]
    for layer, h in zip(net, hidden):
        tail = net[list(net).index(layer) :]
        h = h.detach().requires_grad_()
        g = torch.autograd.grad((tail(h) - Y).square().sum() / 2, h)[0]
        expected = -(g.mT @ h.detach()).numpy() / len(X)
        assert_allclose(decay * gram(layer.weight.detach()), expected, atol=2e-6)


def test_o4_relu_on_antithetic_data():
    # f = Q relu(W x), Q^T Q = I, on {X, -X}: AGOP = W^T W / 2
    net = nn.Sequential(bias_free(4, 6)[0], nn.ReLU(), bias_free(6, 8)[0])
    with torch.no_grad():
        net[2].weight.copy_(torch.linalg.qr(randn(8, 6))[0])
    X = randn(30, 4, seed=2)
    first = layer_features(net, torch.cat([X, -X]))[0]
    assert_allclose(first.agop, first.nfm / 2, rtol=1e-12, atol=1e-14)
    assert abs(first.alignments["cosine with agop"] - 1) < 1e-12


class Quadratic(nn.Module):
    def __init__(self, Q):
        super().__init__()
        self.eye, self.Q = bias_free(4, 4)[0], Q
        with torch.no_grad():
            self.eye.weight.copy_(torch.eye(4, dtype=f64))

    def forward(self, x):
        x = self.eye(x)
        return (x @ self.Q * x).sum(1) / 2


def test_o5_linear_and_quadratic_functions():
    X = randn(20, 4, seed=3)
    A = bias_free(4, 3)
    assert_allclose(layer_features(A, X)[0].agop, gram(A[0].weight.detach()), rtol=1e-12)
    Q = randn(4, 4, seed=4)
    Q = Q + Q.mT
    second, cov = X.mT @ X / 20, torch.cov(X.mT, correction=0)
    for center, moment in ((False, second), (True, cov)):
        found = layer_features(Quadratic(Q), X, center_gradients=center)[0].agop
        assert_allclose(found, (Q @ moment @ Q).numpy(), rtol=1e-11)


def test_o6_o7_o8_moments_rotations_and_the_chain_rule():
    net, X = redraw(nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 3))), randn(15, 4)
    plain, centred = layer_features(net, X)[0], layer_features(net, X, center_gradients=True)[0]
    x = X.clone().requires_grad_()
    J = torch.stack([torch.autograd.grad(net(x)[:, k].sum(), x)[0] for k in range(3)], 1)
    mean = J.mean(0).numpy()
    assert_allclose(plain.agop, centred.agop + mean.T @ mean, rtol=1e-11)
    R = torch.linalg.qr(randn(3, 3, seed=5))[0]
    turned = layer_features(net, X, output=lambda F: F @ R)
    assert_allclose(turned[0].agop, plain.agop, rtol=1e-11)
    # O8: AGOP = W^T K W with K the AGOP at the first pre-activation
    eye = nn.utils.skip_init(nn.Linear, 7, 7, bias=False, dtype=f64)
    with torch.no_grad():
        eye.weight.copy_(torch.eye(7, dtype=f64))
    K = layer_features(nn.Sequential(net[0], eye, *net[1:]), X)[1].agop
    W = net[0].weight.detach().numpy()
    assert_allclose(plain.agop, W.T @ K @ W, rtol=1e-11)
