# SPDX-License-Identifier: BSD-3-Clause
"""Displays of one feature matrix."""

from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rfmlearn._typing import Any, ArrayLike, Self, Sequence
from rfmlearn.features import top_directions
from rfmlearn.inspection._axes import COLOURS, axes
from rfmlearn.inspection._checks import check_count, check_length, check_matrix


def _feature_matrix(estimator, layer):
    """Return the feature matrix of a fitted estimator of this package."""
    if hasattr(estimator, "feature_matrix_"):
        return estimator.feature_matrix_
    if hasattr(estimator, "feature_matrices_"):
        layer = estimator.layer if layer is None else layer
        agop = estimator.matrix == "agop"
        matrices = estimator.gradient_matrices_ if agop else estimator.feature_matrices_
        if not isinstance(layer, Integral) or not -len(matrices) <= layer < len(matrices):
            raise ValueError(
                f"layer={layer!r} must be one of the {len(matrices)} layers, by number."
            )
        return matrices[layer]
    check_is_fitted(estimator)
    raise TypeError(
        f"{type(estimator).__name__} has no feature matrix. Pass a fitted RFMRegressor, "
        "RFMClassifier, one of their CV forms, or an NFMTransformer."
    )


class _MatrixDisplay:
    """What the displays of one feature matrix share."""

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, layer: int | None = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw the feature matrix of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted RFM, an `NFMTransformer`, or a `Pipeline` that ends in one.
        layer : int, default=None
            Of an `NFMTransformer`; None is the layer that it maps by.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **options
            Other parameters of the display.

        Returns
        -------
        display
            The display, drawn.

        Raises
        ------
        TypeError
            If the estimator has no feature matrix.
        """
        if hasattr(estimator, "steps"):
            estimator = estimator[-1]
        M = _feature_matrix(estimator, layer)
        display: Any = cls
        return display(M, **{**cls._named(estimator, M), **options}).plot(ax)

    @classmethod
    def _named(cls, estimator, M):
        """Return the options that the names of the features make."""
        return {}


class FeatureMatrixDisplay(_MatrixDisplay):
    """Draw a feature matrix: its entries, its diagonal as an image, or its eigenvectors.

    Parameters
    ----------
    feature_matrix : ndarray of shape (d, d) or (d,)
        The matrix, or its diagonal.
    kind : {"auto", "matrix", "diagonal", "eigenvectors"}, default="auto"
        "auto" draws the diagonal where `image_shape` is given or there is no more, else the
        matrix.
    image_shape : tuple of int, default=None
        Height and width, or height, width and channels, of the images whose pixels, row by row,
        are the features.
    n_eigenvectors : int, default=4
        How many leading eigenvectors "eigenvectors" draws.
    feature_names : sequence of str, default=None
        Names of the features, written where there are at most 30.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot, the first with several images.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn.inspection import FeatureMatrixDisplay
    >>> display = FeatureMatrixDisplay(np.diag([3.0, 1.0])).plot()
    >>> display.ax_.get_xlabel()
    'feature'
    """

    def __init__(
        self,
        feature_matrix: ArrayLike,
        *,
        kind: str = "auto",
        image_shape: Sequence[int] | None = None,
        n_eigenvectors: int = 4,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self.feature_matrix = np.asarray(feature_matrix)
        self.kind = kind
        self.image_shape = image_shape
        self.n_eigenvectors = n_eigenvectors
        self.feature_names = feature_names

    @classmethod
    def _named(cls, estimator, M):
        names = getattr(estimator, "feature_names_in_", None)
        return {} if names is None or len(names) != len(M) else {"feature_names": names}

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        self
            With `ax_` and `figure_`.

        Raises
        ------
        ValueError
            If the matrix is none, the kind is unknown, or `image_shape` or the names do not fit.
        """
        M, kind = check_matrix(self.feature_matrix), self.kind
        check_count(self.n_eigenvectors, "n_eigenvectors", optional=False)
        check_length(self.feature_names, len(M), "feature_names", "features")
        if kind not in ("auto", "matrix", "diagonal", "eigenvectors"):
            raise ValueError(
                f"kind={kind!r} must be 'auto', 'matrix', 'diagonal' or 'eigenvectors'."
            )
        self._check_image_shape(len(M))
        if kind == "auto":
            kind = "diagonal" if self.image_shape is not None or M.ndim == 1 else "matrix"
        diagonal = M if M.ndim == 1 else M.diagonal()
        if kind == "eigenvectors":
            self._eigenvectors(ax)
        elif kind == "diagonal" and self.image_shape is not None:
            self.ax_ = axes(ax)
            self._image(self.ax_, diagonal, "viridis")
            self.ax_.set_title("diagonal of the feature matrix")
        elif kind == "diagonal":
            self.ax_ = axes(ax)
            self._bars(diagonal)
        else:
            self.ax_ = axes(ax)
            self._entries(M if M.ndim == 2 else np.diag(M))
        self.figure_ = self.ax_.figure
        return self

    def _check_image_shape(self, d):
        shape = self.image_shape
        if shape is None:
            return
        sides = np.atleast_1d(shape)
        if sides.dtype.kind not in "iu" or len(sides) not in (2, 3) or (sides < 1).any():
            raise ValueError(
                f"image_shape={shape!r} must be (height, width) or (height, width, channels)."
            )
        if np.prod(sides) != d:
            raise ValueError(
                f"image_shape={shape!r} has {np.prod(sides)} pixels; the matrix has {d} features."
            )

    def _entries(self, M):
        limit = np.abs(M).max() or 1.0
        image = self.ax_.imshow(M, cmap="RdBu_r", vmin=-limit, vmax=limit)
        self.ax_.figure.colorbar(image, ax=self.ax_, label="entry")
        self.ax_.set(xlabel="feature", ylabel="feature")
        if self.feature_names is not None and len(M) <= 30:
            self.ax_.set_xticks(range(len(M)), self.feature_names, rotation=90)
            self.ax_.set_yticks(range(len(M)), self.feature_names)

    def _bars(self, diagonal):
        order = np.argsort(diagonal)[::-1][:30]
        names = np.arange(len(diagonal)) if self.feature_names is None else self.feature_names
        self.ax_.barh(range(len(order)), diagonal[order], color=COLOURS[0])
        self.ax_.set_yticks(range(len(order)), [str(names[i]) for i in order])
        self.ax_.invert_yaxis()
        self.ax_.set(xlabel="diagonal of the feature matrix", ylabel="feature")

    def _image(self, ax, values, cmap, limit=None):
        pixels = np.asarray(values).reshape(self.image_shape)
        if pixels.ndim == 3:  # channels add up
            pixels = pixels.sum(axis=-1)
        low = None if limit is None else -limit
        image = ax.imshow(pixels, cmap=cmap, vmin=low, vmax=limit)
        ax.set(xticks=[], yticks=[])
        if limit is None:
            ax.figure.colorbar(image, ax=ax)

    def _eigenvectors(self, ax):
        count = min(self.n_eigenvectors, len(self.feature_matrix))
        directions, strengths = top_directions(self.feature_matrix, count)
        M = self.feature_matrix
        shares = strengths / ((M.trace() if M.ndim == 2 else M.sum()) or 1.0)
        if self.image_shape is None:
            self.ax_ = axes(ax)
            for k, direction in enumerate(directions):
                colour = COLOURS[k % len(COLOURS)]
                label = f"{k + 1}: {strengths[k]:.2g}"
                self.ax_.plot(direction, marker="o", markersize=3, color=colour, label=label)
            self.ax_.legend(title="eigenvalue", frameon=False)
            self.ax_.set(xlabel="feature", ylabel="entry of the eigenvector")
            if self.feature_names is not None and len(directions.T) <= 30:
                self.ax_.set_xticks(range(len(directions.T)), self.feature_names, rotation=90)
            return
        if ax is None:
            import matplotlib.pyplot as plt

            _, panels = plt.subplots(
                1, count, figsize=(2.2 * count, 2.4), layout="constrained", squeeze=False
            )
            panels = panels[0]
        else:  # side by side within the axes given
            ax.set_axis_off()
            panels = [ax.inset_axes([k / count, 0, 0.94 / count, 1]) for k in range(count)]
        for k, panel in enumerate(panels):
            self._image(panel, directions[k], "RdBu_r", np.abs(directions[k]).max())
            panel.set_title(f"{k + 1}: {shares[k]:.0%}", fontsize=9)
        self.ax_ = panels[0] if ax is None else ax


