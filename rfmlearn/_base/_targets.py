# SPDX-License-Identifier: BSD-3-Clause
"""From y to the centred target matrix that the recursion sees.

One class per task: regression, classification.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets


def refuse_missing(y):
    """Raise where targets are one text, or a series or frame of them has missing cells."""
    if isinstance(y, str | bytes):
        raise ValueError(f"y is the text {y!r}, not one target for each row.")
    if hasattr(y, "isna") and np.asarray(y.isna()).any():
        raise ValueError("Input y contains NaN: a missing target. Drop these rows.")


def refuse_no_targets(y, numeric):
    """Raise where an array holds what is neither a number nor, unless numeric, a label."""
    if numeric and y.dtype.kind not in "biuf":
        raise ValueError(
            f"y holds {y.dtype}, not numbers. Convert it, and say in what unit: of times, for "
            "instance, (y - y.min()) / np.timedelta64(1, 'D') are days."
            if y.dtype.kind in "mM"
            else f"y holds {y.dtype}, not numbers. Convert it: y.astype(float)."
        )
    if y.dtype.kind == "V":
        raise ValueError(f"y holds records, {y.dtype}; pass one column.")
    if numeric:  # missing cells among objects are numbers only now
        assert_all_finite(y, input_name="y")


@dataclass(frozen=True)
class CentredTargets:
    """Targets minus their weighted mean, in units of their spread.

    Attributes
    ----------
    matrix : ndarray of shape (n, c)
        ``(Y - intercept) / scale``.
    intercept : ndarray of shape (c,)
        Weighted mean of each column.
    scale : ndarray of shape (c,)
        Unit of each column; 1 for a constant one.
    """

    matrix: np.ndarray
    intercept: np.ndarray
    scale: np.ndarray

    def apply(self, Y):
        """Return further targets in the same units."""
        return (Y - self.intercept) / self.scale


def centre(Y, weight=None, units="own"):
    """Centre a target matrix and bring it to unit root mean square.

    Parameters
    ----------
    Y : ndarray of shape (n, c)
        Targets, float64.
    weight : ndarray of shape (n,), optional
        Row weights.
    units : {"own", "common", None}
        Divide by the weighted rms of each centred column, of columns in units of their own; by
        that of all, of columns whose relative sizes mean something (class indicators); or not at
        all, where the predictor depends on the size of y (an unscaled M). The division keeps the
        squares of gradients within range.

    Returns
    -------
    CentredTargets
        With a column of exact zeros where y is constant up to rounding.
    """
    intercept = np.average(Y, axis=0, weights=weight)
    matrix = Y - intercept
    # a constant column leaves rounding of its mean behind, which is no target to learn
    size = np.abs(Y).max(axis=0)
    matrix[:, np.abs(matrix).max(axis=0) <= 8 * np.finfo(np.float64).eps * size] = 0.0
    scale = np.ones(Y.shape[1]) if units is None else root_mean_square(matrix, weight, units)
    return CentredTargets(matrix / scale, intercept, scale)


def root_mean_square(Y, weight=None, units="own"):
    """Return the weighted rms of each column, (c,), or that of all; 1 where it is 0."""
    largest = np.abs(Y).max(axis=0 if units == "own" else None, keepdims=True)
    unit = Y / np.where(largest > 0, largest, 1.0)  # so that no square under- or overflows
    squares = np.average(unit**2, axis=0, weights=weight)
    rms = np.ravel(largest) * np.sqrt(squares if units == "own" else squares.mean())
    return np.broadcast_to(np.where(rms > 0, rms, 1.0), Y.shape[1]).copy()


class RegressionTarget:
    """y as it is; one column per output, each in a unit of its own."""

    units = "own"

    def fit(self, y):
        """Learn nothing: every y is its own target."""
        return self

    def encode(self, y):
        """Return the target matrix (n, c) of y, (n,) or (n, c)."""
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1)

    def flat(self, y):
        """Say whether predictions for this y are 1-D."""
        return y.ndim == 1


class ClassTarget:
    """Labels as +-1 in one column for two classes, one-hot for more."""

    units = "common"

    def fit(self, y):
        """Learn the sorted classes.

        Raises
        ------
        ValueError
            If y is continuous or has fewer than two classes.
        """
        check_classification_targets(y)
        self.encoder = LabelEncoder().fit(y)
        classes = self.encoder.classes_
        if len(classes) < 2:
            (only,) = classes.tolist()  # plain, for the message
            raise ValueError(
                f"Classification needs at least two classes in y; got one class, {only!r}."
            )
        return self

    def encode(self, y):
        """Return the target matrix of labels, all of them known."""
        codes = self.encoder.transform(y)
        n_classes = len(self.encoder.classes_)
        if n_classes == 2:
            return 2.0 * codes[:, None] - 1.0
        return (codes[:, None] == np.arange(n_classes)).astype(np.float64)

    def flat(self, y):
        """Say whether the decision function is 1-D."""
        return len(self.encoder.classes_) == 2


def hold_out(n, size, labels, rng):
    """Return the indices of rows to learn from and of rows to hold out.

    Parameters
    ----------
    n : int
        Number of rows.
    size : int
        Number of rows to hold out.
    labels : ndarray of shape (n,) or None
        Hold out by class: in proportion, and of a class of one row none. Where `size` has no
        room for every class, at random.
    rng : RandomState instance
        For the draw.

    Returns
    -------
    learn, held : ndarray of int
        The indices.
    """
    rows = np.arange(n)
    if labels is None:
        return train_test_split(rows, test_size=size, random_state=rng)
    _, code, counts = np.unique(np.ravel(labels), return_inverse=True, return_counts=True)
    several = counts[code] > 1
    n_classes = (counts > 1).sum()
    if not n_classes <= size <= several.sum() - n_classes:
        return train_test_split(rows, test_size=size, random_state=rng)
    learn, held = train_test_split(
        rows[several], test_size=size, stratify=code[several], random_state=rng
    )
    return np.concatenate([learn, rows[~several]]), held
