# SPDX-License-Identifier: BSD-3-Clause
"""Axes and colours of the displays."""

# Dark enough to read on white, told apart by the colour-blind (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")


def axes(ax):
    """Return the axes to draw on: those given, or new ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(5.5, 4.0), layout="constrained")[1]
