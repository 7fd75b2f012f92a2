# SPDX-License-Identifier: BSD-3-Clause
"""Kernels: functions of pairs of rows, with their gradients."""

from rfmlearn.kernels import activations
from rfmlearn.kernels._base import KERNELS, Kernel, RadialKernel, register, resolve_kernel
from rfmlearn.kernels._infinite_width import NNGP, NTK
from rfmlearn.kernels._product import ProductLaplace
from rfmlearn.kernels._radial import Gaussian, Laplace, PowerExponential
from rfmlearn.kernels._rows import Rows

__all__ = [
    "KERNELS",
    "NNGP",
    "NTK",
    "Gaussian",
    "Kernel",
    "Laplace",
    "PowerExponential",
    "ProductLaplace",
    "RadialKernel",
    "Rows",
    "activations",
    "register",
    "resolve_kernel",
]
