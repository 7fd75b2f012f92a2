# SPDX-License-Identifier: BSD-3-Clause
"""The abc-parametrisations: how weights, initialisation and learning rate scale with width.

``W = n^-a w`` with ``w ~ N(0, n^-2b)`` and learning rate ``eta n^-c``, for input, hidden and
output weights (Yang and Hu, arXiv 2011.14522, section 3). Everywhere n is the width relative to
`base_width`, at which all parametrisations are one and the same network: the fan-out of the input
weights, else the fan-in. Constants of finite dimensions (1 / sqrt(d) of the inputs, the gain of
the activation) stand outside.
"""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import nn

from rfmlearn import _backend
from rfmlearn.neural._modules import MODULES

__all__ = ["ABC_TABLE", "Exponents"]


class Exponents(NamedTuple):
    """The exponents of one kind of weight.

    Parameters
    ----------
    a : float
        Of the multiplier: ``W = n^-a w``.
    b : float
        Of the initial standard deviation of w, ``n^-b``.
    c : float
        Of the learning rate, ``eta n^-c``.
    """

    a: float
    b: float
    c: float


def _row(*triples):
    return {kind: Exponents(*t) for kind, t in zip(("input", "hidden", "output"), triples) if t}


# Stochastic gradient descent: the table of Tensor Programs IV (a_1 / a_l / a_L+1 and so on).
# Adam, whose step does not know the size of the gradient: muP from Tensor Programs V
# (arXiv 2203.03466, table 8); standard is PyTorch's habit, one rate for all; NTK has the rates
# under which weights move as they do under gradient descent: features by n^-1/2, outputs by 1.
# The mean field is that of one hidden layer.
#: The table: (parametrization, optimizer) to the `Exponents` of input, hidden and output weights.
ABC_TABLE = {
    ("standard", "sgd"): _row((0, 0, 0), (0, 0.5, 0), (0, 0.5, 0)),
    ("ntk", "sgd"): _row((0, 0, 0), (0.5, 0, 0), (0.5, 0, 0)),
    ("mup", "sgd"): _row((-0.5, 0.5, 0), (0, 0.5, 0), (0.5, 0.5, 0)),
    ("mean_field", "sgd"): _row((0, 0, -1), None, (1, 0, -1)),
    ("standard", "adam"): _row((0, 0, 0), (0, 0.5, 0), (0, 0.5, 0)),
    ("ntk", "adam"): _row((0, 0, 0.5), (0.5, 0, 1), (0.5, 0, 0.5)),
    ("mup", "adam"): _row((0, 0, 0), (0, 0.5, 1), (0, 1, 1)),
    ("mean_field", "adam"): _row((0, 0, 0), None, (1, 0, 0)),
}


def make_network(sizes, activation, dtype, device):
    """Return an `nn.Sequential` of linear layers and activations with undefined weights.

    Parameters
    ----------
    sizes : sequence of int
        Inputs, hidden widths, outputs.
    activation : str
        Key of `MODULES`.
    dtype, device : torch.dtype and torch.device
        Of the weights.

    Returns
    -------
    nn.Sequential
        Without having drawn a random number.
    """
    layers = []
    for fan_in, fan_out in pairwise(sizes):
        # skip_init: the default initialisation would draw from the global generator
        linear = nn.utils.skip_init(nn.Linear, fan_in, fan_out, dtype=dtype, device=device)
        layers += [linear, MODULES[activation].module()]
    return nn.Sequential(*layers[:-1])


def linear_layers(network):
    """Return the linear layers of a network from `make_network`, in order."""
    return [layer for layer in network if isinstance(layer, nn.Linear)]


def set_weights(network, coefs, intercepts):
    """Copy weights (fan_in, fan_out) and biases (fan_out,), NumPy, into the linear layers."""
    for layer, W, b in zip(linear_layers(network), coefs, intercepts):
        with torch.no_grad():
            layer.weight.copy_(_backend.to_tensor(W).mT)
            layer.bias.copy_(_backend.to_tensor(b))


def weights_of(network, intercept=0.0, scale=1.0):
    """Return weights (fan_in, fan_out) and biases as NumPy, the outputs in units of y."""
    layers = linear_layers(network)
    coefs = [_backend.to_numpy(layer.weight).T.copy() for layer in layers]
    intercepts = [_backend.to_numpy(layer.bias).copy() for layer in layers]
    dtype = coefs[-1].dtype
    coefs[-1] = (coefs[-1] * scale).astype(dtype)
    intercepts[-1] = (intercepts[-1] * scale + intercept).astype(dtype)
    return coefs, intercepts


