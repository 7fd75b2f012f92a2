# SPDX-License-Identifier: BSD-3-Clause
"""What the estimators of the package share: the meeting of scikit-learn and torch.

The only file that imports private names of scikit-learn.
"""

import warnings
from abc import ABCMeta
from functools import partial
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    _fit_context,
)
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import (  # noqa: F401
    HasMethods,
    Interval,
    Options,
    StrOptions,
)
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from rfmlearn import _backend
from rfmlearn._history import History
from rfmlearn._predictor import Metric, Predictor
from rfmlearn._search import Path, Rowset
from rfmlearn._targets import hold_out
from rfmlearn.features import top_directions
from rfmlearn.kernels import KERNELS, Kernel, resolve_kernel
from rfmlearn.solvers import SOLVERS

_FLOATS = [np.float64, np.float32]

# Of what is fitted step by step: kernel machines and networks.
COURSE_CONSTRAINTS = {
    "tol": [Interval(Real, 0, None, closed="left")],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "warm_start": ["boolean"],
    "device": [str],
    "random_state": ["random_state"],
}


class BaseModel(BaseEstimator):
    """What every estimator does with its rows before it fits them.

    A subclass adds a task (see `_tasks`): what a target is, and how it is weighted.
    """

    def _rows_to_fit(self, X, y, sample_weight, X_val, y_val, sample_weight_val, rng):
        """Return X, y, weight, the fitted target and the validation rows or None."""
        X, y = self._check(X, y, reset=True)
        target = self._target().fit(y)
        weight = self._row_weights(sample_weight, X, y)
        validation = self._check_validation(X_val, y_val, sample_weight_val, target)
        keep = weight > 0
        if not keep.any():
            raise ValueError("sample_weight is 0 for every training row; nothing is left to fit.")
        if not keep.all():
            X, y, weight = X[keep], y[keep], weight[keep]
        if self.early_stopping and validation is None:
            size = int(np.ceil(self.validation_fraction * len(X)))
            learn, held = hold_out(len(X), size, y if hasattr(target, "encoder") else None, rng)
            validation = X[held], target.encode(y[held]), weight[held]
            X, y, weight = X[learn], y[learn], weight[learn]
        return X, y, weight, target, validation

    def _check(self, X, y="no_validation", reset=False):
        """Return validated X, or X and y."""
        checks = {"dtype": _FLOATS, "reset": reset}
        if isinstance(y, str):
            X = validate_data(self, X, **checks)
            _refuse_extreme(X)
            return X
        X, y = validate_data(self, X, y, **checks, **self._target_checks)
        if issparse(y):
            raise TypeError("Sparse y is not supported; pass y.toarray().")
        _refuse_extreme(X)
        return X, y

    def _class_weights(self, y):
        """Return a weight for each row by its class, or None."""
        return None

    def _row_weights(self, sample_weight, X, y):
        """Return sample weights times class weights, float64."""
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        by_class = self._class_weights(y)
        return weight if by_class is None else weight * by_class

    def _check_validation(self, X_val, y_val, sample_weight_val, target):
        """Return (X, target matrix, weight) of the given validation rows, or None."""
        if X_val is None and y_val is None:
            if sample_weight_val is not None:
                raise ValueError("sample_weight_val was given without X_val and y_val.")
            return None
        if X_val is None or y_val is None:
            given, missing = ("X_val", "y_val") if y_val is None else ("y_val", "X_val")
            raise ValueError(f"{given} was given without {missing}; early stopping needs both.")
        if not self.early_stopping:
            raise ValueError(
                "X_val and y_val were given, but early_stopping is False. Set it to True to "
                "use them."
            )
        X_val, y_val = self._check(X_val, y_val)
        weight = self._row_weights(sample_weight_val, X_val, y_val)
        if not weight.any():
            raise ValueError("sample_weight_val is 0 for every validation row.")
        return X_val, target.encode(y_val), weight


def svm_gamma(machine):
    """Return the gamma that a fitted support vector machine works with."""
    return machine._gamma


def _refuse_extreme(X):
    """Raise where squared distances would leave the range of the dtype, at either end."""
    limit, largest = np.sqrt(np.finfo(X.dtype).max / 16) / X.shape[1], max(X.max(), -X.min())
    if 0 < largest < np.sqrt(np.finfo(X.dtype).tiny):
        raise ValueError(
            f"X holds values of at most {largest:.1e}, whose squares are 0 in {X.dtype}. Rescale "
            "the columns, with StandardScaler for instance."
        )
    if largest > limit:
        column = int(np.abs(X).max(axis=0).argmax())
        raise ValueError(
            f"Column {column} of X holds values up to {np.abs(X[:, column]).max():.1e}, whose "
            f"squares leave the range of {X.dtype} (limit {limit:.1e}). Rescale the column, "
            "with StandardScaler for instance."
        )


