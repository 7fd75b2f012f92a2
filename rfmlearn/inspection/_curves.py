# SPDX-License-Identifier: BSD-3-Clause
"""Displays of alignments and of scans over width."""

import numpy as np

from rfmlearn._typing import Any, ArrayLike, Self, Sequence
from rfmlearn.inspection._axes import COLOURS, axes
from rfmlearn.inspection._checks import check_length
from rfmlearn.neural import WidthScan, coordinate_check, layer_features


class AlignmentDisplay:
    """Draw how well feature matrices agree with gradients, by layer or over epochs.

    Parameters
    ----------
    alignments : ndarray of shape (n_layers,) or (n_epochs, n_layers)
        Alignment of each layer, at the end or after each of several epochs.
    epochs : ndarray of shape (n_epochs,), default=None
        Which epochs these are; None numbers them.
    control : ndarray of shape (n_layers,), default=None
        The alignment of the same network before training.
    layer_names : list of str, default=None
        Names of the layers; None numbers them.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from rfmlearn.inspection import AlignmentDisplay
    >>> display = AlignmentDisplay([0.9, 0.8], control=[0.6, 0.7]).plot()
    >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
    ['trained', 'before training']
    """

    def __init__(
        self,
        alignments: Any,
        *,
        epochs: Sequence[int] | None = None,
        control: ArrayLike | None = None,
        layer_names: Sequence[str] | None = None,
    ) -> None:
        self.alignments = np.asarray(alignments, dtype=float)
        self.epochs = epochs
        self.control = control
        self.layer_names = layer_names

    @classmethod
    def from_estimator(cls, estimator: Any, X: ArrayLike | None = None, *, ax: Any = None) -> Self:
        """Draw the alignments of a trained network.

        Parameters
        ----------
        estimator : estimator
            A fitted `NFMTransformer`, whose `alignments_` are drawn; or any network that
            `rfmlearn.neural.layer_features` reads.
        X : array-like of shape (n_samples, n_features), default=None
            Rows at which the gradients of a network are taken. With them an `ABCMLPClassifier`
            or `ABCMLPRegressor` is drawn beside what it was before training.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.

        Returns
        -------
        AlignmentDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If a network is given without X.
        """
        if X is None:
            if not hasattr(estimator, "alignments_"):
                raise ValueError("X is needed: the rows at which gradients are taken.")
            return cls(estimator.alignments_, layer_names=estimator.layer_names_).plot(ax)
        layers = layer_features(estimator, X)
        control = None
        if hasattr(estimator, "initial"):
            control = [layer.alignment for layer in layer_features(estimator.initial(), X)]
        names = [layer.name for layer in layers]
        return cls([layer.alignment for layer in layers], control=control, layer_names=names).plot(
            ax
        )

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
            If the numbers of alignments, epochs, control and names do not agree.
        """
        if self.alignments.ndim not in (1, 2) or not self.alignments.size:
            raise ValueError(
                "alignments must have shape (n_layers,) or (n_epochs, n_layers); got "
                f"{self.alignments.shape}."
            )
        n_layers = self.alignments.shape[-1]
        check_length(self.layer_names, n_layers, "layer_names", "layers")
        check_length(self.control, n_layers, "control", "layers")
        if self.alignments.ndim == 2:
            check_length(self.epochs, len(self.alignments), "epochs", "epochs measured")
        self.ax_ = ax = axes(ax)
        names = range(n_layers) if self.layer_names is None else self.layer_names
        if self.alignments.ndim == 2:
            epochs = np.arange(1, len(self.alignments) + 1) if self.epochs is None else self.epochs
            for k, curve in enumerate(self.alignments.T):
                colour = COLOURS[k % len(COLOURS)]
                ax.plot(epochs, curve, marker="o", markersize=3, color=colour, label=names[k])
            ax.legend(title="layer", framealpha=0.9)
            ax.set(xlabel="epoch")
        else:
            at = np.arange(n_layers)
            shown = self.control is not None
            width = 0.4 if shown else 0.6
            first = at - (0.2 if shown else 0)
            ax.bar(first, self.alignments, width, color=COLOURS[0], label="trained")
            if shown:
                ax.bar(at + 0.2, self.control, width, color="#BBBBBB", label="before training")
                ax.legend(loc="lower left")
            ax.set_xticks(at, [str(name) for name in names])
            ax.set(xlabel="layer")
        ax.set(ylabel="correlation of NFM and AGOP$^{1/2}$")
        ax.set_ylim(min(0.0, ax.get_ylim()[0]), 1.02)
        self.figure_ = ax.figure
        return self


class WidthScanDisplay:
    """Draw what training moves against width, both axes logarithmic, with the fitted slopes.

    Parameters
    ----------
    scan : WidthScan
        From `rfmlearn.neural.coordinate_check` or `rfmlearn.neural.feature_movement`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn.inspection import WidthScanDisplay
    >>> from rfmlearn.neural import WidthScan
    >>> scan = WidthScan(np.array([64, 256]), {"layer 1": np.array([[1.0], [0.5]])})
    >>> WidthScanDisplay(scan).plot().ax_.get_legend().get_texts()[0].get_text()
    'layer 1: slope -0.50'
    """

    def __init__(self, scan: Any) -> None:
        self.scan = scan

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        widths: Sequence[int] = (64, 128, 256, 512),
        *,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Run a coordinate check and draw it.

        Parameters
        ----------
        estimator : ABCMLPClassifier or ABCMLPRegressor
            As in `rfmlearn.neural.coordinate_check`.
        X, y : array-like
            Rows and targets to train on.
        widths : sequence of int, default=(64, 128, 256, 512)
            Widths.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a figure.
        **options
            ``n_seeds``, ``n_jobs``, ``random_state``.

        Returns
        -------
        WidthScanDisplay
            The display, drawn.
        """
        return cls(coordinate_check(estimator, X, y, widths, **options)).plot(ax)

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
        TypeError
            If `scan` is none.
        """
        if not isinstance(self.scan, WidthScan):
            raise TypeError(
                f"scan is {type(self.scan).__name__}, not what coordinate_check or "
                "feature_movement returns."
            )
        self.ax_ = ax = axes(ax)
        slopes = self.scan.slopes
        for k, (name, value) in enumerate(self.scan.values.items()):
            ax.plot(
                self.scan.widths,
                np.median(value, axis=1),
                marker="o",
                markersize=4,
                color=COLOURS[k % len(COLOURS)],
                label=f"{name}: slope {slopes[name]:.2f}",
            )
        ax.set(xscale="log", yscale="log", xlabel="width", ylabel="change by training")
        ax.set_xticks(self.scan.widths, [str(width) for width in self.scan.widths])
        ax.minorticks_off()
        ax.legend(framealpha=0.9)
        self.figure_ = ax.figure
        return self
