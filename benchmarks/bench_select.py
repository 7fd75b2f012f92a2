# SPDX-License-Identifier: BSD-3-Clause
"""Selection time of RFMRegressorCV against the same search by GridSearchCV.

The Laplace kernel, 3 bandwidths x 2 kinds of metric x 6 iterates x 5 ridges in 5 folds, on the
first 700 rows of scikit-learn's digits, the target +-1 for even and odd. Both searches run in
this process, alternating; the table quotes medians, and the choices are compared.

    python benchmarks/bench_select.py [--rows 700] [--repeats 2]
"""

import argparse
import time
from statistics import median

from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import StandardScaler

from rfmlearn import RFMRegressor, RFMRegressorCV


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=700)
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    X, y = load_digits(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[: args.rows], 1.0 - 2 * (y[: args.rows] % 2)
    cv = KFold(5, shuffle=True, random_state=0)
    ours = RFMRegressorCV("laplace", diag=(False, True), cv=cv)
    grid = GridSearchCV(
        RFMRegressor(agop_alpha=ours.agop_alpha),
        {
            "bandwidth": ours.bandwidths,
            "diag": ours.diag,
            "max_iter": range(ours.max_iter + 1),
            "alpha": ours.alphas,
        },
        cv=cv,
        scoring="neg_mean_squared_error",
    )
    seconds = {"GridSearchCV": [], "RFMRegressorCV": []}
    for _ in range(args.repeats):
        for name, search in (("GridSearchCV", grid), ("RFMRegressorCV", ours)):
            start = time.perf_counter()
            search.fit(X, y)
            seconds[name].append(time.perf_counter() - start)
    print(f"{args.rows} rows, {X.shape[1]} columns, {len(ours.cv_results_['params'])} candidates")
    for name, search in (("GridSearchCV", grid), ("RFMRegressorCV", ours)):
        chosen = {k: search.best_params_[k] for k in ("bandwidth", "diag", "max_iter", "alpha")}
        print(f"{name:16s} {median(seconds[name]):8.2f} s  {search.best_score_:.6f}  {chosen}")
    print(
        f"{median(seconds['GridSearchCV']) / median(seconds['RFMRegressorCV']):.1f} times as fast"
    )


if __name__ == "__main__":
    main()
