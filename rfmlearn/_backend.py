# SPDX-License-Identifier: BSD-3-Clause
"""Where the numbers live: devices, dtypes, conversions, block sizes, random rows.

The only module that names an accelerator, and the only one that reads a tensor's value
back to Python to decide what to do next.
"""

import os
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import cast

import numpy as np
import torch
from scipy.linalg.blas import dsymv, ssymv

from rfmlearn._typing import F

# Bytes of one block of a kernel matrix. On the CPU a block should stay in the cache while
# the distance, the root and the exponential pass over it; on an accelerator it should be
# large enough to hide the launch of a kernel.
BLOCK_BYTES = {"cpu": 2**22}
ACCELERATOR_BLOCK_BYTES = 2**28
MIN_BLOCK_ROWS = 16

# Devices on which torch has optimisers that make one pass over the parameters.
FUSED_OPTIMIZERS = {"cpu", "cuda"}

_AUTOCAST = ("cpu", "cuda", "mps")

# Share of the free memory that a kernel matrix and its solver may take where no budget is set. The
# rest is for what is not counted: blocks, copies of X, the AGOP, and other processes.
FREE_SHARE = 3 / 4

_SYMV = {torch.float32: ssymv, torch.float64: dsymv}


def resolve_device(device):
    """Return the `torch.device` that a user's string names, or say why there is none."""
    if str(device) == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(
            f"device={device!r} is not a device. Use 'cpu', 'cuda', 'cuda:1', 'mps' or 'auto'."
        ) from error
    present = {
        "cpu": lambda: resolved.index in (None, 0),
        "cuda": lambda: (
            torch.cuda.is_available() and (resolved.index or 0) < torch.cuda.device_count()
        ),
        "mps": torch.backends.mps.is_available,
    }
    if resolved.type not in present:
        raise ValueError(
            f"device={device!r} is not supported. Use 'cpu', 'cuda', 'cuda:1', 'mps' or 'auto'."
        )
    if not present[resolved.type]():
        raise ValueError(
            f"device={device!r} was asked for, but torch {torch.__version__} finds no such "
            "device here. Use device='cpu', or device='auto' to take what there is."
        )
    return resolved


_HOME = os.getpid()


def _leave_the_parents_threads():
    """In a forked child, whose parent's OpenMP threads are gone, go on with one.

    Work for several would wait for them for ever. Nothing happens in any other process.
    """
    global _HOME
    if os.getpid() != _HOME:
        _HOME = os.getpid()
        torch.set_num_threads(1)


def isolated(function: F) -> F:
    """Make a function compute what it computes by itself, whatever torch context it is called in.

    A caller's `no_grad`, `inference_mode`, autocast or default device would change results, or
    end in an error. All of these belong to the thread. (The default dtype is global: the package
    names every dtype instead.)
    """

    @wraps(function)
    def alone(*args, **kwargs):
        _leave_the_parents_threads()
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            if torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
            for kind in _AUTOCAST:
                if torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            return function(*args, **kwargs)

    return cast(F, alone)


def to_tensor(array, device="cpu", dtype=None):
    """Return `array` as a tensor; copy only where torch cannot share the memory."""
    if isinstance(array, torch.Tensor):
        return array.to(device, dtype)
    array = np.asarray(array)
    shareable = (
        array.flags.writeable and array.dtype.isnative and all(s >= 0 for s in array.strides)
    )
    if not shareable:
        array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    tensor = torch.from_numpy(array)
    if torch.device(device).type == "mps" and (dtype or tensor.dtype) == torch.float64:
        raise ValueError("device='mps' has no float64. Convert X to float32 first.")
    return tensor.to(device, dtype)


def to_numpy(tensor):
    """Return a tensor of any device as a NumPy array that shares no autograd graph."""
    return tensor.detach().cpu().numpy()


def in_kind_of(result, example):
    """Return the tensor `result` as NumPy unless the caller's `example` was a tensor."""
    return result if isinstance(example, torch.Tensor) else to_numpy(result)


def on_host(tensor):
    """Return `tensor` in float64 on the CPU: for d x d spectral work, where digits matter.

    The eigenvalues of a feature matrix spread with the square of the features' scales, so
    that float32 would lose the small ones.
    """
    return tensor.to("cpu", torch.float64)


def wider(device):
    """Return the dtype for sums that float32 is too short for: float64 where there is one."""
    return torch.float32 if device.type == "mps" else torch.float64


