# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of any fitted scikit-learn estimator with respect to its input.

Where the function is known as an expansion in one of our kernels, as a linear map or as a network,
its gradient is too; what was read off the estimator is compared with what the estimator says
before it is trusted. Elsewhere: central differences.
"""

import copy
from functools import singledispatch

import numpy as np
import torch
from sklearn.base import is_classifier
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as gp
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR

from rfmlearn import _backend
from rfmlearn._base._sklearn import svm_gamma
from rfmlearn.kernels import Gaussian, Laplace, Matern, ProductLaplace, RationalQuadratic
from rfmlearn.kernels._expansion import Predictor
from rfmlearn.neural._read import read_network
from rfmlearn.neural._train import input_gradients

# Rows at which what was read off an estimator is compared with what it says, and how well
# both must agree, relative to the spread of what it says.
N_COMPARED = 50
AGREEMENT = 1e-5

# Steps of the differences, in standard deviations of a feature. The first, of functions that answer
# to it, balances the rounding of float32 predictions, 1e-7 / step, against curvature, step^2. The
# others smooth a staircase.
STEPS = (5e-3, 0.5, 1.0, 2.0)


def gradients_of(estimator, X, how="auto", weight=None):
    """Return an object whose ``at(X)`` gives the gradients of a fitted estimator, (n, c, d).

    Parameters
    ----------
    estimator : estimator
        Fitted.
    X : ndarray of shape (n, d)
        Rows it was fitted to.
    how : {"auto", "analytic", "numeric"}
        "auto" is analytic where that can be had.
    weight : ndarray of shape (n,), optional
        Weights of the rows, which count in the step of differences.

    Raises
    ------
    ValueError
        If "analytic" is asked for and the function is not known.
    """
    known = None if how == "numeric" else _known(estimator, X)
    if known is None and how == "analytic":
        raise ValueError(
            f"gradient='analytic', but the function of {type(estimator).__name__} is not known "
            "here. Use gradient='auto', 'numeric', or a callable."
        )
    return Differences(estimator, X, weight) if known is None else known


def scores(estimator, X):
    """Return what a fitted estimator says of rows, (n, c), before any decision."""
    methods = ("decision_function", "predict_proba", "predict")
    method = next(m for m in methods if hasattr(estimator, m))
    said = getattr(estimator, method)(X)
    if isinstance(said, list):  # probabilities of several outputs
        said = np.concatenate(said, axis=1)
    elif method == "predict" and is_classifier(estimator):  # labels: those of each class
        said = said[:, None] == estimator.classes_
    return np.asarray(said, dtype=np.float64).reshape(len(X), -1)


class Differences:
    """Central differences, one column after the other.

    Of a staircase, such as a tree, the difference over a wide step is the derivative of its
    running mean. Which step is needed shows at the rows: the first to which most of them answer.
    """

    analytic = False

    def __init__(self, estimator, X, weight=None):
        self.estimator = estimator
        centred = X - np.average(X, axis=0, weights=weight)
        spread = np.sqrt(np.average(centred**2, axis=0, weights=weight))
        # a column that has faded out of the rows is not asked for finer detail than others
        self.unit = (
            np.maximum(spread, 1e-3 * spread.max()) if spread.any() else np.ones_like(spread)
        )
        some = slice(None, None, max(len(X) // N_COMPARED, 1))
        for self.step in STEPS:
            moved = np.any(self.at(X[some]) != 0, axis=(1, 2))
            if np.average(moved, weights=None if weight is None else weight[some]) > 0.5:
                break

    def at(self, X):
        """Return the gradients at the rows of X, (n, c, d)."""
        parts = []
        for j, unit in enumerate(self.unit):
            above, below = X.copy(), X.copy()
            above[:, j] += self.step * unit
            below[:, j] -= self.step * unit
            rise = scores(self.estimator, above) - scores(self.estimator, below)
            parts.append(rise / (above[:, j] - below[:, j])[:, None])
        return np.stack(parts, axis=2)


class Own:
    """Gradients that the estimator knows itself."""

    analytic = True

    def __init__(self, estimator):
        self.at = estimator.input_gradients


class Linear:
    """Gradients of a linear function: its coefficients, (c, d), at every row."""

    analytic = True

    def __init__(self, coef):
        self.coef = np.atleast_2d(coef)

    def scores(self, X):
        """Return the function without its constant, (n, c)."""
        return X @ self.coef.T

    def at(self, X):
        """Return the gradients at the rows of X, (n, c, d)."""
        return np.broadcast_to(self.coef, (len(X), *self.coef.shape))


class Expansion:
    """Gradients of an expansion in one of our kernels."""

    analytic = True

    def __init__(self, kernel, X, coef, bandwidth, scales=None):
        rows, coef = (_backend.to_tensor(A, dtype=torch.float64) for A in (X, coef))
        root = None if scales is None else 1 / _backend.to_tensor(scales, dtype=torch.float64)
        if root is not None and root.ndim == 0:
            root = root.expand(rows.shape[1])
        self._predictor = Predictor.of(
            kernel, rows, coef.reshape(len(rows), -1), root, rows.new_tensor(bandwidth)
        )

    def scores(self, X):
        """Return the expansion, (n, c)."""
        return _backend.to_numpy(self._predictor.scores(X))

    def at(self, X):
        """Return the gradients at the rows of X, (n, c, d)."""
        return _backend.to_numpy(self._predictor.gradients(_backend.to_tensor(X).double()))


class Network:
    """Gradients of a torch module's outputs."""

    analytic = True

    def __init__(self, module):
        self.module = copy.deepcopy(module).eval().requires_grad_(False)
        self.like = next(self.module.parameters())

    def at(self, X):
        """Return the gradients at the rows of X, (n, c, d)."""
        X = _backend.to_tensor(X, self.like.device, self.like.dtype)
        return _backend.to_numpy(input_gradients(self.module, X))


