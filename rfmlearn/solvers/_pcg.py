# SPDX-License-Identifier: BSD-3-Clause
"""Conjugate gradients, preconditioned by a low-rank approximation of the kernel matrix.

With m landmark columns C of K and ``C[landmarks] = L L^T`` the Nystrom approximation is
``B B^T`` with ``B = C L^-T``; what it leaves of the diagonal, delta on average, joins the
ridge: ``P = B B^T + (alpha + delta) I`` (randomised preconditioning as in Frangella, Tropp and
Udell, arXiv 2110.02820, with a column sample). Each step costs one product with the matrix
and two with B.
"""

from dataclasses import dataclass, replace
from numbers import Integral, Real
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
from rfmlearn.solvers._cg import column_sizes, iterates, shifted, worst
from rfmlearn.solvers._cholesky import CholeskySolver

# Landmarks over sqrt(n), at first and at most, and after how many steps there are twice as many.
_DENSITY, _MAX_DENSITY, _MANY_STEPS = 5, 20, 60

# A round ends when the residual of its recurrence is this part of the tolerance. Rounding takes the
# true residual, which decides, up to a tenth or so away from it; a round that ends at the tolerance
# itself is often followed by one for the last percent.
_MARGIN = 0.8

# From so many equations float64 is reached by corrections in float32; a smaller system takes no
# time, and its preconditioner in float64 is next to exact. What a correction leaves of the error.
_CORRECTED_FROM, _GAIN = 1000, 1e-4

# Up to here a system that the iteration gives up on is small enough to be factored.
_SMALL = 4096


@register
@dataclass(frozen=True)
class PCGSolver(Solver):
    """Preconditioned conjugate gradients, all right-hand sides at once.

    It ends when the true residual of every column, not the recurrence's, is below the
    tolerance, relative to the column. From 1,000 equations on a stored float64 matrix is
    copied to float32, in which corrections are found while true residuals in float64 drop.
    Where that does not converge, and where a system in float32 does not, vectors, residuals
    and preconditioner go on in float64. Where that does not end either, up to 4,096 equations
    are factored instead (see `CholeskySolver`); beyond, the best solution found is returned
    with its residual, and the estimators warn.

    The landmarks, ``5 sqrt(n)`` of them, are drawn with a fixed seed; after a system that took
    more than 60 steps the next one has twice as many, up to ``20 sqrt(n)``.

    Parameters
    ----------
    tol : float, default=None
        Relative residual to reach; None is 1e-10 in float64 and 5e-4 in float32. Where only the
        metric is of interest 1e-3 is enough in float64, 1e-2 in float32.
    max_iter : int, default=500
        Largest number of products with the matrix in each precision.

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Examples
    --------
    >>> from rfmlearn import RFMRegressor
    >>> from rfmlearn.solvers import PCGSolver
    >>> RFMRegressor(solver=PCGSolver(tol=1e-6)).solver
    PCGSolver(tol=1e-06, max_iter=500)
    """

    name: ClassVar[str] = "pcg"
    takes_lazy: ClassVar[bool] = True
    tol: float | None = None
    max_iter: int = 500

    def __post_init__(self):
        if self.tol is not None and not (isinstance(self.tol, Real) and 0 < self.tol < 1):
            raise ValueError(f"tol={self.tol!r} must lie between 0 and 1, or be None.")
        if not (isinstance(self.max_iter, Integral) and self.max_iter >= 1):
            raise ValueError(f"max_iter={self.max_iter!r} must be a positive whole number.")

    @staticmethod
    def _rank(n, density):
        """Return the number of landmarks for n equations."""
        return min(n, int(density * n**0.5))

    def memory(self, n: int, itemsize: int) -> int:
        """Return the bytes of B and of what is made of it, at most (see `Solver`)."""
        m = self._rank(n, _MAX_DENSITY)
        return (2 * n * m + 3 * m * m) * itemsize

    def copied(self, n: int, itemsize: int) -> int:
        """Return the bytes of the float32 copy (see `Solver`)."""
        return 4 * n * n if itemsize > 4 and n >= _CORRECTED_FROM else 0

    def tol_for(self, dtype: torch.dtype) -> float:
        """Return `tol`, or else 1e-10 in float64 and 5e-4 in float32 (see `Solver`)."""
        if self.tol is not None:
            return self.tol
        return 1e-10 if dtype == torch.float64 else 5e-4

    def solve(
        self, system: KernelSystem, targets: torch.Tensor, tol: float | None = None
    ) -> Solution:
        """Return the solution for all columns of `targets` (see `Solver`)."""
        K = system.matrix
        tol = self.tol_for(K.dtype) if tol is None else tol
        rhs = system.scale(targets)
        size = column_sizes(rhs)
        b, left, steps = torch.zeros_like(rhs), None, 0
        for dtype, stage in self._stages(system):
            one_round = stage(dtype)
            if one_round is None:
                continue
            b, left, n_iter = self._iterate(system, rhs, size, b.to(dtype), one_round, tol)
            steps += n_iter
            if dtype != K.dtype:
                # of what is returned, whose rounding may be all that is left to mend
                left = worst(_residual(system, rhs, b.to(K.dtype).to(dtype)), size)
                tol = max(tol, super().tol_for(K.dtype))
            if not _backend.holds(_beyond(left, tol)):
                break
        if steps > _MANY_STEPS:
            more = 2 * system.workspace.get("density", _DENSITY)
            system.workspace["density"] = min(more, _MAX_DENSITY)
        factorable = isinstance(K, torch.Tensor) and len(K) <= _SMALL
        if factorable and (left is None or _backend.holds(_beyond(left, tol))):
            return CholeskySolver().solve(system, targets)
        if left is None:
            raise NotPositiveDefiniteError(
                "The kernel matrix is not positive definite, or not finite. If the kernel is your "
                "own, see that it is positive semi-definite and finite."
            )
        return Solution(
            coef=system.scale(b.to(K.dtype)),
            residual=left.to(K.dtype),
            jitter=torch.zeros_like(left, dtype=K.dtype),
            n_iter=steps,
            converged=left <= tol,
        )

    def _stages(self, system):
        """Yield the dtype of the vectors and what makes a round in it, cheapest first."""
        K = system.matrix
        if isinstance(K, torch.Tensor) and self.copied(len(K), K.dtype.itemsize):
            yield K.dtype, lambda dtype: self._corrections(system, torch.float32)
        for dtype in dict.fromkeys([K.dtype, _backend.wider(K.device)]):
            yield dtype, lambda dtype: self._restarts(system, dtype)

    def _restarts(self, system, dtype):
        """Return a round of the recurrence; None without a preconditioner.

        It ends when its own residual is well below the tolerance.
        """
        P = self._preconditioner(system, dtype)

        def one_round(x, r, size, tol, max_steps):
            path, taken = iterates(product, P.solve, x, r), 0
            while taken < max_steps:
                x, r = next(path)
                taken += 1
                if not _backend.holds(worst(r, size) > _MARGIN * tol):
                    break
            return x, taken

        def product(p):
            return _product(system.matrix, p) + system.alpha * p

        return P and one_round

    def _corrections(self, system, low):
        """Return a round that solves for the error in a lower precision.

        Matrix, preconditioner and recurrence are in that precision, at half the bytes; each
        round gains up to four digits.
        """
        matrix = system.shared.get(("matrix", low))
        if matrix is None:
            matrix = system.shared["matrix", low] = system.matrix.to(low)
        restarts = self._restarts(replace(system, matrix=matrix), low)

        def one_round(x, r, size, tol, max_steps):
            scale = column_sizes(r)
            gain = (_MARGIN * tol / worst(r, size)).clamp(min=_GAIN)
            unit = (r / scale).to(low)
            e, taken = restarts(torch.zeros_like(unit), unit, unit.norm(dim=0), gain, max_steps)
            return x + scale * e, taken

        return restarts and one_round

    def _preconditioner(self, system, dtype):
        """Return the preconditioner of the system; None if K is not positive definite."""
        low_rank = system.shared.get(("nystrom", dtype))
        if low_rank is None:
            m = self._rank(len(system.matrix), system.workspace.get("density", _DENSITY))
            low_rank = _nystrom(system.matrix, m, dtype)
            system.shared["nystrom", dtype] = low_rank
        return low_rank and _Preconditioner.of(*low_rank, system.alpha)

    def _iterate(self, system, rhs, size, x, one_round, tol):
        """Return a better solution, its worst relative residual, and the steps taken.

        Each round starts from a true residual, and goes on while that is halved.
        """
        best, r, steps = x, _residual(system, rhs, x), 0
        least = worst(r, size)
        while steps < self.max_iter and _backend.holds(_beyond(least, tol)):
            x, taken = one_round(best, r, size, tol, self.max_iter - steps)
            r, steps = _residual(system, rhs, x), steps + taken
            now = worst(r, size)
            if _backend.holds(_beyond(now, least / 2)):
                break
            best, least = x, now
        return best, least, steps


