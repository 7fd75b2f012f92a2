# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of images whose metric acts on patches.

Images are rows of pixels; `Grid` cuts them into patches. In the metric a patch is ``u = x S / L``,
and `Rows` hold (n, positions, patch).
"""

from dataclasses import dataclass

import torch
from torch.nn import functional

from rfmlearn.kernels._base import Kernel


@dataclass(frozen=True)
class Grid:
    """How images are cut into patches.

    Parameters
    ----------
    image_shape : tuple of int
        Channels, height, width.
    patch : tuple of int
        Height and width of a patch.
    stride : int
        Step between patches.
    padding : tuple of int
        Rows and columns of 0 at each side of the image.

    Raises
    ------
    ValueError
        If no patch fits.
    """

    image_shape: tuple
    patch: tuple
    stride: int = 1
    padding: tuple = (0, 0)

    def __post_init__(self):
        if min(self.size) < 1:
            raise ValueError(
                f"A patch of {self.patch[0]} x {self.patch[1]} does not fit into an image of "
                f"{self.image_shape[1]} x {self.image_shape[2]} with padding {self.padding}."
            )

    @property
    def size(self):
        """Rows and columns of positions."""
        return tuple(
            (pixels + 2 * around - edge) // self.stride + 1
            for pixels, edge, around in zip(self.image_shape[1:], self.patch, self.padding)
        )

    @property
    def positions(self):
        """Number of positions."""
        return self.size[0] * self.size[1]

    @property
    def patch_length(self):
        """Numbers in a patch."""
        return self.image_shape[0] * self.patch[0] * self.patch[1]

    def _options(self):
        return {"kernel_size": self.patch, "stride": self.stride, "padding": self.padding}

    def unfold(self, X):
        """Return the patches (n, positions, patch) of images (n, pixels)."""
        images = X.reshape(len(X), *self.image_shape)
        return functional.unfold(images, **self._options()).mT.contiguous()

    def fold(self, patches):
        """Return images (n, pixels) in which each pixel is the sum over its patches."""
        images = functional.fold(patches.mT, self.image_shape[1:], **self._options())
        return images.flatten(1)

    def neighbours(self):
        """Return the grid of a further layer, whose pixels are the positions of this one."""
        return Grid((1, *self.size), self.patch, self.stride, self.padding)

    def windows(self, device=None):
        """Return of each position the pixels (of one channel) in its patch, -1 in the padding."""
        height, width = self.image_shape[1:]
        number = torch.arange(height * width, device=device).reshape(height, width)
        rows, columns = self.padding
        padded = functional.pad(number, (columns, columns, rows, rows), value=-1)
        cut = padded.unfold(0, self.patch[0], self.stride).unfold(1, self.patch[1], self.stride)
        return cut.reshape(self.positions, -1)


class ImageKernel(Kernel):
    """What kernels share whose metric acts on patches (see `PatchGeometry`); they have a `grid`."""

    def slot_size(self, rows):
        """Return the numbers that one part of `slots` holds for each image and output."""
        return rows.values[0].numel()

    def slots(self, A, B, coef, self_index=None):
        """Yield the gradients at patches (see `Kernel.gradients`), here all of them at once."""
        yield self.gradients(A, B, coef, self_index)


@dataclass(frozen=True)
class PatchKernel(ImageKernel):
    """The mean over positions of a kernel of two patches at the same position.

    With `NTK` or `NNGP` of depth 1 it is the kernel of an infinitely wide convolutional network
    with one hidden layer, whose positions are flattened.

    Parameters
    ----------
    grid : Grid
        The positions.
    base : Kernel
        Kernel of two patches.
    """

    grid: Grid
    base: Kernel

    @property
    def translation_invariant(self):
        """As `base`: the same image can be subtracted from all."""
        return self.base.translation_invariant

    @property
    def centred(self):
        """As `base`."""
        return self.base.centred

    @property
    def rotation_invariant(self):
        """As `base`."""
        return self.base.rotation_invariant

    @property
    def tile_share(self):
        """As `base`."""
        return self.base.tile_share

    def spread(self, variance):
        """Return that of `base`."""
        return self.base.spread(variance)

    def matrix(self, A, B, self_index=None):
        """Return the kernel of every row of A with every row of B (see `Kernel`)."""
        K = 0.0
        for p in range(self.grid.positions):
            K = K + self.base.matrix(A.at(p), B.at(p), self_index)
        return K.div_(self.grid.positions)

    def gradients(self, A, B, coef, self_index=None):
        """Return the gradients at each patch as a slot of its own (see `Kernel`)."""
        return torch.stack(list(self.slots(A, B, coef, self_index)), dim=2).flatten(1, 2)

    def slot_size(self, rows):
        """Return the numbers in a patch (see `Kernel`)."""
        return rows.values.shape[-1]

    def slots(self, A, B, coef, self_index=None):
        """Yield the gradients at the patches, position by position (see `Kernel`)."""
        coef = coef / self.grid.positions
        for p in range(self.grid.positions):
            yield self.base.gradients(A.at(p), B.at(p), coef, self_index)
