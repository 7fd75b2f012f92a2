# SPDX-License-Identifier: BSD-3-Clause
"""Data for examples and tests: a generator and two small real tables."""

from importlib.resources import files
from numbers import Integral, Real

import numpy as np
from sklearn.utils import Bunch, check_random_state

from rfmlearn._base._sklearn import Interval, validated
from rfmlearn._typing import Any, RandomState

__all__ = ["load_penguins", "load_yacht", "make_multi_index"]


@validated(
    n_samples=[Interval(Integral, 1, None, closed="left")],
    n_features=[Integral],
    noise=[Interval(Real, 0, None, closed="left")],
    random_state=["random_state"],
)
def make_multi_index(
    n_samples: int = 1280,
    n_features: int = 20,
    *,
    noise: float = 0.1,
    random_state: RandomState = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Make a regression target that depends on three directions only.

    ``y = x0 x1 + sin(2 x2) + noise * e`` with x and e standard normal. Neither x0 nor x1
    correlates with y, so that no screening of single columns finds them.

    Parameters
    ----------
    n_samples : int, default=1280
        Number of rows.
    n_features : int, default=20
        Number of columns, at least 3; all beyond the third are noise.
    noise : float, default=0.1
        Standard deviation of the noise.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Rows, float64.
    y : ndarray of shape (n_samples,)
        Target.
    subspace : ndarray of shape (3, n_features)
        Orthonormal rows that span what y depends on.

    Raises
    ------
    ValueError
        If a number is out of its range; `n_features` is at least 3.

    Examples
    --------
    >>> from rfmlearn.datasets import make_multi_index
    >>> X, y, subspace = make_multi_index(100, 5, random_state=0)
    >>> X.shape, y.shape, subspace.shape
    ((100, 5), (100,), (3, 5))
    """
    if n_features < 3:
        raise ValueError(f"n_features={n_features!r} must be at least 3.")
    rng = check_random_state(random_state)
    X = rng.standard_normal((n_samples, n_features))
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + noise * rng.standard_normal(n_samples)
    return X, y, np.eye(3, n_features)


def load_yacht(*, return_X_y: bool = False) -> Any:
    """Load the yacht hydrodynamics data: 308 towing-tank experiments, 6 columns.

    The target is the residuary resistance per unit weight of displacement; the columns are
    the longitudinal position of the centre of buoyancy, the prismatic coefficient, the
    length-displacement, beam-draught and length-beam ratios, and the Froude number, all
    without units.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return ``(X, y)`` instead of a Bunch.

    Returns
    -------
    Bunch with ``data`` (308, 6), ``target`` (308,), ``feature_names`` and ``DESCR``
        Or the arrays X and y, float64.

    Notes
    -----
    J. Gerritsma, R. Onnink, A. Versluis, Delft Ship Hydromechanics Laboratory, 1981. UCI
    Machine Learning Repository, https://doi.org/10.24432/C5XG7R, licence CC BY 4.0.

    Examples
    --------
    >>> from rfmlearn.datasets import load_yacht
    >>> X, y = load_yacht(return_X_y=True)
    >>> X.shape
    (308, 6)
    """
    with files("rfmlearn").joinpath("data/yacht.csv").open() as lines:
        names = lines.readline().strip().split(",")
        table = np.loadtxt(lines, delimiter=",")
    X, y = np.ascontiguousarray(table[:, :-1]), table[:, -1].copy()
    if return_X_y:
        return X, y
    return Bunch(data=X, target=y, feature_names=names[:-1], DESCR=load_yacht.__doc__)


def load_penguins() -> tuple[Any, Any]:
    """Load the Palmer penguins: 344 birds, numbers and text, with missing cells.

    The target is the species; the columns are island, bill length and depth and flipper
    length in mm, body mass in g, sex, and the year. Needs pandas.

    Returns
    -------
    X : pandas.DataFrame of shape (344, 7)
        Columns as they were recorded.
    y : pandas.Series of shape (344,)
        "Adelie", "Chinstrap" or "Gentoo".

    Raises
    ------
    ImportError
        If pandas is not installed.

    Notes
    -----
    A. M. Horst, A. P. Hill, K. B. Gorman, palmerpenguins, 2020,
    https://doi.org/10.5281/zenodo.3960218, licence CC0.

    Examples
    --------
    >>> from rfmlearn.datasets import load_penguins
    >>> X, y = load_penguins()
    >>> X.shape
    (344, 7)
    """
    import pandas as pd

    with files("rfmlearn").joinpath("data/penguins.csv").open() as lines:
        table = pd.read_csv(lines)
    return table.drop(columns="species"), table["species"]
