# SPDX-License-Identifier: BSD-3-Clause
"""Products of one-dimensional kernels: what they see depends on the axes."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from rfmlearn import _backend
from rfmlearn.kernels._base import Kernel, register
from rfmlearn.kernels._rows import Rows


@register
@dataclass(frozen=True)
class ProductLaplace(Kernel):
    """The kernel ``exp(-sum_k |u_k - v_k| / L)``: a Laplace kernel in each feature, multiplied.

    Its distance is the sum of absolute differences along the axes of the learned metric,
    not the length of the difference, so that it does not look the same after a rotation. On
    tables, whose columns mean something each, that is often an advantage, most of all with a
    diagonal metric. ``sklearn.metrics.pairwise.laplacian_kernel`` in the metric.

    Notes
    -----
    Where a coordinate of two rows is equal the kernel has a kink, and its derivative there
    counts as 0: the mean of both sides. With ``bandwidth_mode="adaptive"`` the bandwidth is
    in units of the sum over coordinates of their root mean square differences.

    Examples
    --------
    >>> from rfmlearn import RFMRegressor
    >>> from rfmlearn.kernels import ProductLaplace
    >>> RFMRegressor(kernel=ProductLaplace(), diag=True).kernel
    ProductLaplace()
    """

    name: ClassVar[str] = "product_laplace"
    translation_invariant = True
    rotation_invariant = False

    def spread(self, variance: torch.Tensor) -> torch.Tensor:
        """Return the sum over coordinates of the rms differences (see `Kernel`)."""
        total = (2 * variance).sqrt().sum()
        return torch.where(total > 0, total, torch.ones_like(total))

    def matrix(self, A: Rows, B: Rows, self_index: torch.Tensor | None = None) -> torch.Tensor:
        """Return the kernel of every row of A with every row of B (see `Kernel`)."""
        return torch.cdist(A.values, B.values, p=1).neg_().exp_()

    def gradients(
        self, A: Rows, B: Rows, coef: torch.Tensor, self_index: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the gradients of the kernel expansion (see `Kernel`).

        One product ``(K * sign(u_k - v_k)) coef`` a feature.
        """
        (n, d), c = A.values.shape, coef.shape[1]
        G = A.values.new_zeros((n, c, d))
        for tile in _backend.blocks(len(B), n * G.element_size(), G.device):
            V, a = B[tile], coef[tile]
            K = self.matrix(A, V)
            radius = A.resolution[:, None] + V.resolution
            exact = not _backend.holds(radius.max() > 0)
            columns = V.values.T.contiguous()
            for k in range(d):
                step = A.values[:, k, None] - columns[k]
                if not exact:  # a product with a metric rounds equal coordinates differently
                    step[step.abs() <= radius] = 0
                G[:, :, k] -= step.sign_().mul_(K) @ a
        return G
