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


@register
@dataclass(frozen=True)
class Matern(RadialKernel):
    """The Matern kernel, once or twice differentiable; r the distance in the learned metric.

    ``(1 + s) exp(-s)`` with ``s = sqrt(3) r / L`` for ``nu=1.5``, and
    ``(1 + s + s^2 / 3) exp(-s)`` with ``s = sqrt(5) r / L`` for ``nu=2.5``: between `Laplace`,
    which is ``nu=0.5``, and `Gaussian`, which is its limit (C. Rasmussen, C. Williams, Gaussian
    Processes for Machine Learning, 2006, equation 4.17).

    Parameters
    ----------
    nu : {1.5, 2.5}, default=1.5
        Smoothness.

    Raises
    ------
    ValueError
        If `nu` is another number.

    Examples
    --------
    >>> from rfmlearn import RFMRegressor
    >>> from rfmlearn.kernels import Matern
    >>> RFMRegressor(kernel=Matern(2.5)).kernel
    Matern(nu=2.5)
    """

    name: ClassVar[str] = "matern"
    nu: float = 1.5

    def __post_init__(self):
        if not (isinstance(self.nu, Real) and self.nu in (1.5, 2.5)):
            raise ValueError(
                f"nu={self.nu!r} must be 1.5 or 2.5; 0.5 is the Laplace kernel, and its limit the "
                "Gaussian kernel."
            )

    def value_(self, sq: torch.Tensor) -> torch.Tensor:
        """Return the kernel of scaled distances (see `RadialKernel`)."""
        s = sq.mul_(2 * self.nu).sqrt_()
        rest = s + 1 if self.nu == 1.5 else torch.addcmul(s + 1, s, s, value=1 / 3)
        return s.neg_().exp_().mul_(rest)

    def slope_(self, sq: torch.Tensor) -> torch.Tensor:
        """Return ``-3 exp(-s)`` or ``-5 / 3 (1 + s) exp(-s)`` (see `RadialKernel`)."""
        s = sq.mul_(2 * self.nu).sqrt_()
        if self.nu == 1.5:
            return s.neg_().exp_().mul_(-3)
        rest = s + 1
        return s.neg_().exp_().mul_(rest).mul_(-5 / 3)


@register
@dataclass(frozen=True)
class RationalQuadratic(RadialKernel):
    """The kernel ``(1 + r^2 / (2 a L^2))^-a``, r the distance in the learned metric.

    A mixture of Gaussian kernels of many widths: as smooth at 0, with tails that reach far, and so
    forgiving of a wrong bandwidth. `Gaussian` for large a (C. Rasmussen, C. Williams, Gaussian
    Processes for Machine Learning, 2006, equation 4.19).

    Parameters
    ----------
    mixture : float, default=1.0
        The exponent a: the smaller, the more widths are mixed.

    Raises
    ------
    ValueError
        If `mixture` is not a positive number, at most 1e6.

    Examples
    --------
    >>> from rfmlearn import RFMRegressor
    >>> from rfmlearn.kernels import RationalQuadratic
    >>> RFMRegressor(kernel=RationalQuadratic(0.5)).kernel
    RationalQuadratic(mixture=0.5)
    """

    name: ClassVar[str] = "rational_quadratic"
    mixture: float = 1.0

    def __post_init__(self):
        if not (isinstance(self.mixture, Real) and 0 < self.mixture <= 1e6):
            raise ValueError(f"mixture={self.mixture!r} must be a positive number, at most 1e6.")

    def value_(self, sq: torch.Tensor) -> torch.Tensor:
        """Return ``(1 + r^2 / (2 a))^-a`` (see `RadialKernel`)."""
        return self._power(sq, -self.mixture)

    def slope_(self, sq: torch.Tensor) -> torch.Tensor:
        """Return ``-(1 + r^2 / (2 a))^(-a - 1)`` (see `RadialKernel`)."""
        return self._power(sq, -self.mixture - 1).neg_()

    def _power(self, sq, exponent):
        # by the logarithm, whose digits 1 + r^2 / (2 a) would lose for large a
        return sq.div_(2 * self.mixture).log1p_().mul_(exponent).exp_()
