# SPDX-License-Identifier: BSD-3-Clause
"""The direct solver: one Cholesky factorisation, then two triangular solves.

n^3 / 3 multiplications; n^2 numbers beyond the matrix itself.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from rfmlearn import _backend
from rfmlearn.solvers._base import (
    KernelSystem,
    NotPositiveDefiniteError,
    Solution,
    Solver,
    register,
)


@register
@dataclass(frozen=True)
class CholeskySolver(Solver):
    """Cholesky with iterative refinement and a jitter ladder.

    A solution is good enough with a relative residual of ``4 sqrt(eps)``: 0.14% of the size
    of the targets in float32. A float32 solution beyond that is refined: residual in
    float64, correction by the float32 factor. That converges while the condition number is
    below 1 / eps, at the cost of one pass over the matrix a step.

    A factorisation that breaks down, or whose solution is still not good enough, is tried
    again with a jitter of ``n eps``, ten times more, and so on up to ``n sqrt(eps)``, all
    relative to the mean of the diagonal. At the first level jitter equals what rounding
    alone can add to the eigenvalues of K, so that less would be luck; at the last the
    residual is near ``sqrt(eps)`` for any positive semi-definite K, whose largest
    eigenvalue is at most n times the mean of the diagonal.

    Examples
    --------
    >>> from rfmlearn import RFMRegressor
    >>> from rfmlearn.solvers import CholeskySolver
    >>> RFMRegressor(solver=CholeskySolver()).solver
    CholeskySolver()
    """

    name: ClassVar[str] = "cholesky"

    def memory(self, n: int, itemsize: int) -> int:
        """Return the bytes of the factor (see `Solver`)."""
        return n * n * itemsize

    def solve(
        self, system: KernelSystem, targets: torch.Tensor, tol: float | None = None
    ) -> Solution:
        """Return the solution for all columns of `targets` (see `Solver`)."""
        K = system.matrix
        eps = torch.finfo(K.dtype).eps
        rhs = system.scale(targets)
        mean_diagonal = K.diagonal().mean()
        best = None
        for level in _levels(len(K) * eps, len(K) * eps**0.5):
            solution = self._attempt(system, rhs, level * mean_diagonal)
            if solution is not None:
                best = solution
                if not _backend.holds(solution.residual > self.tol_for(K.dtype)):
                    break
        if best is None:
            raise NotPositiveDefiniteError(_why(K, system.alpha, level * mean_diagonal))
        return best

    def _attempt(self, system, rhs, jitter):
        """Return the solution with this jitter, None where the factorisation fails."""
        K, L = system.matrix, _buffer(system)
        shift = jitter + system.alpha
        L.copy_(K)
        L.diagonal().add_(shift)
        # the transpose of a row-major symmetric matrix is LAPACK's layout: no copy is made
        _, info = torch.linalg.cholesky_ex(L.mT, out=(L.mT, _info_like(L)))
        if _backend.holds(info != 0):
            return None
        b = _back_substitute(L, rhs)
        size = rhs.norm()
        size = torch.where(size > 0, size, torch.ones_like(size))
        residual = torch.addmm(rhs, K, b, alpha=-1).sub_(shift * b)
        relative = residual.norm() / size
        enough = self.tol_for(K.dtype)
        if K.dtype == torch.float32 and _backend.holds(relative > enough):
            b, relative = self._refine(system, rhs, shift, b, size, enough)
        return Solution(coef=system.scale(b), residual=relative, jitter=jitter)

    def _refine(self, system, rhs, shift, b, size, enough, max_steps=8):
        """Return the best of a few steps and its relative residual, stopping where it is enough.

        Near what float32 can hold of a solution the residual is noise: it may grow from one step
        to the next, several times, and yet fall again. Beyond that of the start it diverges.
        """
        wide = _backend.wider(b.device)
        best, relative, first = b, None, None
        for _ in range(max_steps):
            x = b.to(wide)
            residual = rhs.to(wide) - shift.to(wide) * x
            for block in _backend.blocks(len(x), system.matrix[0].nbytes, x.device):
                residual[block] -= system.matrix[block].to(wide) @ x
            now = (residual.norm() / size).to(b.dtype)
            if first is None:
                best, relative, first = b, now, now
            elif _backend.holds(now < relative):
                best, relative = b, now
            if not _backend.holds((relative > enough) & (now <= first)):
                break
            b = (x + _back_substitute(_buffer(system), residual.to(b.dtype)).to(wide)).to(b.dtype)
        return best, relative


def _buffer(system):
    """Return the memory of the factor, the same for all systems of a fit."""
    K, factor = system.matrix, system.workspace.get("factor")
    if factor is None or factor.shape != K.shape or factor.dtype != K.dtype:
        factor = system.workspace["factor"] = torch.empty_like(K)
    return factor


def _back_substitute(L, rhs):
    b = torch.linalg.solve_triangular(L.mT, rhs, upper=False)
    return torch.linalg.solve_triangular(L, b, upper=True)


def _levels(first, last):
    """Yield 0, first, 10 first, ... and, when none of them will do, last."""
    yield 0.0
    while first < last:
        yield first
        first *= 10
    yield last


def _info_like(matrix):
    return torch.empty((), dtype=torch.int32, device=matrix.device)


def _why(K, alpha, jitter):
    """Return the sentence for a matrix that could not be factored."""
    if not _backend.holds(torch.isfinite(K).all()):
        return (
            "The kernel matrix holds NaN or inf. If the kernel is your own, its value at "
            "some pair of rows is not finite; if it is that of a wide network, its covariances "
            "overflow: lower weight_std or depth."
        )
    return (
        f"The kernel system is not positive definite with alpha={alpha:g}, nor with a jitter "
        f"of {float(jitter):.1e} added. Raise alpha; if the kernel is your own, see that it is "
        "positive semi-definite."
    )
