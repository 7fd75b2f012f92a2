# SPDX-License-Identifier: BSD-3-Clause
"""The estimators that choose for themselves: same choice as a grid search, honest scores."""

import numpy as np
import pytest
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneGroupOut,
    StratifiedKFold,
)

from rfmlearn import RFMClassifier, RFMClassifierCV, RFMRegressor, RFMRegressorCV
from rfmlearn._base._calibration import calibrate, probabilities
from rfmlearn.kernels import PowerExponential
from rfmlearn.rfm import _selection
from rfmlearn.rfm._path import Path, Rowset

SMALL = {
    "kernels": "laplace",
    "diag": (False, True),
    "bandwidths": (0.5, 2.0),
    "alphas": (1e-3, 0.1, 10.0),
    "max_iter": 2,
    "random_state": 0,
}
GRID = {
    "bandwidth": [0.5, 2.0],
    "diag": [False, True],
    "max_iter": [0, 1, 2],
    "alpha": [10.0, 0.1, 1e-3],
}


def data(n=90, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] * X[:, 1] + 0.5 * rng.normal(size=n)


def classes(n=90, k=3, seed=0):
    X, y = data(n, seed=seed)
    return X, np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.5] if k == 3 else [0.0])]


@pytest.fixture
def in_double(monkeypatch):
    """Compute held-out scores in the precision of X, as the plain estimator does."""
    monkeypatch.setattr(Path, "in_single", lambda self, train, queries: (train, queries))


def by_params(results):
    """Return the split scores of each candidate, keyed by its parameters."""
    splits = sorted(key for key in results if key.startswith("split"))
    return {
        tuple(float(params[name]) for name in GRID): [results[key][i] for key in splits]
        for i, params in enumerate(results["params"])
    }


@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
def test_a_regressor_scores_and_chooses_like_a_grid_search(in_double, scoring):
    X, y = data()
    cv = KFold(3, shuffle=True, random_state=1)
    ours = RFMRegressorCV(**SMALL, cv=cv, scoring=scoring).fit(X, y)
    grid = GridSearchCV(
        RFMRegressor(agop_alpha=1e-2), GRID, cv=cv, scoring=scoring or "neg_mean_squared_error"
    ).fit(X, y)
    a, b = by_params(ours.cv_results_), by_params(grid.cv_results_)
    assert a.keys() == b.keys()
    for key, scores in a.items():
        np.testing.assert_allclose(scores, b[key], rtol=1e-6)
    assert {name: ours.best_params_[name] for name in GRID} == grid.best_params_
    np.testing.assert_allclose(ours.best_score_, grid.best_score_, rtol=1e-6)
    Q, _ = data(seed=5)
    np.testing.assert_allclose(ours.predict(Q), grid.predict(Q), rtol=1e-6, atol=1e-9)
    assert ours.cv_results_["rank_test_score"][ours.best_index_] == 1
    assert ours.n_splits_ == 3


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "roc_auc_ovr"])
def test_a_classifier_scores_like_a_grid_search(in_double, k, scoring):
    X, y = classes(k=k)
    cv = StratifiedKFold(3)
    ours = RFMClassifierCV(**SMALL, cv=cv, scoring=scoring).fit(X, y)
    plain = RFMClassifier(agop_alpha=1e-2)
    grid = GridSearchCV(plain, GRID, cv=cv, scoring=scoring).fit(X, y)
    a, b = by_params(ours.cv_results_), by_params(grid.cv_results_)
    for key, scores in a.items():
        np.testing.assert_allclose(scores, b[key], rtol=1e-6, atol=1e-12)


def test_the_default_score_of_a_classifier_is_the_squared_error_of_its_outputs(in_double):
    X, y = classes()
    train, test = np.arange(60), np.arange(60, 90)
    ours = RFMClassifierCV(**SMALL, cv=[(train, test)]).fit(X, y)
    for params, score in zip(
        ours.cv_results_["params"], ours.cv_results_["mean_test_score"], strict=True
    ):
        model = RFMClassifier(**params).fit(X[train], y[train])
        truth = (y[test][:, None] == model.classes_).astype(float)
        error = mean_squared_error(truth, model.decision_function(X[test]))
        np.testing.assert_allclose(score, -error, rtol=1e-6)


