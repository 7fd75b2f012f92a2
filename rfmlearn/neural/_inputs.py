# SPDX-License-Identifier: BSD-3-Clause
"""What a network reads: one array, or several, a part of whose rows is given to it at a time."""

from collections.abc import Mapping

import numpy as np
import scipy.sparse
import torch
from torch import nn

from rfmlearn import _backend


class CannotRunError(ValueError, RuntimeError):
    """The rows do not fit the network; torch itself says so by a RuntimeError."""


class Inputs:
    """The rows of a network, in its dtype and on its device a part at a time.

    Parameters
    ----------
    X : array, tensor, tuple or dict of these
        A tuple holds what the network takes by position, a dict what it takes by name, each with
        one entry a row.
    module : nn.Module
        The network.
    """

    def __init__(self, X, module):
        weights = [p for p in module.parameters() if not nn.parameter.is_lazy(p)]
        if len(weights) < len(list(module.parameters())):
            raise ValueError(
                f"{type(module).__name__} has lazy layers, which have no weights before they saw "
                "rows. Run it once on some rows."
            )
        weights = [p for p in weights if p.is_floating_point()]
        if not weights:
            raise ValueError(f"{type(module).__name__} has no weights to read.")
        # a scale or a token may be kept in another precision than what reads the rows
        self.like = next((p for p in weights if p.ndim >= 2), weights[0])
        if self.like.is_meta:
            raise ValueError(
                f"The weights of {type(module).__name__} are on device 'meta': they have no values."
            )
        self.eps = max(torch.finfo(p.dtype).eps for p in weights)
        self.embeds = any(isinstance(m, nn.Embedding | nn.EmbeddingBag) for m in module.modules())
        self.names = list(X) if isinstance(X, Mapping) else None
        if self.names is not None:
            several = list(X.values())
        else:  # a tuple of rows that are tuples of numbers is one array
            arrays = isinstance(X, tuple) and all(hasattr(part, "shape") for part in X)
            several = list(X) if arrays else [X]
        self.parts = [_numbers(part) for part in several]
        lengths = {len(part) for part in self.parts}
        if len(lengths) != 1:
            raise ValueError(f"The inputs have different numbers of rows: {sorted(lengths)}.")
        if lengths == {0}:
            raise ValueError("X has no rows.")

    def __len__(self):
        return len(self.parts[0])

    def into(self, model, rows):
        """Return what a model says of a slice of the rows."""
        given = [self._placed(part[rows]) for part in self.parts]
        try:
            if self.names is None:
                return model(*given)
            return model(**dict(zip(self.names, given)))
        except (RuntimeError, TypeError, IndexError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            shapes = ", ".join(str(tuple(part.shape[1:])) for part in given)
            what = str(error).strip().split("\n")[0]
            raise CannotRunError(
                f"{type(model).__name__} cannot be run, with its layers read, on rows of shape "
                f"{shapes} and type {given[0].dtype}: {what} (Several inputs are given as a tuple, "
                "or by name as a dict.)"
            ) from error

    def _placed(self, part):
        # a copy: a module may write into its input, which is the user's
        part = _backend.to_tensor(part, self.like.device).clone()
        if not part.is_floating_point():
            return part.long() if self.embeds else part.to(self.like.dtype)
        if _backend.holds(~torch.isfinite(part).all()):
            raise ValueError("X holds NaN or infinity.")
        return part.to(self.like.dtype)


def _numbers(X):
    """Return a tensor or an array of numbers, or say what X is instead."""
    if scipy.sparse.issparse(X):
        raise TypeError("X is sparse; a network reads dense rows: pass X.toarray().")
    if not isinstance(X, torch.Tensor):
        try:
            X = np.asarray(X)
            if X.dtype == object:  # nullable columns of a frame
                X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"X holds what is not a number: {error} (Several inputs are given as a tuple.)"
            ) from error
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X holds {X.dtype}, not real numbers.")
    elif X.is_complex():
        raise ValueError(f"X holds {X.dtype}, not real numbers.")
    if not X.ndim:
        raise ValueError("X is one number; rows are needed.")
    return X
