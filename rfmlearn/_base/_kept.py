# SPDX-License-Identifier: BSD-3-Clause
"""What a fitted model keeps of a feature matrix."""

from dataclasses import dataclass

import numpy as np

from rfmlearn import _backend


@dataclass(frozen=True)
class KeptMatrix:
    """M of a fitted model, as small as it can be told: it is not a few rows that make d^2 numbers.

    Attributes
    ----------
    dtype : dtype
        Of M.
    identity : tuple of int, or None
        Its shape, where it is the identity.
    matrix : ndarray of shape (d, d) or (d,), or None
        M.
    factor : ndarray of shape (d, k), or None
        F of ``M = F F^T + floor I`` with orthogonal columns.
    floor : float
        What a metric has in the directions that the factor lacks.
    """

    dtype: np.dtype
    identity: tuple | None = None
    matrix: np.ndarray | None = None
    factor: np.ndarray | None = None
    floor: float = 0.0

    @classmethod
    def of(cls, metric, d, diag, dtype):
        """Return what is kept of a `Metric` of d columns."""
        if metric.matrix is None:
            return cls(dtype, identity=(d,) if diag else (d, d))
        if metric.factor is None:
            return cls(dtype, matrix=_backend.to_numpy(metric.matrix).astype(dtype))
        factor = _backend.to_numpy(metric.factor).astype(dtype)
        return cls(dtype, factor=factor, floor=metric.floor)

    def dense(self):
        """Return M."""
        if self.identity is not None:
            one = np.ones if len(self.identity) == 1 else np.eye
            return one(self.identity[0], dtype=self.dtype)
        if self.factor is None:
            return self.matrix
        M = self.factor @ self.factor.T
        M[np.diag_indices_from(M)] += self.floor
        return M

    def diagonal(self):
        """Return the diagonal of M."""
        if self.factor is not None:
            return np.einsum("ij,ij->i", self.factor, self.factor) + self.dtype.type(self.floor)
        M = self.dense()
        return M if M.ndim == 1 else M.diagonal()

    def directions(self):
        """Return the columns of the factor as directions of length 1, 0 where they vanish."""
        length = np.linalg.norm(self.factor, axis=0)
        return self.factor / np.where(length > 0, length, 1)

    def root(self):
        """Return the symmetric root of M without a floor from its factor."""
        return self.directions() @ self.factor.T


def kept(model, name):
    """Return what a model keeps under a private name since it was fitted."""
    if name not in vars(model):
        raise AttributeError(f"This {type(model).__name__} is not fitted: it has no metric.")
    return vars(model)[name]
