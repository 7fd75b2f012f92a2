# SPDX-License-Identifier: BSD-3-Clause
"""What an activation does to the covariance of two Gaussian pre-activations.

For ``(a, b)`` Gaussian with variances p, q and covariance k a dual is ``E[phi(a) phi(b)]``, and the
dual of the derivative ``E[phi'(a) phi'(b)]``, its derivative with respect to k (Price's theorem).
Elementwise in tensors p (a, 1), q (1, b), k (a, b).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import factorial, pi

import torch

DUALS = {}


def _determinant(p, q, k):
    """Return ``p q - k^2``, never negative."""
    return (p * q - k * k).clamp(min=0)


def _waves(p, q, k):
    """Return the means of ``cos(a - b) / 2`` and ``cos(a + b) / 2``."""
    return (k - (p + q) / 2).exp() / 2, (-k - (p + q) / 2).exp() / 2


@dataclass(frozen=True)
class Homogeneous:
    """Slope `left` for negative, `right` for positive numbers: relu and its relatives.

    Its dual is ``c sqrt(p q) (cos th + kappa (sin th - th cos th))``, th the angle between the two,
    and that of the derivative ``c (1 - kappa th)``: `c` is the mean square slope, `kappa` the
    size of the kink, between 0 (no kink) and 2 / pi (the absolute value).

    Parameters
    ----------
    left, right : float
        Slopes, not both 0.
    """

    left: float
    right: float

    @property
    def c(self):
        """Half the sum of the squared slopes."""
        return (self.left**2 + self.right**2) / 2

    @property
    def kappa(self):
        """Share of the kink."""
        return self.fold / pi

    @property
    def fold(self):
        """``pi kappa``: 0 without a kink, 1 for relu, 2 for the absolute value."""
        return (self.left - self.right) ** 2 / (2 * self.c)

    @property
    def weight_std(self):
        """Weight scale that keeps the size of a signal from layer to layer."""
        return self.c**-0.5


class Smooth(ABC):
    """An activation whose dual is smooth. Its partial derivatives follow by differentiation."""

    weight_std = 1.0

    @abstractmethod
    def dual(self, p, q, k):
        """Return ``E[phi(a) phi(b)]`` and ``E[phi'(a) phi'(b)]``.

        Parameters
        ----------
        p, q, k : tensor, broadcastable
            Variances and covariance.

        Returns
        -------
        E, Edot : tensor
            Both, built of differentiable torch operations.
        """

    def diagonal(self, p):
        """Return ``E[phi(a)^2]``.

        Parameters
        ----------
        p : tensor
            Variance.

        Returns
        -------
        tensor
            Of the shape of p.
        """
        return self.dual(p, p, p)[0]

    def partials(self, p, q, k):
        """Return the dual of the derivative, and how both duals change.

        Parameters
        ----------
        p, q, k : tensor, broadcastable
            Variances and covariance.

        Returns
        -------
        Edot, E_p, Edot_k, Edot_p : tensor
            Of the shape that p, q and k broadcast to.
        """
        shape = torch.broadcast_shapes(p.shape, q.shape, k.shape)
        with torch.enable_grad():
            p, q, k = (x.detach().expand(shape).clone().requires_grad_() for x in (p, q, k))
            E, Edot = self.dual(p, q, k)
            # elementwise: the derivative of the sum holds that of each element
            options = {"retain_graph": True, "materialize_grads": True}
            (E_p,) = torch.autograd.grad(E.sum(), p, **options)
            Edot_k, Edot_p = torch.autograd.grad(Edot.sum(), (k, p), **options)
        return Edot.detach(), E_p, Edot_k, Edot_p

    def diagonal_slope(self, p):
        """Return the derivative of `diagonal`.

        Parameters
        ----------
        p : tensor
            Variance.

        Returns
        -------
        tensor
            Of the shape of p.
        """
        with torch.enable_grad():
            p = p.detach().clone().requires_grad_()
            return torch.autograd.grad(self.diagonal(p).sum(), p, materialize_grads=True)[0]


class Erf(Smooth):
    """The error function (Williams 1997)."""

    def dual(self, p, q, k):
        """Return the duals (see `Smooth`)."""
        # (1 + 2p)(1 + 2q) - 4 k^2 without the difference of its large terms
        S = (1 + 2 * (p + q) + 4 * _determinant(p, q, k)).sqrt()
        return (2 / pi) * torch.atan2(2 * k, S), (4 / pi) / S


class Sin(Smooth):
    """The sine."""

    def dual(self, p, q, k):
        """Return the duals (see `Smooth`)."""
        near, far = _waves(p, q, k)
        return near - far, near + far


class Cos(Smooth):
    """The cosine."""

    def dual(self, p, q, k):
        """Return the duals (see `Smooth`)."""
        near, far = _waves(p, q, k)
        return near + far, near - far


@dataclass(frozen=True)
class Rbf(Smooth):
    """Random Fourier features ``sqrt(2) sin(sqrt(2 gamma) a + pi / 4)``: a Gaussian kernel.

    Parameters
    ----------
    gamma : float, default=0.5
        Half the inverse square of the kernel's length.
    """

    gamma: float = 0.5

    def dual(self, p, q, k):
        """Return the duals (see `Smooth`)."""
        E = (-self.gamma * (p + q - 2 * k)).exp()
        return E, 2 * self.gamma * E


class Gelu(Smooth):
    """``a Phi(a)`` with the normal distribution function Phi."""

    weight_std = 2.0**0.5

    def dual(self, p, q, k):
        """Return the duals (see `Smooth`)."""
        P = (1 + p) * (1 + q)
        S = (1 + p + q + _determinant(p, q, k)).sqrt()
        A = torch.atan2(k, S)
        E = k / 4 + ((k * k + p * q * S * S) / (P * S) + k * A) / (2 * pi)
        inner = (1 / (S * S) + (1 - p * q) / P + 1) * k / S
        return E, 0.25 + (A + inner) / (2 * pi)


class Gaussian(Smooth):
    """The bump ``exp(-a^2)``."""

    def dual(self, p, q, k):
        """Return the duals (see `Smooth`)."""
        S = (1 + 2 * (p + q) + 4 * _determinant(p, q, k)).sqrt()
        return 1 / S, 4 * k / S**3


class SigmoidLike(Smooth):
    """``(1 + erf(a / s)) / 2``, s = 2.4020563531719796: within 0.02 of the logistic function."""

    scale = 2.4020563531719796**2

    def dual(self, p, q, k):
        """Return the duals (see `Smooth`)."""
        E, Edot = Erf().dual(p / self.scale, q / self.scale, k / self.scale)
        return (1 + E) / 4, Edot / (4 * self.scale)


@dataclass(frozen=True)
class Monomial(Smooth):
    """The power ``a^degree``.

    Parameters
    ----------
    degree : int, default=2
        Positive.
    """

    degree: int = 2

    def dual(self, p, q, k):
        """Return the duals (see `Smooth`), by Isserlis' theorem."""

        def moment(m):
            terms = 0.0
            for j in range(m % 2, m + 1, 2):
                pairs = (m - j) // 2
                count = factorial(m) ** 2 / (factorial(pairs) ** 2 * factorial(j) * 4**pairs)
                terms = terms + count * (p * q) ** pairs * k**j
            return terms

        return moment(self.degree), self.degree**2 * moment(self.degree - 1) + 0 * k


DUALS.update(
    identity=Homogeneous(1.0, 1.0),
    relu=Homogeneous(0.0, 1.0),
    leaky_relu=Homogeneous(0.01, 1.0),
    abs=Homogeneous(-1.0, 1.0),
    erf=Erf(),
    sin=Sin(),
    cos=Cos(),
    rbf=Rbf(),
    gelu=Gelu(),
    gaussian=Gaussian(),
    sigmoid_like=SigmoidLike(),
    monomial2=Monomial(2),
    monomial3=Monomial(3),
)
