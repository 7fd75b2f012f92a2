# SPDX-License-Identifier: BSD-3-Clause
"""The regime that learns features: networks in muP, at infinite width where they are linear."""

from itertools import islice

import numpy as np
from sklearn.utils import check_random_state

from rfmlearn import _backend
from rfmlearn.neural._abc import ACTIVATIONS, Scaling, gain, make_network, weights_of
from rfmlearn.neural._limit import LimitScaling
from rfmlearn.neural._read import sequential
from rfmlearn.neural._train import LOSSES, epochs, input_gradients, make_optimizer, predict

# Steps where the user leaves the time open: no closed form tells where training ends.
STEPS = 1000


class FeatureLearningRegime:
    """Gradient descent on the squared error, all rows in one step."""

    def fit(self, model, X, y, R, weight, device, unit, flat):
        """Return the fitted attributes (see `KernelRegime.fit`)."""
        steps = STEPS if model.training_time is None else model.training_time
        if steps != int(steps) or np.ndim(model.alpha) or model.activation not in ACTIVATIONS:
            raise ValueError(
                "regime='mup' trains by whole steps, with one alpha and an activation of "
                f"{sorted(ACTIVATIONS)}; got training_time={model.training_time!r}, "
                f"alpha={model.alpha!r} and activation={model.activation!r}."
            )
        d, c = X.shape[1], R.shape[1]
        exact = model.depth == 1 and model.activation == "identity"
        if exact:
            scaling = LimitScaling(d, c, 1)
        else:
            scaling = Scaling("mup", "sgd", [d, *[model.width] * model.depth, c], 1)
        w, b = model._scales(gain(model.activation))
        tensors = [_backend.to_tensor(np.asarray(a, X.dtype), device) for a in (X, R, weight)]
        network = make_network(scaling.sizes, model.activation, tensors[0].dtype, device)
        rng = check_random_state(model.random_state)
        scaling.initialize(network, w, seed=int(rng.randint(2**31)))
        start = weights_of(network, *unit)
        # the loss is a mean over rows, that of the flow over rows and outputs
        rate, penalty = model.learning_rate / c, model.alpha / weight.sum()
        groups = scaling.parameter_groups(network, rate, penalty)
        # a multiplier of a weight acts on its learning rate by the square, and not on its decay;
        # so do the inputs, which share the rate of the first layer
        for i, (weights, biases) in enumerate(zip(groups[::2], groups[1::2])):
            weights["lr"] *= w[i] ** 2
            weights["weight_decay"] *= (d if i == 0 else 1) / w[i] ** 2
            biases["lr"] *= b[i] ** 2
        optimizer = make_optimizer("sgd", groups, 0.0)
        course = epochs(
            network, *tensors, loss=LOSSES["squared"], optimizer=optimizer,
            batch_size=len(X), seed=0,
        )  # fmt: skip
        losses = np.array([2 / c * float(value) for value in islice(course, int(steps))])
        coefs, intercepts = weights_of(network, *unit)
        if not all(np.isfinite(W).all() for W in (losses, *coefs, *intercepts)):
            raise ValueError(
                f"The training diverged with learning_rate={model.learning_rate}. Lower it, or "
                "bring the columns of X to similar scales with StandardScaler."
            )
        return {
            "coefs_": coefs,
            "intercepts_": intercepts,
            "init_coefs_": start[0],
            "init_intercepts_": start[1],
            "loss_curve_": losses,
            "width_": np.inf if exact else model.width,
        }

    def scores(self, model, X):
        """Return the outputs at the rows of X, (n, c), in units of y."""
        return _backend.to_numpy(predict(*self._placed(model, X)))

    def gradients(self, model, X):
        """Return the gradients (n, c, d) of the outputs, in units of y."""
        return _backend.to_numpy(input_gradients(*self._placed(model, X)))

    def covariance(self, model, X, diagonal):
        """Return that of the limit, which does not depend on the initial weights: 0."""
        if np.isfinite(model.width_):
            raise ValueError(
                "regime='mup' has a spread in closed form at infinite width only (depth=1 and "
                "activation='identity'), where it is 0. Of networks of finite width fit several, "
                "with different random_state."
            )
        return np.zeros(len(X) if diagonal else (len(X), len(X)), model.coefs_[0].dtype)

    def _placed(self, model, X):
        """Return the network and X on the device of the estimator."""
        device = _backend.resolve_device(model.device)
        network = sequential(model.coefs_, model.intercepts_, model.activation).to(device)
        return network, _backend.to_tensor(np.asarray(X, model.coefs_[0].dtype), device)
