"""Buffers as bytes, whatever their items are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["flat_view"]


def flat_view(buffer: ReadableBuffer) -> memoryview:
    """Return a view of the bytes of a buffer, to be released by the caller.

    ``memoryview.cast`` refuses items that :mod:`struct` has no letter for in its native mode: those
    of ctypes' arrays and of structured arrays.

    Raises:
        TypeError: it is no buffer, or its items do not follow each other in C's order.
    """
    view = memoryview(buffer)
    if view.format == "B" and view.ndim == 1 and view.contiguous:
        return view
    with view:
        if not view.c_contiguous:
            raise TypeError(f"the items of {type(buffer).__name__} are not contiguous in memory")
    from pickle import PickleBuffer  # most buffers are bytes, and need no import

    return PickleBuffer(buffer).raw()
