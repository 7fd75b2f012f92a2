# SPDX-License-Identifier: BSD-3-Clause
"""What all estimators promise beyond scikit-learn's own checks, one list of them, one test each.

Containers, pickles, threads, interrupts, the caller's torch state, parameters that change after a
fit, what a second fit leaves of the first, and callbacks.
"""

import copy
import os
import pickle
import random
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from field_helpers import child
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

import rfmlearn as R
from rfmlearn import _backend
from rfmlearn.datasets import make_multi_index
from rfmlearn.kernels import Gaussian
from rfmlearn.solvers import PCGSolver

# Every public estimator, in one small setting; some in a second one that takes other ways.
ESTIMATORS = {
    "RFMRegressor": R.RFMRegressor(max_iter=2, random_state=0),
    "RFMRegressor, pcg": R.RFMRegressor(
        max_iter=1, solver=PCGSolver(tol=1e-8), kernel=Gaussian(), random_state=0
    ),
    "RFMRegressor, centres": R.RFMRegressor(max_iter=1, n_centers=20, random_state=0),
    "RFMRegressor, stopped": R.RFMRegressor(early_stopping=True, max_iter=3, random_state=0),
    "RFMClassifier": R.RFMClassifier(max_iter=2, diag=True, random_state=0),
    "RFMRegressorCV": R.RFMRegressorCV(max_iter=1, bandwidths=1.0, cv=2, random_state=0),
    "RFMClassifierCV": R.RFMClassifierCV(max_iter=1, bandwidths=1.0, cv=2, random_state=0),
    "ConvRFMRegressor": R.ConvRFMRegressor((1, 2, 3), patch_size=2, max_iter=1, random_state=0),
    "ConvRFMClassifier": R.ConvRFMClassifier(
        (1, 2, 3), patch_size=2, max_iter=2, early_stopping=True, random_state=0
    ),
    "KernelRegimeRegressor": R.KernelRegimeRegressor(random_state=0),
    "KernelRegimeRegressor, erf": R.KernelRegimeRegressor(
        "nngp", activation="erf", training_time=5.0, random_state=0
    ),
    "KernelRegimeClassifier": R.KernelRegimeClassifier("nngp"),
    "ABCMLPRegressor": R.ABCMLPRegressor((8,), max_epochs=3, random_state=0),
    "ABCMLPRegressor, infinite": R.ABCMLPRegressor(
        float("inf"), activation="identity", optimizer="sgd", max_epochs=3, random_state=0
    ),
    "ABCMLPClassifier": R.ABCMLPClassifier(
        (8,), activation="gelu", loss="squared", max_epochs=3, random_state=0
    ),
    "NFMTransformer": R.NFMTransformer(
        R.ABCMLPRegressor((8,), max_epochs=2, random_state=0), matrix="agop", random_state=0
    ),
    "NFMTransformer, layer": R.NFMTransformer(
        R.ABCMLPRegressor((8, 5), max_epochs=2, random_state=0), layer=1, random_state=0
    ),
    "LinearRFMRegressor": R.LinearRFMRegressor(),
    "RecursiveFeatureLearner": R.RecursiveFeatureLearner(
        KernelRidge(kernel="rbf", gamma=0.2), max_iter=1, random_state=0
    ),
    "RecursiveFeatureLearner, numeric": R.RecursiveFeatureLearner(
        SVC(random_state=0), gradient="numeric", max_iter=1, early_stopping=True, random_state=0
    ),
}
EVERY = pytest.mark.parametrize("name", ESTIMATORS)


def test_every_public_estimator_is_here():
    public = {name for name in R.__all__ if isinstance(getattr(R, name), type)}
    assert {name.split(",")[0] for name in ESTIMATORS} == public


def data(name, n=60, seed=0):
    X, y, _ = make_multi_index(n, 6, random_state=seed)
    classes = "Classifier" in name or "numeric" in name
    return X, np.array(["a", "b"])[(y > 0).astype(int)] if classes else y


