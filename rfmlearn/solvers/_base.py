# SPDX-License-Identifier: BSD-3-Clause
"""The system that kernel ridge regression solves, and the solver protocol.

With row weights w and ``s = sqrt(w)`` the dual coefficients are
``a = s * (s K s + alpha I)^-1 (s * y)``: the same as repeating row i w_i times.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

import torch
from numpy.linalg import LinAlgError

SOLVERS: dict[str, type["Solver"]] = {}
S = TypeVar("S", bound="Solver")


def register(solver_class: type[S]) -> type[S]:
    """Make a solver class available under its ``name``.

    Parameters
    ----------
    solver_class : type
        Subclass of `Solver` that can be made without arguments.

    Returns
    -------
    type
        The class itself: use it as a decorator.
    """
    SOLVERS[solver_class.name] = solver_class
    return solver_class


class NotPositiveDefiniteError(LinAlgError):
    """The kernel system has no positive definite factor, whatever jitter is tried."""


@dataclass(frozen=True)
class KernelSystem:
    """The matrix ``s K s + alpha I`` and the map to dual coefficients.

    Parameters
    ----------
    matrix : tensor of shape (n, n), or lazy
        ``s K s``, symmetric; alpha is not on its diagonal. An iterative solver also takes an
        object that computes what it is asked for, with ``len``, ``@``, ``[:, index]``,
        ``diagonal()``, ``dtype`` and ``device``.
    alpha : float
        Ridge.
    root_weight : tensor of shape (n,) or None
        ``s``; None means weights 1.
    shared : dict
        What a solver has found out about this matrix, for the same one with another alpha:
        `dataclasses.replace` hands it on.
    workspace : dict
        What a solver keeps from one matrix of a fit to the next: buffers, and what it has learned
        of how hard they are.
    """

    matrix: torch.Tensor
    alpha: float
    root_weight: torch.Tensor | None = None
    shared: dict = field(default_factory=dict, repr=False)
    workspace: dict = field(default_factory=dict, repr=False)

    def scale(self, V: torch.Tensor) -> torch.Tensor:
        """Return ``s * V``.

        Parameters
        ----------
        V : tensor of shape (n, c)
            Targets, or a solution of the symmetric system.

        Returns
        -------
        tensor of shape (n, c)
            Right-hand sides, or dual coefficients.
        """
        return V if self.root_weight is None else V * self.root_weight[:, None]


@dataclass(frozen=True)
class Solution:
    """What a solver found, and how well.

    Parameters
    ----------
    coef : tensor of shape (n, c)
        Dual coefficients.
    residual : 0-d tensor
        Relative residual of the system that was solved, jitter included.
    jitter : 0-d tensor
        What had to be added to the diagonal beyond alpha; 0 when nothing was.
    n_iter : int
        Iterations; 0 for a direct solver.
    converged : 0-d bool tensor or bool
        Whether the residual is within the solver's tolerance.
    mean_square : 0-d tensor or None
        Weighted mean square error over training rows and outputs, where the coefficients do
        not tell it.
    """

    coef: torch.Tensor
    residual: torch.Tensor
    jitter: torch.Tensor
    n_iter: int = 0
    converged: torch.Tensor | bool = True
    mean_square: torch.Tensor | None = None


class Solver(ABC):
    """One way to solve a `KernelSystem`.

    An instance holds the solver's settings and nothing else: what it keeps from one system to the
    next is in their `KernelSystem.workspace`. `takes_lazy` says that the matrix of a system need
    not be a tensor.
    """

    name: ClassVar[str]
    takes_lazy: ClassVar[bool] = False

    def tol_for(self, dtype: torch.dtype) -> float:
        """Return the relative residual that the solver reaches unless told otherwise.

        Parameters
        ----------
        dtype : torch.dtype
            Of the matrix.

        Returns
        -------
        float
            Its own `tol`, where it has one.
        """
        return 4 * torch.finfo(dtype).eps ** 0.5

    @abstractmethod
    def solve(
        self, system: KernelSystem, targets: torch.Tensor, tol: float | None = None
    ) -> Solution:
        """Return the `Solution` for all columns of `targets` at once.

        Parameters
        ----------
        system : KernelSystem
            n equations. Its matrix is left as it is.
        targets : tensor of shape (n, c)
            Right-hand sides y, before weighting.
        tol : float, optional
            Relative residual to reach; None is the solver's own. A direct solver does not
            look at it.

        Returns
        -------
        Solution
            Dual coefficients and what can be said of them.

        Raises
        ------
        NotPositiveDefiniteError
            If no acceptable jitter makes the system solvable.
        """

    def copied(self, n: int, itemsize: int) -> int:
        """Return the memory of what the solver copies of a matrix that is stored.

        Parameters
        ----------
        n : int
            Number of equations.
        itemsize : int
            Bytes of a number.

        Returns
        -------
        int
            Bytes.
        """
        return 0

    @abstractmethod
    def memory(self, n: int, itemsize: int) -> int:
        """Return the memory that solving takes beyond the matrix and its copy.

        Parameters
        ----------
        n : int
            Number of equations.
        itemsize : int
            Bytes of a number.

        Returns
        -------
        int
            Bytes.
        """
