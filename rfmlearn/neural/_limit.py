# SPDX-License-Identifier: BSD-3-Clause
"""The muP limit of a linear network with one hidden layer, which is a network of finite width.

Training moves weights within the span of their initial columns. As the width grows those columns
become orthogonal, and d of the input and k of the output are d + k directions: the infinitely wide
network is one of width d + k whose initial columns are orthogonal (Yang and Hu, arXiv 2011.14522,
section 6).
"""

from numbers import Integral

import torch
from sklearn.utils import check_random_state
from torch import nn

from rfmlearn import _backend
from rfmlearn._typing import Any, RandomState
from rfmlearn.neural._abc import Exponents, Scaling, make_network


def set_limit(network, input_scale, output_scale):
    """Give a linear network of width d + k the initial weights of the limit, in place."""
    inner, outer = network[0], network[-1]
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        inner.weight.diagonal().fill_(input_scale)
        outer.weight[:, inner.in_features :].diagonal().fill_(output_scale)


class LimitScaling(Scaling):
    """What `Scaling` is for a finite width: "mup" with gradient descent at infinite width.

    With the columns of input weights in units of ``sqrt(width / base_width)``, the rows of output
    weights in those of its inverse, both have learning rates that do not depend on width.

    Parameters
    ----------
    n_features, n_outputs : int
        Inputs d and outputs k.
    base_width : int
        As in `Scaling`.
    """

    def __init__(self, n_features, n_outputs, base_width):
        self.adam, self.base_width = False, base_width
        self.sizes = [n_features, n_features + n_outputs, n_outputs]
        self.weights, self.n = [Exponents(0, 0, 0)] * 2, [1.0, 1.0]
        self.biases = [(Exponents(0, 0, 0), 1.0)] * 2

    def initialize(self, network, factors, seed):
        """Set the weights to those of the limit; nothing is random (see `Scaling`)."""
        inner, outer = factors
        set_limit(network, inner * (self.base_width / self.sizes[0]) ** 0.5, outer)


class InfiniteLinearNetwork(nn.Sequential):
    """The infinitely wide linear network with one hidden layer that learns features.

    The limit of networks ``V (U x + b) + c`` in the maximal update parametrisation, trained by
    gradient descent on any loss. It equals a network of d + k units with
    ``U = input_scale [I; 0]`` and ``V = output_scale [0, I]``, exactly, at every step.

    Parameters
    ----------
    n_features : int
        Inputs d.
    n_outputs : int
        Outputs k.
    input_scale, output_scale : float, default=1.0
        Length of the initial columns of U, and of the initial rows of V.
    dtype : torch.dtype, default=torch.float64
        Of the weights.
    device : torch.device or str, default="cpu"
        Of the weights.

    Notes
    -----
    Two linear layers with biases that start at 0, to be trained as any module, with the same
    learning rate for all weights: by gradient descent with or without momentum and weight decay,
    in full or mini-batches. Not by Adam, whose step depends on the axes of the hidden layer.
    A limit exists because training moves U and V within the span of their initial columns, which
    become orthogonal as the width grows [1]_. ``ABCMLPRegressor(float("inf"),
    activation="identity", optimizer="sgd")`` trains one.

    References
    ----------
    .. [1] G. Yang, E. J. Hu. Tensor Programs IV: feature learning in infinite-width neural
       networks. ICML 2021. arXiv 2011.14522, section 6 and appendix D.

    Examples
    --------
    >>> import torch
    >>> from rfmlearn.neural import InfiniteLinearNetwork
    >>> network = InfiniteLinearNetwork(5, 2)
    >>> X = torch.ones(3, 5, dtype=torch.float64)
    >>> network(X).abs().max().item()
    0.0
    >>> network.finite(100, random_state=0)[0].weight.shape
    torch.Size([100, 5])
    """

    @_backend.isolated
    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        *,
        input_scale: float = 1.0,
        output_scale: float = 1.0,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> None:
        counts: list[Any] = [n_features, n_outputs]
        if not all(isinstance(count, Integral) for count in counts) or min(counts) < 1:
            raise ValueError(
                f"n_features={n_features!r} and n_outputs={n_outputs!r} must be positive whole "
                "numbers."
            )
        sizes = [n_features, n_features + n_outputs, n_outputs]
        super().__init__(*make_network(sizes, "identity", dtype, torch.device(device)))
        set_limit(self, input_scale, output_scale)

    @_backend.isolated
    def finite(self, width: int, random_state: RandomState = None) -> nn.Sequential:
        """Return a random network of finite width of which this is the limit.

        With entries of Omega, (width, d + k), normal with variance ``1 / width``, its weights are
        ``Omega U`` and ``V Omega^T``. Trained with the same learning rate and batches it differs
        from the limit by about ``width^-1/2``.

        Parameters
        ----------
        width : int
            Hidden units.
        random_state : int, RandomState instance or None, default=None
            For Omega.

        Returns
        -------
        nn.Sequential
            On the same device, in the same dtype.

        Raises
        ------
        ValueError
            If `width` is not a positive whole number.
        """
        inner: Any = self[0]
        outer: Any = self[-1]
        U, V = inner.weight, outer.weight
        if not (1 <= width < float("inf") and width == int(width)):
            raise ValueError(f"width={width!r} must be a positive whole number.")
        rng = check_random_state(random_state)
        omega = torch.from_numpy(rng.standard_normal((width, len(U))) / width**0.5).to(U)
        sizes = [U.shape[1], width, len(V)]
        network: Any = make_network(sizes, "identity", U.dtype, U.device)
        with torch.no_grad():
            network[0].weight.copy_(omega @ U)
            network[0].bias.copy_(omega @ inner.bias)
            network[-1].weight.copy_(V @ omega.mT)
            network[-1].bias.copy_(outer.bias)
        return network
