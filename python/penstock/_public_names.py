"""Where the classes and functions of a package say that they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import FunctionType
from typing import Any

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
    for name in namespace["__all__"]:
        _claim_one(namespace["__name__"], name, namespace.get(name))


def claim_wrappers(namespace: dict[str, Any]) -> None:
    """Make a module the home of those exported functions that wrap one of Python's own.

    Called at the end of the module with its ``globals()``. :func:`functools.wraps` names them after
    what they wrap, which a pickle of them would then find, and refuse.
    """
    for name in namespace["__all__"]:
        value = namespace[name]
        if hasattr(value, "__wrapped__") and not value.__module__.startswith("penstock."):
            value.__module__ = namespace["__name__"]
            value.__qualname__ = name


def _claim_one(package: str, name: str, value: Any) -> None:
    # The native part of files has objects that take the place of coroutine functions.
    function = getattr(value, "__wrapped__", value)
    if not isinstance(value, type) and not isinstance(function, FunctionType):
        return
    if isinstance(value, type) and value.__flags__ & _IMMUTABLE:
        return
    home = value.__module__
    is_room = home.startswith("penstock.") and any(part.startswith("_") for part in home.split("."))
    if is_room and value.__qualname__ == name:
        value.__module__ = package


def on_demand(
    namespace: dict[str, Any], homes: Mapping[str, str], otherwise: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package that imports a name when it is first used.

    The name is claimed then, as by :func:`claim`.

    Args:
        namespace: the package's ``globals()``.
        homes: by the module, the names that are there, with spaces between them.
        otherwise: those that have another name in their module.

    Raises:
        ImportError: a module of the package has one of the names. Its import would put the module
            in the place of what the name is for.
    """
    places = {name: module for module, names in homes.items() for name in names.split()}
    package = namespace["__name__"]
    if hidden := [name for name in places if f"{package}.{name}" in homes]:
        raise ImportError(
            f"{package} exports {hidden[0]}, and has a module of that name; rename it"
        )

    def found(name: str) -> Any:
        module = places.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), (otherwise or {}).get(name, name))
        _claim_one(package, name, value)
        namespace[name] = value
        return value

    def names() -> list[str]:
        return sorted({*namespace, *places})

    return found, names
