"""The arguments of an ASCII command, as an instrument accepts them."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["RefusedError", "decimal_argument", "integer_argument"]

_DECIMAL: Final = re.compile(r"[+-]?(?:\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})", re.ASCII)
_INTEGER: Final = re.compile(r"\d{1,6}", re.ASCII)


class RefusedError(Exception):
    """The instrument knows the command and does not accept its arguments."""


def decimal_argument(text: str) -> float:
    """Return the value of a decimal number.

    float() also accepts nan, inf, 1e5 and 1_0. An instrument accepts none of them.

    Raises:
        RefusedError: ``text`` is no such number.
    """
    if not _DECIMAL.fullmatch(text):
        raise RefusedError
    return float(text)


def integer_argument(text: str) -> int:
    """Return the value of a whole number without a sign, of at most six digits.

    Raises:
        RefusedError: ``text`` is no such number.
    """
    if not _INTEGER.fullmatch(text):
        raise RefusedError
    return int(text)
