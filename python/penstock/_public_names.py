"""Where the classes and functions of a package say that they come from."""

from __future__ import annotations

from types import FunctionType
from typing import Any

__all__ = ["claim"]

_IMMUTABLE = 1 << 8
"""``Py_TPFLAGS_IMMUTABLETYPE``."""


def claim(namespace: dict[str, Any]) -> None:
    """Make a package the ``__module__`` of what it exports from rooms of its own.

    Called at the end of an ``__init__.py`` with its ``globals()``. Tracebacks, ``help`` and pickles
    then name what programs import, and files can move without breaking a pickle. Pickles that name
    a room are read as long as the room has the name.

    Names that another public module defines, or that have another name there, are left alone, and
    so are native types, whose names are fixed.
    """
    package = namespace["__name__"]
    for name in namespace["__all__"]:
        value = namespace.get(name)
        if not isinstance(value, type | FunctionType):
            continue
        if isinstance(value, type) and value.__flags__ & _IMMUTABLE:
            continue
        home = value.__module__
        is_room = home.startswith("penstock.") and any(
            part.startswith("_") for part in home.split(".")
        )
        if is_room and value.__qualname__ == name:
            value.__module__ = package