def fitted(name, n=60):
    return clone(ESTIMATORS[name]).fit(*data(name, n))


def said(model, X):
    """Return all that a fitted estimator says of rows, by method."""
    methods = ("predict", "predict_proba", "decision_function", "transform", "input_gradients")
    return {m: np.asarray(getattr(model, m)(X)) for m in methods if hasattr(model, m)}


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for method, value in ours.items():
        assert_array_equal(value, theirs[method], err_msg=method)


def state(model):
    """Return what a fit leaves, by name."""
    names = model.get_params(deep=False)
    return {name: value for name, value in vars(model).items() if name not in names}


# ---------------------------------------------------------------- what was fitted, and only that


# By parameter a value that no estimator above has, and that all who have it take.
OTHERS = {
    "activation": "identity", "agop_alpha": 0.5, "agop_outputs": "all", "agop_power": 0.3,
    "alpha": 7.0, "alphas": (5.0, 6.0), "bandwidth": 3.0, "bandwidth_mode": "constant",
    "bandwidths": 4.0, "base_width": 8, "batch_size": 7, "bias_std": 0.7, "center_gradients": True,
    "class_weight": "balanced", "cv": 3, "decay": 0.5, "depth": 1, "early_stopping": True,
    "estimator": SVR(), "first_layer_scale": 0.1, "fit_intercept": False,
    "gradient": "numeric", "hidden_layer_sizes": (3,), "image_shape": (1, 3, 2), "init_scale": 0.2,
    "kernel": "patch_laplace", "kernels": "gaussian", "layer": 0, "learning_rate": 0.7,
    "loss": "cross_entropy", "matrix": "nfm", "matrix_scaling": None, "max_epochs": 1,
    "max_iter": 0, "memory_budget": 2**33, "momentum": 0.5, "n_agop_samples": 9, "n_centers": 11,
    "n_components": 2, "n_iter_no_change": 7, "n_jobs": 1, "normalize_y": True, "optimizer": "sgd",
    "padding": 1, "parametrization": "ntk", "patch_size": 1, "pooling": "mean", "random_state": 5,
    "refit": False, "regime": "ntk_gp", "scoring": "r2", "solver": "cholesky", "stride": 2,
    "subtract_init": True, "task": "classification", "tol": 0.2, "training_time": 3.0,
    "validation_fraction": 0.4,
    "warm_start": True, "weight_decay": 0.3, "weight_std": 0.9, "zero_init_output": True,
}  # fmt: skip


@EVERY
def test_parameters_that_change_after_a_fit_change_nothing(name):
    model, (X, _) = fitted(name), data(name)
    before = said(model, X)
    for parameter, value in model.get_params(deep=False).items():
        if parameter in ("device", "diag"):
            continue  # looked up when it is used; and of two values
        model.set_params(**{parameter: OTHERS[parameter]})
        assert_same(said(model, X), before)
        model.set_params(**{parameter: value})
    if "diag" in model.get_params():
        assert_same(said(model.set_params(diag=not model.diag), X), before)


SECOND_FITS = [
    ("RFMRegressor", {"max_iter": 0}),
    ("RFMRegressorCV", {"refit": False}),
    ("RFMClassifierCV", {"refit": False}),
    ("KernelRegimeRegressor", {"regime": "nngp", "alpha": [0.1, 1.0]}),
    ("KernelRegimeRegressor", {"training_time": 2.0}),
    ("NFMTransformer", {"n_components": 2}),
    ("RecursiveFeatureLearner", {"max_iter": 0}),
]


@pytest.mark.parametrize(("name", "other"), SECOND_FITS)
@pytest.mark.parametrize("first", [False, True], ids=["to other", "from other"])
def test_a_second_fit_leaves_nothing_of_the_first(name, other, first):
    X, y = data(name)
    a, b = clone(ESTIMATORS[name]), clone(ESTIMATORS[name]).set_params(**other)
    if first:
        a, b = b, a
    again = a.fit(pd.DataFrame(X, columns=list("uvwxyz")), y).set_params(**b.get_params(deep=False))
    again.fit(X[:, :4], y)
    assert set(state(again)) == set(state(b.fit(X[:, :4], y)))