class Scaling:
    """A parametrisation at the widths of one network.

    The multiplier of a weight is not applied in the forward pass. A network is the same with
    ``(a + t, b - t, c - 2 t)`` under gradient descent, and with ``(a + t, b - t, c - t)`` under
    Adam, whose epsilon then has to grow by ``n^t`` as well; ``t = -a`` leaves plain weights W
    with a learning rate, a weight decay and an epsilon of their own.

    Parameters
    ----------
    parametrization, optimizer : str
        Key of `ABC_TABLE`.
    sizes : sequence of int
        Inputs, hidden widths, outputs.
    base_width : int
        Width at which n is 1.

    Raises
    ------
    ValueError
        If the parametrisation has no such depth.
    """

    def __init__(self, parametrization, optimizer, sizes, base_width):
        rows = ABC_TABLE[parametrization, optimizer]
        self.adam = optimizer == "adam"
        self.base_width = base_width
        self.sizes = sizes
        depth = len(sizes) - 1
        if depth > 2 and "hidden" not in rows:
            raise ValueError(
                f"parametrization={parametrization!r} is defined for one hidden layer; got "
                f"{depth - 1}. Use 'mup', which equals it there and goes on."
            )
        kinds = ["input", *["hidden"] * (depth - 2), "output"] if depth > 1 else ["output"]
        self.weights = [rows[kind] for kind in kinds]
        widths = [sizes[1], *sizes[1:-1]] if depth > 1 else [base_width]
        self.n = [width / base_width for width in widths]
        # a bias acts on one unit, as an input weight does; that of the output on no width at all
        self.biases = [(rows["input"], size / base_width) for size in sizes[1:-1]]
        self.biases.append((Exponents(0, 0, 0), 1.0))

    def initialize(self, network, factors, seed):
        """Draw the weights W, normal, and set the biases to 0.

        Parameters
        ----------
        network : nn.Sequential
            As `make_network` returns it; changed in place.
        factors : sequence of float
            Of the standard deviation of each layer.
        seed : int
            Of a generator of their own, on the CPU: the same weights on every device.
        """
        generator = torch.Generator().manual_seed(seed)
        layers = linear_layers(network)
        for i, (layer, row, n, factor) in enumerate(zip(layers, self.weights, self.n, factors)):
            finite = self.sizes[0] if i == 0 else self.base_width
            std = factor * finite**-0.5 * n ** -(row.a + row.b)
            drawn = torch.randn(layer.weight.shape, generator=generator, dtype=torch.float64)
            with torch.no_grad():
                layer.weight.copy_(drawn * std)
                layer.bias.zero_()

    def parameter_groups(
        self, network, learning_rate, weight_decay, fit_intercept=True, epsilon=1e-8
    ):
        """Return the optimiser's parameter groups: one for each weight and each bias.

        Parameters
        ----------
        network : nn.Sequential
            As `make_network` returns it.
        learning_rate : float
            eta.
        weight_decay : float
            Of the weights w; biases have none.
        fit_intercept : bool, default=True
            Whether the biases are trained.
        epsilon : float, default=1e-8
            Adam's, for n = 1.

        Returns
        -------
        list of dict
            For `torch.optim.SGD` or `torch.optim.AdamW`.
        """
        groups = []
        # what a step does to the first pre-activations grows with the inputs, as it does with
        # the width in a layer of base_width
        finite = [min(1.0, self.base_width / self.sizes[0])] + [1.0] * (len(self.n) - 1)
        for layer, weight, n, (bias, n_bias), share in zip(
            linear_layers(network), self.weights, self.n, self.biases, finite
        ):
            for parameter, row, width, decay, rate in (
                (layer.weight, weight, n, weight_decay, share * learning_rate),
                (layer.bias, bias, n_bias, 0.0, learning_rate if fit_intercept else 0.0),
            ):
                shift = row.a if self.adam else 2 * row.a
                group = {
                    "params": [parameter],
                    "lr": rate * width ** -(row.c + shift),
                    "weight_decay": decay * width**shift,
                }
                if self.adam:
                    group["eps"] = epsilon * width**row.a
                groups.append(group)
        return groups
