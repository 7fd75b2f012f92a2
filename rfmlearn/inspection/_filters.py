# SPDX-License-Identifier: BSD-3-Clause
"""Filters of image patches, side by side."""

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from rfmlearn._typing import Any, ArrayLike, Self
from rfmlearn.inspection._axes import axes
from rfmlearn.inspection._checks import check_count


class FilterDisplay:
    """Draw filters as images.

    Parameters
    ----------
    filters : ndarray of shape (n_filters, channels, height, width)
        Three channels are drawn as colours around grey, one in red and blue around white; of
        other numbers the mean over channels is drawn.
    n_columns : int, default=None
        Filters in a row; None makes about a square.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn.inspection import FilterDisplay
    >>> display = FilterDisplay(np.eye(9).reshape(9, 1, 3, 3)).plot()
    >>> display.ax_.images[0].get_array().shape
    (13, 13)
    """

    def __init__(self, filters: ArrayLike, *, n_columns: int | None = None) -> None:
        self.filters = np.asarray(filters)
        self.n_columns = n_columns

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        n_filters: int | None = None,
        n_columns: int | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw what an estimator or a network looks for in patches.

        Parameters
        ----------
        estimator : estimator or nn.Module
            A fitted `ConvRFMClassifier` or `ConvRFMRegressor`, a `Pipeline` that ends in one, whose
            filters are the eigenvectors of M, the strongest first; or a torch module, of
            which the filters of the first convolution are drawn, the longest first.
        n_filters : int, default=None
            How many; None draws all.
        n_columns : int, default=None
            Filters in a row.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        FilterDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If there are no filters.
        ValueError
            If `n_filters` or `n_columns` is not a positive number.
        """
        check_count(n_filters, "n_filters")
        if hasattr(estimator, "steps"):
            estimator = estimator[-1]
        return cls(_filters(estimator)[:n_filters], n_columns=n_columns).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        FilterDisplay
            Itself.

        Raises
        ------
        ValueError
            If the filters do not have four dimensions or are not finite numbers, or `n_columns` is
            not a positive number.
        """
        check_count(self.n_columns, "n_columns")
        if self.filters.ndim != 4 or not len(self.filters):
            raise ValueError(
                "filters must have shape (n_filters, channels, height, width); got "
                f"{self.filters.shape}."
            )
        check_array(self.filters, allow_nd=True, input_name="filters")
        n, channels, height, width = self.filters.shape
        columns = self.n_columns or int(np.ceil(n**0.5))
        rows = -(-n // columns)
        filters = self.filters if channels in (1, 3) else self.filters.mean(1, keepdims=True)
        size = np.abs(filters).max(axis=(1, 2, 3), keepdims=True)
        filters = (filters / np.where(size > 0, size, 1)).transpose(0, 2, 3, 1)
        # a line of one pixel between filters, and around them
        size = rows * (height + 1) + 1, columns * (width + 1) + 1
        canvas = np.full((*size, filters.shape[3]), np.nan)
        for k, image in enumerate(filters):
            i, j = (k // columns) * (height + 1) + 1, (k % columns) * (width + 1) + 1
            canvas[i : i + height, j : j + width] = image
        self.ax_ = axes(ax)
        self.figure_ = self.ax_.figure
        if canvas.shape[2] == 3:
            self.ax_.imshow(np.where(np.isnan(canvas), 1.0, (canvas + 1) / 2))
        else:
            self.ax_.imshow(canvas[:, :, 0], cmap="RdBu_r", vmin=-1, vmax=1)
        self.ax_.set_axis_off()
        return self


def _filters(estimator):
    """Return filters, the strongest first."""
    if hasattr(estimator, "components_") and np.ndim(estimator.components_) == 4:
        return estimator.components_
    if hasattr(estimator, "named_modules"):
        for _, layer in estimator.named_modules():
            weight = getattr(layer, "weight", None)
            if weight is not None and weight.ndim == 4:
                W = weight.detach().cpu().double().numpy()
                return W[np.argsort(-np.linalg.norm(W.reshape(len(W), -1), axis=1))]
    else:
        check_is_fitted(estimator)
    raise TypeError(
        f"{type(estimator).__name__} has no filters. Pass a fitted ConvRFMClassifier or "
        "ConvRFMRegressor, or a torch module with a Conv2d."
    )
