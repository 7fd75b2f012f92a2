# SPDX-License-Identifier: BSD-3-Clause
"""From cells to a table and a picture.

The statistics are those of Fernandez-Delgado et al. (JMLR 2014): P90 and P95 are the shares of
data sets on which a model reaches 90% and 95% of the best accuracy among the models, PMA is its
mean share of that best accuracy, and the Friedman rank is its mean rank, ties averaged.
"""

import csv
import io

import numpy as np
from scipy.stats import rankdata

COLUMNS = ("accuracy", "log_loss", "r2", "nrmse", "fit_s", "predict_s")


def to_csv(cells):
    """Return the text of a CSV file, one row a cell (a dict), sorted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "model", "fold", *COLUMNS])
    for (table, model, fold), result in sorted(cells.items()):
        writer.writerow([table, model, fold, *(result.get(name, "") for name in COLUMNS)])
    return out.getvalue()


def complete(cells, models, measure):
    """Return the tables that every model has finished, and their mean measures.

    Returns
    -------
    names : list of str
        Tables.
    values : ndarray of shape (n_tables, n_models)
        Mean over folds.
    """
    by_table = {}
    for (table, model, _), result in cells.items():
        if measure in result:
            by_table.setdefault(table, {}).setdefault(model, []).append(result[measure])
    folds = {t: {len(v) for v in runs.values()} for t, runs in by_table.items()}
    names = [t for t in sorted(by_table) if set(models) <= set(by_table[t]) and len(folds[t]) == 1]
    values = [[np.mean(by_table[t][model]) for model in models] for t in names]
    return names, np.array(values).reshape(len(names), len(models))


def statistics(values, higher=True):
    """Return mean, P90, P95, PMA and Friedman rank of each column, a dict of arrays."""
    ranks = rankdata(-values if higher else values, axis=1)
    out = {"mean": values.mean(axis=0), "rank": ranks.mean(axis=0)}
    if higher:
        share = values / np.maximum(values.max(axis=1, keepdims=True), 1e-12)
        out |= {
            "P90": 100 * (share >= 0.9).mean(axis=0),
            "P95": 100 * (share >= 0.95).mean(axis=0),
            "PMA": 100 * share.mean(axis=0),
        }
    return out


def table(cells, models):
    """Return the text of the tables, one for classification and one for regression."""
    parts = []
    names, accuracy = complete(cells, models, "accuracy")
    if names:
        columns = {"accuracy": 100 * accuracy.mean(axis=0)}
        found = statistics(accuracy)
        columns |= {name: found[name] for name in ("P90", "P95", "PMA")}
        columns["Friedman rank"] = found["rank"]
        columns["log-loss"] = _means(cells, models, names, "log_loss")
        parts.append(_format("classification", names, models, columns, cells, "Friedman rank"))
    names, r2 = complete(cells, models, "r2")
    if names:
        columns = {"R2": r2.mean(axis=0), "nRMSE": _means(cells, models, names, "nrmse")}
        columns["Friedman rank"] = statistics(r2)["rank"]
        parts.append(_format("regression", names, models, columns, cells, "Friedman rank"))
    return "\n\n".join(parts) or "No data set was finished by every model."


def _means(cells, models, names, measure):
    """Return the mean of a measure over tables and folds; NaN where a model lacks it."""
    out = []
    for model in models:
        values = {}
        for (t, m, _), result in cells.items():
            if m == model and t in names:
                values.setdefault(t, []).append(result.get(measure, np.nan))
        out.append(np.mean([np.mean(v) for v in values.values()]))
    return np.array(out)


def _format(task, names, models, columns, cells, by):
    columns = dict(columns, **{"fit s": _means(cells, models, names, "fit_s")})
    width = max(len(model) for model in models)
    n = f"{len(names)} data set{'s' if len(names) > 1 else ''}"
    lines = [f"{task}, {n}: means over data sets and folds", " " * width]
    lines[1] += "".join(f"{name:>15s}" for name in columns)
    for i in np.argsort(columns[by]):
        row = "".join(
            f"{'-' if np.isnan(column[i]) else format(column[i], '.4g'):>15s}"
            for column in columns.values()
        )
        lines.append(f"{models[i]:<{width}s}{row}")
    return "\n".join(lines)


def draw(cells, models, rival, path):
    """Draw the first model against the rival by data set, and the ranks; False without data."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    label = "accuracy" if any("accuracy" in result for result in cells.values()) else "r2"
    names, values = complete(cells, models, label)
    if not names:
        return False
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    ours, theirs = values[:, 0], values[:, models.index(rival)]
    low = max(min(ours.min(), theirs.min()), -1)
    left.plot([low, 1], [low, 1], color="tab:gray", linewidth=1)
    left.scatter(theirs, ours, s=18, alpha=0.7, color="tab:red")
    won, lost = (ours > theirs).sum(), (ours < theirs).sum()
    left.set(
        title=f"{label} by data set: {won} better, {lost} worse",
        xlabel=rival,
        ylabel=models[0],
    )
    rank = statistics(values)["rank"]
    order = np.argsort(rank)[::-1]
    labels = [models[i].rpartition(".")[2] for i in order]
    right.barh(labels, rank[order], color=["tab:gray" if i else "tab:red" for i in order])
    right.set(title="mean rank (lower is better)", xlabel=f"over {len(names)} data sets")
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return True
