# SPDX-License-Identifier: BSD-3-Clause
"""A recursion on NumPy rows: what it takes, how it begins, and what it predicts on the way.

A recursion on the training rows of a fold yields its iterates one by one. Each has one kernel
matrix, which serves all ridges (one Cholesky factor each: an eigendecomposition, which would
serve them all at once, takes as long as 12 to 24 factors), and one kernel matrix with the test
rows, which serves the predictions of all ridges in one product.
"""

from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from rfmlearn import _backend
from rfmlearn._base._model import largest_square_root
from rfmlearn._base._targets import centre
from rfmlearn._base._warn import warn
from rfmlearn.kernels import resolve_kernel
from rfmlearn.kernels._check import check_kernel
from rfmlearn.rfm._problems import AllRows, OnCenters
from rfmlearn.rfm._recursion import recursive_features
from rfmlearn.rfm._spec import RecursionSpec
from rfmlearn.solvers import resolve_solver

# Size of the sample of rows from which the preconditioner of a system on centres is made.
ROWS_PER_CENTER = 8


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
        Row weights, class weights included.
    sample_weight : ndarray of shape (n,)
        Row weights without those of classes.
    units : {"own", "common"}
        Of the columns of Y (see `centre`).
    """

    X: np.ndarray
    y: np.ndarray
    Y: np.ndarray
    weight: np.ndarray
    sample_weight: np.ndarray
    units: str = "own"

    def take(self, index):
        """Return those rows that have weight."""
        index = np.asarray(index)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        index = index[self.weight[index] > 0]
        own = ("X", "y", "Y", "weight", "sample_weight")
        return replace(self, **{name: getattr(self, name)[index] for name in own})


@dataclass(frozen=True)
class Path:
    """A recursion, and the memory that it may take.

    Attributes
    ----------
    spec : RecursionSpec
        The recursion.
    budget : int or None
        Bytes that matrix and solver may take; None is no limit.
    """

    spec: RecursionSpec
    budget: int | None = None

    @classmethod
    def of(cls, spec, at_once=1):
        """Return the path of a recursion that is one of several at a time, which share memory."""
        budget = spec.memory_budget
        if budget is None:
            budget = _backend.default_budget(_backend.resolve_device(spec.device))
        return cls(spec, None if budget is None else budget // at_once)

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
            return None, False, self.spec.n_centers**2 * (itemsize + 4 * 8)
        solver = resolve_solver(self.spec.solver, n, n_outputs, itemsize, self.budget)
        memory = solver.memory(n, itemsize)
        dense = n * n * itemsize + solver.copied(n, itemsize) + memory
        if self.budget is None or dense <= self.budget or not solver.takes_lazy:
            return solver, True, dense
        return solver, False, memory

    @contextmanager
    def guard(self, n, n_outputs, itemsize, at_once=1):
        """Be the context in which n training rows are fitted, `at_once` times in parallel.

        It refuses what does not fit. A matrix that is not stored although nobody asked for that
        by a `memory_budget` is worth a warning: the fit takes many times as long.
        """
        solver, dense, need = self.plan(n, n_outputs, itemsize)
        asked = self.spec.memory_budget
        device = _backend.resolve_device(self.spec.device)
        with _backend.memory_guard(n, at_once * need, device, asked):
            if asked is None and solver is not None and not dense:
                warn(
                    f"The kernel matrix of {n} rows, {n * n * itemsize / 2**30:.3g} GiB, does not "
                    f"fit beside what the solver needs into the {self.budget / 2**30:.3g} GiB that "
                    "may be used. It is computed again in every product, which takes long. "
                    "n_centers=4000 (where the estimator has it) expands the predictor over 4,000 "
                    "of the rows and fits it to all; a memory_budget says that the long way is "
                    "meant.",
                    UserWarning,
                )
            yield

    def _on_centers(self, n):
        return self.spec.n_centers is not None and self.spec.n_centers < n

    def start(self, train, metric=None, every_iterate=True):
        """Begin the recursion on the training rows.

        Parameters
        ----------
        train : Rowset
            Rows to fit, all of positive weight.
        metric : Metric, optional
            Where to start; None means the identity.
        every_iterate : bool
            Whether the predictor of each iterate is used, not the last one's only.

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
        spec, device = self.spec, _backend.resolve_device(self.spec.device)
        kernel, dtype = resolve_kernel(spec.kernel), train.X.dtype
        check_kernel(kernel, _backend.to_tensor(train.X[:8], device))
        targets = centre(train.Y, train.weight, train.units if spec.unit_free else None)
        solver, dense, _ = self.plan(*train.Y.shape, dtype.itemsize)

        def tensor(array):
            return _backend.to_tensor(np.asarray(array, dtype=dtype), device)

        on_centers = self._on_centers(n := len(train.X))
        expansion = slice(None)
        if on_centers:
            m = spec.n_centers
            drawn = _backend.random_rows(n, (1 + ROWS_PER_CENTER) * m, spec.seed, "cpu")
            centers = drawn[:m].sort().values, drawn[m:].sort().values
            expansion = centers[0].numpy()
        shift = _shift(kernel, train.X[expansion], train.weight[expansion])
        weight = tensor(train.weight) if np.any(train.weight != 1) else None
        data = tensor(targets.matrix), weight, None if shift is None else tensor(shift), kernel
        if on_centers:  # X is read block by block
            problem = OnCenters(train.X, *data, centers, tol=getattr(spec.solver, "tol", None))
        else:
            problem = AllRows(tensor(train.X), *data, solver, dense)
        states = recursive_features(problem, spec, metric, every_iterate)
        return targets, shift, expansion, states

    def in_single(self, train, queries):
        """Return the rows in float32, centred, where held-out scores do not need more.

        They do where a ridge comes near the rounding errors of the kernel matrix, about
        ``sqrt(n) eps``, or squares of the data would leave the range of float32: be too large, or
        so small that those of ``eps`` times the largest are not normal numbers any more.
        """
        spec, single = self.spec, np.finfo(np.float32)
        ridges = [alpha for alpha in (*spec.alphas, spec.agop_alpha) if alpha is not None]
        fits = (
            train.X.dtype == np.float64
            and spec.unit_free
            and resolve_kernel(spec.kernel).translation_invariant
            and min(ridges) >= 10 * len(train.X) ** 0.5 * single.eps
        )
        if not fits:
            return train, queries
        shift = np.median(train.X, axis=0)
        X, Q = train.X - shift, queries - shift
        limit = largest_square_root(np.float32, X.shape[1])
        if not single.tiny**0.5 / single.eps < np.abs(X).max() < limit or np.abs(Q).max() > limit:
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
        for _ in range(self.spec.max_iter + 1):
            state = next(states, None)
            if state is not None:
                F = _backend.to_numpy(state.predictor.scores(queries)).astype(np.float64)
                F = F.reshape(len(queries), len(self.spec.alphas), -1).transpose(1, 0, 2)
                outputs = F * targets.scale + targets.intercept
            yield outputs


def _shift(kernel, X, weight):
    """Return what is subtracted from the rows: nothing where a kernel sees the origin as it is.

    Any shift is exact for one that sees differences only; the median keeps the digits of the bulk
    beside outliers.
    """
    if kernel.translation_invariant:
        return np.median(X, axis=0)
    return np.average(X, axis=0, weights=weight).astype(X.dtype) if kernel.centred else None
