# SPDX-License-Identifier: BSD-3-Clause
"""Displays: what is drawn, from what, and where."""

import matplotlib as mpl
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rfmlearn import ABCMLPRegressor, ConvRFMRegressor, NFMTransformer, RFMRegressor
from rfmlearn.inspection import (
    AlignmentDisplay,
    FeatureMatrixDisplay,
    FeatureSpectrumDisplay,
    FilterDisplay,
    WidthScanDisplay,
)
from rfmlearn.neural import layer_features

mpl.use("agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def data(n=40, d=4):
    X = np.random.default_rng(0).normal(size=(n, d))
    return X, X[:, 0] * X[:, 1]


def test_matrices_of_every_estimator():
    X, y = data()
    rfm = RFMRegressor().fit(X, y)
    pipe = make_pipeline(StandardScaler(), RFMRegressor(diag=True)).fit(X, y)
    nfm = NFMTransformer(ABCMLPRegressor((8,), max_epochs=3), matrix="agop", random_state=0)
    nfm.fit(X, y)
    for Display in (FeatureMatrixDisplay, FeatureSpectrumDisplay):
        for estimator, M in (
            (rfm, rfm.feature_matrix_),
            (pipe, pipe[-1].feature_matrix_),
            (nfm, nfm.gradient_matrices_[0]),
        ):
            display = Display.from_estimator(estimator)
            assert_allclose(display.feature_matrix, M)
            assert display.figure_ is display.ax_.figure
        assert_allclose(
            Display.from_estimator(nfm, layer=1).feature_matrix, nfm.gradient_matrices_[1]
        )
        with pytest.raises(NotFittedError):
            Display.from_estimator(RFMRegressor())
        with pytest.raises(TypeError, match="StandardScaler has no feature matrix"):
            Display.from_estimator(StandardScaler().fit(X))


def test_entries_bars_images_and_eigenvectors():
    M = np.diag(np.arange(1.0, 13)) + 0.1
    drawn = FeatureMatrixDisplay(M, feature_names=list("abcdefghijkl")).plot().ax_
    assert_allclose(drawn.images[0].get_array(), M)
    assert [t.get_text() for t in drawn.get_xticklabels()] == list("abcdefghijkl")
    bars = FeatureMatrixDisplay(M.diagonal()).plot().ax_
    assert_allclose([bar.get_width() for bar in bars.patches], np.sort(M.diagonal())[::-1])
    image = FeatureMatrixDisplay(M, image_shape=(3, 4)).plot().ax_
    assert_allclose(image.images[0].get_array(), M.diagonal().reshape(3, 4))
    colour = FeatureMatrixDisplay(M, image_shape=(2, 2, 3)).plot().ax_
    assert_allclose(colour.images[0].get_array(), M.diagonal().reshape(2, 2, 3).sum(2))
    lines = FeatureMatrixDisplay(M, kind="eigenvectors", n_eigenvectors=2).plot().ax_.lines
    top = np.linalg.eigh(M)[1][:, -1]
    assert_allclose(np.abs(lines[0].get_ydata()), np.abs(top), rtol=1e-9)
    assert len(lines) == 2
    display = FeatureMatrixDisplay(M, kind="eigenvectors", image_shape=(3, 4)).plot()
    assert len(display.figure_.axes) == 4
    assert_allclose(np.abs(display.ax_.images[0].get_array().ravel()), np.abs(top), rtol=1e-9)
    _, ax = plt.subplots()
    inside = FeatureMatrixDisplay(M, kind="eigenvectors", image_shape=(3, 4)).plot(ax)
    assert inside.ax_ is ax
    assert len(ax.child_axes) == 4
    with pytest.raises(ValueError, match="12 features"):
        FeatureMatrixDisplay(M, image_shape=(5, 5)).plot()
    with pytest.raises(ValueError, match="kind='pie' must be"):
        FeatureMatrixDisplay(M, kind="pie").plot()


def test_names_of_a_fitted_frame_are_written():
    pd = pytest.importorskip("pandas")
    X, y = data()
    model = RFMRegressor().fit(pd.DataFrame(X, columns=list("wxyz")), y)
    ticks = FeatureMatrixDisplay.from_estimator(model).ax_.get_yticklabels()
    assert [t.get_text() for t in ticks] == list("wxyz")


def test_a_spectrum_shows_shares():
    line = FeatureSpectrumDisplay(np.diag([3.0, 1.0, 0.0])).plot().ax_.lines[0]
    assert_allclose(line.get_xydata(), [[1, 0.75], [2, 0.25]])


def test_alignments_by_layer_and_over_epochs():
    X, y = data()
    net = ABCMLPRegressor((8, 8), max_epochs=3, random_state=0).fit(X, y)
    display = AlignmentDisplay.from_estimator(net, X)
    heights = [bar.get_height() for bar in display.ax_.patches]
    after = [f.alignment for f in layer_features(net, X)]
    before = [f.alignment for f in layer_features(net.initial(), X)]
    assert_allclose(heights, after + before)
    nfm = NFMTransformer(ABCMLPRegressor((8,), max_epochs=3), random_state=0).fit(X, y)
    bars = AlignmentDisplay.from_estimator(nfm).ax_.patches
    assert_allclose([bar.get_height() for bar in bars], nfm.alignments_)
    with pytest.raises(ValueError, match="X is needed"):
        AlignmentDisplay.from_estimator(net)
    _, ax = plt.subplots()
    curves = AlignmentDisplay([[0.1, 0.2], [0.3, 0.4]], epochs=[5, 10]).plot(ax)
    assert curves.ax_ is ax
    assert_allclose(ax.lines[1].get_xydata(), [[5, 0.2], [10, 0.4]])


def test_a_width_scan_is_drawn_with_its_slopes():
    X, y = data()
    net = ABCMLPRegressor((8,), max_epochs=2)
    display = WidthScanDisplay.from_estimator(net, X, y, (8, 16), n_seeds=2, random_state=0)
    assert [line.get_label()[:14] for line in display.ax_.lines] == [
        "layer 1: slope",
        "output: slope ",
    ]
    values = display.scan.values["output"]
    assert_allclose(display.ax_.lines[1].get_ydata(), np.median(values, axis=1))


def test_filters_of_machines_and_networks():
    X = np.random.default_rng(0).normal(size=(30, 2 * 5 * 5))
    model = ConvRFMRegressor((2, 5, 5), max_iter=1).fit(X, X[:, 0] * X[:, 1])
    display = FilterDisplay.from_estimator(model, n_filters=5)
    assert_allclose(display.filters, model.components_[:5])
    assert display.ax_.images[0].get_array().shape == (9, 13)  # 2 x 3 filters of 3 x 3, lines
    pipe = make_pipeline(StandardScaler(), model).fit(X, X[:, 0])
    assert FilterDisplay.from_estimator(pipe).filters.shape == (18, 2, 3, 3)
    colours = FilterDisplay(np.random.default_rng(0).normal(size=(4, 3, 2, 2)), n_columns=4).plot()
    image = colours.ax_.images[0].get_array()
    assert image.shape == (4, 13, 3)
    assert image.min() >= 0
    assert image.max() <= 1
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 6, 3), torch.nn.Flatten())
    lengths = np.linalg.norm(FilterDisplay.from_estimator(net).filters.reshape(6, -1), axis=1)
    assert (np.diff(lengths) <= 0).all()
    with pytest.raises(TypeError, match="Linear has no filters"):
        FilterDisplay.from_estimator(torch.nn.Linear(2, 2))
    with pytest.raises(NotFittedError):
        FilterDisplay.from_estimator(ConvRFMRegressor())
    with pytest.raises(ValueError, match=r"must have shape \(n_filters, channels"):
        FilterDisplay(np.eye(3)).plot()