class Mapped:
    """Gradients behind affine transformers: those behind them, times their matrix."""

    analytic = True

    def __init__(self, steps, matrix, inner):
        self.steps, self.matrix, self.inner = steps, matrix, inner

    def at(self, X):
        """Return the gradients at the rows of X, (n, c, d)."""
        return self.inner.at(_through(self.steps, X)) @ self.matrix.T


def _through(steps, X):
    """Return what transformers make of rows, in the container that the last of them chose."""
    for step in steps:
        X = step.transform(X)
    return X


def _known(estimator, X):
    """Return the gradients of a function that is known, or None."""
    if isinstance(estimator, GridSearchCV | RandomizedSearchCV):
        return _known(estimator.best_estimator_, X)
    if isinstance(estimator, Pipeline):
        steps = [s for _, s in estimator.steps[:-1] if s not in (None, "passthrough")]
        if not all(map(_is_affine, steps)):
            return None
        ends = np.vstack([np.zeros(X.shape[1]), np.eye(X.shape[1])])
        origin, *units = np.asarray(_through(steps, ends))
        inner, matrix = _known(estimator.steps[-1][1], _through(steps, X)), units - origin
        return None if inner is None else Mapped(steps, matrix, inner)
    if hasattr(estimator, "input_gradients"):
        return Own(estimator)
    read = _read(estimator)
    return read if read is None or isinstance(read, Network) else _trusted(read, estimator, X)


def _is_affine(step):
    if isinstance(step, MinMaxScaler):
        return not step.clip
    return isinstance(step, StandardScaler | MaxAbsScaler | RobustScaler | PCA | TruncatedSVD)


