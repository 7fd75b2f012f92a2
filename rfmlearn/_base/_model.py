# SPDX-License-Identifier: BSD-3-Clause
"""The base of all estimators: data in, one fitted state out."""

from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from rfmlearn._base._sklearn import check_weight
from rfmlearn._base._targets import hold_out, refuse_missing, refuse_no_targets


@dataclass(frozen=True)
class FitRows:
    """Rows to fit, checked, without those of weight 0 and those held out.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Rows.
    y : ndarray of shape (n,) or (n, c)
        Targets as they came.
    weight : ndarray of shape (n,)
        Positive row weights, class weights included.
    sample_weight : ndarray of shape (n,)
        The same without class weights.
    target : RegressionTarget or ClassTarget
        What makes a target matrix of y.
    seen : dict
        The fitted attributes that say what X was: ``n_features_in_``, ``feature_names_in_``.
    validation : tuple (X, Y, weight) or None
        Held-out rows, their target matrix and their weights.
    """

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    sample_weight: np.ndarray
    target: object
    seen: dict = field(repr=False)
    validation: tuple | None = None

    @property
    def Y(self):
        """The target matrix (n, c)."""
        return self.target.encode(self.y)

    def facts(self, **more):
        """Return what a warm start must find as it was: columns, classes or outputs, and more."""
        names = self.seen.get("feature_names_in_")
        columns = self.seen["n_features_in_"] if names is None else names.tolist()
        classes = getattr(self.target, "encoder", None)
        outputs = self.target.encode(self.y[:1]).shape[1]
        outputs = outputs if classes is None else classes.classes_.tolist()
        what = "outputs" if classes is None else "classes"
        return {"columns": columns, what: outputs, **more}

    def take(self, index, **changes):
        """Return some of the rows."""
        own = ("X", "y", "weight", "sample_weight")
        return replace(self, **{name: getattr(self, name)[index] for name in own}, **changes)


class BaseModel(BaseEstimator):
    """What every estimator does with its rows before it fits them, and with what it fitted.

    A subclass adds a task (see `_tasks`): what a target is, and how it is weighted. It fits
    without touching itself, and calls `_store` at the end: an estimator whose fit fails, or is
    interrupted, is what it was before.
    """

    def _store(self, fitted):
        """Replace all that an earlier fit left by the attributes of this one, at once."""
        old = vars(self).get("_stored", ())
        kept = {name: value for name, value in vars(self).items() if name not in old}
        self.__dict__ = {**kept, **fitted, "_stored": (*fitted, "_stored")}
        return self

    def _rows_to_fit(
        self, X, y, sample_weight, X_val=None, y_val=None, sample_weight_val=None, rng=None
    ):
        """Return the `FitRows` of what ``fit`` was given."""
        X, y, seen = self._check_fit(X, y)
        own, weight = self._training_weights(sample_weight, X, y)
        keep = weight > 0
        if not keep.all():
            X, y, own, weight = X[keep], y[keep], own[keep], weight[keep]
        target = self._target().fit(y)
        validation = self._check_validation(X_val, y_val, sample_weight_val, target, y, seen)
        rows = FitRows(X, y, weight, own, target, seen, validation)
        if getattr(self, "early_stopping", False) and validation is None:
            size = int(np.ceil(self.validation_fraction * len(rows.X)))
            labels = rows.y if hasattr(target, "encoder") else None
            learn, held = hold_out(len(rows.X), size, labels, rng)
            out = rows.take(held)
            rows = rows.take(learn, validation=(out.X, out.Y, out.weight))
        return rows

    def _refuse_another(self, facts):
        """Raise where a warm start would continue a fit of something else."""
        for what, before in vars(self).get("_begun", {}).items():
            if before != facts[what]:
                raise ValueError(
                    f"warm_start=True continues a fit whose {what} were {before}; now they are "
                    f"{facts[what]}. Refit with warm_start=False."
                )

    def _check_fit(self, X, y="no_validation"):
        """Return validated X and y (None without) for a fit, and what will be known of X."""
        stub = copy(self)
        for name in ("n_features_in_", "feature_names_in_"):
            vars(stub).pop(name, None)
        X, y = stub._validate(X, y, reset=True)
        names = ("n_features_in_", "feature_names_in_")
        return X, y, {name: vars(stub)[name] for name in names if name in vars(stub)}

    def _check(self, X):
        """Return validated X for a fitted estimator."""
        return self._validate(X, "no_validation", reset=False)[0]

    def _validate(self, X, y, reset):
        """Return X and y, or X and None, as this estimator takes them."""
        checks = {"dtype": [np.float64, np.float32], "reset": reset}
        if isinstance(y, str) and y == "no_validation":
            X, y = validate_data(self, X, **checks), None
        else:
            refuse_missing(y)
            X, y = validate_data(self, X, y, **checks, **self._target_checks)
            if issparse(y):
                raise TypeError("Sparse y is not supported; pass y.toarray().")
            refuse_no_targets(y, self._target_checks.get("y_numeric", False))
        _refuse_extreme(X)
        return X, y

    def _class_weights(self, y):
        """Return a weight for each row by its class, or None."""
        return None

    def _row_weights(self, sample_weight, X, y):
        """Return sample weights, and the same times class weights; float64.

        Rows of weight 0 count as left out, also where classes are balanced.
        """
        own = check_weight(sample_weight, X)
        weight, seen = own.copy(), own > 0
        if seen.any() and (by_class := self._class_weights(y[seen])) is not None:
            weight[seen] *= by_class
        return own, weight

    def _training_weights(self, sample_weight, X, y):
        """Return the weights of rows to fit (see `_row_weights`), not all of which may be 0."""
        own, weight = self._row_weights(sample_weight, X, y)
        if not weight.any():
            raise ValueError("sample_weight is 0 for every training row; nothing is left to fit.")
        return own, weight

    def _check_validation(self, X_val, y_val, sample_weight_val, target, y, seen):
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
        stub = copy(self)
        vars(stub).pop("feature_names_in_", None)
        vars(stub).update(seen)
        X_val, y_val = stub._validate(X_val, y_val, reset=False)
        _, weight = self._row_weights(sample_weight_val, X_val, y_val)
        if not weight.any():
            raise ValueError("sample_weight_val is 0 for every validation row.")
        Y_val, n_outputs = target.encode(y_val), target.encode(y[:1]).shape[1]
        if Y_val.shape[1] != n_outputs:
            raise ValueError(f"y_val has {Y_val.shape[1]} outputs, y has {n_outputs}.")
        return X_val, Y_val, weight


def largest_square_root(dtype, n_features):
    """Return the number up to which squared distances of rows stay in the range of a dtype."""
    return np.sqrt(np.finfo(dtype).max / 16) / n_features


def _refuse_extreme(X):
    """Raise where squared distances would leave the range of the dtype, at either end."""
    limit, largest = largest_square_root(X.dtype, X.shape[1]), max(X.max(), -X.min())
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
