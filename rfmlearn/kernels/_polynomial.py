# SPDX-License-Identifier: BSD-3-Clause
"""The polynomial kernel."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import torch

from rfmlearn import _backend
from rfmlearn.kernels._base import Kernel, register, root_or_one
from rfmlearn.kernels._rows import Rows


@register
@dataclass(frozen=True)
class Polynomial(Kernel):
    """The kernel ``(x^T M z / L^2 + offset)^degree``: regression by all monomials up to a degree.

    ``sklearn.metrics.pairwise.polynomial_kernel`` in the metric, of rows centred at the mean of
    the training rows. With ``degree=2`` the recursion learns modular arithmetic by grokking
    (Mallinar, Beaglehole, Zhu, Radhakrishnan, Pandit and Belkin, arXiv 2407.20199). Outside the
    training rows it grows without bound, and of more rows than monomials only the ridge makes the
    system definite: ``alpha=0`` raises there.

    Parameters
    ----------
    degree : int, default=2
        Of the polynomial, at least 1.
    offset : float, default=1.0
        Weight of the lower degrees; 0 leaves only the highest.

    Raises
    ------
    ValueError
        If `degree` is not a number from 1 to 20, or `offset` is negative or not finite.

    Notes
    -----
    With ``bandwidth_mode="adaptive"`` the bandwidth is in units of the root mean square length of
    a row, so that ``x^T M x / L^2`` is 1 on average.

    Examples
    --------
    >>> from rfmlearn import RFMRegressor
    >>> from rfmlearn.kernels import Polynomial
    >>> RFMRegressor(kernel=Polynomial(degree=3)).kernel
    Polynomial(degree=3, offset=1.0)
    """

    name: ClassVar[str] = "polynomial"
    centred = True
    degree: int = 2
    offset: float = 1.0

    def __post_init__(self):
        if not (isinstance(self.degree, Integral) and 1 <= self.degree <= 20):
            raise ValueError(f"degree={self.degree!r} must be a whole number from 1 to 20.")
        if not (isinstance(self.offset, Real) and 0 <= self.offset < 1e100):
            raise ValueError(f"offset={self.offset!r} must not be negative, and be below 1e100.")

    def spread(self, variance: torch.Tensor) -> torch.Tensor:
        """Return the rms length of a row (see `Kernel`)."""
        return root_or_one(variance.sum())

    def matrix(self, A: Rows, B: Rows, self_index: torch.Tensor | None = None) -> torch.Tensor:
        """Return the kernel of every row of A with every row of B (see `Kernel`)."""
        return (A.values @ B.values.T).add_(self.offset).pow_(self.degree)

    def gradients(
        self, A: Rows, B: Rows, coef: torch.Tensor, self_index: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the gradients of the kernel expansion (see `Kernel`).

        One product ``W [coef_1 V | ... | coef_c V]``, ``W = degree (u.v + offset)^(degree - 1)``.
        """
        d, c = B.values.shape[1], coef.shape[1]
        G = A.values.new_zeros((len(A), c, d))
        item, device = G.element_size(), G.device
        for tile in _backend.blocks(len(B), len(A) * item, device):
            V = B.values[tile]
            W = (A.values @ V.T).add_(self.offset).pow_(self.degree - 1).mul_(self.degree)
            for group in _backend.blocks(c, len(V) * d * item, device, min_rows=1):
                factor = (coef[tile, group].unsqueeze(2) * V.unsqueeze(1)).flatten(1)
                G[:, group] += (W @ factor).unflatten(1, (-1, d))
        return G
