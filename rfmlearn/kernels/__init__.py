# SPDX-License-Identifier: BSD-3-Clause
"""Kernels: functions of pairs of rows, with their gradients."""

from rfmlearn.kernels._base import KERNELS, Kernel, RadialKernel, Rows, register, resolve_kernel
from rfmlearn.kernels._product import ProductLaplace
from rfmlearn.kernels._radial import Gaussian, Laplace, PowerExponential

__all__ = [
    "KERNELS",
    "Gaussian",
    "Kernel",
    "Laplace",
    "PowerExponential",
    "ProductLaplace",
    "RadialKernel",
    "Rows",
    "register",
    "resolve_kernel",
]
