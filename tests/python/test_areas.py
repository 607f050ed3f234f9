"""`make check CHECK=changed` runs the tests of what was changed, and of the floors above it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
COROUTINE_TESTS = ROOT / "tests/cpp/coro"
PACKAGES = [
    "alicat",
    "asgi",
    "dash",
    "files",
    "loop",
    "record",
    "serial",
    "sim",
    "uring",
    "websocket",
]


def load_areas() -> ModuleType:
    spec = importlib.util.spec_from_file_location("areas", ROOT / "scripts/areas.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


areas = load_areas()


def programs_of(area: str) -> set[str]:
    """What scripts/check builds and runs for an area."""
    steps = f". scripts/steps/test_parts.sh; programs_of {area}"
    done = subprocess.run(["bash", "-c", steps], cwd=ROOT, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("parent", ["src", "include/penstock", "python/ext", "python/penstock"])
def test_every_folder_of_the_sources_has_an_area(parent: str) -> None:
    folders = {each.name for each in (ROOT / parent).iterdir() if each.is_dir()} - {"__pycache__"}
    assert folders
    assert {name for name in folders if not areas.areas_of_file(f"{parent}/{name}/x")} == set()


@pytest.mark.parametrize(
    ("path", "chosen"),
    [
        ("src/http/router.cpp", {"http", "tls", "http_client", "whole_library"}),
        ("src/http/client/exchange.cpp", {"http_client", "whole_library"}),
        ("include/penstock/http/client_body.hpp", {"http_client", "whole_library"}),
        ("src/ws/server.cpp", {"coroutine", "http", "tls", "http_client", "whole_library"}),
        ("src/tls/engine.cpp", {"tls", "http_client", "whole_library"}),
        ("tests/cpp/coro/http/form_test.cpp", {"http"}),
        ("tests/cpp/coro/http/site.hpp", {"http", "tls", "http_client", "whole_library"}),
        ("tests/cpp/coro/http_client/storm_test.cpp", {"http_client"}),
        ("tests/cpp/coro/serial/port_test.cpp", {"coroutine"}),
        ("tests/cpp/io/timers_test.cpp", {"cpp"}),
        ("tests/python/serial/test_sync.py", {"serial"}),
        ("python/penstock/record/sink.py", {"record", "dash", "cli"}),
        ("docs/cpp.md", {"documentation", "whole_library"}),
        ("CONTRIBUTING.md", set()),
    ],
)
def test_a_change_asks_for_its_tests_and_those_of_the_floors_above(
    path: str, chosen: set[str]
) -> None:
    assert areas.areas_of_change([path]) == chosen


@pytest.mark.parametrize("package", PACKAGES)
def test_a_change_of_a_package_asks_for_those_that_import_it(package: str) -> None:
    asked = areas.areas_of_change([f"python/penstock/{package}/any.py"])
    for other in [*PACKAGES, "cli"]:
        for file in (ROOT / "python/penstock" / other).rglob("*.py"):
            if re.search(rf"^ *(?:from|import) penstock\.{package}\b", file.read_text(), re.M):
                assert other in asked, f"{file} imports penstock.{package}"


def test_a_change_of_native_code_asks_for_all_that_stand_on_it() -> None:
    asked_for = areas.areas_of_change
    on_the_loop = {"loop", "files", "asgi", "websocket", "serial", "record", "cli"}
    assert on_the_loop <= asked_for(["python/ext/core/loop.cpp"])
    assert on_the_loop | {"uring"} <= asked_for(["python/shared/py_ref.hpp"])
    assert on_the_loop | {"uring", "cpp", "coroutine", "http"} <= asked_for(["src/io/poller.cpp"])
    assert {"record", "alicat"} <= asked_for(["python/record_ext/module.cpp"])


def test_the_sources_of_each_area_are_there() -> None:
    for places in areas.SOURCES.values():
        for place in places:
            assert (ROOT / place).exists(), place


def test_a_page_alone_asks_for_the_documentation() -> None:
    assert areas.areas_of_change(["docs/files.md", "CHANGELOG.md"]) == {"documentation"}


def test_a_file_without_an_area_asks_for_all_the_usual_ones() -> None:
    assert areas.areas_of_change(["pyproject.toml"]) == set(areas.usual_areas())


def test_each_test_program_of_the_coroutine_library_belongs_to_one_area() -> None:
    cmake = (COROUTINE_TESTS / "CMakeLists.txt").read_text()
    built = set(re.findall(r"penstock_add_test\((\w+) ", cmake))
    built |= {each.stem for each in (COROUTINE_TESTS / "standalone").glob("*_test.cpp")}
    programs = [name for area in areas.COROUTINE_LIBRARY for name in programs_of(area)]
    assert sorted(programs) == sorted(built)
    assert all(programs_of(area) for area in areas.COROUTINE_LIBRARY)


def test_an_unknown_area_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SystemExit, match=r"no area is called https; choose from cpp, .*changed"):
        areas.main(["https"])
