# SPDX-License-Identifier: BSD-3-Clause
"""The main job in one run: real data, a table, a picture.

    make demo            (or: python examples/demo.py)

Fits RFM beside kernel ridge regression, a random forest and a support vector machine in
the same 5-fold split of two real data sets, shows what RFM learns of a target whose
relevant directions are known, and draws ``demo.png``.
"""

import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from rfmlearn import RFMClassifier, RFMRegressor
from rfmlearn.datasets import load_yacht, make_multi_index
from rfmlearn.features import top_directions


def cross_validate(model, X, y, folds):
    """Return the mean score and the seconds of one fit and one predict, over the folds."""
    scores, fit, predict = [], [], []
    for train, test in folds:
        pipe = make_pipeline(StandardScaler(), model)
        start = time.perf_counter()
        pipe.fit(X[train], y[train])
        fitted = time.perf_counter()
        scores.append(pipe.score(X[test], y[test]))
        fit.append(fitted - start)
        predict.append(time.perf_counter() - fitted)
    return np.mean(scores), np.std(scores), np.median(fit), np.median(predict)


def compare(title, measure, models, X, y, splitter):
    """Print one table."""
    folds = list(splitter.split(X, y))
    print(f"\n{title}: {len(X)} rows, {X.shape[1]} columns, 5 folds, all at their defaults")
    print(f"  {'':28s} {measure:>16s} {'fit s':>7s} {'predict s':>10s}")
    for name, model in models.items():
        mean, spread, fit, predict = cross_validate(model, X, y, folds)
        print(f"  {name:28s} {mean:9.4f} ±{spread:.4f} {fit:8.3f} {predict:10.3f}")


def draw(model, scores, subspace, path):
    """Draw the learned matrix, its spectrum and the score by iterate."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    M = model.feature_matrix_
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained")
    limit = np.abs(M).max()
    image = left.imshow(M, cmap="RdBu_r", vmin=-limit, vmax=limit)
    figure.colorbar(image, ax=left, shrink=0.85)
    left.set(title="Learned feature matrix M", xlabel="feature", ylabel="feature")
    ticks = range(0, len(M), 5)
    left.set(xticks=ticks, yticks=ticks)
    _, strengths = top_directions(M)
    relevant = np.arange(len(strengths)) < len(subspace)
    middle.bar(
        np.arange(1, len(strengths) + 1),
        strengths,
        color=np.where(relevant, "tab:red", "tab:gray"),
    )
    middle.set(
        title=f"Spectrum: {len(subspace)} directions matter",
        xlabel="eigenvalue",
        yscale="log",
        ylim=(1e-6, 3),
    )
    right.plot(scores, "o-", color="tab:red")
    right.axhline(scores[0], color="tab:gray", linestyle="--", label="kernel ridge (iterate 0)")
    right.set(title="R2 on fresh rows", xlabel="iterate", xticks=range(len(scores)), ylim=(0, 1))
    right.legend(loc="lower right", frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def multi_index(path):
    """Show that M finds the directions that matter."""
    X, y, subspace = make_multi_index(1280, 20, random_state=0)
    Q, q, _ = make_multi_index(1280, 20, random_state=1)
    print("\nA known target: y = x0 x1 + sin(2 x2) + 0.1 noise, 1280 rows, 20 normal columns")
    print(f"  {'iterate':8s} {'R2, fresh rows':>15s} {'subspace found':>15s}")
    scores = []
    for t in range(6):
        model = RFMRegressor(max_iter=t).fit(X, y)
        scores.append(r2_score(q, model.predict(Q)))
        found = ""
        if t > 0:
            directions, _ = top_directions(model.feature_matrix_, len(subspace))
            # smallest cosine between the two subspaces: 1 when they are the same
            found = f"{np.linalg.svd(directions @ subspace.T, compute_uv=False)[-1]:.4f}"
        print(f"  {t:<8d} {scores[-1]:15.4f} {found:>15s}")
    top = np.argsort(model.feature_importances_)[::-1]
    named = ", ".join(f"x{i} {model.feature_importances_[i]:.2f}" for i in top[:5])
    print(f"  feature_importances_: {named}, ...")
    draw(model, scores, subspace, path)
    print(f"\nPicture: {path.name}")


def main():
    digits, classes = load_digits(return_X_y=True)
    compare(
        "Handwritten digits (scikit-learn)",
        "accuracy",
        {
            "RFMClassifier": RFMClassifier(),
            "kernel ridge (max_iter=0)": RFMClassifier(max_iter=0),
            "RandomForestClassifier": RandomForestClassifier(random_state=0),
            "SVC": SVC(),
        },
        digits,
        classes,
        StratifiedKFold(5, shuffle=True, random_state=0),
    )
    hulls, resistance = load_yacht(return_X_y=True)
    compare(
        "Yacht hydrodynamics (rfmlearn)",
        "R2",
        {
            "RFMRegressor": RFMRegressor(),
            "kernel ridge (max_iter=0)": RFMRegressor(max_iter=0),
            "RandomForestRegressor": RandomForestRegressor(random_state=0),
            "SVR": SVR(),
        },
        hulls,
        resistance,
        KFold(5, shuffle=True, random_state=0),
    )
    multi_index(Path("demo.png"))


if __name__ == "__main__":
    main()
