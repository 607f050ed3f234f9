"""Which tests a change asks for: the areas that it touches, and the floors above them.

usage: areas.py [AREA...]

An AREA is a folder of tests/python, or ``cpp`` for floor 1 and the codecs. ``changed`` stands for
what differs from the branch ``main`` or is not committed. Without an AREA, all are meant. Prints
one area a line.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests/python"

# Each area, its sources, and the areas directly above it, as in ARCHITECTURE.md.
SOURCES: dict[str, tuple[str, ...]] = {
    "cpp": ("src/io", "src/codec", "include/penstock/io", "include/penstock/codec", "tests/cpp"),
    "loop": (
        *("python/penstock/loop", "python/ext/core", "python/ext/awaitable", "python/ext/net"),
        *("python/ext/tls", "python/ext/streams", "python/penstock/__init__.py"),
    ),
    "files": (
        *("python/penstock/files", "python/ext/files", "python/ext/file_objects"),
        "python/penstock/_durable_files.py",
    ),
    "uring": ("python/penstock/uring", "python/uring_ext", "python/shared"),
    "asgi": ("python/penstock/asgi", "python/penstock/gunicorn.py", "python/ext/asgi"),
    "websocket": ("python/penstock/websocket", "python/ext/web"),
    "serial": ("python/penstock/serial", "python/ext/serial"),
    "alicat": ("python/penstock/alicat",),
    "sim": ("python/penstock/sim",),
    "record": ("python/penstock/record", "python/record_ext"),
    "dash": ("python/penstock/dash",),
    "cli": ("python/penstock/cli",),
    "benchmarks": ("benchmarks",),
    "documentation": ("docs", "README.md", "examples"),
}
ABOVE: dict[str, tuple[str, ...]] = {
    "cpp": ("loop", "files", "asgi", "websocket", "serial"),
    "files": ("record",),
    "asgi": ("cli",),
    "websocket": ("asgi",),
    "serial": ("alicat", "sim"),
    "alicat": ("sim", "cli"),
    "sim": ("cli",),
    "record": ("dash", "cli"),
    "dash": ("cli",),
}


def known_areas() -> list[str]:
    folders = (each.name for each in TESTS.iterdir() if any(each.glob("test_*.py")))
    return ["cpp", *sorted(folders)]


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


def areas_of_files(paths: Iterable[str]) -> set[str]:
    """The areas of the files; a file that belongs to none, such as pyproject.toml, means all."""
    found = set()
    for path in paths:
        areas = {name for name, places in SOURCES.items() if path.startswith(places)}
        if path.startswith("tests/python/") and path.count("/") > 2:
            areas.add(path.split("/")[2])
        if not areas and not path.endswith(".md"):
            return set(known_areas())
        found |= areas
    return found


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
    chosen = set(arguments) - {"changed"} if arguments else set(known)
    if "changed" in arguments:
        chosen |= with_floors_above(areas_of_files(changed_files()))
    print("\n".join(area for area in known if area in chosen))


if __name__ == "__main__":
    main(sys.argv[1:])
