# SPDX-License-Identifier: BSD-3-Clause
"""Field cases of use: troubles that users of similar packages reported.

Each test is one kind of report, restated with an input of our own and the right answer.

Name parts: contract = scikit-learn's rules or plain mathematics, no room for choice;
policy = the answer we prefer where another documented answer could be defended;
slow = more than about 5 s; gpu = needs CUDA, skipped elsewhere.
"""

import os
import pickle
import time
import warnings

import numpy as np
import pandas as pd
import pytest
from field_helpers import (
    CUDA,
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
    torch,
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


@pytest.mark.parametrize("name", EVERY)
def test_api3_contract_pickle_works_in_a_fresh_process(name, tmp_path):
    X, y = data_for(name, 40, 3)
    if name == "RFMClassifier":
        y = np.array(["no", "yes"])[y]
    est = make(name).fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(est))
    child(f"""
        import pickle, numpy as np
        m = pickle.load(open(r"{tmp_path}/m.pkl", "rb")); X = np.load(r"{tmp_path}/X.npy")
        f = next(getattr(m, a) for a in ("predict_proba", "predict", "transform") if hasattr(m, a))
        np.save(r"{tmp_path}/P.npy", np.asarray(f(X), float))
    """)
    close(np.load(tmp_path / "P.npy"), out(est, X), 1e-6)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("frame", [False, True])
def test_api5_contract_inputs_are_left_alone(name, frame):
    X, y = data_for(name, 40, 3)
    X, y, w = X.astype(float) + 5, y.copy(), np.linspace(0.5, 2, 40)
    keep = X.copy(), y.copy(), w.copy()
    A = (pd.DataFrame(X, copy=True), pd.Series(y), pd.Series(w)) if frame else (X, y, w)
    est = make(name)
    kw = {"sample_weight": A[2]} if has_fit_parameter(est, "sample_weight") else {}
    est.fit(A[0], A[1], **kw)
    out(est, A[0])
    for got, want in zip(A, keep):
        np.testing.assert_array_equal(np.asarray(got), want)


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


def test_par1_contract_fit_leaves_global_state_alone():
    import random

    def snap():
        s = [
            np.random.get_state()[1].tobytes(),
            np.random.get_state()[2],
            repr(random.getstate()),
            repr(warnings.filters),
            sorted(os.environ.items()),
            repr(np.geterr()),
        ]
        if torch is not None:
            s += [
                torch.get_rng_state().numpy().tobytes(),
                torch.get_default_dtype(),
                torch.get_num_threads(),
                torch.is_grad_enabled(),
                torch.are_deterministic_algorithms_enabled(),
            ]
            if CUDA:
                s += [torch.cuda.get_rng_state().numpy().tobytes()]
        return s

    for name in EVERY:
        X, y = data_for(name, 40, 3)
        out(make(name).fit(X, y), X)  # lazy imports happen here
        np.random.rand(3), random.random(), torch is not None and torch.rand(3)
        before = snap()  # a state that a re-seeding fit would not land on again
        out(make(name).fit(X, y), X)
        assert snap() == before, name


@pytest.mark.parametrize("name", EVERY)
def test_par3_contract_concurrent_predict(name):
    from concurrent.futures import ThreadPoolExecutor

    X, y = data_for(name, 60, 3)
    est = make(name).fit(X, y)
    attrs = sorted(vars(est))
    Q = [smooth(m, 3, seed=m)[0] for m in (1, 7, 50, 333) * 6]
    want = [out(est, q) for q in Q]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda q: out(est, q), Q))
    for g, w in zip(got, want):
        close(g, w, 1e-5, scale=1.0)
    assert sorted(vars(est)) == attrs  # predict stores nothing on the estimator


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


@pytest.mark.parametrize("name", EVERY)
def test_dev1_contract_results_are_plain_numpy(name):
    X, y = data_for(name, 40, 3)
    est = make(name).fit(X, y)
    for m in ("predict", "predict_proba", "decision_function", "transform"):
        if hasattr(est, m):
            r = getattr(est, m)(X)
            assert type(r) is np.ndarray and r.flags.owndata | (r.base is not None), m
            assert r.dtype.kind in "fiuUO", m
    if torch is not None:
        for k, v in vars(est).items():
            if isinstance(v, torch.Tensor):
                assert not v.requires_grad, f"{k} drags an autograd graph along"


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
