# SPDX-License-Identifier: BSD-3-Clause
"""Field cases of tables: troubles that users of similar packages reported, with the thread of each.

Inputs are ours. "peer" tests show that scikit-learn's own estimators pass the same check.
"""

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import sklearn
import torch
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_validate,
    learning_curve,
)
from sklearn.svm import SVC, SVR

from rfmlearn import (
    ABCMLPClassifier,
    ABCMLPRegressor,
    ConvRFMClassifier,
    ConvRFMRegressor,
    KernelRegimeClassifier,
    KernelRegimeRegressor,
    LinearRFMRegressor,
    NFMTransformer,
    RecursiveFeatureLearner,
    RFMClassifier,
    RFMClassifierCV,
    RFMRegressor,
    RFMRegressorCV,
)

pytestmark = pytest.mark.filterwarnings("ignore")
ONE = dict(kernels="laplace", bandwidths=1.0, max_iter=1, random_state=0)  # a cheap search
NET = dict(hidden_layer_sizes=(8,), max_epochs=3, random_state=0)


def smooth(n=90, d=4, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 0] * X[:, 1]


CLASSIFIERS = {
    "RFMClassifier": RFMClassifier(max_iter=1),
    "RFMClassifierCV": RFMClassifierCV(**ONE),
    "KernelRegimeClassifier": KernelRegimeClassifier(),
    "ABCMLPClassifier": ABCMLPClassifier(**NET),
    "RFL(SVC)": RecursiveFeatureLearner(SVC(), max_iter=1),
    "ConvRFMClassifier": ConvRFMClassifier(max_iter=1),
}
REGRESSORS = {
    "RFMRegressor": RFMRegressor(max_iter=1),
    "RFMRegressorCV": RFMRegressorCV(**ONE),
    "KernelRegimeRegressor": KernelRegimeRegressor(),
    "ABCMLPRegressor": ABCMLPRegressor(**NET),
    "RFL(SVR)": RecursiveFeatureLearner(SVR(), max_iter=1),
    "LinearRFM": LinearRFMRegressor(max_iter=5),
    "ConvRFMRegressor": ConvRFMRegressor(max_iter=1),
}
ALL = {**CLASSIFIERS, **REGRESSORS}


def params(models):
    return pytest.mark.parametrize("est", models.values(), ids=models.keys())


def target(est, y):
    return (y > 0).astype(int) if is_classifier(est) else y


# ---------------------------------------------------------------- searches


# 1 lightgbm-org/LightGBM#4350: best_params_ put into the plain model gives other predictions
@pytest.mark.parametrize("kind", ["rfmr", "rfmc", "peer"])
def test_best_params_rebuild_the_model(kind):
    X, y = smooth(120)
    y = y + 0.3 * np.random.default_rng(1).normal(size=120)
    search, plain = {
        "rfmr": (RFMRegressorCV(random_state=0), RFMRegressor(random_state=0)),
        "rfmc": (RFMClassifierCV(random_state=0), RFMClassifier(random_state=0)),
        "peer": (
            GridSearchCV(KernelRidge(kernel="rbf"), {"alpha": [0.01, 0.1]}),
            KernelRidge(kernel="rbf"),
        ),
    }[kind]
    t = target(plain, y)
    search.fit(X, t)
    plain.set_params(**search.best_params_).fit(X, t)
    Q = smooth(200, seed=2)[0]
    f = "decision_function" if is_classifier(plain) else "predict"
    a, b = getattr(search, f)(Q), getattr(plain, f)(Q)
    assert np.abs(a - b).max() <= 1e-6 * np.ptp(a), np.abs(a - b).max() / np.ptp(a)


