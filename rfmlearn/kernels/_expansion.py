# SPDX-License-Identifier: BSD-3-Clause
"""A function as an expansion in a kernel: its values and its gradients."""

from dataclasses import dataclass

import torch

from rfmlearn import _backend
from rfmlearn.features import GradientMoments
from rfmlearn.kernels._base import Kernel
from rfmlearn.kernels._geometry import geometry_of
from rfmlearn.kernels._rows import Rows

# Rows that share the signs of a mixture, and how often signs are drawn at least. An entry of the
# sum over outputs, estimated by B draws of m mixtures, has a relative error of about
# sqrt(2 / (m B)): 12% with 8 mixtures of a small table, less with each block of a large one.
MIXED_ROWS, MIN_DRAWS = 512, 16


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
    root : tensor of shape (d, k) or (d,), or None
        Root or factor of the metric, on the device and in the dtype of the rows.
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
        rows = kernel.rows(X if shift is None else X - shift, root, bandwidth)
        return cls(kernel, rows, coef, root, bandwidth, shift)

    def _blocks(self, n, row_bytes=1, max_rows=None):
        """Yield slices of n rows, as many as a square tile has or fewer."""
        edge = _backend.tile_edge(self.coef.dtype, self.coef.device)
        edge = max(int(edge * self.kernel.tile_share), 1)
        max_rows = edge if max_rows is None else min(edge, max_rows)
        return _backend.blocks(n, row_bytes, self.coef.device, max_rows=max_rows)

    def _row_bytes(self, n_outputs, n_numbers):
        """Return the bytes of the gradients at one row, of so many numbers an output."""
        return n_outputs * n_numbers * self.coef.element_size()

    def _queries(self, X):
        """Return a block of further rows, an array or a tensor, in the metric."""
        X = _backend.to_tensor(X, self.coef.device, self.coef.dtype)
        X = X if self.shift is None else X - self.shift
        return self.kernel.rows(X, self.root, self.bandwidth)

    def scores(self, X):
        """Return f at the rows of X, shape (m, c), tile by tile."""
        out = self.coef.new_zeros((len(X), self.coef.shape[1]))
        for block in self._blocks(len(X)):
            queries = self._queries(X[block])
            for tile in self._blocks(len(self.rows)):
                out[block] += self.kernel.matrix(queries, self.rows[tile]) @ self.coef[tile]
        return out

    def gradients(self, X):
        """Return the gradients of f at the rows of X, shape (m, c, d)."""
        out = self.coef.new_empty((len(X), self.coef.shape[1], X.shape[1]))
        row_bytes = self._row_bytes(self.coef.shape[1], self.rows.values[0].numel())
        for block in self._blocks(len(X), row_bytes):
            G = self.kernel.gradients(self._queries(X[block]), self.rows, self.coef)
            out[block] = geometry_of(self.kernel).fold(self._chain(G))
        return out

    def _chain(self, G):
        """Turn gradients in the metric's coordinates into gradients in those of X."""
        if self.root is not None:
            G = G * self.root if self.root.ndim == 1 else G @ self.root.mT
        return G / self.bandwidth

    def second_moment(
        self,
        n_rows,
        rows_at,
        weight=None,
        index=None,
        *,
        diag,
        center_gradients,
        mixtures=None,
        seed=0,
    ):
        """Return the AGOP at rows, (d, d) or (d,), and the number of gradients in it.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        rows_at : callable
            From a slice or a tensor of indices to those rows in the metric, and their
            positions among the rows of the expansion (or None).
        weight : tensor of shape (n_rows,), optional
            Row weights.
        index : tensor, optional
            The rows to average over; None takes all.
        diag, center_gradients : bool
            See `rfmlearn.features.agop`.
        mixtures : int, optional
            Take, in each block of at most `MIXED_ROWS` rows, and of `MIN_DRAWS` blocks or more,
            that many mixtures of the c outputs with random signs instead of all outputs:
            ``E s s^T = I`` makes the sum over outputs right on average. Not with
            `center_gradients`, which needs each output's mean.
        seed : int
            For the signs.
        """
        c, coef, geometry = self.coef.shape[1], self.coef, geometry_of(self.kernel)
        n_rows = n_rows if index is None else len(index)
        mix = mixtures is not None and mixtures < c and not center_gradients
        row_bytes = self._row_bytes(
            mixtures if mix else c, geometry.slot_size(self.kernel, self.rows)
        )
        max_rows = min(MIXED_ROWS, -(-n_rows // MIN_DRAWS)) if mix else None
        moments = GradientMoments(diag, self.root, n_rows)
        for k, block in enumerate(self._blocks(n_rows, row_bytes, max_rows)):
            own = block if index is None else index[block]
            if mix:
                signs = _backend.random_signs((c, mixtures), seed + k, coef)
                coef = self.coef @ (signs / mixtures**0.5)
            queries, self_index = rows_at(own)
            w = None if weight is None else weight[own]
            parts = geometry.slots(self.kernel, queries, self.rows, coef, self_index)
            for slot, G in enumerate(parts):
                moments.add(G, w, slot)
        return moments.result(center_gradients) / self.bandwidth.square(), moments.rank
