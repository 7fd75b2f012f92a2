# SPDX-License-Identifier: BSD-3-Clause
"""Field cases of data: troubles that users of similar packages reported.

Each test is one kind of report, restated with an input of our own and the right answer.

Name parts: contract = scikit-learn's rules or plain mathematics, no room for choice;
policy = the answer we prefer where another documented answer could be defended;
slow = more than about 5 s; gpu = needs CUDA, skipped elsewhere.
"""

import numpy as np
import pandas as pd
import pytest
from field_helpers import (
    EVERY,
    PREDICTORS,
    REGRESSORS,
    blobs,
    close,
    data_for,
    finite,
    make,
    out,
    r2,
    smooth,
)

# warnings are checked only where a test says so, whatever filter is in force
pytestmark = pytest.mark.filterwarnings("ignore")


# ---------------------------------------------------------------- GEO: degenerate geometry


def test_geo1_contract_conflicting_duplicates_count_as_their_mean():
    X, y = smooth(40, 3)
    e = np.random.default_rng(1).choice([-1.0, 1.0], 40)
    XX, Q = np.vstack([X, X]), smooth(50, 3, seed=2)[0]
    agree = make("RFMRegressor").fit(XX, np.r_[y, y]).predict(Q)
    clash = make("RFMRegressor").fit(XX, np.r_[y + e, y - e]).predict(Q)
    close(clash, agree, 0.05)  # in kernel ridge only the mean of a duplicate pair matters


def test_geo1b_contract_duplicates_do_not_silently_stop_feature_learning():
    X, y = smooth(120, 12)  # ten of twelve columns are noise
    Q, q = smooth(300, 12, seed=2)
    XX, yy = np.vstack([X, X]), np.r_[y, y]
    try:
        plain = make("RFMRegressor", max_iter=0).fit(XX, yy)
    except ValueError:
        pytest.skip("max_iter=0 is not allowed")
    learned = make("RFMRegressor").fit(XX, yy)
    assert r2(q, learned.predict(Q)) > r2(q, plain.predict(Q)) + 0.05


@pytest.mark.parametrize("name", EVERY)
def test_geo3_contract_constant_columns_change_nothing(name):
    X, y = data_for(name, 80, 3)
    Xc = np.column_stack([X, np.zeros(80), np.full(80, 7.0)])
    with_const = out(make(name).fit(Xc, y), Xc)
    finite(with_const)
    if name in ("RFMRegressor", "RFMClassifier"):
        close(with_const, out(make(name).fit(X, y), X), 0.25)


@pytest.mark.parametrize("name", PREDICTORS)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_geo7_contract_fewer_rows_than_columns(name, n):
    X = np.random.default_rng(0).normal(size=(n, 50))
    y = np.arange(n) % 2 + 4
    try:
        est = make(name).fit(X, y)
    except ValueError as e:  # the only allowed refusal, and only this small
        assert n == 1 and any(w in str(e).lower() for w in ("sample", "class")), e
        return
    p = est.predict(X)
    assert p.shape == (n,)
    finite(p)
    if name == "RFMClassifier":
        assert set(p) <= set(y)
    elif n == 1:
        assert abs(p[0] - 4) <= 2.1


# ---------------------------------------------------------------- TGT: the target


@pytest.mark.parametrize("c", [0.0, 5.0, -3e-7])
def test_tgt1_contract_constant_target(c):
    X, _ = smooth(30, 3)
    y = np.full(30, c)
    p = make("RFMRegressor").fit(X, y).predict(X)
    finite(p)
    assert np.max(np.abs(p - c)) <= 0.01 * abs(c) + 1e-12


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("s", [1e-9, 1e-3, 1e3, 1e9])
def test_tgt3_contract_prediction_scales_with_the_target(name, s):
    X, y = smooth(80, 4)
    y = y - y.mean()
    Q = smooth(40, 4, seed=3)[0]
    base = make(name).fit(X, y).predict(Q)
    close(make(name).fit(X, s * y).predict(Q) / s, base, 2e-3)


