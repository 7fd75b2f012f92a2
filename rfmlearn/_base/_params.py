# SPDX-License-Identifier: BSD-3-Clause
"""Parameters that are one value, or a sequence of them."""

from collections.abc import Sequence
from numbers import Real

import numpy as np


def listed(name, value, kind=Real, of="number"):
    """Return one value or a sequence of values as a tuple; an error names what is neither.

    Parameters
    ----------
    name : str
        Of the parameter.
    value : object
        One value, a sequence, or an array of at most one axis.
    kind : type or tuple of type
        Of each value.
    of : str
        What a value is, in words.

    Returns
    -------
    tuple
        The values, those of an array as plain numbers.

    Raises
    ------
    ValueError
        If it is something else.
    """
    if isinstance(value, kind):
        return (value,)
    values = None
    if hasattr(value, "__array__") and np.ndim(value) <= 1:
        values = np.asarray(value).reshape(-1).tolist()
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        values = value
    if values is None or not all(isinstance(v, kind) for v in values):
        raise ValueError(f"{name}={value!r} must be a {of}, or a sequence of them.")
    return tuple(values)
