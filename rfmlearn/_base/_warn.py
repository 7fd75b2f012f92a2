# SPDX-License-Identifier: BSD-3-Clause
"""Warnings that point at the line that called the package."""

import inspect
import os
import warnings

import sklearn

import rfmlearn

_INSIDE = tuple(os.path.join(*package.__path__, "") for package in (rfmlearn, sklearn))


def warn(message, category):
    """Warn at the user's line: the caller of the outermost frame of this package or scikit-learn.

    However deep the estimator is (in a search, in a pipeline, in its own refit), that is where
    somebody can do something about it.
    """
    frame, level, theirs = inspect.currentframe(), 0, 1
    while frame is not None:
        level += 1
        if frame.f_code.co_filename.startswith(_INSIDE):
            theirs = level
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=theirs + 1)
