# SPDX-License-Identifier: BSD-3-Clause
"""A cell is one model on one fold of one data set; finished ones are on disk."""

import hashlib
import json
import os
import re
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import r2_score

from rfmlearn.benchmark import _models, _paper, _tables

# scikit-learn's floor for a probability of 0
TINY = np.finfo(np.float64).eps


class Store:
    """A folder with one JSON file a finished cell.

    Parameters
    ----------
    folder : path-like
        Made when the first cell is put.
    contents : dict of str to str
        Of each data set a digest of its content: other data under the same name are other cells.
    """

    def __init__(self, folder, contents):
        self.folder, self.contents = Path(folder), contents

    def path(self, cell):
        """Return the file of a cell, a tuple (table, model, fold).

        Its name can be read; that it is no other cell's, a digest of cell and content sees to.
        """
        readable = "--".join(re.sub(r"[^\w.-]", "_", str(part))[:40] for part in cell)
        whole = json.dumps([*map(str, cell), self.contents.get(cell[0])])
        digest = hashlib.sha256(whole.encode()).hexdigest()[:12]
        return self.folder / f"{readable}--{digest}.json"

    def get(self, cell):
        """Return the result of a cell, None where there is none to be had or it failed."""
        try:
            result = json.loads(self.path(cell).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # not there, not readable, or torn: to be done again
            return None
        return result if isinstance(result, dict) and "error" not in result else None

    def put(self, cell, result):
        """Write a result so that a reader sees all of it or nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(cell)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(json.dumps(result), encoding="utf-8")
        part.replace(path)


def run(store, cell, path, task, protocol):
    """Run one cell, (table, model, fold), and store what comes of it, an error too.

    Returns
    -------
    cell, result : tuple and dict
        Both as given and found.
    problem : str or None
        Why the result could not be stored.
    """
    _, model, fold = cell
    try:
        table = _tables.read(path, task)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            paper = protocol == "paper"
            result = _paper.run(table, model) if paper else nested(table, model, fold)
    except Exception as error:  # one failed cell must not end the others
        result = {"error": f"{type(error).__name__}: {error}"}
    try:
        store.put(cell, result)
    except OSError as error:  # what was computed is still reported
        return cell, result, f"{type(error).__name__}: {error}"
    return cell, result, None


def nested(table, name, fold):
    """Fit on the training part, everything chosen within it; score on the test part."""
    train, test = table.folds[fold]
    model = _models.make(name, table.classes)
    start = time.perf_counter()
    model.fit(table.X[train], table.y[train])
    fitted = time.perf_counter()
    predicted = model.predict(table.X[test])
    done = time.perf_counter()
    result = {"fit_s": fitted - start, "predict_s": done - fitted}
    truth = table.y[test]
    if not table.classes:
        error = np.sqrt(np.mean((predicted - truth) ** 2))
        return {"r2": r2_score(truth, predicted), "nrmse": error / truth.std(), **result}
    result["accuracy"] = float(np.mean(predicted == truth))
    if hasattr(model, "predict_proba"):
        result["log_loss"] = log_loss(truth, model.predict_proba(table.X[test]), model.classes_)
    return result


def log_loss(truth, P, classes):
    """Return the mean log-loss; a class that training never saw has probability 0."""
    index = np.searchsorted(classes, truth)
    index = np.minimum(index, len(classes) - 1)
    p = np.where(classes[index] == truth, P[np.arange(len(truth)), index], 0.0)
    return float(-np.log(np.clip(p, TINY, 1)).mean())
