"""What owns a descriptor is not copied: two objects would close it, the second one another's."""

from __future__ import annotations

from typing import NoReturn


def refuse_to_copy(self: object) -> NoReturn:
    """Raise TypeError; the ``__reduce__`` of such an object, for :mod:`copy` and :mod:`pickle`."""
    raise TypeError(f"cannot copy or pickle {self!r}: it owns what it has open; make another one")
