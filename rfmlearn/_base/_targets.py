# SPDX-License-Identifier: BSD-3-Clause
"""From y to the centred target matrix that the recursion sees.

One class per task: regression, classification.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelEncoder
from sklearn.utils.multiclass import check_classification_targets


@dataclass(frozen=True)
class CentredTargets:
    """Targets minus their weighted mean, divided by one number.

    Attributes
    ----------
    matrix : ndarray of shape (n, c)
        ``(Y - intercept) / scale``.
    intercept : ndarray of shape (c,)
        Weighted mean of each column.
    scale : float
        Common to all columns, so that their relative sizes stay.
    """

    matrix: np.ndarray
    intercept: np.ndarray
    scale: float


def centre(Y, weight=None, rescale=True):
    """Centre a target matrix and bring it to unit root mean square.

    Parameters
    ----------
    Y : ndarray of shape (n, c)
        Targets, float64.
    weight : ndarray of shape (n,), optional
        Row weights.
    rescale : bool, default=True
        Divide by the weighted rms of the centred matrix, which keeps the squares of
        gradients within range whatever the unit of y. Where the predictor depends on the
        size of y (an unscaled M), leave it.

    Returns
    -------
    CentredTargets
        With a matrix of exact zeros where y is constant up to rounding.
    """
    intercept = np.average(Y, axis=0, weights=weight)
    matrix = Y - intercept
    # a constant column leaves rounding of its mean behind, which is no target to learn
    size = np.abs(Y).max(axis=0)
    matrix[:, np.abs(matrix).max(axis=0) <= 8 * np.finfo(np.float64).eps * size] = 0.0
    scale = 1.0
    largest = np.abs(matrix).max()
    if rescale and largest > 0:
        unit = matrix / largest  # so that no square under- or overflows
        scale = float(largest * np.sqrt(np.average((unit**2).mean(axis=1), weights=weight)))
        matrix = matrix / scale
    return CentredTargets(matrix, intercept, scale)


class RegressionTarget:
    """y as it is; one column per output."""

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
