# SPDX-License-Identifier: BSD-3-Clause
"""NFMTransformer: which matrix, which map, which network."""

import contextlib

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from rfmlearn import ABCMLPClassifier, ABCMLPRegressor, NFMTransformer
from rfmlearn.datasets import make_multi_index
from rfmlearn.features import alignment, matrix_power
from rfmlearn.neural import layer_features


def data(n=80, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def net(**options):
    return ABCMLPRegressor((12, 9), max_epochs=20, random_state=0, **options)


@pytest.mark.parametrize("matrix", ["nfm", "agop"])
@pytest.mark.parametrize("layer", [0, 1, -1])
def test_the_map_is_that_of_the_definition(layer, matrix):
    X, y = data()
    model = net().fit(X, y)
    layers = layer_features(model, X)
    M = layers[layer].nfm if matrix == "nfm" else matrix_power(layers[layer].agop, 0.75)
    hidden = [X]  # what each layer reads
    for W, b in zip(model.coefs_[:-1], model.intercepts_[:-1]):
        hidden.append(np.maximum(hidden[-1] @ W + b, 0))
    options = {"layer": layer, "matrix": matrix, "agop_power": 0.75}
    whole = NFMTransformer(net(), **options).fit(X, y)
    assert_allclose(whole.transform(X), hidden[layer] @ matrix_power(M, 0.5), atol=1e-10)
    top = NFMTransformer(net(), n_components=3, **options).fit(X, y)
    values, vectors = np.linalg.eigh(M)
    Z = hidden[layer] @ vectors[:, ::-1][:, :3]
    seen = values[::-1][:3] > 1e-9 * values[-1]  # one output: the last layer's has rank one
    assert_allclose(np.abs(top.transform(X))[:, seen], np.abs(Z)[:, seen], atol=1e-8)
    assert_allclose(top.explained_ratio_, values[::-1][:3] / values.sum(), rtol=1e-8, atol=1e-12)
    assert_allclose(top.transform(X), hidden[layer] @ top.components_.T, atol=1e-13)
    assert len(top.feature_matrices_) == len(top.gradient_matrices_) == 3
    for found, expected in zip(top.feature_matrices_, layers):
        assert_allclose(found, expected.nfm, rtol=1e-12)
    for found, nfm, agop in zip(top.alignments_, top.feature_matrices_, top.gradient_matrices_):
        assert_allclose(found, alignment(nfm, matrix_power(agop, 0.75), "pearson"))
    assert top.layer_names_ == ["0", "2", "4"]
    assert list(top.get_feature_names_out()) == [f"nfmtransformer{k}" for k in range(3)]


def test_the_map_back():
    X, y = data()
    whole = NFMTransformer(net(), random_state=0).fit(X, y)
    assert_allclose(whole.inverse_transform(whole.transform(X)), X, atol=1e-8)
    top = NFMTransformer(net(), n_components=2, random_state=0).fit(X, y)
    V = top.components_
    assert_allclose(top.inverse_transform(top.transform(X)), X @ V.T @ V, atol=1e-12)
    deep = NFMTransformer(net(), layer=1).fit(X, y)
    assert not hasattr(deep, "inverse_transform")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [9, 40])
def test_what_a_narrow_layer_does_not_see_does_not_come_back(d, dtype):
    X = np.random.default_rng(0).normal(size=(50, d)).astype(dtype)
    module = nn.Sequential(nn.Linear(d, 5), nn.Linear(5, 1)).to(torch.as_tensor(X).dtype)
    with torch.no_grad():
        module[0].weight.copy_(torch.from_numpy(np.random.default_rng(1).normal(size=(5, d))))
    W = module[0].weight.detach().numpy().astype(np.float64)
    seen = np.linalg.pinv(W) @ W  # the projection onto the rows of W
    model = NFMTransformer(module).fit(X)
    back = model.inverse_transform(model.transform(X))
    assert back.dtype == dtype
    assert_allclose(back, X @ seen, atol=100 * np.finfo(dtype).eps)
    # and of what no row is mapped to, only the part that some row is
    Z = np.random.default_rng(2).normal(size=(4, d)).astype(dtype)
    root = matrix_power(W.T @ W, 0.5)
    inverse = np.linalg.pinv(root, rtol=1e-6, hermitian=True)
    assert_allclose(model.inverse_transform(Z), Z @ inverse, atol=100 * np.finfo(dtype).eps)
    # the AGOP of one output has one direction
    top = NFMTransformer(module, matrix="agop").fit(X)
    g = W.T @ module[1].weight.detach().numpy()[0].astype(np.float64)
    back = top.inverse_transform(top.transform(X))
    assert_allclose(back, np.outer(X @ g, g) / (g @ g), atol=100 * np.finfo(dtype).eps)


