# SPDX-License-Identifier: BSD-3-Clause
"""The estimators against the naive float64 reference, and their manners."""

import numpy as np
import pytest
import reference
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import r2_score

from rfmlearn import RFMClassifier, RFMRegressor
from rfmlearn.datasets import make_multi_index
from rfmlearn.kernels import Kernel, Laplace, PowerExponential

KERNELS = [
    "laplace", "gaussian", "power_exponential", "matern", "rational_quadratic", "product_laplace",
    "lpq", "polynomial",
]  # fmt: skip


def seen_by(kernel, X, *more, w=None):
    """Return rows as the kernel sees them: the polynomial one centred at the training rows."""
    mean = np.average(X, axis=0, weights=w) if kernel == "polynomial" else 0
    return [rows - mean for rows in (X, *more)]


def small(n=40, d=4, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.column_stack([np.sin(X[:, 0] * X[:, 1]) + 0.3 * c * X[:, 2] for c in range(outputs)])
    return X, Y + 0.1 * rng.normal(size=Y.shape)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("diag", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{}, {"agop_power": 0.5, "center_gradients": True}])
def test_three_updates_agree_with_the_naive_reference(kernel, diag, weighted, options):
    X, Y = small(outputs=2)
    Q, _ = small(seed=1)
    w = np.random.default_rng(2).uniform(0.2, 3, len(X)) if weighted else None
    unit = reference.spread(Y, w)
    model = RFMRegressor(kernel, diag=diag, max_iter=3, **options).fit(X, Y, sample_weight=w)
    found, slopes = model.predict(Q), model.input_gradients(Q)
    X, Q = seen_by(kernel, X, Q, w=w)
    M, coef, intercept, L = reference.rfm(
        X,
        Y / unit,
        kernel=kernel,
        diag=diag,
        w=w,
        power=options.get("agop_power", 1.0),
        center=options.get("center_gradients", False),
    )
    np.testing.assert_allclose(
        found,
        reference.predict(kernel, Q, X, coef, intercept, M, L) * unit,
        rtol=0,
        atol=1e-8,
    )
    np.testing.assert_allclose(model.feature_matrix_, np.diag(M) if diag else M, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.bandwidth_, L, rtol=1e-10)
    gradients = [[reference.gradient(kernel, x, X, coef[:, c], M, L) for c in range(2)] for x in Q]
    expected = np.array(gradients) * unit[:, None]
    np.testing.assert_allclose(slopes, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS)
def test_three_updates_with_a_constant_bandwidth_agree_with_the_reference(kernel):
    X, Y = small()
    Q, _ = small(seed=1)
    model = RFMRegressor(kernel, max_iter=3, bandwidth=2.5, bandwidth_mode="constant")
    found = model.fit(X, Y[:, 0]).predict(Q)
    X, Q = seen_by(kernel, X, Q)
    M, coef, intercept, L = reference.rfm(X, Y, kernel=kernel, adaptive=False, bandwidth=2.5)
    assert model.bandwidth_ == L == 2.5
    expected = reference.predict(kernel, Q, X, coef, intercept, M, L)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_no_update_is_kernel_ridge_regression():
    X, Y = small(100, 3)
    y = Y[:, 0]
    model = RFMRegressor("gaussian", max_iter=0, bandwidth=1.5, bandwidth_mode="constant")
    model.fit(X, y)
    ridge = KernelRidge(kernel="rbf", gamma=1 / (2 * 1.5**2), alpha=1e-3).fit(X, y - y.mean())
    np.testing.assert_allclose(model.dual_coef_, ridge.dual_coef_, rtol=1e-8)
    np.testing.assert_allclose(model.predict(X), ridge.predict(X) + y.mean(), rtol=1e-8)
    np.testing.assert_array_equal(model.feature_matrix_, np.eye(3))
    assert model.n_iter_ == model.best_iter_ == 0


