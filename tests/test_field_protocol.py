# SPDX-License-Identifier: BSD-3-Clause
"""Field cases of use: troubles that users of similar packages reported.

Each test is one kind of report, restated with an input of our own and the right answer.

Name parts: contract = scikit-learn's rules or plain mathematics, no room for choice;
policy = the answer we prefer where another documented answer could be defended;
slow = more than about 5 s; gpu = needs CUDA, skipped elsewhere.
"""

import pickle
import time

import numpy as np
import pytest
from field_helpers import (
    EVERY,
    PEAK,
    PREDICTORS,
    REGRESSORS,
    blobs,
    child,
    close,
    data_for,
    finite,
    gpu,
    make,
    out,
    smooth,
)
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

import rfmlearn

# warnings are checked only where a test says so, whatever filter is in force
pytestmark = pytest.mark.filterwarnings("ignore")


# ---------------------------------------------------------------- API: estimator protocol


@pytest.mark.parametrize("name", EVERY)
def test_api1_contract_parameters_are_stored_untouched(name):
    cls = getattr(rfmlearn, name)
    odd = {
        "bandwidth": np.float64(4),
        "reg": np.float32(0.01),
        "alpha": np.float64(0.5),
        "hidden_layer_sizes": [16],
        "max_iter": np.int64(2),
        "n_components": np.int64(2),
    }
    kw = {k: v for k, v in odd.items() if k in cls().get_params()}
    est = cls(**kw)
    assert all(est.get_params()[k] is v for k, v in kw.items())
    X, y = data_for(name, 40, 3)
    before = est.get_params(deep=False)
    est.fit(X, y)
    assert all(est.get_params(deep=False)[k] is v for k, v in before.items())
    c = clone(cls().set_params(**kw))
    assert not [a for a in vars(c) if a.endswith("_") and not a.startswith("_")]
    if "random_state" in before:
        est, c = est.set_params(random_state=0).fit(X, y), c.set_params(random_state=0)
    close(out(c.fit(X, y), X), out(est, X), 1e-6)


def test_api7_contract_meta_estimators_accept_ours():
    from sklearn.base import is_classifier, is_regressor
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.ensemble import StackingClassifier, VotingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline

    X, y = blobs(25, 2)
    s = np.array(["n", "p"])[y]
    c, r = make("RFMClassifier"), make("RFMRegressor")
    assert is_classifier(c) and not is_regressor(c)
    assert all(is_regressor(make(n)) and not is_classifier(make(n)) for n in REGRESSORS)
    assert cross_val_score(c, X, s, cv=3, scoring="roc_auc", error_score="raise").min() > 0.9
    pair = [("a", c), ("b", LogisticRegression())]
    for m in (VotingClassifier(pair, voting="soft"), StackingClassifier(pair, cv=3)):
        assert m.fit(X, s).score(X, s) > 0.9
    assert TransformedTargetRegressor(r).fit(X, X[:, 0]).score(X, X[:, 0]) > 0.5
    assert make_pipeline(make("NFMTransformer"), c).fit(X, s).score(X, s) > 0.9


# ---------------------------------------------------------------- WGT: sample weights


@pytest.mark.parametrize("name", PREDICTORS)
def test_wgt1_contract_zero_weight_equals_absence(name):
    if not has_fit_parameter(make(name), "sample_weight"):
        pytest.skip("fit takes no sample_weight")
    X, y = data_for(name, 60, 3)
    junk = 50 + 10 * np.random.default_rng(5).normal(size=(30, 3))
    yj = np.zeros(30, int) if name == "RFMClassifier" else np.full(30, 1e3)
    est = make(name).fit(
        np.vstack([X, junk]), np.r_[y, yj], sample_weight=np.r_[np.ones(60), np.zeros(30)]
    )
    ref = make(name).fit(X, y, sample_weight=np.ones(60))
    close(out(est, X), out(ref, X), 5e-3)


# ---------------------------------------------------------------- PAR: shared state, parallel use