def holds(condition):
    """Return the truth of a 0-d boolean tensor (waits for the device)."""
    return bool(condition)


def positions(mask):
    """Return the indices, one tensor a dimension, where a mask is true (waits for the device)."""
    return mask.nonzero(as_tuple=True)


def block_bytes(device):
    """Return the bytes of one block on `device`."""
    return BLOCK_BYTES.get(torch.device(device).type, ACCELERATOR_BLOCK_BYTES)


def tile_edge(dtype, device):
    """Return the number of rows and columns of a square tile within the block budget."""
    return int((block_bytes(device) / dtype.itemsize) ** 0.5)


def blocks(n_rows, row_bytes, device, min_rows=MIN_BLOCK_ROWS, max_rows=None):
    """Yield slices that cut `n_rows` rows into blocks within the device's block budget.

    The split is as even as it can be, so that the last block is no sliver.
    """
    size = max(min_rows, int(block_bytes(device) // max(row_bytes, 1)))
    size = min(size, max_rows or size)
    n_blocks = -(-n_rows // size)
    for i in range(n_blocks):
        yield slice(i * n_rows // n_blocks, (i + 1) * n_rows // n_blocks)


def by_columns(V):
    """Return V with the numbers of each column side by side."""
    return V.mT.contiguous().mT


# Up to so many columns one BLAS symv each is faster than a product of matrices.
MAX_SYMV = 3


def symmetric_product(K, V):
    """Return K V for a symmetric K of shape (n, n) and V of shape (n, c), on the device of both.

    With few columns the product waits for the memory. On the CPU BLAS reads one triangle of K
    only: at n = 10,000 a third of the time of a product that reads it all. Else the columns
    are laid out one after the other, which halves the time of a product with ten.
    """
    if K.device.type != "cpu" or V.shape[1] > MAX_SYMV:
        return K @ by_columns(V)
    matrix, symv = K.numpy().T, _SYMV[K.dtype]  # the transpose is BLAS's layout: no copy
    return torch.from_numpy(np.stack([symv(1.0, matrix, v) for v in V.T.numpy()], axis=1))


def random_rows(n_rows, n_samples, seed, device):
    """Return `n_samples` distinct row indices, the same on every device for one seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(n_rows, generator=generator)[:n_samples].to(device)


def random_signs(shape, seed, like):
    """Return +1 and -1 at random as a tensor like another, the same on every device."""
    generator = torch.Generator().manual_seed(seed)
    return (2.0 * torch.randint(2, shape, generator=generator) - 1).to(like)


def free_bytes(device):
    """Return the bytes that can still be allocated on `device` (None: not known)."""
    if torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    free = []
    try:
        with open("/proc/meminfo") as lines:
            free += [int(line.split()[1]) * 1024 for line in lines if "MemAvailable" in line]
        with (
            open("/sys/fs/cgroup/memory.max") as limit,
            open("/sys/fs/cgroup/memory.current") as used,
        ):
            free.append(int(limit.read()) - int(used.read()))  # "max": no limit, ValueError
    except (OSError, ValueError):
        pass
    if not free and hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        free.append(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(free, default=None)


def default_budget(device):
    """Return the bytes that a kernel matrix and its solver may take (None: not known)."""
    free = free_bytes(device)
    return None if free is None else int(free * FREE_SHARE)


@contextmanager
def memory_guard(n_rows, n_bytes, device, budget=None, advice=None):
    """Refuse work that cannot fit, and turn an allocator's failure into a MemoryError.

    Linux promises more memory than it has and ends the process later, so the size is
    compared with what is free, or with the user's budget, before anything is allocated.
    """
    advice = advice or (
        "Leave the choice to solver='auto', which need not store the matrix, set n_centers, or "
        "pass X as float32 to halve it."
    )
    need = (
        f"The solver and what it stores of the kernel matrix of {n_rows} rows need "
        f"{n_bytes / 2**30:.3g} GiB on device {str(device)!r}"
    )
    if budget is not None and n_bytes > budget:
        raise MemoryError(f"{need}, more than memory_budget={budget}. {advice}")
    free = free_bytes(device)
    if free is not None and n_bytes > free:
        raise MemoryError(f"{need}, where {free / 2**30:.3g} GiB are free. {advice}")
    try:
        yield
    except RuntimeError as error:  # torch.OutOfMemoryError of an accelerator is one too
        if not any(words in str(error) for words in ("DefaultCPUAllocator", "out of memory")):
            raise
        raise MemoryError(f"{need}; the allocation was refused. {advice}") from error
