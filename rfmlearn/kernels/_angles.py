# SPDX-License-Identifier: BSD-3-Clause
"""The covariances of two rows in a random network, from layer to layer.

One class for each way to carry them. Each has `covariance`, the NNGP kernel of this layer;
`partials`, of the duals at this layer; and ``advance(w, b)``, which goes one layer on and returns
the dual of the derivative.
"""

from math import pi

import torch

from rfmlearn import _backend
from rfmlearn.kernels._rows import Rows, squared_distances

# Below this ``1 + cos`` an angle is near pi, and its own chord is needed.
_ANTIPODAL = 1e-3

# Below this one ``E`` of relu is small, and needs a formula of its own. Elsewhere the choice
# between two formulas would cost as much as a layer.
_OPPOSED = 0.02


class Covariances:
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


class Angles:
    """Variances p, q of two rows and ``u = (1 - cos) / 2`` of their angle th.

    With ``a = th / 2`` the dual is ``c sqrt(p q) (1 - 2 m)`` for ``m = u - kappa g``, where
    ``g = (sin th - th cos th) / 2``, and that of the derivative ``c (1 - 2 kappa a)``. In the next
    layer, whose rows have the angles ``atan(b / (w phi))`` between signal and bias as well,
    ``u`` is the product of the cosines of those times m, plus the squared sine of half their
    difference: no difference of large terms, and no division.
    """

    def __init__(self, act, A, B, own, w, b, p, q):
        units = [unit_rows(R, w, b, x.flatten()) for R, x in ((A, p), (B, q))]
        sq, _ = squared_distances(*units, own)
        self._enter(act, p, q, sq.div_(4).clamp_(max=1))
        if b == 0 and _backend.holds(2 * self.back.min() < _ANTIPODAL):
            i, j = _backend.positions(2 * self.back < _ANTIPODAL)
            self.back[i, j] = _one_plus_cos(A.values[i], B.values[j]) / 2

    @classmethod
    def of(cls, act, p, q, u, k=None):
        """Begin with variances, angles and, where it is known better, the covariance."""
        state = cls.__new__(cls)
        state._enter(act, p, q, u, k)
        return state

    def _enter(self, act, p, q, u, k=None):
        self.act, self.p, self.q, self.u = act, p, q, u
        self.back = 1 - u  # (1 + cos) / 2
        self.opposed = _backend.holds(2 * self.back.min() < _OPPOSED)
        self.k = torch.addcmul(self._root(), self._root(), u, value=-2) if k is None else k
        self.shares = self.measured = None

    def _root(self):
        return self.p.sqrt() * self.q.sqrt()

    def _complement(self):
        """Return ``(1 + cos) / 2``."""
        return 1 - self.u if self.back is None else self.back

    def covariance(self):
        if self.k is None:
            AB, rest, opposed, b = self.shares
            scaled = AB.mul_(rest) if opposed else torch.addcmul(AB, AB, rest, value=-2)
            self.k, self.shares = scaled.add_(b), None
        return self.k

    def partials(self):
        f = self.act.kappa * self.act.c
        S, kink, p = self._kink(f)
        _, _, Edot = self.measure()
        E_d = self.act.c * torch.ones_like(self.p)
        return Edot, f * S / (2 * p), Edot, kink, -kink * self.covariance() / (2 * p), E_d

    def _kink(self, factor):
        """Return ``sqrt(p q - k^2)``, factor / it or 0 where rows coincide, and p or 1."""
        sin = (self.u * self._complement()).sqrt_().mul_(2)
        S = self._root() * sin
        # equal rows may differ by rounding beyond the first layer; their kink counts as 0
        apart = sin > 100 * torch.finfo(S.dtype).eps
        kink = torch.where(apart & (S > 0), factor / S, torch.zeros_like(S))
        return S, kink, torch.where(self.p > 0, self.p, torch.ones_like(self.p))

    def measure(self):
        """Return m, what the covariance is made of (m, or E / (c root)), and the dual of phi'.

        Once a layer: the first call overwrites u.
        """
        if self.measured is None:
            self.measured = self._measure(self.u)
        return self.measured

    def _measure(self, u):
        kappa, c = self.act.kappa, self.act.c
        if not self.opposed:
            a, g = u.sqrt().asin_(), torch.addcmul(u, u, u, value=-1).sqrt_()
            m = u.sub_(_half_lune(a, g, u), alpha=kappa)
            return m, m, a.mul_(-2 * c * kappa).add_(c)
        # the angle to the nearer of the two poles, from that one's own chord
        back, bend = self._complement(), self.act.fold - 1
        near = u <= back
        pole = torch.where(near, u, back).clamp_(min=0)
        a, g = pole.sqrt().asin_(), (u * back).sqrt_()
        g = kappa * _half_lune(a, g, pole)
        m = torch.where(near, u - g, (1 - bend) / 2 + bend * back - g)
        rho = torch.where(near, 1 - 2 * m, 2 * g - bend * (2 * back - 1))
        Edot = c * torch.where(near, 1 - 2 * kappa * a, 2 * kappa * a - bend)
        return m.clamp_(min=0, max=1), rho, Edot

    def advance(self, w, b):
        (m, rest, Edot), self.measured = self.measure(), None
        A, B = (w * self.act.c * x for x in (self.p, self.q))
        self.p, self.q = A + b, B + b
        self.k, self.shares = None, (A.sqrt() * B.sqrt(), rest, self.opposed, b)
        if b > 0:
            (sin, cos, alpha), (sin_, cos_, alpha_) = (_tilt(x, b) for x in (A, B))
            self.u = (alpha * alpha_).mul_(m)
            apart = (sin * cos_).addcmul_(cos, sin_, value=-1)
            self.u.addcmul_(apart, apart)
        else:
            self.u = m
        self.back, self.opposed = None, False
        if self.act.fold <= _OPPOSED:  # else no angle is near pi any more
            self.back = 1 - self.u
            self.opposed = _backend.holds(2 * self.back.min() < _OPPOSED)
        return Edot


