# SPDX-License-Identifier: BSD-3-Clause
"""Scoring whole paths: one recursion gives every iterate at every ridge.

A recursion on the training rows of a fold yields its iterates one by one. Each has one kernel
matrix, which serves all ridges (one Cholesky factor each: an eigendecomposition, which would
serve them all at once, takes as long as 12 to 24 factors), and one kernel matrix with the test
rows, which serves the predictions of all ridges in one product.
"""

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone

from rfmlearn import _backend
from rfmlearn._recursion import recursive_features
from rfmlearn._targets import centre
from rfmlearn.kernels import resolve_kernel
from rfmlearn.solvers import resolve_solver

# Size of the sample of rows from which the preconditioner of a system on centres is made.
ROWS_PER_CENTER = 8

# From this many outputs on their sum in the AGOP is taken over so many random mixtures.
MANY_OUTPUTS = 16
MIXTURES = 8


@dataclass(frozen=True)
class Rowset:
    """Rows of one side of a split.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Rows.
    y : ndarray of shape (n,) or (n, c)
        Targets as they came.
    Y : ndarray of shape (n, c)
        Target matrix.
    weight : ndarray of shape (n,)
        Row weights.
    """

    X: np.ndarray
    y: np.ndarray
    Y: np.ndarray
    weight: np.ndarray

    def take(self, index):
        """Return those rows that have weight."""
        index = np.asarray(index)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        index = index[self.weight[index] > 0]
        return Rowset(self.X[index], self.y[index], self.Y[index], self.weight[index])


