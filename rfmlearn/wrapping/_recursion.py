# SPDX-License-Identifier: BSD-3-Clause
"""The recursion around an estimator of any kind: NumPy rows, fits and gradients as they come."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import is_regressor

from rfmlearn import _backend
from rfmlearn._base._kept import KeptMatrix
from rfmlearn._base._targets import hold_out, root_mean_square
from rfmlearn._metric import Metric
from rfmlearn.features import GradientMoments
from rfmlearn.wrapping._gradients import gradients_of

# Random rows at which differences are taken, where no number is given: each costs two
# predictions a column.
NUMERIC_ROWS = 2000


@dataclass(frozen=True)
class RowMap:
    """Rows in the metric M: ``scale X M^(1/2)``.

    Attributes
    ----------
    matrix : KeptMatrix
        M; of low rank its factor, by which the rows are mapped.
    scale : float
        Number.
    root : ndarray of shape (d, d) or (d,), or None
        The symmetric root of M times `scale`; None for the identity and for a low rank.
    """

    matrix: KeptMatrix
    scale: float = 1.0
    root: np.ndarray | None = None

    def __call__(self, X):
        """Return mapped rows, in their dtype."""
        if self.matrix.identity is not None:
            return X
        if self.matrix.factor is not None:
            into, out = self.matrix.directions(), self.scale * self.matrix.factor.T
            return (X @ into.astype(X.dtype, copy=False)) @ out.astype(X.dtype, copy=False)
        root = self.root.astype(X.dtype, copy=False)
        return X * root if root.ndim == 1 else X @ root

    def dense(self):
        """Return the symmetric matrix that rows are multiplied by, None for the identity."""
        if self.matrix.factor is not None:
            return self.scale * self.matrix.root()
        return self.root


@dataclass
class Iterate:
    """M as a map of rows, and the estimator fitted to the mapped rows."""

    iteration: int
    map: RowMap
    estimator: object = None

    def score(self, X, y, params):
        """Return the estimator's own score at rows that are not mapped yet, NaN for one number."""
        if len(X) < 2 and is_regressor(self.estimator):
            return np.nan
        weight = params.get("sample_weight")
        weights = {} if weight is None else {"sample_weight": weight}
        return self.estimator.score(self.map(X), y, **weights)


