# SPDX-License-Identifier: BSD-3-Clause
"""The house rules about which file may know what, read off the source."""

import ast
import re
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import rfmlearn

ROOT = Path(rfmlearn.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# The numerics: tensors only.
BELOW_THE_ESTIMATORS = {
    "_metric", "features", "kernels", "solvers", "linear._functions", "rfm._problems",
    "rfm._recursion", "rfm._spec",
}  # fmt: skip


def numeric(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0] in BELOW_THE_ESTIMATORS or ".".join(parts) in BELOW_THE_ESTIMATORS


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module, alias.name) for alias in node.names)


files = pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(ROOT)) for p in FILES])


def test_imports_go_one_way():
    # the layers stand in pyproject.toml
    assert lint_imports(config_filename=str(Path(__file__).parent.parent / "pyproject.toml")) == 0


@files
def test_private_names_of_scikit_learn_stay_in_one_file(path):
    private = [
        (module, name)
        for module, name in imported(path)
        if module.startswith("sklearn") and ("._" in module or (name or "").startswith("_"))
    ]
    assert not private or path == ROOT / "_base" / "_sklearn.py"


@files
def test_devices_are_named_in_the_backend_only(path):
    named = re.search(r"""["'](cuda|mps)|\.(cuda|mps)\b""", strip_docstrings(path))
    assert named is None or path.name == "_backend.py"


@files
def test_below_the_estimators_there_is_neither_numpy_nor_scikit_learn(path):
    if not numeric(path):
        return
    # the type of the error that a solver raises is NumPy's, as users expect it
    allowed = {("numpy.linalg", "LinAlgError")}
    heavy = [m for m in imported(path) if m[0].split(".")[0] in ("numpy", "sklearn", "pandas")]
    assert set(heavy) <= allowed


@files
def test_no_function_grows_beyond_60_lines(path):
    long = [
        f"{node.name}: {_body_lines(node)}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and _body_lines(node) > 60
    ]
    assert not long


def _body_lines(function):
    """Return the number of lines of a body, from behind its docstring on."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


@files
def test_nothing_prints_or_touches_global_state(path):
    code = strip_docstrings(path)
    if path.name == "__main__.py":
        code = code.replace("print(", "")  # a command line speaks
    if path.name == "_backend.py":
        assert code.count("set_num_threads") == 1  # in a forked child, whose threads are gone
        code = code.replace("set_num_threads", "")
    for forbidden in (
        "print(",
        "np.random.seed",
        "torch.manual_seed",
        "set_num_threads",
        "set_default_dtype",
        "set_default_device",
    ):
        assert forbidden not in code, forbidden


def strip_docstrings(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body[0].value.value = ""
    return ast.unparse(tree)
