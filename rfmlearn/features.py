# SPDX-License-Identifier: BSD-3-Clause
"""Feature matrices: the average gradient outer product and what to do with one.

Plain functions for arrays and tensors alike: NumPy in, NumPy out; tensor in, tensor out.
A feature matrix is a symmetric positive semi-definite (d, d) matrix, or the (d,) diagonal
of one.
"""

from numbers import Integral, Real

import torch

from rfmlearn import _backend
from rfmlearn._typing import Any, Array, ArrayLike

__all__ = ["agop", "alignment", "matrix_power", "top_directions"]

# From so many dimensions on a low rank is made use of, and how many random directions more than
# the rank its range is found with.
_WIDE = 256
_SPARE = 8


class GradientMoments:
    """Running sums of gradients, from which the AGOP follows.

    Parameters
    ----------
    diag : bool
        Keep the diagonal of the second moment only.
    root : tensor of shape (d, k) or (d,), optional
        The gradients are with respect to rows times this; the result is one of rows.
    n_rows : int, optional
        How many rows will be taken in; needed with `root`.

    Attributes
    ----------
    rank : int
        Number of gradients taken in: the second moment has no larger rank.
    """

    def __init__(self, diag=False, root=None, n_rows=None):
        self.diag, self.root, self.n_rows = diag, root, n_rows
        self.rank = 0
        self.weight = self.second = 0.0
        self.first = {}

    def add(self, G, weight=None, slot=0):
        """Take in gradients G of shape (n, c, d) of n rows with their weights (n,).

        Of rows that have several slots the moments are summed over them; each has its own mean.
        """
        if self._each(G.shape[1]):
            G = G @ self.root.mT
        wG = G if weight is None else G * weight[:, None, None]
        self.rank += G.shape[0] * G.shape[1]
        if slot == 0:
            self.weight = self.weight + (len(G) if weight is None else weight.sum())
        self.first[slot] = self.first.get(slot, 0.0) + wG.sum(0)
        if self.diag:
            self.second = self.second + (wG * G).sum((0, 1))
        else:
            self.second = self.second + wG.flatten(0, 1).T @ G.flatten(0, 1)
        return self

    def result(self, center_gradients=False):
        """Return the (centred) second moment, (d, d) or (d,), summed over outputs."""
        second, root = self.second / self.weight, self.root
        if center_gradients:
            mean = torch.cat(list(self.first.values())) / self.weight
            second = second - (mean.square().sum(0) if self.diag else mean.T @ mean)
        if root is None or self._each(len(self.first[0])):
            return second
        return second * root.square() if root.ndim == 1 else root @ second @ root.mT

    def _each(self, n_outputs):
        """Say whether the chain rule is for each gradient: few of them in many dimensions.

        Otherwise it is once for the sum.
        """
        root = self.root
        return root is not None and root.ndim == 2 and few(self.n_rows * n_outputs, len(root))


@_backend.isolated
def agop(
    gradients: Any,
    X: Any = None,
    *,
    sample_weight: Array | ArrayLike | None = None,
    center_gradients: bool = False,
    diag: bool = False,
) -> Any:
    r"""Average gradient outer product.

    ``sum_i w_i sum_c g_ic g_ic^T / sum_i w_i``, with g_ic the gradient of output c at row
    i with respect to the input: the directions in which a predictor changes, and how much.

    Parameters
    ----------
    gradients : array or tensor of shape (n, d) or (n, c, d), or fitted estimator
        Gradients of one or of c outputs at n rows; or an estimator with
        ``input_gradients(X)``, which is then asked block by block, so that no
        (n, c, d) array is made.
    X : array of shape (n, d), optional
        The rows, when an estimator is given.
    sample_weight : array or tensor of shape (n,), optional
        Non-negative weights of the rows; None counts each once.
    center_gradients : bool, default=False
        Subtract each output's mean gradient first: the covariance of the gradients
        instead of their second moment.
    diag : bool, default=False
        Return the diagonal only.

    Returns
    -------
    array or tensor of shape (d, d), or (d,) with `diag`
        In the dtype of the gradients.

    Raises
    ------
    ValueError
        If the gradients have the wrong number of dimensions, there are no rows, or the
        weights do not fit them.
    TypeError
        If an estimator has no ``input_gradients``, or X is missing or superfluous.

    Notes
    -----
    The AGOP of arXiv 2212.13881, equation 1. It does not change when the outputs are
    rotated.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn.features import agop
    >>> agop(np.array([[1.0, 0.0], [1.0, 2.0]]))
    array([[1., 1.],
           [1., 2.]])
    """
    moments = GradientMoments(diag)
    if hasattr(gradients, "shape"):
        if X is not None:
            raise TypeError("X belongs with an estimator; the gradients are given already.")
        G = _backend.to_tensor(gradients)
        if G.ndim == 2:
            G = G[:, None]
        if G.ndim != 3 or not len(G):
            raise ValueError(
                "gradients must have shape (n, d) or (n, c, d) with n > 0; "
                f"got {tuple(gradients.shape)}."
            )
        weight = row_weights(sample_weight, G)
        moments.add(G, weight)
        return _backend.in_kind_of(moments.result(center_gradients), gradients)
    if not hasattr(gradients, "input_gradients"):
        raise TypeError(
            f"{type(gradients).__name__} has no input_gradients(X). Compute the gradients "
            "yourself and pass them as an array of shape (n, c, d)."
        )
    if X is None:
        raise TypeError("X is needed: the rows at which the estimator's gradients are taken.")
    first = _backend.to_tensor(gradients.input_gradients(X[:1]))
    if not first.numel():
        raise ValueError("X has no rows.")
    weight = row_weights(sample_weight, first, n=len(X))
    for block in _backend.blocks(len(X), first.nbytes, first.device):
        G = _backend.to_tensor(gradients.input_gradients(X[block]))
        moments.add(G, None if weight is None else weight[block])
    return _backend.to_numpy(moments.result(center_gradients))


