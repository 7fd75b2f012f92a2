# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of infinitely wide networks, by recursion over the layers.

With ``K = w^2 x.z / d + b^2`` of the inputs, and in each hidden layer ``K <- w^2 E + b^2`` and
``T <- K + w^2 Edot T``, E and Edot the duals of the activation, K is the covariance of the outputs
of random networks (NNGP) and T their neural tangent kernel (Jacot, Gabriel and Hongler, arXiv
1806.07572; NTK parametrisation).

For activations with a kink the recursion carries ``v = 1 - cos th``, th the angle of two rows,
instead of a cosine: it starts as half the squared chord of two unit vectors, and each layer maps it
without the difference of two numbers near 1. A rounded cosine would lose half the digits of close
rows.
"""

from dataclasses import dataclass
from math import pi
from typing import ClassVar

import torch

from rfmlearn import _backend
from rfmlearn.kernels._base import Kernel, Rows, _pairs, register, squared_distances
from rfmlearn.kernels._duals import DUALS, Homogeneous, Sign, Smooth

# Below this ``1 + cos`` an angle is near pi, and its own chord is needed.
_ANTIPODAL = 1e-3

# Below this one ``E`` of relu is small, and needs a formula of its own. Elsewhere the choice
# between two formulas would cost as much as a layer.
_OPPOSED = 0.02


def _lune(th, sin, cos):
    """Return ``sin th - th cos th``, by its series where the terms cancel."""
    lune = torch.addcmul(sin, th, cos, value=-1)
    if not _backend.holds(th.min() < 0.2):
        return lune
    sq = th * th
    series = th * sq * (1 / 3 - sq * (1 / 30 - sq * (1 / 840 - sq / 45360)))
    return torch.where(th < 0.2, series, lune)


@dataclass(frozen=True)
class _InfiniteWidth(Kernel):
    """What both kernels share; a subclass says which of K and T it is."""

    depth: int = 2
    activation: str | Homogeneous | Sign | Smooth = "relu"
    weight_std: float | tuple | None = None
    bias_std: float | tuple = 0.1

    tangent: ClassVar[bool] = False
    centred = True

    def __post_init__(self):
        if isinstance(self.activation, str) and self.activation not in DUALS:
            raise ValueError(f"activation={self.activation!r} must be one of {sorted(DUALS)}.")
        if not isinstance(self.depth, int) or self.depth < 0:
            raise ValueError(f"depth={self.depth!r} must be a number of hidden layers.")
        for name, least in (("weight_std", "positive"), ("bias_std", "not negative")):
            value = getattr(self, name)
            if value is None:
                continue
            values = value if isinstance(value, tuple | list) else (value,)
            if len(values) not in (1, self.depth + 1):
                raise ValueError(f"{name} must be one number, or depth + 1 of them: {value!r}.")
            if min(values) < 0 or (least == "positive" and min(values) == 0):
                raise ValueError(f"{name}={value!r} must be {least}.")

    def _scales(self):
        """Return the activation and, for each of depth + 1 dense layers, w^2 and b^2."""
        act = DUALS[self.activation] if isinstance(self.activation, str) else self.activation

        def squares(value):
            many = isinstance(value, tuple | list)
            return [v**2 for v in value] if many else [value**2] * (self.depth + 1)

        w = act.weight_std if self.weight_std is None else self.weight_std
        return act, squares(w), squares(self.bias_std)

    def spread(self, variance):
        """Return the rms of a coordinate, so that ``x.x / d`` is 1 on average (see `Kernel`)."""
        square = variance.mean()
        return torch.where(square > 0, square, torch.ones_like(square)).sqrt()

    def matrix(self, A, B, self_index=None):
        """Return the kernel of every row of A with every row of B (see `Kernel`)."""
        own = _pairs(self_index, slice(0, len(B)))
        K, T = self._layers(A, B, own)
        return T if self.tangent else K

    def diagonal(self, A):
        """Return the kernel of every row of A with itself, (a,)."""
        act, w, b = self._scales()
        p = T = w[0] / A.values.shape[1] * A.sq_norms + b[0]
        for wl, bl in zip(w[1:], b[1:]):
            if isinstance(act, Homogeneous):
                E, Edot = act.c * p, act.c
            elif isinstance(act, Sign):
                E, Edot = (p > 0).to(p), 0.0
            else:
                E, Edot = act.dual(p, p, p)
            p = wl * E + bl
            T = p + wl * Edot * T
        return T if self.tangent else p

    def gradients(self, A, B, coef, self_index=None):
        """Return the gradients of the kernel expansion (see `Kernel`).

        With ``dk = al z + 2 be x`` up to ``w^2 / d``, two products. Where two rows coincide the
        part with a kink counts as 0: the mean of its two sides.
        """
        d, c = B.values.shape[1], coef.shape[1]
        P = B.values.new_zeros((len(A), c, d + 1))
        item, device = P.element_size(), P.device
        _, (w, *_), _ = self._scales()
        for tile in _backend.blocks(len(B), len(A) * item, device):
            V = B.values[tile]
            al, be = self._layers(A, B[tile], _pairs(self_index, tile), slopes=True)
            for group in _backend.blocks(c, len(V) * (d + 1) * item, device, min_rows=1):
                a = coef[tile, group]
                factor = (a.unsqueeze(2) * V.unsqueeze(1)).flatten(1)
                P[:, group, :-1] += (al @ factor).unflatten(1, (-1, d))
                P[:, group, -1] += be @ a
        return (w / d) * (P[:, :, :-1] + 2 * P[:, :, -1:] * A.values[:, None])

    def _layers(self, A, B, own, slopes=False):
        """Return K and T, or with `slopes` their derivatives (al, be), of tiles of rows."""
        act, w, b = self._scales()
        d = A.values.shape[1]
        p = (w[0] / d * A.sq_norms + b[0])[:, None]
        q = (w[0] / d * B.sq_norms + b[0])[None]
        if isinstance(act, Homogeneous | Sign):
            kind = _Angles if isinstance(act, Homogeneous) else _SignAngles
            state = kind(act, A, B, own, (w[0] / d) ** 0.5, b[0], p, q)
        else:
            state = _Covariances(act, A, B, w[0] / d, b[0], p, q)
        K = T = state.covariance()
        if slopes:
            k_k = T_k = torch.ones_like(K)
            k_p = T_p = torch.zeros_like(K)
            p_p = torch.ones_like(p)
        for wl, bl in zip(w[1:], b[1:]):
            if slopes:
                E_k, E_p, Edot, Edot_k, Edot_p, E_d = state.partials()
                T_k = wl * (Edot_k * k_k * T + Edot * T_k)
                T_p = wl * ((Edot_k * k_p + Edot_p * p_p) * T + Edot * T_p)
                k_k, k_p = wl * E_k * k_k, wl * (E_k * k_p + E_p * p_p)
                T_k, T_p, p_p = T_k + k_k, T_p + k_p, wl * E_d * p_p
            Edot = state.advance(wl, bl)
            K = state.covariance()
            if self.tangent:
                T = (Edot * T).mul_(wl).add_(K)
        if slopes:
            return (T_k, T_p) if self.tangent else (k_k, k_p)
        return K, T


class _Covariances:
    """Variances p, q and covariance k of two rows, from layer to layer."""

    def __init__(self, act, A, B, w, b, p, q):
        self.act, self.p, self.q = act, p, q
        self.k = w * (A.values @ B.values.mT) + b

    def covariance(self):
        return self.k

    def partials(self):
        Edot, E_p, Edot_k, Edot_p = self.act.partials(self.p, self.q, self.k)
        return Edot, E_p, Edot, Edot_k, Edot_p, self.act.diagonal_slope(self.p)

    def advance(self, w, b):
        E, Edot = self.act.dual(self.p, self.q, self.k)
        self.k = w * E + b
        self.p, self.q = (w * self.act.diagonal(x) + b for x in (self.p, self.q))
        return Edot


class _Angles:
    """Variances p, q of two rows and ``v = 1 - cos`` of their angle, from layer to layer."""

    def __init__(self, act, A, B, own, w, b, p, q):
        self.act, self.p, self.q = act, p, q
        units = [_unit_rows(R, w, b, x.flatten()) for R, x in ((A, p), (B, q))]
        sq, _ = squared_distances(*units, own)
        self.v = sq.div_(2).clamp_(max=2)
        self.back = 2 - self.v  # 1 + cos
        if b == 0 and _backend.holds(self.back.min() < _ANTIPODAL):
            i, j = _backend.positions(self.back < _ANTIPODAL)
            self.back[i, j] = _one_plus_cos(A.values[i], B.values[j])
        self.root = p.sqrt() * q.sqrt()
        self.k = (1 - self.v).mul_(self.root)
        self.measured = False

    def _measure(self):
        """Find the sine of the angle, ``m = 1 - E / (c root)`` and the dual of the derivative."""
        if self.measured:
            return
        self.measured, kappa, c = True, self.act.kappa, self.act.c
        self.sin = (self.v * self.back).sqrt_()
        self.opposed = _backend.holds(self.back.min() < _OPPOSED)
        if not self.opposed:
            th = (self.v / 2).sqrt_().asin_().mul_(2)
            lune = _lune(th, self.sin, 1 - self.v)
            self.m = torch.sub(self.v, lune, alpha=kappa)
            self.Edot = th.mul_(-c * kappa).add_(c)
            return
        # the angle to the nearer of the two poles, from that one's own chord
        near, bend = self.v <= 1, self.act.fold - 1
        half = torch.where(near, self.v, self.back).clamp_(min=0, max=1) / 2
        pole = half.sqrt_().asin_().mul_(2)
        lune = kappa * _lune(pole, self.sin, torch.where(near, 1 - self.v, 1 - self.back))
        self.m = torch.where(near, self.v - lune, (1 - bend) + bend * self.back - lune)
        self.rho = torch.where(near, 1 - self.m, lune - bend * (self.back - 1))
        self.Edot = c * torch.where(near, 1 - kappa * pole, kappa * pole - bend)

    def covariance(self):
        return self.k

    def partials(self):
        self._measure()
        f = self.act.kappa * self.act.c
        S, kink, p = self._kink(f)
        E_d = self.act.c * torch.ones_like(self.p)
        return self.Edot, f * S / (2 * p), self.Edot, kink, -kink * self.k / (2 * p), E_d

    def _kink(self, factor):
        """Return ``sqrt(p q - k^2)``, factor / it or 0 where rows coincide, and p or 1."""
        S = self.root * self.sin
        # equal rows may differ by rounding beyond the first layer; their kink counts as 0
        apart = self.sin > 100 * torch.finfo(S.dtype).eps
        kink = torch.where(apart & (S > 0), factor / S, torch.zeros_like(S))
        return S, kink, torch.where(self.p > 0, self.p, torch.ones_like(self.p))

    def advance(self, w, b):
        self._measure()
        Edot, c = self.Edot, w * self.act.c
        A, B, AB = c * self.p, c * self.q, self.root.mul_(c)
        self.p, self.q = A + b, B + b
        self.root = self.p.sqrt() * self.q.sqrt()
        lost = self.m.mul_(AB)
        self.k = (self.rho.mul_(AB) if self.opposed else AB - lost).add_(b)
        if b > 0:
            apart = ((b * A).sqrt() - (b * B).sqrt()).square_()
            lost.add_(apart.div_(AB.add_(self.root).add_(b)))
        # without bias a row of zeros has no angle: 0 / 0 that is to be 0
        root = self.root if b > 0 else self.root.clamp(min=_tiny(AB))
        self.v = lost.div_(root).clamp_(min=0, max=2)
        self.back = 2 - self.v
        self.measured = False
        return Edot


class _SignAngles(_Angles):
    """The same for the sign, whose dual is ``1 - 2 th / pi``."""

    def partials(self):
        self.sin = (self.v * self.back).sqrt()
        _, kink, p = self._kink(2 / pi)
        zero = torch.zeros_like(self.k)
        return kink, -kink * self.k / (2 * p), zero, zero, zero, torch.zeros_like(self.p)

    def advance(self, w, b):
        pole = torch.minimum(self.v, self.back).clamp_(min=0).div_(2).sqrt_().asin_().mul_(4 / pi)
        lost = torch.where(self.v <= 1, pole, 2 - pole)
        # a row of zeros has no sign
        alive = ((self.p > 0) & (self.q > 0)).to(lost)
        self.k = w * alive * torch.where(self.v <= 1, 1 - pole, pole - 1) + b
        self.p, self.q = (w * (x > 0).to(x) + b for x in (self.p, self.q))
        self.root = self.p.sqrt() * self.q.sqrt()
        gap = torch.where(alive > 0, w * lost, self.root - b)
        self.v = (gap / self.root.clamp(min=_tiny(gap))).clamp_(min=0, max=2)
        self.back = 2 - self.v
        return torch.zeros_like(lost)


def _one_plus_cos(X, Z):
    """Return ``1 + cos`` of the angles of rows that are nearly opposite, to the last digits.

    From the part of z that is orthogonal to x: with s near ``-x.z / x.x`` the sum ``z + s x`` is
    exact but for the rounding of the product, which Dekker's splitting recovers.
    """
    dtype = X.dtype
    X, Z = (V.to(_backend.wider(V.device)) for V in (X, Z))
    length = X.square().sum(1, keepdim=True)
    s = -(X * Z).sum(1, keepdim=True) / length
    product = s * X
    left = (Z + product) + _rounding(s, X, product)
    left = left - (left * X).sum(1, keepdim=True) / length * X
    sq = (left.square().sum(1) / Z.square().sum(1)).clamp(max=1)
    return (sq / (1 + (1 - sq).sqrt())).to(dtype)


def _rounding(a, b, product):
    """Return ``a b - product`` exactly, product the rounded one (Dekker 1971)."""
    scale = 2.0 ** ((53 if product.dtype == torch.float64 else 24) // 2 + 1) + 1

    def split(x):
        t = scale * x
        high = t - (t - x)
        return high, x - high

    (a1, a2), (b1, b2) = split(a), split(b)
    return ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def _tiny(tensor):
    return torch.finfo(tensor.dtype).tiny


def _unit_rows(R, w, b, variance):
    """Return the rows ``(w x, sqrt b)`` divided by their length ``sqrt(variance)``."""
    length = variance.sqrt().clamp(min=_tiny(variance))[:, None]
    values = torch.cat([w * R.values, torch.full_like(length, b**0.5)], dim=1) / length
    return Rows(values, values.square().sum(1), w * R.resolution / length[:, 0])


@register
@dataclass(frozen=True)
class NNGP(_InfiniteWidth):
    """The kernel of the Gaussian process that infinitely wide random networks are.

    Parameters
    ----------
    depth : int, default=2
        Hidden layers; 0 is the linear kernel.
    activation : str or dual, default="relu"
        "relu", "leaky_relu" (slope 0.01; another is ``Homogeneous(slope, 1.0)``), "abs",
        "identity", "erf", "sin", "cos", "rbf", "gelu", "gaussian", "sigmoid_like", "exp", "gabor",
        "sign", "relu_squared", "monomial2", "monomial3"; or a dual of your own: `Polynomial`,
        `Monomial`, `Rbf`, a subclass of `Smooth`.
    weight_std : float or tuple of float, default=None
        Weight scale w, of all layers or of each of the ``depth + 1`` dense ones. None keeps the
        size of a signal: sqrt(2) for relu and gelu, 1 for bounded activations.
    bias_std : float or tuple of float, default=0.1
        Bias scale b.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    With ``bandwidth_mode="adaptive"`` the bandwidth is in units of the root mean square of a
    coordinate. A Recursive Feature Machine centres the data at their mean.

    Examples
    --------
    >>> from rfmlearn import RFMRegressor
    >>> from rfmlearn.kernels import NNGP
    >>> RFMRegressor(kernel=NNGP(depth=3, activation="erf")).kernel
    NNGP(depth=3, activation='erf', weight_std=None, bias_std=0.1)
    """

    name: ClassVar[str] = "nngp"


@register
@dataclass(frozen=True)
class NTK(_InfiniteWidth):
    """The neural tangent kernel: infinitely wide networks trained by gradient descent.

    Parameters
    ----------
    depth : int, default=2
        Hidden layers; 0 is the linear kernel.
    activation : str or dual, default="relu"
        As in `NNGP`.
    weight_std : float or tuple of float, default=None
        As in `NNGP`.
    bias_std : float or tuple of float, default=0.1
        Bias scale b.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Notes
    -----
    With relu it has a kink where two rows coincide, as the Laplace kernel has, and its derivative
    there is the mean of both sides. Bandwidth and centring are as in `NNGP`.

    Examples
    --------
    >>> from rfmlearn import RFMRegressor
    >>> from rfmlearn.kernels import NTK
    >>> RFMRegressor(kernel=NTK()).kernel
    NTK(depth=2, activation='relu', weight_std=None, bias_std=0.1)
    """

    name: ClassVar[str] = "ntk"
    tangent: ClassVar[bool] = True
