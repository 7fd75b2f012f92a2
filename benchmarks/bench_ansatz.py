# SPDX-License-Identifier: BSD-3-Clause
"""The neural feature ansatz on a folder of tables, beside its controls.

For every data set a network is trained twice, with default initialisation and with a small first
layer, and its feature matrices are compared with gradients (arXiv 2212.13881): the NFM ``W^T W``
with the AGOP and its square root, with the NFM before training, and the NFM of the change of the
weights. The same network before training is the control, since a wide random network agrees with
its AGOP as well. Medians over the data sets, nothing tuned per set.

    python benchmarks/bench_ansatz.py --data DIR [--width 128] [--depth 5] [--n-jobs 2]

DIR holds NAME.npz with X and y (a UCI folder as `python -m rfmlearn.benchmark` takes it).
"""

import argparse
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.preprocessing import LabelEncoder, StandardScaler

from rfmlearn import ABCMLPClassifier, RFMClassifier
from rfmlearn.features import alignment, matrix_power
from rfmlearn.neural import layer_features

MEASURES = ("NFM, AGOP^1/2", "NFM, AGOP", "NFM, initial NFM", "change, AGOP^1/2", "NFM, M of RFM")


def network(width, depth, first_layer_scale):
    return ABCMLPClassifier(
        (width,) * depth,
        parametrization="standard",
        optimizer="sgd",
        learning_rate=0.1,
        batch_size=64,
        first_layer_scale=first_layer_scale,
        random_state=0,
    )


def measure(net, X, M=None):
    """Return correlations (n_layers, n_measures); NaN where one does not exist."""
    layers = layer_features(net, X)
    changes = [W - W0 for W, W0 in zip(net.coefs_, net.init_coefs_)]
    rows = []
    for number, (layer, change) in enumerate(zip(layers, changes)):
        root = matrix_power(layer.agop, 0.5)
        others = [(layer.nfm, root), (layer.nfm, layer.agop), (layer.nfm, layer.init_nfm)]
        values = [alignment(a, b, "pearson") for a, b in others]
        values.append(alignment(change @ change.T, root, "pearson") if change.any() else np.nan)
        with_rfm = number == 0 and M is not None
        values.append(alignment(layer.nfm, M, "pearson") if with_rfm else np.nan)
        rows.append(values)
    return np.array(rows)


def study(path, width, depth, max_rows):
    """Return name and {variant: correlations, accuracy} of one data set, or why not."""
    with np.load(path, allow_pickle=False) as stored:
        X, y = stored["X"], LabelEncoder().fit_transform(stored["y"])
    if len(X) > max_rows or len(X) < 30:
        return path.stem, f"{len(X)} rows"
    X = X[:, X.std(axis=0) > 0]
    X = StandardScaler().fit_transform(X).astype(np.float32)
    M = RFMClassifier().fit(X, y).feature_matrix_
    found = {}
    for variant, scale in (("default first layer", 1.0), ("first layer x 1e-3", 1e-3)):
        try:
            net = network(width, depth, scale).fit(X, y)
        except ValueError as error:
            return path.stem, str(error)
        found[f"trained, {variant}"] = measure(net, X, M), net.score(X, y)
        if scale == 1:
            found["untrained"] = measure(net.initial(), X, M), net.initial().score(X, y)
    return path.stem, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--max-rows", type=int, default=2000)
    parser.add_argument("--n-jobs", type=int, default=1)
    arguments = parser.parse_args()
    paths = sorted(arguments.data.glob("*.npz"))
    done = Parallel(n_jobs=arguments.n_jobs)(
        delayed(study)(path, arguments.width, arguments.depth, arguments.max_rows) for path in paths
    )
    for name, why in ((name, found) for name, found in done if isinstance(found, str)):
        print(f"left out {name}: {why}")
    found = [found for _, found in done if isinstance(found, dict)]
    print(f"\n{len(found)} data sets, {arguments.depth} hidden layers of {arguments.width}; ")
    print("medians over the data sets of the Pearson correlation, first layer\n")
    print(f"{'':32s}" + "".join(f"{name:>19s}" for name in MEASURES) + f"{'train accuracy':>17s}")
    variants = ("untrained", "trained, default first layer", "trained, first layer x 1e-3")
    for variant in variants:
        first = np.array([one[variant][0][0] for one in found])
        accuracy = np.median([one[variant][1] for one in found])
        cells = "".join(f"{value:19.3f}" for value in np.nanmedian(first, axis=0))
        print(f"{variant:32s}{cells}{accuracy:17.3f}".replace("nan", "  -"))
    print("\nby layer, NFM with AGOP^1/2 (and the NFM with its initial value)\n")
    print(f"{'':32s}" + "".join(f"{f'layer {k + 1}':>17s}" for k in range(arguments.depth + 1)))
    for variant in variants:
        every = np.array([one[variant][0][:, [0, 2]] for one in found])
        cells = "".join(f"{a:9.3f} ({b:.3f})" for a, b in np.nanmedian(every, axis=0))
        print(f"{variant:32s}{cells}")


if __name__ == "__main__":
    main()
