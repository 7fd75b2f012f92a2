# SPDX-License-Identifier: BSD-3-Clause
"""A feature matrix as a metric."""

from dataclasses import dataclass

import torch

from rfmlearn import _backend
from rfmlearn.features import psd_eigh


@dataclass(frozen=True)
class Metric:
    """A feature matrix M with its symmetric root; None for both is the identity.

    Attributes
    ----------
    matrix, root : tensor of shape (d, d) or (d,), or None
        M and ``M^(1/2)``, in float64 on the CPU.
    factor : tensor of shape (d, k), or None
        F of ``M = F F^T + floor I`` with orthogonal columns, where the rank is known to be a small
        part of d.
    floor : float
        What M has in the directions that the factor lacks.
    """

    matrix: torch.Tensor | None = None
    root: torch.Tensor | None = None
    factor: torch.Tensor | None = None
    floor: float = 0.0

    @classmethod
    def of(cls, agop, agop_power=1.0, matrix_scaling=None, rank=None):
        """Return ``M = agop^agop_power``, scaled; None if it is 0, an error if not finite.

        Parameters
        ----------
        agop : tensor of shape (d, d) or (d,)
            AGOP, or its diagonal.
        agop_power : float
            Exponent.
        matrix_scaling : {"spectral", "trace", None}
            Largest eigenvalue 1, trace d, or as it comes.
        rank : int, optional
            A bound of the rank of the AGOP.
        """
        A = _backend.on_host(agop)
        if _backend.holds(~torch.isfinite(A).all()):
            raise ValueError(
                "The AGOP holds NaN or inf. If the kernel is your own, its slope is not finite "
                "at some pair of distinct rows."
            )
        values, V = (A.clamp(min=0), None) if A.ndim == 1 else psd_eigh(A, rank)
        if _backend.holds(~(values.max() > 0)):
            return None
        # scaled before the power, so that a tiny AGOP does not underflow
        top = values.max()
        values = (values / top) ** agop_power
        if matrix_scaling == "trace":
            values = values * (len(A) / values.sum())
        elif matrix_scaling is None:
            values = values * top**agop_power
        if V is None:
            return cls(values, values.sqrt())
        if rank is not None and 2 * rank <= len(V):
            values, V = values[-rank:], V[:, -rank:]  # in ascending order: the others are 0
        factor = V * values.sqrt()
        low = V.shape[1] < len(V)
        return cls((V * values) @ V.mT, factor @ V.mT, factor if low else None)

    def diagonal(self, d):
        """Return the diagonal of M, also where it is the identity in d dimensions."""
        if self.matrix is None:
            return torch.ones(d, dtype=torch.float64)
        return self.matrix if self.matrix.ndim == 1 else self.matrix.diagonal()

    def dense(self, d, diag):
        """Return M as a tensor also where it is the identity."""
        if self.matrix is not None:
            return self.matrix
        return torch.ones(d, dtype=torch.float64) if diag else torch.eye(d, dtype=torch.float64)
