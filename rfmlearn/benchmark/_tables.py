# SPDX-License-Identifier: BSD-3-Clause
"""Data sets on disk: the ``.npz`` form, and the original files of Fernandez-Delgado et al."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold


@dataclass(frozen=True)
class Table:
    """A data set with its splits.

    Attributes
    ----------
    name : str
        Name of the file or folder.
    X : ndarray of shape (n, d)
        Rows, float64; NaN where a value is missing.
    y : ndarray of shape (n,)
        Classes or numbers.
    classes : bool
        Whether y is classes.
    folds : list of (train, test)
        Row indices.
    selection : (train, valid) or None
        The split that the paper protocol selects on.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    classes: bool
    folds: list
    selection: tuple | None = None


def find(folder):
    """Return the readable data sets of a folder: names to paths.

    Raises
    ------
    FileNotFoundError
        If there is none, or no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder.")
    found = {path.stem: path for path in folder.glob("*.npz")}
    found |= {path.name: path for path in folder.iterdir() if (path / f"{path.name}.txt").is_file()}
    if not found:
        raise FileNotFoundError(
            f"{folder} holds neither NAME.npz files nor folders with NAME/NAME.txt in them."
        )
    return dict(sorted(found.items()))


def digest(path):
    """Return a digest of the content of a data set's file, or of all files of its folder."""
    files = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file())
    whole = hashlib.sha256()
    for file in files:
        whole.update(file.name.encode())
        whole.update(file.read_bytes())
    return whole.hexdigest()


def read(path, task="auto"):
    """Return the `Table` at a path that `find` gave.

    Parameters
    ----------
    path : Path
        An ``.npz`` file or a folder.
    task : {"auto", "classification", "regression"}
        "auto" takes whole-number targets for classes.
    """
    return _read_npz(path, task) if path.suffix == ".npz" else _read_folder(path)


def _read_npz(path, task):
    with np.load(path, allow_pickle=False) as data:
        X, y = data["X"].astype(np.float64), data["y"].ravel()
        classes = y.dtype.kind in "iubU" if task == "auto" else task == "classification"
        n_folds = sum(key.startswith("fold") and key.endswith("_train") for key in data)
        if n_folds:
            folds = [(data[f"fold{i}_train"], data[f"fold{i}_test"]) for i in range(n_folds)]
        elif "test_mask" in data:
            folds = [(np.flatnonzero(~m), np.flatnonzero(m)) for m in data["test_mask"]]
        else:
            splitter = StratifiedKFold if classes else KFold
            folds = list(splitter(5, shuffle=True, random_state=0).split(X, y))
        selection = None
        if "select_train" in data:
            selection = data["select_train"], data["select_valid"]
    return Table(path.stem, X, y if classes else y.astype(float), classes, folds, selection)


def _read_folder(folder):
    """Read NAME.txt, NAME_R.dat, conxuntos.dat and conxuntos_kfold.dat."""
    name = folder.name
    lines = (folder / f"{name}.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    head = dict(line.split()[:2] for line in lines if len(line.split()) >= 2)
    rows = np.loadtxt(folder / head.get("fich1=", f"{name}_R.dat"), skiprows=1, ndmin=2)
    d = int(head["n_entradas="])
    X, y = rows[:, 1 : 1 + d], rows[:, -1].astype(int)

    def index_lists(file):
        lines = (folder / file).read_text(encoding="utf-8").splitlines()
        return [np.array(line.split(), dtype=int) for line in lines if line.split()]

    selection = tuple(index_lists("conxuntos.dat")[:2])
    lists = index_lists("conxuntos_kfold.dat")
    return Table(name, X, y, True, list(zip(lists[::2], lists[1::2])), selection)