@dataclass(frozen=True)
class _Preconditioner:
    """``P = B B^T + shift I``, applied through ``root^T root``, the inverse of the (m, m) part."""

    B: torch.Tensor
    root: torch.Tensor
    shift: torch.Tensor

    @classmethod
    def of(cls, B, gram, delta, alpha):
        shift = alpha + delta
        factor, info = torch.linalg.cholesky_ex(shifted(gram, shift))
        if _backend.holds(info != 0):
            return None
        # inverted once: products with it are many times faster than triangular solves
        eye = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
        return cls(B, torch.linalg.solve_triangular(factor, eye, upper=False), shift)

    def solve(self, r):
        """Return ``P^-1 r`` by the Woodbury identity."""
        r = _backend.by_columns(r)
        return (r - self.B @ (self.root.mT @ (self.root @ (self.B.mT @ r)))) / self.shift


def _nystrom(K, m, dtype):
    """Return B, ``B^T B`` and the mean of the diagonal that is left; None if K is unfit."""
    n, eps = len(K), torch.finfo(dtype).eps
    index = _backend.random_rows(n, m, 0, K.device)
    C = K[:, index].to(dtype)
    diagonal = K.diagonal().to(dtype)
    # what rounding can add to an eigenvalue
    floor = m * torch.finfo(K.dtype).eps * diagonal.mean()
    L, info = torch.linalg.cholesky_ex(shifted(C[index], floor))
    if _backend.holds(info != 0):
        return None
    B = torch.linalg.solve_triangular(L, C.mT, upper=False).mT
    left = (diagonal - B.square().sum(1)).clamp(min=0).mean()
    return B, B.mT @ B, left + n * eps * diagonal.mean()


def _residual(system, rhs, x):
    return rhs - _product(system.matrix, x) - system.alpha * x


def _beyond(residual, bound):
    """Return whether a residual is above a bound, or NaN, as a 0-d tensor."""
    return torch.logical_not(residual <= bound)


def _product(K, V):
    """Return K V in the dtype of V, which may be wider than that of K."""
    if not isinstance(K, torch.Tensor):
        return K @ V
    if K.dtype == V.dtype:
        return _backend.symmetric_product(K, V)
    out = torch.empty_like(V)
    for block in _backend.blocks(len(K), len(K) * V.element_size(), V.device):
        out[block] = K[block].to(V.dtype) @ V
    return out
