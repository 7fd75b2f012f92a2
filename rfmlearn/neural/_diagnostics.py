# SPDX-License-Identifier: BSD-3-Clause
"""How training moves a network's coordinates and features, against its width."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils import check_random_state
from torch import nn

from rfmlearn import _backend
from rfmlearn._base._sklearn import Interval, validated
from rfmlearn._typing import Any, ArrayLike, RandomState, Sequence


@dataclass(frozen=True)
class WidthScan:
    """Something measured on networks of several widths.

    Parameters
    ----------
    widths : ndarray of shape (n_widths,)
        Of all hidden layers.
    values : dict of str to ndarray of shape (n_widths, n_seeds)
        What was measured, by name, for each network.
    """

    widths: np.ndarray
    values: dict

    @property
    def slopes(self):
        """Exponent of the width in each value: slope of log(median over seeds) on log(width).

        NaN where a value is 0.
        """
        x = np.log(self.widths)
        slopes = {}
        for name, value in self.values.items():
            y = np.median(value, axis=1)
            slopes[name] = float(np.polyfit(x, np.log(y), 1)[0]) if (y > 0).all() else np.nan
        return slopes


_COUNTS: dict[str, list] = {
    "n_seeds": [Interval(Integral, 1, None, closed="left")],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
}


@validated(**_COUNTS)
def coordinate_check(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    widths: Sequence[int] = (64, 128, 256, 512),
    *,
    n_seeds: int = 3,
    n_jobs: int | None = None,
    random_state: RandomState = None,
) -> WidthScan:
    """How far training moves the pre-activations of networks of several widths.

    Parameters
    ----------
    estimator : ABCMLPClassifier or ABCMLPRegressor
        A clone is trained for each width and seed: same depth, all hidden layers of that
        width, for its `max_epochs`. A few full-batch epochs show the scaling.
    X : array-like of shape (n_samples, n_features)
        Rows to train on, and on which the first 500 coordinates are compared.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Targets.
    widths : sequence of int, default=(64, 128, 256, 512)
        Widths, two or more.
    n_seeds : int, default=3
        Networks for each width.
    n_jobs : int, default=None
        Joblib workers.
    random_state : int, RandomState instance or None, default=None
        For the seeds.

    Returns
    -------
    WidthScan
        Root mean square, over rows and units, of the change from initial to trained network:
        "layer 1", "layer 2" ... of the pre-activations of the hidden layers, "output" of the
        outputs. By Tensor Programs IV their ``slopes`` are 0 in muP, -1/2 for the NTK's
        hidden layers, and positive where training is unstable. Features are learned if the
        hidden slopes are 0, provided that the output moves too.

    Raises
    ------
    ValueError
        If there are fewer than two widths, one is not a positive whole number, or the estimator has
        no hidden layer.
    TypeError
        If the estimator is no network of this package.

    Examples
    --------
    >>> from rfmlearn import ABCMLPRegressor
    >>> from rfmlearn.datasets import make_multi_index
    >>> from rfmlearn.neural import coordinate_check
    >>> X, y, _ = make_multi_index(100, 5, random_state=0)
    >>> net = ABCMLPRegressor(
    ...     activation="tanh", parametrization="ntk", optimizer="sgd", max_epochs=4
    ... )
    >>> scan = coordinate_check(net, X, y, (64, 1024), random_state=0)
    >>> bool(-0.7 < scan.slopes["layer 2"] < -0.3)
    True
    """
    return _scan(_displacement, estimator, X, y, widths, n_seeds, n_jobs, random_state)


@validated(**_COUNTS)
def feature_movement(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    widths: Sequence[int] = (64, 128, 256, 512),
    *,
    n_seeds: int = 3,
    n_jobs: int | None = None,
    random_state: RandomState = None,
) -> WidthScan:
    """How far training changes the feature kernel of networks of several widths.

    Parameters
    ----------
    estimator : ABCMLPClassifier or ABCMLPRegressor
        As in `coordinate_check`.
    X : array-like of shape (n_samples, n_features)
        Rows to train on, the first 500 of which make the kernel.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Targets.
    widths : sequence of int, default=(64, 128, 256, 512)
        Widths, two or more.
    n_seeds : int, default=3
        Networks for each width.
    n_jobs : int, default=None
        Joblib workers.
    random_state : int, RandomState instance or None, default=None
        For the seeds.

    Returns
    -------
    WidthScan
        "layer 1", "layer 2" ...: with H the activations of a hidden layer, ``H H^T`` the kernel
        that its features make, the Frobenius norm of the kernel's change over that of the
        initial kernel. It falls as 1 / width in the NTK parametrisation and stays in muP.

    Raises
    ------
    ValueError
        If there are fewer than two widths, one is not a positive whole number, or the estimator has
        no hidden layer.
    TypeError
        If the estimator is no network of this package.

    Examples
    --------
    >>> from rfmlearn import ABCMLPRegressor
    >>> from rfmlearn.datasets import make_multi_index
    >>> from rfmlearn.neural import feature_movement
    >>> X, y, _ = make_multi_index(100, 5, random_state=0)
    >>> net = ABCMLPRegressor(
    ...     activation="tanh", zero_init_output=True, optimizer="sgd", max_epochs=4
    ... )
    >>> scan = feature_movement(net, X, y, (64, 1024), random_state=0)
    >>> bool(abs(scan.slopes["layer 2"]) < 0.3)
    True
    """
    return _scan(_kernel_change, estimator, X, y, widths, n_seeds, n_jobs, random_state)


def _scan(measure, estimator, X, y, widths, n_seeds, n_jobs, random_state):
    if not hasattr(estimator, "hidden_layer_sizes") or not hasattr(estimator, "to_torch"):
        raise TypeError(
            f"{type(estimator).__name__} is neither an ABCMLPClassifier nor an ABCMLPRegressor. "
            "Pass the network itself, with X as the steps of a pipeline before it would make it."
        )
    widths = np.asarray(widths)
    if widths.dtype.kind not in "iuf" or not np.all(
        np.isfinite(widths) & (widths >= 1) & (widths == np.round(widths))
    ):
        raise ValueError(f"widths={widths.tolist()} must be positive whole numbers.")
    if widths.ndim != 1 or len(np.unique(widths)) < 2:
        raise ValueError(f"widths={widths.tolist()} must hold two widths or more.")
    depth = np.size(estimator.hidden_layer_sizes)
    if not depth:
        raise ValueError("The estimator has no hidden layer whose features could move.")
    seeds = check_random_state(random_state).randint(2**31, size=n_seeds)
    found = Parallel(n_jobs=n_jobs)(
        delayed(_measured)(measure, estimator, X, y, (int(width),) * depth, int(seed))
        for width in widths
        for seed in seeds
    )
    values = {
        name: np.array([one[name] for one in found]).reshape(len(widths), n_seeds)
        for name in found[0]
    }
    return WidthScan(widths, values)


def _measured(measure, estimator, X, y, sizes, seed):
    net = clone(estimator).set_params(hidden_layer_sizes=sizes, random_state=seed).fit(X, y)
    trained, initial = net.to_torch(), net.initial().to_torch()
    rows = _backend.to_tensor(np.asarray(X)[:500], dtype=trained[0].weight.dtype)
    return measure(_activations(initial, rows), _activations(trained, rows))


def _activations(network, H):
    """Return pre-activations and activations of each layer."""
    passed = []
    with torch.no_grad():
        for layer in network:
            H = layer(H)
            if isinstance(layer, nn.Linear):
                passed.append([H, H])
            else:
                passed[-1][1] = H
    return passed


def _displacement(before, after):
    moved = [float((z - z0).square().mean().sqrt()) for (z0, _), (z, _) in zip(before, after)]
    return {**{f"layer {i + 1}": m for i, m in enumerate(moved[:-1])}, "output": moved[-1]}


def _kernel_change(before, after):
    changes = {}
    for i, ((_, h0), (_, h)) in enumerate(zip(before[:-1], after[:-1])):
        start = h0 @ h0.mT
        changes[f"layer {i + 1}"] = float((h @ h.mT - start).norm() / start.norm())
    return changes
