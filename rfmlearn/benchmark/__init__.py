# SPDX-License-Identifier: BSD-3-Clause
"""Benchmark of tabular models on folders of data sets: ``python -m rfmlearn.benchmark``."""
