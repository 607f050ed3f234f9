"""Which tests a change asks for: the areas that it touches, and the floors above them.

usage: areas.py [AREA...]

An AREA is a folder of tests/python, ``cpp`` for floor 1 and the codecs, or a part of the coroutine
library: ``coroutine``, ``http``, ``tls``, ``http_client``, ``whole_library``. ``changed`` stands
for what differs from the branch ``main`` or is not committed. Without an AREA, all are meant but
the coroutine library, which takes longer to compile than all else together. Prints one area a line.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests/python"

# The parts of the coroutine library whose tests are programs of their own.
COROUTINE_LIBRARY = ("coroutine", "http", "tls", "http_client", "whole_library")
CLIENT_HEADERS = ("", "_body", "_errors", "_options", "_request", "_response")

# Each area, its sources, and the areas directly above it, as in ARCHITECTURE.md. Of the beginnings
# of a path, the longest counts: src/http/client is the client's alone.
SOURCES: dict[str, tuple[str, ...]] = {
    "cpp": ("src/io", "src/codec", "include/penstock/io", "include/penstock/codec", "tests/cpp"),
    "coroutine": (
        *("src/", "include/penstock/", "tests/cpp/coro", "examples/cpp"),
        "cmake/PenstockCoroutines.cmake",
    ),
    "http": ("src/http", "include/penstock/http", "tests/cpp/coro/http"),
    "tls": ("src/tls", "include/penstock/tls", "tests/cpp/coro/tls", "cmake/PenstockTls.cmake"),
    "http_client": (
        *("src/http/client", "tests/cpp/coro/http_client", "cmake/PenstockHttpClient.cmake"),
        *(f"include/penstock/http/client{end}.hpp" for end in CLIENT_HEADERS),
    ),
    "whole_library": (
        *("tests/cpp/coro/whole_library", "tests/cpp/coro/documentation", "docs/cpp.md"),
    ),
    "loop": (
        *("python/penstock/loop", "python/ext/core", "python/ext/awaitable", "python/ext/net"),
        *("python/ext/tls", "python/ext/streams", "python/penstock/__init__.py"),
        "python/shared",
    ),
    "files": (
        *("python/penstock/files", "python/ext/files", "python/ext/file_objects"),
        "python/penstock/_durable_files.py",
    ),
    "uring": (
        *("python/penstock/uring", "python/uring_ext", "python/shared"),
        "python/penstock/_durable_files.py",
    ),
    "asgi": ("python/penstock/asgi", "python/penstock/gunicorn.py", "python/ext/asgi"),
    "websocket": ("python/penstock/websocket", "python/ext/web"),
    "serial": ("python/penstock/serial", "python/ext/serial"),
    "alicat": ("python/penstock/alicat", "python/record_ext"),
    "sim": ("python/penstock/sim",),
    "record": ("python/penstock/record", "python/record_ext", "python/shared"),
    "dash": ("python/penstock/dash",),
    "cli": ("python/penstock/cli",),
    "benchmarks": ("benchmarks",),
    "documentation": ("docs", "README.md", "examples", "docs/cpp.md", "examples/cpp"),
}
ABOVE: dict[str, tuple[str, ...]] = {
    "cpp": ("coroutine", "loop", "uring"),
    "coroutine": ("http", "tls"),
    "http": ("tls", "http_client"),
    "tls": ("http_client",),
    "http_client": ("whole_library",),
    "loop": ("files", "asgi", "websocket", "serial", "record", "cli"),
    "files": ("record", "cli"),
    "uring": ("cli",),
    "asgi": ("cli",),
    "websocket": ("asgi",),
    "serial": ("alicat", "sim", "cli"),
    "alicat": ("sim", "dash", "cli"),
    "sim": ("cli",),
    "record": ("dash", "cli"),
    "dash": ("cli",),
}


def usual_areas() -> list[str]:
    folders = (each.name for each in TESTS.iterdir() if any(each.glob("test_*.py")))
    return ["cpp", *sorted(folders)]


def known_areas() -> list[str]:
    return [*usual_areas(), *COROUTINE_LIBRARY]


def git_lines(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"git {' '.join(arguments)} failed: {done.stderr.strip()}")
    return done.stdout.splitlines()


def changed_files() -> set[str]:
    """Files that differ from where this branch left ``main``, and files that git does not know."""
    # A clone of another branch has no main of its own: only what is not committed counts there.
    base = "main" if git_lines("branch", "--list", "main") else "HEAD"
    return {
        *git_lines("diff", "--name-only", "--merge-base", base),
        *git_lines("ls-files", "--others", "--exclude-standard"),
    }


def areas_of_file(path: str) -> set[str]:
    """The areas of a file; none for a file that concerns all, such as pyproject.toml."""
    if path.startswith("tests/python/") and path.count("/") > 2:
        return {path.split("/")[2]}
    lengths = {
        name: max((len(place) for place in places if path.startswith(place)), default=0)
        for name, places in SOURCES.items()
    }
    longest = max(lengths.values())
    return {name for name, length in lengths.items() if length == longest > 0}


def is_test(path: str) -> bool:
    """Whether the file is a test, on which nothing above depends."""
    return path.endswith("_test.cpp") or Path(path).name.startswith("test_")


def areas_of_change(paths: Iterable[str]) -> set[str]:
    """The areas of the files, with the floors above those that are not tests.

    A file that belongs to none means all the usual ones, a page that belongs to none nothing.
    """
    found: set[str] = set()
    sources: set[str] = set()
    for path in paths:
        areas = areas_of_file(path)
        if not areas and not path.endswith(".md"):
            found |= set(usual_areas())
        (found if is_test(path) else sources).update(areas)
    return found | with_floors_above(sources)


def with_floors_above(areas: set[str]) -> set[str]:
    found: set[str] = set()
    waiting = set(areas)
    while waiting:
        area = waiting.pop()
        found.add(area)
        waiting |= set(ABOVE.get(area, ())) - found
    return found


def main(arguments: list[str]) -> None:
    known = known_areas()
    if unknown := set(arguments) - {*known, "changed"}:
        raise SystemExit(
            f"no area is called {', '.join(sorted(unknown))}; "
            f"choose from {', '.join(known)} or changed"
        )
    chosen = set(arguments) - {"changed"} if arguments else set(usual_areas())
    if "changed" in arguments:
        chosen |= areas_of_change(changed_files())
    print("\n".join(area for area in known if area in chosen))


if __name__ == "__main__":
    main(sys.argv[1:])
