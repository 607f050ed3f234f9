"""Every name that a public module exports says what it is, and so does every method of a class."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Iterator
from typing import Any

import penstock


def public_modules() -> Iterator[str]:
    yield "penstock"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [module.name for module in pkgutil.walk_packages(penstock.__path__, "penstock.")]
    for name in found:
        # The command line exports nothing to programs; gunicorn's worker needs gunicorn.
        parts = name.split(".")[1:]
        if parts[0] not in ("cli", "gunicorn") and not any(part.startswith("_") for part in parts):
            yield name


def exported() -> dict[str, Any]:
    """The exported classes and functions of the package's own, each once."""
    found: dict[int, tuple[str, Any]] = {}
    for module_name in public_modules():
        module = importlib.import_module(module_name)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            own = (getattr(value, "__module__", None) or "").startswith("penstock")
            if own and (inspect.isclass(value) or inspect.isroutine(value)):
                found.setdefault(id(value), (f"{module_name}.{name}", value))
    return dict(found.values())


def members(cls: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        function = value.fget if isinstance(value, property) else value
        function = getattr(function, "__func__", function)
        if not (inspect.isroutine(function) or isinstance(value, property)):
            continue
        # The old name of a field only warns.
        if "_read_by_old_name" not in getattr(function, "__qualname__", ""):
            yield name, value


def test_exported_names_have_docstrings() -> None:
    names = exported()
    silent = [name for name, value in names.items() if not value.__doc__]
    for name, value in names.items():
        if inspect.isclass(value):
            silent += [f"{name}.{each}" for each, member in members(value) if not member.__doc__]
    assert silent == []
    assert len(names) > 700  # it has looked at the package