@EVERY
def test_a_fit_that_fails_or_is_interrupted_changes_nothing(name, monkeypatch):
    model, (X, y) = fitted(name), data(name)
    before, kept = said(model, X), state(model)
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(bad[:, :4], y)
    Q, q = data(name, seed=1)
    interrupted = 0
    for left in (0, 1, 3, 8, 20, 50):
        with monkeypatch.context() as patch:
            for function in ("to_tensor", "to_numpy"):
                patch.setattr(_backend, function, counting(getattr(_backend, function), left))
            try:
                clone(model).fit(Q, q)  # is there as much to do?
            except KeyboardInterrupt:
                interrupted += 1
            else:
                break
        with monkeypatch.context() as patch:
            for function in ("to_tensor", "to_numpy"):
                patch.setattr(_backend, function, counting(getattr(_backend, function), left))
            with pytest.raises(KeyboardInterrupt):
                model.fit(Q, q)
        now = state(model)
        assert now.keys() == kept.keys()
        assert all(now[attribute] is value for attribute, value in kept.items())
    assert interrupted > 0
    assert_same(said(model, X), before)


def counting(function, left):
    """Return the function, which interrupts after so many calls."""

    def counted(*args, **kwargs):
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return function(*args, **kwargs)

    return counted


# ---------------------------------------------------------------- pickles and copies


@EVERY
def test_pickles_and_copies_say_the_same(name):
    model, (X, _) = fitted(name), data(name)
    before = said(model, X)
    assert_same(said(pickle.loads(pickle.dumps(model)), X), before)
    assert_same(said(copy.deepcopy(model), X), before)
    assert not [k for k, v in vars(model).items() if isinstance(v, torch.Tensor)]


def test_pickles_are_read_in_a_fresh_process(tmp_path):
    models = {name: (fitted(name), data(name)[0]) for name in ESTIMATORS}
    (tmp_path / "models.pkl").write_bytes(pickle.dumps(models))
    child(f"""
        import pickle, numpy as np
        models = pickle.load(open(r"{tmp_path}/models.pkl", "rb"))
        found = {{}}
        for name, (model, X) in models.items():
            for method in ("predict_proba", "predict", "transform"):
                if hasattr(model, method):
                    found[f"{{name}}|{{method}}"] = np.asarray(getattr(model, method)(X))
        np.savez(r"{tmp_path}/found.npz", **found)
    """)
    with np.load(tmp_path / "found.npz") as found:
        for key in found.files:
            name, method = key.split("|")
            model, X = models[name]
            expected = np.asarray(getattr(model, method)(X))
            if expected.dtype.kind == "f":
                # another process may have another number of threads, and so another order of sums
                assert_allclose(found[key], expected, rtol=1e-7, atol=1e-9, err_msg=key)
            else:
                assert_array_equal(found[key], expected, err_msg=key)


@pytest.mark.parametrize("regime", ["ntk", "nngp"])
@pytest.mark.parametrize("time", [None, 3.0])
def test_a_kernel_regime_is_as_large_as_its_factor(regime, time):
    X, y, _ = make_multi_index(300, 5, random_state=0)
    model = R.KernelRegimeRegressor(regime, training_time=time).fit(X, y)
    factor = 300 * 300 * 8
    assert factor < len(pickle.dumps(model)) < 1.1 * factor


# ---------------------------------------------------------------- containers


@EVERY
@pytest.mark.parametrize("named", [False, True], ids=["array", "frame"])
def test_transform_output_changes_the_container_alone(name, named):
    X, y = data(name)
    rows = pd.DataFrame(X, columns=list("abcdef")) if named else X
    before = said(clone(ESTIMATORS[name]).fit(rows, y), rows)
    with warnings.catch_warnings(), sklearn.config_context(transform_output="pandas"):
        warnings.simplefilter("error")
        model = clone(ESTIMATORS[name]).fit(rows, y)
        for method, value in before.items():
            result = getattr(model, method)(rows)
            assert isinstance(result, pd.DataFrame) == (method == "transform")
            assert_array_equal(np.asarray(result), value)
            assert isinstance(result, np.ndarray | pd.DataFrame)


