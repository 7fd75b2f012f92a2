# SPDX-License-Identifier: BSD-3-Clause
"""Selection time of RFMClassifierCV against the same search by GridSearchCV.

The default grid, 3 bandwidths x 2 kinds of metric x 6 iterates x 5 ridges in 5 folds, on the
first 700 rows of scikit-learn's digits, two classes (even and odd). Both searches run in this
process, alternating; the table quotes medians, and the choices are compared.

    python benchmarks/bench_select.py [--rows 700] [--repeats 2]
"""

import argparse
import time
from statistics import median

from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from rfmlearn import RFMClassifier, RFMClassifierCV


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=700)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[: args.rows], y[: args.rows] % 2
    cv = StratifiedKFold(5, shuffle=True, random_state=0)
    ours = RFMClassifierCV(cv=cv, scoring="roc_auc")
    grid = GridSearchCV(
        RFMClassifier(agop_alpha=ours.agop_alpha),
        {
            "bandwidth": ours.bandwidths,
            "diag": ours.diag,
            "max_iter": range(ours.max_iter + 1),
            "alpha": ours.alphas,
        },
        cv=cv,
        scoring="roc_auc",
    )
    seconds = {"GridSearchCV": [], "RFMClassifierCV": []}
    for _ in range(args.repeats):
        for name, search in (("GridSearchCV", grid), ("RFMClassifierCV", ours)):
            start = time.perf_counter()
            search.fit(X, y)
            seconds[name].append(time.perf_counter() - start)
    print(f"{args.rows} rows, {X.shape[1]} columns, {len(ours.cv_results_['params'])} candidates")
    for name, search in (("GridSearchCV", grid), ("RFMClassifierCV", ours)):
        chosen = {k: search.best_params_[k] for k in ("bandwidth", "diag", "max_iter", "alpha")}
        print(f"{name:16s} {median(seconds[name]):8.2f} s  {search.best_score_:.6f}  {chosen}")
    print(
        f"{median(seconds['GridSearchCV']) / median(seconds['RFMClassifierCV']):.1f} times as fast"
    )


if __name__ == "__main__":
    main()