class FeatureSpectrumDisplay(_MatrixDisplay):
    """Draw the eigenvalues of a feature matrix: how many directions it uses.

    Parameters
    ----------
    feature_matrix : ndarray of shape (d, d) or (d,)
        The matrix, or its diagonal.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn.inspection import FeatureSpectrumDisplay
    >>> display = FeatureSpectrumDisplay(np.diag([3.0, 1.0])).plot()
    >>> display.ax_.get_ylabel()
    'share of the trace'
    """

    def __init__(self, feature_matrix: ArrayLike) -> None:
        self.feature_matrix = np.asarray(feature_matrix)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        self
            With `ax_` and `figure_`.

        Raises
        ------
        ValueError
            If the matrix is none.
        """
        _, strengths = top_directions(check_matrix(self.feature_matrix))
        shares = strengths / (strengths.sum() or 1.0)
        number = np.arange(1, len(shares) + 1)
        seen = shares > 0  # a logarithm shows no zeros
        self.ax_ = axes(ax)
        self.ax_.plot(number[seen], shares[seen], marker="o", markersize=4, color=COLOURS[0])
        self.ax_.set_yscale("log")
        self.ax_.set(xlabel="eigenvalue number", ylabel="share of the trace")
        self.figure_ = self.ax_.figure
        return self