@EVERY
def test_rows_may_come_in_any_layout(name):
    X, y = data(name)
    before = said(clone(ESTIMATORS[name]).fit(X, y), X)
    wide = np.zeros((60, 12))
    wide[:, ::2] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    for rows in (np.asfortranarray(X), wide[:, ::2], X[::-1][::-1], frozen, X.tolist()):
        model = clone(ESTIMATORS[name]).fit(rows, y)
        for method, value in said(model, rows).items():
            if value.dtype.kind == "f":
                # sums over rows of another memory layout; conjugate gradients end at a residual of
                # 1e-8 by other steps, times the condition number, at most (60 + alpha) / alpha
                atol = 6e-4 if "pcg" in name else 1e-9
                assert_allclose(value, before[method], rtol=1e-7, atol=atol)


@EVERY
@pytest.mark.parametrize("frame", [False, True], ids=["array", "frame"])
def test_inputs_are_left_alone(name, frame):
    X, y = data(name)
    w = np.linspace(0.5, 2, len(X))
    kept = X.copy(), y.copy(), w.copy()
    given = (pd.DataFrame(X, copy=True), pd.Series(y), pd.Series(w)) if frame else (X, y, w)
    model = clone(ESTIMATORS[name]).fit(given[0], given[1], sample_weight=given[2])
    said(model, given[0])
    for one, other in zip(given, kept, strict=True):
        assert_array_equal(np.asarray(one), other)


# ---------------------------------------------------------------- threads, and the caller's torch


@EVERY
def test_threads_may_share_a_fitted_model(name):
    model = fitted(name)
    rows = [data(name, n, seed=n)[0] for n in (1, 7, 30, 90) * 4]
    expected, before = [said(model, X) for X in rows], state(model)
    with ThreadPoolExecutor(8) as pool:
        for one, other in zip(pool.map(lambda X: said(model, X), rows), expected, strict=True):
            assert_same(one, other)
    assert state(model).keys() == before.keys()  # nothing is stored on the way


def global_state():
    numpy_state = np.random.get_state()
    return [
        numpy_state[1].tobytes(),
        numpy_state[2],
        repr(random.getstate()),
        repr(warnings.filters),
        sorted(os.environ.items()),
        repr(np.geterr()),
        torch.get_rng_state().numpy().tobytes(),
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
    ]


@EVERY
def test_nothing_global_is_touched(name):
    X, _ = data(name)
    said(fitted(name), X)  # what is imported late is imported here
    np.random.rand(3), random.random(), torch.rand(3)
    before = global_state()  # which a fit that seeds would not land on again
    said(fitted(name), X)
    assert global_state() == before


class DefaultDtype:
    def __enter__(self):
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *args):
        torch.set_default_dtype(torch.float32)


AMBIENT = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "default device": lambda: torch.device("meta"),
    "default dtype": DefaultDtype,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


@EVERY
@pytest.mark.parametrize("context", AMBIENT)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_callers_torch_state_changes_nothing(name, context, dtype):
    X, y = data(name)
    X = X.astype(dtype)
    model = clone(ESTIMATORS[name]).fit(X, y)
    before = said(model, X)
    with AMBIENT[context]():
        assert_same(said(model, X), before)
        assert_same(said(clone(ESTIMATORS[name]).fit(X, y), X), before)
    assert_same(said(model, X), before)


# ---------------------------------------------------------------- callbacks


class Recorder:
    """A callback that notes what it is told, and may ask to stop."""

    def __init__(self, stop_after=None):
        self.stop_after, self.steps, self.told, self.fitted = stop_after, 0, [], []

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.told.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        self.told.append(f"end {context.task_name}")
        step = context.task_name in ("iterate", "epoch")
        self.steps += step
        if step and fitted_estimator is not None:
            self.fitted.append(said(fitted_estimator, X))
        return self.stop_after is not None and self.steps >= self.stop_after


