"""``files.Path`` beside ``pathlib.Path``: a table of calls, on every loop."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
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

NAMES = (
    "a.txt",
    "empty",
    "one",
    "to_file",
    "to_folder",
    "broken",
    "loop",
    "fifo",
    "missing",
    "missing/below",
    "a.txt/below",
    "n" * 300,
    "null\0character",
    ".",
    "one/..",
    "other/up/one/c.txt",
)

# Without arguments, on each name.
QUESTIONS = (
    "exists",
    "is_file",
    "is_dir",
    "is_symlink",
    "is_socket",
    "is_fifo",
    "is_block_device",
    "is_char_device",
    "is_mount",
    "stat",
    "lstat",
    "readlink",
    "resolve",
    "absolute",
    "owner",
    "group",
    "expanduser",
    "iterdir",
)

READING = (*(f"{question} " for question in QUESTIONS), "glob", "rglob", "walk", "read ")

# What changes something, on each name.
CHANGES: dict[str, Call] = {
    "touch": lambda path: path.touch(),
    "touch a new file": lambda path: path.touch(0o640, exist_ok=False),
    "mkdir": lambda path: path.mkdir(),
    "mkdir with a mode": lambda path: path.mkdir(0o700, exist_ok=True),
    "mkdir with parents": lambda path: path.mkdir(parents=True),
    "mkdir with parents that may exist": lambda path: path.mkdir(parents=True, exist_ok=True),
    "rmdir": lambda path: path.rmdir(),
    "unlink": lambda path: path.unlink(),
    "unlink what may be missing": lambda path: path.unlink(missing_ok=True),
    "chmod": lambda path: path.chmod(0o600),
    "rename": lambda path: path.rename(path.parent / "renamed"),
    "replace a file": lambda path: path.replace(path.parent / "b.tar.gz"),
    "replace a folder": lambda path: path.replace(path.parent / "other"),
    "link it": lambda path: path.symlink_to("a.txt"),
    "name it again": lambda path: (path.parent / "again").hardlink_to(path),
    "same file": lambda path: path.samefile(path.parent / "hard"),
    "same as missing": lambda path: path.samefile(str(path.parent / "missing")),
    "resolve strictly": lambda path: path.resolve(strict=True),
}

# On each name but the FIFO, whose opening waits.
CONTENT: dict[str, Call] = {
    "read bytes": lambda path: path.read_bytes(),
    "read text": lambda path: path.read_text(encoding="utf-8"),
    "read text with errors": lambda path: path.read_text("ascii", "replace"),
    "write bytes": lambda path: path.write_bytes(bytearray(b"\0new")),
    "write text": lambda path: path.write_text("é\nü", encoding="utf-8"),
    "write UTF-16": lambda path: path.write_text("é\nü", "utf-16", newline="\r\n"),
    "write what cannot be encoded": lambda path: path.write_text("new é", "utf-8", "strict"),
    "write another type": lambda path: path.write_text(b"bytes"),
    "write no bytes": lambda path: path.write_bytes("text"),
}

PATTERNS = (
    "*",
    "*.txt",
    "**/*.txt",
    "**",
    "**/*",
    "*/*",
    "one/**/e",
    "one/../a.txt",
    ".*",
    "[ab].*",
    "other/[[]x].txt",
    "to_folder/*",
    "missing/*",
    "a.txt/*",
    "sp ace",
    "?*",
    "**/d.TXT",
    "",
    "/absolute",
    "one/*/",
)


def _cases() -> list[Any]:
    cases = []
    for name in NAMES:
        label = name if len(name) < 100 else "long"
        for question in QUESTIONS:
            call: Call = lambda top, n=name, q=question: getattr(top / n, q)()  # noqa: E731
            cases.append(pytest.param(call, id=f"{question} of {label!r}"))
        for kind, change in {**CHANGES, **CONTENT}.items():
            if name == "fifo" and kind in CONTENT:
                continue
            if name in (".", "one/..") and kind.startswith(("rename", "replace")):
                continue  # would move the tree itself
            call = lambda top, n=name, c=change: c(top / n)  # noqa: E731
            cases.append(pytest.param(call, id=f"{kind}: {label!r}"))
    for pattern in PATTERNS:
        for search in ("glob", "rglob"):
            call = lambda top, p=pattern, s=search: getattr(top, s)(p)  # noqa: E731
            cases.append(pytest.param(call, id=f"{search} {pattern!r}"))
    if sys.version_info >= (3, 12):
        for top_down in (True, False):
            for follow in (True, False):
                call = lambda top, d=top_down, f=follow: (top / "one").walk(  # noqa: E731
                    d, None, f
                )
                cases.append(pytest.param(call, id=f"walk {top_down} {follow}"))
    return cases


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


async def test_every_call_does_what_pathlib_does(tmp_path: Path, usual_umask: None) -> None:
    differing = []
    trees: tuple[Path, Path] | None = None
    for number, case in enumerate(_cases()):
        call: Call = case.values[0]
        if trees is None:
            trees = tmp_path / f"{number}p", tmp_path / f"{number}q"
            for top in trees:
                top.mkdir()
                make_tree(top)
            untouched = snapshot(trees[0])
        ours, theirs = trees
        expected = outcome_of_pathlib(call, theirs)
        actual = await outcome_of(call, ours)
        if "glob" in str(case.id):
            expected, actual = _sorted(expected), _sorted(actual)
        if actual == expected and str(case.id).startswith(READING):
            continue
        after = snapshot(ours)
        if (actual, after) != (expected, snapshot(theirs)):
            differing.append((case.id, actual, expected))
        if after != untouched:
            trees = None  # the next case gets new ones
    assert differing == []
    assert trees is None or snapshot(trees[0]) == untouched


def _sorted(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) else value
