# SPDX-License-Identifier: BSD-3-Clause
"""Choosing the parameters of a kernel machine by cross-validation of whole paths."""

import warnings
from functools import partial
from itertools import product
from numbers import Integral, Real

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from scipy.stats import rankdata
from sklearn import get_config
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
    check_cv,
)
from sklearn.utils import check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, process_routing

from rfmlearn._base._params import listed
from rfmlearn._base._sklearn import Interval, StrOptions, fit_context
from rfmlearn._base._targets import centre
from rfmlearn._typing import Any, ArrayLike, Callable, RandomState, Self, Sequence
from rfmlearn.kernels import KERNELS, Kernel
from rfmlearn.rfm._machine import BaseKernelMachine
from rfmlearn.rfm._path import Path, Rowset
from rfmlearn.rfm._scoring import OutputScorer, scorer_scores, squared_error_scores
from rfmlearn.rfm._spec import RecursionSpec
from rfmlearn.solvers import Solver

# Up to here the default is five folds; beyond, one split is precise enough and five times
# as fast.
MAX_ROWS_FOR_FOLDS = 3000

_SHARED = (
    "bandwidth_mode",
    "max_iter",
    "agop_alpha",
    "agop_power",
    "matrix_scaling",
    "center_gradients",
    "n_agop_samples",
    "agop_outputs",
    "n_centers",
    "solver",
    "memory_budget",
    "device",
    "random_state",
)


# Scores this close to the best, relative to it, are as good. Held-out scores in float32 differ from
# those in float64 by 1e-6, at most 2e-5 of themselves (six tables), and by as much for the order of
# rows or a weight in place of a repetition: no choice is to turn on that. The best two candidates
# of a search are usually 1e-3 apart.
NEAR = 1e-4


def _simplest_of_the_best(grid, mean):
    """Return the index of the best candidate; among equals fewer updates, then the larger ridge."""
    bar = np.nanmax(mean) - NEAR * abs(np.nanmax(mean))
    near = np.flatnonzero(mean >= bar)
    return int(min(near, key=lambda k: (grid[k]["max_iter"], -grid[k]["alpha"], k)))