STEPWISE = [name for name, model in ESTIMATORS.items() if hasattr(model, "set_callbacks")]


@pytest.mark.parametrize("name", STEPWISE)
def test_callbacks_are_told_once(name):
    X, y = data(name)
    expected = said(clone(ESTIMATORS[name]).fit(X, y), X)
    recorder = Recorder()
    model = clone(ESTIMATORS[name]).set_callbacks(recorder).fit(X, y)
    for method, value in said(model, X).items():
        if value.dtype.kind == "f":
            # with listeners conjugate gradients solve every iterate to the end, else those of which
            # only the AGOP is used to 1e-3
            atol = 1e-2 if "pcg" in name else 1e-12
            assert_allclose(value, expected[method], rtol=1e-9, atol=atol)
    begun = [t.removeprefix("begin ") for t in recorder.told if t.startswith("begin")]
    ended = [t.removeprefix("end ") for t in recorder.told if t.startswith("end")]
    assert sorted(begun) == sorted(ended)
    assert recorder.told[0] == "setup" and recorder.told[-1] == "teardown"
    assert recorder.told.count("setup") == recorder.told.count("teardown") == 1
    if name.endswith("CV"):
        assert begun == ["fit", "select", "refit"]
        return
    assert begun[0] == ended[-1] == "fit"
    assert begun.count("fit") == 1
    steps = len(model.history_)
    assert len(begun) == len(ended) == steps + 1
    assert len(recorder.fitted) == steps
    if not getattr(model, "early_stopping", False):
        assert_same(recorder.fitted[-1], said(model, X))


@pytest.mark.parametrize("name", [name for name in STEPWISE if not name.endswith("CV")])
def test_a_callback_ends_a_fit(name):
    X, y = data(name)
    model = clone(ESTIMATORS[name]).set_callbacks(Recorder(stop_after=1)).fit(X, y)
    assert len(model.history_) == 1


# ---------------------------------------------------------------- warnings


SINGULAR = {"alpha": 0.0, "max_iter": 1}
WARNING = {
    "machine": R.RFMRegressor("gaussian", **SINGULAR),
    "search": R.RFMRegressorCV("gaussian", alphas=0.0, bandwidths=1.0, max_iter=1, cv=2),
    "images": R.ConvRFMRegressor((1, 2, 3), kernel="patch_laplace", patch_size=2, **SINGULAR),
    "network": R.ABCMLPRegressor(
        (64,), optimizer="sgd", learning_rate=2.0, max_epochs=3, random_state=0
    ),
    "pipeline": make_pipeline(StandardScaler(), R.RFMRegressor("gaussian", **SINGULAR)),
    "grid search": GridSearchCV(R.RFMRegressor("gaussian", **SINGULAR), {"diag": [True]}, cv=2),
    "wrapper": R.RecursiveFeatureLearner(R.RFMRegressor("gaussian", **SINGULAR), max_iter=1),
}


@pytest.mark.parametrize("name", WARNING)
def test_warnings_point_at_the_users_line(name):
    X, y = data("RFMRegressor", 40)
    X, y = np.tile(X, (3, 1)), np.concatenate([y, -y, 2 * y])  # equal rows, other targets
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        clone(WARNING[name]).fit(X, y)
    assert told
    assert {entry.category for entry in told} <= {LinAlgWarning, ConvergenceWarning}
    assert {entry.filename for entry in told} == {__file__}


# ---------------------------------------------------------------- warm starts


WARM = {
    "machine": R.RFMClassifier(max_iter=1, warm_start=True, random_state=0),
    "regressor": R.RFMRegressor(max_iter=1, warm_start=True, random_state=0),
    "images": R.ConvRFMRegressor((1, 2, 3), patch_size=2, max_iter=1, warm_start=True),
    "network": R.ABCMLPClassifier((8,), max_epochs=2, warm_start=True, random_state=0),
}


