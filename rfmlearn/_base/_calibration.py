# SPDX-License-Identifier: BSD-3-Clause
"""Probabilities from scores of rows not trained on: a temperature and a bias for each class."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

# Of the mean log-loss: what a bias must gain, so that none is made of rounding. The mean
# probability of a class of frequency p is then within sqrt(2e-5 p) of it: 2.6% at p = 0.03.
_LEAST_GAIN = 1e-5


def as_columns(scores):
    """Return scores with one column a class; a binary score of +-1 becomes two."""
    if scores.ndim == 2:
        return scores
    return np.column_stack([(1 - scores) / 2, (1 + scores) / 2])


def calibrate(scores, codes, weight, *, ordered=False):
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
    ordered : bool
        Whether the class of the highest score is to stay the most probable (see `probabilities`).

    Returns
    -------
    temperature : float
        T, in [1e-3, 1e3].
    bias : ndarray of shape (n_classes,)
        b, summing to 0; all 0 where it gains less than 1e-5 of the mean log-loss.

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

    def slope(beta, bias):  # by 1 / T and b, with the logarithms of the probabilities
        log_p = log_softmax(S * beta + bias, axis=1)
        by_logit = share[:, None] * (np.exp(log_p) - truth)
        return np.r_[(by_logit * S).sum(), by_logit.sum(axis=0) + bias / total], log_p

    def loss(parameters):
        beta, bias = np.exp(-parameters[0]), parameters[1:]
        by, log_p = slope(beta, bias)
        by[0] *= -beta
        return -share @ (truth * log_p).sum(axis=1) + bias @ bias / (2 * total), by

    def curvature(parameters):  # by 1 / T and b, and the slope
        by, log_p = slope(parameters[0], parameters[1:])
        P = np.exp(log_p)
        shared = share[:, None] * P
        apart = S - (P * S).sum(axis=1, keepdims=True)
        mixed = (shared * apart).sum(axis=0)
        inner = np.diag(shared.sum(axis=0) + 1 / total) - P.T @ shared
        H = np.block([[(shared * apart * S).sum(), mixed], [mixed[:, None], inner]])
        return H, by

    def best(start, free):
        own = np.log([1e-3, 1e3])
        bounds = [own, *[(-free, free)] * n_classes]
        # not L-BFGS-B: its small factorizations wake SciPy's own threads, which then spin beside
        # those of torch for a tenth of a second
        options = {"ftol": 1e-12, "gtol": 1e-8, "xtol": 0, "maxfun": 2000}
        return minimize(loss, start, jac=True, method="TNC", bounds=bounds, options=options).x

    # the loss is convex in 1 / T and b
    cold = best(np.zeros(1 + n_classes), 0.0)
    found = _polished(best(cold, np.inf), curvature, 1 + n_classes)
    temperature, bias = float(1 / found[0]), found[1:] - found[1:].mean()
    with_bias = probabilities(S, temperature, bias, ordered=ordered)
    # a score far out has a probability of 0 to rounding
    log_p = np.log(np.maximum(with_bias, np.finfo(np.float64).tiny))
    if -share @ (truth * log_p).sum(axis=1) > loss(cold)[0] - _LEAST_GAIN:
        return float(1 / _polished(cold, curvature, 1)[0]), np.zeros(n_classes)
    return temperature, bias


def _polished(parameters, curvature, n_free, steps=3):
    """Return 1 / T and b of the minimum to rounding, from log T and b close to it.

    By Newton's steps in the first `n_free` of them, while they help.
    """
    parameters = np.r_[np.exp(-parameters[0]), parameters[1:]]
    if not 1e-3 < parameters[0] < 1e3:
        return parameters
    free = slice(n_free)
    H, left = curvature(parameters)
    for _ in range(steps):
        nearer = parameters.copy()
        nearer[free] -= np.linalg.lstsq(H[free, free], left[free], rcond=None)[0]
        if not nearer[0] > 0:
            break
        before, (H, left) = left, curvature(nearer)
        if not np.linalg.norm(left[free]) < np.linalg.norm(before[free]):
            break
        parameters = nearer
    return parameters


def probabilities(scores, temperature, bias=0.0, *, ordered=False):
    """Return ``softmax(scores / temperature + bias)``, (n, n_classes).

    With `ordered` the class of the highest score stays the most probable one: where the bias puts
    others above it, they and it share what they have together, the nearest such probabilities.
    """
    dtype, S = scores.dtype, as_columns(scores)
    P = softmax(S / np.asarray(temperature, dtype) + np.asarray(bias, dtype), axis=1)
    if ordered:
        first = S.argmax(axis=1)
        rows = np.flatnonzero(P.argmax(axis=1) != first)
        P[rows] = _put_first(P[rows], first[rows])
    return P


def _put_first(P, first):
    """Return the nearest rows in which column `first` is the largest."""
    rows, n_classes = np.arange(len(P)), P.shape[1]
    others = P.copy()
    others[rows, first] = -np.inf
    ranked = -np.sort(-others, axis=1)[:, : n_classes - 1]
    shared = (P[rows, first, None] + ranked.cumsum(axis=1)) / np.arange(2, n_classes + 1)
    level = shared.max(axis=1)
    P = np.minimum(P, (level * (1 - 4 * np.finfo(P.dtype).eps))[:, None])
    P[rows, first] = level
    return P