# 2 scikit-learn#30056, #4632: weights of one are no weights, also under class_weight
def test_unit_weights_change_no_score_of_a_balanced_search():
    X, _ = smooth(120)
    y = (X[:, 0] + np.random.default_rng(0).normal(size=120) > 1).astype(int)
    m = RFMClassifierCV(**ONE, class_weight="balanced", scoring="accuracy")
    a = clone(m).fit(X, y).cv_results_["mean_test_score"]
    b = clone(m).fit(X, y, sample_weight=np.ones(120)).cv_results_["mean_test_score"]
    np.testing.assert_allclose(a, b, atol=1e-9)


# 3 scikit-learn#31889, #16888: a scorer (estimator, X, y) must survive sample_weight
@pytest.mark.parametrize(
    "model",
    [RFMRegressorCV(**ONE), GridSearchCV(KernelRidge(), {"alpha": [0.1, 1]})],
    ids=["rfm", "peer"],
)
def test_callable_scorer_beside_sample_weight(model):
    X, y = smooth()

    def score(est, X, y):
        return -np.abs(est.predict(X) - y).mean()

    scoring = clone(model).set_params(scoring=score)
    scoring.fit(X, y, sample_weight=np.ones(len(y)))
    assert np.isfinite(scoring.best_score_)


# 4 autogluon/autogluon-assistant#166, scikit-learn#9963: metric refuses the predictions of some candidates
@pytest.mark.parametrize("kind", ["rfm", "peer"])
def test_metric_that_refuses_one_candidate_ends_no_search(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    s = "neg_mean_poisson_deviance"
    if kind == "rfm":
        m = RFMRegressorCV(
            kernels="laplace",
            bandwidths=(1.0,),
            max_iter=1,
            scoring=s,
            random_state=0,
            alphas=(1e-3, 1e6),
        )  # the mean alone is positive
    else:
        m = GridSearchCV(
            KernelRidge(kernel="rbf"),
            {"alpha": [1e-3, 1e-2], "kernel": ["rbf", "linear"]},
            scoring=s,
        )
    m.fit(X, y)  # NaN for what the metric refuses
    assert m.cv_results_["mean_test_score"].shape


# 5 scikit-learn#28696, PR #29634: cv=GroupKFold inside cross_validate with routing
@pytest.mark.parametrize(
    "model",
    [RFMRegressorCV(**ONE, cv=GroupKFold(3)), RidgeCV(cv=GroupKFold(3))],
    ids=["rfm", "peer"],
)
def test_grouped_splitter_is_routed(model):
    X, y = smooth()
    with sklearn.config_context(enable_metadata_routing=True):
        r = cross_validate(
            model,
            X,
            y,
            cv=GroupKFold(3),
            params={"groups": np.arange(90) // 6},
            error_score="raise",
        )
    assert np.isfinite(r["test_score"]).all()


# 6 scikit-learn PR #31068/#28574, e-sensing/sits#258: calibrated means right on average, class by class
@pytest.mark.parametrize(
    "model",
    [
        RFMClassifierCV(kernels="laplace", bandwidths=1.0, random_state=0),
        CalibratedClassifierCV(SVC(), method="sigmoid"),
        LogisticRegression(),
    ],
    ids=["rfm", "peer-platt", "peer-logistic"],
)
def test_mean_probability_is_the_class_frequency(model):
    rng = np.random.default_rng(0)
    share = np.array([0.70, 0.20, 0.07, 0.03])
    X, Q = rng.normal(size=(800, 4)), rng.normal(size=(2000, 4))
    y = rng.choice(4, p=share, size=800)  # no signal: the truth is the frequency
    mean, freq = model.fit(X, y).predict_proba(Q).mean(axis=0), np.bincount(y) / 800
    assert np.abs(mean / freq - 1).max() < 0.5, (mean.round(3), freq.round(3))


# 8 scikit-learn#5150, #8826, PR #14286: a class whose weights are all 0
@pytest.mark.parametrize(
    "est",
    [
        *[m for k, m in CLASSIFIERS.items() if k != "RFL(SVC)"],
        RecursiveFeatureLearner(SVC(), max_iter=1),
        SVC(),
    ],
    ids=[*[k for k in CLASSIFIERS if k != "RFL(SVC)"], "RFL(SVC)", "peer-SVC"],
)
def test_weight_on_one_class_only_is_refused_like_one_class(est):
    X, y = smooth()
    y = (y > 0).astype(int)
    with pytest.raises(ValueError):
        clone(est).fit(X[y == 1], y[y == 1])  # rows left out: refused
    with pytest.raises(ValueError):
        clone(est).fit(X, y, sample_weight=(y == 1).astype(float))  # weight 0 = left out


# ---------------------------------------------------------------- wrapper


# 9 dmlc/xgboost#2039, scikit-learn PR #28901, PR #34263: validation rows past the transformation
def test_validation_rows_pass_through_the_map():
    X, y = smooth(150)
    V, v = smooth(80, seed=3)
    unit = np.array([1, 1, 30, 30])
    m = RecursiveFeatureLearner(
        RFMRegressor(early_stopping=True, random_state=0), max_iter=2, random_state=0
    )
    try:
        m.fit(X * unit, y, X_val=V * unit, y_val=v)
    except (TypeError, ValueError):
        return  # refusing is right too
    inner = m.estimator_.history_["validation_score"][m.estimator_.best_iter_]
    real = 1 - np.mean((v - m.predict(V * unit)) ** 2) / np.var(y)
    assert abs(inner - real) < 0.05, (inner, real)


# ---------------------------------------------------------------- targets


# 12 scikit-learn#27882, PR #32956: outputs in different units
@pytest.mark.parametrize(
    "model",
    [
        RFMRegressor(),
        RFMRegressorCV(kernels="laplace", bandwidths=1.0, random_state=0),
        RFMRegressor(max_iter=0),
        KernelRegimeRegressor(),
        ABCMLPRegressor(max_epochs=20, random_state=0),
        KernelRidge(kernel="rbf"),
    ],
    ids=["rfm", "rfmcv", "rfm-0", "regime", "mlp", "peer-KRR"],
)
def test_units_of_one_output_leave_the_other_alone(model):
    X = np.random.default_rng(0).normal(size=(450, 8))
    Y = np.column_stack([np.sin(2 * X[:, 0]), np.sin(2 * X[:, 1])])
    unit = np.array([1e6, 0.1])  # euros, and a rate
    a = clone(model).fit(X[:300], Y[:300]).predict(X[300:])
    b = clone(model).fit(X[:300], Y[:300] * unit).predict(X[300:]) / unit
    ra, rb = (r2_score(Y[300:], p, multioutput="raw_values") for p in (a, b))
    assert (rb > ra - 0.1).all(), (ra.round(2), rb.round(2))


# 14 pytorch/pytorch#16045, #19699: a target of another width is broadcast in the validation error
@pytest.mark.parametrize(
    "est",
    [
        RFMRegressor(early_stopping=True),
        ABCMLPRegressor(**NET, early_stopping=True),
        ConvRFMRegressor(early_stopping=True, max_iter=1),
    ],
    ids=["rfm", "mlp", "conv"],
)
def test_validation_target_of_another_width_is_refused(est):
    X, y = smooth()
    with pytest.raises(ValueError):
        clone(est).fit(X, np.column_stack([y, 5 * y]), X_val=X[:30], y_val=y[:30])


# ---------------------------------------------------------------- state

# 17 scikit-learn#17158, PR #34705: set_params after fit is for the next fit
CHANGES = {
    "rfm": (RFMRegressor(), dict(kernel="gaussian", diag=True, bandwidth=3.0)),
    "rfmcv": (RFMRegressorCV(**ONE), dict(kernels="gaussian")),
    "regime": (KernelRegimeRegressor("ntk"), dict(regime="nngp")),
    "regime-mup": (KernelRegimeRegressor("ntk"), dict(regime="mup")),
    "mlp": (ABCMLPRegressor(**NET), dict(activation="tanh")),
    "nfm-components": (
        NFMTransformer(ABCMLPRegressor(**NET), n_components=2),
        dict(n_components=None),
    ),
    "nfm-power": (NFMTransformer(ABCMLPRegressor(**NET)), dict(agop_power=0.1)),
    "rfl": (RecursiveFeatureLearner(SVR(), max_iter=1), dict(diag=True, agop_power=0.5)),
    "peer-KRR": (KernelRidge(kernel="rbf"), dict(alpha=5.0)),
}


@pytest.mark.parametrize("key", CHANGES)
def test_set_params_after_fit_leaves_the_fitted_model(key):
    est, change = CHANGES[key]
    X, y = smooth()
    m = clone(est).fit(X, y)

    def outputs():
        r = [m.predict(X) if hasattr(m, "predict") else m.transform(X)]
        if isinstance(m, KernelRegimeRegressor):
            r.append(m.predict(X, return_std=True)[1])
        return r

    before = outputs()
    m.set_params(**change)
    for a, b in zip(before, outputs()):
        np.testing.assert_allclose(a, b, rtol=1e-6)


# 19 pytorch/pytorch#49555, benoitc/gunicorn#2478, dmlc/xgboost#8040: fork after fit
@pytest.mark.parametrize(
    "code",
    [
        "rfmlearn.RFMRegressor(max_iter=1)",
        "rfmlearn.ABCMLPRegressor(max_epochs=2)",
        "rfmlearn.KernelRegimeRegressor()",
        "KernelRidge(kernel='laplacian')",
    ],
    ids=["rfm", "mlp", "regime", "peer-KRR"],
)
def test_predict_in_a_forked_child_after_fit(code):
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(f"""
        import multiprocessing as mp, numpy as np, warnings; warnings.simplefilter("ignore")
        import rfmlearn; from sklearn.kernel_ridge import KernelRidge
        X = np.random.default_rng(0).normal(size=(1500, 30)); m = {code}.fit(X, X[:, 0])
        p = mp.get_context("fork").Process(target=lambda: m.predict(X)); p.start(); p.join(12)
        print("HANG" if p.is_alive() else "ok"); p.kill()
    """),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        env={**__import__("os").environ, "OMP_NUM_THREADS": "2"},
    ).stdout
    assert said.split()[-1] == "ok", said


# 20 facebookresearch/theseus#655, softwaremill/FoXAI#146, tianyu0207/RTFM PR #74: the user's torch state
@pytest.mark.parametrize(
    "ambient", ["no_grad", "inference_mode", "default_device", "float64", "autocast"]
)
@pytest.mark.parametrize(
    "key",
    [
        "RFMRegressor",
        "RFMRegressorCV",
        "KernelRegimeRegressor",
        "ABCMLPRegressor",
        "LinearRFM",
        "NFM",
    ],
)
def test_ambient_torch_state(key, ambient):
    est = {"NFM": NFMTransformer(ABCMLPRegressor(**NET), random_state=0), **REGRESSORS}[key]
    X, y = smooth(50)

    def run():
        m = clone(est).fit(X, y)
        r = m.predict(X) if hasattr(m, "predict") else m.transform(X)
        if hasattr(m, "input_gradients"):
            m.input_gradients(X[:3])
        return r

    want, context = (
        run(),
        {
            "no_grad": torch.no_grad,
            "inference_mode": torch.inference_mode,
            "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        }.get(ambient),
    )
    if context:
        with context():
            got = run()
    elif ambient == "float64":
        torch.set_default_dtype(torch.float64)
        try:
            got = run()
        finally:
            torch.set_default_dtype(torch.float32)
    else:
        torch.set_default_device("meta")  # stands for a GPU that is the default
        try:
            got = run()
        finally:
            torch.set_default_device(None)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-8)


# 21 py-why/EconML#563, yzhao062/pyod#179: size of the stored model, wide table
@pytest.mark.parametrize(
    "est", [RFMRegressor(max_iter=1), KernelRidge(kernel="rbf")], ids=["rfm", "peer-KRR"]
)
def test_a_wide_model_is_not_much_larger_than_its_rows(est):
    X = np.random.default_rng(0).normal(size=(50, 1500))
    assert len(pickle.dumps(clone(est).fit(X, X[:, 0]))) < 10 * X.nbytes


# ---------------------------------------------------------------- meta-estimators and tools


# 23 scikit-learn#13339, #26817, #31068: multi-class and multi-label wrappers, calibration, thresholds
@params({k: m for k, m in CLASSIFIERS.items() if k != "RFL(SVC)"})
def test_wrappers_of_classifiers(est):
    from sklearn.frozen import FrozenEstimator
    from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
    from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
    from sklearn.multioutput import ClassifierChain, MultiOutputClassifier

    X, y = smooth()
    y2, y3 = (y > 0).astype(int), np.digitize(y, [-0.5, 0.5])
    Y = np.column_stack([y2, X[:, 2] > 0]).astype(int)
    for M in (OneVsRestClassifier, OneVsOneClassifier, OutputCodeClassifier):
        assert set(M(est).fit(X, y3).predict(X)) <= {0, 1, 2}
    assert (
        ClassifierChain(est).fit(X, Y).predict(X).shape
        == MultiOutputClassifier(est).fit(X, Y).predict(X).shape
    )
    for method in ("sigmoid", "isotonic", "temperature"):
        CalibratedClassifierCV(est, method=method, cv=3).fit(
            X, y3, sample_weight=np.ones(90)
        ).predict_proba(X)
    CalibratedClassifierCV(FrozenEstimator(clone(est).fit(X, y3))).fit(X, y3)
    FixedThresholdClassifier(est, threshold=0.2).fit(X, y2).predict(X)
    TunedThresholdClassifierCV(est, cv=2).fit(X, y2)


# 24 feature-engine/feature_engine PR #856, TeamHG-Memex/eli5#422: inspection and selection
@params(ALL)
def test_inspection_and_selection(est):
    from sklearn.feature_selection import RFECV, SelectFromModel, SequentialFeatureSelector
    from sklearn.inspection import partial_dependence, permutation_importance

    X, y = smooth()
    t = target(est, y)
    m = clone(est).fit(X, t)
    permutation_importance(m, X, t, n_repeats=2, random_state=0)
    partial_dependence(m, X, [0], grid_resolution=4)
    learning_curve(est, X, t, cv=2, train_sizes=[0.5, 1.0])
    SequentialFeatureSelector(est, n_features_to_select=1, cv=2).fit(X[:, :2], t)
    if hasattr(m, "feature_importances_"):
        RFECV(est, cv=2).fit(X, t)
        SelectFromModel(est, threshold="median").fit(X, t)


# 28 many classes, few rows of each
def test_300_classes():
    rng = np.random.default_rng(0)
    c = np.arange(900) % 300
    X = rng.normal(size=(900, 6)) + 8 * rng.normal(size=(300, 6))[c]
    P = RFMClassifier(max_iter=1, random_state=0).fit(X, c).predict_proba(X)
    assert P.shape == (900, 300) and (P.argmax(axis=1) == c).mean() > 0.95


# 29 very small tables, with and without held-out rows
@pytest.mark.parametrize("n", [2, 3, 4, 5])
@params({k: m for k, m in ALL.items() if "RFL" not in k})
def test_tiny_tables(est, n):
    X, _ = smooth()
    for early in (False, True):
        m = clone(est)
        if early and "early_stopping" not in m.get_params():
            continue
        if early:
            m.set_params(early_stopping=True)
        assert np.isfinite(m.fit(X[:n], np.arange(n) % 2).predict(X[:n])).all()