def _trusted(read, estimator, X):
    """Return what was read if it is what the estimator says, but for constants; else None."""
    X = X[:: max(len(X) // N_COMPARED, 1)]
    if len(getattr(estimator, "classes_", ())) > 2 and isinstance(estimator, SVC | NuSVC):
        estimator = copy.copy(estimator).set_params(decision_function_shape="ovo", break_ties=False)
    said, ours = scores(estimator, X), read.scores(np.asarray(X))
    if said.shape != ours.shape:
        return None
    said, ours = said - said.mean(axis=0), ours - ours.mean(axis=0)
    limit = AGREEMENT * max(np.abs(said).max(), np.finfo(np.float32).eps)
    return read if np.abs(said - ours).max() <= limit else None


@singledispatch
def _read(estimator):
    """Return the function of an estimator, or None."""
    if hasattr(estimator, "coefs_") or hasattr(estimator, "module_"):
        return Network(read_network(estimator)[0])
    coef = getattr(estimator, "coef_", None)
    if not isinstance(coef, np.ndarray) or not hasattr(estimator, "intercept_"):
        return None
    return Linear(coef)


@_read.register(SVC)
@_read.register(NuSVC)
@_read.register(SVR)
@_read.register(NuSVR)
def _svm(machine):
    if not len(machine.support_vectors_):  # a constant
        return None
    if machine.kernel == "linear":
        return Linear(machine.coef_)
    if machine.kernel != "rbf":
        return None
    coef = _one_against_one(machine) if len(machine.n_support_) > 2 else machine.dual_coef_.T
    return Expansion(Gaussian(), machine.support_vectors_, coef, (2 * svm_gamma(machine)) ** -0.5)


def _one_against_one(machine):
    """Return the dual coefficients of each pair of classes i < j, (n_support, n_pairs).

    Support vectors are ordered by class; for those of class i row j - 1 of `dual_coef_` holds
    the coefficients against a class j > i, for those of j row i.
    """
    ends = np.cumsum(machine.n_support_)
    own = [slice(end - n, end) for n, end in zip(machine.n_support_, ends)]
    pairs = [(i, j) for i in range(len(own)) for j in range(i + 1, len(own))]
    coef = np.zeros((ends[-1], len(pairs)))
    for column, (i, j) in enumerate(pairs):
        coef[own[i], column] = machine.dual_coef_[j - 1, own[i]]
        coef[own[j], column] = machine.dual_coef_[i, own[j]]
    return coef


@_read.register
def _kernel_ridge(machine: KernelRidge):
    X, coef = machine.X_fit_, machine.dual_coef_
    gamma = 1 / X.shape[1] if machine.gamma is None else machine.gamma
    if machine.kernel == "rbf":
        return Expansion(Gaussian(), X, coef, (2 * gamma) ** -0.5)
    if machine.kernel == "laplacian":
        return Expansion(ProductLaplace(), X, coef, 1 / gamma)
    if machine.kernel == "linear":
        return Linear((X.T @ coef).T)
    return None


@_read.register
def _gaussian_process(machine: GaussianProcessRegressor):
    found = _stationary(machine.kernel_)
    if found is None:
        return None
    variance, kernel, scales = found
    X = machine.X_train_
    coef = variance * machine.alpha_.reshape(len(X), -1)
    if machine.normalize_y:
        # the units of y show in its predictions, here of rows without names
        machine = copy.copy(machine)
        vars(machine).pop("feature_names_in_", None)
        ours = Expansion(kernel, X, coef, 1.0, scales).scores(X).std(axis=0)
        coef = coef * (scores(machine, X).std(axis=0) / np.where(ours > 0, ours, 1.0))
    return Expansion(kernel, X, coef, 1.0, scales)


def _stationary(kernel):
    """Return (variance, our kernel, length scales) of variance * k + white noise, or None."""
    if isinstance(kernel, gp.Sum | gp.Product):
        parts = [kernel.k1, kernel.k2]
        # neither changes with the row: white noise is 0 and a constant has no slope
        neutral = (gp.ConstantKernel, gp.WhiteKernel)
        if isinstance(kernel, gp.Product):
            neutral = gp.ConstantKernel
        left = [part for part in parts if not isinstance(part, neutral)]
        if len(left) != 1 or (found := _stationary(left[0])) is None:
            return None
        if isinstance(kernel, gp.Sum):
            return found
        (constant,) = (part for part in parts if part is not left[0])
        return found[0] * constant.constant_value, *found[1:]
    if type(kernel) is gp.RBF or (type(kernel) is gp.Matern and kernel.nu == np.inf):
        return 1.0, Gaussian(), kernel.length_scale
    if type(kernel) is gp.Matern and kernel.nu in (0.5, 1.5, 2.5):
        ours = Laplace() if kernel.nu == 0.5 else Matern(kernel.nu)
        return 1.0, ours, kernel.length_scale
    if type(kernel) is gp.RationalQuadratic and 0 < kernel.alpha <= 1e6:
        return 1.0, RationalQuadratic(kernel.alpha), kernel.length_scale
    return None