@dataclass(frozen=True)
class Path:
    """One recursion: all that it needs but the data.

    Attributes
    ----------
    kernel : str or Kernel
        Kernel.
    bandwidth : float
        Factor, or length.
    diag : bool
        Diagonal metric.
    alphas : tuple of float
        Ridges, distinct.
    max_iter : int
        Last iterate.
    options : dict
        Further arguments of `recursive_features`.
    solver, device : str
        As of the estimator.
    budget : int or None
        Bytes that matrix and solver may take; None is no limit.
    n_centers : int or None
        Expand the predictor over that many random rows where there are more.
    """

    kernel: object
    bandwidth: float
    diag: bool
    alphas: tuple
    max_iter: int
    options: dict
    solver: str
    device: str
    budget: int | None = None
    n_centers: int | None = None

    @classmethod
    def of(
        cls, model, rng, *, kernel, bandwidth, diag, alphas, max_iter, every_iterate=True, share=1
    ):
        """Return the recursion with these parameters and the others of an estimator.

        `every_iterate` says that the predictor of each iterate is used, not the last one's
        only; `share` is the number of recursions at a time.
        """
        budget = model.memory_budget
        if budget is None:
            free = _backend.free_bytes(_backend.resolve_device(model.device))
            budget = None if free is None else free * 3 // 4
        options = {
            "adaptive": model.bandwidth_mode == "adaptive",
            "agop_alpha": None if model.agop_alpha is None else float(model.agop_alpha),
            "power": float(model.agop_power),
            "scaling": model.matrix_scaling,
            "center": model.center_gradients,
            "n_samples": model.n_agop_samples,
            "mixtures": None if model.agop_outputs == "all" else model.agop_outputs,
            "tol": model.solver_tol,
            "loose": not every_iterate,
            "seed": int(rng.randint(2**31 - 1)),
        }
        return cls(
            kernel,
            float(bandwidth),
            bool(diag),
            tuple(float(alpha) for alpha in alphas),
            max_iter,
            options,
            model.solver,
            model.device,
            None if budget is None else budget // share,
            model.n_centers,
        )

    def plan(self, n, n_outputs, itemsize):
        """Return how n training rows are fitted.

        Returns
        -------
        solver : Solver or None
            What solves; None on centres.
        dense : bool
            Whether the kernel matrix is stored.
        memory : int
            Bytes that matrix and solver take.
        """
        if self._on_centers(n):
            # their matrix, and in float64 its copy, its factor, that of the other two
            return None, False, self.n_centers**2 * (itemsize + 4 * 8)
        solver = resolve_solver(self.solver, n, n_outputs, itemsize, self.budget)
        memory = solver.memory(n, itemsize)
        dense = n * n * itemsize + solver.copied(n, itemsize) + memory
        if self.budget is None or dense <= self.budget or not solver.takes_lazy:
            return solver, True, dense
        return solver, False, memory

    @contextmanager
    def guard(self, n, n_outputs, itemsize, asked, at_once=1):
        """Be the context in which n training rows are fitted, `at_once` times in parallel.

        It refuses what does not fit. A matrix that is not stored although nobody asked for that
        by a `memory_budget` is worth a warning: the fit takes many times as long.
        """
        solver, dense, need = self.plan(n, n_outputs, itemsize)
        device = _backend.resolve_device(self.device)
        with _backend.memory_guard(n, at_once * need, device, asked):
            if asked is None and solver is not None and not dense:
                warnings.warn(
                    f"The kernel matrix of {n} rows, {n * n * itemsize / 2**30:.3g} GiB, does not "
                    f"fit beside what the solver needs into the {self.budget / 2**30:.3g} GiB that "
                    "may be used. It is computed again in every product, which takes long. "
                    "n_centers=4000 (where the estimator has it) expands the predictor over 4,000 "
                    "of the rows and fits it to all; a memory_budget says that the long way is "
                    "meant.",
                    UserWarning,
                    stacklevel=5,
                )
            yield

    def _on_centers(self, n):
        return self.n_centers is not None and self.n_centers < n

    def start(self, train, metric=None):
        """Begin the recursion on the training rows.

        Parameters
        ----------
        train : Rowset
            Rows to fit, all of positive weight.
        metric : Metric, optional
            Where to start; None means the identity.

        Returns
        -------
        targets : CentredTargets
            What the recursion fits.
        shift : ndarray of shape (d,) or None
            What it subtracts from the rows.
        expansion : ndarray of shape (m,) or slice
            The rows over which the predictor is expanded.
        states : iterator of State
            Its iterates.
        """
        device = _backend.resolve_device(self.device)
        kernel, dtype = resolve_kernel(self.kernel), train.X.dtype
        targets = centre(train.Y, train.weight, rescale=self.options["scaling"] is not None)
        solver, dense, _ = self.plan(*train.Y.shape, dtype.itemsize)
        options = dict(self.options)
        if options["mixtures"] == "auto":
            options["mixtures"] = MIXTURES if train.Y.shape[1] > MANY_OUTPUTS else None

        def tensor(array):
            return _backend.to_tensor(np.asarray(array, dtype=dtype), device)

        if self._on_centers(n := len(train.X)):
            m = self.n_centers
            drawn = _backend.random_rows(n, (1 + ROWS_PER_CENTER) * m, options["seed"], "cpu")
            centers = drawn[:m].sort().values, drawn[m:].sort().values
            expansion, rows = centers[0].numpy(), train.X  # read block by block
        else:
            centers, expansion, rows = None, slice(None), tensor(train.X)
        # any shift is exact; the median keeps the digits of the bulk beside outliers
        shift = None
        if kernel.translation_invariant:
            shift = np.median(train.X[expansion], axis=0)
        elif kernel.centred:
            shift = np.average(train.X[expansion], axis=0, weights=train.weight[expansion])
            shift = shift.astype(dtype)
        states = recursive_features(
            rows,
            tensor(targets.matrix),
            kernel=kernel,
            solver=solver,
            dense=dense,
            centers=centers,
            bandwidth=self.bandwidth,
            alphas=self.alphas,
            max_iter=self.max_iter,
            shift=None if shift is None else tensor(shift),
            weight=tensor(train.weight) if np.any(train.weight != 1) else None,
            metric=metric,
            diag=self.diag,
            **options,
        )
        return targets, shift, expansion, states

    def in_single(self, train, queries):
        """Return the rows in float32, centred, where held-out scores do not need more.

        They do where a ridge comes near the rounding errors of the kernel matrix, about
        ``sqrt(n) eps``, or the data would leave the range of float32.
        """
        floor = 10 * len(train.X) ** 0.5 * np.finfo(np.float32).eps
        ridges = [*self.alphas, self.options["agop_alpha"]]
        fits = (
            train.X.dtype == np.float64
            and self.options["scaling"] is not None
            and resolve_kernel(self.kernel).translation_invariant
            and min(alpha for alpha in ridges if alpha is not None) >= floor
        )
        if not fits:
            return train, queries
        shift = np.median(train.X, axis=0)
        X, Q = train.X - shift, queries - shift
        spread = np.abs(X).max()
        if not (1e-6 < spread < 1e6 and np.abs(Q).max() < 1e12):
            return train, queries
        return replace(train, X=X.astype(np.float32)), Q.astype(np.float32)

    def scores(self, train, queries):
        """Yield, for each iterate, the outputs at further rows for each ridge.

        They are computed in float32 where that is enough (see `in_single`).

        Parameters
        ----------
        train : Rowset
            Rows to fit.
        queries : ndarray of shape (m, d)
            Rows to predict.

        Yields
        ------
        ndarray of shape (n_alphas, m, c)
            In the units of the target matrix. An iteration that ended early, because an
            AGOP was 0, repeats its last iterate.
        """
        train, queries = self.in_single(train, queries)
        targets, _, _, states = self.start(train)
        outputs = None
        for _ in range(self.max_iter + 1):
            state = next(states, None)
            if state is not None:
                F = _backend.to_numpy(state.predictor.scores(queries)).astype(np.float64)
                F = F.reshape(len(queries), len(self.alphas), -1).transpose(1, 0, 2)
                outputs = F * targets.scale + targets.intercept
            yield outputs


