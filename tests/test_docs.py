# SPDX-License-Identifier: BSD-3-Clause
"""The documentation does what it says: code blocks run, worked diffs apply, links lead somewhere.

Doctests in the pages are collected by pytest itself.
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rfmlearn
from rfmlearn import datasets, features, inspection, kernels, linear, neural, solvers
from rfmlearn.kernels import activations

ROOT = Path(__file__).parent.parent
DOC = ROOT / "doc"
if not DOC.exists():
    pytest.skip("only the tests are here, not the pages", allow_module_level=True)

PAGES = sorted([*DOC.glob("*.rst"), *(DOC / "user_guide").glob("*.rst"), ROOT / "README.md"])
BLOCK = re.compile(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", re.MULTILINE)
STEP = re.compile(r"diffs/(\w+)\.diff[\s\S]*?\.\. code-block:: python\n\n((?:    .*\n|\n)+)")


def python_blocks():
    for page in PAGES:
        text = page.read_text()
        if page.suffix == ".md":
            found = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        elif page.stem == "developers":
            continue  # those need their diff
        else:
            found = map(textwrap.dedent, BLOCK.findall(text))
        for k, code in enumerate(found):
            yield pytest.param(code, id=f"{page.name}-{k}")


@pytest.mark.parametrize("code", list(python_blocks()))
def test_code_blocks_run(code):
    exec(compile(code, "block", "exec"), {})


def steps():
    text = (DOC / "developers.rst").read_text()
    return [pytest.param(name, textwrap.dedent(code), id=name) for name, code in STEP.findall(text)]


@pytest.mark.parametrize(("name", "code"), steps())
def test_worked_diffs_apply_and_work(name, code, tmp_path):
    if shutil.which("git") is None:
        pytest.skip("git applies the diffs")
    shutil.copytree(ROOT / "rfmlearn", tmp_path / "rfmlearn")
    diff = DOC / "diffs" / f"{name}.diff"
    assert diff.read_text().count("diff --git") == 1, "one file each"
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    subprocess.run(["git", "apply", diff], cwd=tmp_path, check=True, env=environment)
    environment["PYTHONPATH"] = str(tmp_path)
    check = f"import rfmlearn; assert rfmlearn.__file__.startswith({str(tmp_path)!r})\n{code}"
    subprocess.run([sys.executable, "-c", check], cwd=tmp_path, check=True, env=environment)


def test_all_diffs_are_shown():
    shown = {step.id for step in steps()}
    assert shown == {path.stem for path in (DOC / "diffs").glob("*.diff")}


def test_every_public_name_is_in_the_reference():
    reference = (DOC / "api.rst").read_text()
    listed, module = set(), None
    for line in reference.splitlines():
        if line.startswith(".. currentmodule::"):
            module = line.split()[-1]
        elif re.fullmatch(r"    \w+", line):
            listed.add(f"{module}.{line.strip()}")
    listed.add("rfmlearn.neural.ABC_TABLE")
    rooms = (
        rfmlearn,
        datasets,
        features,
        inspection,
        kernels,
        activations,
        linear,
        neural,
        solvers,
    )
    for module in rooms:
        for name in module.__all__:
            thing = getattr(module, name)
            at_home = module is rfmlearn or name not in rfmlearn.__all__
            if callable(thing) and at_home:
                assert f"{module.__name__}.{name}" in listed


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_relative_links_lead_to_files(page):
    text = page.read_text()
    links = re.findall(r"\]\(([^)]+)\)", text) if page.suffix == ".md" else []
    links += re.findall(r"<((?!http)[\w./-]+\.html)[#>]", text)
    links += re.findall(r"^\.\. (?:image|figure):: (\S+)", text, re.MULTILINE)
    for link in links:
        if link.startswith(("http", "#")):
            continue
        target = (page.parent / link.split("#")[0]).resolve()
        if "auto_examples" in target.parts:  # made of an example
            target = ROOT / "examples" / f"{target.stem}.py"
        assert target.exists(), link
