# SPDX-License-Identifier: BSD-3-Clause
"""What is noted of each iterate, which one is kept, and when to stop."""

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning

from rfmlearn import _backend
from rfmlearn._base._progress import Progress

FIELDS = [
    ("iteration", np.int64),
    ("bandwidth", np.float64),
    ("train_score", np.float64),
    ("validation_score", np.float64),
    ("residual", np.float64),
    ("jitter", np.float64),
    ("solver_iterations", np.int64),
    ("converged", np.bool_),
]


class History:
    """Measures iterates and keeps the best.

    Scores are 1 minus the weighted mean squared error over outputs, in units of the
    variance of the training targets.

    Parameters
    ----------
    targets : CentredTargets
        Training targets.
    weight : ndarray of shape (n,)
        Their row weights.
    alpha : float
        Ridge.
    validation : tuple (X, Y, weight) or None
        Held-out rows with their target matrix; with them the best iterate is the one that
        scores highest there, without them it is the last.
    tol : float
        The least gain in validation score that counts as progress.
    patience : int
        Number of iterates without progress that exhausts the history.
    """

    def __init__(self, targets, weight, alpha, validation, tol, patience):
        self.weight, self.alpha, self.progress = weight, alpha, Progress(tol, patience)
        self.unit = _mean_square(targets.matrix, weight) or 1.0
        self.validation = None
        if validation is not None:
            X, Y, weight_val = validation
            self.validation = X, targets.apply(Y), weight_val
        self.rows = np.zeros(0, dtype=FIELDS)
        self.best = None

    def add(self, state):
        """Note an iterate."""
        row = self._measure(state)
        self.rows = np.append(self.rows, row)
        is_best = self.progress.judge(row["validation_score"][0])
        if self.best is None or self.validation is None or is_best:
            self.best = state

    @property
    def exhausted(self):
        """Whether held-out rows have seen no progress for too long."""
        return self.validation is not None and self.progress.exhausted

    def complaints(self):
        """Yield message and category of what the user should know of the solutions."""
        jittered = self.rows[self.rows["jitter"] > 0]
        if len(jittered):
            yield (
                f"The kernel system was singular to rounding with alpha={self.alpha:g}: up to "
                f"{jittered['jitter'].max():.1e} was added to its diagonal, at iterate "
                f"{_listed(jittered)}. Raise alpha, or pass X as float64.",
                LinAlgWarning,
            )
        short = self.rows[~self.rows["converged"]]
        if len(short):
            yield (
                f"Conjugate gradients stopped short at iterate {_listed(short)}: a relative "
                f"residual of up to {short['residual'].max():.1e} was left after "
                f"{short['solver_iterations'].max()} iterations. Raise alpha, or take "
                "solver='cholesky', or PCGSolver with a larger tol.",
                ConvergenceWarning,
            )

    def _measure(self, state):
        solution = state.solutions[0]
        jitter = float(solution.jitter)
        if solution.mean_square is None:
            # the equations give the training error for free: y - K a = alpha a / w
            error = (self.alpha + jitter) * _backend.to_numpy(solution.coef) / self.weight[:, None]
            missed = _mean_square(error, self.weight)
        else:
            missed = float(solution.mean_square)
        validation_score = np.nan
        if self.validation is not None:
            X, truth, weight = self.validation
            off = truth - _backend.to_numpy(state.predictor.scores(X))
            validation_score = 1 - _mean_square(off, weight) / self.unit
        row = (
            state.iteration,
            float(state.predictor.bandwidth),
            1 - missed / self.unit,
            validation_score,
            float(solution.residual),
            jitter,
            solution.n_iter,
            bool(solution.converged),
        )
        return np.array([row], dtype=FIELDS)


def _listed(rows):
    return ", ".join(map(str, rows["iteration"]))


def _mean_square(E, weight):
    return np.average((E**2).mean(axis=1), weights=weight)
