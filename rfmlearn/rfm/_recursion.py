# SPDX-License-Identifier: BSD-3-Clause
"""The recursion: solve, take the AGOP of the solution, solve in its metric, and so on.

Tensors, a kernel and a solver; nothing of scikit-learn. Algorithm 1 of arXiv 2212.13881.
"""

from dataclasses import dataclass

import torch

from rfmlearn import _backend
from rfmlearn._metric import Metric
from rfmlearn.kernels import RadialKernel
from rfmlearn.kernels._expansion import Predictor
from rfmlearn.solvers import Solution

# Relative residual that is enough where a solution only serves an AGOP.
GUIDE_TOL = {torch.float64: 1e-3, torch.float32: 1e-2}

# Beyond so many outputs their sum in the AGOP is taken over so many random mixtures.
MANY_OUTPUTS = 16
MIXTURES = 8


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


def recursive_features(problem, spec, metric=None, every_iterate=True):
    """Yield the iterates 0, 1, ..., max_iter of a Recursive Feature Machine.

    Iterate 0 is kernel ridge regression in the given metric. The next AGOP is taken when
    the next iterate is asked for; an AGOP of 0 ends the recursion.

    Parameters
    ----------
    problem : AllRows or OnCenters
        The data, and how it is solved.
    spec : RecursionSpec
        Bandwidth, ridges, updates and AGOP.
    metric : Metric, optional
        Where to start; None means the identity.
    every_iterate : bool
        Whether each predictor is used. Otherwise all iterates but the last are solved only as
        well as their AGOP needs: to `GUIDE_TOL`.

    Yields
    ------
    State
    """
    metric = metric or Metric()
    guide_tol = max(problem.tol, GUIDE_TOL[problem.Y.dtype])
    agop_alpha = spec.alphas[0] if spec.agop_alpha is None else spec.agop_alpha
    for iteration in range(spec.max_iter + 1):
        problem.enter(metric, spec)
        last = iteration == spec.max_iter
        tol = problem.tol if every_iterate or last else guide_tol
        solved = {alpha: problem.solve(alpha, tol) for alpha in spec.alphas}
        coef = torch.cat([solution.coef for solution in solved.values()], dim=1)
        yield State(iteration, metric, problem.predictor(coef), tuple(solved.values()))
        if last:
            return
        if agop_alpha not in solved:
            solved[agop_alpha] = problem.solve(agop_alpha, guide_tol)
        A, rank = _agop(problem, spec, solved[agop_alpha].coef, iteration)
        metric = Metric.of(A, spec.agop_power, spec.matrix_scaling, rank)
        if metric is None:
            return


def _agop(problem, spec, coef, iteration):
    """Return the AGOP of the predictor with these coefficients, and a bound of its rank."""
    n, index = len(problem.Y), None
    if spec.n_agop_samples is not None and spec.n_agop_samples < n:
        index = _backend.random_rows(
            n, spec.n_agop_samples, spec.seed + iteration, problem.Y.device
        )
    A, rank = problem.predictor(coef).second_moment(
        n,
        problem.rows_at,
        problem.weight,
        index,
        diag=spec.diag,
        center_gradients=spec.center_gradients,
        mixtures=_mixtures(spec.agop_outputs, problem.Y.shape[1]),
        seed=spec.seed + 1000003 * (iteration + 1),
    )
    # gradients of a kernel of distances are sums of differences of rows
    return A, min(rank, n) if isinstance(problem.kernel, RadialKernel) else rank


def _mixtures(agop_outputs, n_outputs):
    """Return the number of random mixtures of the outputs, or None for all outputs."""
    if agop_outputs == "auto":
        return MIXTURES if n_outputs > MANY_OUTPUTS else None
    return None if agop_outputs == "all" else agop_outputs
