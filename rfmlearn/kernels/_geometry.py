# SPDX-License-Identifier: BSD-3-Clause
"""What the metric acts on: whole rows, or patches of images.

A kernel knows rows in the metric and nothing else. How they are made of the data, and what its
gradients mean there, is the same for all kernels of rows, and for all of patches.
"""

from rfmlearn.kernels._rows import Rows


class RowGeometry:
    """The metric acts on whole rows: a gradient each."""

    def metric_size(self, n_features):
        """Return the number of rows of M."""
        return n_features

    def rows(self, X, root=None, bandwidth=1.0):
        """Return the rows of X, (n, n_features), in the metric of a root."""
        return Rows.of(X, root, bandwidth)

    def slot_size(self, kernel, rows):
        """Return the numbers that one part of `slots` holds for each row and output."""
        return rows.values[0].numel()

    def slots(self, kernel, A, B, coef, self_index=None):
        """Yield gradients (n, c, d) in parts whose outer products are to be summed."""
        yield kernel.gradients(A, B, coef, self_index)

    def fold(self, G):
        """Return gradients in the metric's coordinates, root applied, as those of the data."""
        return G


class PatchGeometry(RowGeometry):
    """The metric acts on the patches of images.

    Rows hold (n, positions, patch). Gradients are with respect to each patch as a slot of its own,
    (n, outputs x positions, patch): the AGOP sums over positions, and the gradient of the image is
    the sum over the slots that share a pixel.

    Parameters
    ----------
    grid : Grid
        How images are cut.
    """

    def __init__(self, grid):
        self.grid = grid

    def metric_size(self, n_features):
        """Return the numbers in a patch."""
        return self.grid.patch_length

    def rows(self, X, root=None, bandwidth=1.0):
        """Return the patches of the images X, (n, n_pixels), in the metric of a root."""
        return Rows.of(self.grid.unfold(X), root, bandwidth)

    def slot_size(self, kernel, rows):
        """Return the numbers that one part of `slots` holds for each image and output."""
        return kernel.slot_size(rows)

    def slots(self, kernel, A, B, coef, self_index=None):
        """Yield gradients at patches, in the parts that the kernel finds them in."""
        return kernel.slots(A, B, coef, self_index)

    def fold(self, G):
        """Return gradients of images: the sums over patches that share a pixel."""
        P = self.grid.positions
        slots = G.unflatten(1, (-1, P)).flatten(0, 1)
        return self.grid.fold(slots).unflatten(0, (len(G), -1))


_ROWS = RowGeometry()


def geometry_of(kernel):
    """Return what the metric of a kernel acts on."""
    grid = getattr(kernel, "grid", None)
    return _ROWS if grid is None else PatchGeometry(grid)
