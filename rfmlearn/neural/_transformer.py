# SPDX-License-Identifier: BSD-3-Clause
"""The features that a network has learned, as a transformer."""

from numbers import Integral, Real

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from rfmlearn import _backend
from rfmlearn._base._kept import KeptMatrix, kept
from rfmlearn._base._model import BaseModel
from rfmlearn._base._sklearn import HasMethods, Interval, StrOptions, check_weight, fit_context
from rfmlearn._base._warn import warn
from rfmlearn._typing import Any, ArrayLike, RandomState, Self
from rfmlearn.features import psd_eigh, top_directions
from rfmlearn.neural._layers import layer_features, layer_inputs
from rfmlearn.neural._mlp import ABCMLPClassifier, ABCMLPRegressor
from rfmlearn.neural._read import read_network

# More distinct whole numbers than these are amounts, not labels.
MAX_LABELS = 20

# Up to so many they surely are labels.
SURE_LABELS = 10

# Rows that the default network sees in all its epochs, from 20 to 200 of them.
_ROWS_SEEN = 2_000_000


def _small(M, width):
    """Return what is kept of a layer's matrix, whose rank its width bounds."""
    if 2 * width > len(M):
        return KeptMatrix(M.dtype, matrix=M)
    values, V = psd_eigh(_backend.to_tensor(M, dtype=torch.float64), width)
    factor = V[:, -width:] * values[-width:].sqrt()
    return KeptMatrix(M.dtype, factor=_backend.to_numpy(factor).astype(M.dtype))


def _maps_back(transformer):
    """Say whether features can be mapped back to rows, or raise the reason why not."""
    if not getattr(transformer, "_on_rows", True):
        raise AttributeError(
            f"Layer {transformer._layer} does not read the rows themselves: its features cannot be "
            "mapped back to them."
        )
    return True