def test_weights_count_in_fits_scores_and_temperature(in_double):
    X, y = classes(60)
    w = np.random.default_rng(1).integers(0, 4, 60)
    groups = np.arange(60) % 3
    repeated = [np.repeat(a, w, axis=0) for a in (X, y, groups)]

    def splits(X, groups):
        return list(LeaveOneGroupOut().split(X, groups=groups))

    a = RFMClassifierCV(**SMALL, cv=splits(X, groups)).fit(X, y, sample_weight=w)
    b = RFMClassifierCV(**SMALL, cv=splits(repeated[0], repeated[2])).fit(*repeated[:2])
    np.testing.assert_allclose(
        a.cv_results_["mean_test_score"], b.cv_results_["mean_test_score"], rtol=1e-7
    )
    assert a.best_params_ == b.best_params_
    np.testing.assert_allclose(a.temperature_, b.temperature_, rtol=1e-5)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=1e-4)


def test_random_gradient_rows_are_those_of_the_plain_estimator(in_double):
    X, y = data()
    split = [(np.arange(60), np.arange(60, 90))]
    options = {"n_agop_samples": 20, "random_state": 7, "max_iter": 2}
    fixed = {"kernels": "laplace", "bandwidths": 1.0, "alphas": 0.1, "diag": False}
    ours = RFMRegressorCV(**fixed, cv=split, **options).fit(X, y)
    plain = RFMRegressor(alpha=0.1, agop_alpha=1e-2, **options).fit(X[:60], y[:60])
    error = mean_squared_error(y[60:], plain.predict(X[60:]))
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"][-1], -error, rtol=1e-6)


def test_the_result_has_everything_of_the_plain_estimator():
    X, y = classes()
    ours = RFMClassifierCV(**SMALL).fit(X, y)
    plain = RFMClassifier(**ours.best_params_).fit(X, y)
    assert {n for n in vars(plain) if n.endswith("_")} <= set(vars(ours))
    np.testing.assert_array_equal(ours.predict(X), plain.predict(X))
    np.testing.assert_array_equal(ours.feature_matrix_, plain.feature_matrix_)
    np.testing.assert_array_equal(ours.transform(X), plain.transform(X))
    np.testing.assert_array_equal(ours.input_gradients(X), plain.input_gradients(X))
    assert ours.best_iter_ == ours.best_params_["max_iter"] == plain.n_iter_
    assert ours.n_iter_ == 2


@pytest.mark.parametrize("kernel", ["laplace", "product_laplace"])
@pytest.mark.parametrize("far", [0.0, 1e5])
def test_held_out_scores_in_float32_are_those_of_float64(kernel, far, monkeypatch):
    X, y = data(200)
    X = X + far  # float32 is for the centred rows: no digit is lost
    options = SMALL | {"kernels": kernel, "cv": 3}
    single = RFMRegressorCV(**options).fit(X, y)
    monkeypatch.setattr(Path, "in_single", lambda self, train, queries: (train, queries))
    double = RFMRegressorCV(**options).fit(X, y)
    a, b = single.cv_results_["mean_test_score"], double.cv_results_["mean_test_score"]
    assert not np.array_equal(a, b)
    # the solver accepts residuals of 4 sqrt(eps) = 1.4e-3 of the targets
    np.testing.assert_allclose(a, b, rtol=3e-3)
    assert single.best_params_ == double.best_params_
    np.testing.assert_array_equal(single.predict(X), double.predict(X))
    assert single.predict(X).dtype == np.float64


@pytest.mark.parametrize("case", ["small ridge", "huge", "tiny", "far query"])
def test_held_out_scores_stay_in_float64_where_float32_would_not_do(case):
    X, y = data(60)
    rows = Rowset(
        X * {"huge": 1e200, "tiny": 1e-200}.get(case, 1.0), y, y[:, None], np.ones(60), np.ones(60)
    )
    alphas = (1e-9,) if case == "small ridge" else (0.1,)
    model = RFMRegressorCV()
    path = Path.of(
        model._spec(kernel="laplace", bandwidth=1.0, diag=True, alphas=alphas, max_iter=1)
    )
    queries = X * 1e30 if case == "far query" else rows.X
    train, moved = path.in_single(rows, queries)
    assert train is rows
    assert moved is queries


