# SPDX-License-Identifier: BSD-3-Clause
"""Following the iterates: early stopping, history, callbacks."""

import numpy as np
import pytest
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split

from rfmlearn import RFMClassifier, RFMRegressor


def data(n=200, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n)


class Recorder:
    """A callback that notes what it is told, and may ask to stop."""

    def __init__(self, stop_after=None):
        self.stop_after, self.ended, self.fitted, self.calls = stop_after, 0, [], []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.calls.append(f"end {context.task_name}")
        if context.task_name == "iterate":
            self.ended += 1
            if fitted_estimator is not None:
                self.fitted.append((fitted_estimator.n_iter_, fitted_estimator.predict(X)))
        return self.ended == self.stop_after


def test_history_tells_the_score_of_each_iterate():
    X, y = data()
    model = RFMRegressor(max_iter=3).fit(X, y)
    assert model.history_.dtype.names[:2] == ("iteration", "bandwidth")
    np.testing.assert_array_equal(model.history_["iteration"], [0, 1, 2, 3])
    for t, row in enumerate(model.history_):
        alone = RFMRegressor(max_iter=t).fit(X, y)
        np.testing.assert_allclose(row["train_score"], r2_score(y, alone.predict(X)), rtol=1e-9)
        np.testing.assert_allclose(row["bandwidth"], alone.bandwidth_)
    assert np.isnan(model.history_["validation_score"]).all()
    assert (model.history_["residual"] < 1e-10).all()
    assert (model.history_["jitter"] == 0).all()


def test_history_under_weights():
    X, y = data()
    w = np.random.default_rng(1).uniform(0.1, 2, len(X))
    model = RFMRegressor(max_iter=1).fit(X, y, sample_weight=w)
    expected = r2_score(y, model.predict(X), sample_weight=w)
    np.testing.assert_allclose(model.history_["train_score"][-1], expected, rtol=1e-9)


def test_early_stopping_restores_the_best_iterate_on_given_rows():
    X, y = data(120)
    Q, q = data(400, seed=1)
    w = np.random.default_rng(2).uniform(0.1, 2, 400)
    options = {"early_stopping": True, "max_iter": 12, "n_iter_no_change": 3, "tol": 0.0}
    model = RFMRegressor(**options).fit(X, y, X_val=Q, y_val=q, sample_weight_val=w)
    scores = model.history_["validation_score"]
    assert model.best_iter_ == scores.argmax()
    assert model.n_iter_ == len(scores) - 1 == min(12, model.best_iter_ + 3)
    alone = RFMRegressor(max_iter=model.best_iter_).fit(X, y)
    np.testing.assert_allclose(model.predict(Q), alone.predict(Q), rtol=1e-10)
    np.testing.assert_allclose(model.feature_matrix_, alone.feature_matrix_)
    assert model.bandwidth_ == alone.bandwidth_
    for t in (0, model.best_iter_):
        error = np.average((RFMRegressor(max_iter=t).fit(X, y).predict(Q) - q) ** 2, weights=w)
        np.testing.assert_allclose(scores[t], 1 - error / y.var(), rtol=1e-9)


def test_early_stopping_holds_out_a_seeded_part():
    X, y = data()
    model = RFMRegressor(early_stopping=True, validation_fraction=0.25, random_state=3).fit(X, y)
    X_fit, X_val, y_fit, y_val = train_test_split(
        X, y, test_size=0.25, random_state=np.random.RandomState(3)
    )
    np.testing.assert_array_equal(model.X_fit_, X_fit)
    same = RFMRegressor(early_stopping=True).fit(X_fit, y_fit, X_val=X_val, y_val=y_val)
    np.testing.assert_allclose(model.predict(X), same.predict(X))


def test_rows_of_weight_0_are_neither_fitted_nor_held_out():
    X, y = data()
    junk, weight = np.full((300, 6), 9.0), np.r_[np.ones(200), np.zeros(300)]
    options = {"early_stopping": True, "random_state": 0}
    a = RFMRegressor(**options).fit(X, y)
    b = RFMRegressor(**options).fit(np.vstack([X, junk]), np.r_[y, np.zeros(300)], weight)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