class NFMTransformer(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseModel,
):
    """Map rows to the features that a trained network sees in them.

    Trains a network on (X, y), or reads one that is trained, and maps rows by the feature
    matrix M of one of its layers: ``X M^(1/2)``, or the coordinates on the leading eigenvectors
    of M.

    Parameters
    ----------
    estimator : estimator or nn.Module, default=None
        A clone is trained: an `ABCMLPClassifier` or `ABCMLPRegressor`, scikit-learn's
        `MLPClassifier` or `MLPRegressor`, or a skorch net. One that is trained already is read as
        it is: wrap it into scikit-learn's `FrozenEstimator`; a `torch.nn.Module` needs no
        wrapping. None trains an `ABCMLPRegressor`, or an `ABCMLPClassifier` for labels (text,
        bool, at most 20 distinct whole numbers), whose first layer starts small
        (``first_layer_scale=1e-3``), so that its matrix shows what was learned rather than
        drawn, trained by gradient descent for 200 epochs, fewer beyond 10,000 rows.
    task : {"auto", "regression", "classification"}, default="auto"
        What the default network is trained for. "auto" takes text, bool and at most 20 distinct
        whole numbers for labels, other numbers for amounts, and warns where that is a guess: of
        more than 10 distinct whole numbers.
    layer : int, default=0
        Which layer, counted in the order of execution; -1 is the last. Beyond the first the
        rows are mapped to the input of that layer first.
    matrix : {"nfm", "agop"}, default="nfm"
        M is the neural feature matrix ``W^T W``, or ``AGOP^agop_power`` at the input of the
        layer, to which the first is proportional by the ansatz.
    agop_power : float, default=0.5
        Power of the AGOP, here and where `alignments_` compares with it.
    n_components : int, default=None
        Number of leading eigenvectors; None maps to ``X M^(1/2)``.
    subtract_init : bool, default=False
        Take the NFM of the weights minus their initial values, which our own networks
        remember.
    center_gradients : bool, default=False
        Subtract the mean gradient of each output before the outer product: a linear trend
        then does not count as a feature.
    device : str, default="cpu"
        Where the default network is trained, and one that is not a module is read.
    random_state : int, RandomState instance or None, default=None
        For the network, where it has no seed of its own, and the AGOP of many outputs.

    Attributes
    ----------
    feature_matrices_ : list of ndarray of shape (d_l, d_l)
        The NFM of each layer.
    gradient_matrices_ : list of ndarray of shape (d_l, d_l)
        The AGOP at the input of each layer.
    alignments_ : ndarray of shape (n_layers,)
        Pearson correlation of each NFM with its ``AGOP^agop_power``. It is high for an untrained
        wide network too: read it beside `rfmlearn.neural.layer_features` of that one.
    layer_names_ : list of str
        The layers.
    components_ : ndarray of shape (n_components, d)
        Leading eigenvectors of M, in rows.
    explained_ratio_ : ndarray of shape (n_components,)
        Their eigenvalues as a share of the trace of M.
    estimator_ : estimator or nn.Module
        The trained network.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X had string column names.

    See Also
    --------
    rfmlearn.neural.layer_features : The matrices of any network, without the transformer.
    RFMRegressor : Learns such a matrix without a network.

    Notes
    -----
    The ansatz of [1]_: in a trained network ``W^T W`` of a layer is proportional to a power of the
    AGOP at its input. Scale the columns first, as for any network.

    References
    ----------
    .. [1] A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin. Mechanism for feature
       learning in neural networks and backpropagation-free machine learning models.
       Science 383 (2024). arXiv 2212.13881.

    Examples
    --------
    >>> from rfmlearn import NFMTransformer
    >>> from rfmlearn.datasets import make_multi_index
    >>> X, y, directions = make_multi_index(600, 10, random_state=0)
    >>> features = NFMTransformer(n_components=3, random_state=0).fit(X, y)
    >>> features.transform(X).shape
    (600, 3)
    >>> overlap = (features.components_ @ directions.T) ** 2
    >>> bool(overlap.sum() / 3 > 0.95)
    True
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit"]), torch.nn.Module, None],
        "task": [StrOptions({"auto", "regression", "classification"})],
        "layer": [Integral],
        "matrix": [StrOptions({"nfm", "agop"})],
        "agop_power": [Interval(Real, 0, None, closed="neither")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "subtract_init": ["boolean"],
        "center_gradients": ["boolean"],
        "device": [str],
        "random_state": ["random_state"],
    }
    _target_checks = {"multi_output": True, "y_numeric": False}

    def __init__(
        self,
        estimator: Any = None,
        *,
        task: str = "auto",
        layer: int = 0,
        matrix: str = "nfm",
        agop_power: float = 0.5,
        n_components: int | None = None,
        subtract_init: bool = False,
        center_gradients: bool = False,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.task = task
        self.layer = layer
        self.matrix = matrix
        self.agop_power = agop_power
        self.n_components = n_components
        self.subtract_init = subtract_init
        self.center_gradients = center_gradients
        self.device = device
        self.random_state = random_state

    @fit_context(skip_nested=False)
    def fit(
        self, X: ArrayLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Train the network, or read it, and take its feature matrices.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows, at which the gradients are taken too.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Targets. A network that is trained already needs none.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows in the training and in the AGOP.

        Returns
        -------
        self : object
            The fitted transformer.

        Raises
        ------
        ValueError
            If the data are unfit, the training diverges, there is no such layer, the layer reads
            a sequence, `n_components` is more than its inputs, or `subtract_init` is asked for
            where the initial weights are unknown.
        TypeError
            If the estimator is no network, or takes no sample weights.
        """
        device = _backend.resolve_device(self.device)
        rng = check_random_state(self.random_state)
        X, y, seen = self._check_fit(X) if y is None and self._reads() else self._check_fit(X, y)
        weight = None if sample_weight is None else check_weight(sample_weight, X)
        estimator = self._trained(X, y, weight, rng)
        module, init = read_network(estimator)
        if hasattr(estimator, "coefs_"):
            module = module.to(device)
        layers = layer_features(
            module,
            X,
            sample_weight=weight,
            agop_power=self.agop_power,
            center_gradients=self.center_gradients,
            subtract_init=self.subtract_init,
            init=init,
            random_state=int(rng.randint(2**31)),
        )
        if not -len(layers) <= self.layer < len(layers):
            raise ValueError(f"layer={self.layer}, but the network has {len(layers)} layers.")
        number = self.layer % len(layers)
        first = layer_inputs(module, X[:1], number)
        # whether the layer reads the rows themselves
        on_rows = first.shape == X[:1].shape and np.array_equal(first, X[:1].astype(first.dtype))
        return self._store(
            {
                **seen,
                **self._mapping(layers[number], X.dtype),
                "estimator_": estimator,
                "layer_names_": [layer.name for layer in layers],
                "_nfms": [_small(layer.nfm, layer.width) for layer in layers],
                "_agops": [_small(layer.agop, layer.width) for layer in layers],
                "alignments_": np.array([layer.alignment for layer in layers]),
                "_layer": number,
                "_on_rows": on_rows,
                # one, or those of the patches that a convolution reads
                "_positions": first.shape[1] if first.ndim == 3 else 1,
            }
        )

    def _mapping(self, layer, dtype):
        """Return what maps the inputs of a layer, and what is told of it."""
        read = layer.nfm if self.matrix == "nfm" else layer.agop
        d, rank = len(read), layer.width
        if self.n_components is not None and self.n_components > d:
            raise ValueError(
                f"n_components={self.n_components}, but layer {self.layer} has {d} inputs."
            )
        directions, strengths = top_directions(read.astype(dtype, copy=False))
        strengths[rank:] = 0
        resolution = d * max(np.finfo(T).eps for T in (dtype, read.dtype))
        if self.matrix == "agop":
            strengths, resolution = (v**self.agop_power for v in (strengths, resolution))
        total, k = strengths.sum(), self.n_components
        shares = strengths / total if total > 0 else strengths
        return {
            "explained_ratio_": shares[:k],
            "_directions": directions[: rank if k is None else k].copy(),
            # of the whole map, which has those only that it sees
            "_lengths": np.sqrt(strengths[:rank]) if k is None else None,
            "_resolution": resolution,
        }

    @property
    def feature_matrices_(self):
        """The NFM of each layer."""
        return [M.dense() for M in kept(self, "_nfms")]

    @property
    def gradient_matrices_(self):
        """The AGOP at the input of each layer."""
        return [M.dense() for M in kept(self, "_agops")]

    @property
    def components_(self):
        """Leading eigenvectors of M, in rows."""
        V = kept(self, "_directions")
        if self._lengths is None or len(V) == V.shape[1]:
            return V
        # the map needs those that M sees; here with the others, of eigenvalue 0
        return top_directions((V.T * self._lengths**2) @ V)[0]

    def _reads(self):
        """Say whether the network is trained already."""
        return isinstance(self.estimator, torch.nn.Module | FrozenEstimator)

    def _trained(self, X, y, weight, rng):
        """Return the fitted clone of the estimator, or the module itself."""
        if self._reads():
            return self.estimator
        if self.estimator is None:
            kind = ABCMLPRegressor if self._is_amount(y) else ABCMLPClassifier
            # gradient descent moves weights where the gradient is, Adam everywhere alike
            estimator = kind(
                first_layer_scale=1e-3,
                optimizer="sgd",
                max_epochs=int(np.clip(_ROWS_SEEN // len(X), 20, 200)),
                device=self.device,
            )
        else:
            estimator = clone(self.estimator)
        parameters = estimator.get_params()
        if parameters.get("random_state", 0) is None:
            estimator.set_params(random_state=int(rng.randint(2**31)))
        if weight is None:
            return estimator.fit(X, y)
        if not has_fit_parameter(estimator, "sample_weight"):
            raise TypeError(f"{type(estimator).__name__}.fit takes no sample_weight.")
        return estimator.fit(X, y, sample_weight=weight)

    def _is_amount(self, y):
        """Say whether y holds numbers to regress on, rather than labels."""
        if self.task != "auto":
            return self.task == "regression"
        if y.ndim > 1 and y.shape[1] > 1:
            return True
        if y.dtype.kind not in "fiu":
            return False
        count = len(np.unique(y))
        amount = count > MAX_LABELS or not np.array_equal(y, np.round(y))
        if count > SURE_LABELS and np.array_equal(y, np.round(y)):
            what = "amounts (task='regression')" if amount else "labels (task='classification')"
            warn(
                f"y holds {count} distinct whole numbers, which are taken for {what}. Set task to "
                "say what they are.",
                UserWarning,
            )
        return amount

    @_backend.isolated
    def transform(self, X: ArrayLike) -> np.ndarray:
        """Map rows to the learned features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, d) or (n_samples, n_components)
            ``H M^(1/2)``, or ``H components_.T``; H is X, or the input of `layer` at X. Of a
            convolution those of one patch after the other.
        """
        check_is_fitted(self, "estimator_")
        H = self._check(X)
        if not self._on_rows:
            module, _ = read_network(self.estimator_)
            H = layer_inputs(module, H, self._layer)
        V = self._directions
        Z = H.astype(V.dtype, copy=False) @ V.T
        if self._lengths is not None:
            Z = Z * self._lengths @ V
        return Z.reshape(len(Z), -1)

    @available_if(_maps_back)
    def inverse_transform(self, Z: ArrayLike) -> np.ndarray:
        """Map features back to rows.

        Parameters
        ----------
        Z : array-like of shape (n_samples, d) or (n_samples, n_components)
            What `transform` returns.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The rows, less what M does not see of them: exact if M has full rank and
            `n_components` is None.

        Raises
        ------
        AttributeError
            If `layer` does not read the rows themselves: a network has no inverse.
        """
        check_is_fitted(self, "estimator_")
        V, lengths = self._directions, self._lengths
        Z = np.asarray(Z, dtype=V.dtype)
        if lengths is None:
            return Z @ V
        # an eigenvalue within rounding of 0 is none
        seen = lengths**2 > self._resolution * lengths[0] ** 2
        return Z @ V[seen].T / lengths[seen] @ V[seen]

    @property
    def _n_features_out(self):
        return self._positions * len(self.explained_ratio_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = not self._reads()
        tags.target_tags.multi_output = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
