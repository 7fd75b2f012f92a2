# SPDX-License-Identifier: BSD-3-Clause
"""The activations of our networks: one row each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

aten = torch.ops.aten


class ActivationModule(NamedTuple):
    """What training and reading a network know of an activation.

    Attributes
    ----------
    module : type
        The torch module.
    backward : callable
        From the gradient g at its value h = phi(z), z and h to the gradient at z; may overwrite g.
    in_place : callable or None
        Overwrites z by its value, where `backward` then does without z.
    gain : float
        Weight scale that keeps the size of a signal from layer to layer (He's constant).
    alias : str or None
        What scikit-learn calls it.
    """

    module: Any
    backward: Callable
    in_place: Callable | None = None
    gain: float = 1.0
    alias: str | None = None


MODULES = {
    "relu": ActivationModule(
        nn.ReLU,
        lambda g, z, h: aten.threshold_backward.grad_input(g, h, 0, grad_input=g),
        torch.relu_,
        gain=2.0**0.5,
    ),
    "tanh": ActivationModule(
        nn.Tanh, lambda g, z, h: aten.tanh_backward.grad_input(g, h, grad_input=g), torch.tanh_
    ),
    "gelu": ActivationModule(
        nn.GELU,
        lambda g, z, h: aten.gelu_backward.grad_input(g, z, grad_input=g),
        gain=2.0**0.5,
    ),
    "silu": ActivationModule(
        nn.SiLU,
        lambda g, z, h: aten.silu_backward.grad_input(g, z, grad_input=g),
        gain=2.0**0.5,
    ),
    "sigmoid": ActivationModule(
        nn.Sigmoid,
        lambda g, z, h: aten.sigmoid_backward.grad_input(g, h, grad_input=g),
        torch.sigmoid_,
        alias="logistic",
    ),
    "identity": ActivationModule(nn.Identity, lambda g, z, h: g, lambda z: z),
}


def named(activation):
    """Return our name of an activation that scikit-learn may call otherwise."""
    ours = {row.alias: name for name, row in MODULES.items() if row.alias}
    return ours.get(activation, activation)


def row_of(module):
    """Return the row of an activation's module."""
    return next(row for row in MODULES.values() if type(module) is row.module)