def test_the_multi_index_target_is_learned_at_default_parameters():
    X, y, subspace = make_multi_index(1280, 20, random_state=0)
    Q, q, _ = make_multi_index(1280, 20, random_state=1)
    assert r2_score(q, RFMRegressor().fit(X, y).predict(Q)) >= 0.95
    assert r2_score(q, RFMRegressor(max_iter=0).fit(X, y).predict(Q)) < 0.85
    model = RFMRegressor().fit(X, y)
    # the leading eigenvectors of M span the three columns that the target depends on
    _, V = np.linalg.eigh(model.feature_matrix_)
    cosines = np.linalg.svd(subspace @ V[:, -3:], compute_uv=False)
    assert cosines.min() > 0.98
    np.testing.assert_array_equal(np.sort(model.feature_importances_.argsort()[-3:]), [0, 1, 2])
    np.testing.assert_allclose(model.feature_importances_.sum(), 1)


def test_classes_are_scored_by_one_output_for_two_and_one_each_for_more():
    X, Y = small(90)
    y3 = np.digitize(Y[:, 0], [-0.3, 0.3])
    two = RFMClassifier().fit(X, y3 > 0)
    assert two.decision_function(X).shape == (90,)
    assert two.dual_coef_.shape == (90,)
    assert isinstance(two.intercept_, float)
    assert two.input_gradients(X).shape == (90, 1, 4)
    three = RFMClassifier().fit(X, y3)
    assert three.decision_function(X).shape == (90, 3)
    assert three.input_gradients(X).shape == (90, 3, 4)
    np.testing.assert_allclose(three.decision_function(X).sum(1), 1, atol=1e-10)


def test_two_classes_equal_regression_on_signs():
    X, Y = small(60)
    y = Y[:, 0] > 0
    classifier = RFMClassifier().fit(X, y)
    regressor = RFMRegressor().fit(X, np.where(y, 1.0, -1.0))
    np.testing.assert_allclose(classifier.decision_function(X), regressor.predict(X), rtol=1e-12)


