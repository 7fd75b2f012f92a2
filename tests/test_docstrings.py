# SPDX-License-Identifier: BSD-3-Clause
"""Public docstrings follow numpydoc: every parameter and return value, with an example."""

import inspect

import pytest
from numpydoc.validate import validate

import rfmlearn
from rfmlearn import datasets, features, inspection, kernels, linear, neural, solvers

# GL01 text may start on the opening line; SS05 nouns are fine as summaries; ES01, SA01 no
# extended summary or See Also is forced; GL08 abstract hooks of a subclass inherit theirs;
# RT02 named return values; PR08, RT05 mathematical names are lower case
IGNORED = {"GL01", "SS05", "ES01", "SA01", "RT02", "PR08", "RT04", "RT05", "PR09", "YD01"}


def public():
    """Yield (name, needs an example) of every documented public object."""
    for module in (rfmlearn, features, linear, datasets, inspection, kernels, neural, solvers):
        for name in module.__all__:
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            path = f"{module.__name__}.{name}"
            yield path, module in (rfmlearn, features, linear, datasets, inspection)
            if not inspect.isclass(thing):
                continue
            # a method is documented where it is first defined
            for method, function in vars(thing).items():
                inherited = any(hasattr(base, method) for base in thing.__mro__[1:])
                if inspect.isroutine(function) and not method.startswith("_") and not inherited:
                    yield f"{path}.{method}", False


@pytest.mark.parametrize(("path", "needs_example"), sorted(public()))
def test_numpydoc_finds_nothing_wrong(path, needs_example):
    ignored = IGNORED if needs_example else IGNORED | {"EX01"}
    errors = [(code, text) for code, text in validate(path)["errors"] if code not in ignored]
    assert not errors
