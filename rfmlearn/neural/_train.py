# SPDX-License-Identifier: BSD-3-Clause
"""Training a network: losses, batches, epochs. Tensors only."""

from functools import partial

import torch
from torch.nn import functional

from rfmlearn import _backend
from rfmlearn.neural._modules import MODULES, row_of


class Squared:
    """Half the squared error of each row, summed over the outputs."""

    @staticmethod
    def values(outputs, targets):
        """Return the loss of each row."""
        return (outputs - targets).square().sum(1) / 2

    @staticmethod
    def gradients(outputs, targets):
        """Return its gradient with respect to the outputs."""
        return outputs - targets


class CrossEntropy:
    """The cross entropy of each row.

    With one output the logistic loss, of targets -1 and 1; else that of one-hot targets.
    """

    @staticmethod
    def values(outputs, targets):
        """Return the loss of each row."""
        if outputs.shape[1] == 1:
            return functional.softplus(-targets * outputs)[:, 0]
        return -(targets * functional.log_softmax(outputs, dim=1)).sum(1)

    @staticmethod
    def gradients(outputs, targets):
        """Return its gradient with respect to the outputs."""
        if outputs.shape[1] == 1:
            return -targets * torch.sigmoid(-targets * outputs)
        return functional.softmax(outputs, dim=1) - targets


LOSSES = {"squared": Squared, "cross_entropy": CrossEntropy}

# Up to so many rows a batch is all of them when the user leaves it open, else so many.
MAX_FULL_BATCH, BATCH = 256, 64


def resolve_batch_size(batch_size, n_rows):
    """Return the number of rows in a batch; "auto" is all rows of small data."""
    if batch_size == "auto":
        batch_size = n_rows if n_rows <= MAX_FULL_BATCH else BATCH
    return min(int(batch_size), n_rows)


def make_optimizer(name, groups, momentum):
    """Return the optimiser of parameter groups as `Scaling.parameter_groups` makes them."""
    fused = groups[0]["params"][0].device.type in _backend.FUSED_OPTIMIZERS
    if name == "adam":
        return torch.optim.AdamW(groups, fused=fused)
    return torch.optim.SGD(groups, momentum=momentum, fused=fused)


class Backpropagation:
    """Forward and backward pass of a network from `make_network`, in buffers of its own.

    Autograd's passes through a small batch take twice as long: half the time goes into new
    memory.

    Parameters
    ----------
    network : nn.Sequential
        Linear layers with activations between them. Its parameters get gradients.
    batch_size : int
        Most rows in a batch.
    """

    def __init__(self, network, batch_size):
        self.linear = list(network)[::2]
        self.activations = [*map(row_of, list(network)[1::2]), MODULES["identity"]]
        self.buffers = []  # of each layer: z, h where that is not made in place, the gradient
        for layer, activation in zip(self.linear, self.activations):
            if layer.out_features > layer.in_features:
                # BLAS makes the gradient up to twice as fast with long rows
                layer.weight.data = _backend.by_columns(layer.weight.data)
            new = partial(layer.weight.new_empty, batch_size, layer.out_features)
            self.buffers.append((new(), new() if activation.in_place is None else None, new()))
            for parameter in layer.parameters():
                parameter.grad = torch.empty_like(parameter)

    def __call__(self, x, y, weight, loss):
        """Set the gradients of the mean of ``weight * loss``, and return the sum."""
        n, inputs = len(x), [x]
        for layer, activation, (z, h, _) in zip(self.linear, self.activations, self.buffers):
            z = torch.addmm(layer.bias, inputs[-1], layer.weight.mT, out=z[:n])
            if h is None:
                inputs.append(activation.in_place(z))
            else:
                inputs.append(h[:n].copy_(activation.module()(z)))
        outputs = inputs.pop()
        total = (loss.values(outputs, y) * weight).sum()
        g = loss.gradients(outputs, y) * (weight / n)[:, None]
        for i in reversed(range(len(self.linear))):
            layer, h = self.linear[i], inputs[i]
            torch.mm(g.mT, h, out=layer.weight.grad)
            torch.sum(g, 0, out=layer.bias.grad)
            if i:
                z, _, below = self.buffers[i - 1]
                g = torch.mm(g, layer.weight, out=below[:n])
                g = self.activations[i - 1].backward(g, z[:n], h)
        return total


def epochs(network, X, Y, weight, *, loss, optimizer, batch_size, seed):
    """Yield the mean training loss of one epoch after the other, without end.

    Parameters
    ----------
    network : nn.Sequential
        From `make_network`; trained in place.
    X, Y : tensor of shape (n, d) and (n, c)
        Rows and targets.
    weight : tensor of shape (n,)
        Row weights. A row counts in proportion to them: with all rows in one batch weight k
        is the row repeated k times.
    loss : type
        Of `LOSSES`.
    optimizer : torch.optim.Optimizer
        Of the network's parameters.
    batch_size : int
        Rows in a batch. Below n they are shuffled before each epoch.
    seed : int
        Of a generator of their own.

    Yields
    ------
    0-d tensor
        Weighted mean of the loss before each step, over the epoch.
    """
    n = len(X)
    generator = torch.Generator().manual_seed(seed)
    share = weight / weight.mean()
    passes = Backpropagation(network, batch_size)
    while True:
        if batch_size < n:
            order = torch.randperm(n, generator=generator).to(X.device)
            parts = order.split(batch_size)
            batches = ((X[rows], Y[rows], share[rows]) for rows in parts)
        else:
            batches = ((X, Y, share),)
        total = 0.0
        for x, y, w in batches:
            with torch.no_grad():
                total = total + passes(x, y, w, loss)
            optimizer.step()
        yield total / n


def mean_loss(network, X, Y, weight, loss):
    """Return the weighted mean loss of given rows."""
    return (loss.values(predict(network, X), Y) * weight).sum() / weight.sum()


def predict(network, X):
    """Return the outputs at the rows of X, block by block."""
    with torch.no_grad():
        parts = [
            network(X[block])
            for block in _backend.blocks(len(X), row_bytes(network, X), X.device, min_rows=256)
        ]
    return torch.cat(parts)


def input_gradients(network, X):
    """Return the gradients (n, c, d) of the outputs at the rows of X, block by block."""
    G = None
    for block in _backend.blocks(len(X), row_bytes(network, X), X.device, min_rows=256):
        x = X[block].clone().requires_grad_()
        F = network(x).sum(0)
        if G is None:
            G = X.new_empty(len(X), len(F), X.shape[1])
        for k, total in enumerate(F):
            G[block, k] = torch.autograd.grad(total, x, retain_graph=k + 1 < len(F))[0]
    return G


def row_bytes(network, X):
    """Return about the bytes of one row's activations."""
    return sum(p.shape[0] for p in network.parameters()) * X.element_size()