def squared_error_scores(path, train, test):
    """Return minus the weighted mean squared error, (max_iter + 1, n_alphas)."""

    def score(F):
        return -np.average(((F - test.Y) ** 2).mean(axis=2), axis=1, weights=test.weight)

    return np.array([score(F) for F in path.scores(train, test.X)])


def scorer_scores(path, train, test, score):
    """Return ``score(F, train, test)`` of each iterate and ridge, (max_iter + 1, n_alphas).

    Parameters
    ----------
    path : Path
        The recursion.
    train, test : Rowset
        Both sides of the split.
    score : callable
        From outputs (m, c) at the test rows to a number, the higher the better.

    Returns
    -------
    ndarray of shape (max_iter + 1, n_alphas)
        The scores.
    """
    return np.array([[score(f, train, test) for f in F] for F in path.scores(train, test.X)])


def last_scores(path, train, test):
    """Return the outputs of the last iterate at the first ridge, (m, c)."""
    for F in path.scores(train, test.X):
        last = F[0]
    return last


class OutputScorer:
    """A scikit-learn scorer of outputs instead of an estimator.

    Parameters
    ----------
    model : estimator
        Unfitted estimator of the task, which turns outputs into predictions.
    attributes : dict
        Its fitted attributes, such as `classes_`.
    scorer : callable
        From estimator, X and y to a number.
    weighted : bool
        Pass the row weights to the scorer.
    """

    def __init__(self, model, attributes, scorer, weighted):
        self.model, self.attributes = model, attributes
        self.scorer, self.weighted = scorer, weighted

    def __call__(self, F, train, test):
        """Score the outputs F of shape (m, c) at the rows of `test`."""
        stub = clone(self.model)
        outputs = F[:, 0] if F.shape[1] == 1 else F
        own = {"_scores": lambda X: outputs, "_total_weight": float(train.weight.sum())}
        vars(stub).update(**self.attributes, **own)
        weights = {"sample_weight": test.weight} if self.weighted else {}
        return self.scorer(stub, test.X, test.y, **weights)
