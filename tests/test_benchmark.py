# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark runner: readers, cells, statistics, resumption after a kill."""

import csv
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold, train_test_split

from rfmlearn.benchmark import _cells, _models, _paper, _report, _tables
from rfmlearn.benchmark.__main__ import main


def iris_splits(seed=0):
    X, y = load_iris(return_X_y=True)
    folds = list(StratifiedKFold(4, shuffle=True, random_state=seed).split(X, y))
    selection = train_test_split(np.arange(150), test_size=0.5, random_state=seed, stratify=y)
    return X, y.astype(np.int32), folds, selection


@pytest.fixture
def folder(tmp_path):
    """Two classification sets and a regression set."""
    for seed, name in enumerate(["iris", "iris-again"]):
        X, y, folds, (train, valid) = iris_splits(seed)
        parts = {f"fold{i}_{side}": rows for i, fold in enumerate(folds)
                 for side, rows in zip(("train", "test"), fold)}  # fmt: skip
        np.savez(
            tmp_path / f"{name}.npz", X=X, y=y, select_train=train, select_valid=valid, **parts
        )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    X[3, 1] = np.nan
    mask = np.zeros((2, 80), dtype=bool)
    mask[0, :20] = mask[1, 20:40] = True
    np.savez(tmp_path / "line.npz", X=X, y=np.nan_to_num(X) @ [1.0, 2.0, 3.0], test_mask=mask)
    return tmp_path


def write_original_form(folder, name, X, y, folds, selection):
    """The files as Fernandez-Delgado et al. ship them."""
    base = folder / name
    base.mkdir()
    (base / f"{name}.txt").write_text(
        f"n_arquivos= 1\nfich1= {name}_R.dat\nn_patrons1= {len(X)}\nn_entradas= {X.shape[1]}\n"
        f"n_clases= {len(set(y))}\n"
    )
    header = "\t".join(["", *(f"f{k + 1}" for k in range(X.shape[1])), "clase"])
    rows = ["\t".join(map(str, [i + 1, *x, label])) for i, (x, label) in enumerate(zip(X, y))]
    (base / f"{name}_R.dat").write_text("\n".join([header, *rows]) + "\n")
    (base / "conxuntos.dat").write_text("".join(" ".join(map(str, p)) + " \n" for p in selection))
    lines = [" ".join(map(str, part)) + " \n" for fold in folds for part in fold]
    (base / "conxuntos_kfold.dat").write_text("".join(lines))


def test_both_forms_on_disk_give_the_same_table(folder, tmp_path):
    X, y, folds, selection = iris_splits()
    write_original_form(tmp_path, "original", X, y, folds, selection)
    found = _tables.find(tmp_path)
    assert list(found) == ["iris", "iris-again", "line", "original"]
    a, b = _tables.read(found["iris"]), _tables.read(found["original"])
    np.testing.assert_array_equal(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)
    for mine, theirs in zip([*a.folds, a.selection], [*b.folds, b.selection], strict=True):
        for p, q in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(p, q)
    line = _tables.read(found["line"])
    assert not line.classes
    np.testing.assert_array_equal(line.folds[1][1], np.arange(20, 40))
    assert _tables.read(found["iris"], "regression").classes is False
    with pytest.raises(FileNotFoundError, match=r"neither NAME\.npz files nor folders"):
        _tables.find(tmp_path / "original")
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        _tables.find(tmp_path / "nowhere")


def test_statistics_follow_their_definitions():
    values = np.array([[0.90, 0.80, 0.90], [0.50, 1.00, 0.96], [0.70, 0.70, 0.60]])
    found = _report.statistics(values)
    np.testing.assert_allclose(found["mean"], values.mean(0))
    np.testing.assert_allclose(
        found["rank"], [(1.5 + 3 + 1.5) / 3, (3 + 1 + 1.5) / 3, (1.5 + 2 + 3) / 3]
    )
    share = values / [[0.9], [1.0], [0.7]]
    np.testing.assert_allclose(found["P90"], 100 * (share >= 0.9).mean(0))
    np.testing.assert_allclose(found["P95"], 100 * (share >= 0.95).mean(0))
    np.testing.assert_allclose(found["PMA"], 100 * share.mean(0))