class WrappedRecursion:
    """How the iterates follow from each other.

    Parameters
    ----------
    fit : callable
        From mapped rows, targets and further parameters to a fitted estimator.
    gradient, diag, agop_power, center_gradients, n_agop_samples
        As of `RecursiveFeatureLearner`.

    Attributes
    ----------
    kind : str or None
        How the last gradients were found.
    """

    def __init__(self, fit, *, gradient, diag, agop_power, center_gradients, n_agop_samples):
        self.fit, self.gradient = fit, gradient
        self.diag, self.agop_power = diag, agop_power
        self.center_gradients, self.n_agop_samples = center_gradients, n_agop_samples
        self.kind = None

    def iterates(self, X, y, params, max_iter, rng):
        """Yield the iterates 0, ..., max_iter, fewer if an AGOP is 0."""
        weight = params.get("sample_weight")
        spread = _spread(X, weight)
        unit = self._units(y, weight)
        state = Iterate(0, RowMap(KeptMatrix.of(Metric(), X.shape[1], self.diag, X.dtype)))
        for iteration in range(max_iter + 1):
            Z = state.map(X)
            state.estimator = self.fit(Z, y, mapped(params, state.map))
            yield state
            if iteration == max_iter:
                return
            A, rank = self.agop(state, Z, weight, unit, rng)
            metric = Metric.of(A, self.agop_power, "spectral", rank)
            if metric is None:  # nothing changes with the rows
                return
            state = Iterate(iteration + 1, self._map(metric, X, spread, weight))

    def _map(self, metric, X, spread, weight):
        """Return the map into a metric that keeps the spread of the rows."""
        kept = KeptMatrix.of(metric, X.shape[1], self.diag, X.dtype)
        root = None if kept.factor is not None else _backend.to_numpy(metric.root)
        left = _spread(RowMap(kept, 1.0, root)(X), weight)
        scale = spread / left if left > 0 else 1.0
        return RowMap(kept, scale, None if root is None else (root * scale).astype(X.dtype))

    @staticmethod
    def _units(y, weight):
        """Return the unit (c, 1) of each of several targets, whose gradients are to be added."""
        if y.ndim == 1 or y.shape[1] == 1 or y.dtype.kind not in "fiu":
            return 1.0
        Y = y - np.average(y, axis=0, weights=weight)
        return root_mean_square(Y.astype(np.float64), weight)[:, None]

    def agop(self, state, Z, weight, unit, rng):
        """Return the AGOP with respect to the rows before their map, and how many gradients."""
        estimator, n_samples = state.estimator, self.n_agop_samples
        if callable(self.gradient):
            self.kind, at = "callable", lambda rows: self.gradient(estimator, rows)
        else:
            gradients = gradients_of(estimator, Z, self.gradient, weight)
            self.kind, at = "analytic" if gradients.analytic else "numeric", gradients.at
        if n_samples is None and self.kind == "numeric":
            n_samples = NUMERIC_ROWS
        if n_samples is not None and n_samples < len(Z):
            index = rng.choice(len(Z), int(n_samples), replace=False)
            Z, weight = Z[index], None if weight is None else weight[index]
        root = state.map.dense()
        root = None if root is None else _backend.to_tensor(root.astype(np.float64))
        moments = GradientMoments(self.diag, root, len(Z))
        for block in _backend.blocks(len(Z), Z[0].nbytes, "cpu", max_rows=NUMERIC_ROWS):
            G = np.array(at(Z[block]), dtype=np.float64)
            if G.ndim != 3 or G.shape[::2] != Z[block].shape:
                raise ValueError(
                    "gradient must return an array of shape (n, n_outputs, d), here "
                    f"({len(Z[block])}, n_outputs, {Z.shape[1]}); got {G.shape}."
                )
            if not np.isfinite(G).all():
                raise ValueError(
                    f"A gradient of {type(estimator).__name__} ({self.kind}) is NaN or infinite."
                )
            if np.size(unit) == G.shape[1]:
                G /= unit
            w = None if weight is None else _backend.to_tensor(weight[block])
            moments.add(_backend.to_tensor(G), w)
        return moments.result(self.center_gradients), moments.rank


def parted(X, y, params, fraction, by_class, rng):
    """Return (X, y, params) of the rows to learn from, and of those to score, at least two."""
    n = len(X)
    if n < 4:
        raise ValueError(f"early_stopping=True holds rows out, and n_samples={n} are too few.")
    size = max(2, int(np.ceil(fraction * n)))

    def of(name, value, index):
        if name == "sample_weight" and value is not None:
            return np.asarray(value)[index]
        if name not in VALIDATION and np.ndim(value):
            raise ValueError(
                f"early_stopping=True holds rows out, and whether {name!r} has an entry for each "
                "row is not known here. Choose max_iter by a grid search, or fit without it."
            )
        return value

    return [
        (X[index], y[index], {name: of(name, value, index) for name, value in params.items()})
        for index in hold_out(n, size, y if by_class else None, rng)
    ]


# Names under which estimators take rows to validate on: ours are mapped, others refused.
VALIDATION = {"X_val", "y_val", "sample_weight_val"}
ELSEWHERE = {"eval_set", "eval_X", "validation_data", "validation_set", "X_valid", "X_test"}


def mapped(params, row_map):
    """Return the further parameters of a fit, validation rows mapped as the rows are."""
    for name in ELSEWHERE & params.keys():
        raise ValueError(
            f"{name} would reach the estimator as it is, while its training rows are mapped. Pass "
            "X_val and y_val to an estimator that has them, or set early_stopping=True here."
        )
    if params.get("X_val") is None:
        return params
    return {**params, "X_val": row_map(np.asarray(params["X_val"]))}


def _spread(X, weight):
    """Return the root mean square distance between rows drawn by weight, but for sqrt 2."""
    mean = np.average(X, axis=0, weights=weight)
    return np.sqrt(np.average(((X - mean) ** 2).sum(axis=1), weights=weight))
