# SPDX-License-Identifier: BSD-3-Clause
"""The features of each layer: its weights' matrix, its gradients' matrix, and their agreement."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real

import numpy as np
import torch
from torch import nn

from rfmlearn import _backend
from rfmlearn._base._sklearn import Interval, StrOptions, validated
from rfmlearn._base._warn import warn
from rfmlearn._typing import Any, ArrayLike, Callable
from rfmlearn.features import alignment, matrix_power, row_weights
from rfmlearn.neural._capture import capture, inputs_of, unread, weight_matrix
from rfmlearn.neural._inputs import Inputs
from rfmlearn.neural._read import read_network


@dataclass(frozen=True)
class LayerFeatures:
    """What one layer has learned.

    Parameters
    ----------
    name : str
        Of the module.
    call : int
        Number of earlier calls of the same module in a forward pass: 0 but for reused ones.
    nfm : ndarray of shape (d, d)
        Neural feature matrix ``W^T W``, d the inputs of the layer (of a patch); of W minus
        its initial value with ``subtract_init``.
    agop : ndarray of shape (d, d)
        Average gradient outer product at the input of the layer.
    agop_power : float
        Power of the AGOP that `alignment` compares with.
    init_nfm : ndarray of shape (d, d) or None
        ``W_0^T W_0``, where the initial weights are known.
    width : int or None
        Outputs of the layer: the rank of `nfm` and of `agop` is not larger.

    Examples
    --------
    >>> import numpy as np
    >>> from rfmlearn.neural import LayerFeatures
    >>> layer = LayerFeatures("0", 0, np.diag([4.0, 1.0]), np.diag([16.0, 1.0]))
    >>> layer.alignment
    1.0
    """

    name: str
    call: int
    nfm: np.ndarray = field(repr=False)
    agop: np.ndarray = field(repr=False)
    agop_power: float = 0.5
    init_nfm: np.ndarray | None = field(default=None, repr=False)
    width: int | None = None

    @cached_property
    def alignment(self):
        """Pearson correlation of the entries of `nfm` and of ``agop^agop_power``."""
        return alignment(self.nfm, matrix_power(self.agop, self.agop_power), "pearson")

    @cached_property
    def alignments(self):
        """All agreements: dict from "METHOD with WHAT" to a number in [-1, 1].

        METHOD is pearson or cosine; WHAT is agop^1/2, agop, or initial nfm where that is known.
        A wide network with random weights agrees with its AGOP as well, so read the first two
        beside the last (`layer_features` of the untrained network is the other control).
        """
        others = {"agop^1/2": matrix_power(self.agop, 0.5), "agop": self.agop}
        if self.init_nfm is not None:
            others["initial nfm"] = self.init_nfm
        return {
            f"{method} with {what}": alignment(self.nfm, matrix, method)
            for what, matrix in others.items()
            for method in ("pearson", "cosine")
        }


@validated(
    output=[callable, None],
    agop_power=[Interval(Real, 0, None, closed="neither")],
    center_gradients=["boolean"],
    subtract_init=["boolean"],
    init=[nn.Module, Mapping, None],
    agop_outputs=[StrOptions({"auto", "all"}), Interval(Integral, 1, None, closed="left")],
    batch_size=[Interval(Integral, 1, None, closed="left"), None],
    random_state=[Interval(Integral, 0, None, closed="left")],
)
def layer_features(
    model: Any,
    X: ArrayLike | torch.Tensor | tuple | dict,
    *,
    sample_weight: ArrayLike | None = None,
    output: Callable | None = None,
    agop_power: float = 0.5,
    center_gradients: bool = False,
    subtract_init: bool = False,
    init: nn.Module | dict | None = None,
    agop_outputs: str | int = "auto",
    batch_size: int | None = None,
    random_state: int = 0,
) -> list[LayerFeatures]:
    """Feature matrices of every layer of a trained network.

    Parameters
    ----------
    model : nn.Module or estimator
        Any torch module; an `ABCMLPClassifier` or `ABCMLPRegressor`; scikit-learn's
        `MLPClassifier` or `MLPRegressor`; a skorch net; a `Pipeline` that ends in one. It is used
        in eval mode and left as it was found: mode, hooks, ``requires_grad``, device.
    X : array-like or tensor of shape (n, ...), tuple or dict of these
        The rows, images or sequences at which gradients are taken, in the form that the
        model takes. Numbers get the dtype of the model's weights; integers stay where the
        model embeds them. A tuple holds several inputs in the order in which the model takes
        them, a dict those that it takes by name.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows in the AGOP.
    output : callable, optional
        From what the model returns to a tensor of shape (n,) or (n, c), whose gradients are
        taken: a scalar of yours, or one of several heads. None takes what the model returns,
        the logits of a classifier.
    agop_power : float, default=0.5
        The NFM is compared with ``AGOP^agop_power``.
    center_gradients : bool, default=False
        Subtract the mean gradient of each output.
    subtract_init : bool, default=False
        Take the NFM of the weights minus their initial values.
    init : nn.Module or dict, optional
        The network at initialisation, or its ``state_dict``. `ABCMLPClassifier` and
        `ABCMLPRegressor` remember theirs.
    agop_outputs : {"auto", "all"} or int, default="auto"
        The AGOP sums over the outputs. "all" takes a backward pass for each; a number
        takes that many, each of a random +-1 mixture of the outputs, drawn anew for each
        row, which has the same mean; "auto" takes all up to 20,000 gradients, else as many
        mixtures as make 20,000. With `center_gradients` it is always "all".
    batch_size : int, optional
        Rows at a time. None takes what 128 MB of activations hold.
    random_state : int, default=0
        Seed of the mixtures.

    Returns
    -------
    list of LayerFeatures
        One for each call of a `Linear` or `Conv2d`, in the order of execution.

    Raises
    ------
    TypeError
        If the model is not one of those above.
    ValueError
        If it has no linear or convolutional layer, its output is no tensor with a row for each of
        X or has no gradient, its rows see each other, it cannot be run on X, X holds NaN or
        infinity, `init` does not fit it, or `subtract_init` is asked for without.

    Warns
    -----
    UserWarning
        Names the modules whose weights took part and were not read: attentions, recurrent cells,
        embeddings, other convolutions, weights used by a function.

    Notes
    -----
    The AGOP of a layer is that of the network as a function of what this layer reads: where
    the same tensor goes elsewhere too (a skip connection), only the way through the layer
    counts. Of a convolution the inputs are patches, in the order (channel, row, column), and
    the AGOP sums over the positions of the patch (arXiv 2309.00570).

    The ansatz of arXiv 2212.13881: in a trained network ``W^T W`` is proportional to a power
    of the AGOP.

    Examples
    --------
    >>> from rfmlearn.neural import layer_features
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neural_network import MLPClassifier
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MLPClassifier((50,), max_iter=1000, random_state=0).fit(scale(X), y)
    >>> first, last = layer_features(model, scale(X))
    >>> first.nfm.shape, last.nfm.shape
    ((4, 4), (50, 50))
    >>> bool(first.alignment > 0.5)
    True
    """
    if hasattr(model, "steps"):
        X = model[:-1].transform(X)
        model = model[-1]
    module, known = read_network(model)
    init = known if init is None else init
    if subtract_init and init is None:
        raise ValueError(
            "subtract_init=True needs the initial weights: pass init=, the network or its "
            "state_dict before training."
        )
    rows = Inputs(X, module)
    weight = row_weights(sample_weight, torch.empty(0, dtype=torch.float64), n=len(rows))
    calls = capture(
        module, rows, weight, output, agop_outputs, center_gradients, random_state, batch_size
    )
    if missed := unread(module, rows, output, calls):
        warn(
            f"Only Linear and Conv2d layers that are called as modules are read. Not read, "
            f"although the outputs depend on their weights: {', '.join(missed)}.",
            UserWarning,
        )
    total = len(rows) if weight is None else float(weight.sum())
    found = []
    for call in calls:
        start = None if init is None else _initial(init, call)
        W = call.W if not subtract_init else call.W - start
        found.append(
            LayerFeatures(
                name=call.name,
                call=call.number,
                nfm=_gram(W),
                agop=_backend.to_numpy(_symmetric(call.agop(total, len(rows)))),
                agop_power=agop_power,
                init_nfm=None if start is None else _gram(start),
                width=len(W),
            )
        )
    return found


@_backend.isolated
def layer_inputs(module, X, number):
    """Return what one call of a layer reads, as NumPy.

    Parameters
    ----------
    module : nn.Module
        The network.
    X : array or tensor of shape (n, ...)
        Rows.
    number : int
        Which call, in the order of execution.

    Returns
    -------
    ndarray of shape (n, d) or (n, positions, d)
        The inputs; of a convolution its patches.

    Raises
    ------
    ValueError
        If they are neither: those of a sequence.
    """
    return _backend.to_numpy(inputs_of(module, Inputs(X, module), number))


def _symmetric(M):
    """Return M without what rounding makes of the order of sums."""
    return (M + M.mT) / 2


def _gram(W):
    W = W if W.dtype.itemsize >= 4 else W.float()
    return _backend.to_numpy(_symmetric(W.mT @ W))


# What wrappers put before the names of modules.
_WRAPPERS = ("_orig_mod.", "module.")


def _initial(init, call):
    """Return the initial weights of a layer as `Call` has them now."""
    found = _weight_in(init, call.name)
    shape = tuple(call.layer.weight.shape)
    if found is None or tuple(found.shape) != shape:
        what = "nothing" if found is None else tuple(found.shape)
        raise ValueError(
            f"init has {what} for the weight of {call.name!r}; the layer's has {shape}. Pass the "
            "network as it was at initialisation (copy.deepcopy before training) or its state_dict."
        )
    return weight_matrix(call.layer, found).to(call.W)


def _weight_in(init, name):
    """Return the weight of a layer in a module or a state_dict, None where there is none."""
    name = _bare(name)
    if isinstance(init, nn.Module):
        modules = {_bare(key): module for key, module in init.named_modules()}
        # the model may be the layer, which then goes by its type
        module = modules.get(name, init if len(modules) == 1 else None)
        return getattr(module, "weight", None)
    state = {_bare(key): value for key, value in init.items()}
    if f"{name}.weight" not in state and not any(key.startswith(f"{name}.") for key in state):
        name, state = "it", {f"it.{key}": value for key, value in state.items()}
    own = {
        key.removeprefix(f"{name}."): v for key, v in state.items() if key.startswith(f"{name}.")
    }
    if "weight" in own:
        return own["weight"]
    if "weight_orig" in own:  # pruned, or normalised by its spectrum
        return own["weight_orig"] * own.get("weight_mask", 1)
    pairs = (
        ("weight_g", "weight_v"),
        tuple(f"parametrizations.weight.original{k}" for k in (0, 1)),
    )
    for size, direction in pairs:
        if size in own and direction in own:
            return torch._weight_norm(own[direction], own[size], 0)
    return None


def _bare(name):
    """Return a module's name without what wrappers put before it."""
    for prefix in _WRAPPERS:
        name = name.removeprefix(prefix)
    return name
