# SPDX-License-Identifier: BSD-3-Clause
"""Kernel ridge regression on given rows, in one metric after the other.

`AllRows` expands the predictor over all n rows and solves n equations. `OnCenters` expands it
over m of them and minimises over those functions the same error on all rows.
"""

from dataclasses import replace

import torch

from rfmlearn import _backend
from rfmlearn.kernels import RadialKernel
from rfmlearn.kernels._expansion import Predictor
from rfmlearn.kernels._lazy import LazyGram
from rfmlearn.solvers import KernelSystem
from rfmlearn.solvers._centers import CenterSystem


class Problem:
    """What both share.

    Parameters
    ----------
    Y : tensor of shape (n, c)
        Targets.
    weight : tensor of shape (n,) or None
        Positive row weights.
    shift : tensor of shape (d,) or None
        Subtracted from the rows.
    kernel : Kernel
        The kernel.
    """

    def __init__(self, Y, weight, shift, kernel):
        self.Y, self.weight, self.shift, self.kernel = Y, weight, shift, kernel

    def _root(self, metric):
        """Return the root of a metric on the device and in the dtype of the targets.

        A kernel of distances does with a factor, and with as many coordinates as that has columns.
        """
        own = metric.factor if isinstance(self.kernel, RadialKernel) else None
        root = metric.root if own is None else own
        return None if root is None else root.to(self.Y)

    def _bandwidth(self, factor, variance):
        """Return L; with a variance of each coordinate the factor is of its spread."""
        bandwidth = self.Y.new_full((), factor)
        if variance is None:
            return bandwidth
        return bandwidth * self.kernel.spread(variance).to(self.Y)

    def predictor(self, coef):
        """Return the predictor with these coefficients."""
        return Predictor(self.kernel, self.rows, coef, self.root, self.bandwidth, self.shift)


class AllRows(Problem):
    """The full problem.

    Parameters
    ----------
    X : tensor of shape (n, d)
        Rows.
    Y, weight, shift, kernel
        See `Problem`.
    solver : Solver
        The solver.
    dense : bool
        Store the kernel matrix, in one buffer for all metrics.
    """

    def __init__(self, X, Y, weight, shift, kernel, solver, dense=True):
        super().__init__(Y, weight, shift, kernel)
        self.X, self.solver = X if shift is None else X - shift, solver
        self.tol = solver.tol_for(X.dtype)
        self._root_weight = None if weight is None else weight.sqrt()
        self._buffer = X.new_empty((len(X), len(X))) if dense else None
        self._workspace = {}

    def enter(self, metric, spec):
        """Form the system in a metric."""
        self.root = self._root(metric)
        rows = self.kernel.rows(self.X, self.root)
        variance = _variance(rows.values, self.weight) if spec.adaptive else None
        self.bandwidth = self._bandwidth(spec.bandwidth, variance)
        self.rows = rows.divided_by(self.bandwidth)
        if self._buffer is None:
            matrix = LazyGram(self.kernel, self.rows, self._root_weight)
        else:
            matrix = self.kernel.gram(self.rows, out=self._buffer)
            if self._root_weight is not None:
                matrix.mul_(self._root_weight[:, None]).mul_(self._root_weight)
        self._system = KernelSystem(matrix, 0.0, self._root_weight, workspace=self._workspace)

    def solve(self, alpha, tol):
        """Return the solution for a ridge."""
        return self.solver.solve(replace(self._system, alpha=alpha), self.Y, tol=tol)

    def rows_at(self, own):
        """Return rows in the metric and their positions among the rows of the expansion."""
        if isinstance(own, slice):
            return self.rows[own], torch.arange(own.start, own.stop, device=self.Y.device)
        return self.rows[own], own


class OnCenters(Problem):
    """The problem on m centres (Nystrom; Rudi, Carratino and Rosasco, arXiv 1705.10958).

    The rows are read block by block, whenever they are needed, and never all at once.

    Parameters
    ----------
    X : array or tensor of shape (n, d)
        Rows.
    Y, weight, shift, kernel
        See `Problem`.
    centers : tuple of two tensors of indices
        The centres among the rows, and a random sample of the other rows, from which the
        preconditioner is made.
    tol : float, optional
        Relative residual to reach; None is the system's own.
    """

    def __init__(self, X, Y, weight, shift, kernel, centers, tol=None):
        super().__init__(Y, weight, shift, kernel)
        self.X = X
        self._index, self._others = (index.to(Y.device) for index in centers)
        self.centers = self._moved(centers[0])
        self.tol = CenterSystem.tol_for(Y.dtype) if tol is None else tol
        self._covariance = self._moments()

    def _moved(self, own):
        """Return rows as they are in X, less the shift, for a slice or indices."""
        if isinstance(own, torch.Tensor) and not isinstance(self.X, torch.Tensor):
            own = _backend.to_numpy(own)
        X = _backend.to_tensor(self.X[own], self.Y.device, self.Y.dtype)
        return X if self.shift is None else X - self.shift

    def _blocks(self, width, n_rows):
        return _backend.blocks(n_rows, width * self.Y.element_size(), self.Y.device)

    def _moments(self):
        """Return the weighted covariance of the rows, in one pass."""
        d = self.centers.shape[1]
        wide = _backend.wider(self.Y.device)
        total, first, second = 0.0, 0.0, 0.0
        # about a row, so that subtracting the means costs no digits
        origin = self.centers.mean(0)
        for block in self._blocks(d, len(self.Y)):
            X = (self._moved(block) - origin).to(wide)
            w = X.new_ones(len(X)) if self.weight is None else self.weight[block].to(wide)
            total, first = total + w.sum(), first + w @ X
            second = second + (X * w[:, None]).mT @ X
        mean = first / total
        return second / total - torch.outer(mean, mean)

    def enter(self, metric, spec):
        """Form the system in a metric."""
        self.root = self._root(metric)
        variance = self._variance() if spec.adaptive else None
        self.bandwidth = self._bandwidth(spec.bandwidth, variance)
        self.rows = self.kernel.rows(self.centers, self.root, self.bandwidth)
        self._system = CenterSystem(
            self.kernel.gram(self.rows),
            self._stripes,
            self.Y,
            self._index,
            lambda: self._stripes(self._others),
            self.weight,
        )

    def _variance(self):
        """Return the variance of each coordinate of all rows in the metric."""
        C, root = self._covariance, None if self.root is None else self.root.to(self._covariance)
        if root is None:
            variance = C.diagonal()
        elif root.ndim == 1:
            variance = C.diagonal() * root.square()
        else:
            variance = ((C @ root) * root).sum(0)
        return variance.clamp(min=0)

    def _stripes(self, index=None):
        """Yield blocks of rows, all or those of an index, and their kernel matrix."""
        n_rows = len(self.Y) if index is None else len(index)
        for block in self._blocks(len(self.rows), n_rows):
            own = block if index is None else index[block]
            yield own, self.kernel.matrix(self.rows_at(own)[0], self.rows)

    def solve(self, alpha, tol):
        """Return the solution for a ridge."""
        return self._system.solve(alpha, tol)

    def rows_at(self, own):
        """Return rows in the metric; which of them are centres is left to the distance."""
        return self.kernel.rows(self._moved(own), self.root, self.bandwidth), None


def _variance(Z, weight):
    """Return the weighted variance of each column; of patches its mean over positions."""
    share = Z.new_ones(len(Z)) if weight is None else weight
    share = share / share.sum()
    flat = Z.flatten(1)
    variance = share @ (flat - share @ flat).square()
    return variance.reshape(-1, Z.shape[-1]).mean(0)
