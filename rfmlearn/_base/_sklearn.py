# SPDX-License-Identifier: BSD-3-Clause
"""The private names of scikit-learn that the package uses. No other file imports one."""

import inspect

from sklearn.base import _fit_context
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    Options,
    StrOptions,
    validate_params,
)
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_sample_weight

from rfmlearn._backend import isolated
from rfmlearn._typing import Callable, F

__all__ = [
    "HasMethods",
    "Interval",
    "Options",
    "StrOptions",
    "check_weight",
    "fit_context",
    "makes_frames",
    "svm_gamma",
    "takes_weight",
    "validated",
]


def fit_context(*, skip_nested: bool = True) -> Callable[[F], F]:
    """Return the decorator of a ``fit``: parameters are checked, callbacks torn down.

    Torch is used as it comes, whatever the caller's context (see `isolated`). `skip_nested` leaves
    the parameters of estimators inside unchecked, which are then known to be valid.
    """
    checked = _fit_context(prefer_skip_nested_validation=skip_nested)
    return lambda fit: checked(isolated(fit))


def validated(**constraints: list) -> Callable[[F], F]:
    """Return the decorator of a public function that checks its arguments as estimators do theirs.

    Like a ``fit`` it is `isolated` from the caller's torch context.
    """
    checked = validate_params(constraints, prefer_skip_nested_validation=True)
    return lambda function: checked(isolated(function))


def check_weight(sample_weight, X):
    """Return the weights of the rows of X, float64 and not negative; ones for None."""
    return _check_sample_weight(sample_weight, X, dtype=float, ensure_non_negative=True)


def makes_frames(estimator):
    """Say whether `set_output` or the configuration ask ``transform`` for a data frame."""
    return _get_output_config("transform", estimator)["dense"] != "default"


def takes_weight(scorer):
    """Say whether a scorer, made by scikit-learn or a callable, takes `sample_weight`."""
    function = getattr(scorer, "_score_func", scorer)
    parameters = inspect.signature(function).parameters.values()
    return any(p.name == "sample_weight" or p.kind == p.VAR_KEYWORD for p in parameters)


def svm_gamma(machine):
    """Return the gamma that a fitted support vector machine works with."""
    return machine._gamma
