# SPDX-License-Identifier: BSD-3-Clause
"""Types of the public API. Arrays are NumPy's, or what it makes arrays of."""

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike

# Of a decorator that leaves the signature as it is.
F = TypeVar("F", bound=Callable)

#: An array or a tensor; a function returns the kind that it is given.
Array = TypeVar("Array", np.ndarray, torch.Tensor)
RandomState = int | np.random.RandomState | None

__all__ = ["Any", "Array", "ArrayLike", "Callable", "F", "RandomState", "Self", "Sequence"]
