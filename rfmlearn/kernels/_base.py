# SPDX-License-Identifier: BSD-3-Clause
"""The kernel protocol, and what all kernels of a distance share.

A kernel is a function of two rows and nothing else: metric and bandwidth are in the rows,
``u = x S / L`` with ``S = M^(1/2)``. Gradients are with respect to ``u``; whoever made
the rows applies the chain rule.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, TypeVar

import torch

from rfmlearn import _backend
from rfmlearn.kernels._geometry import geometry_of
from rfmlearn.kernels._rows import Rows, own_pairs, squared_distances

KERNELS: dict[str, type["Kernel"]] = {}
K = TypeVar("K", bound="Kernel")


def register(kernel_class: type[K]) -> type[K]:
    """Make a kernel class available under its ``name``.

    Parameters
    ----------
    kernel_class : type
        Subclass of `Kernel` that can be made without arguments.

    Returns
    -------
    type
        The class itself: use it as a decorator.
    """
    KERNELS[kernel_class.name] = kernel_class
    return kernel_class


def resolve_kernel(kernel: "str | Kernel") -> "Kernel":
    """Return the kernel that a name or a kernel object stands for.

    Parameters
    ----------
    kernel : str or Kernel
        Registered name, or an object, which is returned as it is.

    Returns
    -------
    Kernel
        The kernel.
    """
    return KERNELS[kernel]() if isinstance(kernel, str) else kernel


def root_or_one(square):
    """Return the square root of a 0-d tensor, 1 where it is not positive."""
    return torch.where(square > 0, square, torch.ones_like(square)).sqrt()


class Kernel(ABC):
    """What the recursion asks of a kernel.

    Subclasses give `matrix` and `gradients`. `translation_invariant` says that the kernel
    depends on differences only, so that the data may be centred first, which saves digits;
    `centred` that it sees the origin, which is to be the mean of the training rows;
    `rotation_invariant` that it does not see the axes. `tile_share` is the edge of its tiles in
    units of the usual one: less than 1 where many intermediate results are to stay in the cache.
    """

    name: ClassVar[str]  # of those that are registered
    translation_invariant = False
    centred = False
    rotation_invariant = True
    tile_share = 1.0

    def rows(
        self,
        X: torch.Tensor,
        root: torch.Tensor | None = None,
        bandwidth: float | torch.Tensor = 1.0,
    ) -> Rows:
        """Return rows in the metric.

        Parameters
        ----------
        X : tensor of shape (n, d)
            Data.
        root : tensor, optional
            Root of the metric, or its diagonal; None is the identity.
        bandwidth : float or 0-d tensor, default=1.0
            L.

        Returns
        -------
        Rows
            ``X root / bandwidth``, of images patch by patch.
        """
        return geometry_of(self).rows(X, root, bandwidth)

    def spread(self, variance: torch.Tensor) -> torch.Tensor:
        """Return the length that an adaptive bandwidth is measured in.

        The root mean square distance of two rows drawn by weight: the mean over all pairs
        without forming any.

        Parameters
        ----------
        variance : tensor of shape (d,)
            Weighted variance of each coordinate of the rows in the metric.

        Returns
        -------
        0-d tensor
            Positive; 1 where all rows are equal.
        """
        return root_or_one(2 * variance.sum())

    @abstractmethod
    def matrix(self, A: Rows, B: Rows, self_index: torch.Tensor | None = None) -> torch.Tensor:
        """Return the kernel of every row of A with every row of B.

        Parameters
        ----------
        A, B : Rows
            a and b rows.
        self_index : tensor of shape (a,), optional
            The position in B of each row of A, when A was taken from B.

        Returns
        -------
        tensor of shape (a, b)
            Values of the kernel.
        """

    @abstractmethod
    def gradients(
        self, A: Rows, B: Rows, coef: torch.Tensor, self_index: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return ``sum_j coef[j, c] grad_u k(u, v_j)`` at each row u of A.

        The term of a row that coincides with u counts as 0, also where the kernel has a
        kink there.

        Parameters
        ----------
        A, B : Rows
            a and b rows.
        coef : tensor of shape (b, c)
            Dual coefficients.
        self_index : tensor of shape (a,), optional
            The position in B of each row of A, when A was taken from B.

        Returns
        -------
        tensor of shape (a, c, d)
            Gradients with respect to the coordinates of the rows.
        """

    def gram(self, rows: Rows, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return the symmetric kernel matrix of `rows`, each pair computed once.

        Parameters
        ----------
        rows : Rows
            n rows.
        out : tensor of shape (n, n), optional
            Where to put it.

        Returns
        -------
        tensor of shape (n, n)
            Exactly symmetric.
        """
        n = len(rows)
        device = rows.values.device
        K = rows.values.new_empty((n, n)) if out is None else out
        # half the edge: a tile, its transpose and what is written to stay in the cache
        edge = max(int(_backend.tile_edge(K.dtype, device) * self.tile_share / 2), 1)
        tiles = list(_backend.blocks(n, 1, device, max_rows=edge))
        for k, i in enumerate(tiles):
            for j in tiles[:k]:
                T = self.matrix(rows[i], rows[j])
                K[i, j] = T
                K[j, i] = T.T
            own = torch.arange(i.stop - i.start, device=device)
            T = self.matrix(rows[i], rows[i], own)
            K[i, i] = T.tril() + T.tril(-1).T
        return K


class RadialKernel(Kernel):
    """A kernel ``phi(r)`` of the distance r.

    Subclasses give `value_` and `slope_`; both may overwrite their argument.
    """

    translation_invariant = True

    @abstractmethod
    def value_(self, sq: torch.Tensor) -> torch.Tensor:
        """Return ``phi(r)``.

        Parameters
        ----------
        sq : tensor
            Squared distances; may be overwritten.

        Returns
        -------
        tensor
            Of the same shape.
        """

    @abstractmethod
    def slope_(self, sq: torch.Tensor) -> torch.Tensor:
        """Return ``phi'(r) / r``; what it gives at r = 0 is not used.

        Parameters
        ----------
        sq : tensor
            Squared distances; may be overwritten.

        Returns
        -------
        tensor
            Of the same shape.
        """

    def matrix(self, A: Rows, B: Rows, self_index: torch.Tensor | None = None) -> torch.Tensor:
        """Return the kernel of every row of A with every row of B (see `Kernel`)."""
        sq, _ = squared_distances(A, B, own_pairs(self_index, slice(0, len(B))))
        return self.value_(sq)

    def gradients(
        self, A: Rows, B: Rows, coef: torch.Tensor, self_index: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the gradients of the kernel expansion (see `Kernel`).

        With ``W_ij = phi'(r_ij) / r_ij`` the sum is ``u_i (W coef)_i - (W (coef v))_i``:
        one product ``W [coef_1 V | ... | coef_c V | coef]``, tile by tile over the rows of B
        and its outputs taken in groups, so that both factors stay small.
        """
        d, c = B.values.shape[1], coef.shape[1]
        P = B.values.new_zeros((len(A), c, d + 1))
        item, device = P.element_size(), P.device
        for tile in _backend.blocks(len(B), len(A) * item, device):
            own, V = own_pairs(self_index, tile), B.values[tile]
            sq, coincident = squared_distances(A, B[tile], own)
            W = self.slope_(sq)
            W[coincident] = 0
            row_bytes = len(V) * (d + 1) * item
            for group in _backend.blocks(c, row_bytes, device, min_rows=1):
                a = coef[tile, group].unsqueeze(2)
                factor = torch.cat([a * V.unsqueeze(1), a], dim=2)
                P[:, group] += (W @ factor.flatten(1)).unflatten(1, factor.shape[1:])
        return P[:, :, -1:] * A.values[:, None] - P[:, :, :-1]
