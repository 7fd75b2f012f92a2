# SPDX-License-Identifier: BSD-3-Clause
"""What makes a kernel machine a regressor or a classifier: mixins, one a task."""

from typing import ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_sample_weight

from rfmlearn._base._calibration import as_columns
from rfmlearn._base._targets import ClassTarget, RegressionTarget
from rfmlearn._typing import ArrayLike


class RegressorTask(RegressorMixin):
    """Predict the outputs themselves."""

    _target = RegressionTarget
    _target_checks: ClassVar[dict] = {"multi_output": True, "y_numeric": True}

    def _task_attributes(self, target, weight):
        """Return what a fitted estimator needs for its task: of these targets and weights."""
        return {}

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, any number of them: the kernel is formed block by block.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions, in the shape that y had and the dtype of the fitted model.
        """
        return self._scores(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class ClassifierTask(ClassifierMixin):
    """Predict the class with the highest output."""

    _target = ClassTarget
    _target_checks: ClassVar[dict] = {}

    def _class_weights(self, y):
        if self.class_weight is None:
            return None
        return compute_sample_weight(self.class_weight, y)

    def _task_attributes(self, target, weight):
        """Return what a fitted estimator needs for its task: of these targets and weights."""
        return {"classes_": target.encoder.classes_, "_total_weight": float(weight.sum())}

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Return the class scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, any number of them: the kernel is formed block by block.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one score, positive for ``classes_[1]``; -1 and 1 are the
            training targets. For more, one score a class, summing to 1 in each row.
        """
        return self._scores(X)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            The label with the highest score.
        """
        scores = self._scores(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[index]

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return probabilities: the point of the simplex nearest to the scores, smoothed.

        With p that point, n the training rows counted by weight and k the classes they are
        ``(1 - e) p + e / k`` with ``e = 1 / (n + 2)``: no row is more certain than n rows can
        tell, so that none is impossible. They agree with `predict` and need no further
        fit, but are not calibrated.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to 1; columns are in the order of `classes_`.
        """
        P = project_to_simplex(as_columns(self._scores(X)))
        doubt = P.dtype.type(1 / (self._total_weight + 2))
        return (1 - doubt) * P + doubt / P.shape[1]


def project_to_simplex(V):
    """Return the Euclidean projection of each row of V onto the probability simplex.

    It is ``max(v - t, 0)`` with t such that the row sums to 1; with the entries sorted,
    t is the mean excess over 1 of the longest prefix that stays positive (Held, Wolfe
    and Crowder 1974).
    """
    ordered = np.sort(V, axis=1)[:, ::-1]
    count = np.arange(1, V.shape[1] + 1, dtype=V.dtype)
    excess = (np.cumsum(ordered, axis=1) - 1) / count
    last = (ordered > excess).sum(axis=1) - 1
    return np.maximum(V - np.take_along_axis(excess, last[:, None], axis=1), 0)
