# SPDX-License-Identifier: BSD-3-Clause
"""Sphinx configuration."""

import rfmlearn

project = "rfmlearn"
author = "the rfmlearn developers"
copyright = "2026, the rfmlearn developers"
version = release = rfmlearn.__version__

extensions = [
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "sg_execution_times.rst"]
autosummary_generate = True
templates_path = ["_templates"]
numpydoc_show_class_members = False
default_role = "code"
# inherited docstrings refer to labels of scikit-learn's own guide
suppress_warnings = ["ref.ref", "ref.term"]

html_theme = "pydata_sphinx_theme"
html_title = "rfmlearn"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
html_sidebars = {page: [] for page in ("index", "install", "changelog", "user_guide/*")}

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
}
