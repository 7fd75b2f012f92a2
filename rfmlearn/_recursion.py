# SPDX-License-Identifier: BSD-3-Clause
"""The recursion: solve, take the AGOP of the solution, solve in its metric, and so on.

Tensors, a kernel and a solver; nothing of scikit-learn. Algorithm 1 of arXiv 2212.13881.
"""

from dataclasses import dataclass, replace

import torch

from rfmlearn import _backend
from rfmlearn.features import GradientMoments, psd_eigh
from rfmlearn.kernels import Kernel, Rows
from rfmlearn.kernels._lazy import LazyGram
from rfmlearn.solvers import KernelSystem, Solution

# Relative residual that is enough where a solution only serves an AGOP.
GUIDE_TOL = {torch.float64: 1e-3, torch.float32: 1e-2}


@dataclass(frozen=True)
class Metric:
    """A feature matrix M with its symmetric root; None for both is the identity.

    Attributes
    ----------
    matrix, root : tensor of shape (d, d) or (d,), or None
        M and ``M^(1/2)``, in float64 on the CPU.
    """

    matrix: torch.Tensor | None = None
    root: torch.Tensor | None = None

    @classmethod
    def of(cls, second_moment, power=1.0, scaling=None):
        """Return ``M = second_moment^power``, scaled; None if it is 0, an error if not finite.

        Parameters
        ----------
        second_moment : tensor of shape (d, d) or (d,)
            AGOP, or its diagonal.
        power : float
            Exponent.
        scaling : {"spectral", "trace", None}
            Largest eigenvalue 1, trace d, or as it comes.
        """
        A = _backend.on_host(second_moment)
        if _backend.holds(~torch.isfinite(A).all()):
            raise ValueError(
                "The AGOP holds NaN or inf. If the kernel is your own, its slope is not finite "
                "at some pair of distinct rows."
            )
        values, V = (A.clamp(min=0), None) if A.ndim == 1 else psd_eigh(A)
        if _backend.holds(~(values.max() > 0)):
            return None
        # scaled before the power, so that a tiny AGOP does not underflow
        top = values.max()
        values = (values / top) ** power
        if scaling == "trace":
            values = values * (len(A) / values.sum())
        elif scaling is None:
            values = values * top**power
        if V is None:
            return cls(values, values.sqrt())
        return cls((V * values) @ V.mT, (V * values.sqrt()) @ V.mT)

    def dense(self, d, diag):
        """Return M as a tensor also where it is the identity."""
        if self.matrix is not None:
            return self.matrix
        return torch.ones(d, dtype=torch.float64) if diag else torch.eye(d, dtype=torch.float64)


