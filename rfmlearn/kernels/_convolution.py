# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of infinitely wide convolutional networks of any depth (CNNGP and CNTK).

The recursion of fully connected ones (see `_infinite_width`) with one covariance for each pair of
positions, of which a further convolution takes the mean over its window; both positions move
together. With a flattened read-out only pairs of the same position matter, with average pooling all
(Arora et al. 2019, arXiv 1904.11955; Novak et al. 2019, arXiv 1810.05148).
"""

from dataclasses import dataclass

import torch

from rfmlearn import _backend
from rfmlearn.kernels._angles import Angles, unit_rows
from rfmlearn.kernels._base import root_or_one
from rfmlearn.kernels._patches import Grid, ImageKernel
from rfmlearn.kernels._rows import Rows, own_pairs, squared_distances
from rfmlearn.kernels.activations import DUALS


@dataclass(frozen=True)
class ConvolutionalKernel(ImageKernel):
    """The kernel of a stack of convolutions with relu between them, and a linear read-out.

    Parameters
    ----------
    grid : Grid
        Patches of the first convolution. The others have its window, stride and padding.
    depth : int
        Convolutions.
    tangent : bool
        The tangent kernel, or the covariance of random networks.
    pooling : bool
        Average over positions before the read-out, or flatten them.
    weight_std, bias_std : float
        Scales of all layers; the weights of a window share theirs.

    Raises
    ------
    ValueError
        If the positions run out.
    """

    grid: Grid
    depth: int = 1
    tangent: bool = True
    pooling: bool = False
    weight_std: float = 2.0**0.5
    bias_std: float = 0.1

    centred = True

    def __post_init__(self):
        self._grids()

    def _grids(self):
        grids = [self.grid]
        for _ in range(self.depth - 1):
            grids.append(grids[-1].neighbours())
        return grids

    @property
    def tile_share(self):
        """Smaller tiles: each pair of rows has a covariance for each pair of positions."""
        return 0.5 * self._n_pairs**-0.5

    @property
    def _n_pairs(self):
        return self.grid.positions ** (2 if self.pooling else 1)

    def spread(self, variance):
        """Return the rms of a coordinate (see `NTK`)."""
        return root_or_one(variance.mean())

    def matrix(self, A, B, self_index=None):
        """Return the kernel of every row of A with every row of B (see `Kernel`)."""
        return self._forward(A, B, own_pairs(self_index, slice(0, len(B))))[0]

    def gradients(self, A, B, coef, self_index=None):
        """Return the gradients at each patch as a slot of its own (see `Kernel`).

        By the chain rule backwards through the layers, tile by tile; in a tile the sum over B is
        two products for each position, as in `NTK`.
        """
        P, q, c = self.grid.positions, self.grid.patch_length, coef.shape[1]
        G = A.values.new_zeros((len(A), P, c, q + 1))
        edge = _backend.tile_edge(coef.dtype, coef.device)
        edge = max(int(edge * self.tile_share), 1)
        for rows in _backend.blocks(len(A), 1, coef.device, max_rows=edge):
            for tile in _backend.blocks(len(B), 1, coef.device, max_rows=edge):
                index = None if self_index is None else self_index[rows]
                own = own_pairs(index, tile)
                _, saved = self._forward(A[rows], B[tile], own, slopes=True)
                al, be = self._backward(saved)
                V, a = B.values[tile], coef[tile]
                # (b, positions, c, q): of each pair of positions the second one's patch
                factor = a[:, None, :, None] * V[:, :, None]
                if self.pooling:  # all second positions in one product
                    al = al.unflatten(0, (P, P)).transpose(1, 2).flatten(2)
                    factor = factor.transpose(0, 1).flatten(0, 1).flatten(1).expand(P, -1, -1)
                else:
                    factor = factor.transpose(0, 1).flatten(2)
                G[rows, :, :, :-1] += (al @ factor).unflatten(2, (c, q)).transpose(0, 1)
                G[rows, :, :, -1] += (be @ a).transpose(0, 1)
        G = G.narrow(3, 0, q) + 2 * G.narrow(3, q, 1) * A.values[:, :, None]
        return (self.weight_std**2 / q) * G.transpose(1, 2).flatten(1, 2)

    def _forward(self, A, B, own, slopes=False):
        """Return the kernel of a tile, and what the way back needs."""
        w, b, grids = self.weight_std**2, self.bias_std**2, self._grids()
        (p, q), u = self._start(A, B, own)
        K, T, saved = None, None, []
        for layer in range(self.depth):
            state = Angles.of(DUALS["relu"], *self._of_pairs(p, q), u, K)
            T = state.covariance() if T is None else T
            partials = state.partials() if slopes else None
            m, rest, Edot = state.measure()
            AB = (state.act.c * state.p).sqrt() * (state.act.c * state.q).sqrt()
            E = AB * (rest if state.opposed else 1 - 2 * m)
            each = pairs = None
            if layer < self.depth - 1:
                each = grids[layer + 1].windows(AB.device)
                pairs = self._pair_windows(each, len(p))
            saved.append((partials, T, each, pairs, len(p)))
            K = _mean(E, pairs).mul_(w).add_(b)
            if self.tangent or slopes:
                T = torch.add(K, _mean(Edot * T, pairs), alpha=w)
            if pairs is not None:
                roots = [(w * state.act.c * x).sqrt() for x in (p, q)]
                p, q = (w * state.act.c * _mean(x, each) + b for x in (p, q))
                u = self._angles(_mean(AB * m, pairs).mul_(w), roots, p, q, each)
        return (T if self.tangent else K), saved

    def _start(self, A, B, own):
        """Return the variances of patches, (positions, rows), and the angles of pairs."""
        P, length = self.grid.positions, self.grid.patch_length
        w, b, sides = self.weight_std**2 / length, self.bias_std**2, []
        for R in (A, B):
            flat = Rows(R.values.flatten(0, 1), R.sq_norms.flatten(), R.resolution.flatten())
            variance = w * flat.sq_norms + b
            sides.append((unit_rows(flat, w**0.5, b, variance), variance.reshape(len(R), P).T))
        (left, p), (right, q) = sides
        if self.pooling:
            pairs = None
            if own is not None:
                each = torch.arange(P, device=p.device)
                pairs = tuple((index[:, None] * P + each).flatten() for index in own)
            u = squared_distances(left, right, pairs)[0].div_(4)
            u = u.reshape(len(A), P, len(B), P).permute(1, 3, 0, 2).flatten(0, 1)
        else:
            u = torch.stack(
                [squared_distances(left[s::P], right[s::P], own)[0].div_(4) for s in range(P)]
            )
        return (p, q), u.clamp_(max=1)

    def _of_pairs(self, first, second):
        """Return numbers of positions and rows as those of pairs: (pairs, a, 1), (pairs, 1, b)."""
        if self.pooling:
            n = len(first)
            first, second = first.repeat_interleave(n, 0), second.repeat(n, 1)
        return first[:, :, None], second[:, None]

    def _pair_windows(self, each, n_positions):
        """Return the windows of pairs of positions from those of one."""
        if not self.pooling:
            return each
        first, second = each[:, None], each[None]
        both = torch.where((first >= 0) & (second >= 0), first * n_positions + second, -1)
        return both.flatten(0, 1)

    def _angles(self, lost, roots, p, q, each):
        """Return u one layer on, without the difference of large terms.

        To what the activation takes from the covariance comes a quarter of the squared distance of
        the unit vectors that the roots of all variances in a window are.
        """
        tiny = torch.finfo(lost.dtype).tiny
        lengths = [x.clamp(min=tiny).sqrt() for x in (p, q)]
        left, right = self._of_pairs(*lengths)
        bias, n = self.bias_std, each.shape[1]
        u = lost / (left * right)
        u += (bias / left - bias / right).square_().div_(4)
        for members in zip(*(_members(x, each) for x in roots)):
            first, second = self._of_pairs(*(x / y for x, y in zip(members, lengths)))
            u += (first - second).square_().div_(4 * n)
        return u.clamp_(min=0, max=1)

    def _backward(self, saved):
        """Return the derivatives by the covariance and by the first variance of the first layer.

        The first of pairs, the second of positions: summed over the second one of a pair.
        """
        w, (Edot, *_) = self.weight_std**2, saved[-1][0]
        one = Edot.new_ones((1, *Edot.shape[1:]))
        gk, gT, gp = (0 * one, one, 0 * one) if self.tangent else (one, 0 * one, 0 * one)
        for partials, T, each, pairs, P in reversed(saved):
            Edot, E_p, E_k, Edot_k, Edot_p, _ = partials
            gE = w * _spread(gk + gT, pairs, len(Edot))
            below = w * _spread(gp, each, P)
            gk, own = gE * E_k, gE * E_p
            if self.tangent:
                gS = w * _spread(gT, pairs, len(Edot))
                gEdot, gT = gS * T, gS * Edot
                gk, own = gk + gEdot * Edot_k, own + gEdot * Edot_p
            else:
                gT = 0 * gk
            if self.pooling:
                own = own.unflatten(0, (P, P)).sum(1)
            gp = own + below * DUALS["relu"].c
        return gk + gT, gp  # the tangent kernel of the first layer is its covariance


def _mean(E, window):
    """Return the mean over each window, 0 in the padding; over all without windows."""
    if window is None:
        return E.mean(0)
    return sum(_members(E, window)) / window.shape[1]


def _members(E, window):
    """Yield the first member of all windows, the second, and so on; 0 in the padding."""
    padded = torch.cat([E, torch.zeros_like(E[:1])])
    for column in window.T:  # -1 is the last one
        yield padded.index_select(0, column % len(padded))


def _spread(G, window, n):
    """Return the transpose of `_mean`: the share of each of n in the windows it is in."""
    if window is None:
        return (G / n).expand(n, *G.shape[1:])
    out = G.new_zeros((n + 1, *G.shape[1:]))
    for column in window.T:
        out.index_add_(0, column % (n + 1), G)
    return out[:-1] / window.shape[1]