def test_log_loss_counts_a_class_that_training_never_saw_as_impossible():
    P = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
    got = _cells.log_loss(np.array([1, 2, 3]), P, np.array([1, 3]))
    tiny = np.log(np.finfo(float).eps)
    np.testing.assert_allclose(got, -(np.log(0.25) + tiny + tiny) / 3)


def run_main(folder, out, *more):
    return main(["--data", str(folder), "--out", str(out), *more])


def rows_of(out, *columns):
    with open(out) as lines:
        return [tuple(row[c] for c in columns) for row in csv.DictReader(lines)]


def test_a_run_ends_in_table_cells_and_picture(folder, capsys):
    out = folder / "results" / "small.csv"
    models = ["rfm-plain", "sklearn.neighbors.KNeighborsClassifier"]
    status = run_main(
        folder, out, "--sets", "iris", "iris-again", "absent", "--models", *models, "nope"
    )
    said = capsys.readouterr()
    assert status == 0
    assert "skipped model nope: there is no such model" in said.out
    assert "skipped data set absent: not in" in said.out
    assert "classification, 2 data sets" in said.out
    assert "8/16" in said.err
    assert out.with_suffix(".png").stat().st_size > 5000
    X, y, folds, _ = iris_splits()
    train, test = folds[0]
    model = _models.make("rfm-plain", True).fit(X[train], y[train])
    cells = {
        (t, m, f): accuracy
        for t, m, f, accuracy in rows_of(out, "table", "model", "fold", "accuracy")
    }
    assert len(cells) == 16
    assert float(cells["iris", "rfm-plain", "0"]) == model.score(X[test], y[test])


def test_regression_is_told_apart_and_missing_values_are_imputed(folder, capsys):
    out = folder / "line.csv"
    assert run_main(folder, out, "--sets", "line", "--models", "rfm-plain", "hgb") == 0
    assert "regression, 1 data set:" in capsys.readouterr().out
    assert all(float(r2) > 0.5 for (r2,) in rows_of(out, "r2"))


def test_a_failing_cell_is_reported_and_tried_again(folder, capsys, monkeypatch):
    out = folder / "fail.csv"
    args = ("--sets", "iris", "--models", "rfm-plain", "krr")

    def broken(table, name, fold):
        if name == "krr" and fold == 2:
            raise RuntimeError("out of luck")
        return {"accuracy": 0.5, "fit_s": 1.0}

    monkeypatch.setattr(_cells, "nested", broken)
    assert run_main(folder, out, *args) == 1
    assert "failed iris krr 2: RuntimeError: out of luck" in capsys.readouterr().out
    monkeypatch.setattr(_cells, "nested", lambda *cell: {"accuracy": 0.25, "fit_s": 1.0})
    assert run_main(folder, out, *args) == 0
    assert "8 cells, 7 of them done already" in capsys.readouterr().out
    assert sorted(a for (a,) in rows_of(out, "accuracy")) == ["0.25"] + ["0.5"] * 7


def test_large_and_unreadable_sets_are_skipped_with_a_reason(folder, capsys):
    (folder / "broken.npz").write_bytes(b"not a file of numpy")
    out = folder / "skip.csv"
    assert run_main(folder, out, "--max-rows", "100", "--models", "hgb") == 0
    said = capsys.readouterr().out
    assert "skipped data set iris: 150 rows, more than 100" in said
    assert "skipped data set broken: cannot be read" in said
    assert run_main(folder, out, "--max-rows", "10", "--models", "hgb") == 2


