# SPDX-License-Identifier: BSD-3-Clause
"""Scores of all iterates and ridges of a path on one fold."""

import numpy as np
from sklearn.base import BaseEstimator

from rfmlearn._base._sklearn import takes_weight
from rfmlearn._base._tasks import ClassifierTask, RegressorTask
from rfmlearn._base._warn import warn


def squared_error_scores(path, train, test, unit):
    """Return minus the weighted mean squared error, (max_iter + 1, n_alphas).

    It is the mean over outputs of their errors in a unit each, an array of shape (c,).
    """

    def score(F):
        errors = (((F - test.Y) / unit) ** 2).mean(axis=2)
        return -np.average(errors, axis=1, weights=test.weight)

    return np.array([score(F) for F in path.scores(train, test.X)])


def scorer_scores(path, train, test, score):
    """Return ``score(F, train, test)`` of each iterate and ridge, (max_iter + 1, n_alphas).

    Parameters
    ----------
    path : Path
        The recursion.
    train, test : Rowset
        Both sides of the split.
    score : callable
        From outputs (m, c) at the test rows to a number, the higher the better.

    Returns
    -------
    ndarray of shape (max_iter + 1, n_alphas)
        The scores; NaN where the scorer refuses, as a deviance does a negative prediction.
    """

    def one(f):
        try:
            return score(f, train, test)
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
            return np.nan

    said: list[str] = []
    scores = np.array([[one(f) for f in F] for F in path.scores(train, test.X)])
    if said:
        warn(
            f"Scoring failed for {len(said)} of {scores.size} candidates of a split, which count "
            f"as NaN. The last time it said: {said[-1]}",
            UserWarning,
        )
    return scores


def last_scores(path, train, test):
    """Return the outputs of the last iterate at the first ridge, (m, c)."""
    for F in path.scores(train, test.X):
        last = F[0]
    return last


class _Outputs(BaseEstimator):
    """An estimator whose outputs are known: what a scorer gets in place of a fitted one."""

    def __init__(self, outputs=None):
        self.outputs = outputs

    def _scores(self, X):
        return self.outputs[:, 0] if self.outputs.shape[1] == 1 else self.outputs


class _RegressorOutputs(RegressorTask, _Outputs):
    pass


class _ClassifierOutputs(ClassifierTask, _Outputs):
    pass


class OutputScorer:
    """A scikit-learn scorer of outputs instead of an estimator.

    Parameters
    ----------
    target : RegressionTarget or ClassTarget
        What the outputs stand for.
    scorer : callable
        From estimator, X and y to a number.
    weighted : bool
        Pass the row weights to the scorer, if it takes any.
    """

    def __init__(self, target, scorer, weighted):
        self.target, self.scorer = target, scorer
        self.weighted = weighted and takes_weight(scorer)

    def __call__(self, F, train, test):
        """Score the outputs F of shape (m, c) at the rows of `test`."""
        classes = hasattr(self.target, "encoder")
        known = (_ClassifierOutputs if classes else _RegressorOutputs)(F)
        for name, value in known._task_attributes(self.target, train.weight).items():
            setattr(known, name, value)
        weights = {"sample_weight": test.sample_weight} if self.weighted else {}
        return self.scorer(known, test.X, test.y, **weights)