class SignAngles(Angles):
    """The same for the sign, whose dual is ``1 - 2 th / pi``."""

    def partials(self):
        _, kink, p = self._kink(2 / pi)
        zero = torch.zeros_like(kink)
        E_p = -kink * self.covariance() / (2 * p)
        return kink, E_p, zero, zero, zero, torch.zeros_like(self.p)

    def advance(self, w, b):
        back = self._complement()
        near = self.u <= back
        pole = torch.where(near, self.u, back).clamp_(min=0).sqrt_().asin_().mul_(4 / pi)
        lost = torch.where(near, pole, 2 - pole)
        # a row of zeros has no sign
        alive = ((self.p > 0) & (self.q > 0)).to(lost)
        self.k = w * alive * torch.where(near, 1 - pole, pole - 1) + b
        self.p, self.q = (w * (x > 0).to(x) + b for x in (self.p, self.q))
        root = self._root()
        gap = torch.where(alive > 0, w * lost, root - b)
        self.u = (gap / root.clamp(min=_tiny(gap))).div_(2).clamp_(min=0, max=1)
        self.back = None
        return torch.zeros_like(lost)


def _half_lune(a, g, u):
    """Return ``(sin th - th cos th) / 2``, by its series where the terms cancel; overwrites g.

    For ``a = th / 2``, ``g = sin(th) / 2`` and ``u = sin(a)^2``.
    """
    g.sub_(a).addcmul_(a, u, value=2)
    if not _backend.holds(a.min() < 0.1):
        return g
    sq = 4 * a * a
    series = a * sq * (1 / 3 - sq * (1 / 30 - sq * (1 / 840 - sq / 45360)))
    return torch.where(a < 0.1, series, g)


def _tilt(signal, b):
    """Return sine and cosine of half the angle ``atan sqrt(b / signal)``, and its cosine."""
    half = torch.atan2(torch.full_like(signal, b**0.5), signal.sqrt()) / 2
    return half.sin(), half.cos(), (signal / (signal + b)).sqrt()


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


def unit_rows(R, w, b, variance):
    """Return the rows ``(w x, sqrt b)`` divided by their length ``sqrt(variance)``."""
    length = variance.sqrt().clamp(min=_tiny(variance))[:, None]
    values = torch.cat([w * R.values, torch.full_like(length, b**0.5)], dim=1) / length
    return Rows(values, values.square().sum(1), w * R.resolution / length[:, 0])