@pytest.mark.parametrize("name", REGRESSORS)
def test_tgt5_contract_column_target_equals_flat_target(name):
    X, y = smooth(50, 3)
    flat, col = make(name).fit(X, y), make(name).fit(X, y[:, None])
    a, b = flat.predict(X), col.predict(X)
    assert a.shape == (50,) and b.shape in ((50,), (50, 1))
    close(b.ravel(), a, 1e-4)
    assert abs(flat.score(X, y) - col.score(X, y[:, None])) < 1e-4  # no (50, 50) broadcast


# ---------------------------------------------------------------- FLT: numbers as stored


@pytest.mark.parametrize("shift", [1e4, -1e6])
def test_flt1_contract_large_mean_does_not_eat_the_distances(shift):
    X, y = smooth(80, 3)
    Q = smooth(40, 3, seed=4)[0]
    base = make("RFMRegressor").fit(X, y).predict(Q)
    close(make("RFMRegressor").fit(X + shift, y).predict(Q + shift), base, 0.02)


def _layouts(X):
    wide = np.zeros((len(X), 2 * X.shape[1]))
    wide[:, ::2] = X
    rev = np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    return {
        "fortran": np.asfortranarray(X),
        "strided": wide[:, ::2],
        "reversed": rev,
        "big_endian": X.astype(">f8"),
        "longdouble": X.astype(np.longdouble),
        "list": X.tolist(),
    }


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("big", [1e25, 1e200])
def test_flt5_contract_values_whose_squares_overflow(name, big):
    X, y = data_for(name, 40, 3)
    X = X * [1.0, 1.0, big]
    try:
        est = make(name).fit(X, y)
    except ValueError as e:  # a clear refusal is fine, silence is not
        assert str(e)
        return
    finite(out(est, X))


# ---------------------------------------------------------------- LBL: class labels


def test_lbl1_contract_unsorted_string_labels():
    X, i = blobs(20, 3)
    names = np.array(["zebra", "ant", "moose"])
    y = names[i]
    clf = make("RFMClassifier").fit(X, y)
    assert list(clf.classes_) == ["ant", "moose", "zebra"]
    P = clf.predict_proba(X)
    ref = make("RFMClassifier").fit(X, i).predict_proba(X)
    close(P, ref[:, [1, 2, 0]], 1e-2)
    assert (clf.predict(X) == y).mean() >= 0.95 and clf.predict(X).dtype.kind in "UOT"


@pytest.mark.parametrize("k", [2, 4])
def test_lbl3_contract_predict_agrees_with_its_scores(k):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.array([7, -1, 30, 2])[np.minimum(rng.geometric(0.6, 120) - 1, k - 1)]  # skewed, noisy
    clf = make("RFMClassifier").fit(X, y)
    Q = 1.5 * rng.normal(size=(300, 3))
    P = clf.predict_proba(Q)
    top2 = np.sort(P, 1)[:, -2:]
    sure = top2[:, 1] - top2[:, 0] > 1e-5  # no ties
    assert sure.sum() > 100
    assert (clf.predict(Q)[sure] == clf.classes_[P.argmax(1)][sure]).all()
    if hasattr(clf, "decision_function"):
        D = clf.decision_function(Q)
        assert D.shape == ((300,) if k == 2 else (300, k))
        best = (D > 0).astype(int) if k == 2 else D.argmax(1)
        assert (best[sure] == P.argmax(1)[sure]).all()


def test_lbl5_contract_only_one_class():
    X, _ = smooth(20, 3)
    y = np.array(["only"] * 20)
    try:
        clf = make("RFMClassifier").fit(X, y)
    except ValueError as e:
        assert "class" in str(e).lower()
        return
    assert set(clf.predict(X)) == {"only"} and list(clf.classes_) == ["only"]
    np.testing.assert_allclose(clf.predict_proba(X), np.ones((20, 1)))


