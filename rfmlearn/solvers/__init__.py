# SPDX-License-Identifier: BSD-3-Clause
"""Solvers of the regularised kernel system."""

from rfmlearn.solvers._base import (
    SOLVERS,
    KernelSystem,
    NotPositiveDefiniteError,
    Solution,
    Solver,
    register,
)
from rfmlearn.solvers._choice import resolve_solver
from rfmlearn.solvers._cholesky import CholeskySolver
from rfmlearn.solvers._pcg import PCGSolver

__all__ = [
    "SOLVERS",
    "CholeskySolver",
    "KernelSystem",
    "NotPositiveDefiniteError",
    "PCGSolver",
    "Solution",
    "Solver",
    "register",
    "resolve_solver",
]
