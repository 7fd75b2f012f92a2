# SPDX-License-Identifier: BSD-3-Clause
"""Solvers of the regularised kernel system."""

from importlib import import_module
from pkgutil import iter_modules

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

for _, name, _ in iter_modules(__path__):  # every file here may register a solver
    import_module(f"{__name__}.{name}")
