# SPDX-License-Identifier: BSD-3-Clause
"""RecursiveFeatureLearner: gradients of other people's estimators, and what is made of them."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, NuSVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from skorch import NeuralNetRegressor
from torch import nn

from rfmlearn import ABCMLPRegressor, RecursiveFeatureLearner, RFMClassifier, RFMRegressor
from rfmlearn.datasets import make_multi_index
from rfmlearn.features import agop
from rfmlearn.neural import layer_features
from rfmlearn.wrapping._gradients import gradients_of, scores


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4)) * [1, 2, 0.5, 3] + 1
    return X, X[:, 0] * X[:, 1] + np.sin(X[:, 2]), rng


def central(function, X, step=1e-5):
    """Return central differences (n, c, d) of a smooth function."""
    parts = []
    for j in range(X.shape[1]):
        e = np.zeros(X.shape[1])
        e[j] = step
        parts.append((function(X + e) - function(X - e)) / (2 * step))
    return np.stack(parts, axis=-1).reshape(len(X), -1, X.shape[1])


SMOOTH = [
    Ridge(),
    KernelRidge(kernel="rbf", gamma=0.1),
    KernelRidge(kernel="rbf"),
    KernelRidge(kernel="laplacian", gamma=0.2),
    KernelRidge(kernel="linear"),
    SVR(),
    SVR(gamma="auto"),
    SVR(kernel="linear", C=0.1),
    NuSVR(gamma=0.05),
    GaussianProcessRegressor(RBF(2.0), alpha=0.1, optimizer=None),
    GaussianProcessRegressor(
        3 * RBF([1.0, 2.0, 3.0, 4.0]) + WhiteKernel(0.1), normalize_y=True, optimizer=None
    ),
    GaussianProcessRegressor(
        ConstantKernel(2.0) + 0.5 * Matern(2.0, nu=0.5) + WhiteKernel(0.1), optimizer=None
    ),
    GaussianProcessRegressor(Matern(2.0, nu=np.inf), alpha=0.1, optimizer=None),
    GaussianProcessRegressor(Matern([1.0, 2.0, 3.0, 4.0], nu=1.5), alpha=0.1, optimizer=None),
    GaussianProcessRegressor(2 * Matern(2.0, nu=2.5), alpha=0.1, optimizer=None),
    GaussianProcessRegressor(RationalQuadratic(2.0, 0.3), alpha=0.1, optimizer=None),
    MLPRegressor(
        hidden_layer_sizes=(8,),
        activation="tanh",
        solver="lbfgs",
        alpha=1,
        max_iter=5000,
        random_state=0,
    ),
    ABCMLPRegressor((8,), activation="tanh", max_epochs=5, random_state=0),
    RFMRegressor("gaussian", max_iter=1),
    make_pipeline(StandardScaler(), PCA(3), SVR()),
    make_pipeline(MinMaxScaler(), "passthrough", RFMRegressor("gaussian")),
    GridSearchCV(make_pipeline(StandardScaler(), SVR()), {"svr__C": [1.0, 10.0]}, cv=2),
]


@pytest.mark.parametrize("estimator", SMOOTH, ids=lambda e: str(e)[:60].replace("\n", ""))
def test_gradients_that_are_known_are_those_of_the_predictions(estimator, rows):
    X, y, rng = rows
    model = clone(estimator).fit(X, y)
    known = gradients_of(model, X, "analytic")
    Z = rng.normal(size=(30, 4)) + 1
    # rounding of the predictions, relative 1e-16 (float32 networks: float64 here), over the step
    np.testing.assert_allclose(known.at(Z), central(model.predict, Z), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        RidgeClassifier(),
        LinearSVC(random_state=0),
        SVC(),
        SVC(decision_function_shape="ovo"),
        SVC(break_ties=True),
        NuSVC(nu=0.2),
        SVC(kernel="linear"),
        make_pipeline(StandardScaler(), SVC(C=3)),
    ],
    ids=lambda e: str(e)[:60].replace("\n", ""),
)
def test_gradients_of_classifiers_are_those_of_their_decisions(estimator, n_classes):
    X, y = make_classification(
        150, 6, n_informative=4, n_classes=n_classes, n_clusters_per_class=1, random_state=0
    )
    model = clone(estimator).fit(X, np.array(list("abcd"))[y])
    known = gradients_of(model, X, "analytic")
    if n_classes > 2 and isinstance(model[-1] if hasattr(model, "steps") else model, SVC | NuSVC):
        model.set_params(
            **{
                f"{'svc__' if hasattr(model, 'steps') else ''}{name}": value
                for name, value in {"decision_function_shape": "ovo", "break_ties": False}.items()
            }
        )
    Z = X[:20] + 0.1
    G = known.at(Z)
    expected = central(model.decision_function, Z)
    if n_classes == 2 and isinstance(model, SVC | NuSVC) and G[0, 0] @ expected[0, 0] < 0:
        G = -G  # of two classes either may be the positive one
    np.testing.assert_allclose(G, expected, rtol=1e-5, atol=1e-6)


def test_networks_of_classifiers_are_read_before_the_softmax():
    X, y = load_iris(return_X_y=True)
    net = MLPClassifier(hidden_layer_sizes=(8,), activation="tanh", max_iter=2000, random_state=0)
    net.fit(X, y)
    G = gradients_of(net, X, "analytic").at(X[:5])
    assert G.shape == (5, 3, 4)
    # log-probabilities are the outputs less a common term
    log = central(net.predict_log_proba, X[:5])
    np.testing.assert_allclose(G - G[:, :1], log - log[:, :1], rtol=1e-4, atol=1e-6)


def test_a_skorch_net_is_read(rows):
    X, y, _ = rows
    X, y = X.astype(np.float32), y.astype(np.float32)[:, None]
    net = NeuralNetRegressor(
        nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), max_epochs=2, verbose=0
    ).fit(X, y)
    known = gradients_of(net, X)
    assert known.analytic
    differences = central(lambda Z: net.predict(Z.astype(np.float32)), X[:9], 1e-2)
    # float32: rounding 6e-8 of predictions of order 1 over twice the step
    np.testing.assert_allclose(known.at(X[:9]), differences, atol=1e-3)


@pytest.mark.parametrize(
    "estimator",
    [
        PoissonRegressor(),  # linear but for a link
        KernelRidge(kernel="poly"),
        SVR(kernel="sigmoid"),
        GaussianProcessRegressor(Matern(2.0, nu=3.5), optimizer=None),
        make_pipeline(PolynomialFeatures(2), Ridge()),
    ],
    ids=lambda e: str(e)[:60].replace("\n", ""),
)
def test_what_is_not_known_is_differenced(estimator, rows):
    X, y, _ = rows
    model = clone(estimator).fit(X, np.exp(y / 10))
    G = gradients_of(model, X)
    assert not G.analytic
    # at a step of h = 5e-3 standard deviations a difference is off by h^2 / 6 third derivatives
    np.testing.assert_allclose(G.at(X[:20]), central(model.predict, X[:20]), rtol=1e-2, atol=1e-3)
    with pytest.raises(ValueError, match=f"function of {type(model).__name__} is not known"):
        gradients_of(model, X, "analytic")


def test_a_staircase_is_smoothed():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(2000, 3))
    tree = DecisionTreeRegressor(min_samples_leaf=5, random_state=0).fit(X, 3 * X[:, 0])
    G = gradients_of(tree, X).at(X[:300])[:, 0]
    inside = np.abs(X[:300, 0]) < 1.2
    # the slope of the line whose steps these are; a step spans 5 rows of 2,000
    assert abs(G[inside, 0].mean() - 3) < 0.1
    assert np.abs(G[:, 1:]).max() < 0.2


def test_the_first_update_by_hand(rows):
    X, y, _ = rows
    learner = RecursiveFeatureLearner(Ridge(), max_iter=1).fit(X, y)
    b = Ridge().fit(X, y).coef_
    M = np.outer(b, b) / (b @ b)
    np.testing.assert_allclose(learner.feature_matrix_, M, atol=1e-12)
    Z = X @ M
    Z = Z * np.sqrt(X.var(axis=0).sum() / Z.var(axis=0).sum())
    np.testing.assert_allclose(learner.transform(X), Z, atol=1e-10)
    np.testing.assert_allclose(learner.predict(X), Ridge().fit(Z, y).predict(Z), atol=1e-10)
    np.testing.assert_allclose(learner.feature_importances_, b**2 / (b @ b), atol=1e-12)


@pytest.mark.parametrize("diag", [False, True])
def test_around_kernel_ridge_it_is_an_rfm(diag):
    # SVR's sister: gaussian kernel, constant bandwidth L in the units kept by the map
    X, y, _ = make_multi_index(200, 6, random_state=0)
    inner = RFMRegressor("gaussian", max_iter=0)
    learner = RecursiveFeatureLearner(inner, max_iter=3, diag=diag).fit(X, y)
    machine = RFMRegressor("gaussian", max_iter=3, diag=diag).fit(X, y)
    np.testing.assert_allclose(learner.feature_matrix_, machine.feature_matrix_, atol=1e-8)
    np.testing.assert_allclose(learner.predict(X), machine.predict(X), atol=1e-7)


@pytest.mark.parametrize("seed", range(3))
def test_it_improves_what_looks_at_all_columns_alike(seed):
    X, y, _ = make_multi_index(1280, 20, random_state=seed)
    X_new, y_new, _ = make_multi_index(1280, 20, random_state=seed + 100)
    for estimator, gain in ((SVR(), 0.15), (KNeighborsRegressor(10), 0.15)):
        alone = clone(estimator).fit(X, y).score(X_new, y_new)
        learner = RecursiveFeatureLearner(estimator).fit(X, y)
        assert learner.score(X_new, y_new) > alone + gain
        assert learner.feature_importances_[:3].sum() > 0.6
    assert learner.gradient_ == "numeric"


@pytest.mark.parametrize("tol", [0.0, 1e-4, 0.3])
def test_early_stopping_keeps_the_best_iterate(tol):
    X, y, _ = make_multi_index(300, 8, random_state=0)
    options = {"max_iter": 6, "random_state": 0, "early_stopping": True, "tol": tol}
    learner = RecursiveFeatureLearner(SVR(), **options).fit(X, y)
    history = learner.history_
    assert len(history) == learner.n_iter_ + 1
    # whatever counts as progress: tol says for how long to go on
    assert learner.best_iter_ == history["validation_score"].argmax() > 0
    assert len(learner.estimator_.support_) <= 270  # the held-out rows are not fitted
    # and so in the kernel machine
    machine = RFMRegressor(**options).fit(X, y)
    assert machine.best_iter_ == machine.history_["validation_score"].argmax() > 0


def test_without_early_stopping_the_last_iterate_is_kept():
    X, y, _ = make_multi_index(300, 8, random_state=0)
    without = RecursiveFeatureLearner(Ridge(), max_iter=2).fit(X, y)
    assert np.isnan(without.history_["validation_score"]).all()
    assert without.best_iter_ == 2


def test_weights_are_repetitions():
    X, y, _ = make_multi_index(120, 5, random_state=0)
    times = np.random.default_rng(0).integers(0, 3, 120)
    for estimator in (KernelRidge(kernel="rbf", gamma=0.2), RFMRegressor(max_iter=0)):
        learner = RecursiveFeatureLearner(estimator)
        weighted = clone(learner).fit(X, y, sample_weight=times)
        repeated = clone(learner).fit(X.repeat(times, axis=0), y.repeat(times))
        np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-8)
        np.testing.assert_allclose(weighted.feature_matrix_, repeated.feature_matrix_, atol=1e-9)
    with pytest.raises(TypeError, match="sample_weight"):
        RecursiveFeatureLearner(KNeighborsRegressor()).fit(X, y, sample_weight=times)
    with pytest.raises(ValueError, match="non-zero"):
        learner.fit(X, y, sample_weight=0 * times)
    held = clone(learner).set_params(early_stopping=True, random_state=0)
    assert held.fit(X, y, sample_weight=times).score(X, y, sample_weight=times) > 0.3


def test_weights_are_routed_where_they_are_asked_for():
    X, y, _ = make_multi_index(120, 5, random_state=0)
    weight = np.arange(120.0)
    plain = RecursiveFeatureLearner(Ridge()).fit(X, y, sample_weight=weight)
    with config_context(enable_metadata_routing=True):
        asked = RecursiveFeatureLearner(Ridge().set_fit_request(sample_weight=True))
        np.testing.assert_array_equal(
            asked.fit(X, y, sample_weight=weight).predict(X), plain.predict(X)
        )
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            RecursiveFeatureLearner(Ridge()).fit(X, y, sample_weight=weight)


def test_a_callable_gives_the_gradients(rows):
    X, y, _ = rows
    seen = []

    def gradient(model, Z):
        seen.append(len(Z))
        return model.input_gradients(Z)

    learner = RecursiveFeatureLearner(RFMRegressor(max_iter=0), gradient=gradient)
    other = RecursiveFeatureLearner(RFMRegressor(max_iter=0), gradient="analytic")
    np.testing.assert_array_equal(learner.fit(X, y).predict(X), other.fit(X, y).predict(X))
    assert sum(seen) == 3 * len(X)
    assert (learner.gradient_, other.gradient_) == ("callable", "analytic")
    with pytest.raises(ValueError, match=r"shape \(n, n_outputs, d\)"):
        RecursiveFeatureLearner(Ridge(), gradient=lambda model, Z: Z).fit(X, y)
    with pytest.raises(ValueError, match="NaN or infinite"):
        RecursiveFeatureLearner(
            Ridge(), gradient=lambda model, Z: np.full((len(Z), 1, 4), np.nan)
        ).fit(X, y)


def test_classifiers_and_their_methods():
    X, y = load_iris(return_X_y=True)
    y = np.array(["setosa", "versicolor", "virginica"])[y]
    learner = RecursiveFeatureLearner(SVC()).fit(X, y)
    assert list(learner.classes_) == ["setosa", "versicolor", "virginica"]
    assert learner.decision_function(X).shape == (150, 3)
    assert not hasattr(learner, "predict_proba")
    assert learner.score(X, y) > 0.9
    nearest = RecursiveFeatureLearner(KNeighborsClassifier()).fit(X, y)
    assert nearest.predict_proba(X).shape == (150, 3)
    assert not hasattr(nearest, "decision_function")
    forest = RecursiveFeatureLearner(RandomForestClassifier(10, random_state=0), max_iter=1)
    assert forest.fit(X, y).gradient_ == "numeric"
    with pytest.raises(TypeError, match="KMeans is neither"):
        RecursiveFeatureLearner(KMeans()).fit(X, y)
    with pytest.raises(ValueError, match="must be an object implementing 'fit' and 'predict'"):
        RecursiveFeatureLearner(PCA()).fit(X, y)


def test_nothing_to_learn_ends_it():
    X = np.random.default_rng(0).normal(size=(30, 3))
    learner = RecursiveFeatureLearner(DecisionTreeRegressor()).fit(X, np.ones(30))
    assert learner.n_iter_ == 0
    np.testing.assert_array_equal(learner.feature_matrix_, np.eye(3))
    np.testing.assert_array_equal(learner.transform(X), X)


def test_one_row_has_no_score():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = RecursiveFeatureLearner(SVR()).fit([[1.0, 2.0]], [3.0])
    assert learner.predict([[0.0, 0.0]]) == [3.0]
    assert np.isnan(learner.history_["train_score"]).all()


def test_it_nests():
    X, y, _ = make_multi_index(200, 6, random_state=0)
    pipe = make_pipeline(StandardScaler(), RecursiveFeatureLearner(SVR()))
    grid = {
        "recursivefeaturelearner__estimator__C": [1.0, 10.0],
        "recursivefeaturelearner__max_iter": [0, 2],
    }
    search = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    assert search.best_params_["recursivefeaturelearner__max_iter"] == 2
    assert cross_val_score(pipe, X, y, cv=3).shape == (3,)
    # as a transformer in front of another estimator
    front = make_pipeline(RecursiveFeatureLearner(SVR()), HistGradientBoostingRegressor())
    assert front.fit(X, y).score(X, y) > 0.8


def test_scores_prefer_decisions_to_probabilities(rows):
    X, y, _ = rows
    labels = (y > 0).astype(int)
    model = LogisticRegression().fit(X, labels)
    np.testing.assert_array_equal(scores(model, X)[:, 0], model.decision_function(X))
    nearest = KNeighborsClassifier().fit(X, labels)
    np.testing.assert_array_equal(scores(nearest, X), nearest.predict_proba(X))
    votes = VotingClassifier([("a", KNeighborsClassifier()), ("b", nearest)])
    votes.fit(X, np.array(["no", "yes"])[labels])
    np.testing.assert_array_equal(scores(votes, X)[:, 1], votes.predict(X) == "yes")
    assert RecursiveFeatureLearner(votes).fit(X, labels).score(X, labels) > 0.8
    two = KNeighborsClassifier().fit(X, np.stack([labels, 1 - labels], axis=1))
    assert scores(two, X).shape == (90, 4)


def test_large_rows_are_sampled(rows):
    X, y, _ = make_multi_index(3000, 5, random_state=0)
    seen = []

    class Counting(KNeighborsRegressor):
        def predict(self, X):
            seen.append(len(X))
            return super().predict(X)

    RecursiveFeatureLearner(Counting(), max_iter=1, random_state=0).fit(X, y)
    # 10 predictions of 2,000 rows, after those that choose the step, and two scores
    assert seen.count(2000) == 10
    assert agop(RFMRegressor().fit(X[:50], y[:50]), X[:50]).shape == (5, 5)


# ---------------------------------------------------------------- transformers that make frames


def behind_a_scaler(estimator):
    return make_pipeline(StandardScaler(), PCA(4), estimator)


NETWORK = MLPRegressor(
    hidden_layer_sizes=(8,), solver="lbfgs", alpha=1, max_iter=5000, random_state=0
)
MODELS = [
    RecursiveFeatureLearner(SVR()),
    RecursiveFeatureLearner(behind_a_scaler(SVR())),
    RecursiveFeatureLearner(behind_a_scaler(SVR(kernel="linear"))),
    RecursiveFeatureLearner(behind_a_scaler(GaussianProcessRegressor(alpha=0.1, normalize_y=True))),
    RecursiveFeatureLearner(behind_a_scaler(RFMRegressor(max_iter=1))),
    RecursiveFeatureLearner(behind_a_scaler(NETWORK)),
    RecursiveFeatureLearner(behind_a_scaler(SVR(kernel="poly")), max_iter=1),
    RecursiveFeatureLearner(GridSearchCV(behind_a_scaler(SVR()), {"svr__C": [1.0, 10.0]}, cv=2)),
    RecursiveFeatureLearner(SVR(), early_stopping=True, random_state=0),
]


@pytest.mark.parametrize("named", [False, True], ids=["array", "frame"])
@pytest.mark.parametrize("model", MODELS, ids=lambda e: " ".join(str(e).split())[:70])
def test_frames_from_transformers_change_no_number(model, named):
    X, y, _ = make_multi_index(80, 6, random_state=0)
    rows = pd.DataFrame(X, columns=list("abcdef")) if named else X
    plain = clone(model).fit(rows, y)
    methods = [m for m in ("predict", "transform") if hasattr(plain, m)]
    expected = {m: getattr(plain, m)(rows) for m in methods}
    score = plain.score(rows, y) if "predict" in methods else None
    with warnings.catch_warnings(), config_context(transform_output="pandas"):
        warnings.simplefilter("error")
        found = clone(model).fit(rows, y)
        for method, value in expected.items():
            result = getattr(found, method)(rows)
            assert isinstance(result, pd.DataFrame) == (method == "transform")
            # equal but for the order of sums over rows of another memory layout
            assert_allclose(result, value, rtol=1e-7, atol=1e-9)
        if score is not None:
            assert found.score(rows, y) == pytest.approx(score, rel=1e-7)
    assert getattr(found, "gradient_", None) == getattr(plain, "gradient_", None)


@pytest.mark.parametrize("estimator", [SVR(), behind_a_scaler(SVR())], ids=["plain", "pipeline"])
def test_set_output_of_a_pipeline(estimator):
    X, y, _ = make_multi_index(80, 6, random_state=0)
    rows = pd.DataFrame(X, columns=list("abcdef"))
    pipe = make_pipeline(StandardScaler(), RecursiveFeatureLearner(estimator))
    expected = clone(pipe).fit(X, y).predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe.set_output(transform="pandas").fit(rows, y)
        assert_allclose(pipe.predict(rows), expected, rtol=1e-7)
        names = pipe[:-1].transform(rows).columns
        assert list(names) == list("abcdef")
        assert list(pipe.transform(rows).columns) == list(pipe.get_feature_names_out())


def test_layers_behind_a_scaler_that_makes_frames():
    X, y, _ = make_multi_index(80, 6, random_state=0)
    model = make_pipeline(StandardScaler(), clone(NETWORK)).fit(X, y)
    frames = clone(model).set_output(transform="pandas").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layers = layer_features(frames, X)
    for one, other in zip(layers, layer_features(model, X), strict=True):
        np.testing.assert_allclose(one.agop, other.agop, rtol=1e-6)


# ---------------------------------------------------------------- what the estimator inside can do


def test_predict_hands_on_what_the_estimator_takes():
    X, y, _ = make_multi_index(60, 4, random_state=0)
    learner = RecursiveFeatureLearner(GaussianProcessRegressor(alpha=0.1), max_iter=1).fit(X, y)
    mean, std = learner.predict(X, return_std=True)
    expected = learner.estimator_.predict(learner.transform(X), return_std=True)
    np.testing.assert_array_equal(mean, expected[0])
    np.testing.assert_array_equal(std, expected[1])


def test_weights_are_in_the_signature_where_the_estimator_takes_them():
    from sklearn.utils.validation import has_fit_parameter

    assert has_fit_parameter(RecursiveFeatureLearner(SVR()), "sample_weight")
    assert not has_fit_parameter(RecursiveFeatureLearner(KNeighborsRegressor()), "sample_weight")
    X, y, _ = make_multi_index(60, 4, random_state=0)
    with pytest.raises(TypeError, match="sample_weight"):
        RecursiveFeatureLearner(KNeighborsRegressor()).fit(X, y, sample_weight=np.ones(60))


def test_validation_rows_are_mapped_or_refused():
    X, y, _ = make_multi_index(150, 4, random_state=0)
    V, v, _ = make_multi_index(80, 4, random_state=1)
    inner = RFMRegressor(early_stopping=True, max_iter=2)
    learner = RecursiveFeatureLearner(inner, max_iter=2).fit(X, y, X_val=V, y_val=v)
    fitted = learner.estimator_
    found = fitted.history_["validation_score"][fitted.best_iter_]
    np.testing.assert_allclose(found, 1 - np.mean((v - learner.predict(V)) ** 2) / y.var())
    with pytest.raises(ValueError, match="eval_set would reach the estimator as it is"):
        RecursiveFeatureLearner(SVR()).fit(X, y, eval_set=[(V, v)])

    class Offset(Ridge):
        def fit(self, X, y, sample_weight=None, offset=None):
            return super().fit(X, y - offset[: len(X)], sample_weight)

    one = RecursiveFeatureLearner(Offset(), early_stopping=True)
    with pytest.raises(ValueError, match="whether 'offset' has an entry for each row"):
        one.fit(X, y, offset=np.ones(150))


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_outputs_are_in_units_of_their_own(unit):
    X, y, _ = make_multi_index(200, 6, random_state=0)
    Y = np.column_stack([y, np.sin(2 * X[:, 3])])
    a, b = (
        RecursiveFeatureLearner(KernelRidge(kernel="rbf", gamma=0.2), max_iter=1).fit(X, Y * u)
        for u in ([1, 1], [unit, 1])
    )
    np.testing.assert_allclose(b.feature_matrix_, a.feature_matrix_, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "how"),
    [
        (DecisionTreeClassifier(max_depth=4, random_state=0), {}),
        (RFMClassifier(max_iter=0), {"gradient": "numeric"}),
        (Ridge(), {"gradient": "numeric"}),
    ],
)
def test_weights_are_repeated_rows_in_differences_too(model, how):
    """The step of differences is in units of the spread, which weights change."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(45, 3)) * [1.0, 2.0, 0.5]
    y = (X[:, 0] * X[:, 1] > 0).astype(int) if is_classifier(model) else X[:, 0]
    weight = np.where(X[:, 0] > 1, 3, 1)
    learner = RecursiveFeatureLearner(model, max_iter=2, random_state=0, **how)
    weighted = clone(learner).fit(X, y, sample_weight=weight).feature_matrix_
    repeated = clone(learner).fit(X.repeat(weight, 0), y.repeat(weight)).feature_matrix_
    np.testing.assert_allclose(weighted, repeated, rtol=1e-5, atol=1e-6 * repeated.max())