def test_early_stopping_of_a_classifier_holds_out_by_class():
    X, y = data()
    labels = np.where(y > 0.8, "rare", "usual")
    model = RFMClassifier(early_stopping=True, validation_fraction=0.2, random_state=0)
    model.fit(X, labels)
    rare = (labels == "rare").mean()
    kept = {tuple(x) for x in model.X_fit_}
    kept_rare = np.mean([label == "rare" for x, label in zip(X, labels) if tuple(x) in kept])
    assert abs(kept_rare - rare) < 0.01
    assert len(model.X_fit_) == 160
    balanced = RFMClassifier(early_stopping=True, class_weight="balanced")
    balanced.fit(X[:150], labels[:150], X_val=X[150:], y_val=labels[150:])
    assert accuracy_score(labels[:150], balanced.predict(X[:150])) > 0.8


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({}, {"X_val": 1, "y_val": 1}, "early_stopping is False"),
        ({"early_stopping": True}, {"X_val": 1}, "X_val was given without y_val"),
        ({"early_stopping": True}, {"y_val": 1}, "y_val was given without X_val"),
        ({"early_stopping": True}, {"sample_weight_val": 1}, "without X_val and y_val"),
        (
            {"early_stopping": True},
            {"X_val": 1, "y_val": 1, "sample_weight_val": 0},
            "sample_weight_val is|zero",
        ),
    ],
)
def test_validation_rows_that_make_no_sense(options, given, message):
    X, y = data(30)
    what = {"X_val": X, "y_val": y}
    given = {name: what.get(name, np.full(30, float(value))) for name, value in given.items()}
    with pytest.raises(ValueError, match=message):
        RFMRegressor(**options).fit(X, y, **given)


def test_validation_rows_are_checked_like_others():
    X, y = data(30)
    model = RFMRegressor(early_stopping=True)
    with pytest.raises(ValueError, match="X has 2 features"):
        model.fit(X, y, X_val=X[:, :2], y_val=y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y, X_val=X, y_val=y[:-1])
    labels = (y > 0).astype(int)
    with pytest.raises(ValueError, match="previously unseen labels"):
        RFMClassifier(early_stopping=True).fit(X, labels, X_val=X, y_val=labels + 1)


def test_callbacks_see_every_iterate_as_a_fitted_model():
    X, y = data()
    recorder = Recorder()
    model = RFMRegressor(max_iter=2).set_callbacks(recorder)
    model.fit(X, y)
    assert recorder.calls == [
        "setup",
        "begin fit",
        *["begin iterate", "end iterate"] * 3,
        "end fit",
        "teardown",
    ]
    for t, (n_iter, predictions) in enumerate(recorder.fitted):
        assert n_iter == t
        alone = RFMRegressor(max_iter=t).fit(X, y).predict(X)
        np.testing.assert_allclose(predictions, alone, rtol=1e-10)


def test_a_callback_stops_the_fit():
    X, y = data()
    recorder = Recorder(stop_after=2)
    model = RFMRegressor(max_iter=9).set_callbacks(recorder)
    model.fit(X, y)
    assert model.n_iter_ == model.best_iter_ == 1
    np.testing.assert_allclose(model.predict(X), RFMRegressor(max_iter=1).fit(X, y).predict(X))
    assert recorder.calls[-1] == "teardown"


def test_an_agop_of_zero_ends_the_fit_with_callbacks_told():
    X, _ = data(20)
    recorder = Recorder()
    model = RFMRegressor().set_callbacks(recorder)
    model.fit(X, np.full(20, 3.0))
    assert model.n_iter_ == 0
    np.testing.assert_array_equal(model.predict(X), 3.0)
    np.testing.assert_array_equal(model.feature_matrix_, np.eye(6))
    assert recorder.calls.count("begin iterate") == recorder.calls.count("end iterate")


def test_scikit_learns_own_callbacks_work(capsys):
    X, y = data()
    monitor = ScoringMonitor(scoring="r2")
    model = RFMRegressor(max_iter=2).set_callbacks(monitor, ProgressBar())
    model.fit(X, y)
    scores = [row["r2"] for row in monitor.get_logs().data if row["task_name"] == "iterate"]
    np.testing.assert_allclose(scores, model.history_["train_score"])
    assert "RFMRegressor - fit" in capsys.readouterr().out
    labels = (y > 0).astype(int)
    classifier = RFMClassifier(max_iter=1).set_callbacks(ScoringMonitor(scoring="roc_auc"))
    classifier.fit(X, labels, sample_weight=np.linspace(1, 2, 200))


def test_without_a_callback_fit_prints_nothing(capfd):
    X, y = data(50)
    RFMRegressor(early_stopping=True).fit(X, y).predict(X)
    assert capfd.readouterr() == ("", "")


def test_a_pipeline_passes_transformed_validation_rows():
    import sklearn
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = data()
    Q, q = data(seed=1)
    with sklearn.config_context(enable_metadata_routing=True):
        model = RFMRegressor(early_stopping=True).set_fit_request(X_val=True, y_val=True)
        pipe = Pipeline([("scale", StandardScaler()), ("rfm", model)], transform_input=["X_val"])
        pipe.fit(100 * X + 5, y, X_val=100 * Q + 5, y_val=q)
    scaler = StandardScaler().fit(100 * X + 5)
    alone = RFMRegressor(early_stopping=True).fit(
        scaler.transform(100 * X + 5), y, X_val=scaler.transform(100 * Q + 5), y_val=q
    )
    np.testing.assert_allclose(
        pipe.predict(100 * Q + 5), alone.predict(scaler.transform(100 * Q + 5))
    )
