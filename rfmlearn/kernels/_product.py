# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of p-norms: what they see depends on the axes."""

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import torch

from rfmlearn import _backend
from rfmlearn.kernels._base import Kernel, register, root_or_one
from rfmlearn.kernels._rows import Rows


class _NormKernel(Kernel):
    """A kernel ``phi(r)`` of ``r = (sum_k |u_k - v_k|^p)^(1/p)``.

    Subclasses give p, `_value_`, and `_slope_`; both may overwrite their argument.
    """

    translation_invariant = True
    rotation_invariant = False
    p: float

    @abstractmethod
    def _value_(self, r):
        """Return ``phi(r)``."""

    @abstractmethod
    def _slope_(self, r):
        """Return ``-phi'(r) r^(1 - p)``, any finite number at r = 0."""

    def spread(self, variance: torch.Tensor) -> torch.Tensor:
        """Return the p-norm of the rms differences of all coordinates (see `Kernel`)."""
        if self.p == 2:
            return root_or_one(2 * variance.sum())
        total = (2 * variance).pow(self.p / 2).sum().pow(1 / self.p)
        return torch.where(total > 0, total, torch.ones_like(total))

    def matrix(self, A: Rows, B: Rows, self_index: torch.Tensor | None = None) -> torch.Tensor:
        """Return the kernel of every row of A with every row of B (see `Kernel`)."""
        return self._value_(self._distances(A, B))

    def _distances(self, A, B):
        # of differences also for p = 2, where products of rows are the default
        mode = "donot_use_mm_for_euclid_dist"
        return torch.cdist(A.values, B.values, p=self.p, compute_mode=mode)

    def gradients(
        self, A: Rows, B: Rows, coef: torch.Tensor, self_index: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the gradients of the kernel expansion (see `Kernel`).

        One product ``(W * sign(u_k - v_k) |u_k - v_k|^(p - 1)) coef`` a feature,
        ``W = -phi'(r) r^(1 - p)``.
        """
        (n, d), c = A.values.shape, coef.shape[1]
        G = A.values.new_zeros((n, c, d))
        for tile in _backend.blocks(len(B), n * G.element_size(), G.device):
            V, a = B[tile], coef[tile]
            W = self._slope_(self._distances(A, V))
            radius = A.resolution[:, None] + V.resolution
            exact = not _backend.holds(radius.max() > 0)
            columns = V.values.T.contiguous()
            for k in range(d):
                step = A.values[:, k, None] - columns[k]
                if not exact:  # a product with a metric rounds equal coordinates differently
                    step[step.abs() <= radius] = 0
                G[:, :, k] -= self._power_(step).mul_(W) @ a
        return G

    def _power_(self, step):
        """Return ``sign(step) |step|^(p - 1)``."""
        if self.p == 1:
            return step.sign_()
        if self.p == 2:
            return step
        return step.abs().pow_(self.p - 1).copysign_(step)


@register
@dataclass(frozen=True)
class ProductLaplace(_NormKernel):
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
    p = 1.0

    def _value_(self, r):
        return r.neg_().exp_()

    # -phi' is phi itself, and r^(1 - p) is 1
    _slope_ = _value_


@register
@dataclass(frozen=True)
class Lpq(_NormKernel):
    """The kernel ``exp(-(r / L)^q)`` of the p-norm ``r = (sum_k |u_k - v_k|^p)^(1 / p)``.

    Between `ProductLaplace` (p = q = 1), and `PowerExponential` (p = 2) with `Laplace` and
    `Gaussian` (up to the bandwidth) among it. Positive definite for ``0 < q <= p <= 2``
    (I. Schoenberg, Metric spaces and positive definite functions, 1938; Beaglehole, Holzmüller,
    Radhakrishnan and Belkin, arXiv 2508.10053, use it for tables).

    Parameters
    ----------
    p : float, default=1.5
        Of the norm, from 1 to 2: the smaller, the more the axes of the metric count.
    q : float, default=1.0
        Exponent, above 0 and at most `p`: the larger, the smoother.

    Raises
    ------
    ValueError
        If `p` or `q` is out of range.

    Notes
    -----
    With ``bandwidth_mode="adaptive"`` the bandwidth is in units of the p-norm of the root mean
    square differences of all coordinates. The derivative counts as 0 where the kernel has a kink.

    Examples
    --------
    >>> from rfmlearn import RFMRegressor
    >>> from rfmlearn.kernels import Lpq
    >>> RFMRegressor(kernel=Lpq(p=1.3, q=1.0), diag=True).kernel
    Lpq(p=1.3, q=1.0)
    """

    name: ClassVar[str] = "lpq"
    p: float = 1.5
    q: float = 1.0

    def __post_init__(self):
        if not (isinstance(self.p, Real) and 1 <= self.p <= 2):
            raise ValueError(f"p={self.p!r} must be a number from 1 to 2.")
        if not (isinstance(self.q, Real) and 0 < self.q <= self.p):
            raise ValueError(f"q={self.q!r} must be above 0 and at most p={self.p!r}.")

    def _value_(self, r):
        return r.pow_(self.q).neg_().exp_()

    def _distances(self, A, B):
        r = super()._distances(A, B)
        radius = A.resolution[:, None] + B.resolution
        if _backend.holds(radius.max() > 0):  # a small q would make much of a rounding error
            r.masked_fill_(r <= radius, 0)
        return r

    def _slope_(self, r):
        factor = r.pow(self.q - self.p).mul_(self.q).masked_fill_(r == 0, 0)
        return self._value_(r).mul_(factor)
