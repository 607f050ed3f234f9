"""Numbers of instruments as texts: with the digits that the instrument has sent."""

from __future__ import annotations

import math
from decimal import Decimal

__all__ = ["number_text"]

_FEWEST_DECIMALS = 2
_MOST_DIGITS = 12
"""No instrument sends more: a number with more was computed."""
_COMPUTED_DIGITS = 6
_SMALLEST_FIXED, _LARGEST_FIXED = 1e-3, 1e12


def number_text(value: float | None) -> str:
    """``value`` with its own digits, as a power of ten where it is very small or large.

    Two decimals at least, so that a column of numbers stands still; ``-`` for None.
    """
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0.00"
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    computed = len(digits) > _MOST_DIGITS
    if not _SMALLEST_FIXED <= abs(value) < _LARGEST_FIXED:
        return f"{value:.{_COMPUTED_DIGITS if computed else len(digits) - 1}e}"
    if not computed:
        return f"{value:.{max(_FEWEST_DECIMALS, -exponent)}f}"
    first = math.floor(math.log10(abs(value)))
    least = _FEWEST_DECIMALS if first >= 0 else _COMPUTED_DIGITS - 1 - first
    return f"{value:.{least}f}"