def test_prefit_networks_are_read_and_others_cloned():
    X, y = data()
    labels = (y > 0).astype(int)
    ours = net().fit(X, y)
    theirs = MLPClassifier((7,), solver="lbfgs", random_state=0).fit(X, labels)
    module = ours.to_torch().train()
    for frozen, W in (
        (FrozenEstimator(ours), ours.coefs_[0]),
        (FrozenEstimator(theirs), theirs.coefs_[0]),
        (module, ours.coefs_[0]),
    ):
        features = NFMTransformer(frozen).fit(X, y)
        assert_allclose(features.feature_matrices_[0], W @ W.T, rtol=1e-12)
        assert np.isfinite(features.transform(X)).all()
        # what is trained needs no target, and weights only for its gradients
        without = NFMTransformer(frozen, matrix="agop").fit(X, sample_weight=np.arange(len(X)) % 2)
        half = NFMTransformer(frozen, matrix="agop").fit(X[1::2])
        assert_allclose(without.transform(X), half.transform(X), rtol=1e-9, atol=1e-12)
        assert_array_equal(NFMTransformer(frozen).fit_transform(X), features.transform(X))
    assert module.training
    with pytest.raises(ValueError, match="requires y to be passed"):
        NFMTransformer(net()).fit(X)
    unfitted = net()
    features = NFMTransformer(unfitted).fit(X, y)
    assert not hasattr(unfitted, "coefs_")
    assert_array_equal(features.estimator_.coefs_[0], ours.coefs_[0])
    # a network without a seed gets one
    free = ABCMLPRegressor((4,), max_epochs=2)
    one, two = (NFMTransformer(free, random_state=5).fit(X, y).transform(X) for _ in range(2))
    assert_array_equal(one, two)
    with pytest.raises(TypeError, match="PCA is not a network"):
        NFMTransformer(PCA()).fit(X, y)


def test_a_module_that_reads_something_else_first():
    class Squares(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.utils.skip_init(nn.Linear, 5, 3, dtype=torch.float64)
            with torch.no_grad():
                self.linear.weight.copy_(torch.arange(15.0).reshape(3, 5))
                self.linear.bias.zero_()

        def forward(self, x):
            return self.linear(x**2)

    X, y = data()
    features = NFMTransformer(Squares(), n_components=1).fit(X, y)
    assert_allclose(features.transform(X), X**2 @ features.components_.T, rtol=1e-12)
    with pytest.raises(AttributeError, match="inverse_transform") as reason:
        features.inverse_transform(features.transform(X))
    assert "Layer 0 does not read the rows themselves" in str(reason.value.__cause__)
    sequence = nn.Sequential(
        nn.Unflatten(1, (1, 5)), nn.utils.skip_init(nn.Linear, 5, 3), nn.Flatten()
    )
    with pytest.raises(ValueError, match="not one vector a row"):
        NFMTransformer(sequence.double()).fit(X, y)


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (np.arange(80) % 20, ABCMLPClassifier),
        (np.arange(80) % 21, ABCMLPRegressor),
        ((np.arange(80) % 2).astype(float), ABCMLPClassifier),
        (np.arange(80) % 2 + 0.5, ABCMLPRegressor),
        (np.array(["a", "b"])[np.arange(80) % 2], ABCMLPClassifier),
        (np.arange(80) % 2 == 0, ABCMLPClassifier),
        (np.c_[np.arange(80) % 2, np.arange(80) % 3], ABCMLPRegressor),
    ],
)
def test_the_default_network_fits_the_target(y, kind):
    X, _ = data()
    model, guessed = NFMTransformer(random_state=0), len(np.unique(y)) in (20, 21)
    with pytest.warns(UserWarning, match="Set task") if guessed else contextlib.nullcontext():
        assert type(model.fit(X, y).estimator_) is kind
    # who says what it is gets that, without a word
    task = "regression" if kind is ABCMLPRegressor else "classification"
    assert type(clone(model).set_params(task=task).fit(X, y).estimator_) is kind


def test_labels_of_many_classes_are_labels_if_told_so():
    X, _ = data()
    y = np.arange(80) % 21
    model = NFMTransformer(task="classification", random_state=0).fit(X, y)
    assert len(model.estimator_.classes_) == 21


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("matrix", ["nfm", "agop"])
def test_the_network_may_be_of_another_precision_than_the_rows(dtype, matrix):
    X, _ = data()
    for seed in range(3):
        torch.manual_seed(seed)
        layers = torch.nn.Linear(X.shape[1], 40), torch.nn.ReLU(), torch.nn.Linear(40, 2)
        net = torch.nn.Sequential(*layers).to(dtype)
        for rows in (X, X.astype(np.float32)):
            Z = NFMTransformer(net, matrix=matrix).fit(rows).transform(rows)
            assert Z.dtype == rows.dtype and np.isfinite(Z).all()


