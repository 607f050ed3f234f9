"""What a package exports says that it comes from a public module, and survives a pickle."""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import pickle
import pkgutil
import traceback
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import penstock
from penstock.files import LogError


def is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


PACKAGES = sorted(
    module.name
    for module in pkgutil.walk_packages(penstock.__path__, "penstock.")
    if module.ispkg and is_public(module.name) and module.name != "penstock.cli"
)
NATIVE = {"penstock._core", "penstock._record", "penstock._uring"}


def exported(package: str) -> dict[str, Any]:
    module = importlib.import_module(package)
    values = {name: getattr(module, name) for name in getattr(module, "__all__", ())}
    return {name: each for name, each in values.items() if isinstance(each, type | FunctionType)}


@pytest.mark.parametrize("package", PACKAGES)
def test_exported_names_are_those_of_public_modules(package: str) -> None:
    for name, value in exported(package).items():
        home = value.__module__
        assert is_public(home) or home in NATIVE, f"{name} of {home}"
        if home.startswith("penstock.") and home not in NATIVE and value.__qualname__ == name:
            assert pickle.loads(pickle.dumps(value)) is value, name


MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(penstock.__path__, "penstock.")
    if is_public(module.name)
    and not module.name.startswith(("penstock.cli", "penstock.gunicorn"))
    and not module.name.endswith("__main__")
)


@pytest.mark.parametrize("module", MODULES)
def test_public_functions_survive_a_pickle_and_a_copy(module: str) -> None:
    loaded = importlib.import_module(module)
    lost = []
    for name in getattr(loaded, "__all__", ()):
        value = getattr(loaded, name)
        if not inspect.isroutine(value) and not hasattr(value, "__wrapped__"):
            continue
        assert copy.deepcopy(copy.copy(value)) is value
        try:
            same = pickle.loads(pickle.dumps(value)) is value
        except pickle.PicklingError:
            same = False
        if not same:
            lost.append(name)
    assert lost == []


def names_given_by(module: ast.Module) -> set[str]:
    """What ``__all__`` of a module names."""
    return {
        name.value
        for node in module.body
        if isinstance(node, ast.Assign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id == "__all__"
        for name in ast.walk(node.value)
        if isinstance(name, ast.Constant)
    }


def test_private_modules_have_no_list_of_names_but_to_hand_on_those_of_others() -> None:
    """mypy lets a module use only those imported names of another one that it lists."""
    needless = []
    for file in Path(penstock.__path__[0]).rglob("*.py"):
        name = ".".join(("penstock", *file.relative_to(penstock.__path__[0]).with_suffix("").parts))
        tree = ast.parse(file.read_text(encoding="utf-8"))
        imported = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        listed = names_given_by(tree)
        if (
            listed
            and not listed & imported
            and not is_public(name.removesuffix(".__init__").removesuffix(".__main__"))
        ):
            needless.append(name)
    # pyserial's names, which its other modules take over with a star.
    assert needless == ["penstock.serial.compat._definitions"]


def test_a_traceback_names_what_programs_import() -> None:
    (line,) = traceback.format_exception_only(LogError("a.log", "no marker"))
    assert line == "penstock.files.LogError: a.log: no marker\n"
