# SPDX-License-Identifier: BSD-3-Clause
"""The command line: ``python -m rfmlearn.benchmark --help``."""

import argparse
import sys
import time
from itertools import product
from pathlib import Path

from joblib import Parallel, delayed

from rfmlearn.benchmark import _cells, _models, _report, _tables


def _positive(text):
    """Return a positive whole number."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def parse(argv=None):
    """Return the parsed arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m rfmlearn.benchmark",
        description="Run tabular models on a folder of data sets. Every finished cell (data "
        "set, model, fold) is kept beside --out; the same command again does what is missing.",
    )
    parser.add_argument("--data", required=True, help="folder of NAME.npz files or NAME/ folders")
    parser.add_argument(
        "--models",
        nargs="+",
        default=["rfm", "krr", "svm", "forest", "hgb"],
        metavar="NAME",
        help=f"from {', '.join(_models.MODELS)}, or dotted names of scikit-learn estimators",
    )
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="only these data sets")
    parser.add_argument("--max-rows", type=_positive, help="skip larger data sets")
    parser.add_argument(
        "--folds", type=_positive, help="only so many folds of each data set, the first"
    )
    parser.add_argument(
        "--task",
        choices=["auto", "classification", "regression"],
        default="auto",
        help="auto: whole-number targets are classes",
    )
    parser.add_argument(
        "--protocol",
        choices=["nested", "paper"],
        default="nested",
        help="nested: everything chosen inside each training part; paper: the RFM authors' "
        "rules (rfm and krr only), whose test rows were seen when M was learned",
    )
    parser.add_argument("--n-jobs", type=int, default=1, help="joblib workers")
    parser.add_argument("--out", required=True, help="CSV file; a picture goes beside it")
    parser.add_argument("--rival", help="model that the picture compares the first one with")
    return parser.parse_args(argv)


def plan(args):
    """Return models, cells with their files, digests of these, and what is skipped and why."""
    skipped, models, contents = [], [], {}
    for name in dict.fromkeys(args.models):
        reason = _models.why_not(name)
        if reason:
            skipped.append(f"model {name}: {reason}")
        else:
            models.append(name)
    found = _tables.find(args.data)
    for name in set(args.sets or ()) - set(found):
        skipped.append(f"data set {name}: not in {args.data}")
    cells = {}
    for name, path in found.items():
        if args.sets and name not in args.sets:
            continue
        try:
            table = _tables.read(path, args.task)
            contents[name] = _tables.digest(path)
        except Exception as error:  # a broken file ends no run
            skipped.append(f"data set {name}: cannot be read ({type(error).__name__}: {error})")
            continue
        if args.max_rows and len(table.X) > args.max_rows:
            skipped.append(f"data set {name}: {len(table.X)} rows, more than {args.max_rows}")
            continue
        n_folds = 1 if args.protocol == "paper" else len(table.folds)
        n_folds = min(n_folds, args.folds or n_folds)
        cells |= {(name, m, fold): path for m, fold in product(models, range(n_folds))}
    return models, cells, contents, skipped


def main(argv=None):
    """Run what is missing, then report; return the exit status."""
    args = parse(argv)
    for stream in (sys.stdout, sys.stderr):  # names of data sets may be in any script
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return benchmark(args, Path(args.out))
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def benchmark(args, out):
    """Run what is missing, then report; return the exit status."""
    models, cells, contents, skipped = plan(args)
    out.parent.mkdir(parents=True, exist_ok=True)
    for line in skipped:
        print(f"skipped {line}")
    if not cells:
        print("error: nothing is left to run", file=sys.stderr)
        return 2
    store = _cells.Store(out.with_name(f"{out.name}.cells") / args.protocol, contents)
    missing = [cell for cell in cells if store.get(cell) is None]
    print(f"{len(cells)} cells, {len(cells) - len(missing)} of them done already")
    start = time.monotonic()
    work = Parallel(n_jobs=args.n_jobs, return_as="generator_unordered", batch_size=1)(
        delayed(_cells.run)(store, cell, cells[cell], args.task, args.protocol) for cell in missing
    )
    fresh, unstored = {}, {}
    for done, (cell, result, problem) in enumerate(work, 1):
        fresh[cell] = result
        if problem:
            unstored[cell] = problem
        passed = time.monotonic() - start
        left = passed / done * (len(missing) - done)
        name = " ".join(map(str, cell))
        line = f"{done}/{len(missing)}  {passed:.0f} s, about {left:.0f} s left  {name}"
        print(f"\r{line[:100]:<100s}", end="", file=sys.stderr, flush=True)
    if missing:
        print(file=sys.stderr)
    results = {}
    for cell in cells:
        result = fresh.get(cell) or store.get(cell)
        if result is not None and "error" not in result:
            results[cell] = result
        elif result is not None:
            print(f"failed {' '.join(map(str, cell))}: {result['error']}")
        if cell in unstored:
            print(f"not kept for the next run: {' '.join(map(str, cell))}: {unstored[cell]}")
    out.write_text(_report.to_csv(results), encoding="utf-8")
    print(f"\n{_report.table(results, models)}\n\nCells: {out}")
    rival = args.rival or (models[1] if len(models) > 1 else None)
    if rival in models[1:]:
        picture = out.with_suffix(".png")
        try:
            if _report.draw(results, models, rival, picture):
                print(f"Picture: {picture}")
        except ImportError:
            print("No picture: matplotlib is not installed (pip install 'rfmlearn[plot]').")
    return 0 if len(results) == len(cells) else 1


if __name__ == "__main__":
    sys.exit(main())