def row_weights(sample_weight, G, n=None):
    """Return the weights as a tensor like G, or None; refuse a wrong number of them."""
    if sample_weight is None:
        return None
    weight = _backend.to_tensor(sample_weight, G.device, G.dtype)
    n = len(G) if n is None else n
    if weight.shape != (n,) or _backend.holds((weight < 0).any() | (weight.sum() <= 0)):
        raise ValueError(
            f"sample_weight must hold {n} weights, none negative and not all 0; "
            f"got shape {tuple(weight.shape)}."
        )
    return weight


def few(rank, d):
    """Say whether a matrix of that rank in d dimensions is better known by its range."""
    return d >= _WIDE and 4 * (rank + _SPARE) <= d


def psd_eigh(M, rank=None):
    """Return eigenvalues, ascending, and eigenvectors, in columns, of a PSD matrix.

    Eigenvalues within rounding of 0 (below ``d eps`` of the largest, negative ones too)
    become 0, so that a null space stays one under the square root.

    Parameters
    ----------
    M : tensor of shape (d, d)
        The matrix.
    rank : int, optional
        A bound of its rank. Where it is a small part of d, only the range is decomposed, found
        as that of the product with a few more random columns (N. Halko, P.-G. Martinsson,
        J. Tropp, SIAM Review 2011): ``d^2 rank`` operations instead of ``d^3``, as exact.

    Returns
    -------
    values : tensor of shape (d,), or (k,) with k < d
        The others are 0.
    vectors : tensor of shape (d, d) or (d, k)
        Unit vectors.
    """
    M, d = (M + M.mT) / 2, len(M)
    if rank is not None and few(rank, d):
        draw = torch.Generator().manual_seed(0)
        columns = torch.randn(d, rank + _SPARE, generator=draw, dtype=torch.float64).to(M)
        basis = torch.linalg.qr(M @ columns).Q
        values, inner = torch.linalg.eigh(basis.mT @ M @ basis)
        vectors = basis @ inner
    else:
        values, vectors = torch.linalg.eigh(M)
    floor = d * torch.finfo(M.dtype).eps * values[-1]
    return values.masked_fill(values <= floor, 0), vectors


@_backend.isolated
def matrix_power(M: Array, power: float) -> Array:
    """Power of a symmetric positive semi-definite matrix.

    Parameters
    ----------
    M : array or tensor of shape (d, d) or (d,)
        Feature matrix, or the diagonal of one.
    power : float
        Positive exponent; 0.5 gives the symmetric square root.

    Returns
    -------
    array or tensor of the shape and dtype of M
        Computed in float64. Eigenvalues below ``d eps`` of the largest count as 0.

    Raises
    ------
    ValueError
        If M is neither square nor a vector, not symmetric and positive semi-definite, or not
        finite, or `power` is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn.features import matrix_power
    >>> matrix_power(np.array([[2.0, 0.0], [0.0, 9.0]]), 2).round(6)
    array([[ 4.,  0.],
           [ 0., 81.]])
    """
    T = _matrix(M)
    if not (isinstance(power, Real) and 0 < power < float("inf")):
        raise ValueError(f"power={power!r} must be positive and finite.")
    values, V = _spectrum(T)
    result = values**power if V is None else (V * values**power) @ V.mT
    return _backend.in_kind_of(result.to(T), M)


