# SPDX-License-Identifier: BSD-3-Clause
"""Centres, files that are not loaded, and many outputs."""

import subprocess
import sys

import numpy as np
import pytest
import reference
import scipy.linalg
import torch

from rfmlearn import RFMClassifier, RFMClassifierCV, RFMRegressor
from rfmlearn.kernels import KERNELS, Gaussian, Laplace, Rows
from rfmlearn.kernels._expansion import Predictor
from rfmlearn.solvers import (
    CholeskySolver,
    KernelSystem,
    PCGSolver,
)
from rfmlearn.solvers._centers import CenterSystem

kernels = pytest.mark.parametrize("kernel", sorted(KERNELS))


def data(n, d=5, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    return X, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize("kernel", [k for k in sorted(KERNELS) if not KERNELS[k].centred])
@pytest.mark.parametrize("weighted", [False, True])
def test_centres_minimise_the_error_on_all_rows(kernel, weighted):
    X, y = data(150)
    w = np.random.default_rng(2).uniform(0.2, 3, 150) if weighted else np.ones(150)
    model = RFMRegressor(
        kernel, alpha=0.1, max_iter=0, n_centers=20, random_state=3, bandwidth=2.0,
        bandwidth_mode="constant", solver=PCGSolver(tol=1e-12),
    ).fit(X, y, w)  # fmt: skip
    C = model.X_fit_
    assert C.shape == (20, 5)
    assert all((x == X).all(axis=1).any() for x in C)
    Knm = reference.matrix(kernel, X, C, np.eye(5), 2.0)
    Kmm = reference.matrix(kernel, C, C, np.eye(5), 2.0)
    mean = np.average(y, weights=w)
    # the normal equations of |y - K_nm a|_W^2 + alpha a^T K_mm a
    H = Knm.T @ (w[:, None] * Knm) + 0.1 * Kmm
    a = scipy.linalg.solve(H, Knm.T @ (w * (y - mean)), assume_a="pos")
    np.testing.assert_allclose(model.predict(X), Knm @ a + mean, atol=1e-7)
    score = 1 - np.average((y - Knm @ a - mean) ** 2, weights=w) / np.average(
        (y - mean) ** 2, weights=w
    )
    np.testing.assert_allclose(model.history_["train_score"], score, atol=1e-8)


@kernels
@pytest.mark.parametrize("diag", [False, True])
def test_centres_learn_the_metric_of_all_rows(kernel, diag):
    # with all rows but one as centres the solution is that of all rows to within a row
    X, y = data(300)
    full = RFMRegressor(kernel, alpha=1.0, max_iter=2, diag=diag).fit(X, y)
    most = RFMRegressor(kernel, alpha=1.0, max_iter=2, diag=diag, n_centers=299, random_state=0)
    most.fit(X, y)
    np.testing.assert_allclose(most.bandwidth_, full.bandwidth_, rtol=0.02)
    np.testing.assert_allclose(most.feature_matrix_, full.feature_matrix_, atol=0.02)
    same = RFMRegressor(kernel, alpha=1.0, max_iter=2, diag=diag, n_centers=300).fit(X, y)
    np.testing.assert_array_equal(same.predict(X), full.predict(X))


def test_the_first_bandwidth_on_centres_is_that_of_all_rows():
    X, y = data(200)
    w = np.random.default_rng(0).uniform(0.1, 2, 200)
    for kernel in ("laplace", "product_laplace"):
        options = {"kernel": kernel, "max_iter": 0}
        a = RFMRegressor(**options).fit(X, y, w).bandwidth_
        b = RFMRegressor(**options, n_centers=20, random_state=0).fit(X + 1e6, y, w).bandwidth_
        np.testing.assert_allclose(b, a, rtol=1e-8)


def test_centres_serve_classifiers_searches_and_early_stopping():
    X, y = data(400)
    labels = np.digitize(y, [-1, 1])
    options = {"n_centers": 80, "random_state": 0}
    model = RFMClassifier(**options, alpha=0.1, max_iter=2).fit(X, labels)
    assert model.dual_coef_.shape == (80, 3)
    assert model.score(X, labels) > 0.8
    assert model.input_gradients(X[:3]).shape == (3, 3, 5)
    again = RFMClassifier(**options, alpha=0.1, max_iter=2).fit(X, labels)
    np.testing.assert_array_equal(model.dual_coef_, again.dual_coef_)
    search = RFMClassifierCV(**options, bandwidths=1.0, max_iter=1, cv=2).fit(X, labels)
    assert search.X_fit_.shape == (80, 5)
    assert search.score(X, labels) > 0.7
    stopped = RFMRegressor(**options, early_stopping=True, alpha=0.1).fit(X, y)
    assert stopped.X_fit_.shape == (80, 5)


MEMMAP = """
import numpy as np, resource, sys
from rfmlearn import RFMRegressor
X = np.memmap(sys.argv[1], dtype=np.float32, mode="r", shape=(400_000, 100))
small = np.random.default_rng(0).normal(size=(500, 100)).astype(np.float32)
RFMRegressor(n_centers=100, max_iter=1).fit(small, small[:, 0]).predict(small)
def anonymous():
    with open("/proc/self/status") as lines:
        return next(int(x.split()[1]) for x in lines if x.startswith("RssAnon")) / 1024
import threading, time
before, peak, done = anonymous(), [0], []
def watch():
    while not done:
        peak[0] = max(peak[0], anonymous()); time.sleep(0.005)
thread = threading.Thread(target=watch); thread.start()
y = np.array(X[:, 0]) * np.array(X[:, 1])
model = RFMRegressor(n_centers=200, max_iter=1, n_agop_samples=5000, random_state=0).fit(X, y)
done.append(1); thread.join()
print(round(peak[0] - before), model.X_fit_.shape)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_memmap_is_not_loaded(tmp_path):
    path = tmp_path / "X.bin"
    X = np.memmap(path, dtype=np.float32, mode="w+", shape=(400_000, 100))  # 153 MiB
    rng = np.random.default_rng(0)
    for start in range(0, 400_000, 50_000):
        X[start : start + 50_000] = rng.standard_normal((50_000, 100), dtype=np.float32)
    X.flush()
    run = [sys.executable, "-c", MEMMAP, str(path)]
    said = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    grown, shape = said.split(maxsplit=1)
    assert shape.strip() == "(200, 100)"
    # One copy of X in its own type, the smallest there is, is 153 MiB by itself. Targets, weights
    # and residuals of 400,000 rows are 27 and the buffers, whatever the rows, 30 to 50 (the C
    # library keeps some of what was freed): what grows by less than X holds no copy of it.
    assert int(grown) < X.nbytes / 2**20


# ------------------------------------------------------------------------- many outputs


def many_outputs(c=26, n=400, d=6):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(n, d, dtype=torch.float64, generator=generator)
    coef = torch.randn(n, c, dtype=torch.float64, generator=generator)
    rows = Rows.of(X, bandwidth=2.0)
    predictor = Predictor(Gaussian(), rows, coef, None, X.new_full((), 2.0))

    def rows_at(own):
        return rows[own], torch.arange(n)[own]

    return predictor, rows_at


@pytest.mark.parametrize("diag", [False, True])
def test_random_mixtures_of_the_outputs_are_right_on_average(diag):
    predictor, rows_at = many_outputs()
    exact, number = predictor.second_moment(400, rows_at, diag=diag, center_gradients=False)
    assert number == 400 * 26

    def estimate(seed):
        return predictor.second_moment(
            400, rows_at, diag=diag, center_gradients=False, mixtures=8, seed=10_000 * seed
        )[0]

    draws = torch.stack([estimate(seed) for seed in range(100)])
    error = (draws - exact).flatten(1)
    size = exact.norm()
    # a draw has 16 x 8 mixtures: sampling error near sqrt(2 / 128) = 0.125 at most
    assert 0.005 < float(error.norm(dim=1).mean() / size) < 0.125
    # the mean of 100 draws has a tenth of that; 3 of those
    assert float(error.mean(0).norm() / size) < 0.3 * float(error.norm(dim=1).mean() / size)
    full, _ = predictor.second_moment(400, rows_at, diag=diag, center_gradients=False, mixtures=26)
    assert torch.equal(full, exact)


def test_mixtures_are_for_many_outputs_only_unless_asked_for():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)), rng.integers(0, 20, 200)
    few = y % 3
    options = {"max_iter": 1, "random_state": 0}
    a = RFMClassifier(**options).fit(X, few)
    b = RFMClassifier(**options, agop_outputs="all").fit(X, few)
    np.testing.assert_array_equal(a.feature_matrix_, b.feature_matrix_)
    auto = RFMClassifier(**options).fit(X, y)
    eight = RFMClassifier(**options, agop_outputs=8).fit(X, y)
    every = RFMClassifier(**options, agop_outputs="all").fit(X, y)
    np.testing.assert_array_equal(auto.feature_matrix_, eight.feature_matrix_)
    assert not np.array_equal(auto.feature_matrix_, every.feature_matrix_)
    np.testing.assert_allclose(auto.feature_matrix_, every.feature_matrix_, atol=0.3)


def test_the_center_system_reports_what_it_left():
    X = torch.as_tensor(data(100)[0])
    C = Rows.of(X[:10])
    K = Laplace().matrix(Rows.of(X), C)
    Y = torch.as_tensor(data(100)[1])[:, None]
    every = [(slice(0, 100), K)]
    some = [(torch.arange(10, 60), K[10:60])]
    own, gram = torch.arange(10), Laplace().gram(C)
    system = CenterSystem(gram, lambda: every, Y, own, lambda: some)
    rough, fine = system.solve(0.1, 0.5), system.solve(0.1, 1e-12)
    assert rough.n_iter < fine.n_iter
    assert float(fine.residual) <= 1e-12
    zero = CenterSystem(gram, lambda: every, 0 * Y, own, lambda: some)
    assert not zero.solve(0.1, 1e-8).coef.any()
    full = CholeskySolver().solve(KernelSystem(Laplace().gram(Rows.of(X)), 0.1), Y)
    assert full.mean_square is None