NO_DRAWING = {
    "not square": (lambda: FeatureMatrixDisplay(np.ones((2, 3))), r"shape \(d, d\) or \(d,\)"),
    "three axes": (lambda: FeatureMatrixDisplay(np.ones((2, 2, 2))), r"got \(2, 2, 2\)"),
    "no feature": (lambda: FeatureMatrixDisplay(np.ones((0, 0))), "0 sample"),
    "NaN": (lambda: FeatureMatrixDisplay([[np.nan]]), "NaN"),
    "words": (lambda: FeatureMatrixDisplay(["a", "b"]), "numeric|convert"),
    "spectrum of no square": (lambda: FeatureSpectrumDisplay(np.ones((2, 3))), "feature_matrix"),
    "kind": (lambda: FeatureMatrixDisplay(np.eye(2), kind="pie"), "kind='pie'"),
    "names": (
        lambda: FeatureMatrixDisplay(np.eye(3), feature_names=["a"]),
        "feature_names has 1 entries for 3 features",
    ),
    "no vectors": (
        lambda: FeatureMatrixDisplay(np.eye(3), kind="eigenvectors", n_eigenvectors=0),
        "n_eigenvectors == 0",
    ),
    "vectors of no number": (
        lambda: FeatureMatrixDisplay(np.eye(3), kind="eigenvectors", n_eigenvectors=None),
        "n_eigenvectors must be an instance of int",
    ),
    "pixels": (lambda: FeatureMatrixDisplay(np.eye(4), image_shape=(3, 2)), "6 pixels"),
    "a line": (lambda: FeatureMatrixDisplay(np.eye(4), image_shape=(4,)), "height, width"),
    "sides below 0": (lambda: FeatureMatrixDisplay(np.eye(4), image_shape=(-2, -2)), "height"),
    "half a pixel": (lambda: FeatureMatrixDisplay(np.eye(4), image_shape=(8, 0.5)), "height"),
    "alignments": (lambda: AlignmentDisplay(0.5), r"alignments must have shape .* got \(\)"),
    "no epoch": (lambda: AlignmentDisplay(np.ones((0, 2))), r"got \(0, 2\)"),
    "control": (lambda: AlignmentDisplay([0.5, 0.6], control=[0.5]), "control has 1 entries"),
    "layers": (lambda: AlignmentDisplay([0.5], layer_names=["a", "b"]), "layer_names has 2"),
    "epochs": (lambda: AlignmentDisplay(np.ones((3, 2)), epochs=[1, 2]), "for 3 epochs"),
    "scan": (lambda: WidthScanDisplay(np.ones((3, 2))), "scan is ndarray"),
    "filters": (lambda: FilterDisplay(np.ones((2, 3, 3))), r"got \(2, 3, 3\)"),
    "filters of NaN": (lambda: FilterDisplay(np.full((1, 1, 2, 2), np.nan)), "NaN"),
    "columns": (lambda: FilterDisplay(np.ones((2, 1, 3, 3)), n_columns=0), "n_columns == 0"),
    "columns below 0": (lambda: FilterDisplay(np.ones((2, 1, 3, 3)), n_columns=-1), "n_columns"),
}


@pytest.mark.parametrize("name", NO_DRAWING)
def test_what_cannot_be_drawn_is_named(name):
    make, sentence = NO_DRAWING[name]
    with pytest.raises((ValueError, TypeError), match=sentence):
        make().plot()


@pytest.mark.parametrize("layer", [7, -8, "first", 0.5])
def test_a_layer_that_is_not_there_is_named(layer):
    X, y = data()
    transformer = NFMTransformer(ABCMLPRegressor((8,), max_epochs=2)).fit(X, y)
    with pytest.raises(ValueError, match=f"layer={layer!r}"):
        FeatureMatrixDisplay.from_estimator(transformer, layer=layer)


def test_names_of_layers_may_be_an_array():
    display = AlignmentDisplay([0.5, 0.6], layer_names=np.array(["in", "out"])).plot()
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["in", "out"]


@pytest.mark.parametrize("n_filters", [0, -1, 1.5])
def test_a_number_of_filters_is_positive(n_filters):
    with pytest.raises((ValueError, TypeError), match="n_filters"):
        FilterDisplay.from_estimator(torch.nn.Conv2d(1, 2, 3), n_filters=n_filters)
