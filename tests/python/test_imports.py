"""The modules of the package import each other in one direction, except for types."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "penstock"

# The diagnosis names the engine behind the files, which programs need not know.
EXCEPTIONS = ["penstock.cli._doctor.command imports penstock.files._backend.current_backend"]


def module_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_at_run_time(node: ast.AST) -> Iterator[str]:
    """Yield each imported name, also those of imports inside functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.orelse:
                yield from imported_at_run_time(statement)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.module is not None
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        else:
            yield from imported_at_run_time(child)


def modules_of(sources: dict[str, str]) -> dict[str, set[str]]:
    """Return the names that each module imports."""
    return {name: set(imported_at_run_time(ast.parse(text))) for name, text in sources.items()}


@cache
def package() -> dict[str, set[str]]:
    return modules_of({module_of(file): file.read_text() for file in PACKAGE.rglob("*.py")})


def graph_of(modules: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the modules that each module names in its imports.

    The packages above a module, which Python imports before it, are left out: an `__init__` that
    exports the names of its modules is in a circle with each of them.
    """
    # `from penstock.files import open`: without its last part the name is a module.
    return {
        module: ({name if name in modules else name.rpartition(".")[0] for name in names})
        & modules.keys() - {module}
        for module, names in modules.items()
    }


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = graph_of(package())
    assert sum(map(len, graph.values())) > len(graph)  # the imports were found
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_a_circle_is_found_and_one_for_types_is_not() -> None:
    circle = modules_of({"a": "from b import f", "b": "def f():\n    import a"})
    with pytest.raises(CycleError):
        TopologicalSorter(graph_of(circle)).prepare()
    typing = modules_of({"a": "import b", "b": "if TYPE_CHECKING:\n    import a"})
    TopologicalSorter(graph_of(typing)).prepare()


def floors() -> dict[str, int]:
    """The floor of each Python package, from the figure in ARCHITECTURE.md."""
    text = (PACKAGE.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    figure = text.partition("## Floors")[2].partition("```\n")[2].partition("```")[0]
    floor, found = 0, {}
    for line in figure.splitlines():
        if number := re.match(r" (\d) ", line):
            floor = int(number[1])
        for name in re.findall(r"\bpenstock(?:\.[a-z]+)?(?![\w.:])", line):
            found.setdefault(name, floor)
    return found


def package_of(module: str, packages: dict[str, int]) -> str:
    """The package of the figure in which a module is."""
    return max((name for name in packages if is_inside(module, name)), key=len)


def test_a_package_imports_none_of_a_floor_above_it() -> None:
    found = floors()
    folders = {f"penstock.{path.parent.name}" for path in PACKAGE.glob("*/__init__.py")}
    assert folders - found.keys() == {"penstock.loop"}  # the Python part of `penstock`
    upwards, arrows = [], {name: set[str]() for name in found}
    for module, names in graph_of(package()).items():
        home = package_of(module, found)
        for name in names:
            other = package_of(name, found)
            if found[other] > found[home]:
                upwards.append(f"{module} imports {name}")
            elif other != home:
                arrows[home].add(other)
    assert upwards == []
    TopologicalSorter(arrows).prepare()  # raises CycleError, which names the circle


def room_of(module: str) -> str:
    """The room of a package in which a module is: a folder, or a module beside the folders."""
    return ".".join(module.split(".")[:3])


def rooms_of(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The rooms that each room imports from. An `__init__` is in no room: it exports them all."""
    rooms: dict[str, set[str]] = {}
    for module, names in graph.items():
        home = room_of(module)
        others = {room_of(name) for name in names} - {home}
        rooms.setdefault(home, set()).update(each for each in others if each.count(".") == 2)
    return {room: others for room, others in rooms.items() if room.count(".") == 2}


def test_rooms_of_a_package_do_not_import_each_other_in_a_circle() -> None:
    rooms = rooms_of(graph_of(package()))
    assert sum(map(len, rooms.values())) > len(rooms)
    TopologicalSorter(rooms).prepare()  # raises CycleError, which names the circle


def test_a_circle_of_rooms_is_found() -> None:
    circle = modules_of(
        {"p.a._x.f": "import p.a._y.g", "p.a._y.h": "import p.a._x.f", "p.a._y.g": ""}
    )
    TopologicalSorter(graph_of(circle)).prepare()  # none of modules
    with pytest.raises(CycleError):
        TopologicalSorter(rooms_of(graph_of(circle))).prepare()


def test_private_modules_are_imported_inside_their_package_only() -> None:
    foreign = []
    for module, names in package().items():
        for name in names:
            parts = name.split(".")
            private = next(
                (i for i, part in enumerate(parts) if re.match("_[a-z]", part)), len(parts)
            )
            owner = ".".join(parts[:private])
            if parts[0] == "penstock" and private < len(parts) and not is_inside(module, owner):
                foreign.append(f"{module} imports {name}")
    assert sorted(foreign) == EXCEPTIONS


def is_inside(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")