def test_workers_change_nothing():
    X, y = data()
    one = RFMRegressorCV(**SMALL).fit(X, y)
    two = RFMRegressorCV(**SMALL, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_the_automatic_splits(monkeypatch):
    X, y = classes(30)
    assert RFMClassifierCV(**SMALL).fit(X, y).n_splits_ == 5
    few = np.array(["a"] * 3 + ["b"] * 3)  # no class has five rows
    assert RFMClassifierCV(**SMALL).fit(X[:6], few).n_splits_ == 3
    rare = np.array(["a"] * 29 + ["b"])  # nor does the rarest
    assert RFMClassifierCV(**SMALL).fit(X, rare).n_splits_ == 5
    assert RFMRegressorCV(**SMALL).fit(X[:3], [1.0, 2.0, 3.0]).n_splits_ == 3
    monkeypatch.setattr(_selection, "MAX_ROWS_FOR_FOLDS", 29)
    for model, target in ((RFMClassifierCV, y), (RFMRegressorCV, X[:, 0])):
        large = model(**SMALL).fit(X, target)
        assert large.n_splits_ == 1
        assert len(large.X_fit_) == 30
    assert RFMClassifierCV(**SMALL).fit(X, rare).n_splits_ == 1


@pytest.mark.parametrize("limit", [3000, 29])
@pytest.mark.parametrize("model", [RFMRegressorCV, RFMClassifierCV])
def test_groups_stay_on_one_side(monkeypatch, model, limit):
    monkeypatch.setattr(_selection, "MAX_ROWS_FOR_FOLDS", limit)
    X, y = (data if model is RFMRegressorCV else classes)(60)
    groups = np.array(list("abcdefg"))[np.arange(60) % 7]
    splits = model(random_state=0)._splits(X, y, groups)
    assert len(splits) == (5 if limit == 3000 else 1)
    assert not any(set(groups[train]) & set(groups[test]) for train, test in splits)
    auto = model(**SMALL).fit(X, y, groups=groups)
    by_hand = model(**SMALL, cv=splits).fit(X, y)
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_array_equal(auto.cv_results_[name], by_hand.cv_results_[name])
    own = model(**SMALL, cv=LeaveOneGroupOut()).fit(X, y, groups=list(groups))
    assert own.n_splits_ == 7
    # no more folds than there are groups
    two = model(**SMALL).fit(X, y, groups=np.arange(60) < 20)
    assert two.n_splits_ == (2 if limit == 3000 else 1)
    with pytest.raises(ValueError, match="one group only"):
        model().fit(X, y, groups=np.zeros(60))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model().fit(X, y, groups=groups[1:])


def test_without_refit_there_are_only_results():
    from sklearn.exceptions import NotFittedError

    X, y = data(40)
    model = RFMRegressorCV(**SMALL, refit=False).fit(X, y)
    assert len(model.cv_results_["params"]) == 2 * 2 * 3 * 3
    with pytest.raises(NotFittedError):
        model.predict(X)
    refitted = RFMRegressorCV(**SMALL).fit(X, y)
    with pytest.raises(NotFittedError):
        refitted.set_params(refit=False).fit(X, y).predict(X)


def test_by_default_the_kind_of_metric_goes_with_the_kernel():
    X, y = data(40)
    small = {"bandwidths": 1.0, "alphas": 0.1, "max_iter": 1, "cv": 2}
    found = RFMRegressorCV(**small).fit(X, y).cv_results_
    kinds = set(zip(found["param_kernel"], found["param_diag"].tolist(), strict=True))
    assert kinds == {("laplace", False), ("product_laplace", True), ("gaussian", False)}
    labels = RFMClassifierCV(**small).fit(X, y > np.median(y)).cv_results_
    assert set(labels["param_kernel"]) == {"laplace", "product_laplace"}
    own = RFMRegressorCV(PowerExponential(0.7), **small).fit(X, y).cv_results_
    assert not own["param_diag"].any()


def test_kernels_may_be_names_objects_or_one_of_them():
    X, y = data(40)
    both = RFMRegressorCV(**SMALL | {"kernels": ("gaussian", PowerExponential(0.7))}).fit(X, y)
    assert set(map(str, both.cv_results_["param_kernel"])) == {
        "gaussian",
        "PowerExponential(exponent=0.7)",
    }
    one = RFMRegressorCV(**SMALL | {"kernels": "gaussian"}).fit(X, y)
    half = len(both.cv_results_["params"]) // 2
    np.testing.assert_array_equal(
        both.cv_results_["mean_test_score"][:half], one.cv_results_["mean_test_score"]
    )


def test_near_ties_go_to_the_simplest():
    grid = [{"max_iter": t, "alpha": a} for t in (0, 1, 2) for a in (10.0, 0.1)]
    # the best by rounding is the last; the second is as good and has fewer updates
    mean = np.array([-1.01, -1.0 - 2e-6, -1.2, -1.1, -1.0 - 1e-6, -1.0])
    assert _selection._simplest_of_the_best(grid, mean) == 1
    assert _selection._simplest_of_the_best(grid, mean - 1e-6 * np.arange(6)[::-1]) == 1
    # of equally many updates the larger ridge; NaN is never the best
    assert _selection._simplest_of_the_best(grid, np.array([np.nan] * 4 + [0.5, 0.5])) == 4
    # a real difference decides
    assert _selection._simplest_of_the_best(grid, mean + 1e-3 * np.arange(6)) == 5


def test_one_column_has_one_metric_and_so_no_update():
    # with one column all iterates are the same to rounding, and so are the two kernels
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    for order in (np.arange(60), np.arange(60)[::-1]):
        cv = [(order[:30], order[30:]), (order[30:], order[:30])]
        model = RFMRegressorCV(("laplace", "product_laplace"), cv=cv).fit(X, y)
        assert model.best_iter_ == 0
        assert model.best_params_["kernel"] == "laplace"


def test_a_constant_target_keeps_the_simplest_candidate():
    X, _ = data(30)
    model = RFMRegressorCV(**SMALL).fit(X, np.full(30, 2.5))
    assert model.best_iter_ == 0
    assert model.best_params_["alpha"] == 10.0
    np.testing.assert_array_equal(model.predict(X), 2.5)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernels": "sigmoid"}, "'kernels' parameter"),
        ({"kernels": ["laplace", "sigmoid"]}, "'kernel' parameter .* Got 'sigmoid'"),
        ({"bandwidths": [1.0, 0.0]}, "'bandwidth' parameter"),
        ({"alphas": [1.0, -1.0]}, "'alpha' parameter"),
        ({"agop_alpha": None}, "'agop_alpha' parameter"),
        ({"alphas": []}, "must each hold a value"),
        ({"kernels": []}, "must each hold a value"),
        ({"max_iter": -1}, "'max_iter' parameter"),
        ({"cv": 1}, "at least one|n_splits"),
        ({"scoring": "r3"}, "r3"),
        ({"device": "gpu"}, "device='gpu'"),
    ],
)
def test_bad_grids_are_refused_before_any_work(parameters, message):
    X, y = data(20)
    with pytest.raises(ValueError, match=message):
        RFMRegressorCV(**parameters).fit(X, y)


