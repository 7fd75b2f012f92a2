# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of the distance. The bandwidth is in the rows: here r stands for r / L."""

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

import torch

from rfmlearn.kernels._base import RadialKernel, register


@register
@dataclass(frozen=True)
class Laplace(RadialKernel):
    """The Laplace kernel ``exp(-r / L)``, r the distance in the learned metric.

    Rough, with a kink at 0; forgiving of a wrong bandwidth, and the default. The kernel
    of Recursive Feature Machines in arXiv 2212.13881, equation 2.

    Examples
    --------
    >>> from rfmlearn import RFMRegressor
    >>> from rfmlearn.kernels import Laplace
    >>> RFMRegressor(kernel=Laplace()).kernel
    Laplace()
    """

    name: ClassVar[str] = "laplace"

    def value_(self, sq: torch.Tensor) -> torch.Tensor:
        """Return ``exp(-r)`` (see `RadialKernel`)."""
        return sq.sqrt_().neg_().exp_()

    def slope_(self, sq: torch.Tensor) -> torch.Tensor:
        """Return ``-exp(-r) / r`` (see `RadialKernel`)."""
        minus_r = sq.sqrt_().neg_()
        return minus_r.exp().div_(minus_r)


@register
@dataclass(frozen=True)
class Gaussian(RadialKernel):
    """The Gaussian kernel ``exp(-r^2 / (2 L^2))``, r the distance in the learned metric.

    Smooth; better than Laplace on smooth targets with little noise, and more sensitive to
    the bandwidth.

    Examples
    --------
    >>> from rfmlearn import RFMRegressor
    >>> from rfmlearn.kernels import Gaussian
    >>> RFMRegressor(kernel=Gaussian()).kernel
    Gaussian()
    """

    name: ClassVar[str] = "gaussian"

    def value_(self, sq: torch.Tensor) -> torch.Tensor:
        """Return ``exp(-r^2 / 2)`` (see `RadialKernel`)."""
        return sq.mul_(-0.5).exp_()

    def slope_(self, sq: torch.Tensor) -> torch.Tensor:
        """Return ``-exp(-r^2 / 2)`` (see `RadialKernel`)."""
        return self.value_(sq).neg_()


@register
@dataclass(frozen=True)
class PowerExponential(RadialKernel):
    """The kernel ``exp(-(r / L)^q)``, r the distance in the learned metric.

    Between Laplace (q = 1) and Gaussian (q = 2, L scaled by sqrt(2)); rougher than
    Laplace below 1. Positive definite for 0 < q <= 2 (Schoenberg 1938).

    Parameters
    ----------
    exponent : float, default=1.5
        The exponent q.

    Raises
    ------
    ValueError
        If the exponent is not in (0, 2], where the kernel is not positive definite.

    Examples
    --------
    >>> from rfmlearn import RFMRegressor
    >>> from rfmlearn.kernels import PowerExponential
    >>> RFMRegressor(kernel=PowerExponential(0.7)).kernel
    PowerExponential(exponent=0.7)
    """

    name: ClassVar[str] = "power_exponential"
    exponent: float = 1.5

    def __post_init__(self):
        if not (isinstance(self.exponent, Real) and 0 < self.exponent <= 2):
            raise ValueError(
                f"exponent={self.exponent!r} must lie in (0, 2]: beyond 2 the kernel is not "
                "positive definite."
            )

    def value_(self, sq: torch.Tensor) -> torch.Tensor:
        """Return ``exp(-r^q)`` (see `RadialKernel`)."""
        return sq.pow_(self.exponent / 2).neg_().exp_()

    def slope_(self, sq: torch.Tensor) -> torch.Tensor:
        """Return ``-q r^(q - 2) exp(-r^q)`` (see `RadialKernel`)."""
        minus_power = sq.pow(self.exponent / 2).neg_()
        return minus_power.exp().mul_(minus_power).div_(sq).mul_(self.exponent)