class BaseRFMCV(BaseKernelMachine):
    """Selection over whole paths, then one fit on all rows.

    A subclass adds a task and names the estimator of one set of parameters in
    `_plain_class`.
    """

    _parameter_constraints = {
        "kernels": [StrOptions(set(KERNELS)), Kernel, "array-like"],
        "bandwidths": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "alphas": [Interval(Real, 0, None, closed="left"), "array-like"],
        "diag": [StrOptions({"auto"}), "boolean", "array-like"],
        **{name: BaseKernelMachine._parameter_constraints[name] for name in _SHARED},
        "agop_alpha": [Interval(Real, 0, None, closed="left")],
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "refit": ["boolean"],
        "n_jobs": [int, None],
    }

    def __init__(
        self,
        kernels: str | Kernel | Sequence[str | Kernel] = (
            "laplace",
            "product_laplace",
            "gaussian",
        ),
        *,
        bandwidths: float | Sequence[float] = (0.5, 1.0, 2.0),
        alphas: float | Sequence[float] = (1e-3, 1e-2, 1e-1, 1.0, 10.0),
        diag: str | bool | Sequence[bool] = "auto",
        bandwidth_mode: str = "adaptive",
        max_iter: int = 5,
        agop_alpha: float = 1e-2,
        agop_power: float = 1.0,
        matrix_scaling: str | None = "spectral",
        center_gradients: bool = False,
        n_agop_samples: int | None = None,
        agop_outputs: str | int = "auto",
        n_centers: int | None = None,
        solver: str | Solver = "auto",
        memory_budget: int | None = None,
        cv: Any = None,
        scoring: str | Callable | None = None,
        refit: bool = True,
        n_jobs: int | None = None,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        self.kernels = kernels
        self.bandwidths = bandwidths
        self.alphas = alphas
        self.diag = diag
        self.bandwidth_mode = bandwidth_mode
        self.max_iter = max_iter
        self.agop_alpha = agop_alpha
        self.agop_power = agop_power
        self.matrix_scaling = matrix_scaling
        self.center_gradients = center_gradients
        self.n_agop_samples = n_agop_samples
        self.agop_outputs = agop_outputs
        self.n_centers = n_centers
        self.solver = solver
        self.memory_budget = memory_budget
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state

    # with metadata routing `groups` are the splitter's, not the estimator's own
    __metadata_request__fit = {"groups": UNUSED}

    @fit_context()
    def fit(  # type: ignore[override]
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Choose the parameters by cross-validation, then fit on all rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows. float32 stays float32; everything else becomes float64.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets; class labels, one per row, for a classifier.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, in the fits and in the scores of held-out rows.
        groups : array-like of shape (n_samples,), default=None
            Rows of one group (a patient, a batch) stay on one side of every split: of the
            default ones, which are then drawn by group, or of a `cv` that knows groups.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter or the data cannot be used (see `RFMRegressor.fit`), a split
            leaves one side without rows, or there are fewer than two rows or groups.
        MemoryError
            If the kernel matrix does not fit into what is free.
        """
        context = self._init_callback_context(max_subtasks=2)
        context.call_on_fit_task_begin(estimator=self)
        X, y, seen = self._check_fit(X, y)
        rows, target = self._rowset(X, y, sample_weight)
        folds = [(rows.take(train), rows.take(test)) for train, test in self._splits(X, y, groups)]
        if not all(len(side.X) for fold in folds for side in fold):
            raise ValueError("cv gives a split one side of which has no row of positive weight.")
        parallel = Parallel(n_jobs=self.n_jobs)
        paths = self._paths(at_once=effective_n_jobs(self.n_jobs))
        select = context.subcontext("select").call_on_fit_task_begin(estimator=self)
        score = self._fold_score(target, rows, weighted=sample_weight is not None)
        scores = self._score(paths, folds, score, parallel)
        select.call_on_fit_task_end(estimator=self)
        fitted = {**seen, **self._results(paths, scores)}
        if self.refit:
            refit = context.subcontext("refit").call_on_fit_task_begin(estimator=self)
            model = self._plain(**fitted["best_params_"])
            with refit.propagate_callback_context(model):
                model.fit(X, y, sample_weight)
            refit.call_on_fit_task_end(estimator=self)
            skip = {*seen, "n_iter_", "_stored"}
            fitted.update((k, vars(model)[k]) for k in model._stored if k not in skip)
            fitted.update(self._calibrate(fitted["best_params_"], folds, target, parallel))
        self._store(fitted)
        context.call_on_fit_task_end(estimator=self)
        return self

    def _rowset(self, X, y, sample_weight):
        """Return all rows, and the target fitted to those that have weight."""
        own, weight = self._training_weights(sample_weight, X, y)
        keep = weight > 0
        target = self._target().fit(y[keep])
        encoded = target.encode(y[keep])
        Y = np.zeros((len(X), encoded.shape[1]))  # no split takes a row without weight
        Y[keep] = encoded
        return Rowset(X, y, Y, weight, own, target.units), target

    def _score(self, paths, folds, score, parallel):
        """Return the scores of all candidates, (paths, folds, iterates times ridges)."""
        n, n_outputs = max(fold[0].Y.shape for fold in folds)
        at_once = min(effective_n_jobs(self.n_jobs), len(paths) * len(folds))
        with paths[0].guard(n, n_outputs, folds[0][0].X.dtype.itemsize, at_once):
            scores = parallel(
                delayed(score)(path, train, test) for path, (train, test) in product(paths, folds)
            )
        return np.reshape(scores, (len(paths), len(folds), -1))

    def _cv(self):
        """Return `cv`; where it holds the splits themselves, as a list of them."""
        if hasattr(self.cv, "get_n_splits") or isinstance(self.cv, Integral):
            return self.cv
        splits = list(self.cv)

        def is_pair(split):
            several = isinstance(split, Sequence | np.ndarray) and len(split) == 2
            return several and all(np.ndim(part) == 1 for part in split)

        if not splits or not all(map(is_pair, splits)):
            raise ValueError(
                f"cv={self.cv!r} must be a splitter, a number of folds, or pairs of arrays: the "
                "rows to learn from and those to score."
            )
        return splits

    def _splits(self, X, y, groups):
        """Return the splits as a list, by the user's `cv` or by the automatic rule."""
        classes = is_classifier(self)
        if groups is not None:
            if get_config()["enable_metadata_routing"]:
                process_routing(self, "fit", groups=groups)
            groups = column_or_1d(groups)
            check_consistent_length(X, groups)
        if self.cv is not None:
            return list(check_cv(self._cv(), y, classifier=classes).split(X, y, groups))
        n, seed = len(X), {"random_state": self.random_state}
        if n < 2:
            raise ValueError(f"n_samples={n}: cross-validation needs at least two rows.")
        counts = np.unique(y, return_counts=True)[1] if classes else None
        if groups is not None:
            splitter = self._by_group(n, len(np.unique(groups)), counts)
        elif n > MAX_ROWS_FOR_FOLDS:
            # a class of one row cannot be on both sides
            kind = StratifiedShuffleSplit if classes and counts.min() > 1 else ShuffleSplit
            splitter = kind(1, test_size=0.2, **seed)
        elif classes and counts.max() > 1:
            # classes smaller than the number of folds are spread as far as they go
            splitter = StratifiedKFold(int(np.clip(counts.max(), 2, 5)), shuffle=True, **seed)
        else:
            splitter = KFold(min(5, n), shuffle=True, **seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            return list(splitter.split(X, y, groups))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata reach the splitter.

        Returns
        -------
        MetadataRouter
            ``sample_weight`` is the estimator's own, ``groups`` go to `cv` or the default splits.
        """
        splitter = GroupKFold() if self.cv is None else check_cv(self.cv)
        mapping = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(splitter=splitter, method_mapping=mapping)

    def _by_group(self, n, n_groups, counts):
        """Return the splitter for n rows in groups, in classes of so many rows."""
        if n_groups < 2:
            raise ValueError("groups hold one group only: cross-validation needs at least two.")
        if n > MAX_ROWS_FOR_FOLDS:
            return GroupShuffleSplit(1, test_size=0.2, random_state=self.random_state)
        n_folds = min(5, n_groups)
        by_class = counts is not None and counts.max() >= n_folds
        kind = StratifiedGroupKFold if by_class else GroupKFold
        return kind(n_folds, shuffle=True, random_state=self.random_state)

    def _plain(self, **parameters):
        """Return the plain estimator with these parameters."""
        shared = {name: getattr(self, name) for name in _SHARED}
        if hasattr(self, "class_weight"):
            shared["class_weight"] = self.class_weight
        return self._plain_class(**{**shared, **parameters})

    def _spec(self, **parameters):
        """Return one recursion; its random rows are those of the plain estimator."""
        return RecursionSpec.of(self, check_random_state(self.random_state), **parameters)

    def _paths(self, at_once):
        """Return the recursions to run, in the order of `cv_results_`."""
        kernels = listed("kernels", self.kernels, (str, Kernel), "name or Kernel")
        alphas = listed("alphas", self.alphas)
        # from the largest on, so that among equals the smoothest comes first
        alphas = tuple(float(alpha) for alpha in np.unique(alphas)[::-1])
        paths = []
        for kernel, bandwidth, diag in self._kinds(kernels):
            kind = {"kernel": kernel, "bandwidth": bandwidth, "diag": diag}
            for alpha in alphas:  # each value must be one that the plain estimator takes
                self._plain(**kind, alpha=alpha)._validate_params()
            paths.append(Path.of(self._spec(**kind, alphas=alphas), at_once))
        if not paths or not alphas:
            raise ValueError("kernels, bandwidths, alphas and diag must each hold a value.")
        return paths

    def _kinds(self, kernels):
        """Yield kernel, bandwidth and kind of metric of each recursion."""
        for kernel, bandwidth in product(kernels, listed("bandwidths", self.bandwidths)):
            if isinstance(self.diag, str):
                known = KERNELS.get(kernel) if isinstance(kernel, str) else kernel
                kinds = [not getattr(known, "rotation_invariant", True)]
            else:
                kinds = listed("diag", self.diag, bool | np.bool_, "boolean")
            for diag in kinds:
                yield kernel, float(bandwidth), bool(diag)

    def _fold_score(self, target, rows, weighted):
        """Return the function that scores a path on one fold."""
        if self.scoring is None:
            # of several outputs each in units of its spread; of one as it is
            several = target.units == "own" and rows.Y.shape[1] > 1
            unit = centre(rows.Y, rows.weight).scale if several else 1.0
            return partial(squared_error_scores, unit=unit)
        score = OutputScorer(target, check_scoring(self._plain(), self.scoring), weighted)
        return partial(scorer_scores, score=score)

    def _results(self, paths, scores):
        """Return `cv_results_` and the best of them; scores (paths, folds, candidates)."""
        grid = [
            {
                "kernel": path.spec.kernel,
                "bandwidth": path.spec.bandwidth,
                "diag": path.spec.diag,
                "max_iter": iterate,
                "alpha": alpha,
                "agop_alpha": path.spec.agop_alpha,
            }
            for path in paths
            for iterate in range(self.max_iter + 1)
            for alpha in path.spec.alphas
        ]
        scores = scores.transpose(0, 2, 1).reshape(len(grid), -1)
        mean = scores.mean(axis=1)
        if np.isnan(mean).all():
            raise ValueError(
                "The scores of all candidates are NaN: `scoring` refuses every prediction."
            )
        best = _simplest_of_the_best(grid, mean)
        results = {"params": grid}
        for name in grid[0]:
            values = [candidate[name] for candidate in grid]
            column = np.empty(len(grid), dtype=object) if name == "kernel" else np.array(values)
            column[:] = values
            results[f"param_{name}"] = column
        results.update((f"split{k}_test_score", scores[:, k]) for k in range(scores.shape[1]))
        results["mean_test_score"] = mean
        results["std_test_score"] = scores.std(axis=1)
        worst = np.nan_to_num(-mean, nan=np.inf)
        results["rank_test_score"] = rankdata(worst, method="min").astype(np.int32)
        return {
            "cv_results_": results,
            "best_index_": best,
            "best_params_": grid[best],
            "best_score_": float(mean[best]),
            "best_iter_": grid[best]["max_iter"],
            "n_iter_": self.max_iter,
            "n_splits_": scores.shape[1],
        }

    def _calibrate(self, best, folds, target, parallel):
        """Return what a classifier learns of its held-out scores; nothing here."""
        return {}
