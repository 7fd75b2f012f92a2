# SPDX-License-Identifier: BSD-3-Clause
"""Gradients at the layers of a network: hooks, one forward pass, a backward pass an output.

A gradient at the input h of a layer ``z = W h + b`` is ``W^T delta``, delta the gradient at z, so
that the layer's AGOP is ``W^T K W`` with K the second moment of delta. A convolution is the same
with h a patch and one delta for each position.
"""

from contextlib import ExitStack, contextmanager

import torch
from torch import nn

LAYERS = (nn.Linear, nn.Conv2d)

# Beyond so many gradients a layer, random mixtures of the outputs take their place.
MAX_GRADIENTS = 20_000

# Bytes of the activations and gradients of one batch, and rows of the first, which measures them.
_BATCH_BYTES, _FIRST_ROWS, _ROWS_OF_INPUTS = 2**27, 32, 1024


def weight_matrix(layer, weight=None):
    """Return W as (out, inputs); of a convolution (out, channels x height x width of a patch)."""
    W = (layer.weight if weight is None else weight).detach().flatten(1)
    groups = getattr(layer, "groups", 1)
    return W if groups == 1 else torch.block_diag(*W.chunk(groups))


class Call:
    """One call of a layer, and the moments of the gradients there.

    Parameters
    ----------
    name : str
        Of the module.
    number : int
        How many calls of the same module came before in a pass.
    layer : nn.Linear or nn.Conv2d
        The module.
    """

    def __init__(self, name, number, layer):
        self.name, self.number, self.layer = name, number, layer
        self.W = weight_matrix(layer)
        n_out, n_in = self.W.shape
        # the cheaper side of W on which to sum outer products
        self.at_input = n_in * (n_out + n_in) < n_out * n_out
        self.second, self.first, self.positions = 0.0, {}, 0

    def _flat(self, delta):
        """Return gradients at z as (rows and positions, units)."""
        if isinstance(self.layer, nn.Conv2d):
            delta = delta.movedim(-3, -1)
        delta = delta.reshape(-1, delta.shape[-1])
        if delta.dtype.itemsize < 4:  # sums over rows are too long for half precision
            delta = delta.float()
        return delta

    def _summed_at(self, delta):
        """Return gradients at z on the side where outer products are summed."""
        return delta @ self.W.to(delta) if self.at_input else delta

    def add(self, delta):
        """Add the second moment of one output's gradients at z."""
        G = self._summed_at(self._flat(delta))
        self.second = self.second + G.mT @ G

    def add_first(self, delta, output):
        """Add the sum of an output's gradients at z, and count them."""
        delta = self._flat(delta)
        self.first[output] = self.first.get(output, 0.0) + self._summed_at(delta.sum(0))
        if output == 0:
            self.positions += len(delta)

    def agop(self, total_weight, n_rows):
        """Return the AGOP, centred if first moments were added."""
        second = self.second / total_weight
        if self.first:
            means = torch.stack(list(self.first.values())) / total_weight
            # a sum over positions: each has its share of the mean
            centred = second - means.mT @ means * (n_rows / self.positions)
            # equal gradients leave rounding behind, which is no direction
            noise = 100 * torch.finfo(second.dtype).eps * second.abs().max()
            second = torch.where(centred.abs().max() > noise, centred, torch.zeros_like(centred))
        if self.at_input:
            return second
        W = self.W.to(second)
        return W.mT @ second @ W


@contextmanager
def _as_it_was(model):
    """Put a model into eval mode without parameter gradients, and restore it whatever happens."""
    modes = [(module, module.training) for module in model.modules()]
    parameters = [(p, p.requires_grad) for p in model.parameters()]
    try:
        model.eval()
        for parameter, _ in parameters:
            parameter.requires_grad_(False)
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter, requires_grad in parameters:
            parameter.requires_grad_(requires_grad)


class _Tape:
    """Outputs z of all layers in one forward pass, in the order of the calls."""

    def __init__(self, layers):
        self.names, self.entries = layers, []

    def hook(self, layer, args, z):
        """Note z, and go on with a copy that in-place activations may overwrite."""
        if not torch.is_grad_enabled():
            raise ValueError(
                f"Layer {self.names[layer]!r} runs under torch.no_grad(): there is no gradient at "
                "its input. Let the forward pass keep gradients."
            )
        if not z.requires_grad:
            z = z.detach().requires_grad_()
        self.entries.append((layer, z))
        return z.clone()


