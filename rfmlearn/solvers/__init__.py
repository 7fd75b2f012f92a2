# SPDX-License-Identifier: BSD-3-Clause
"""Solvers of the regularised kernel system."""

from rfmlearn.solvers._base import (
    SOLVERS,
    KernelSystem,
    NotPositiveDefiniteError,
    Solution,
    Solver,
    register,
    resolve_solver,
)
from rfmlearn.solvers._cholesky import CholeskySolver

__all__ = [
    "SOLVERS",
    "CholeskySolver",
    "KernelSystem",
    "NotPositiveDefiniteError",
    "Solution",
    "Solver",
    "register",
    "resolve_solver",
]
