# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of infinitely wide networks, by recursion over the layers.

With ``K = w^2 x.z / d + b^2`` of the inputs, and in each hidden layer ``K <- w^2 E + b^2`` and
``T <- K + w^2 Edot T``, E and Edot the duals of the activation, K is the covariance of the outputs
of random networks (NNGP) and T their neural tangent kernel (Jacot, Gabriel and Hongler, arXiv
1806.07572; NTK parametrisation).

For activations with a kink the recursion carries ``u = (1 - cos th) / 2``, th the angle of two
rows, instead of a cosine: it starts as a quarter of the squared chord of two unit vectors, and each
layer maps it without the difference of two numbers near 1. A rounded cosine would lose half the
digits of close rows.
"""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import torch

from rfmlearn import _backend
from rfmlearn.kernels._angles import Angles, Covariances, SignAngles
from rfmlearn.kernels._base import Kernel, register, root_or_one
from rfmlearn.kernels._rows import Rows, own_pairs
from rfmlearn.kernels.activations import DUALS, Homogeneous, Sign, Smooth


@dataclass(frozen=True)
class _InfiniteWidth(Kernel):
    """What both kernels share; a subclass says which of K and T it is."""

    depth: int = 2
    activation: str | Homogeneous | Sign | Smooth = "relu"
    weight_std: float | tuple | None = None
    bias_std: float | tuple = 0.1

    tangent: ClassVar[bool] = False
    centred = True
    tile_share = 0.75

    def __post_init__(self):
        known = isinstance(self.activation, str) and self.activation in DUALS
        if not (known or hasattr(self.activation, "weight_std")):
            raise ValueError(
                f"activation={self.activation!r} must be one of {sorted(DUALS)}, or an object of "
                "rfmlearn.kernels.activations."
            )
        if not isinstance(self.depth, Integral) or self.depth < 0:
            raise ValueError(f"depth={self.depth!r} must be a number of hidden layers.")
        for name, least in (("weight_std", "positive"), ("bias_std", "not negative")):
            value = getattr(self, name)
            if value is None and name == "weight_std":
                continue
            values = value if isinstance(value, tuple | list) else (value,)
            if len(values) not in (1, self.depth + 1):
                raise ValueError(f"{name} must be one number, or depth + 1 of them: {value!r}.")
            if not all(
                isinstance(v, Real) and 0 <= v < 1e100 and (v > 0 or least != "positive")
                for v in values
            ):
                raise ValueError(f"{name}={value!r} must be {least} and below 1e100.")

    def _scales(self):
        """Return the activation and, for each of depth + 1 dense layers, w^2 and b^2."""
        act = DUALS[self.activation] if isinstance(self.activation, str) else self.activation

        def squares(value):
            many = isinstance(value, tuple | list)
            return [v**2 for v in value] if many else [value**2] * (self.depth + 1)

        w = act.weight_std if self.weight_std is None else self.weight_std
        return act, squares(w), squares(self.bias_std)

    def spread(self, variance: torch.Tensor) -> torch.Tensor:
        """Return the rms of a coordinate, so that ``x.x / d`` is 1 on average (see `Kernel`)."""
        return root_or_one(variance.mean())

    def matrix(self, A: Rows, B: Rows, self_index: torch.Tensor | None = None) -> torch.Tensor:
        """Return the kernel of every row of A with every row of B (see `Kernel`)."""
        own = own_pairs(self_index, slice(0, len(B)))
        return self._layers(A, B, own)

    def diagonal(self, A: Rows) -> torch.Tensor:
        """Return the kernel of every row with itself.

        Parameters
        ----------
        A : Rows
            a rows.

        Returns
        -------
        tensor of shape (a,)
            The diagonal of `gram`.
        """
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

    def gradients(
        self, A: Rows, B: Rows, coef: torch.Tensor, self_index: torch.Tensor | None = None
    ) -> torch.Tensor:
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
            al, be = self._layers(A, B[tile], own_pairs(self_index, tile), slopes=True)
            for group in _backend.blocks(c, len(V) * (d + 1) * item, device, min_rows=1):
                a = coef[tile, group]
                factor = (a.unsqueeze(2) * V.unsqueeze(1)).flatten(1)
                P[:, group, :-1] += (al @ factor).unflatten(1, (-1, d))
                P[:, group, -1] += be @ a
        return (w / d) * (P[:, :, :-1] + 2 * P[:, :, -1:] * A.values[:, None])

    def _layers(self, A, B, own, slopes=False):
        """Return the kernel, or with `slopes` its derivatives (al, be), of tiles of rows."""
        act, w, b = self._scales()
        d = A.values.shape[1]
        p = (w[0] / d * A.sq_norms + b[0])[:, None]
        q = (w[0] / d * B.sq_norms + b[0])[None]
        if isinstance(act, Homogeneous | Sign):
            kind = Angles if isinstance(act, Homogeneous) else SignAngles
            state = kind(act, A, B, own, (w[0] / d) ** 0.5, b[0], p, q)
        else:
            state = Covariances(act, A, B, w[0] / d, b[0], p, q)
        T = state.covariance() if self.tangent or slopes else None
        if slopes:
            k_k = T_k = torch.ones_like(T)
            k_p = T_p = torch.zeros_like(T)
            p_p = torch.ones_like(p)
        for wl, bl in zip(w[1:], b[1:]):
            if slopes:
                E_k, E_p, Edot, Edot_k, Edot_p, E_d = state.partials()
                T_k = wl * (Edot_k * k_k * T + Edot * T_k)
                T_p = wl * ((Edot_k * k_p + Edot_p * p_p) * T + Edot * T_p)
                k_k, k_p = wl * E_k * k_k, wl * (E_k * k_p + E_p * p_p)
                T_k, T_p, p_p = T_k + k_k, T_p + k_p, wl * E_d * p_p
            Edot = state.advance(wl, bl)
            if T is not None:
                T = torch.addcmul(state.covariance(), Edot, T, value=wl)
        if slopes:
            return (T_k, T_p) if self.tangent else (k_k, k_p)
        return T if self.tangent else state.covariance()


@register
@dataclass(frozen=True)
class NNGP(_InfiniteWidth):
    """The kernel of the Gaussian process that infinitely wide random networks are.

    Parameters
    ----------
    depth : int, default=2
        Hidden layers; 0 is the linear kernel.
    activation : str or activation object, default="relu"
        "relu", "leaky_relu" (slope 0.01), "abs", "identity", "erf", "sin", "cos", "rbf", "gelu",
        "gaussian", "sigmoid_like", "exp", "gabor", "sign", "relu_squared", "monomial2",
        "monomial3", or an object of `rfmlearn.kernels.activations`.
    weight_std : float or tuple of float, default=None
        Weight scale w, of all layers or of each of the ``depth + 1`` dense ones. None keeps the
        size of a signal: sqrt(2) for relu and gelu, 1 for bounded activations.
    bias_std : float or tuple of float, default=0.1
        Bias scale b, of all layers or of each of the ``depth + 1``.

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
    activation : str or activation object, default="relu"
        "relu", "leaky_relu" (slope 0.01), "abs", "identity", "erf", "sin", "cos", "rbf", "gelu",
        "gaussian", "sigmoid_like", "exp", "gabor", "sign", "relu_squared", "monomial2",
        "monomial3", or an object of `rfmlearn.kernels.activations`.
    weight_std : float or tuple of float, default=None
        Weight scale w, of all layers or of each of the ``depth + 1`` dense ones. None keeps the
        size of a signal: sqrt(2) for relu and gelu, 1 for bounded activations.
    bias_std : float or tuple of float, default=0.1
        Bias scale b, of all layers or of each of the ``depth + 1``.

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
