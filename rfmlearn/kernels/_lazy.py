# SPDX-License-Identifier: BSD-3-Clause
"""A kernel matrix that is never stored."""

import torch

from rfmlearn import _backend


class LazyGram:
    """The weighted kernel matrix ``s K s`` of some rows, computed tile by tile when asked for.

    It has what an iterative solver needs of a matrix: ``len``, ``@``, ``[:, index]``,
    ``diagonal()``, ``dtype`` and ``device``. A product computes each pair of rows once.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    rows : Rows
        n rows in the metric.
    root_weight : tensor of shape (n,), optional
        ``s``; None means weights 1.
    """

    def __init__(self, kernel, rows, root_weight=None):
        self.kernel, self.rows, self.root_weight = kernel, rows, root_weight
        self.dtype, self.device = rows.values.dtype, rows.values.device

    def __len__(self):
        return len(self.rows)

    def _tiles(self):
        """Yield slices that cut the rows so that a square tile fits the block budget."""
        n = len(self)
        edge = _backend.tile_edge(self.dtype, self.device)
        return list(_backend.blocks(n, 1, self.device, max_rows=edge))

    def _tile(self, i, j):
        index = torch.arange(i.stop - i.start, device=self.device) if i == j else None
        return self.kernel.matrix(self.rows[i], self.rows[j], index)

    def _scaled(self, V):
        return V if self.root_weight is None else V * self.root_weight[:, None].to(V.dtype)

    def __matmul__(self, V):
        """Return ``s K s V`` for V of shape (n, c), in the dtype of V."""
        V = self._scaled(V)
        out = torch.zeros_like(V)
        tiles = self._tiles()
        for k, i in enumerate(tiles):
            for j in tiles[: k + 1]:
                T = self._tile(i, j).to(V.dtype)
                out[i] += T @ V[j]
                if i != j:
                    out[j] += T.mT @ V[i]
        return self._scaled(out)

    def __getitem__(self, key):
        """Return columns, for a key ``[:, index]``."""
        _, index = key
        out = self.rows.values.new_empty((len(self), len(index)))
        chosen = self.rows[index]
        for block in _backend.blocks(len(self), len(index) * out.element_size(), self.device):
            out[block] = self.kernel.matrix(self.rows[block], chosen)
        if self.root_weight is not None:
            out *= self.root_weight[:, None] * self.root_weight[index]
        return out

    def diagonal(self):
        """Return the diagonal, shape (n,)."""
        parts = []
        for block in _backend.blocks(len(self), 1, self.device, max_rows=256):
            rows = self.rows[block]
            index = torch.arange(len(rows), device=self.device)
            parts.append(self.kernel.matrix(rows, rows, index).diagonal())
        diagonal = torch.cat(parts)
        return diagonal if self.root_weight is None else diagonal * self.root_weight.square()
