# SPDX-License-Identifier: BSD-3-Clause
"""The system that kernel ridge regression solves, and the solver protocol.

With row weights w and ``s = sqrt(w)`` the dual coefficients are
``a = s * (s K s + alpha I)^-1 (s * y)``: the same as repeating row i w_i times.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from numpy.linalg import LinAlgError

SOLVERS = {}


def register(cls):
    """Make a solver class available under its ``name``."""
    SOLVERS[cls.name] = cls
    return cls


def resolve_solver(name):
    """Return a fresh solver for a name; "auto" is the Cholesky solver."""
    return SOLVERS["cholesky" if name == "auto" else name]()


class NotPositiveDefiniteError(LinAlgError):
    """The kernel system has no positive definite factor, whatever jitter is tried."""


@dataclass(frozen=True)
class KernelSystem:
    """The matrix ``s K s + alpha I`` and the map to dual coefficients.

    Attributes
    ----------
    matrix : tensor of shape (n, n)
        ``s K s``, symmetric; alpha is not on its diagonal.
    alpha : float
        Ridge.
    root_weight : tensor of shape (n,) or None
        ``s``; None means weights 1.
    """

    matrix: torch.Tensor
    alpha: float
    root_weight: torch.Tensor | None = None

    @classmethod
    def weighted_(cls, K, alpha, root_weight=None):
        """Return the system of the kernel matrix K, which is overwritten by ``s K s``."""
        if root_weight is not None:
            K.mul_(root_weight[:, None]).mul_(root_weight)
        return cls(K, alpha, root_weight)

    def scale(self, V):
        """Return ``s * V`` for V of shape (n, c)."""
        return V if self.root_weight is None else V * self.root_weight[:, None]


@dataclass(frozen=True)
class Solution:
    """What a solver found, and how well.

    Attributes
    ----------
    coef : tensor of shape (n, c)
        Dual coefficients.
    residual : 0-d tensor
        Relative residual of the system that was solved, jitter included.
    jitter : 0-d tensor
        What had to be added to the diagonal beyond alpha; 0 when nothing was.
    n_iter : int
        Iterations; 0 for a direct solver.
    """

    coef: torch.Tensor
    residual: torch.Tensor
    jitter: torch.Tensor
    n_iter: int = 0


class Solver(ABC):
    """One way to solve a `KernelSystem`.

    An instance belongs to one fit and may keep buffers from one system to the next.
    """

    @abstractmethod
    def solve(self, system, targets):
        """Return the `Solution` for all columns of `targets` at once.

        Parameters
        ----------
        system : KernelSystem
            n equations. Its matrix is left as it is.
        targets : tensor of shape (n, c)
            Right-hand sides y, before weighting.

        Returns
        -------
        Solution

        Raises
        ------
        NotPositiveDefiniteError
            If no acceptable jitter makes the system solvable.
        """

    @abstractmethod
    def memory(self, n, itemsize):
        """Return the bytes that solving n equations takes beyond the matrix."""
