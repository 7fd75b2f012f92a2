# SPDX-License-Identifier: BSD-3-Clause
"""Rows of data in the metric, and their distances."""

from dataclasses import dataclass

import torch

from rfmlearn import _backend

# The expanded form |u|^2 + |v|^2 - 2 u.v of a squared distance has an error of a few eps of
# |u|^2 + |v|^2. Pairs below this fraction of that sum are computed from the differences, so
# that the relative error of a distance stays below 2 eps / fraction: 5e-11 and 2e-4.
_CLOSE = {torch.float64: 1e-5, torch.float32: 1e-3}


@dataclass(frozen=True)
class Rows:
    """Rows of data in the metric, with what distances need to know of each.

    Parameters
    ----------
    values : tensor of shape (n, d)
        ``u = x S / L``. A kernel of images has (n, positions, d), d the numbers in a patch, and
        the next two have (n, positions).
    sq_norms : tensor of shape (n,)
        ``|u|^2``.
    resolution : tensor of shape (n,)
        Rounding radius of each row: two rows nearer than the sum of their radii are the
        same point, since the product ``x S`` rounds equal rows differently in different
        blocks.
    """

    values: torch.Tensor
    sq_norms: torch.Tensor
    resolution: torch.Tensor

    @classmethod
    def of(
        cls,
        X: torch.Tensor,
        root: torch.Tensor | None = None,
        bandwidth: float | torch.Tensor = 1.0,
    ) -> "Rows":
        """Return the rows ``X root / bandwidth``.

        Parameters
        ----------
        X : tensor of shape (n, d)
            Data.
        root : tensor of shape (d, k) or (d,), optional
            Root or factor of the metric, or its diagonal; None is the identity.
        bandwidth : float or 0-d tensor
            L.

        Returns
        -------
        Rows
            The rows in the metric.
        """
        if root is not None and root.ndim == 2:
            values = X @ root
            # standard model of a length-d product, with 4 for its constant
            eps = torch.finfo(X.dtype).eps
            resolution = X.norm(dim=-1) * (4 * eps * root.norm())
        else:
            # elementwise: equal rows stay equal to the last bit
            values = X if root is None else X * root
            resolution = torch.zeros_like(values.select(-1, 0))
        values, resolution = values / bandwidth, resolution / bandwidth
        return cls(values, values.square().sum(-1), resolution)

    def divided_by(self, bandwidth: float | torch.Tensor) -> "Rows":
        """Return the same rows in units of a bandwidth.

        Parameters
        ----------
        bandwidth : float or 0-d tensor
            L.

        Returns
        -------
        Rows
            The rows over L.
        """
        values = self.values / bandwidth
        return Rows(values, values.square().sum(-1), self.resolution / bandwidth)

    def at(self, position: int) -> "Rows":
        """Return the patches at one position.

        Parameters
        ----------
        position : int
            Its number.

        Returns
        -------
        Rows
            Of shape (n, d).
        """
        return Rows(*(t[:, position] for t in (self.values, self.sq_norms, self.resolution)))

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return Rows(self.values[index], self.sq_norms[index], self.resolution[index])


def own_pairs(self_index, tile):
    """Return rows of A and columns of a tile of B that are the same row; None if none are."""
    if self_index is None:
        return None
    column = self_index - tile.start
    inside = (column >= 0) & (column < tile.stop - tile.start)
    if not _backend.holds(inside.any()):
        return None
    (row,) = _backend.positions(inside)
    return row, column[row]


def squared_distances(A, B, own=None):
    """Return the squared distances of the rows of A and B, right also where they are tiny.

    Parameters
    ----------
    A, B : Rows
        a and b rows.
    own : tuple of two tensors, optional
        Rows of A and of B that are the same row.

    Returns
    -------
    sq : tensor of shape (a, b)
        Squared distances, never negative.
    coincident : tuple of two tensors
        Row and column indices of the pairs at distance 0.
    """
    sq = torch.addmm(B.sq_norms, A.values, B.values.T, alpha=-2).add_(A.sq_norms[:, None])
    i = j = torch.empty(0, dtype=torch.long, device=sq.device)
    if own is not None:
        i, j = own
        sq[own] = torch.inf  # no business of the search for close pairs
    close = _CLOSE[sq.dtype]
    bound = close * (A.sq_norms.max() + B.sq_norms.max())
    # "<=": two rows at the very centre have norms, and a distance, of exactly 0
    if _backend.holds(sq.min() <= bound):
        # first by the bound for all, which needs no sum for each pair
        rows, columns = _backend.positions(sq <= bound)
        near = sq[rows, columns] <= close * (A.sq_norms[rows] + B.sq_norms[columns])
        (near,) = _backend.positions(near)
        rows, columns = rows[near], columns[near]
        row_bytes = 4 * A.values.shape[1] * sq.element_size()
        for part in _backend.blocks(len(rows), row_bytes, sq.device):
            r, c = rows[part], columns[part]
            exact = (A.values[r] - B.values[c]).square_().sum(1)
            same = exact <= (A.resolution[r] + B.resolution[c]).square_()
            sq[r, c] = exact.masked_fill_(same, 0)
            (hit,) = _backend.positions(same)
            i, j = torch.cat([i, r[hit]]), torch.cat([j, c[hit]])
    if own is not None:
        sq[own] = 0
    return sq, (i, j)