@pytest.mark.parametrize("name", WARM)
def test_a_warm_start_continues_only_what_it_began(name):
    X, y = data("RFMClassifier" if name in ("machine", "network") else "RFMRegressor")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = clone(WARM[name]).fit(frame, y)
    before = said(model, frame)
    if name in ("machine", "network"):
        others = [(frame, np.where(y == "a", "b", "c"), r"classes were \['a', 'b'\]; now")]
    else:
        others = [(frame, np.column_stack([y, y]), "outputs were 1; now they are 2")]
    if name != "images":
        others.append((frame.rename(columns={"a": "A"}), y, "columns were"))
    for rows, target, message in others:
        with pytest.raises(ValueError, match=message):
            model.fit(rows, target)
        assert_same(said(model, frame), before)
    if name == "images":
        with pytest.raises(ValueError, match="patches were"):
            model.set_params(image_shape=(1, 3, 2)).fit(frame, y)
        model.set_params(image_shape=(1, 2, 3))
    if name == "network":
        with pytest.raises(ValueError, match="activations were relu; now they are tanh"):
            model.set_params(activation="tanh").fit(frame, y)
        model.set_params(activation="relu")
    model.fit(frame, y)


# ---------------------------------------------------------------- public functions


def _functions():
    """Return what every public function computes, as a list of arrays, by name."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    y, A = X[:, 0] * X[:, 1], X.T @ X
    torch.manual_seed(0)
    single = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    double = copy.deepcopy(single).double()
    net = R.ABCMLPRegressor((8,), max_epochs=2, random_state=0)
    holes = np.where(rng.random((8, 8)) < 0.7, np.outer(np.arange(1, 9), np.arange(1, 9)), np.nan)
    scan = {"widths": (4, 8), "n_seeds": 1, "random_state": 0}

    def layers(network):
        found = R.neural.layer_features(network, X, init=network)
        return [[layer.nfm, layer.agop, *layer.alignments.values()] for layer in found]

    return {
        "agop": lambda: R.features.agop(X),
        "agop of tensors": lambda: R.features.agop(torch.from_numpy(X)),
        "matrix_power": lambda: R.features.matrix_power(A, 0.5),
        "alignment": lambda: R.features.alignment(A, A**2),
        "top_directions": lambda: R.features.top_directions(A, 2),
        "layer_features": lambda: layers(single),
        "layer_features, float64": lambda: layers(double),
        "linear_rfm": lambda: R.linear.linear_rfm(X, y)[:2],
        "complete_matrix": lambda: R.linear.complete_matrix(holes)[:2],
        "coordinate_check": lambda: list(
            R.neural.coordinate_check(net, X, y, **scan).values.values()
        ),
        "feature_movement": lambda: list(
            R.neural.feature_movement(net, X, y, **scan).values.values()
        ),
        "InfiniteLinearNetwork": lambda: list(
            R.neural.InfiniteLinearNetwork(5, 2).finite(20, random_state=0).parameters()
        ),
    }


FUNCTIONS = _functions()


def flat(found):
    if isinstance(found, list | tuple):
        return [array for part in found for array in flat(part)]
    return [found.detach().numpy() if isinstance(found, torch.Tensor) else np.asarray(found)]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("context", AMBIENT)
def test_public_functions_in_the_callers_torch_state(name, context):
    before = flat(FUNCTIONS[name]())
    with AMBIENT[context]():
        inside = flat(FUNCTIONS[name]())
    assert len(inside) == len(before) > 0
    for here, there in zip(inside, before):
        assert_array_equal(here, there)


MEANINGLESS = (-1, float("nan"), "nonsense", (), [1.0, "b"], object())


@pytest.mark.parametrize(
    ("call", "parameters"),
    [
        (lambda **p: R.features.alignment(np.eye(3), np.eye(3), **p), ["method"]),
        (lambda **p: R.features.matrix_power(np.eye(3), **p), ["power"]),
        (lambda **p: R.features.top_directions(np.eye(3), **p), ["n_directions"]),
        (
            lambda **p: R.linear.linear_rfm(np.eye(3), np.ones(3), **p),
            ["alpha", "agop_power", "max_iter", "decay", "tol"],
        ),
        (
            lambda **p: R.linear.complete_matrix(np.eye(3), **p),
            ["alpha", "agop_power", "max_iter", "decay", "tol"],
        ),
        (make_multi_index, ["n_samples", "n_features", "noise", "random_state"]),
        (
            lambda **p: R.neural.coordinate_check(
                R.ABCMLPRegressor((4,)), np.eye(4), np.arange(4.0), **p
            ),
            ["widths", "n_seeds", "random_state"],
        ),
        (lambda **p: R.neural.AlignmentMonitor(np.eye(3), **p), ["every"]),
        (
            lambda **p: R.neural.InfiniteLinearNetwork(**{"n_features": 3, "n_outputs": 1, **p}),
            ["n_features", "n_outputs"],
        ),
        (PCGSolver, ["tol", "max_iter"]),
        (R.kernels.NTK, ["depth", "activation", "weight_std", "bias_std"]),
        (R.kernels.NNGP, ["depth", "activation", "weight_std", "bias_std"]),
        (R.kernels.PowerExponential, ["exponent"]),
    ],
)
def test_arguments_that_mean_nothing_are_named(call, parameters):
    for parameter in parameters:
        for value in MEANINGLESS:
            with pytest.raises((ValueError, TypeError), match=parameter):
                call(**{parameter: value})


# of no parameter of an estimator a value
SHAPELESS = (
    {},
    {0: 1},
    b"a",
    object(),
    [[1.0]],
    [None],
    ["a"],
    np.array([[1.0, 2.0]]),
    float("nan"),
)
MEANT = {"class_weight"}  # a dict means something
SMALL = {
    R.RFMRegressor: {"max_iter": 1},
    R.RFMClassifier: {"max_iter": 1},
    R.RFMRegressorCV: {"kernels": "laplace", "bandwidths": 1.0, "alphas": 0.1, "max_iter": 1},
    R.RFMClassifierCV: {"kernels": "laplace", "bandwidths": 1.0, "alphas": 0.1, "max_iter": 1},
    R.KernelRegimeRegressor: {},
    R.KernelRegimeClassifier: {},
    R.ABCMLPRegressor: {"hidden_layer_sizes": (4,), "max_epochs": 1},
    R.ABCMLPClassifier: {"hidden_layer_sizes": (4,), "max_epochs": 1},
    R.LinearRFMRegressor: {"max_iter": 1},
    R.ConvRFMRegressor: {"image_shape": (1, 4, 4), "max_iter": 1},
    R.ConvRFMClassifier: {"image_shape": (1, 4, 4), "max_iter": 1},
    R.RecursiveFeatureLearner: {"estimator": KernelRidge(), "max_iter": 1},
    R.NFMTransformer: {"estimator": R.ABCMLPRegressor((4,), max_epochs=1)},
}


@pytest.mark.parametrize("kind", SMALL, ids=lambda kind: kind.__name__)
def test_parameters_of_no_defined_shape_are_named(kind):
    X = np.random.default_rng(0).normal(size=(20, 16))
    y = (X[:, 0] > 0).astype(int) if "Classifier" in kind.__name__ else X[:, 0]
    for name in kind(**SMALL[kind]).get_params(deep=False):
        if name in MEANT:
            continue
        for value in SHAPELESS:
            with pytest.raises((ValueError, TypeError), match=name):
                kind(**{**SMALL[kind], name: value}).fit(X, y)


@pytest.mark.parametrize("name", ["batch_size", "max_epochs", "base_width"])
def test_whole_numbers_of_numpy_are_whole_numbers(name):
    X, y, _ = make_multi_index(20, 3, random_state=0)
    one, other = (
        R.ABCMLPRegressor((4,), random_state=0, **{"max_epochs": 2, name: value}).fit(X, y)
        for value in (2, np.int64(2))
    )
    assert_array_equal(one.predict(X), other.predict(X))