@pytest.mark.slow
@pytest.mark.parametrize("name", PREDICTORS)
def test_par5_contract_grid_search_in_processes_slow(name):
    from sklearn.model_selection import GridSearchCV

    X, y = data_for(name, 150, 4)
    key = next(k for k in ("reg", "alpha") if k in make(name).get_params())
    grid = {key: [1e-3, 1e-1, 1.0]}
    t = time.time()
    one = GridSearchCV(make(name), grid, cv=3, n_jobs=1, error_score="raise").fit(X, y)
    serial = time.time() - t
    t = time.time()
    two = GridSearchCV(make(name), grid, cv=3, n_jobs=2, error_score="raise").fit(X, y)
    assert time.time() - t < 60 + 5 * serial  # start-up of workers, but no thread storm
    close(two.cv_results_["mean_test_score"], one.cv_results_["mean_test_score"], 1e-4, scale=1.0)
    assert two.best_params_ == one.best_params_


# ---------------------------------------------------------------- MEM: memory


@pytest.mark.slow
@pytest.mark.parametrize("name", PREDICTORS)
def test_mem1_contract_predict_is_blocked_slow(name):
    # whole test kernel: 200 000 x 1500, 2.4 GB in float64 and 1.2 GB in float32
    grew = child(
        PEAK
        + f"""
X = np.random.default_rng(0).normal(size=(1500, 4)); y = X[:, 0]
if "{name}" == "RFMClassifier": y = (y > 0).astype(int)
est = make("{name}", max_iter=1).fit(X, y)
Q = np.random.default_rng(1).normal(size=(200_000, 4))
base = peak(); p = est.predict(Q); assert p.shape == (200_000,)
print(peak() - base)
""",
        timeout=600,
    )
    assert float(grew.split()[-1]) < 768


@pytest.mark.slow
def test_mem3_policy_too_many_rows_ends_in_an_exception_slow():
    # 60 000 rows: the kernel alone is 29 GB in float64, 14 GB in float32; 8 GB are allowed
    said = child(
        PEAK
        + """
X = np.random.default_rng(0).normal(size=(60_000, 3)); y = X[:, 0]
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + 8 * 2**30,) * 2)
try:
    p = make("RFMRegressor", max_iter=1, solver="cholesky").fit(X, y).predict(X[:10])
    print("fitted", np.isfinite(p).all())
except (MemoryError, ValueError, RuntimeError) as e:
    print("refused", bool(str(e)))
""",
        timeout=600,
    )
    assert said.split()[-1] == "True"  # and the child was neither killed nor crashed


# ---------------------------------------------------------------- DEV: devices


@gpu
@pytest.mark.parametrize("name", PREDICTORS)
def test_dev1_contract_gpu_matches_cpu_and_its_pickle_loads_without_cuda(name, tmp_path):
    X, y = data_for(name, 300, 5)
    if "device" not in make(name).get_params():
        pytest.skip("no device switch")
    cpu, est = make(name, device="cpu").fit(X, y), make(name, device="cuda").fit(X, y)
    close(out(est, X), out(cpu, X), 1e-2)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(est))
    np.save(tmp_path / "X.npy", X)
    child(
        f"""
        import pickle, numpy as np
        m = pickle.load(open(r"{tmp_path}/m.pkl", "rb"))
        np.save(r"{tmp_path}/P.npy", np.asarray(m.predict(np.load(r"{tmp_path}/X.npy")), float))
    """,
        CUDA_VISIBLE_DEVICES="",
    )
    close(np.load(tmp_path / "P.npy"), np.asarray(est.predict(X), float), 1e-2)


# ---------------------------------------------------------------- NFM: features of trained networks


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_nfm1_contract_raw_units_do_not_blow_up_training(scale, task):
    X, y = smooth(80, 4)
    y = y if task == "regression" else np.where(y > np.median(y), "up", "down")
    U = X * [1.0, scale, 1.0, 1.0] + [0, 100 * scale, 0, 0]
    try:
        Z = make("NFMTransformer").fit(U, y).transform(U)
    except ValueError as e:
        assert str(e)
        return
    finite(Z)
    assert np.std(Z) > 0  # neither NaN nor a dead network
