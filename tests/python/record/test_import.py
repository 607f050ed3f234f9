"""What ``import penstock.record`` loads."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock._public_names import on_demand

_HEAVY = ("penstock.files", "penstock.loop", "penstock._core", "pyarrow", "numpy", "cryptography")


def test_files_and_the_loop_are_imported_by_the_sinks_that_need_them() -> None:
    script = f"import sys, penstock.record; print(sorted({set(_HEAVY)} & set(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1])}
    command = [sys.executable, "-c", script]
    found = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert found.stdout.decode().strip() == "[]"


@pytest.mark.parametrize("package", ["penstock.record", "penstock.record.archives"])
def test_names_that_are_imported_on_demand_are_those_that_type_checkers_know(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    known = {}
    for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.body:
                assert isinstance(statement, ast.ImportFrom)
                for alias in statement.names:
                    known[alias.asname or alias.name] = statement.module
    homes = module._HOMES
    assert known == {name: home for home, names in homes.items() for name in names.split()}
    assert sorted(known) == sorted(module.__all__)
    assert set(known) <= set(dir(module))
    assert all(getattr(module, name) is not None for name in known)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        module.Nothing  # noqa: B018


def test_a_name_of_a_module_cannot_be_imported_on_demand() -> None:
    with pytest.raises(ImportError, match="exports thing, and has a module of that name"):
        on_demand({"__name__": "a.package"}, {"a.package.thing": "thing"})
