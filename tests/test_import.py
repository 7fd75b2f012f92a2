# SPDX-License-Identifier: BSD-3-Clause
"""Importing the package is cheap, and its names are all there."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

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


def test_the_stub_for_editors_has_the_same_names():
    stub = ast.parse(Path(rfmlearn.__file__).with_suffix(".pyi").read_text())
    imported = {
        alias.name for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    (listed,) = (ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign))
    assert set(listed) == imported | {"__version__"} == set(rfmlearn.__all__)
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            room = import_module(f"rfmlearn.{node.module}")
            assert all(getattr(rfmlearn, a.name) is getattr(room, a.name) for a in node.names)


def public_functions():
    rooms = [getattr(rfmlearn, name) for name in rfmlearn.__all__]
    rooms = [rfmlearn, *filter(inspect.ismodule, rooms)]
    for room in rooms:
        for name in room.__all__:
            thing = getattr(room, name)
            if inspect.isfunction(thing):
                yield f"{room.__name__}.{name}", thing
            elif inspect.isclass(thing):
                for method in ("__init__", *vars(thing)):
                    function = inspect.getattr_static(thing, method)
                    ours = getattr(function, "__module__", "") or ""
                    public = method == "__init__" or not method.startswith("_")
                    if inspect.isfunction(function) and ours.startswith("rfmlearn") and public:
                        yield f"{room.__name__}.{name}.{method}", function


def test_the_public_api_is_annotated():
    bare = set()
    for path, function in public_functions():
        signature = inspect.signature(function)
        for parameter in list(signature.parameters.values()):
            if parameter.name not in ("self", "cls") and parameter.annotation is parameter.empty:
                bare.add(f"{path}({parameter.name})")
        if signature.return_annotation is signature.empty:
            bare.add(f"{path} -> ?")
    assert not bare
    assert Path(rfmlearn.__file__).with_name("py.typed").exists()