def capture(model, inputs, weight, output, agop_outputs, center_gradients, seed, max_rows):
    """Return a `Call` for every call of a layer, in execution order.

    Parameters
    ----------
    model : nn.Module
        As the user has it; it is left as it was.
    inputs : Inputs
        Rows.
    weight : tensor of shape (n,) or None
        Row weights.
    output : callable or None
        From what the model returns to (n,) or (n, c).
    agop_outputs : int, "auto" or "all"
        Random mixtures of the outputs a row, "all" for each output itself.
    center_gradients : bool
        Whether mean gradients are needed; then outputs are taken one by one.
    seed : int
        Of the mixtures.
    max_rows : int or None
        Largest batch.

    Returns
    -------
    list of Call
        With their moments.
    """
    layers = {m: name or type(m).__name__ for name, m in model.named_modules()}
    layers = {m: name for m, name in layers.items() if isinstance(m, LAYERS)}
    if not layers:
        raise ValueError(
            f"{type(model).__name__} has no Linear or Conv2d layer to read. Pass the module that a "
            "scripted, traced, exported or quantized one was made of: hooks cannot enter these."
        )
    n_rows, calls, generator = len(inputs), [], torch.Generator().manual_seed(seed)
    with ExitStack() as stack:
        stack.enter_context(_as_it_was(model))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        _refuse_company(model, inputs, output)
        tape = _Tape(layers)
        for layer in layers:
            # before hooks of the user's, which may change the output and are part of the network
            stack.callback(layer.register_forward_hook(tape.hook, prepend=True).remove)
        start, size = 0, min(max_rows or _FIRST_ROWS, _FIRST_ROWS)
        while start < n_rows:
            rows = slice(start, min(start + size, n_rows))
            tape.entries.clear()
            F = _outputs(inputs.into(model, rows), rows.stop - rows.start, output)
            if not calls:
                calls = _calls(tape)
            if [layer for layer, _ in tape.entries] != [call.layer for call in calls]:
                raise ValueError("The model calls its layers in another order for other rows.")
            w = None if weight is None else weight[rows].to(F)
            roots = _roots(F, n_rows, agop_outputs, center_gradients, generator)
            _backward(F, [z for _, z in tape.entries], calls, roots, w, center_gradients)
            start = rows.stop
            size = _next_size(tape, len(F), max_rows)
    return calls


def _refuse_company(model, inputs, output):
    """Raise where what the model says of a row depends on the rows beside it."""
    if len(inputs) < 2:
        return
    with torch.no_grad():
        together = _outputs(inputs.into(model, slice(0, 2)), 2, output)
        try:
            alone = _outputs(inputs.into(model, slice(0, 1)), 1, output)
        except Exception:  # what cannot be asked of one row cannot be compared
            alone = together[:1] * torch.nan
    if not together.is_floating_point():
        return  # no gradient either: that is said later
    eps = max(inputs.eps, torch.finfo(together.dtype).eps)
    rounding = 100 * eps**0.75 * together.abs().max()
    if not (alone - together[:1]).abs().max() <= rounding:
        raise ValueError(
            "The model says something else of a row beside another than of the row alone: rows see "
            "each other, as in a BatchNorm with track_running_stats=False, or outputs are random. "
            "Gradients of single rows are then not defined."
        )


def unread(model, inputs, output, calls):
    """Return the names of modules with weights that took part in the outputs and were not read.

    A weight takes part if the outputs have a gradient by it, wherever it is used: inside an
    attention, a recurrent cell, a function, as a parameter of the model itself.
    """
    weights = [p for p in model.parameters() if p.ndim >= 2 and p.is_floating_point()]
    read = {id(p) for call in calls for p in call.layer.parameters()}
    with _as_it_was(model), torch.inference_mode(False), torch.enable_grad():
        for weight in weights:
            weight.requires_grad_(True)
        try:
            total = _outputs(inputs.into(model, slice(0, 1)), 1, output).sum()
            slopes = torch.autograd.grad(total, weights, allow_unused=True)
        except (RuntimeError, ValueError):  # one row is too few, or a backward pass that eval lacks
            return []
    missed = {id(w) for w, slope in zip(weights, slopes) if slope is not None} - read
    return [
        f"{name or 'the model itself'} ({type(module).__name__})"
        for name, module in model.named_modules()
        if any(id(p) in missed for p in module.parameters(recurse=False))
    ]


