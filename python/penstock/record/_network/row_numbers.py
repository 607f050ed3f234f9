"""An identity for each row, where the other side may get a row twice: run, device, number."""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Sequence

__all__ = ["RowNumbers"]


class RowNumbers:
    """Counts the rows of each device, from 0, within one run.

    The device, the run and the number together are a row's own for all time. A reader that finds
    a number twice drops one; a gap is a row that it has not got.

    Attributes:
        run: a random name.
    """

    def __init__(self) -> None:
        self.run = secrets.token_hex(8)
        self._next: dict[str, int] = {}

    def take(self, codes: array[int], names: Sequence[str]) -> array[int]:
        """The numbers of rows whose devices are ``names[code]``."""
        present = [self._next.get(name, 0) for name in names]
        numbers = array("q", bytes(8 * len(codes)))
        for row, code in enumerate(codes):
            numbers[row] = present[code]
            present[code] += 1
        self._next.update(zip(names, present, strict=True))
        return numbers
