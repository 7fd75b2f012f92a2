# SPDX-License-Identifier: BSD-3-Clause
"""A kernel of the user's, asked on a few rows before it is trusted with all."""

import torch

from rfmlearn import _backend
from rfmlearn.kernels._base import KERNELS, RadialKernel
from rfmlearn.kernels._geometry import PatchGeometry, geometry_of

_ROWS = 7


def check_kernel(kernel, X):
    """Raise in a sentence where a kernel is not what the recursion takes it for.

    Those of this package are not asked, nor are kernels of images.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : tensor of shape (n, d)
        Rows.

    Raises
    ------
    TypeError, ValueError
        If its matrix or its gradients have another type, dtype or shape than they should, or it is
        not symmetric.
    """
    if type(kernel) in KERNELS.values() or isinstance(geometry_of(kernel), PatchGeometry):
        return
    rows = kernel.rows(X[:_ROWS])
    rows = kernel.rows(X[:_ROWS], None, kernel.spread(rows.values.var(0, correction=0)))
    n, (first, second) = len(rows), (rows[: (len(rows) + 1) // 2], rows)
    K = kernel.matrix(first, second)
    _expect(kernel, "matrix", K, (len(first), n), X.dtype)
    other = kernel.matrix(second, first)
    _expect(kernel, "matrix", other, (n, len(first)), X.dtype)
    unlike = (K - other.mT).abs().max() > torch.finfo(K.dtype).eps ** 0.5 * K.abs().max()
    if _backend.holds(unlike):
        raise ValueError(
            f"{_name(kernel)} is not symmetric: its matrix of rows A and B is not the transpose of "
            "that of B and A. A kernel machine solves for one and predicts with the other."
        )
    if isinstance(kernel, RadialKernel) and type(kernel).gradients is RadialKernel.gradients:
        return
    G = kernel.gradients(first, second, torch.ones((n, 2)).to(K))
    _expect(kernel, "gradients", G, (len(first), 2, X.shape[1]), X.dtype)


def _expect(kernel, method, found, shape, dtype):
    """Raise unless what a method returned is a tensor of that shape and dtype."""
    if not isinstance(found, torch.Tensor):
        raise TypeError(
            f"{_name(kernel)}.{method} returns {type(found).__name__}; a torch.Tensor is needed."
        )
    if tuple(found.shape) != shape:
        raise ValueError(
            f"{_name(kernel)}.{method} returns shape {tuple(found.shape)} where {shape} is needed."
        )
    if found.dtype != dtype:
        raise ValueError(
            f"{_name(kernel)}.{method} returns {found.dtype} for rows of {dtype}: keep their dtype."
        )


def _name(kernel):
    return f"kernel {type(kernel).__name__}"
