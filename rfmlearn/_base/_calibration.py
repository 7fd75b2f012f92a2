# SPDX-License-Identifier: BSD-3-Clause
"""Probabilities from scores: one temperature, fitted to scores of rows not trained on."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax


def as_columns(scores):
    """Return scores with one column a class; a binary score of +-1 becomes two."""
    if scores.ndim == 2:
        return scores
    return np.column_stack([(1 - scores) / 2, (1 + scores) / 2])


def fit_temperature(scores, codes, weight):
    """Return the temperature T whose ``softmax(scores / T)`` has the least log-loss.

    One number cannot overfit and leaves the order of the classes as it is, so that
    probabilities agree with predictions. The labels are smoothed by Platt's rule: with n
    rows, counted by weight, the true class counts as certain to (n + 1) / (n + 2), which
    keeps T away from 0 where held-out rows are separated perfectly.

    Parameters
    ----------
    scores : ndarray of shape (n,) or (n, n_classes)
        Class scores of rows that the model was not trained on.
    codes : ndarray of shape (n,)
        Column of the true class.
    weight : ndarray of shape (n,)
        Row weights.

    Returns
    -------
    float
        T, in [1e-3, 1e3].

    References
    ----------
    C. Guo et al., On calibration of modern neural networks, ICML 2017; J. Platt,
    Probabilistic outputs for support vector machines, 1999.
    """
    S = as_columns(np.asarray(scores, dtype=np.float64))
    n, n_classes = S.shape
    share, total = weight / weight.sum(), weight.sum()
    certain = (total + 1) / (total + 2)
    truth = np.full(S.shape, (1 - certain) / (n_classes - 1))
    truth[np.arange(n), codes] = certain

    def loss(log_temperature):
        log_p = log_softmax(S / np.exp(log_temperature), axis=1)
        return -share @ (truth * log_p).sum(axis=1)

    bounds = np.log([1e-3, 1e3])
    return float(
        np.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-7}).x)
    )


def probabilities(scores, temperature):
    """Return ``softmax(scores / temperature)``, (n, n_classes)."""
    return softmax(as_columns(scores) / np.asarray(temperature, dtype=scores.dtype), axis=1)
