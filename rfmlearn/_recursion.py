# SPDX-License-Identifier: BSD-3-Clause
"""The recursion: solve, take the AGOP of the solution, solve in its metric, and so on.

Tensors, a kernel and a solver; nothing of scikit-learn. Algorithm 1 of arXiv 2212.13881.
"""

from dataclasses import dataclass

import torch

from rfmlearn import _backend
from rfmlearn._predictor import Metric, Predictor
from rfmlearn._problems import AllRows, OnCenters
from rfmlearn.solvers import Solution

# Relative residual that is enough where a solution only serves an AGOP.
GUIDE_TOL = {torch.float64: 1e-3, torch.float32: 1e-2}


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
    solver=None,
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
    centers=None,
    tol=None,
    loose=False,
):
    """Yield the iterates 0, 1, ..., max_iter of a Recursive Feature Machine.

    Iterate 0 is kernel ridge regression in the given metric. The next AGOP is taken when
    the next iterate is asked for; an AGOP of 0 ends the recursion.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Rows. With `centers` an array will do: it is read block by block.
    Y : tensor of shape (n, c)
        Targets.
    kernel : Kernel
        The kernel.
    solver : Solver, optional
        The solver; not needed with `centers`.
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
    centers : tuple of two tensors of indices, optional
        The rows that carry the predictor, and a sample of others (see `OnCenters`); None
        means that all rows carry it.
    tol : float, optional
        Relative residual to reach; None is the solver's own.
    loose : bool
        Solve all iterates but the last only as well as their AGOP needs: to `GUIDE_TOL`.

    Yields
    ------
    State
    """
    if centers is None:
        problem = AllRows(X, Y, weight, shift, kernel, solver, dense)
    else:
        problem = OnCenters(X, Y, weight, shift, kernel, centers)
    metric = metric or Metric()
    agop_alpha = alphas[0] if agop_alpha is None else agop_alpha
    tol = problem.tolerance if tol is None else tol
    guide_tol = max(tol, GUIDE_TOL[Y.dtype])
    for iteration in range(max_iter + 1):
        problem.enter(metric, bandwidth, adaptive)
        enough = guide_tol if loose and iteration < max_iter else tol
        solved = {alpha: problem.solve(alpha, enough) for alpha in alphas}
        coef = torch.cat([solution.coef for solution in solved.values()], dim=1)
        yield State(iteration, metric, problem.predictor(coef), tuple(solved.values()))
        if iteration == max_iter:
            return
        if agop_alpha not in solved:
            solved[agop_alpha] = problem.solve(agop_alpha, guide_tol)
        index = None
        if n_samples is not None and n_samples < len(Y):
            index = _backend.random_rows(len(Y), n_samples, seed + iteration, Y.device)
        A, rank = problem.predictor(solved[agop_alpha].coef).second_moment(
            len(Y),
            problem.rows_at,
            weight,
            index,
            diag=diag,
            center=center,
            mixtures=mixtures,
            seed=seed + 1000003 * (iteration + 1),
        )
        metric = Metric.of(A, power, scaling, rank)
        if metric is None:
            return
