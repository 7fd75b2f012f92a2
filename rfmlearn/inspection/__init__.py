# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of what was learned, as scikit-learn's Displays. Drawing needs matplotlib."""

from rfmlearn.inspection._curves import AlignmentDisplay, WidthScanDisplay
from rfmlearn.inspection._filters import FilterDisplay
from rfmlearn.inspection._matrix import FeatureMatrixDisplay, FeatureSpectrumDisplay

__all__ = [
    "AlignmentDisplay",
    "FeatureMatrixDisplay",
    "FeatureSpectrumDisplay",
    "FilterDisplay",
    "WidthScanDisplay",
]