class BaseKernelMachine(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    CallbackSupportMixin,
    BaseModel,
    metaclass=ABCMeta,
):
    """Recursive kernel ridge regression on a centred target matrix.

    A subclass adds a task (see `_tasks`), which reads predictions off `_scores`.
    """

    _parameter_constraints = {
        "kernel": [StrOptions(set(KERNELS)), Kernel],
        "bandwidth": [Interval(Real, 0, None, closed="neither")],
        "bandwidth_mode": [StrOptions({"adaptive", "constant"})],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "agop_alpha": [Interval(Real, 0, None, closed="left"), None],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "diag": ["boolean"],
        "agop_power": [Interval(Real, 0, None, closed="neither")],
        "matrix_scaling": [StrOptions({"spectral", "trace"}), None],
        "center_gradients": ["boolean"],
        "n_agop_samples": [Interval(Integral, 1, None, closed="left"), None],
        "agop_outputs": [StrOptions({"auto", "all"}), Interval(Integral, 1, None, closed="left")],
        "n_centers": [Interval(Integral, 1, None, closed="left"), None],
        "solver": [StrOptions({"auto", *SOLVERS})],
        "solver_tol": [Interval(Real, 0, None, closed="neither"), None],
        "memory_budget": [Interval(Integral, 1, None, closed="left"), None],
        **COURSE_CONSTRAINTS,
    }

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, *, X_val=None, y_val=None, sample_weight_val=None):
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows. float32 stays float32; everything else becomes float64.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets; class labels, one per row, for a classifier.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights: weight k counts as the row repeated k times, weight 0 as
            the row left out.
        X_val : array-like of shape (n_val, n_features), default=None
            Rows for early stopping, instead of a random part of X. In a `Pipeline` they
            are transformed with ``transform_input=["X_val"]``.
        y_val : array-like of shape (n_val,) or (n_val, n_outputs), default=None
            Their targets.
        sample_weight_val : array-like of shape (n_val,), default=None
            Their weights.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter is out of range, the data hold NaN, infinities, text or numbers
            too large to square, there is one class only, or the device is not there.
        MemoryError
            If the kernel matrix does not fit into what is free.
        numpy.linalg.LinAlgError
            If the kernel system cannot be solved; with `alpha` > 0 and a positive
            definite kernel this does not happen.
        """
        rng = check_random_state(self.random_state)
        X, y, weight, target, validation = self._rows_to_fit(
            X, y, sample_weight, X_val, y_val, sample_weight_val, rng
        )
        kernel = self._resolve_kernel(X.shape[1])
        path = Path.of(
            self,
            rng,
            kernel=kernel,
            bandwidth=self.bandwidth,
            diag=self.diag,
            alphas=(self.alpha,),
            max_iter=self.max_iter,
            every_iterate=self.early_stopping or bool(getattr(self, "_skl_callbacks", ())),
        )
        rows = Rowset(X, y, target.encode(y), weight)
        with path.guard(*rows.Y.shape, X.dtype.itemsize, self.memory_budget):
            targets, shift, expansion, states = path.start(
                rows, self._starting_metric(kernel.metric_size(X.shape[1]))
            )
            # a copy: the fitted model must not change when the caller's array does
            X_fit = np.array(X[expansion], order="C")
            own = {"_kernel": kernel, "_shift": shift, "_total_weight": float(weight.sum())}

            def describe(state, history):
                fitted = self._attributes(state, history, X_fit, targets, flat=target.flat(y))
                return {**fitted, **self._task_attributes(target), **own}

            told = {"estimator": self, "X": X, "y": y}
            told["metadata"] = {"sample_weight": weight} if np.any(weight != 1) else {}
            history = History(
                targets, weight, float(self.alpha), validation, self.tol, self.n_iter_no_change
            )
            self._follow(states, history, told, describe)
        for name, value in describe(history.best, history.rows).items():
            setattr(self, name, value)
        return self

    def _follow(self, states, history, told, describe):
        """Draw the iterates into the history, tell the callbacks, stop where told."""
        context = self._init_callback_context(max_subtasks=self.max_iter + 1)
        context.call_on_fit_task_begin(**told)
        for _ in range(self.max_iter + 1):
            task = context.subcontext(task_name="iterate")
            task.call_on_fit_task_begin(**told)
            state = next(states, None)
            if state is None:  # an AGOP of 0: the metric stays, and so does the predictor
                task.call_on_fit_task_end(estimator=self)
                break
            history.add(state)
            fitted = partial(describe, state, history.rows)
            stop = task.call_on_fit_task_end(**told, reconstruction_attributes=fitted)
            if stop or history.exhausted:
                break
        context.call_on_fit_task_end(
            **told, reconstruction_attributes=partial(describe, history.best, history.rows)
        )
        for message, category in history.complaints():
            warnings.warn(message, category, stacklevel=4)

    def _attributes(self, state, history, X, targets, flat):
        """Return the fitted attributes of one iterate, all NumPy or plain."""
        predictor = state.predictor
        size = predictor.kernel.metric_size(X.shape[1])
        M = _backend.to_numpy(state.metric.dense(size, self.diag))
        importances = M if M.ndim == 1 else M.diagonal()
        coef = _backend.to_numpy(predictor.coef) * X.dtype.type(targets.scale)
        return {
            "feature_matrix_": M.astype(X.dtype),
            "feature_importances_": importances / importances.sum(),
            "dual_coef_": coef[:, 0] if flat else coef,
            "X_fit_": X,
            "intercept_": float(targets.intercept[0]) if flat else targets.intercept,
            "bandwidth_": float(predictor.bandwidth),
            "n_iter_": int(history["iteration"][-1]),
            "best_iter_": state.iteration,
            "history_": history,
            "_metric_root": None if predictor.root is None else _backend.to_numpy(predictor.root),
        }

    def _resolve_kernel(self, n_features):
        """Return the kernel of rows of so many features."""
        return resolve_kernel(self.kernel)

    def _starting_metric(self, d):
        """Return the metric (d, d) of the previous fit under warm_start, else None."""
        if not (self.warm_start and hasattr(self, "feature_matrix_")):
            return None
        M = self.feature_matrix_
        if M.shape != ((d,) if self.diag else (d, d)):
            raise ValueError(
                f"warm_start=True continues from a feature_matrix_ of shape {M.shape}, which "
                f"does not fit {d} features with diag={self.diag}. Refit with warm_start=False."
            )
        return Metric.of(_backend.to_tensor(M), scaling=self.matrix_scaling)

    def _predictor(self):
        """Return the fitted predictor on the estimator's device."""
        device = _backend.resolve_device(self.device)

        def tensor(array):
            return None if array is None else _backend.to_tensor(array, device)

        X = tensor(self.X_fit_)
        return Predictor.of(
            self._kernel,
            X,
            tensor(self.dual_coef_.reshape(len(X), -1)),
            tensor(self._metric_root),
            X.new_full((), self.bandwidth_),
            tensor(self._shift),
        )

    def _scores(self, X):
        """Return the outputs at the rows of X, (n,) or (n, n_outputs), intercept included."""
        check_is_fitted(self, "dual_coef_")
        X = self._check(X)
        scores = _backend.to_numpy(self._predictor().scores(X))
        scores += np.asarray(self.intercept_, dtype=scores.dtype)
        return scores[:, 0] if self.dual_coef_.ndim == 1 else scores

    def input_gradients(self, X):
        """Gradients of the outputs with respect to the input.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Where to take them.

        Returns
        -------
        ndarray of shape (n_samples, n_outputs, n_features)
            In units of y per unit of each feature. A binary classifier has one output,
            its `decision_function`. At a training row a kernel with a kink counts that
            row's own term as 0.
        """
        check_is_fitted(self, "dual_coef_")
        X = self._check(X)
        return _backend.to_numpy(self._predictor().gradients(X))

    def transform(self, X, n_components=None):
        """Map rows to coordinates whose Euclidean distance is that of the learned metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        n_components : int, default=None
            None gives ``X M^(1/2)``; k gives the coordinates on the k leading eigenvectors
            of M, each times the root of its eigenvalue (not with ``set_output``, whose
            column names are those of all n_features).

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_components)
            The mapped rows, in the dtype of the fitted model; a data frame under
            ``set_output``.

        Raises
        ------
        ValueError
            If `n_components` is not in 1, ..., n_features, or is given under `set_output`.
        """
        check_is_fitted(self, "dual_coef_")
        X = self._check(X).astype(self.X_fit_.dtype, copy=False)
        if n_components is not None:
            self._refuse_frames()
            directions, strengths = top_directions(self.feature_matrix_, n_components)
            return X @ (directions * np.sqrt(strengths)[:, None]).T
        if self._metric_root is None:
            return X.copy()
        return X * self._metric_root if self._metric_root.ndim == 1 else X @ self._metric_root

    def _refuse_frames(self):
        """Raise under `set_output`, whose column names are those of all features."""
        if _get_output_config("transform", self)["dense"] != "default":
            raise ValueError(
                "n_components works with array output only. Call "
                "set_output(transform='default') first."
            )

    @property
    def _n_features_out(self):
        return self.n_features_in_