def inputs_of(model, inputs, number):
    """Return the inputs of one call of a layer at all rows, (n, d) (see `capture`).

    Of a convolution its patches, (n, positions, d).
    """
    seen, parts = [], []

    def note(layer, args, named):
        seen.append((layer, args[0] if args else named["input"]))

    with ExitStack() as stack:
        stack.enter_context(_as_it_was(model))
        stack.enter_context(torch.no_grad())
        for layer in model.modules():
            if isinstance(layer, LAYERS):
                stack.callback(layer.register_forward_pre_hook(note, with_kwargs=True).remove)
        for start in range(0, len(inputs), _ROWS_OF_INPUTS):
            seen.clear()
            inputs.into(model, slice(start, start + _ROWS_OF_INPUTS))
            layer, h = seen[number]
            if isinstance(layer, nn.Conv2d) and h.ndim == 4:
                parts.append(patches_of(layer, h))
                continue
            if h.ndim != 2:
                raise ValueError(
                    f"The inputs of layer {number} have shape {tuple(h.shape)}, not one vector a "
                    "row; they cannot be features of a table."
                )
            parts.append(h.clone())
    return torch.cat(parts)


def patches_of(layer, h):
    """Return the patches that a convolution reads of h (n, channels, height, width)."""
    around = []
    for size, dilation, padding in zip(
        layer.kernel_size, layer.dilation, _each(layer.padding), strict=True
    ):
        total = dilation * (size - 1) if padding == "same" else 0
        both = (total // 2, total - total // 2) if isinstance(padding, str) else (padding, padding)
        around = [*both, *around]
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    h = nn.functional.pad(h, around, mode)
    return nn.functional.unfold(
        h, layer.kernel_size, dilation=layer.dilation, stride=layer.stride
    ).mT


def _each(padding):
    return (padding, padding) if isinstance(padding, str) else padding


def _next_size(tape, n, max_rows):
    # activations, their copies, the gradients on the way and the products made of them
    row_bytes = 4 * sum(z.nbytes for _, z in tape.entries) / n
    size = max(_FIRST_ROWS, int(_BATCH_BYTES / row_bytes))
    return min(size, max_rows or size)


def _calls(tape):
    seen, calls = {}, []
    for layer, _ in tape.entries:
        number = seen[layer] = seen.get(layer, -1) + 1
        calls.append(Call(tape.names[layer], number, layer))
    if not calls:
        raise ValueError("The forward pass calls no Linear or Conv2d layer.")
    return calls


def _outputs(F, n, output):
    """Return the outputs as (n, c), or say what they are instead."""
    if output is not None:
        F = output(F)
    if not isinstance(F, torch.Tensor) or F.ndim == 0 or len(F) != n:
        what = tuple(F.shape) if isinstance(F, torch.Tensor) else type(F).__name__
        raise ValueError(
            f"The model returns {what} for {n} rows; outputs of shape (n,) or (n, c) are needed. "
            "Pass output=, a function from what the model returns to such a tensor."
        )
    return F.reshape(n, -1)


def _roots(F, n_rows, agop_outputs, center_gradients, generator):
    """Return what to multiply the outputs with, one (n, c) tensor for each backward pass."""
    n, c = F.shape
    if agop_outputs == "auto":
        agop_outputs = c if n_rows * c <= MAX_GRADIENTS else max(1, MAX_GRADIENTS // n_rows)
    if center_gradients or agop_outputs == "all" or agop_outputs >= c:
        return [row.expand(n, c) for row in torch.eye(c, dtype=F.dtype, device=F.device)]
    # each row has signs of its own: what they add to the error falls with the rows
    signs = torch.randint(2, (agop_outputs, n, c), generator=generator)
    return list((2 * signs - 1).to(F) / agop_outputs**0.5)


def _backward(F, zs, calls, roots, weight, center_gradients):
    root_weight = None if weight is None else weight.sqrt()[:, None]
    for k, root in enumerate(roots):
        last = k == len(roots) - 1
        scaled = root if root_weight is None else root * root_weight
        repeat = center_gradients and weight is not None
        deltas = _gradients(F, zs, scaled, retain=not last or repeat)
        for call, delta in zip(calls, deltas):
            call.add(delta)
        if center_gradients:
            if repeat:
                deltas = _gradients(F, zs, root * weight[:, None], retain=not last)
            for call, delta in zip(calls, deltas):
                call.add_first(delta, k)


def _gradients(F, zs, root, retain):
    if not F.requires_grad:
        raise ValueError(
            "The outputs have no gradient: they do not depend on any layer, or on the way they "
            "become labels (argmax), are detached, or leave torch for NumPy. Pass output=, a "
            "differentiable function of what the model returns."
        )
    return torch.autograd.grad(F, zs, root, retain_graph=retain, materialize_grads=True)
