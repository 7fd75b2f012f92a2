# SPDX-License-Identifier: BSD-3-Clause
"""Public docstrings follow numpydoc, and the same parameter is explained in the same words."""

import inspect
import re

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate
from sklearn.utils._testing import assert_docstring_consistency

import rfmlearn
from rfmlearn import datasets, features, inspection, kernels, linear, neural, solvers
from rfmlearn.kernels import activations

# GL01 text may start on the opening line; SS05 nouns are fine as summaries; ES01, SA01 no
# extended summary or See Also is forced; GL08 abstract hooks of a subclass inherit theirs;
# RT02 named return values; PR08, RT05 mathematical names are lower case
IGNORED = {"GL01", "SS05", "ES01", "SA01", "RT02", "PR08", "RT04", "RT05", "PR09", "YD01"}

WITH_EXAMPLES = (rfmlearn, features, linear, datasets, inspection)
ROOMS = (*WITH_EXAMPLES, kernels, activations, neural, solvers)


def public():
    """Yield (path, needs an example) of every public object and every public method of one."""
    for module in ROOMS:
        for name in module.__all__:
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            path = f"{module.__name__}.{name}"
            yield path, module in WITH_EXAMPLES
            if inspect.isclass(thing):
                yield from ((f"{path}.{method}", False) for method in methods(thing))


def methods(cls):
    """Yield the names of methods that this package defines, in the class or a base of it."""
    for name in dir(cls):
        if name.startswith("_"):
            continue
        owner = next(base for base in cls.__mro__ if name in vars(base))
        function = inspect.getattr_static(cls, name)
        ours = owner.__module__.startswith("rfmlearn.")
        method = inspect.isroutine(function) or hasattr(function, "check")
        if ours and method and not refers(cls, name):
            yield name


def refers(cls, name):
    """Say whether a method's docstring refers to that of the public base that defines it."""
    pointer = re.search(r"\(see `(\w+)`\)", getattr(cls, name).__doc__ or "")
    bases = [base for base in cls.__mro__[1:] if name in vars(base)]
    return pointer and pointer[1] in [base.__name__ for base in bases]


@pytest.mark.parametrize(("path", "needs_example"), sorted(set(public())))
def test_numpydoc_finds_nothing_wrong(path, needs_example):
    ignored = IGNORED if needs_example else IGNORED | {"EX01"}
    errors = [(code, text) for code, text in validate(path)["errors"] if code not in ignored]
    assert not errors


R = rfmlearn
MACHINES = [R.RFMRegressor, R.RFMClassifier]
SEARCHES = [R.RFMRegressorCV, R.RFMClassifierCV]
IMAGES = [R.ConvRFMRegressor, R.ConvRFMClassifier]
NETWORKS = [R.ABCMLPRegressor, R.ABCMLPClassifier]
REGIMES = [R.KernelRegimeRegressor, R.KernelRegimeClassifier]


@pytest.mark.parametrize(
    ("pair", "own", "fitted"),
    [
        # attributes whose shape is in outputs here and in classes there
        (MACHINES, [], ["dual_coef_", "intercept_"]),
        (SEARCHES, ["kernels"], []),  # the defaults differ
        (IMAGES, [], ["dual_coef_"]),
        (NETWORKS, [], []),
        # the defaults differ, and regressors alone have a spread over networks
        (REGIMES, ["alpha", "regime"], ["X_train_, y_train_", "alpha_", "loo_errors_"]),
    ],
    ids=lambda value: getattr(value[0], "__name__", "") if value else "",
)
def test_regressor_and_classifier_say_the_same(pair, own, fitted):
    parameters, attributes = (shared(pair, kind) for kind in ("Parameters", "Attributes"))
    assert_docstring_consistency(pair, include_params=sorted(parameters - set(own)))
    assert_docstring_consistency(pair, include_attrs=sorted(attributes - set(fitted)))


def shared(classes, section):
    """Return the names that stand in a section of all docstrings."""
    docs = (NumpyDocString(inspect.getdoc(cls)) for cls in classes)
    return set.intersection(*({entry.name for entry in doc[section]} for doc in docs))


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        (
            [
                "bandwidth_mode", "agop_power", "matrix_scaling", "center_gradients",
                "n_agop_samples", "agop_outputs", "n_centers",
            ],
            [*MACHINES, *SEARCHES],
        ),
        (["solver", "memory_budget"], [*MACHINES, *SEARCHES, *IMAGES]),
        (["warm_start"], [*MACHINES, *IMAGES]),
        (["tol"], [*MACHINES, *IMAGES, *NETWORKS, R.RecursiveFeatureLearner]),
        (["n_iter_no_change"], [*MACHINES, *IMAGES, R.RecursiveFeatureLearner]),
        (["validation_fraction"], [*MACHINES, *NETWORKS]),
        (
            ["center_gradients"],
            [*MACHINES, *SEARCHES, R.NFMTransformer, R.RecursiveFeatureLearner],
        ),
        (["device"], [*MACHINES, *SEARCHES, *IMAGES, *NETWORKS, *REGIMES]),
        (["class_weight"], [c for c in (*MACHINES, *SEARCHES, *IMAGES, *NETWORKS, *REGIMES)
                            if c.__name__.removesuffix("CV").endswith("Classifier")]),
        (["activation"], [*REGIMES, kernels.NNGP, kernels.NTK]),
        (["weight_std", "bias_std"], [kernels.NNGP, kernels.NTK]),
    ],
)  # fmt: skip
def test_a_parameter_is_the_same_wherever_it_stands(names, classes):
    assert_docstring_consistency(classes, include_params=names)
