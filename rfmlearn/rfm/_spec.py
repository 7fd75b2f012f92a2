# SPDX-License-Identifier: BSD-3-Clause
"""What a recursion is: one object from the estimator's parameters to the solver."""

from dataclasses import dataclass, fields
from typing import Any

from rfmlearn.kernels import Kernel
from rfmlearn.solvers import Solver


@dataclass(frozen=True)
class RecursionSpec:
    """A Recursive Feature Machine without its data.

    The names are those of `RFMRegressor`, where they are explained; `alphas` are the ridges at
    which each iterate is solved, and `seed` is drawn from `random_state`.
    """

    kernel: str | Kernel = "laplace"
    bandwidth: float = 1.0
    bandwidth_mode: str = "adaptive"
    alphas: tuple[float, ...] = (1e-3,)
    agop_alpha: float | None = None
    max_iter: int = 5
    diag: bool = False
    agop_power: float = 1.0
    matrix_scaling: str | None = "spectral"
    center_gradients: bool = False
    n_agop_samples: int | None = None
    agop_outputs: str | int = "auto"
    n_centers: int | None = None
    solver: str | Solver = "auto"
    memory_budget: int | None = None
    device: str = "cpu"
    seed: int = 0

    @classmethod
    def of(cls, model, rng, **own: Any):
        """Return the recursion of an estimator's parameters; `own` take their place."""
        parameters = model.get_params(deep=False)
        names = {spec_field.name for spec_field in fields(cls)}
        settings = {name: value for name, value in parameters.items() if name in names}
        if "alpha" in parameters:
            settings["alphas"] = (float(parameters["alpha"]),)
        settings.update(seed=int(rng.randint(2**31 - 1)), **own)
        for name in ("bandwidth", "agop_power", "agop_alpha"):
            if settings.get(name) is not None:
                settings[name] = float(settings[name])
        return cls(**settings)

    @property
    def adaptive(self):
        """Whether the bandwidth follows the metric."""
        return self.bandwidth_mode == "adaptive"

    @property
    def unit_free(self):
        """Whether M does not depend on the unit of y, which may then be brought to size 1 first."""
        return self.matrix_scaling is not None
