# SPDX-License-Identifier: BSD-3-Clause
"""Activations of infinitely wide networks: what each does to the covariance of two Gaussians.

For ``(a, b)`` Gaussian with variances p, q and covariance k a dual is ``E[phi(a) phi(b)]``, and the
dual of the derivative ``E[phi'(a) phi'(b)]``, its derivative with respect to k (Price's theorem).
Elementwise in tensors p (a, 1), q (1, b), k (a, b).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from math import factorial, pi

import torch

__all__ = ["DUALS", "Homogeneous", "Monomial", "Polynomial", "Rbf", "Sign", "Smooth"]

#: The activations by name, for the kernels `NNGP` and `NTK`.
DUALS: dict[str, object] = {}


def _determinant(p, q, k):
    """Return ``p q - k^2``, never negative.

    The derivative does not see the bound: where two rows coincide the sign of a rounding error
    would decide whether there is one.
    """
    det = p * q - k * k
    return det + (det.clamp(min=0) - det).detach()


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
    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
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

    def diagonal(self, p: torch.Tensor) -> torch.Tensor:
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

    def partials(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
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
            grad = partial(torch.autograd.grad, retain_graph=True, materialize_grads=True)
            (E_p,) = grad(E.sum(), p)
            Edot_k, Edot_p = grad(Edot.sum(), (k, p))
        return Edot.detach(), E_p, Edot_k, Edot_p

    def diagonal_slope(self, p: torch.Tensor) -> torch.Tensor:
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

    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the duals (see `Smooth`)."""
        # (1 + 2p)(1 + 2q) - 4 k^2 without the difference of its large terms
        S = (1 + 2 * (p + q) + 4 * _determinant(p, q, k)).sqrt()
        return (2 / pi) * torch.atan2(2 * k, S), (4 / pi) / S


class Sin(Smooth):
    """The sine."""

    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the duals (see `Smooth`)."""
        near, far = _waves(p, q, k)
        return near - far, near + far


class Cos(Smooth):
    """The cosine."""

    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
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

    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the duals (see `Smooth`)."""
        E = (-self.gamma * (p + q - 2 * k)).exp()
        return E, 2 * self.gamma * E


class Gelu(Smooth):
    """``a Phi(a)`` with the normal distribution function Phi."""

    weight_std = 2.0**0.5

    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the duals (see `Smooth`)."""
        P = (1 + p) * (1 + q)
        S = (1 + p + q + _determinant(p, q, k)).sqrt()
        A = torch.atan2(k, S)
        E = k / 4 + ((k * k + p * q * S * S) / (P * S) + k * A) / (2 * pi)
        inner = (1 / (S * S) + (1 - p * q) / P + 1) * k / S
        return E, 0.25 + (A + inner) / (2 * pi)


class Gaussian(Smooth):
    """The bump ``exp(-a^2)``."""

    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the duals (see `Smooth`)."""
        S = (1 + 2 * (p + q) + 4 * _determinant(p, q, k)).sqrt()
        return 1 / S, 4 * k / S**3


class SigmoidLike(Smooth):
    """``(1 + erf(a / s)) / 2``, s = 2.4020563531719796: within 0.02 of the logistic function."""

    scale = 2.4020563531719796**2

    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the duals (see `Smooth`)."""
        E, Edot = Erf().dual(p / self.scale, q / self.scale, k / self.scale)
        return (1 + E) / 4, Edot / (4 * self.scale)


class Exp(Smooth):
    """The exponential."""

    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the duals (see `Smooth`)."""
        E = ((p + q) / 2 + k).exp()
        return E, E


class Gabor(Smooth):
    """The wave packet ``exp(-a^2) sin a``."""

    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the duals (see `Smooth`)."""
        det = _determinant(p, q, k)
        D, s = 1 + 2 * (p + q) + 4 * det, p + q + 4 * det
        envelope = (-s / (2 * D)).exp() / D.sqrt()
        E = envelope * (k / D).sinh()
        slope = (1 / D + 8 * (k / D) ** 2) * envelope * (k / D).cosh()
        return E, slope + 4 * k / D * (2 - s / D) * E


@dataclass(frozen=True)
class Polynomial(Smooth):
    """The polynomial ``coefs[0] + coefs[1] a + coefs[2] a^2 ...``.

    Parameters
    ----------
    coefs : tuple of float
        From the constant up.
    """

    coefs: tuple = (0.0, 1.0)

    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the duals (see `Smooth`), by Isserlis' theorem."""
        slope = [i * c for i, c in enumerate(self.coefs)][1:]
        return _moments(self.coefs, p, q, k), _moments(slope, p, q, k)


def _moments(coefs, p, q, k):
    """Return ``E[f(a) f(b)]`` of a polynomial f."""
    total = 0 * (p + q + k)
    for i, left in enumerate(coefs):
        for j, right in enumerate(coefs):
            if left * right == 0:
                continue
            for m in range(i % 2, min(i, j) + 1, 2) if (i - j) % 2 == 0 else ():
                own, other = (i - m) // 2, (j - m) // 2  # pairs within a, within b; m across
                ways = factorial(i) * factorial(j) / (factorial(m) * 2 ** (own + other))
                ways /= factorial(own) * factorial(other)
                total = total + left * right * ways * p**own * q**other * k**m
    return total


@dataclass(frozen=True)
class Monomial(Smooth):
    """The power ``a^degree``.

    Parameters
    ----------
    degree : int, default=2
        Positive.
    """

    degree: int = 2

    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the duals (see `Smooth`)."""
        return Polynomial((0.0,) * self.degree + (1.0,)).dual(p, q, k)


class RectifiedSquare(Smooth):
    """The square of relu: the arc-cosine kernel of order 2 (Cho and Saul 2009).

    Its derivatives are written out: those of an angle are not finite where two rows coincide.
    """

    @staticmethod
    def _moments(p, q, k):
        """Return the means of the products of squared relus, of relus, and of steps."""
        S, root = _determinant(p, q, k).sqrt(), (p * q).sqrt()
        back = pi - torch.atan2(S, k)
        two = (3 * S * k + back * (root * root + 2 * k * k)) / (2 * pi)
        return two, (S + back * k) / (2 * pi), back / (2 * pi)

    def dual(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the duals (see `Smooth`)."""
        two, one, _ = self._moments(p, q, k)
        return two, 4 * one

    def diagonal(self, p: torch.Tensor) -> torch.Tensor:
        """Return ``E[phi(a)^2]`` (see `Smooth`)."""
        return 1.5 * p * p

    def partials(
        self, p: torch.Tensor, q: torch.Tensor, k: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Return the derivatives (see `Smooth`); those by p from homogeneity in one argument."""
        two, one, zero = self._moments(p, q, k)
        twice = 2 * torch.where(p > 0, p, torch.ones_like(p))
        Edot, Edot_k = 4 * one, 4 * zero
        return Edot, (2 * two - k * Edot) / twice, Edot_k, (Edot - k * Edot_k) / twice

    def diagonal_slope(self, p: torch.Tensor) -> torch.Tensor:
        """Return the derivative of `diagonal` (see `Smooth`)."""
        return 3 * p


@dataclass(frozen=True)
class Sign:
    """The sign. Its derivative is 0 almost everywhere: only the last layer can be trained."""

    weight_std = 1.0


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
    exp=Exp(),
    gabor=Gabor(),
    sign=Sign(),
    relu_squared=RectifiedSquare(),
    monomial2=Monomial(2),
    monomial3=Monomial(3),
)
