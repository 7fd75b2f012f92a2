# SPDX-License-Identifier: BSD-3-Clause
"""Kernels: functions of pairs of rows, with their gradients."""

from rfmlearn.kernels._base import KERNELS, Kernel, RadialKernel, register, resolve_kernel
from rfmlearn.kernels._duals import DUALS, Homogeneous, Monomial, Polynomial, Rbf, Sign, Smooth
from rfmlearn.kernels._infinite_width import NNGP, NTK
from rfmlearn.kernels._product import ProductLaplace
from rfmlearn.kernels._radial import Gaussian, Laplace, PowerExponential
from rfmlearn.kernels._rows import Rows

__all__ = [
    "DUALS",
    "KERNELS",
    "NNGP",
    "NTK",
    "Gaussian",
    "Homogeneous",
    "Kernel",
    "Laplace",
    "Monomial",
    "Polynomial",
    "PowerExponential",
    "ProductLaplace",
    "RadialKernel",
    "Rbf",
    "Rows",
    "Sign",
    "Smooth",
    "register",
    "resolve_kernel",
]
