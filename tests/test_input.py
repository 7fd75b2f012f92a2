# SPDX-License-Identifier: BSD-3-Clause
"""Bad input of every kind gets a sentence that says what is wrong."""

import numpy as np
import pytest
import scipy.sparse

from rfmlearn import RFMClassifier, RFMRegressor, _backend

both = pytest.mark.parametrize("Estimator", [RFMRegressor, RFMClassifier])


def data(n=20):
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, (X[:, 0] > 0).astype(int)


def with_value(value):
    X, y = data()
    X[3, 1] = value
    return X, y


@both
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: with_value(np.nan), ValueError, "Input X contains NaN"),
        (lambda: with_value(np.inf), ValueError, "Input X contains infinity"),
        (lambda: with_value(1e200), ValueError, r"Column 1 of X holds values up to 1\.0e\+200"),
        (lambda: (data()[0].astype(str), data()[1] * 0 + np.arange(20) % 2), None, None),
        (lambda: (np.full((20, 3), "a"), data()[1]), ValueError, "could not convert string"),
        (lambda: (scipy.sparse.csr_matrix(data()[0]), data()[1]), TypeError, "[Ss]parse"),
        (lambda: (data()[0][:0], data()[1][:0]), ValueError, "0 sample"),
        (lambda: (data()[0][:, :0], data()[1]), ValueError, "0 feature"),
        (lambda: (data()[0], data()[1][:-1]), ValueError, "inconsistent numbers of samples"),
        (lambda: (data()[0][:, 0], data()[1]), ValueError, "Expected 2D array, got 1D array"),
        (lambda: (data()[0] * 1j, data()[1]), ValueError, "Complex data not supported"),
        (lambda: (data()[0], np.full(20, np.nan)), ValueError, "contains NaN"),
        (lambda: (data()[0], None), ValueError, "requires y to be passed"),
    ],
)
def test_data_that_cannot_be_fitted(Estimator, make, error, message):
    X, y = make()
    if error is None:  # digits as text are numbers to scikit-learn's validation
        Estimator().fit(X, y)
        return
    with pytest.raises(error, match=message):
        Estimator().fit(X, y)


@both
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "laplacian"}, "'kernel' parameter .* Got 'laplacian'"),
        ({"kernel": 3}, "'kernel' parameter"),
        ({"solver": "svd"}, "'solver' parameter .* Got 'svd'"),
        ({"bandwidth": 0}, r"'bandwidth' parameter .* range \(0"),
        ({"bandwidth": -1.0}, "'bandwidth' parameter"),
        ({"bandwidth": np.nan}, "'bandwidth' parameter"),
        ({"bandwidth_mode": "median"}, "'bandwidth_mode' parameter"),
        ({"alpha": -1e-9}, r"'alpha' parameter .* range \[0"),
        ({"agop_alpha": -1}, "'agop_alpha' parameter"),
        ({"max_iter": -1}, "'max_iter' parameter"),
        ({"max_iter": 2.0}, "'max_iter' parameter"),
        ({"diag": "yes"}, "'diag' parameter"),
        ({"agop_power": 0}, "'agop_power' parameter"),
        ({"matrix_scaling": "max"}, "'matrix_scaling' parameter"),
        ({"n_agop_samples": 0}, "'n_agop_samples' parameter"),
        ({"tol": -1}, "'tol' parameter"),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
        ({"n_iter_no_change": 0}, "'n_iter_no_change' parameter"),
        ({"device": None}, "'device' parameter"),
        ({"device": "gpu"}, "device='gpu' is not a device. Use 'cpu'"),
        ({"random_state": "seed"}, "'random_state' parameter"),
    ],
)
def test_parameters_out_of_range(Estimator, parameters, message):
    model = Estimator(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(*data())
    assert not hasattr(model, "dual_coef_")


@both
def test_a_misspelt_parameter_is_refused(Estimator):
    with pytest.raises(TypeError, match="alfa"):
        Estimator(alfa=1)
    with pytest.raises(ValueError, match="Invalid parameter 'alfa'"):
        Estimator().set_params(alfa=1)
    with pytest.raises(TypeError, match="positional"):
        Estimator("laplace", 2.0)


def test_one_class_is_refused():
    X, _ = data()
    with pytest.raises(ValueError, match="at least two classes in y; got one class, 'only'"):
        RFMClassifier().fit(X, np.full(20, "only", dtype=object))
    with pytest.raises(ValueError, match=r"got one class, 1\.0\.$"):
        RFMClassifier().fit(X, np.ones(20))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        RFMClassifier().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="y should be a 1d array"):
        RFMClassifier().fit(X, np.ones((20, 2), dtype=int))


def test_a_sparse_target_is_refused():
    X, y = data()
    with pytest.raises(TypeError, match="Sparse y is not supported"):
        RFMRegressor().fit(X, scipy.sparse.csr_matrix(y[:, None]))


