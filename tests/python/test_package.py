"""The dependencies between the package's modules, and their public names."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "python/penstock"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in PACKAGE.rglob("*.py")}
PUBLIC_PACKAGES = sorted(
    name
    for name, path in MODULES.items()
    if path.name == "__init__.py" and not any(part.startswith("_") for part in name.split("."))
)


def is_for_typing(node: ast.If) -> bool:
    test = node.test
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def executed_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes below ``node``, also in functions, except code for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and is_for_typing(child):
            for other in child.orelse:
                yield other
                yield from executed_nodes(other)
            continue
        yield child
        yield from executed_nodes(child)


def imported_modules(source: str, module: str, *, is_package: bool) -> set[str]:
    """Return the package's modules that ``source`` imports, at module level or in a function.

    The parent packages that an import also runs are omitted, because they are the same for all.
    """
    found = set()
    for node in executed_nodes(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                above = parts[: len(parts) - node.level + is_package]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in MODULES else base)
    return (found & MODULES.keys()) - {module}


def cycle_of(imports: dict[str, set[str]]) -> list[str]:
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


def test_no_import_cycle_exists() -> None:
    imports = {
        name: imported_modules(path.read_text(), name, is_package=path.name == "__init__.py")
        for name, path in MODULES.items()
    }
    assert imports["penstock.files"], "nothing was found"
    assert cycle_of(imports) == []


def test_function_imports_count_and_typing_imports_do_not() -> None:
    in_function = "def use():\n    from penstock.files import open\n"
    for_typing = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import penstock.files\n"
        "else:\n    import penstock.serial\n"
    )
    relative = "from .. import uring\nfrom . import errors\n"
    name = "penstock.record.sink"
    assert imported_modules(in_function, name, is_package=False) == {"penstock.files"}
    assert imported_modules(for_typing, name, is_package=False) == {"penstock.serial"}
    assert imported_modules(relative, name, is_package=False) == {
        "penstock.uring",
        "penstock.record.errors",
    }
    assert cycle_of({"a": {"b"}, "b": {"c"}, "c": {"a"}})


@pytest.mark.parametrize("name", PUBLIC_PACKAGES)
def test_public_package_exports_existing_public_names(name: str) -> None:
    package = import_module(name)
    is_empty = all(isinstance(node, ast.Expr) for node in ast.parse(MODULES[name].read_text()).body)
    exported = [] if is_empty else package.__all__
    assert [each for each in exported if each.startswith("_") and each != "__version__"] == []
    assert len(set(exported)) == len(exported)
    assert [each for each in exported if not hasattr(package, each)] == []
