# SPDX-License-Identifier: BSD-3-Clause
"""The dynamical dichotomy: what wide networks of an abc-parametrisation do."""

from dataclasses import dataclass
from fractions import Fraction

from rfmlearn._typing import Sequence


@dataclass(frozen=True)
class WidthLimit:
    """What `classify_parametrization` finds.

    Parameters
    ----------
    name : {"unstable", "trivial", "kernel", "feature learning"}
        What becomes of networks as they get wider.
    r : Fraction
        Features move by ``n^-r`` as training begins.
    reason : str
        The condition that decided.
    """

    name: str
    r: Fraction
    reason: str

    @property
    def stable(self):
        """Whether nothing explodes with width."""
        return self.name != "unstable"


def classify_parametrization(
    a: Sequence[float | Fraction], b: Sequence[float | Fraction], c: float | Fraction
) -> WidthLimit:
    """Tell from its exponents what a wide network does under gradient descent.

    Weights ``W^l = n^-a_l w^l`` with ``w^l ~ N(0, n^-2b_l)`` and learning rate ``eta n^-c``, for L
    hidden layers of width n.

    Parameters
    ----------
    a, b : sequence of L + 1 numbers
        Exponents of input, hidden and output weights.
    c : number
        Exponent of the learning rate.

    Returns
    -------
    WidthLimit
        Its `name` is "unstable" if pre-activations or outputs explode with width; "trivial" if
        the function does not change; else "feature learning" if features move (r = 0), or
        "kernel" if they do not (r > 0).

    Raises
    ------
    ValueError
        If there are fewer than two layers, or a and b differ in length.

    Notes
    -----
    Theorems 3.3, 3.4 and 3.6 of Tensor Programs IV (arXiv 2011.14522), for stochastic gradient
    descent. Exponents are taken as fractions, so that 0.5 and 1/2 are one number.

    Examples
    --------
    >>> from rfmlearn.neural import classify_parametrization
    >>> classify_parametrization((-0.5, 0, 0.5), (0.5, 0.5, 0.5), 0).name
    'feature learning'
    >>> classify_parametrization((0, 0.5, 0.5), (0, 0, 0), 0)
    WidthLimit(name='kernel', r=Fraction(1, 2), reason='r = 1/2 > 0')
    """
    if len(a) != len(b) or len(a) < 2:
        raise ValueError(
            f"a and b need one exponent for each of two or more layers; got {len(a)} and {len(b)}."
        )
    a, b = ([Fraction(x).limit_denominator(10**6) for x in exponents] for exponents in (a, b))
    c, half = Fraction(c).limit_denominator(10**6), Fraction(1, 2)
    a_out, b_out = a[-1], b[-1]
    inner = min([2 * a[0] + 1, *(2 * x for x in a[1:-1])])
    r = min(a_out + b_out, 2 * a_out + c) + c - 1 + inner
    needed = [("a_1 + b_1 = 0", a[0] + b[0] == 0)]
    needed += [
        (f"a_{i + 2} + b_{i + 2} = 1/2", x + y == half)
        for i, (x, y) in enumerate(zip(a[1:-1], b[1:-1]))
    ]
    needed += [
        ("a_L+1 + b_L+1 >= 1/2", a_out + b_out >= half),
        ("r >= 0", r >= 0),
        ("2 a_L+1 + c >= 1", 2 * a_out + c >= 1),
        ("a_L+1 + b_L+1 + r >= 1", a_out + b_out + r >= 1),
    ]
    for condition, holds in needed:
        if not holds:
            return WidthLimit("unstable", r, f"{condition} does not hold")
    if 2 * a_out + c != 1 and a_out + b_out + r != 1:
        reason = "neither 2 a_L+1 + c = 1 nor a_L+1 + b_L+1 + r = 1"
        return WidthLimit("trivial", r, reason)
    if r == 0:
        return WidthLimit("feature learning", r, "r = 0")
    return WidthLimit("kernel", r, f"r = {r} > 0")