def test_unknown_class_weight_is_refused():
    with pytest.raises(ValueError, match="'class_weight' parameter"):
        RFMClassifier(class_weight="even").fit(*data())
    with pytest.raises(ValueError, match="The classes, \\[1\\], are not in class_weight"):
        RFMClassifier(class_weight={0: 1.0, 7: 2.0}).fit(*data())


@both
def test_columns_of_another_name_order_or_number_are_refused(Estimator):
    pd = pytest.importorskip("pandas")
    X, y = data()
    D = pd.DataFrame(X, columns=["a", "b", "c"])
    model = Estimator(max_iter=1).fit(D, y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    for method in (model.predict, model.transform, model.input_gradients):
        with pytest.raises(ValueError, match="must be in the same order"):
            method(D[["b", "a", "c"]])
        with pytest.raises(ValueError, match="Feature names unseen at fit time:\n- z"):
            method(D.rename(columns={"a": "z"}))
        with pytest.raises(ValueError, match="Feature names seen at fit time, yet now missing"):
            method(D[["a", "b"]])


@both
def test_rows_that_cannot_be_predicted(Estimator):
    X, y = data()
    model = Estimator(max_iter=1).fit(X, y)
    for method in (model.predict, model.transform, model.input_gradients):
        with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3"):
            method(X[:, :2])
        with pytest.raises(ValueError, match="contains NaN"):
            method(with_value(np.nan)[0])
        with pytest.raises(ValueError, match="leave the range of float64"):
            method(with_value(1e200)[0])


@both
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(19), r"sample_weight.shape == \(19,\), expected \(20,\)"),
        (-np.ones(20), "[Nn]egative values in data passed to `sample_weight`"),
        (np.full(20, np.nan), "contains NaN"),
        (np.zeros(20), "zero|is 0 for every"),
    ],
)
def test_weights_that_cannot_be_used(Estimator, weight, message):
    with pytest.raises(ValueError, match=message):
        Estimator().fit(*data(), sample_weight=weight)


@both
@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 1e-21), (np.float64, 1e-300)])
def test_values_whose_squares_vanish_are_refused(Estimator, dtype, unit):
    X, y = data()
    with pytest.raises(ValueError, match=r"squares are 0 in float.* StandardScaler"):
        Estimator().fit((X * unit).astype(dtype), y)
    near = dtype(1e3) * np.sqrt(np.finfo(dtype).tiny)  # and above that nothing is lost
    small, plain = Estimator().fit((X * near).astype(dtype), y), Estimator().fit(X.astype(dtype), y)
    expected = plain._scores(X.astype(dtype))
    np.testing.assert_allclose(small._scores((X * near).astype(dtype)), expected, atol=2e-3)
    Estimator().fit(np.zeros_like(X), y)


@both
def test_huge_values_in_float32_name_the_limit(Estimator):
    X, y = with_value(1e25)
    with pytest.raises(ValueError, match=r"squares leave the range of float32 .* StandardScaler"):
        Estimator().fit(X.astype(np.float32), y)


def test_more_components_than_features_are_refused():
    X, y = data()
    model = RFMRegressor(max_iter=1).fit(X, y)
    with pytest.raises(ValueError, match=r"must lie in 1, \.\.\., 3"):
        model.transform(X, n_components=4)


def test_a_kernel_matrix_beyond_the_free_memory_is_refused(monkeypatch):
    monkeypatch.setattr(_backend, "free_bytes", lambda device: 2**20)
    X, y = data(300)
    model = RFMRegressor(solver="cholesky")
    with pytest.raises(MemoryError, match=r"300 rows .* GiB are free\. Leave .* solver='auto'"):
        model.fit(X, y)
    assert not hasattr(model, "dual_coef_")
    with pytest.raises(MemoryError):
        RFMRegressor(solver="cholesky").fit(X.tolist(), y)
    # float32 takes half of it
    n_bytes = 2 * 300 * 300 * 4
    monkeypatch.setattr(_backend, "free_bytes", lambda device: n_bytes)
    RFMRegressor(solver="cholesky", max_iter=1).fit(X.astype(np.float32), y)
    with pytest.raises(MemoryError, match="more than memory_budget=1000"):
        RFMRegressor(memory_budget=1000).fit(X, y)


def test_an_allocator_that_fails_is_a_memory_error():
    message = r"2 rows .* the allocation was refused"
    with pytest.raises(MemoryError, match=message), _backend.memory_guard(2, 1, "cpu"):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
    with pytest.raises(RuntimeError, match="something else"), _backend.memory_guard(2, 1, "cpu"):
        raise RuntimeError("something else")


def test_memory_layouts_torch_cannot_share_are_copied():
    X = np.arange(12.0).reshape(4, 3)
    read_only = X.copy()
    read_only.flags.writeable = False
    for array in (X[::-1], X[:, ::-1], X.astype(">f8"), read_only, np.asfortranarray(X), X[::2]):
        tensor = _backend.to_tensor(array)
        np.testing.assert_array_equal(tensor.numpy(), array)
    assert _backend.to_tensor(X).data_ptr() == X.ctypes.data


def test_free_memory_is_known_here():
    free = _backend.free_bytes("cpu")
    assert free is None or 2**20 < free < 2**50
