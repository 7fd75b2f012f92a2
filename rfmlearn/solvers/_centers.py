# SPDX-License-Identifier: BSD-3-Clause
"""The system of a predictor on m centres, by preconditioned conjugate gradients.

Minimising ``|y - K_nm a|_W^2 + alpha a^T K_mm a`` gives the normal equations
``(K_mn W K_nm + alpha K_mm) a = K_mn W y``. With ``K_mm = L L^T`` and ``a = L^-T b`` the matrix
of b is ``L^-1 K_mn W K_nm L^-T + alpha I`` (as in Falkon; Rudi, Carratino and Rosasco,
arXiv 1705.10958). The preconditioner is the same matrix with the sum over the other rows than
the centres taken over a random sample of them, and scaled up. The centres' own rows, on which
the kernel is largest, are all in it. The vectors of length m and their factors are in float64,
the n rows of the kernel in the dtype of the data.
"""

import torch

from rfmlearn import _backend
from rfmlearn.solvers._base import NotPositiveDefiniteError, Solution
from rfmlearn.solvers._cg import column_sizes, iterates, shifted, worst

MAX_STEPS = 200


class CenterSystem:
    """The normal equations in one metric; each product with them is one pass over the rows.

    Parameters
    ----------
    gram : tensor of shape (m, m)
        ``K_mm``.
    stripes : callable
        Yields slices of rows and ``K_nm`` there.
    Y : tensor of shape (n, c)
        Targets.
    centers : tensor of shape (m,)
        Indices of the centres among the rows.
    sample : callable
        Yields indices of a random sample of the other rows, and ``K_nm`` there.
    weight : tensor of shape (n,) or None
        Row weights.
    """

    def __init__(self, gram, stripes, Y, centers, sample, weight=None):
        self.stripes, self.Y, self.weight = stripes, Y, weight
        self.total = len(Y) if weight is None else weight.sum()
        self._wide = _backend.wider(Y.device)
        self.L, self.jitter = _factor(gram, self._wide)
        self._sampled = self._sum_over(gram, centers, sample)
        self._rhs = None

    def _sum_over(self, gram, centers, sample):
        """Return an estimate of ``L^-1 K_mn W K_nm L^-T``."""

        L = self.L.to(gram.dtype)

        def part(index, K):
            # solved before it is squared: the sum is then positive whatever the rounding
            B = torch.linalg.solve_triangular(L, K.mT, upper=False)
            w = K.new_ones(len(K)) if self.weight is None else self.weight[index]
            return ((B * w) @ B.mT).to(self._wide), w.sum()

        own, own_weight = part(centers, gram)
        S, drawn = torch.zeros_like(own), 0.0
        for index, K in sample():
            more, weight = part(index, K)
            S, drawn = S + more, drawn + weight
        S = own + S * ((self.total - own_weight) / drawn)
        return (S + S.mT) / 2

    def _preconditioner(self, alpha):
        """Return the Cholesky factor of the estimate plus alpha, or a little more.

        Directions in which both are rounding noise must not be blown up.
        """
        S = self._sampled
        shift = torch.clamp(S.diagonal().mean() * torch.finfo(self.Y.dtype).eps ** 0.5, min=alpha)
        factor, info = torch.linalg.cholesky_ex(shifted(S, shift))
        if _backend.holds(info != 0):
            raise NotPositiveDefiniteError(
                "The system of the centres is not positive definite. If the kernel is your own, "
                "see that it is positive semi-definite and finite."
            )
        return factor

    @staticmethod
    def tol_for(dtype):
        """Return the relative residual to reach: 1e-8 in float64, 1e-4 in float32."""
        return 1e-8 if dtype == torch.float64 else 1e-4

    def _gather(self, values_of):
        """Return ``L^-1 K_mn W V`` for V given block by block, in float64."""
        out = torch.zeros((len(self.L), self.Y.shape[1]), dtype=self._wide, device=self.Y.device)
        for block, K in self.stripes():
            V = values_of(block, K)
            if self.weight is not None:
                V = V * self.weight[block, None]
            out += (K.mT @ V).to(self._wide)
        return torch.linalg.solve_triangular(self.L, out, upper=False)

    def _product(self, b, alpha):
        a = torch.linalg.solve_triangular(self.L.mT, b, upper=True).to(self.Y.dtype)
        return self._gather(lambda _, K: K @ a) + alpha * b

    def solve(self, alpha, tol):
        """Return the solution for a ridge.

        Parameters
        ----------
        alpha : float
            Ridge.
        tol : float
            Relative residual of the system of b to reach.

        Returns
        -------
        Solution
            Coefficients of the centres, shape (m, c), and the training error.
        """
        if self._rhs is None:
            self._rhs = self._gather(lambda block, _: self.Y[block])
        factor = self._preconditioner(alpha)
        rhs = self._rhs
        size = column_sizes(rhs)
        b = torch.zeros_like(rhs)
        left, steps = worst(rhs, size), 0
        best = b, rhs, left
        path = iterates(
            lambda p: self._product(p, alpha), lambda r: torch.cholesky_solve(r, factor), b, rhs
        )
        # where alpha is 0 and the centres repeat, rounding makes it diverge in the end
        while steps < MAX_STEPS and _backend.holds((left > tol) & (left < 1e3 * best[2])):
            b, r = next(path)
            left, steps = worst(r, size), steps + 1
            if _backend.holds(left < best[2]):
                best = b, r, left
        b, r, left = best
        return Solution(
            coef=torch.linalg.solve_triangular(self.L.mT, b, upper=True).to(self.Y.dtype),
            residual=left.to(self.Y.dtype),
            jitter=self.jitter.to(self.Y.dtype),
            n_iter=steps,
            converged=left <= tol,
            mean_square=self._training_error(b, r, alpha),
        )

    def _training_error(self, b, r, alpha):
        """Return the weighted mean square error over rows and outputs.

        From ``|y - K a|_W^2 = y^T W y - 2 b^T h + b^T H b`` with ``H b + alpha b = h - r``.
        """
        squares = self.Y.square().sum(1).to(self._wide)
        squares = squares.sum() if self.weight is None else squares @ self.weight.to(self._wide)
        error = squares - (b * (self._rhs + alpha * b + r)).sum()
        return (error / (self.total * self.Y.shape[1])).clamp(min=0)


def _factor(gram, wide):
    """Return the Cholesky factor of the matrix of the centres, and the jitter it needed.

    What rounding can add to an eigenvalue is always added, and does not count.
    """
    eps, n = torch.finfo(gram.dtype).eps, len(gram)
    K, mean = gram.to(wide), gram.diagonal().mean().to(wide)
    first = level = n * eps
    while level <= n * eps**0.5:
        L, info = torch.linalg.cholesky_ex(shifted(K, level * mean))
        if not _backend.holds(info != 0):
            return L, (level - first) * mean
        level *= 10
    raise NotPositiveDefiniteError(
        "The kernel matrix of the centres is not positive definite. If the kernel is your own, see "
        "that it is positive semi-definite and finite."
    )