def test_splits_without_weight_on_one_side_are_refused():
    X, y = data(20)
    w = np.r_[np.zeros(10), np.ones(10)]
    model = RFMRegressorCV(cv=[(np.arange(10), np.arange(10, 20))])
    with pytest.raises(ValueError, match="no row of positive weight"):
        model.fit(X, y, sample_weight=w)
    with pytest.raises(ValueError, match="n_samples=1"):
        RFMRegressorCV().fit(X[:1], y[:1])


def test_workers_count_against_the_free_memory(monkeypatch):
    from rfmlearn import _backend

    X, y = data(40)
    fold = 2 * 32 * 32 * 8  # kernel matrix and factor of a training fold
    monkeypatch.setattr(_backend, "free_bytes", lambda device: 2 * fold)
    RFMRegressorCV(**SMALL, refit=False).fit(X, y)
    with pytest.raises(MemoryError, match="32 rows"):
        RFMRegressorCV(**SMALL, n_jobs=4).fit(X, y)


def test_the_temperature_minimises_the_log_loss_of_held_out_scores():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 3))
    P = probabilities(scores, 0.4)
    codes = np.array([rng.choice(3, p=p) for p in P])
    # labels drawn at temperature 0.4 give it back, within 3 standard errors or so
    T, bias = calibrate(scores, codes, np.ones(4000))
    assert 0.37 < T < 0.43
    assert np.abs(bias).max() < 0.2
    binary = rng.normal(size=4000)
    codes = (rng.uniform(size=4000) < probabilities(binary, 0.4)[:, 1]).astype(int)
    assert 0.35 < calibrate(binary, codes, np.ones(4000))[0] < 0.45
    np.testing.assert_allclose(probabilities(binary, 0.4)[:, 1], 1 / (1 + np.exp(-binary / 0.4)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [1, 2, 3, 5])
def test_a_bias_never_puts_another_class_first(n_classes, dtype):
    rng = np.random.default_rng(n_classes)
    scores = rng.normal(size=(500, n_classes) if n_classes > 1 else 500).astype(dtype)
    bias = 2 * rng.normal(size=max(n_classes, 2))
    free = probabilities(scores, 0.7, bias)
    kept = probabilities(scores, 0.7, bias, ordered=True)
    first = scores.argmax(1) if n_classes > 1 else (scores > 0).astype(int)
    moved = free.argmax(1) != first
    assert 20 < moved.sum() < 480
    np.testing.assert_array_equal(kept.argmax(1), first)
    np.testing.assert_array_equal(kept[~moved], free[~moved])
    np.testing.assert_allclose(kept.sum(1), 1, rtol=20 * np.finfo(dtype).eps)
    # nearest: what was above the first class comes down to it, and the others stay
    for before, after, k in zip(free[moved], kept[moved], first[moved]):
        shared = after > after[k] * (1 - 1e-5)
        np.testing.assert_array_equal(after[~shared], before[~shared])
        assert before[~shared].max(initial=0) < after[k] < before.max()
        np.testing.assert_allclose(after[shared], before[shared].mean(), rtol=1e-5)


def test_calibration_is_exact():
    rng = np.random.default_rng(0)
    scores, codes = rng.normal(size=(300, 3)), rng.integers(3, size=300)
    scores[np.arange(300), codes] += 1
    weight = rng.integers(1, 4, size=300)
    T, bias = calibrate(scores, codes, weight.astype(float))
    again = calibrate(scores.repeat(weight, 0), codes.repeat(weight), np.ones(weight.sum()))
    np.testing.assert_allclose(again[0], T, rtol=1e-11)
    np.testing.assert_allclose(again[1], bias, atol=1e-11)


@pytest.mark.filterwarnings("error")
def test_a_score_far_out_is_no_logarithm_of_zero():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=200)
    scores = np.eye(3)[codes] + 0.1 * rng.normal(size=(200, 3))
    scores[0] = 1e6 * np.eye(3)[codes[0]]  # right, and far beyond the others
    T, bias = calibrate(scores, codes, np.ones(200), ordered=True)
    assert 1e-3 <= T <= 1e3 and np.isfinite(bias).all()


