# SPDX-License-Identifier: BSD-3-Clause
"""What can be drawn, and what is said of the rest."""

from numbers import Integral

from sklearn.utils import check_array, check_scalar


def check_matrix(M):
    """Return a feature matrix of shape (d, d), or its diagonal (d,), as numbers."""
    M = check_array(M, ensure_2d=False, allow_nd=True, input_name="feature_matrix")
    if M.ndim > 2 or (M.ndim == 2 and M.shape[0] != M.shape[1]):
        raise ValueError(f"feature_matrix must have shape (d, d) or (d,); got {M.shape}.")
    return M


def check_count(value, name, optional=True):
    """Refuse what is not a positive whole number, nor an optional None."""
    if value is not None or not optional:
        check_scalar(value, name, Integral, min_val=1)


def check_length(values, n, name, of):
    """Refuse another number of values than there are, unless None."""
    if values is not None and len(values) != n:
        raise ValueError(f"{name} has {len(values)} entries for {n} {of}.")
