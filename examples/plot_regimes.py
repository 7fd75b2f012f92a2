# SPDX-License-Identifier: BSD-3-Clause
"""
Three regimes of wide networks
==============================

What does a network become as it widens? It depends on how initial weights and learning rates scale
with the width (Tensor Programs IV, arXiv 2011.14522). Here are the same networks in two such
parametrisations, from width 64 to 4096, beside the limits that can be computed.
"""

# %%
# A target that needs features: the product of two of 30 coordinates. The rows are followed by a
# constant column in place of biases, so that networks and kernels are the same to the last factor.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

from rfmlearn import ABCMLPClassifier, ABCMLPRegressor, KernelRegimeRegressor
from rfmlearn.neural import ABC_TABLE, classify_parametrization

STEPS, RATE = 300, 3.0
rng = np.random.default_rng(0)
X = np.column_stack([rng.normal(size=(1400, 30)), np.ones(1400)]).astype(np.float32)
y = X[:, 0] * X[:, 1]
train, test = slice(400), slice(400, None)

# %%
# The kernel regimes have a closed form, at the time at which the networks stop as well as at
# infinity, where several ridges are compared by their leave-one-out error.

options = {"depth": 1, "weight_std": 1.0, "bias_std": 0.0, "normalize_y": True}
flow = {"alpha": 0.0, "training_time": STEPS * RATE}
limits = {
    "NNGP": KernelRegimeRegressor("nngp", alpha=np.logspace(-4, 1, 11), **options),
    "NTK": KernelRegimeRegressor("ntk", alpha=np.logspace(-4, 1, 11), **options),
    f"NTK after {STEPS} steps": KernelRegimeRegressor("ntk", **flow, **options),
}
for model in limits.values():
    model.fit(X[train], y[train])

# %%
# The networks: one hidden layer, all rows in one step, four initialisations each. In the NTK
# parametrisation single networks are spread around their mean, which is what the kernel predicts.


def networks(parametrization, width):
    fitted = [
        ABCMLPRegressor(
            width,
            parametrization=parametrization,
            base_width=1,
            first_layer_scale=2**-0.5,
            fit_intercept=False,
            optimizer="sgd",
            learning_rate=RATE,
            batch_size=400,
            max_epochs=STEPS,
            random_state=seed,
        ).fit(X[train], y[train])
        for seed in range(4)
    ]
    single = np.mean([model.score(X[test], y[test]) for model in fitted])
    moved = np.mean([np.linalg.norm(m.coefs_[0] - m.init_coefs_[0]) for m in fitted])
    size = np.mean([np.linalg.norm(m.init_coefs_[0]) for m in fitted])
    return np.mean([model.predict(X[test]) for model in fitted], axis=0), single, moved / size


WIDTHS = (64, 256, 1024, 4096)
kernel = limits[f"NTK after {STEPS} steps"]
at_the_end, spread = kernel.predict(X[test], return_std=True)
scores = {"ntk": [], "mup": []}
print("R2 on fresh rows")
for name, model in limits.items():
    print(f"  {name:22s} {model.score(X[test], y[test]):.3f}")
print(
    f"\n  {'':12s} {'width':>6s} {'R2':>7s} {'of the mean':>12s} {'from kernel':>12s} {'moved':>7s}"
)
for parametrization in scores:
    for width in WIDTHS:
        mean, single, moved = networks(parametrization, width)
        distance = np.std(mean - at_the_end) / np.std(at_the_end)
        scores[parametrization].append(single)
        print(
            f"  {parametrization:12s} {width:6d} {single:7.3f} {r2_score(y[test], mean):12.3f} "
            f"{distance:12.3f} {moved:7.3f}"
        )

figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
for parametrization, color in (("ntk", "tab:gray"), ("mup", "tab:red")):
    name = {"ntk": "networks, NTK", "mup": "networks, muP"}[parametrization]
    ax.semilogx(WIDTHS, scores[parametrization], "o-", color=color, label=name)
for name, style in zip(limits, (":", "--", "-.")):
    value = limits[name].score(X[test], y[test])
    ax.axhline(value, color="black", linewidth=1, linestyle=style, label=f"kernel, {name}")
ax.set(title="Product of two of 30 coordinates", xlabel="width", ylabel="R2 on fresh rows")
ax.set_ylim(0, 1)
figure.legend(frameon=False, loc="outside right center")

# %%
# In the NTK parametrisation the networks approach their kernel: "from kernel", the relative
# distance of their mean prediction, falls to what the spread of four networks leaves, as does the
# relative movement of the first layer. In muP they approach another limit, which has learned the
# two coordinates. Two theorems tell so beforehand, from exponents alone:

left = np.sqrt(np.mean(spread**2) / 4) / np.std(at_the_end)
print(f"spread of the mean of four networks of infinite width, relative: {left:.3f}\n")
for parametrization in ("standard", "ntk", "mup"):
    rows = ABC_TABLE[parametrization, "sgd"]
    a, b = ([getattr(rows[kind], letter) for kind in ("input", "output")] for letter in "ab")
    found = classify_parametrization(a, b, rows["input"].c)
    print(f"{parametrization:10s} {found.name:18s} {found.reason}")

# %%
# Hyper-parameters that transfer
# ------------------------------
#
# A limit that learns features has a best learning rate of its own. Widths on the way share it, so
# that it can be found on a small network. In the standard parametrisation the best one falls with
# the width, and what is best for a small network makes a large one diverge.

digits, labels = load_digits(return_X_y=True)
digits = StandardScaler().fit_transform(digits).astype(np.float32)[:500]
rates = 2.0 ** np.arange(-13, -3)
best = {}
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", sharex=True, sharey=True)
for ax, parametrization in zip(axes, ("standard", "mup")):
    for width, color in zip((64, 256, 1024), ("tab:green", "tab:blue", "tab:purple")):
        losses = []
        for rate in rates:
            model = ABCMLPClassifier(
                (width, width),
                parametrization=parametrization,
                learning_rate=rate,
                max_epochs=8,
                batch_size=64,
                random_state=0,
            )
            model.fit(digits, labels[:500])
            losses.append(model.history_["train_loss"][-1])
        best[parametrization, width] = rates[np.argmin(losses)]
        ax.loglog(rates, losses, "o-", ms=3, color=color, label=f"width {width}")
        ax.plot(best[parametrization, width], min(losses), "*", ms=13, color=color)
    title = {"standard": "standard parametrisation", "mup": "muP"}[parametrization]
    ax.set(title=title, xlabel="learning rate (Adam)")
axes[0].set_ylabel("training loss, 8 epochs")
axes[0].legend(frameon=False, loc="lower left")
for (parametrization, width), rate in best.items():
    print(f"{parametrization:10s} width {width:5d}: best learning rate 2^{np.log2(rate):.0f}")
plt.show()