def test_separated_scores_keep_a_positive_temperature():
    scores = np.r_[-np.ones(20), np.ones(20)]
    T, bias = calibrate(scores, (scores > 0).astype(int), np.ones(40))
    # Platt's rule with 40 rows: the true class gets 41 / 42, so exp(1 / T) = 41
    np.testing.assert_allclose(T, 1 / np.log(41), rtol=1e-4)
    np.testing.assert_allclose(bias, 0, atol=1e-6)


def test_probabilities_are_better_than_those_of_the_plain_estimator():
    X, y = classes(300)
    Q, q = classes(600, seed=1)
    ours = RFMClassifierCV(**SMALL).fit(X, y)
    P = ours.predict_proba(Q)
    np.testing.assert_allclose(P.sum(1), 1, rtol=1e-12)
    np.testing.assert_array_equal(ours.classes_[P.argmax(1)], ours.predict(Q))
    prior = np.mean([[label == c for c in ours.classes_] for label in y], axis=0)
    assert log_loss(q, P) < log_loss(q, np.tile(prior, (600, 1)))
    assert log_loss(q, P) < log_loss(q, RFMClassifier().fit(X, y).predict_proba(Q))


def test_callbacks_reach_the_refit(capsys):
    from sklearn.callback import ProgressBar

    X, y = data(40)
    model = RFMRegressorCV(**SMALL).set_callbacks(ProgressBar())
    model.fit(X, y)
    assert "refit" in capsys.readouterr().out


def test_the_choice_is_made_by_cross_validation_of_the_whole_path():
    # pure noise: the metric overfits what it has seen, and held-out rows tell. The mean of
    # 120 squared errors has a relative standard deviation of sqrt(2 / 120) = 0.13; three of
    # them leave room for the choice of the best candidate.
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 8)), rng.normal(size=120)
    model = RFMRegressorCV(random_state=0).fit(X, y)
    assert -model.best_score_ > 0.6 * y.var()
