# SPDX-License-Identifier: BSD-3-Clause
"""Fits that go step by step: their parameters, when they stop, and who is told."""

from numbers import Integral, Real

import numpy as np

from rfmlearn._base._sklearn import Interval

# Of every estimator that can stop early.
STOPPING_CONSTRAINTS = {
    "tol": [Interval(Real, 0, None, closed="left")],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
}

# Of those that fit their steps themselves: kernel machines and networks.
STEP_CONSTRAINTS = {**STOPPING_CONSTRAINTS, "warm_start": ["boolean"], "device": [str]}


class Progress:
    """The best of the scores so far, and for how long they have not improved.

    The best is the highest score, by however little; `tol` only says for how long to go on.

    Parameters
    ----------
    tol : float
        The least gain that counts as progress.
    patience : int
        Number of scores without progress that exhausts it.
    """

    def __init__(self, tol, patience):
        self.tol, self.patience = tol, patience
        self._best = self._bar = -np.inf
        self._since = 0

    def judge(self, score):
        """Take in a score, the higher the better; return whether it is the best so far."""
        is_best = score > self._best
        self._best = score if is_best else self._best
        gained = score > self._bar + self.tol
        self._bar, self._since = (score, 0) if gained else (self._bar, self._since + 1)
        return is_best

    @property
    def exhausted(self):
        """Whether there was no progress for too long."""
        return self._since >= self.patience


class Listeners:
    """The callbacks of an estimator during one fit of several steps.

    Parameters
    ----------
    estimator : estimator
        With scikit-learn's `CallbackSupportMixin`.
    step : str
        Name of a step.
    n_steps : int
        Most steps.
    X, y : ndarray
        What it is fitted to.
    weight : ndarray of shape (n,) or None
        Row weights.
    """

    def __init__(self, estimator, step, n_steps, X, y, weight):
        self.step, self.present = step, listens(estimator)
        weighted = weight is not None and np.any(weight != 1)
        metadata = {"sample_weight": weight} if weighted else {}
        self.told = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        self.context = estimator._init_callback_context(max_subtasks=n_steps)
        self.context.call_on_fit_task_begin(**self.told)
        self._task = None

    def begin(self):
        """Say that a step begins."""
        if self.present:
            self._task = self.context.subcontext(task_name=self.step)
            self._task.call_on_fit_task_begin(**self.told)

    def end(self, describe):
        """Say that it ended, with what makes a fitted estimator of it; return whether to stop."""
        if not self.present:
            return False
        return self._task.call_on_fit_task_end(**self.told, reconstruction_attributes=describe)

    def end_of_nothing(self):
        """Say that the step which had begun came to nothing: there are no more."""
        if self.present:
            self._task.call_on_fit_task_end(estimator=self.told["estimator"])

    def finish(self, describe):
        """Say that the fit ended."""
        self.context.call_on_fit_task_end(**self.told, reconstruction_attributes=describe)


def listens(estimator):
    """Say whether anybody listens to an estimator's fit."""
    return bool(getattr(estimator, "_skl_callbacks", ()))
