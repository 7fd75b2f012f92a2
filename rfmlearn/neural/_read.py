# SPDX-License-Identifier: BSD-3-Clause
"""From whatever the user trained to a torch module and its initial weights."""

import torch
from sklearn.utils.validation import check_is_fitted
from torch import nn

from rfmlearn import _backend
from rfmlearn.neural._abc import make_network, set_weights
from rfmlearn.neural._modules import named


def read_network(model):
    """Return the network of a trained model.

    Parameters
    ----------
    model : nn.Module or estimator
        A module; an estimator with ``to_torch()``; scikit-learn's `MLPClassifier` or
        `MLPRegressor`; a skorch net; a `FrozenEstimator` around one.

    Returns
    -------
    module : nn.Module
        Outputs before any softmax, where we build it.
    init : dict or None
        Initial weights by layer name, where they are known.

    Raises
    ------
    TypeError
        If the model is none of these.
    NotFittedError
        If it is not fitted.
    """
    if isinstance(model, nn.Module):
        return model, None
    if type(model).__name__ == "FrozenEstimator":
        return read_network(model.estimator)
    if hasattr(model, "to_torch"):
        module = model.to_torch()
        names = [name for name, layer in module.named_modules() if isinstance(layer, nn.Linear)]
        init = {f"{n}.weight": torch.from_numpy(W.T) for n, W in zip(names, model.init_coefs_)}
        return module, init
    if hasattr(model, "hidden_layer_sizes"):
        check_is_fitted(model, "coefs_")
        return sequential(model.coefs_, model.intercepts_, named(model.activation)), None
    if hasattr(model, "initialize") and hasattr(model, "module"):  # skorch
        check_is_fitted(model, "module_")
        return model.module_, None
    raise TypeError(
        f"{type(model).__name__} is not a network that can be read. Pass a torch.nn.Module, an "
        "ABCMLPClassifier or ABCMLPRegressor, scikit-learn's MLPClassifier or MLPRegressor, or a "
        "skorch net."
    )


def sequential(coefs, intercepts, activation):
    """Return linear layers and activations with given weights.

    Parameters
    ----------
    coefs : list of ndarray of shape (fan_in, fan_out)
        Weights, as scikit-learn has them.
    intercepts : list of ndarray of shape (fan_out,)
        Biases.
    activation : str
        Key of `MODULES`.

    Returns
    -------
    nn.Sequential
        On the CPU, with copies of the weights.
    """
    sizes = [len(coefs[0]), *map(len, intercepts)]
    dtype = _backend.to_tensor(coefs[0]).dtype
    network = make_network(sizes, activation, dtype, torch.device("cpu"))
    set_weights(network, coefs, intercepts)
    return network
