# SPDX-License-Identifier: BSD-3-Clause
"""Target matrices: centring, scaling, labels."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC, SVR

from rfmlearn import (
    ABCMLPClassifier,
    ABCMLPRegressor,
    ConvRFMClassifier,
    ConvRFMRegressor,
    KernelRegimeClassifier,
    KernelRegimeRegressor,
    LinearRFMRegressor,
    RecursiveFeatureLearner,
    RFMClassifier,
    RFMClassifierCV,
    RFMRegressor,
    RFMRegressorCV,
)
from rfmlearn._base._targets import ClassTarget, centre, hold_out


def test_centring_is_undone_by_intercept_and_scale():
    rng = np.random.default_rng(0)
    Y, w = rng.normal(size=(50, 2)) * [1, 30] + 7, rng.uniform(0, 2, 50)
    targets = centre(Y, w)
    np.testing.assert_allclose(targets.intercept, np.average(Y, axis=0, weights=w))
    np.testing.assert_allclose(np.average(targets.matrix**2, axis=0, weights=w), 1)
    np.testing.assert_allclose(targets.matrix * targets.scale + targets.intercept, Y)
    np.testing.assert_allclose(targets.apply(Y), targets.matrix)
    assert (centre(Y, w, None).scale == 1).all()
    common = centre(Y, w, "common")
    assert common.scale[0] == common.scale[1]
    np.testing.assert_allclose(np.average((common.matrix**2).mean(1), weights=w), 1)


@pytest.mark.parametrize("c", [0.0, 1 / 3, -3e-7, 1e300, -1e-300])
def test_a_constant_target_leaves_exact_zeros(c):
    targets = centre(np.full((30, 1), c), np.linspace(0.1, 1, 30))
    assert not targets.matrix.any()
    assert targets.scale == 1.0
    model = RFMRegressor().fit(np.random.default_rng(0).normal(size=(30, 2)), np.full(30, c))
    np.testing.assert_allclose(model.predict(np.zeros((3, 2))), c, rtol=1e-12)


@pytest.mark.parametrize("unit", [1e-200, 1e-9, 1e9, 1e150])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_unit_of_y_does_not_matter_even_where_its_square_overflows(unit, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)).astype(dtype)
    y = X[:, 0].astype(np.float64) * X[:, 1]
    if dtype == np.float32:
        unit = np.clip(unit, 1e-30, 1e30)  # dual_coef_ is in the dtype of X
    expected = RFMRegressor().fit(X, y).predict(X)
    got = RFMRegressor().fit(X, unit * y).predict(X).astype(np.float64) / unit
    np.testing.assert_allclose(got, expected, atol=1e-9 if dtype == np.float64 else 1e-3)


def test_labels_become_signs_or_indicators():
    two = ClassTarget().fit(np.array(["b", "a", "b"]))
    np.testing.assert_array_equal(two.encode(np.array(["a", "b"])), [[-1], [1]])
    three = ClassTarget().fit([3, 1, 2])
    np.testing.assert_array_equal(three.encode([1, 3]), [[1, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-1, 1]),
        np.array([1.0, 7.0]),
        np.array([200, 255], dtype=np.uint8),
    ],
)
def test_labels_of_any_kind_come_back(labels):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = labels[(X[:, 0] > 0).astype(int)]
    model = RFMClassifier(max_iter=1).fit(X, y)
    assert model.classes_.dtype == model.predict(X).dtype
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.score(X, y) == 1.0


@pytest.mark.parametrize("Model", [RFMClassifier, RFMClassifierCV, ABCMLPClassifier])
def test_a_class_without_weight_is_left_out(Model):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3
    options = {"max_epochs": 3} if Model is ABCMLPClassifier else {"max_iter": 1}
    weight = (y != 1).astype(float)
    for class_weight in (None, "balanced"):
        model = Model(class_weight=class_weight, random_state=0, **options)
        found = clone(model).fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(found.classes_, [0, 2])
        if Model is RFMClassifierCV:
            continue  # the splits differ
        expected = clone(model).fit(X[y != 1], y[y != 1])
        np.testing.assert_array_equal(found.decision_function(X), expected.decision_function(X))


def test_rows_are_held_out_by_class():
    labels = np.array(["a"] * 60 + ["b"] * 39 + ["c"])
    for seed in range(20):
        learn, held = hold_out(100, 10, labels, np.random.RandomState(seed))
        assert sorted([*learn, *held]) == list(range(100))
        assert (labels[held] == "a").sum() == 6
        assert 99 in learn  # the only row of its class
    # as scikit-learn draws them where it can
    expected = train_test_split(np.arange(99), test_size=10, stratify=labels[:99], random_state=7)
    found = hold_out(99, 10, labels[:99], np.random.RandomState(7))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    # no room for every class
    for few in (np.arange(100) % 50, np.arange(100)):
        learn, held = hold_out(100, 10, few, np.random.RandomState(0))
        assert len(held) == 10 and sorted([*learn, *held]) == list(range(100))


@pytest.mark.parametrize(
    "model",
    [
        RFMClassifier(max_iter=1),
        ConvRFMClassifier(kernel="patch_laplace", max_iter=1),
        ABCMLPClassifier((4,), max_epochs=2),
        RecursiveFeatureLearner(SVC(), max_iter=1),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_class_of_one_row_does_not_forbid_early_stopping(model):
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.where(X[:, 0] > 0, "a", "b").astype(object)
    y[7] = "only"
    model.set_params(early_stopping=True, random_state=0).fit(X, y)
    assert list(model.classes_) == ["a", "b", "only"]
    model.fit(X, np.arange(60) % 25)  # more classes than rows are held out
    assert len(model.classes_) == 25


REGRESSORS = {
    "rfm": RFMRegressor(max_iter=1),
    "cv": RFMRegressorCV("laplace", bandwidths=1.0, alphas=0.1, max_iter=1, random_state=0),
    "conv": ConvRFMRegressor(image_shape=(1, 2, 2), patch_size=2, max_iter=1),
    "regime": KernelRegimeRegressor(),
    "mlp": ABCMLPRegressor((4,), max_epochs=1, random_state=0),
    "linear": LinearRFMRegressor(max_iter=1),
    "wrapper": RecursiveFeatureLearner(SVR(), max_iter=1),
}
NO_NUMBERS = {
    "dates": (np.arange(20).astype("M8[D]"), r"y holds datetime64\[D\], not numbers.*days"),
    "dated series": (pd.Series(pd.date_range("2020", periods=20)), "y holds datetime64"),
    "durations": (np.arange(20).astype("m8[s]"), r"y holds timedelta64\[s\]"),
    "text": (np.arange(20).astype(str), r"y holds <U\d+, not numbers"),
    "bytes": (np.arange(20).astype("S"), r"y holds \|S\d+, not numbers"),
    "records": (np.zeros(20, dtype=[("a", float)]), "y holds .*not numbers"),
    "complex": (np.arange(20) * 1j, "Complex"),
    "None among objects": (np.array([None] + [1.0] * 19, dtype=object), "Input y contains NaN"),
    "NaN among objects": (np.array([np.nan] + [1.0] * 19, dtype=object), "Input (y )?contains NaN"),
    "None in a column": (np.array([[None]] + [[1.0]] * 19, dtype=object), "Input y contains NaN"),
    "missing": (pd.Series([None] + [1.0] * 19, dtype="Float64"), "Input y contains NaN"),
    "missing date": (pd.Series([pd.NaT] * 20), "Input y contains NaN"),
    "a word": ("speed", "y is the text 'speed'"),
}


@pytest.mark.parametrize("target", NO_NUMBERS)
@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_takes_numbers(name, target):
    y, sentence = NO_NUMBERS[target]
    X = np.random.default_rng(0).normal(size=(20, 4))
    with pytest.raises(ValueError, match=sentence):
        clone(REGRESSORS[name]).fit(X, y)


@pytest.mark.parametrize("kind", [object, bool, np.float16, np.uint8, np.longdouble, "Float64"])
def test_numbers_of_any_kind_are_targets(kind):
    X = np.random.default_rng(0).normal(size=(20, 4))
    plain = (X[:, 0] > 0).astype(float)
    y = pd.Series(plain, dtype=kind) if kind == "Float64" else plain.astype(kind)
    for model in REGRESSORS.values():
        assert_allclose(clone(model).fit(X, y).predict(X), clone(model).fit(X, plain).predict(X))


NO_LABELS = {
    "missing text": (pd.Series(["a", None] * 10, dtype="string"), "Input y contains NaN"),
    "missing truth": (pd.Series([True, None] * 10, dtype="boolean"), "Input y contains NaN"),
    "missing level": (pd.Series(["a", None] * 10, dtype="category"), "Input y contains NaN"),
    "None": (np.array([None, "a"] * 10, dtype=object), "Unknown label type"),
    "mixed": (np.array([1, "a"] * 10, dtype=object), "Unknown label type"),
    "records": (np.zeros(20, dtype=[("a", float)]), "y holds records"),
    "amounts": (np.linspace(0, 1, 20), "Unknown label type"),
    "indicators": (np.eye(2)[[0, 1] * 10], "should be a 1d array"),
    "complex": (np.arange(20) * 1j, "Complex"),
    "a word": ("speed", "y is the text 'speed'"),
}


@pytest.mark.parametrize("target", NO_LABELS)
@pytest.mark.parametrize(
    "model",
    [
        RFMClassifier(max_iter=1),
        RFMClassifierCV("laplace", bandwidths=1.0, alphas=0.1, max_iter=1),
        ConvRFMClassifier(image_shape=(1, 2, 2), patch_size=2, max_iter=1),
        KernelRegimeClassifier(),
        ABCMLPClassifier((4,), max_epochs=1),
        RecursiveFeatureLearner(SVC(), max_iter=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_classifier_takes_labels(model, target):
    y, sentence = NO_LABELS[target]
    X = np.random.default_rng(0).normal(size=(20, 4))
    with pytest.raises(ValueError, match=sentence):
        clone(model).fit(X, y)
