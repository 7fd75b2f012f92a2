# SPDX-License-Identifier: BSD-3-Clause
"""Run code on tensors that claim to be on a GPU, on a machine that has none.

`FakeTensorMode` gives every tensor a device and a shape but no memory, and raises where an
operation mixes devices. A build of torch without CUDA still refuses Python indexing,
``.to`` and ``.copy_`` for such tensors, because their bindings ask for a CUDA device guard
before they dispatch; the mode below sends the same calls to the operators directly.
"""

from contextlib import contextmanager

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode


def get_item(x, index):
    index = index if isinstance(index, tuple) else (index,)
    dim, tensors = 0, []
    for item in index:
        if item is None:
            x = x.unsqueeze(dim)
        elif isinstance(item, int):
            x = x.select(dim, item)
            continue
        elif isinstance(item, slice):
            x = torch.ops.aten.slice(x, dim, item.start, item.stop, item.step or 1)
        else:
            tensors += [None] * (dim - len(tensors)) + [torch.as_tensor(item)]
        dim += 1
    return torch.ops.aten.index(x, tensors) if tensors else x


def set_item(x, index, value):
    value = value if isinstance(value, torch.Tensor) else x.new_full((), value)
    items = index if isinstance(index, tuple) else (index,)
    if any(isinstance(item, torch.Tensor) for item in items):
        torch.ops.aten.index_put_(x, list(items), value)
    else:
        copy_(get_item(x, index), value)


def copy_(x, value):
    if isinstance(x, FakeTensor):
        torch.ops.aten.copy(x, value)  # checks the shapes; there is nothing to write
    else:
        torch.ops.aten.copy_(x, value)
    return x


def to(x, *args, **kwargs):
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    for arg in args:
        if isinstance(arg, torch.Tensor):
            device, dtype = arg.device, arg.dtype
        elif isinstance(arg, torch.dtype):
            dtype = arg
        elif arg is not None:
            device = torch.device(arg)
    return torch.ops.aten._to_copy(x, device=device, dtype=dtype)


class _ByOperator(TorchFunctionMode):
    replaced = {
        torch.Tensor.__getitem__: get_item,
        torch.Tensor.__setitem__: set_item,
        torch.Tensor.to: to,
        torch.Tensor.copy_: copy_,
        torch.Tensor.contiguous: torch.ops.aten.clone,
    }

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return self.replaced.get(func, func)(*args, **(kwargs or {}))


@contextmanager
def fake_cuda():
    with FakeTensorMode(), _ByOperator():
        yield