@_backend.isolated
def alignment(A: Array, B: Array, method: str = "cosine") -> float:
    """How far two feature matrices agree, whatever their scale.

    Parameters
    ----------
    A, B : array or tensor, same shape
        Feature matrices, or diagonals.
    method : {"cosine", "pearson"}, default="cosine"
        Cosine of the flattened matrices, or their Pearson correlation. The cosine of two
        positive semi-definite matrices is never negative, and that of two dense ones is
        high by itself; Pearson subtracts the mean entry first.

    Returns
    -------
    float
        In [-1, 1]; NaN if either has no length (all 0, or constant for "pearson").

    Raises
    ------
    ValueError
        If the shapes differ or the method is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn.features import alignment
    >>> alignment(np.eye(2), np.ones((2, 2)))
    0.7071067811865475
    """
    if method not in ("cosine", "pearson"):
        raise ValueError(f"method={method!r} must be 'cosine' or 'pearson'.")
    a, b = (_backend.on_host(_backend.to_tensor(T)).flatten() for T in (A, B))
    if tuple(A.shape) != tuple(B.shape):
        raise ValueError(f"The shapes differ: {tuple(A.shape)} and {tuple(B.shape)}.")
    if method == "pearson":
        a, b = a - a.mean(), b - b.mean()
    return float((a @ b / (a.norm() * b.norm())).clamp(-1, 1))


@_backend.isolated
def top_directions(M: Array, n_directions: int | None = None) -> tuple[Array, Array]:
    """Leading eigenvectors of a feature matrix.

    Parameters
    ----------
    M : array or tensor of shape (d, d) or (d,)
        Feature matrix, or the diagonal of one.
    n_directions : int, optional
        How many; None means all d.

    Returns
    -------
    directions : array or tensor of shape (n_directions, d)
        Unit vectors in rows, the strongest first, in the dtype of M. The largest entry of
        each is positive, which fixes the sign.
    strengths : array or tensor of shape (n_directions,)
        Their eigenvalues.

    Raises
    ------
    ValueError
        If M is neither square nor a vector, not symmetric and positive semi-definite, or not
        finite, or `n_directions` is not in 1, ..., d.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn.features import top_directions
    >>> directions, strengths = top_directions(np.diag([1.0, 3.0, 2.0]), 2)
    >>> directions.round(6) + 0.0
    array([[0., 1., 0.],
           [0., 0., 1.]])
    >>> strengths.round(6)
    array([3., 2.])
    """
    T = _matrix(M)
    d = len(T)
    k = d if n_directions is None else n_directions
    if not (isinstance(k, Integral) and 1 <= k <= d):
        raise ValueError(f"n_directions={n_directions!r} must lie in 1, ..., {d}.")
    values, V = _spectrum(T)
    V = torch.eye(d).to(values) if V is None else V
    order = values.argsort(descending=True, stable=True)[:k]
    directions = V.mT[order]
    peak = directions.gather(1, directions.abs().argmax(1, keepdim=True))
    directions, strengths = directions * peak.sign(), values[order]
    return _backend.in_kind_of(directions.to(T), M), _backend.in_kind_of(strengths.to(T), M)


def _matrix(M):
    """Return a (d, d) or (d,) tensor of floats, or say what is wrong with M."""
    T = _backend.to_tensor(M)
    if T.ndim not in (1, 2) or not len(T) or T.shape[0] != T.shape[-1]:
        raise ValueError(f"A feature matrix has shape (d, d) or (d,); got {tuple(T.shape)}.")
    T = T if T.is_floating_point() else T.to(torch.float64)
    if not T.isfinite().all():
        raise ValueError("The feature matrix holds NaN or infinity.")
    if T.ndim == 2 and (T - T.mT).abs().max() > _rounding(T) * T.abs().max():
        raise ValueError("The feature matrix is not symmetric.")
    return T


def _spectrum(T):
    """Return eigenvalues and eigenvectors (None of a diagonal) of what `_matrix` returned."""
    host = _backend.on_host(T)
    values, V = (host.clamp(min=0), None) if T.ndim == 1 else psd_eigh(host)
    negative = (host.diagonal() if T.ndim == 2 else host).sum() - values.sum()
    if negative < -_rounding(T) * values.max():
        raise ValueError("The feature matrix has negative eigenvalues.")
    return values, V


def _rounding(T):
    """Return what is surely not rounding any more, relative to the largest entry."""
    return torch.finfo(T.dtype).eps ** 0.5
