# SPDX-License-Identifier: BSD-3-Clause
"""MLPs: what width does, and the ansatz."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from rfmlearn import ABCMLPClassifier, ABCMLPRegressor
from rfmlearn.datasets import make_multi_index
from rfmlearn.neural import (
    coordinate_check,
    feature_movement,
    layer_features,
)


def data(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize(
    ("parametrization", "moved", "kernel"), [("ntk", -0.5, -1.0), ("mup", 0.0, 0.0)]
)
def test_width_scales_training_as_the_theory_says(parametrization, moved, kernel, optimizer):
    X, y, _ = make_multi_index(60, 8, random_state=0)
    net = ABCMLPRegressor(
        (0, 0), activation="tanh", parametrization=parametrization, optimizer=optimizer,
        learning_rate={"sgd": 0.05, "adam": 1e-3}[optimizer], max_epochs=5,
        zero_init_output=parametrization == "mup",  # else its random start fades with width
    )  # fmt: skip
    widths = (64, 256, 1024)
    slopes = coordinate_check(net, X, y, widths, random_state=0).slopes
    change = feature_movement(net, X, y, widths, random_state=0).slopes
    # slopes of the mean over 3 seeds scatter by 0.1 around their limits, the kernel's by twice
    for layer in ("layer 1", "layer 2"):
        assert abs(slopes[layer] - moved) < 0.1
        assert abs(change[layer] - kernel) < 0.2
    assert abs(slopes["output"]) < 0.1  # it learns at every width


def test_diagnostics_refuse_what_they_cannot_scan():
    X, y = data()
    with pytest.raises(ValueError, match="two widths"):
        coordinate_check(ABCMLPRegressor(), X, y, (64, 64))
    with pytest.raises(ValueError, match="no hidden layer"):
        feature_movement(ABCMLPRegressor(()), X, y)
    one = coordinate_check(ABCMLPRegressor((1,), max_epochs=0), X, y, (4, 8), n_seeds=2)
    assert one.values["layer 1"].shape == (2, 2)
    assert np.isnan(one.slopes["layer 1"])  # nothing moves


@pytest.mark.slow
@pytest.mark.parametrize("load", [load_digits, load_breast_cancer, load_wine])
def test_small_first_layers_learn_the_ansatz(load):
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X[:, X.std(axis=0) > 0]).astype(np.float32)
    for seed in range(3):
        net = ABCMLPClassifier(
            (256, 256, 256), optimizer="sgd", learning_rate=0.1, first_layer_scale=1e-3,
            batch_size=64, random_state=seed,
        ).fit(X, y)  # fmt: skip
        found = layer_features(net, X)[0].alignments
        assert found["pearson with agop^1/2"] > 0.93
        assert found["pearson with initial nfm"] < 0.5


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_biases_that_are_not_trained_stay_zero(optimizer):
    X, y = data()
    options = {"optimizer": optimizer, "max_epochs": 20, "random_state": 0}
    model = ABCMLPClassifier((8, 8), fit_intercept=False, momentum=0.5, **options).fit(X, y > 0)
    assert not any(b.any() for b in model.intercepts_)
    # relu without biases is homogeneous
    assert_allclose(model.decision_function(3 * X), 3 * model.decision_function(X), rtol=1e-10)
    flat = ABCMLPRegressor((8,), fit_intercept=False, **options).fit(X, y)
    assert_allclose(flat.predict(0 * X), y.mean())  # targets are centred inside