def test_the_paper_protocol_follows_the_rules(folder, capsys):
    out = folder / "paper.csv"
    assert (
        run_main(folder, out, "--sets", "iris", "--models", "rfm", "krr", "--protocol", "paper")
        == 0
    )
    X, y, folds, (train, valid) = iris_splits()
    Y = np.eye(3)[y]

    def kernel(A, B, M):
        sq = ((A[:, None] - B) @ M * (A[:, None] - B)).sum(2)
        return np.exp(-np.sqrt(np.maximum(sq, 0)) / 10)

    best = (-1,)
    for ridge in (10, 1, 0.1, 0.01, 0.001):
        for normalise in (False, True):
            Z = X / np.linalg.norm(X, axis=1, keepdims=True) if normalise else X
            K = kernel(Z[train], Z[train], np.eye(4))
            a = np.linalg.solve(K + ridge * np.eye(75), Y[train])
            right = (kernel(Z[valid], Z[train], np.eye(4)) @ a).argmax(1) == y[valid]
            if right.mean() > best[0]:
                best = right.mean(), ridge, Z
    _, ridge, Z = best
    scores = []
    for part, test in folds:
        a = np.linalg.solve(
            kernel(Z[part], Z[part], np.eye(4)) + ridge * np.eye(len(part)), Y[part]
        )
        scores.append(((kernel(Z[test], Z[part], np.eye(4)) @ a).argmax(1) == y[test]).mean())
    cells = dict(rows_of(out, "model", "accuracy"))
    np.testing.assert_allclose(float(cells["krr"]), np.mean(scores), rtol=1e-12)
    with pytest.raises(ValueError, match="for rfm and krr, not for svm"):
        _paper.run(_tables.read(folder / "iris.npz"), "svm")


@pytest.mark.slow
def test_killed_in_the_middle_and_started_again_it_gives_the_same_table(folder):
    command = [sys.executable, "-m", "rfmlearn.benchmark", "--n-jobs", "2", "--data", str(folder)]
    command += ["--sets", "iris", "iris-again", "--models", "rfm-plain", "hgb", "--out"]
    whole, broken = folder / "whole.csv", folder / "broken.csv"
    subprocess.run([*command, str(whole)], check=True, capture_output=True)
    process = subprocess.Popen(
        [*command, str(broken)], start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    cells = folder / "broken.csv.cells" / "nested"
    deadline = time.monotonic() + 120
    while len(list(cells.glob("*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert 3 <= len(list(cells.glob("*.json"))) < 16
    assert not broken.exists()
    subprocess.run([*command, str(broken)], check=True, capture_output=True)
    columns = ("table", "model", "fold", "accuracy", "log_loss")
    assert rows_of(broken, *columns) == rows_of(whole, *columns)


@pytest.mark.parametrize("name", ["lightgbm", "xrfm", "xrfm20"])
@pytest.mark.parametrize("classes", [True, False])
def test_the_optional_rivals_run_where_installed(name, classes):
    if _models.why_not(name):
        pytest.skip(_models.why_not(name))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.where(X[:, 0] > 0, 5, 2) if classes else 30 + 10 * X[:, 0]
    model = _models.make(name, classes).fit(X, y)
    assert model.score(X, y) > 0.7


def test_fewer_folds_and_the_rest_later(folder):
    out = folder / "few.csv"
    options = ["--sets", "iris", "--models", "sklearn.dummy.DummyClassifier"]
    assert run_main(folder, out, *options, "--folds", "2") == 0
    assert rows_of(out, "fold") == [("0",), ("1",)]
    assert run_main(folder, out, *options) == 0
    assert len(rows_of(out, "fold")) == 4


def test_the_svm_takes_a_class_of_one_row_and_a_table_of_seven():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(-3, 1, (4, 2)), rng.normal(3, 1, (2, 2)), [[20.0, 20.0]]])
    y = np.array(["a"] * 4 + ["b"] * 2 + ["c"])
    model = _models.make("svm", True).fit(X, y)
    np.testing.assert_array_equal(model.predict(X[:6]), y[:6])
    assert model.score(X, y) >= 6 / 7


def test_the_probabilities_of_the_svm_are_calibrated_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    model = _models.make("svm", True).fit(X[:200], y[:200])
    P = model.predict_proba(X[200:])
    np.testing.assert_allclose(P.sum(axis=1), 1)
    # the truth, Phi(x) with x normal, has expected log-loss int_0^1 H(u) du = 0.5
    assert _cells.log_loss(y[200:], P, model.classes_) < 0.62


def test_the_svm_regressor_scales_the_target():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1))
    model = _models.make("svm", False).fit(X, 1e4 + 1e3 * np.sin(X[:, 0]))
    assert model.score(X, 1e4 + 1e3 * np.sin(X[:, 0])) > 0.95


# ---------------------------------------------------------------- what users of runners report


def made_up(folder, name, seed):
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((50, 3))
    np.savez(folder / f"{name}.npz", X=A, y=A[:, 0] if seed % 2 else rng.standard_normal(50))


