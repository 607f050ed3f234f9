"""``files.Path`` beside ``pathlib.Path``: random programs, on every loop."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.python.files.path_judge import (
    Call,
    make_tree,
    outcome_of,
    outcome_of_pathlib,
    snapshot,
)

pytestmark = pytest.mark.anyio

PROGRAMS = 40
STEPS = 25

COMPONENTS = ("a.txt", "one", "two", "other", "to_folder", "new", "empty", "..", "broken", ".g")

Operation = Callable[[random.Random], Call]


def _name(chance: random.Random) -> str:
    return "/".join(chance.choices(COMPONENTS, k=chance.randint(1, 3)))


def _within(path: str) -> bool:
    """Whether the path stays in the tree by its names: ``..`` must not lead out of it."""
    depth = 0
    for part in path.split("/"):
        depth += -1 if part == ".." else 1
        if depth < 0:
            return False
    return depth > 0


def _on(method: str, *arguments: Any, **keywords: Any) -> Callable[[str], Call]:
    return lambda name: lambda top: getattr(top / name, method)(*arguments, **keywords)


SINGLE = (
    _on("exists"),
    _on("is_file"),
    _on("is_dir"),
    _on("stat"),
    _on("lstat"),
    _on("resolve"),
    _on("touch"),
    _on("touch", exist_ok=False),
    _on("mkdir"),
    _on("mkdir", parents=True, exist_ok=True),
    _on("rmdir"),
    _on("unlink"),
    _on("unlink", missing_ok=True),
    _on("chmod", 0o750),
    _on("read_bytes"),
    _on("read_text", encoding="utf-8"),
    _on("write_text", "one\ntwo\n", encoding="utf-8", newline="\r\n"),
    _on("write_bytes", b"\x00\xff"),
    _on("symlink_to", "../other"),
    _on("readlink"),
)

PAIRS = ("rename", "replace", "hardlink_to", "samefile")


def _step(chance: random.Random) -> tuple[str, Call]:
    while not _within(name := _name(chance)):
        pass
    if chance.random() < 0.25:
        while not _within(other := _name(chance)):
            pass
        method = chance.choice(PAIRS)
        return f"{method} {name} {other}", lambda top: getattr(top / name, method)(top / other)
    if chance.random() < 0.15:
        pattern = chance.choice(("*", "**/*", "*/*.txt", "[a-o]*", "**/two"))
        return f"glob {pattern}", lambda top: sorted_or_later(top.rglob(pattern))
    number = chance.randrange(len(SINGLE))
    return f"{number} of {name}", SINGLE[number](name)


def sorted_or_later(found: Any) -> Any:
    """Sort what pathlib finds; an asynchronous iterator is sorted when it has been read."""
    return found if hasattr(found, "__anext__") else sorted(found)


async def test_random_programs_do_what_they_do_with_pathlib(tmp_path: Path) -> None:
    differing = []
    for seed in range(PROGRAMS):
        chance = random.Random(seed)
        ours, theirs = tmp_path / f"{seed}p", tmp_path / f"{seed}q"
        for top in (ours, theirs):
            top.mkdir()
            make_tree(top)
        for number in range(STEPS):
            what, call = _step(chance)
            expected = outcome_of_pathlib(call, theirs)
            actual = await outcome_of(call, ours)
            if what.startswith("glob") and isinstance(actual, list):
                actual, expected = sorted(actual), sorted(expected)
            if actual != expected or snapshot(ours) != snapshot(theirs):
                differing.append((seed, number, what, actual, expected))
                break
    assert differing == []