@pytest.mark.parametrize("k", [2, 4])
def test_probabilities_are_the_nearest_point_of_the_simplex_smoothed(k):
    X, Y = small(90)
    y = np.digitize(Y[:, 0], [-0.3, 0.0, 0.3] if k == 4 else [0.0])
    w = np.linspace(0.5, 3, 90)
    model = RFMClassifier().fit(X, y, sample_weight=w)
    Q = 2 * small(50, seed=1)[0]
    scores, P = model.decision_function(Q), model.predict_proba(Q)
    if k == 2:
        scores = np.column_stack([(1 - scores) / 2, (1 + scores) / 2])
    np.testing.assert_allclose(P.sum(1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(Q), model.classes_[P.argmax(1)])
    doubt = 1 / (w.sum() + 2)
    nearest = (P - doubt / k) / (1 - doubt)
    assert nearest.min() > -1e-15
    nearest[nearest < 1e-14] = 0
    assert (nearest == 0).any()
    # optimality: v - p is largest, and the same, where p > 0
    for v, p in zip(scores, nearest, strict=True):
        gap = v - p
        np.testing.assert_allclose(gap[p > 0], gap.max(), atol=1e-12)


def test_weights_of_classes_multiply_weights_of_rows():
    X, Y = small(60)
    y = np.where(Y[:, 0] > 0.2, "rare", "usual")
    w = np.linspace(0.5, 2, 60)
    by_class = RFMClassifier(class_weight={"rare": 3.0, "usual": 0.5}).fit(X, y, sample_weight=w)
    by_row = RFMClassifier().fit(X, y, sample_weight=w * np.where(y == "rare", 3.0, 0.5))
    np.testing.assert_array_equal(by_class.decision_function(X), by_row.decision_function(X))
    balanced = RFMClassifier(class_weight="balanced").fit(X, y)
    count = np.where(y == "rare", (y == "rare").sum(), (y == "usual").sum())
    expected = RFMClassifier().fit(X, y, sample_weight=60 / (2 * count))
    np.testing.assert_array_equal(balanced.decision_function(X), expected.decision_function(X))


@pytest.mark.parametrize("diag", [False, True])
def test_transform_gives_the_metric(diag):
    X, Y = small(60)
    model = RFMRegressor(diag=diag).fit(X, Y[:, 0])
    M = np.diag(model.feature_matrix_) if diag else model.feature_matrix_
    Z = model.transform(X)
    np.testing.assert_allclose(Z @ Z.T, X @ M @ X.T, atol=1e-10)
    np.testing.assert_allclose(
        model.transform(X, n_components=4) @ model.transform(X, n_components=4).T,
        X @ M @ X.T,
        atol=1e-10,
    )
    two = model.transform(X, n_components=2)
    assert two.shape == (60, 2)
    values = np.linalg.eigvalsh(M)
    directions = two.T @ np.linalg.pinv(X).T
    np.testing.assert_allclose((directions**2).sum(1), values[::-1][:2], atol=1e-10)


def test_the_ridge_along_the_way_may_differ_from_the_last_one():
    X, Y = small(60)
    y = Y[:, 0]
    guided = RFMRegressor(alpha=1.0, agop_alpha=1e-3, max_iter=2).fit(X, y)
    guide = RFMRegressor(alpha=1e-3, max_iter=2).fit(X, y)
    np.testing.assert_array_equal(guided.feature_matrix_, guide.feature_matrix_)
    frozen = clone(guide).set_params(warm_start=True, alpha=1.0, max_iter=0)
    frozen.feature_matrix_ = guide.feature_matrix_
    np.testing.assert_allclose(guided.predict(X), frozen.fit(X, y).predict(X), atol=1e-10)


def test_transform_names_its_columns_under_set_output():
    pd = pytest.importorskip("pandas")
    X, Y = small(30)
    D = pd.DataFrame(X, columns=list("abcd"))
    model = RFMRegressor(max_iter=1).set_output(transform="pandas").fit(D, Y[:, 0])
    Z = model.transform(D)
    assert list(Z.columns) == list(model.get_feature_names_out())
    with pytest.raises(ValueError, match="n_components works with array output only"):
        model.transform(D, n_components=2)


@pytest.mark.parametrize("Estimator", [RFMRegressor, RFMClassifier])
def test_float32_stays_float32_and_agrees_with_float64(Estimator):
    X, Y = small(120)
    y = Y[:, 0] if Estimator is RFMRegressor else (Y[:, 0] > 0).astype(int)
    X32 = X.astype(np.float32)
    a, b = Estimator().fit(X32, y), Estimator().fit(X32.astype(np.float64), y)
    for name in ("feature_matrix_", "dual_coef_", "X_fit_"):
        assert getattr(a, name).dtype == np.float32
        assert getattr(b, name).dtype == np.float64
    assert a.transform(X32).dtype == np.float32
    out = "predict" if Estimator is RFMRegressor else "decision_function"
    assert getattr(a, out)(X32).dtype == np.float32
    # half of what the solver accepts, 4 sqrt(eps); this system is well conditioned
    np.testing.assert_allclose(getattr(a, out)(X32), getattr(b, out)(X32), atol=7e-4)


def test_every_fitted_attribute_is_numpy_or_plain():
    X, Y = small(30)
    model = RFMRegressor(early_stopping=True).fit(X, Y)
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith("_"):
            assert isinstance(value, np.ndarray | int | float | Kernel), name


def test_the_fitted_model_does_not_follow_the_callers_array():
    X, Y = small(30)
    Q = X.copy()
    model = RFMRegressor().fit(X, Y[:, 0])
    before = model.predict(Q)
    X[:] = 0
    np.testing.assert_array_equal(model.predict(Q), before)


def test_a_changed_kernel_parameter_waits_for_the_next_fit():
    X, Y = small(30)
    model = RFMRegressor().fit(X, Y[:, 0])
    before = model.predict(X)
    np.testing.assert_array_equal(model.set_params(kernel="gaussian").predict(X), before)


def test_kernel_objects_may_replace_names():
    X, Y = small(50)
    a, b = RFMRegressor("laplace").fit(X, Y), RFMRegressor(Laplace()).fit(X, Y)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    c = clone(RFMRegressor(PowerExponential(1.0))).fit(X, Y)
    np.testing.assert_allclose(c.predict(X), a.predict(X), atol=1e-9)
    assert repr(c) == "RFMRegressor(kernel=PowerExponential(exponent=1.0))"


def test_many_gradient_samples_give_the_metric_of_all_rows():
    X, y, _ = make_multi_index(800, 8, random_state=0)
    M = RFMRegressor(max_iter=1).fit(X, y).feature_matrix_
    sampled = [
        RFMRegressor(max_iter=1, n_agop_samples=400, random_state=s).fit(X, y).feature_matrix_
        for s in range(8)
    ]
    same = RFMRegressor(max_iter=1, n_agop_samples=400, random_state=0).fit(X, y)
    np.testing.assert_array_equal(sampled[0], same.feature_matrix_)
    spread = np.std(sampled, axis=0).max()
    assert 0 < spread < 0.1
    # the mean of 8 half samples: 8^(-1/2) of the spread, times 4, over the maximum of 64 entries
    np.testing.assert_allclose(np.mean(sampled, axis=0), M, atol=4 * spread / np.sqrt(8))
    exact = RFMRegressor(max_iter=1, n_agop_samples=10_000).fit(X, y)
    np.testing.assert_array_equal(exact.feature_matrix_, M)


def test_warm_start_continues_from_the_feature_matrix():
    X, Y = small(60)
    y = Y[:, 0]
    whole = RFMRegressor(max_iter=3).fit(X, y)
    parts = RFMRegressor(max_iter=1, warm_start=True).fit(X, y)
    parts.fit(X, y).fit(X, y)
    np.testing.assert_allclose(parts.feature_matrix_, whole.feature_matrix_, atol=1e-9)
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), atol=1e-9)
    frozen = clone(whole).set_params(warm_start=True).fit(X, y)
    M = frozen.feature_matrix_
    frozen.set_params(max_iter=0).fit(X[:40], y[:40])
    np.testing.assert_allclose(frozen.feature_matrix_, M, atol=1e-12)
    with pytest.raises(ValueError, match=r"warm_start=True continues .* does not fit 2 features"):
        frozen.fit(X[:, :2], y)