def command(data, out, *more, **env):
    words = ["--data", data, "--models", "krr", "--folds", "1", "--out", out, *more]
    return subprocess.run(
        [sys.executable, "-m", "rfmlearn.benchmark", *map(str, words)],
        capture_output=True, timeout=120, encoding="utf-8", env={**os.environ, **env},
    )  # fmt: skip


def figures(out):
    """Return the figures of each line of a result, without its times."""
    lines = csv.DictReader(out.read_text(encoding="utf-8").splitlines())
    return {line["table"]: line["r2"] for line in lines}


@pytest.mark.parametrize("size", ["half", "nothing"])
def test_one_broken_table_does_not_end_the_run(tmp_path, size):
    # MedMNIST/MedMNIST#39, bowang-lab/MedSAM#112: neither an OSError nor a ValueError
    data = tmp_path / "data"
    made_up(data, "good", 1)
    made_up(data, "bad", 3)
    whole = (data / "bad.npz").read_bytes()
    (data / "bad.npz").write_bytes(whole[: len(whole) // 2] if size == "half" else b"")
    done = command(data, tmp_path / "o.csv")
    assert "Traceback" not in done.stderr and done.returncode == 0
    assert "skipped data set bad: cannot be read" in done.stdout
    assert set(figures(tmp_path / "o.csv")) == {"good"}


def test_names_that_look_alike_have_cells_of_their_own(tmp_path):
    # esqLABS/esqlabsR#1084, ndenev/k8sql#66
    data, out = tmp_path / "data", tmp_path / "o.csv"
    for name, seed in (("a b", 1), ("a+b", 2), ("größe 数据", 3)):
        made_up(data, name, seed)
    assert command(data, out).returncode == 0
    found = figures(out)
    assert len(set(found.values())) == 3
    again = command(data, out)
    assert "3 of them done already" in again.stdout and figures(out) == found
    # other rows under an old name are not what was computed for it
    made_up(data, "a b", 5)
    assert "2 of them done already" in command(data, out).stdout
    assert figures(out)["a b"] != found["a b"] and figures(out)["a+b"] == found["a+b"]


def test_a_torn_cell_is_done_again(tmp_path):
    data, out = tmp_path / "data", tmp_path / "o.csv"
    made_up(data, "one", 1)
    command(data, out)
    found = figures(out)
    (cell,) = (tmp_path / "o.csv.cells").rglob("*.json")
    for content in ("", '{"r2": 0.', "[1]", "\x00"):
        cell.write_text(content)
        assert command(data, out).returncode == 0
        assert figures(out) == found


def test_files_are_written_in_utf_8_whatever_the_machine_speaks(tmp_path):
    # davanstrien/flyswot PR#750, cqfn/veniq PR#69
    made_up(tmp_path / "data", "größe 数据", 1)
    done = command(
        tmp_path / "data", tmp_path / "o.csv",
        PYTHONWARNDEFAULTENCODING="1", PYTHONIOENCODING="ascii", LC_ALL="C",
    )  # fmt: skip
    assert done.returncode == 0 and set(figures(tmp_path / "o.csv")) == {"größe 数据"}
    ours = [s for s in done.stderr.splitlines() if "EncodingWarning" in s and "rfmlearn" in s]
    assert not ours


def test_results_that_cannot_be_kept_are_reported(tmp_path):
    made_up(tmp_path / "data", "one", 1)
    (tmp_path / "o.csv.cells").write_text("a file where the folder should be")
    done = command(tmp_path / "data", tmp_path / "o.csv")
    assert "Traceback" not in done.stderr
    assert "not kept for the next run: one krr 0" in done.stdout
    assert set(figures(tmp_path / "o.csv")) == {"one"}
    nowhere = command(tmp_path / "data", tmp_path / "o.csv" / "deeper" / "o.csv")
    assert nowhere.returncode == 2 and nowhere.stderr.startswith("error: ")
    assert "Traceback" not in nowhere.stderr


def test_arguments_that_make_no_sense(tmp_path):
    made_up(tmp_path / "data", "one", 1)
    zero = command(tmp_path / "data", tmp_path / "o.csv", "--folds", "0")
    assert zero.returncode == 2 and "0 is not positive" in zero.stderr
    twice = command(tmp_path / "data", tmp_path / "o.csv", "--models", "krr", "krr")
    assert twice.returncode == 0 and "1 cells" in twice.stdout
