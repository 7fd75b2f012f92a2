# SPDX-License-Identifier: BSD-3-Clause
"""What both Recursive Feature Machines on image patches share."""

from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rfmlearn import _backend
from rfmlearn._base._params import listed
from rfmlearn._base._sklearn import Interval, StrOptions
from rfmlearn._typing import ArrayLike, RandomState, Sequence
from rfmlearn.features import top_directions
from rfmlearn.kernels import NNGP, NTK, Laplace
from rfmlearn.kernels._convolution import ConvolutionalKernel
from rfmlearn.kernels._patches import Grid, PatchKernel
from rfmlearn.rfm._machine import BaseKernelMachine
from rfmlearn.solvers import Solver

# The scales of the kernels: those that keep the size of a signal through relu.
_SCALES = {"weight_std": 2.0**0.5, "bias_std": 0.1}

# Parameters of the recursion on rows that images do not have: M is full, and L follows it, so that
# the scale of M has no effect.
_OF_ROWS = {
    "bandwidth_mode", "diag", "agop_alpha", "agop_outputs", "n_centers", "matrix_scaling",
}  # fmt: skip


class BaseConvRFM(BaseKernelMachine):
    """The parameters and the geometry; a subclass adds a task."""

    _parameter_constraints = {
        **{
            name: constraint
            for name, constraint in BaseKernelMachine._parameter_constraints.items()
            if name not in _OF_ROWS
        },
        "image_shape": ["array-like", None],
        "patch_size": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "stride": [Interval(Integral, 1, None, closed="left")],
        "padding": [Interval(Integral, 0, None, closed="left")],
        "kernel": [StrOptions({"cntk", "cnngp", "patch_laplace"})],
        "depth": [Interval(Integral, 1, None, closed="left")],
        "pooling": [StrOptions({"flatten", "mean"})],
    }

    def __init__(
        self,
        image_shape: Sequence[int] | None = None,
        *,
        patch_size: int | Sequence[int] = 3,
        stride: int = 1,
        padding: int = 0,
        kernel: str = "cntk",
        depth: int = 1,
        pooling: str = "flatten",
        bandwidth: float = 1.0,
        alpha: float = 1e-3,
        max_iter: int = 3,
        agop_power: float = 0.5,
        center_gradients: bool = False,
        n_agop_samples: int | None = None,
        solver: str | Solver = "auto",
        memory_budget: int | None = None,
        tol: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 2,
        warm_start: bool = False,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        self.image_shape = image_shape
        self.patch_size = patch_size
        self.stride = stride
        self.padding = padding
        self.kernel = kernel
        self.depth = depth
        self.pooling = pooling
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.max_iter = max_iter
        self.agop_power = agop_power
        self.center_gradients = center_gradients
        self.n_agop_samples = n_agop_samples
        self.solver = solver
        self.memory_budget = memory_budget
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state

    def _validate(self, X, y, reset):
        """Return validated X and y; say how images are passed."""
        shape = tuple(getattr(X, "shape", ()))
        if len(shape) > 2:
            image = (1,) * (4 - len(shape)) + shape[1:]
            raise ValueError(
                f"X has shape {shape}; pass images as rows of pixels, X.reshape(len(X), -1), and "
                f"image_shape={image} as (channels, height, width)."
            )
        return super()._validate(X, y, reset)

    def _grid(self, n_features):
        """Return how images of so many pixels are cut."""
        given = (1, 1, n_features) if self.image_shape is None else self.image_shape
        shape = listed("image_shape", given, Integral, "whole number")
        if len(shape) != 3 or min(shape) < 1 or np.prod(shape) != n_features:
            raise ValueError(
                f"image_shape={self.image_shape!r} must be (channels, height, width) of the "
                f"{n_features} features of X."
            )
        edges = listed("patch_size", self.patch_size, Integral, "whole number")
        if len(edges) not in (1, 2) or min(edges) < 1:
            raise ValueError(
                f"patch_size={self.patch_size!r} must be one positive number, or height and width."
            )
        edges = (edges[0], edges[-1])
        if self.image_shape is None:  # a row of pixels, perhaps shorter than a patch
            edges = (1, min(edges[1], n_features + 2 * self.padding))
            return Grid(shape, tuple(map(int, edges)), int(self.stride), (0, int(self.padding)))
        padding = (int(self.padding),) * 2
        return Grid(shape, tuple(map(int, edges)), int(self.stride), padding)

    def _resolve_kernel(self, n_features):
        grid, pooled = self._grid(n_features), self.pooling == "mean"
        if self.kernel == "patch_laplace":
            if self.depth != 1 or pooled:
                raise ValueError(
                    "kernel='patch_laplace' has one layer and no pooling: depth=1, "
                    f"pooling='flatten'; got depth={self.depth}, pooling={self.pooling!r}."
                )
            return PatchKernel(grid, Laplace())
        if self.depth == 1 and not pooled:
            kind = NTK if self.kernel == "cntk" else NNGP
            return PatchKernel(grid, kind(1, "relu", **_SCALES))
        return ConvolutionalKernel(grid, int(self.depth), self.kernel == "cntk", pooled, **_SCALES)

    def _geometry_facts(self, kernel):
        """Return how images are cut (see `BaseKernelMachine`)."""
        return {"patches": kernel.grid}

    def _attributes(self, state, history, X, targets, diag, flat):
        fitted = super()._attributes(state, history, X, targets, diag, flat)
        grid = state.predictor.kernel.grid
        M = fitted["_matrix"].dense()
        filters, strengths = top_directions(M)
        weights = _backend.to_tensor(M.diagonal().astype(np.float64))
        pixels = _backend.to_numpy(grid.fold(weights.repeat(1, grid.positions, 1)))[0]
        return {
            **fitted,
            "feature_importances_": pixels / pixels.sum(),
            "components_": filters.reshape(len(filters), grid.image_shape[0], *grid.patch),
            "strengths_": strengths,
        }

    def _on_patches(self, X, root, function):
        """Return what a function of grid and patches times a matrix gives, block by block."""
        X = self._check(X).astype(self.X_fit_.dtype, copy=False)
        grid, device = self.kernel_.grid, _backend.resolve_device(self.device)
        root = None if root is None else _backend.to_tensor(root, device)
        row_bytes = grid.positions * grid.patch_length * X.itemsize
        parts = []
        for block in _backend.blocks(len(X), row_bytes, device):
            U = grid.unfold(_backend.to_tensor(X[block], device))
            parts.append(_backend.to_numpy(function(grid, U if root is None else U @ root)))
        return np.concatenate(parts)

    @_backend.isolated
    def transform(self, X: ArrayLike, n_components: int | None = None) -> np.ndarray:
        """Return images whose patches are those of X in the learned metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images, as rows of pixels.
        n_components : int, default=None
            None gives images: each patch times ``M^(1/2)``, and where patches overlap their mean.
            k gives the responses of the k leading filters, each times the root of its
            eigenvalue, at every position (not with ``set_output``).

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_components, rows, columns)
            In the dtype of the fitted model. Pixels that no patch covers are 0.

        Raises
        ------
        ValueError
            If `n_components` is out of range, or is given under `set_output`.
        """
        check_is_fitted(self, "dual_coef_")
        if n_components is None:
            return self._on_patches(X, self._metric_root, _assembled)
        self._refuse_frames()
        directions, strengths = top_directions(self.feature_matrix_, n_components)
        filters = (directions * np.sqrt(strengths)[:, None]).T
        return self._on_patches(
            X, filters, lambda grid, U: U.mT.reshape(len(U), n_components, *grid.size)
        )

    @_backend.isolated
    def patch_norms(self, X: ArrayLike) -> np.ndarray:
        """Lengths of patches in the learned metric: a map of what the predictor looks at.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Images, as rows of pixels.

        Returns
        -------
        ndarray of shape (n_samples, rows, columns)
            ``sqrt(x^T M x)`` of the patch x at every position.
        """
        check_is_fitted(self, "dual_coef_")
        return self._on_patches(
            X, self._metric_root, lambda grid, U: U.norm(dim=2).reshape(len(U), *grid.size)
        )


def _assembled(grid, U):
    """Return images of patches, the mean where they overlap."""
    covered = grid.fold(U.new_ones((1, *U.shape[1:])))
    return grid.fold(U) / covered.clamp(min=1)
