"""The package's extras install exactly what the package imports."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
# Event loops: the program chooses one, and the package runs on it.
LOOPS = {"trio", "uvloop"}


def imported_names() -> set[str]:
    names = set()
    for path in (ROOT / "python/penstock").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                names.add(node.module.partition(".")[0])
            elif (
                isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
            ):
                names.add(str(node.args[0].value).partition(".")[0])  # import_module("…")
    return names


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"all"}))
def test_extra_installs_what_is_imported(extra: str) -> None:
    packages = {re.split(r"[<>=;\[ ]", each)[0] for each in EXTRAS[extra]} - {"penstock"}
    assert {each.replace("-", "_") for each in packages - LOOPS} <= imported_names()


def test_all_includes_every_extra_of_the_package() -> None:
    (everything,) = EXTRAS["all"]
    named = set(everything.partition("[")[2].rstrip("]").split(","))
    assert named == EXTRAS.keys() - {"all"}
