# SPDX-License-Identifier: BSD-3-Clause
"""Kernels: functions of pairs of rows, with their gradients."""

from rfmlearn.kernels import activations
from rfmlearn.kernels._base import KERNELS, Kernel, RadialKernel, register, resolve_kernel
from rfmlearn.kernels._infinite_width import NNGP, NTK
from rfmlearn.kernels._polynomial import Polynomial
from rfmlearn.kernels._product import Lpq, ProductLaplace
from rfmlearn.kernels._radial import Gaussian, Laplace, Matern, PowerExponential, RationalQuadratic
from rfmlearn.kernels._rows import Rows

__all__ = [
    "KERNELS",
    "NNGP",
    "NTK",
    "Gaussian",
    "Kernel",
    "Laplace",
    "Lpq",
    "Matern",
    "Polynomial",
    "PowerExponential",
    "ProductLaplace",
    "RadialKernel",
    "RationalQuadratic",
    "Rows",
    "activations",
    "register",
    "resolve_kernel",
]