@dataclass(frozen=True)
class Predictor:
    """A kernel expansion ``f(x) = sum_j coef_j k(x, x_j)`` in a metric.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    rows : Rows
        The n training rows in the metric.
    coef : tensor of shape (n, c)
        Dual coefficients.
    root : tensor of shape (d, d) or (d,), or None
        Root of the metric, on the device and in the dtype of the rows.
    bandwidth : 0-d tensor
        L.
    shift : tensor of shape (d,), or None
        What was subtracted from the training rows, and is from further ones.
    """

    kernel: Kernel
    rows: Rows
    coef: torch.Tensor
    root: torch.Tensor | None
    bandwidth: torch.Tensor
    shift: torch.Tensor | None = None

    @classmethod
    def of(cls, kernel, X, coef, root, bandwidth, shift=None):
        """Return the predictor of training rows X of shape (n, d) in their own units."""
        rows = Rows.of(X if shift is None else X - shift, root, bandwidth)
        return cls(kernel, rows, coef, root, bandwidth, shift)

    def _blocks(self, n, width):
        return _backend.blocks(n, width * self.coef.element_size(), self.coef.device)

    def _queries(self, X):
        """Return a block of further rows, an array or a tensor, in the metric."""
        X = _backend.to_tensor(X, self.coef.device, self.coef.dtype)
        return Rows.of(X if self.shift is None else X - self.shift, self.root, self.bandwidth)

    def scores(self, X):
        """Return f at the rows of X, shape (m, c), block by block."""
        out = self.coef.new_empty((len(X), self.coef.shape[1]))
        for block in self._blocks(len(X), len(self.rows)):
            out[block] = self.kernel.matrix(self._queries(X[block]), self.rows) @ self.coef
        return out

    def gradients(self, X):
        """Return the gradients of f at the rows of X, shape (m, c, d)."""
        out = self.coef.new_empty((len(X), self.coef.shape[1], X.shape[1]))
        for block in self._blocks(len(X), len(self.rows)):
            G = self.kernel.gradients(self._queries(X[block]), self.rows, self.coef)
            out[block] = self._chain(G)
        return out

    def _chain(self, G):
        """Turn gradients in the metric's coordinates into gradients in those of X."""
        if self.root is not None:
            G = G * self.root if self.root.ndim == 1 else G @ self.root
        return G / self.bandwidth

    def second_moment(
        self, weight=None, index=None, *, diag=False, center=False, mixtures=None, seed=0
    ):
        """Return the AGOP at the training rows, (d, d) or (d,).

        Parameters
        ----------
        weight : tensor of shape (n,), optional
            Row weights.
        index : tensor, optional
            The rows to average over; None takes all.
        diag, center : bool
            See `rfmlearn.features.agop`.
        mixtures : int, optional
            Take, in each block of at most an eighth of the rows, that many mixtures of the c
            outputs with random signs instead of all outputs: ``E s s^T = I`` makes the sum
            over outputs right on average. Not with `center`, which needs each output's
            mean.
        seed : int
            For the signs.
        """
        n, d = self.rows.values.shape
        n_queries = n if index is None else len(index)
        device, coef = self.coef.device, self.coef
        moments = GradientMoments(diag)
        c = coef.shape[1]
        mix = mixtures is not None and mixtures < c and not center
        rows = {"max_rows": -(-n_queries // 8)} if mix else {}
        width = max(n, (mixtures if mix else c) * d) * coef.element_size()
        for k, block in enumerate(_backend.blocks(n_queries, width, device, **rows)):
            if index is None:
                own = torch.arange(block.start, block.stop, device=device)
            else:
                own = index[block]
            if mix:
                signs = _backend.random_signs((c, mixtures), seed + k, device, coef.dtype)
                coef = self.coef @ (signs / mixtures**0.5)
            G = self.kernel.gradients(self.rows[own], self.rows, coef, own)
            moments.add(G, None if weight is None else weight[own])
        A = moments.result(center)
        # the chain rule once for the sum, not for each gradient
        if self.root is not None:
            A = A * self.root.square() if self.root.ndim == 1 else self.root @ A @ self.root
        return A / self.bandwidth.square()


@dataclass(frozen=True)
class State:
    """Iterate of the recursion: a metric, and the predictor fitted in it.

    Attributes
    ----------
    iteration : int
        Number of AGOP updates behind the metric.
    metric : Metric
        M.
    predictor : Predictor
        Kernel ridge regression in that metric; with several ridges their outputs side by
        side.
    solutions : tuple of Solution
        What the solver reports, one for each ridge.
    """

    iteration: int
    metric: Metric
    predictor: Predictor
    solutions: tuple[Solution, ...]


def recursive_features(
    X,
    Y,
    *,
    kernel,
    solver,
    bandwidth,
    adaptive,
    alphas,
    max_iter,
    agop_alpha=None,
    shift=None,
    weight=None,
    metric=None,
    diag=False,
    power=1.0,
    scaling="spectral",
    center=False,
    n_samples=None,
    mixtures=None,
    seed=0,
    dense=True,
    tol=None,
    loose=False,
):
    """Yield the iterates 0, 1, ..., max_iter of a Recursive Feature Machine.

    Iterate 0 is kernel ridge regression in the given metric. The next AGOP is taken when
    the next iterate is asked for; an AGOP of 0 ends the recursion.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Rows.
    Y : tensor of shape (n, c)
        Targets.
    kernel : Kernel
        The kernel.
    solver : Solver
        The solver.
    bandwidth : float
        L, or the factor of the spread of the rows (see `Kernel.spread`) when `adaptive`.
    adaptive : bool
        Recompute L in each metric.
    alphas : sequence of float
        Ridges; each iterate is solved with all of them.
    max_iter : int
        Number of updates.
    agop_alpha : float, optional
        Ridge of the solution whose AGOP is taken; None takes the first of `alphas`.
    shift : tensor of shape (d,), optional
        Subtracted from X; for translation invariant kernels, where it saves digits.
    weight : tensor of shape (n,), optional
        Positive row weights.
    metric : Metric, optional
        Where to start; None means the identity.
    diag : bool
        Learn a diagonal M.
    power : float
        ``M = AGOP^power``.
    scaling : {"spectral", "trace", None}
        See `Metric.of`.
    center : bool
        Centre the gradients.
    n_samples : int, optional
        Take each AGOP over that many random rows.
    mixtures : int, optional
        Sum over that many random mixtures of the outputs (see `Predictor.second_moment`).
    seed : int
        For those rows and mixtures.
    dense : bool
        Store the kernel matrix; otherwise it is computed again for each product, which the
        solver must be able to work with.
    tol : float, optional
        Relative residual to reach; None is the solver's own.
    loose : bool
        Solve all iterates but the last only as well as their AGOP needs: to `GUIDE_TOL`.

    Yields
    ------
    State
    """
    n = len(X)
    X = X if shift is None else X - shift
    metric = metric or Metric()
    root_weight = None if weight is None else weight.sqrt()
    agop_alpha = alphas[0] if agop_alpha is None else agop_alpha
    tol = solver.tolerance(X.dtype) if tol is None else tol
    guide_tol = max(tol, GUIDE_TOL[X.dtype])
    K = X.new_empty((n, n)) if dense else None
    for iteration in range(max_iter + 1):
        root = None if metric.root is None else metric.root.to(X)
        rows = Rows.of(X, root)
        length = X.new_full((), bandwidth)
        if adaptive:
            length = length * kernel.spread(rows.values, weight)
        rows = rows.divided_by(length)
        if dense:
            system = KernelSystem.weighted_(kernel.gram(rows, out=K), alphas[0], root_weight)
        else:
            system = KernelSystem(LazyGram(kernel, rows, root_weight), alphas[0], root_weight)
        enough = guide_tol if loose and iteration < max_iter else tol
        solved = {
            alpha: solver.solve(replace(system, alpha=alpha), Y, tol=enough) for alpha in alphas
        }
        coef = torch.cat([solution.coef for solution in solved.values()], dim=1)
        predictor = Predictor(kernel, rows, coef, root, length, shift)
        yield State(iteration, metric, predictor, tuple(solved.values()))
        if iteration == max_iter:
            return
        if agop_alpha not in solved:
            guide = replace(system, alpha=agop_alpha)
            solved[agop_alpha] = solver.solve(guide, Y, tol=guide_tol)
        index = None
        if n_samples is not None and n_samples < n:
            index = _backend.random_rows(n, n_samples, seed + iteration, X.device)
        guide = replace(predictor, coef=solved[agop_alpha].coef)
        A = guide.second_moment(
            weight,
            index,
            diag=diag,
            center=center,
            mixtures=mixtures,
            seed=seed + 1000003 * (iteration + 1),
        )
        metric = Metric.of(A, power, scaling)
        if metric is None:
            return
