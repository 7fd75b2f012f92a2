# SPDX-License-Identifier: BSD-3-Clause
"""Importing the package is cheap, and its names are all there."""

import subprocess
import sys

import pytest

import rfmlearn


def run(code):
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_importing_loads_no_heavy_library():
    heavy = "{'torch', 'sklearn', 'scipy', 'numpy', 'matplotlib', 'pandas'}"
    code = f"import sys, rfmlearn; print(sorted({heavy} & set(sys.modules)))"
    assert run(code) == "[]"


def test_fitting_loads_no_plotting_library():
    code = (
        "import sys, numpy as np, rfmlearn; X = np.arange(12.0).reshape(6, 2);"
        "rfmlearn.RFMRegressor(max_iter=1).fit(X, X[:, 0]).predict(X);"
        "print('matplotlib' in sys.modules)"
    )
    assert run(code) == "False"


@pytest.mark.parametrize("name", sorted(rfmlearn.__all__))
def test_every_public_name_resolves(name):
    assert getattr(rfmlearn, name) is not None
    assert name in dir(rfmlearn)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'RFMRegresor'"):
        rfmlearn.RFMRegresor  # noqa: B018
