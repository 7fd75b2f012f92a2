# SPDX-License-Identifier: BSD-3-Clause
"""The recurrence of conjugate gradients, all right-hand sides at once."""

import torch


def iterates(product, precondition, x, r):
    """Yield solution and residual after each step of preconditioned conjugate gradients.

    Parameters
    ----------
    product : callable
        From directions (n, c) to their product with the matrix.
    precondition : callable
        From residuals (n, c) to approximate errors.
    x, r : tensor of shape (n, c)
        Where to start, and the residual there.

    Yields
    ------
    x, r : tensor of shape (n, c)
        The next solution, and its residual by the recurrence.
    """
    z = precondition(r)
    p, rz = z, (r * z).sum(0)
    while True:
        Ap = product(p)
        curvature = (p * Ap).sum(0)
        # a column that is solved, or that lost its digits, stands still
        step = torch.where(curvature > 0, rz / curvature, torch.zeros_like(rz))
        x, r = x + step * p, r - step * Ap
        yield x, r
        z, before = precondition(r), rz
        rz = (r * z).sum(0)
        p = z + torch.where(before > 0, rz / before, torch.zeros_like(rz)) * p


def column_sizes(rhs):
    """Return the norm of each column, 1 for a column of zeros."""
    size = rhs.norm(dim=0)
    return torch.where(size > 0, size, torch.ones_like(size))


def worst(residual, size):
    """Return the largest relative residual of a column, a 0-d tensor."""
    return (residual.norm(dim=0) / size).max()


def shifted(A, shift):
    """Return ``A + shift I``."""
    A = A.clone()
    A.diagonal().add_(shift)
    return A
