# SPDX-License-Identifier: BSD-3-Clause
"""Probabilities from scores of rows not trained on: a temperature and a bias for each class."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax


def as_columns(scores):
    """Return scores with one column a class; a binary score of +-1 becomes two."""
    if scores.ndim == 2:
        return scores
    return np.column_stack([(1 - scores) / 2, (1 + scores) / 2])


def calibrate(scores, codes, weight):
    """Return T and b of the probabilities ``softmax(scores / T + b)`` with the least log-loss.

    First the temperature alone, which leaves the order of the classes as it is, then both from
    there, so that b never makes the log-loss of these rows larger. Where it is least the mean
    probability of each class is its frequency (the gradient by b is the difference), but for the
    penalty ``|b|^2 / 2`` beside the sum over rows, which keeps the bias of a class of few rows
    small. The labels are smoothed by Platt's rule: with n rows, counted by weight, the true class
    counts as certain to (n + 1) / (n + 2), which keeps T away from 0 where held-out rows are
    separated perfectly.

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
    temperature : float
        T, in [1e-3, 1e3].
    bias : ndarray of shape (n_classes,)
        b, summing to 0.

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

    def loss(parameters):
        beta, bias = np.exp(-parameters[0]), parameters[1:]
        log_p = log_softmax(S * beta + bias, axis=1)
        slope = share[:, None] * (np.exp(log_p) - truth)  # by the argument of the softmax
        value = -share @ (truth * log_p).sum(axis=1) + bias @ bias / (2 * total)
        by_temperature = -beta * (slope * S).sum()
        return value, np.r_[by_temperature, slope.sum(axis=0) + bias / total]

    def best(start, free):
        own = np.log([1e-3, 1e3])
        bounds = [own, *[(-free, free)] * n_classes]
        options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 1000}
        return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x

    # the loss is convex in 1 / T and b
    cold = best(np.zeros(1 + n_classes), 0.0)
    found = best(cold, np.inf)
    bias = found[1:] - found[1:].mean()
    return float(np.exp(found[0])), bias


def probabilities(scores, temperature, bias=0.0):
    """Return ``softmax(scores / temperature + bias)``, (n, n_classes)."""
    dtype = scores.dtype
    return softmax(
        as_columns(scores) / np.asarray(temperature, dtype) + np.asarray(bias, dtype), axis=1
    )
