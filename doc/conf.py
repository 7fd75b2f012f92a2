# SPDX-License-Identifier: BSD-3-Clause
"""Sphinx configuration."""

import zlib
from pathlib import Path

from sphinx.ext import intersphinx

import rfmlearn

project = "rfmlearn"
author = "the rfmlearn developers"
copyright = "2026, the rfmlearn developers"
version = release = rfmlearn.__version__

extensions = [
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_inventories", "sg_execution_times.rst"]
autosummary_generate = True
templates_path = ["_templates"]
numpydoc_show_class_members = False
autodoc_typehints = "none"  # the docstrings say it in words
default_role = "py:obj"
# inherited docstrings refer to labels of scikit-learn's own guide
suppress_warnings = ["ref.ref", "ref.term"]

# Links into other projects. Their inventories list tens of thousands of names and must be fetched;
# these are made of the names used here, so that the build needs no network.
ELSEWHERE = {
    "scikit-learn": (
        "https://scikit-learn.org/stable/",
        "modules/generated/$.html#$",
        """
        sklearn.base.BaseEstimator sklearn.calibration.CalibratedClassifierCV
        sklearn.decomposition.PCA sklearn.ensemble.HistGradientBoostingRegressor
        sklearn.frozen.FrozenEstimator sklearn.gaussian_process.GaussianProcessRegressor
        sklearn.inspection.permutation_importance sklearn.kernel_ridge.KernelRidge
        sklearn.linear_model.Ridge sklearn.linear_model.Lasso
        sklearn.metrics.pairwise.laplacian_kernel sklearn.model_selection.GridSearchCV
        sklearn.model_selection.TunedThresholdClassifierCV
        sklearn.neural_network.MLPClassifier sklearn.neural_network.MLPRegressor
        sklearn.pipeline.Pipeline sklearn.preprocessing.LabelBinarizer
        sklearn.preprocessing.LabelEncoder sklearn.preprocessing.OneHotEncoder
        sklearn.preprocessing.QuantileTransformer sklearn.preprocessing.StandardScaler
        sklearn.preprocessing.TargetEncoder sklearn.svm.NuSVC sklearn.svm.NuSVR sklearn.svm.SVC
        sklearn.svm.SVR sklearn.exceptions.ConvergenceWarning
        sklearn.utils.estimator_checks.check_estimator
        """,
    ),
    "numpy": (
        "https://numpy.org/doc/stable/",
        "reference/generated/$.html#$",
        "numpy.ndarray numpy.memmap numpy.load",
    ),
    "scipy": (
        "https://docs.scipy.org/doc/scipy/",
        "reference/generated/$.html#$",
        "scipy.linalg.LinAlgWarning",
    ),
    "torch": (
        "https://docs.pytorch.org/docs/stable/",
        "generated/$.html#$",
        "torch.nn.Module torch.nn.Linear torch.nn.Conv2d torch.dtype",
    ),
    "joblib": ("https://joblib.readthedocs.io/en/stable/", "generated/$.html#$", "joblib.Parallel"),
}


def inventory(project, page, names):
    """Write an inventory of names whose pages follow a pattern, and return its path."""
    path = Path(__file__).parent / "_inventories" / f"{project}.inv"
    path.parent.mkdir(exist_ok=True)
    header = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n# zlib\n"
    lines = "".join(f"{name} py:class 1 {page.replace('$', name)} -\n" for name in names.split())
    path.write_bytes(header.encode() + zlib.compress(lines.encode()))
    return str(path)


intersphinx_mapping = {
    project: (url, inventory(project, page, names))
    for project, (url, page, names) in ELSEWHERE.items()
}

# In the text a public name stands without its module.
SHORT = {name.split(".")[-1]: name for _, _, names in ELSEWHERE.values() for name in names.split()}
for _module in (
    "",
    ".datasets",
    ".features",
    ".inspection",
    ".kernels",
    ".linear",
    ".neural",
    ".solvers",
):
    _names = __import__(f"rfmlearn{_module}", fromlist=["_"]).__all__
    SHORT.update((name, f"rfmlearn{_module}.{name}") for name in _names if name[0].isalpha())
del SHORT["register"]  # there are two


def resolve_short_name(app, env, node, content):
    """Link a name in backquotes that is public here, or known elsewhere."""
    target = SHORT.get(node.get("reftarget"))
    if target is None or node.get("refdomain") != "py":
        return None
    if target.startswith("rfmlearn"):
        domain = env.get_domain("py")
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, content)
    node["reftarget"] = target
    return intersphinx.missing_reference(app, env, node, content)


def setup(app):
    """Connect the above."""
    app.connect("missing-reference", resolve_short_name, priority=400)


html_theme = "pydata_sphinx_theme"
html_title = "rfmlearn"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
html_sidebars = {
    page: [] for page in ("index", "install", "changelog", "coming_from", "developers")
}
html_static_path = ["_static"]
html_css_files = ["custom.css"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"demo\.py",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "capture_repr": (),
    "write_computation_times": False,
    "parallel": 2,
}
