# SPDX-License-Identifier: BSD-3-Clause
"""What both MLPs share: fitting a network epoch by epoch, and its outputs."""

from copy import deepcopy
from numbers import Integral, Real

import numpy as np
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from rfmlearn import _backend
from rfmlearn._base._model import BaseModel
from rfmlearn._base._progress import STEP_CONSTRAINTS, Listeners, Progress
from rfmlearn._base._sklearn import Interval, Options, StrOptions, fit_context
from rfmlearn._base._warn import warn
from rfmlearn._typing import ArrayLike, RandomState, Self, Sequence
from rfmlearn.neural._abc import ABC_TABLE, Scaling, make_network, set_weights, weights_of
from rfmlearn.neural._limit import LimitScaling
from rfmlearn.neural._modules import MODULES
from rfmlearn.neural._read import sequential
from rfmlearn.neural._train import (
    LOSSES,
    epochs,
    input_gradients,
    make_optimizer,
    mean_loss,
    predict,
    resolve_batch_size,
)

_RATES = {"adam": 1e-3, "sgd": 0.05}
_FIELDS = [("epoch", np.int64), ("train_loss", np.float64), ("validation_loss", np.float64)]


class BaseABCMLP(CallbackSupportMixin, BaseModel):
    """A multilayer perceptron in an abc-parametrisation; a subclass adds a task.

    `_target_unit` says in what units of the target matrix the network is trained: (zero, one).
    """

    _parameter_constraints = {
        "hidden_layer_sizes": [
            "array-like",
            Interval(Integral, 1, None, closed="left"),
            Options(Real, {np.inf}),
        ],
        "activation": [StrOptions(set(MODULES))],
        "parametrization": [StrOptions({name for name, _ in ABC_TABLE})],
        "base_width": [Interval(Integral, 1, None, closed="left")],
        "init_scale": [Interval(Real, 0, None, closed="left")],
        "first_layer_scale": [Interval(Real, 0, None, closed="left")],
        "zero_init_output": ["boolean"],
        "fit_intercept": ["boolean"],
        "optimizer": [StrOptions(set(_RATES))],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "momentum": [Interval(Real, 0, 1, closed="left")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_epochs": [Interval(Integral, 0, None, closed="left")],
        **STEP_CONSTRAINTS,
    }

    def __init__(
        self,
        hidden_layer_sizes: float | Sequence[int] = (256, 256),
        *,
        activation: str = "relu",
        parametrization: str = "mup",
        base_width: int = 64,
        init_scale: float = 1.0,
        first_layer_scale: float = 1.0,
        zero_init_output: bool = False,
        fit_intercept: bool = True,
        optimizer: str = "adam",
        learning_rate: float | None = None,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        batch_size: int | str = "auto",
        max_epochs: int = 200,
        tol: float = 1e-4,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        warm_start: bool = False,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.parametrization = parametrization
        self.base_width = base_width
        self.init_scale = init_scale
        self.first_layer_scale = first_layer_scale
        self.zero_init_output = zero_init_output
        self.fit_intercept = fit_intercept
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state

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
        """Train the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows, of similar scales (`StandardScaler`). float32 stays float32;
            everything else becomes float64.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets; class labels, one per row, for a classifier.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows in the loss. With all rows in one batch weight k
            counts as the row repeated k times, and weight 0 always as the row left out.
        X_val : array-like of shape (n_val, n_features), default=None
            Rows for early stopping, instead of a random part of X.
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
            If a parameter is out of range, the data hold NaN, infinities or text, there is
            one class only, the device is not there, or the training diverges.
        """
        device = _backend.resolve_device(self.device)
        rng = check_random_state(self.random_state)
        rows = self._rows_to_fit(X, y, sample_weight, X_val, y_val, sample_weight_val, rng)
        X, Y = rows.X, rows.Y
        unit = self._target_unit(Y, rows.weight)
        rate = _RATES[self.optimizer] if self.learning_rate is None else self.learning_rate
        scaling = self._scaling(X.shape[1], Y.shape[1])
        facts = rows.facts(activations=self.activation)
        network, start = self._network(scaling, X.dtype, unit, rng, device, facts)
        groups = scaling.parameter_groups(network, rate, self.weight_decay, self.fit_intercept)

        def tensors(X, Y, weight):
            arrays = X, (Y - unit[0]) / unit[1], weight
            return tuple(_backend.to_tensor(np.asarray(a, rows.X.dtype), device) for a in arrays)

        held_out = None if rows.validation is None else tensors(*rows.validation)
        loss = LOSSES[self._resolve_loss()]
        training = _Training(network, loss, held_out, self.tol, self.n_iter_no_change)
        losses = epochs(
            network,
            *tensors(X, Y, rows.weight),
            loss=loss,
            optimizer=make_optimizer(self.optimizer, groups, self.momentum),
            batch_size=resolve_batch_size(self.batch_size, len(X)),
            seed=int(rng.randint(2**31)),
        )
        own = {
            **rows.seen,
            **self._task_attributes(rows.target, rows.weight),
            "init_coefs_": start[0],
            "init_intercepts_": start[1],
            "n_outputs_": Y.shape[1],
            "_flat": bool(rows.target.flat(rows.y)),
            "_activation": self.activation,
            "_begun": facts,
            "_loss": self._resolve_loss(),
        }

        def describe():
            coefs, intercepts = weights_of(network, *unit)
            fitted = {"coefs_": coefs, "intercepts_": intercepts, **training.attributes()}
            return {**fitted, **own}

        listeners = Listeners(self, "epoch", self.max_epochs, X, rows.y, rows.weight)
        self._follow(losses, training, listeners, describe)
        return self._store(describe())

    def _follow(self, losses, training, listeners, describe):
        """Run the epochs, tell the callbacks, stop where told, and restore the best."""
        for epoch in range(1, self.max_epochs + 1):
            listeners.begin()
            value = float(next(losses))
            if not np.isfinite(value):
                self._complain_of(value, epoch)
            training.add(epoch, value)
            stop = listeners.end(describe)
            if stop or training.progress.exhausted:
                break
        if training.diverged():
            self._complain_of(float("nan"), self.max_epochs)
        training.restore_best()
        listeners.finish(describe)
        if training.worse_than_start():
            warn(
                "The training loss is higher than before training. Lower learning_rate, or bring "
                "the columns of X to similar scales with StandardScaler.",
                ConvergenceWarning,
            )

    def _network(self, scaling, dtype, unit, rng, device, facts):
        """Return the network to train, and its initial weights and biases in units of y."""
        dtype = _backend.to_tensor(np.empty(0, dtype)).dtype
        network = make_network(scaling.sizes, self.activation, dtype, device)
        if self.warm_start and hasattr(self, "coefs_"):
            self._load(network, scaling.sizes, *unit)
            self._refuse_another(facts)
            return network, (self.init_coefs_, self.init_intercepts_)
        factors = self._initial_factors(len(scaling.sizes) - 1)
        scaling.initialize(network, factors, seed=int(rng.randint(2**31)))
        return network, weights_of(network, *unit)

    def _complain_of(self, value, epoch):
        raise ValueError(
            f"The training diverged: its loss was {value} in epoch {epoch}. Bring the columns of X "
            f"to similar scales with StandardScaler, or lower learning_rate, which was "
            f"{self.learning_rate or _RATES[self.optimizer]}."
        )

    def _scaling(self, n_features, n_outputs):
        """Return the parametrisation at the widths of this network, or its limit."""
        sizes = np.atleast_1d(np.asarray(self.hidden_layer_sizes))
        if sizes.shape == (1,) and sizes[0] == np.inf:
            kind = self.activation, self.parametrization, self.optimizer
            if kind != ("identity", "mup", "sgd"):
                raise ValueError(
                    "A layer of infinite width has a closed form with activation='identity', "
                    "parametrization='mup' and optimizer='sgd' only; got {!r}, {!r} and "
                    "{!r}.".format(*kind)
                )
            return LimitScaling(n_features, n_outputs, self.base_width)
        if sizes.ndim != 1 or (sizes.size and (sizes.dtype.kind not in "iu" or sizes.min() < 1)):
            raise ValueError(
                f"hidden_layer_sizes={self.hidden_layer_sizes!r} must hold positive whole numbers, "
                "or be one layer of infinite width."
            )
        sizes = [n_features, *sizes.tolist(), n_outputs]
        return Scaling(self.parametrization, self.optimizer, sizes, self.base_width)

    def _initial_factors(self, n_layers):
        """Return the factor of the standard deviation of each layer's initial weights."""
        factors = [self.init_scale * MODULES[self.activation].gain] * (n_layers - 1)
        factors.append(0.0 if self.zero_init_output else self.init_scale)
        factors[0] *= self.first_layer_scale
        return factors

    def _load(self, network, sizes, intercept, scale):
        """Continue from the weights of the previous fit."""
        before = [self.coefs_[0].shape[0], *(W.shape[1] for W in self.coefs_)]
        if before != sizes:
            raise ValueError(
                f"warm_start=True continues from a network of sizes {before}, which does not fit "
                f"{sizes}. Refit with warm_start=False."
            )
        (*coefs, W), (*intercepts, b) = self.coefs_, self.intercepts_
        set_weights(network, [*coefs, W / scale], [*intercepts, (b - intercept) / scale])

    @_backend.isolated
    def to_torch(self) -> nn.Sequential:
        """Return the fitted network as a torch module.

        Returns
        -------
        nn.Sequential
            Linear layers and activations on the CPU, a copy; its outputs are those of
            `predict` of a regressor, of `decision_function` of a classifier, as (n, n_outputs).
        """
        check_is_fitted(self, "coefs_")
        return sequential(self.coefs_, self.intercepts_, self._activation)

    def initial(self) -> Self:
        """Return the network before training, as a fitted estimator.

        Returns
        -------
        estimator
            A copy of this one with the initial weights: the control of what training did.
        """
        check_is_fitted(self, "coefs_")
        other = deepcopy(self)
        other.coefs_ = deepcopy(self.init_coefs_)
        other.intercepts_ = deepcopy(self.init_intercepts_)
        other.n_iter_, other.best_iter_, other.history_ = 0, 0, self.history_[:0]
        return other

    def _on_device(self, X):
        """Return the network and X on the estimator's device."""
        check_is_fitted(self, "coefs_")
        X = self._check(X)
        device = _backend.resolve_device(self.device)
        network = self.to_torch().to(device)
        return network, _backend.to_tensor(X.astype(self.coefs_[0].dtype, copy=False), device)

    @_backend.isolated
    def _scores(self, X):
        """Return the outputs at the rows of X, (n,) or (n, n_outputs)."""
        scores = _backend.to_numpy(predict(*self._on_device(X)))
        return scores[:, 0] if self._flat else scores

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
            In units of y (or of the decision function) per unit of each feature.
        """
        return _backend.to_numpy(input_gradients(*self._on_device(X)))


class _Training:
    """Losses by epoch, and the weights of the best one where rows are held out."""

    def __init__(self, network, loss, validation, tol, patience):
        self.network, self.loss, self.validation = network, loss, validation
        self.progress = Progress(tol, patience)
        self.rows, self.best_epoch, self._state = [], 0, None
        if validation is not None:
            self._judge(0)

    def _judge(self, epoch):
        value = float(mean_loss(self.network, *self.validation, self.loss))
        if self.progress.judge(-value):
            self.best_epoch = epoch
            self._state = deepcopy(self.network.state_dict())
        return value

    def add(self, epoch, train_loss):
        value = np.nan if self.validation is None else self._judge(epoch)
        self.rows.append((epoch, train_loss, value))
        if self.validation is None:
            self.best_epoch = epoch

    def diverged(self):
        return not all(bool(p.isfinite().all()) for p in self.network.parameters())

    def worse_than_start(self):
        """Say whether the last epoch's loss is above the first's, which is before training."""
        return len(self.rows) > 1 and self.rows[-1][1] > 2 * self.rows[0][1]

    def restore_best(self):
        if self._state is not None:
            self.network.load_state_dict(self._state)

    def attributes(self):
        history = np.array(self.rows, dtype=_FIELDS)
        return {"history_": history, "n_iter_": len(self.rows), "best_iter_": self.best_epoch}
