# SPDX-License-Identifier: BSD-3-Clause
"""Recursive kernel ridge regression as an estimator: what all machines on rows share."""

from abc import ABCMeta
from numbers import Integral, Real

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rfmlearn import _backend
from rfmlearn._base._kept import KeptMatrix, kept
from rfmlearn._base._model import BaseModel
from rfmlearn._base._progress import STEP_CONSTRAINTS, Listeners, listens
from rfmlearn._base._sklearn import Interval, StrOptions, fit_context, makes_frames
from rfmlearn._base._warn import warn
from rfmlearn._metric import Metric
from rfmlearn._typing import ArrayLike, Self
from rfmlearn.features import top_directions
from rfmlearn.kernels import KERNELS, Kernel, RadialKernel, Rows, resolve_kernel
from rfmlearn.kernels._expansion import Predictor
from rfmlearn.kernels._geometry import geometry_of
from rfmlearn.rfm._history import History
from rfmlearn.rfm._path import Path, Rowset
from rfmlearn.rfm._spec import RecursionSpec
from rfmlearn.solvers import SOLVERS, Solver


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
        "solver": [StrOptions({"auto", *SOLVERS}), Solver],
        "memory_budget": [Interval(Integral, 1, None, closed="left"), None],
        **STEP_CONSTRAINTS,
    }

    @fit_context()
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> Self:
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
        rows = self._rows_to_fit(X, y, sample_weight, X_val, y_val, sample_weight_val, rng)
        kernel = self._resolve_kernel(rows.X.shape[1])
        path = Path.of(RecursionSpec.of(self, rng, kernel=kernel))
        train = Rowset(rows.X, rows.y, rows.Y, rows.weight, rows.sample_weight, rows.target.units)
        with path.guard(*train.Y.shape, train.X.dtype.itemsize):
            targets, shift, expansion, states = path.start(
                train,
                self._starting_metric(path.spec, rows),
                every_iterate=self.early_stopping or listens(self),
            )
            # a copy: the fitted model must not change when the caller's array does
            X_fit = np.array(rows.X[expansion], order="C")
            own = {
                **rows.seen,
                **self._task_attributes(rows.target, rows.weight),
                "kernel_": kernel,
                "_shift": shift,
                "_begun": rows.facts(**self._geometry_facts(kernel)),
            }

            def describe(state, history):
                flat = rows.target.flat(rows.y)
                fitted = self._attributes(state, history, X_fit, targets, path.spec.diag, flat)
                return {**fitted, **own}

            history = History(
                targets,
                rows.weight,
                path.spec.alphas[0],
                rows.validation,
                self.tol,
                self.n_iter_no_change,
            )
            steps = self.max_iter + 1
            listeners = Listeners(self, "iterate", steps, rows.X, rows.y, rows.weight)
            self._follow(states, history, listeners, describe)
        return self._store(describe(history.best, history.rows))

    def _follow(self, states, history, listeners, describe):
        """Draw the iterates into the history, tell the callbacks, stop where told."""
        for _ in range(self.max_iter + 1):
            listeners.begin()
            state = next(states, None)
            if state is None:  # an AGOP of 0: the metric stays, and so does the predictor
                listeners.end_of_nothing()
                break
            history.add(state)
            stop = listeners.end(lambda state=state: describe(state, history.rows))
            if stop or history.exhausted:
                break
        listeners.finish(lambda: describe(history.best, history.rows))
        for message, category in history.complaints():
            warn(message, category)

    def _attributes(self, state, history, X, targets, diag, flat):
        """Return the fitted attributes of one iterate, all NumPy or plain."""
        predictor = state.predictor
        size = geometry_of(predictor.kernel).metric_size(X.shape[1])
        importances = _backend.to_numpy(state.metric.diagonal(size))
        coef = _backend.to_numpy(predictor.coef) * targets.scale.astype(X.dtype)
        return {
            "feature_importances_": importances / importances.sum(),
            "dual_coef_": coef[:, 0] if flat else coef,
            "X_fit_": X,
            "intercept_": float(targets.intercept[0]) if flat else targets.intercept,
            "bandwidth_": float(predictor.bandwidth),
            "n_iter_": int(history["iteration"][-1]),
            "best_iter_": state.iteration,
            "history_": history,
            **self._metric_attributes(state, KeptMatrix.of(state.metric, size, diag, X.dtype)),
        }

    def _metric_attributes(self, state, M):
        """Return what is kept of the metric, and the rows in it.

        Of a metric of low rank the matrices are made when they are asked for. Rows of a table are
        kept in the metric too, as much again as `X_fit_`, so that a prediction need not map them
        all; patches of images, which overlap, are not.
        """
        predictor = state.predictor
        made = predictor.root is None or M.factor is not None
        root = None if made else _backend.to_numpy(predictor.root)
        kept = {"_matrix": M, "_root": root, "_rows": None}
        if getattr(predictor.kernel, "grid", None) is None:
            rows = predictor.rows
            parts = (rows.values, rows.sq_norms, rows.resolution)
            kept["_rows"] = tuple(map(_backend.to_numpy, parts))
        return kept

    @property
    def feature_matrix_(self):
        """The learned M; setting it is where a warm start begins."""
        return kept(self, "_matrix").dense()

    @feature_matrix_.setter
    def feature_matrix_(self, M):
        M = np.asarray(M)
        self._matrix = KeptMatrix(M.dtype, matrix=M)

    @property
    def _metric_root(self):
        """The symmetric root of M; None for the identity."""
        if self._matrix.factor is None:
            return self._root
        return self._matrix.root()

    def _resolve_kernel(self, n_features):
        """Return the kernel of rows of so many features."""
        return resolve_kernel(self.kernel)

    def _geometry_facts(self, kernel):
        """Return what a warm start must find as it was of what the metric acts on."""
        return {}

    def _starting_metric(self, spec, rows):
        """Return the metric (d, d) of the previous fit under warm_start, else None."""
        if not (self.warm_start and hasattr(self, "feature_matrix_")):
            return None
        M, d = self.feature_matrix_, geometry_of(spec.kernel).metric_size(rows.X.shape[1])
        if M.shape != ((d,) if spec.diag else (d, d)):
            raise ValueError(
                f"warm_start=True continues from a feature_matrix_ of shape {M.shape}, which "
                f"does not fit {d} features with diag={spec.diag}. Refit with warm_start=False."
            )
        self._refuse_another(rows.facts(**self._geometry_facts(spec.kernel)))
        return Metric.of(_backend.to_tensor(M), matrix_scaling=spec.matrix_scaling)

    def _predictor(self):
        """Return the fitted predictor on the estimator's device."""
        device = _backend.resolve_device(self.device)

        def tensor(array):
            return None if array is None else _backend.to_tensor(array, device)

        coef = tensor(self.dual_coef_.reshape(len(self.X_fit_), -1))
        factor = self._matrix.factor if isinstance(self.kernel_, RadialKernel) else None
        root = tensor(self._metric_root if factor is None else factor)
        kernel, shift = self.kernel_, tensor(self._shift)
        bandwidth = coef.new_full((), self.bandwidth_)
        if self._rows is None:
            return Predictor.of(kernel, tensor(self.X_fit_), coef, root, bandwidth, shift)
        return Predictor(kernel, Rows(*map(tensor, self._rows)), coef, root, bandwidth, shift)

    @_backend.isolated
    def _scores(self, X):
        """Return the outputs at the rows of X, (n,) or (n, n_outputs), intercept included."""
        check_is_fitted(self, "dual_coef_")
        X = self._check(X)
        scores = _backend.to_numpy(self._predictor().scores(X))
        scores += np.asarray(self.intercept_, dtype=scores.dtype)
        return scores[:, 0] if self.dual_coef_.ndim == 1 else scores

    @_backend.isolated
    def input_gradients(self, X: ArrayLike) -> np.ndarray:
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

    @_backend.isolated
    def transform(self, X: ArrayLike, n_components: int | None = None) -> np.ndarray:
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
        root = self._metric_root
        if root is None:
            return X.copy()
        return X * root if root.ndim == 1 else X @ root

    def _refuse_frames(self):
        """Raise under `set_output`, whose column names are those of all features."""
        if makes_frames(self):
            raise ValueError(
                "n_components works with array output only. Call "
                "set_output(transform='default') first."
            )

    @property
    def _n_features_out(self):
        return self.n_features_in_