def test_lbl7_contract_folds_that_miss_a_class():
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import KFold, cross_val_predict

    X, y = blobs(20, 3)
    o = np.argsort(y, kind="stable")
    P = cross_val_predict(make("RFMClassifier"), X[o], y[o], cv=KFold(3), method="predict_proba")
    assert P.shape == (60, 3)
    assert (P[np.arange(60), y[o]] == 0).all()  # the class of a test fold was never seen
    np.testing.assert_allclose(P.sum(1), 1, atol=1e-6)
    cal = CalibratedClassifierCV(make("RFMClassifier"), cv=3).fit(X, y)
    C = cal.predict_proba(X)
    np.testing.assert_allclose(C.sum(1), 1, atol=1e-6)
    assert (cal.predict(X) == y).mean() >= 0.9


# ---------------------------------------------------------------- FRM: data frames


@pytest.mark.parametrize("ydtype", ["Int64", "boolean", "int64[pyarrow]"])
def test_frm1_contract_nullable_dtypes_without_missing_values(ydtype):
    if "pyarrow" in ydtype:
        pytest.importorskip("pyarrow")
    X, y = data_for("RFMClassifier", 50, 3)
    b = X[:, 1] > 0
    N = np.column_stack([X[:, 0], b, np.round(X[:, 2] * 10)])
    D = pd.DataFrame(
        {
            "f": pd.array(N[:, 0], dtype="Float64"),
            "b": pd.array(b, dtype="boolean"),
            "i": pd.array(N[:, 2].astype(int), dtype="Int64"),
        }
    )
    ref = make("RFMClassifier").fit(N, y).predict_proba(N)
    clf = make("RFMClassifier").fit(D, pd.Series(y).astype(ydtype))
    close(clf.predict_proba(D), ref, 1e-3)
    assert (np.asarray(clf.predict(D)).astype(int) == (ref.argmax(1))).mean() > 0.97
    r = make("RFMRegressor").fit(D, pd.Series(X[:, 0]).astype("Float64"))
    close(r.predict(D), make("RFMRegressor").fit(N, X[:, 0]).predict(N), 1e-3)


@pytest.mark.parametrize("name", EVERY)
def test_frm3_contract_reordered_or_renamed_columns_are_refused(name):
    X, y = data_for(name, 40, 3)
    D = pd.DataFrame(X, columns=["a", "b", "c"])
    est = make(name).fit(D, y)
    assert list(est.feature_names_in_) == ["a", "b", "c"]
    for bad in (D[["c", "a", "b"]], D.rename(columns={"b": "z"})):
        with pytest.raises(ValueError):
            out(est, bad)
    close(out(est, D), out(est, X), 1e-4)  # unnamed data of the right width stays allowed


def test_frm5_contract_pandas_output_has_n_components_columns():
    X, y = smooth(60, 6)
    D = pd.DataFrame(X, index=np.arange(60)[::-1] + 1000)
    t = make("NFMTransformer", n_components=2).set_output(transform="pandas")
    Z = t.fit_transform(D.set_axis(list("abcdef"), axis=1), y)
    assert isinstance(Z, pd.DataFrame) and Z.shape == (60, 2)
    assert (Z.index == D.index).all()
    assert list(Z.columns) == list(t.get_feature_names_out()) and Z.columns.is_unique
    finite(Z)


@pytest.mark.parametrize("name", PREDICTORS)
def test_frm7_policy_text_columns_are_refused_or_really_used(name):
    rng = np.random.default_rng(0)
    level = rng.integers(0, 3, 90)
    D = pd.DataFrame(
        {"x": rng.normal(size=90), "c": pd.Categorical(np.array(["low", "mid", "high"])[level])}
    )
    y = np.array([0, 1, 0])[level] if name == "RFMClassifier" else np.array([0.0, 5.0, 0.0])[level]
    try:
        est = make(name).fit(D, y)
    except (ValueError, TypeError) as e:  # names the trouble; not an internal AttributeError
        assert any(w in str(e).lower() for w in ("string", "categor", "numeric", "dtype", "float"))
        return
    p = np.asarray(est.predict(D), float)  # accepted: then the middle level must be found
    assert p[level == 1].mean() - p[level != 1].mean() > 0.5 * (y.max() - y.min())