@pytest.mark.parametrize("scaling", ["spectral", "trace", None])
def test_scaling_of_the_matrix_is_what_it_says(scaling):
    X, Y = small(60)
    model = RFMRegressor(matrix_scaling=scaling, max_iter=1).fit(X, Y[:, 0])
    if scaling == "spectral":
        np.testing.assert_allclose(np.linalg.eigvalsh(model.feature_matrix_)[-1], 1)
    elif scaling == "trace":
        np.testing.assert_allclose(np.trace(model.feature_matrix_), 4)
    else:
        G = RFMRegressor(max_iter=0).fit(X, Y[:, 0]).input_gradients(X)[:, 0]
        np.testing.assert_allclose(model.feature_matrix_, G.T @ G / 60, rtol=1e-9)


def test_predictions_come_in_the_shape_of_y():
    X, Y = small(30, outputs=2)
    for y in (Y[:, 0], Y[:, :1], Y):
        model = RFMRegressor(max_iter=1).fit(X, y)
        assert model.predict(X).shape == y.shape
        assert model.dual_coef_.shape == y.shape


def test_parameters_work_in_a_pipeline_grid_search():
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, Y = small(60)
    grid = {"rfmregressor__kernel": [Laplace(), "gaussian"], "rfmregressor__diag": [True, False]}
    search = GridSearchCV(make_pipeline(StandardScaler(), RFMRegressor()), grid, cv=2)
    assert set(search.fit(X, Y[:, 0]).best_params_) == set(grid)
