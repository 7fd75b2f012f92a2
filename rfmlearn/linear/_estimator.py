# SPDX-License-Identifier: BSD-3-Clause
"""Linear regression in a learned metric."""

from collections import deque
from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from rfmlearn import _backend
from rfmlearn._base._kept import KeptMatrix, kept
from rfmlearn._base._model import BaseModel
from rfmlearn._base._sklearn import Interval, fit_context
from rfmlearn._base._targets import centre, root_mean_square
from rfmlearn._base._tasks import RegressorTask
from rfmlearn._typing import ArrayLike, Self
from rfmlearn.linear._functions import Measured, recursion


class LinearRFMRegressor(RegressorTask, BaseModel):
    r"""Linear Recursive Feature Machine: ridge regression whose metric is learned.

    Fits the least ``sum_i w_i |y_i - B x_i|^2 + alpha tr B M^-1 B^T``, takes the AGOP of the fit,
    ``B^T B``, as the new M, and so on. With a diagonal M few columns are left; with a full one and
    several outputs, few directions, which the outputs share.

    Scale the columns first (`StandardScaler`) unless their units are comparable.

    Parameters
    ----------
    alpha : float, default=1.0
        Ridge, as in scikit-learn's `Ridge`. With ``agop_power=1`` and scaled columns a coefficient
        stays that is larger than about ``sqrt(alpha / n_samples)`` times the largest.
    diag : bool, default=True
        Learn one weight per column instead of a full matrix.
    agop_power : float, default=1.0
        ``M = AGOP^agop_power``; 0.5 aims at the sum of magnitudes, as the lasso does, 1 at their
        number.
    max_iter : int, default=200
        Largest number of updates; 0 is ridge regression.
    decay : float, default=0.9
        Factor, from one update to the next, of what is added to the AGOP to keep directions
        alive, in units of its largest eigenvalue.
    tol : float, default=1e-4
        Stop when the coefficients change by less, relative to their length.
    fit_intercept : bool, default=True
        Fit a constant too.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,) or (n_outputs, n_features)
        Coefficients.
    intercept_ : float or ndarray of shape (n_outputs,)
        Constants.
    feature_matrix_ : ndarray of shape (n_features,) or (n_features, n_features)
        The learned M, its largest eigenvalue 1; a vector with ``diag=True``.
    feature_importances_ : ndarray of shape (n_features,)
        The diagonal of M, summing to 1.
    n_iter_ : int
        Number of updates made.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had string column names.

    See Also
    --------
    rfmlearn.linear.linear_rfm : As a function, also of measurements of a matrix.
    rfmlearn.linear.complete_matrix : Missing entries of a matrix of low rank.
    RFMRegressor : The same for functions that are not linear.

    Notes
    -----
    The linear Recursive Feature Machine of [1]_, with a ridge; diagonal, it is iteratively
    reweighted least squares. A column whose coefficient has died out stays dead.
    Each update takes ``min(n, d)`` cubed and ``n d min(n, d)`` multiplications.

    References
    ----------
    .. [1] A. Radhakrishnan, M. Belkin, D. Drusvyatskiy. Linear Recursive Feature Machines
       provably recover low-rank matrices. arXiv 2401.04553.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn import LinearRFMRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 200))
    >>> y = 3 * X[:, 0] - 2 * X[:, 1] + 0.1 * rng.standard_normal(80)
    >>> model = LinearRFMRegressor().fit(X, y)
    >>> model.coef_[:3].round(1) + 0.0
    array([ 3. , -1.9,  0. ])
    """

    _parameter_constraints = {
        "alpha": [Interval(Real, 0, None, closed="left")],
        "diag": ["boolean"],
        "agop_power": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "decay": [Interval(Real, 0, 1, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        diag: bool = True,
        agop_power: float = 1.0,
        max_iter: int = 200,
        decay: float = 0.9,
        tol: float = 1e-4,
        fit_intercept: bool = True,
    ) -> None:
        self.alpha = alpha
        self.diag = diag
        self.agop_power = agop_power
        self.max_iter = max_iter
        self.decay = decay
        self.tol = tol
        self.fit_intercept = fit_intercept

    @fit_context()
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights: weight k counts as the row repeated k times.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range or the data hold NaN, infinities, text, or numbers
            too large to square.
        """
        fit_rows = self._rows_to_fit(X, y, sample_weight)
        X, y, weight, Y = fit_rows.X, fit_rows.y, fit_rows.weight, fit_rows.Y
        rows = X.astype(np.float64)
        mean = np.zeros(X.shape[1])
        if self.fit_intercept:
            mean = np.average(rows, axis=0, weights=weight)
            targets = centre(Y, weight)
            Y, offset, scale = targets.matrix, targets.intercept, targets.scale
        else:
            offset = np.zeros(Y.shape[1])
            scale = root_mean_square(Y, weight)
            Y = Y / scale
        s = np.sqrt(weight)[:, None]
        problem = Measured(_backend.to_tensor(s * (rows - mean)), _backend.to_tensor(s * Y))
        settings = ("diag", "alpha", "agop_power", "max_iter", "decay", "tol")
        course = recursion(problem, **{name: getattr(self, name) for name in settings})
        ((iteration, W, metric, _),) = deque(course, maxlen=1)
        coef = scale[:, None] * _backend.to_numpy(W)
        intercept = offset - coef @ mean
        importances = _backend.to_numpy(metric.diagonal(X.shape[1]))
        flat = fit_rows.target.flat(y)
        return self._store(
            {
                **fit_rows.seen,
                "coef_": (coef[0] if flat else coef).astype(X.dtype),
                "intercept_": float(intercept[0]) if flat else intercept.astype(X.dtype),
                "_matrix": KeptMatrix.of(metric, X.shape[1], self.diag, X.dtype),
                "feature_importances_": (importances / importances.sum()).astype(X.dtype),
                "n_iter_": iteration,
            }
        )

    @property
    def feature_matrix_(self):
        """The learned M, its largest eigenvalue 1."""
        return kept(self, "_matrix").dense()

    def _scores(self, X):
        check_is_fitted(self, "coef_")
        X = self._check(X)
        return X @ self.coef_.T.astype(X.dtype) + np.asarray(self.intercept_, dtype=X.dtype)

    def input_gradients(self, X: ArrayLike) -> np.ndarray:
        """Gradients of the outputs with respect to the input: the coefficients.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Where to take them.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs, n_features)
            The same at every row.
        """
        check_is_fitted(self, "coef_")
        coef = np.atleast_2d(self.coef_)
        return np.broadcast_to(coef, (len(self._check(X)), *coef.shape)).copy()