def test_changes_since_initialisation_and_centred_gradients():
    X, y = data()
    model = net().fit(X, y)
    change = NFMTransformer(net(), subtract_init=True).fit(X, y)
    W = (model.coefs_[0] - model.init_coefs_[0]).T
    assert_allclose(change.feature_matrices_[0], W.T @ W, rtol=1e-10)
    centred = NFMTransformer(net(), center_gradients=True, matrix="agop").fit(X, y)
    expected = layer_features(model, X, center_gradients=True)[0].agop
    assert_allclose(centred.gradient_matrices_[0], expected, rtol=1e-10)
    theirs = MLPClassifier((7,), solver="lbfgs", random_state=0)
    with pytest.raises(ValueError, match="needs the initial weights"):
        NFMTransformer(theirs, subtract_init=True).fit(X, y > 0)


def test_weights_reach_training_and_gradients():
    X, y = data(60)
    times = np.random.default_rng(0).integers(0, 3, 60)
    for matrix in ("nfm", "agop"):
        options = {"matrix": matrix, "random_state": 0}
        weighted = NFMTransformer(net(), **options).fit(X, y, sample_weight=times)
        repeated = NFMTransformer(net(), **options).fit(X.repeat(times, 0), y.repeat(times))
        assert_allclose(weighted.transform(X), repeated.transform(X), rtol=1e-7, atol=1e-9)

    class Unweighted(ABCMLPRegressor):
        def fit(self, X, y):
            return super().fit(X, y)

    with pytest.raises(TypeError, match=r"Unweighted\.fit takes no sample_weight"):
        NFMTransformer(Unweighted()).fit(X, y, sample_weight=times)


def test_what_does_not_exist_is_refused():
    X, y = data()
    with pytest.raises(ValueError, match="layer=3, but the network has 3 layers"):
        NFMTransformer(net(), layer=3).fit(X, y)
    with pytest.raises(ValueError, match="n_components=6, but layer 0 has 5 inputs"):
        NFMTransformer(net(), n_components=6).fit(X, y)
    with pytest.raises(ValueError, match="requires y"):
        NFMTransformer().fit(X, None)


def on(X, y, k):
    folds = StratifiedKFold(5, shuffle=True, random_state=0)

    def accuracy(features):
        model = make_pipeline(StandardScaler(), features, LogisticRegression(max_iter=1000))
        return cross_val_score(model, X, y, cv=folds).mean()

    return accuracy(NFMTransformer(n_components=k, random_state=0)), accuracy(PCA(k))


def test_learned_directions_beat_those_of_largest_variance():
    X, y, _ = make_multi_index(1000, 20, random_state=0)
    ours, pca = on(X, y > np.median(y), 3)
    # sin(2 x2) is what a linear model can see of the target: 0.77 with the true directions
    assert ours > 0.7
    assert pca < 0.6


@pytest.mark.slow
def test_learned_directions_beat_those_of_largest_variance_on_real_tables():
    wins = 0
    for load, k in ((load_digits, 5), (load_breast_cancer, 2), (load_wine, 2), (load_iris, 2)):
        X, y = load(return_X_y=True)
        ours, pca = on(X[:500], y[:500], k)
        wins += ours > pca
    assert wins == 4


def test_a_convolution_maps_patches():
    # stride, dilation and every kind of padding: W times the patches is what the layer computes
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2 * 7 * 6)), rng.normal(size=12)
    for how in (
        {},
        {"stride": 2, "padding": (1, 0)},
        {"padding": "same", "dilation": 2},
        {"padding": "valid"},
        {"padding": 1, "padding_mode": "reflect"},
    ):
        torch.manual_seed(0)
        conv = torch.nn.Conv2d(2, 4, (3, 2), bias=False, dtype=torch.float64, **how)
        images = torch.from_numpy(X).reshape(-1, 2, 7, 6)
        z = conv(images).detach()
        net = torch.nn.Sequential(
            torch.nn.Unflatten(1, (2, 7, 6)), conv, torch.nn.ReLU(), torch.nn.Flatten(),
            torch.nn.Linear(z[0].numel(), 1, dtype=torch.float64),
        )  # fmt: skip
        model = NFMTransformer(net).fit(X, y)
        Z, W = model.transform(X), conv.weight.detach().flatten(1).numpy()
        # H (W^T W)^(1/2): times the root once more it is H W^T W, W^T times the outputs
        expected = z.flatten(2).mT.numpy() @ W
        twice = Z.reshape(*expected.shape) @ matrix_power(W.T @ W, 0.5)
        assert_allclose(twice, expected, rtol=1e-7, atol=1e-9)
        assert len(model.get_feature_names_out()) == Z.shape[1]
        few = NFMTransformer(net, n_components=2).fit(X, y).transform(X)
        assert few.shape == (12, 2 * z[0, 0].numel())
