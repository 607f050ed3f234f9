"""The judge of ``files.Path``: the same calls on it and on ``pathlib.Path``, in equal trees."""

from __future__ import annotations

import inspect
import os
import pathlib
import re
import stat
from collections.abc import Callable
from typing import Any

from penstock import files

__all__ = ["Call", "make_tree", "outcome_of", "outcome_of_pathlib", "snapshot"]

Call = Callable[[Any], Any]


def make_tree(top: pathlib.Path) -> None:
    """Make files, folders, links of each kind, hidden ones, and a name that needs escaping."""
    for folder in ("empty", "one/two/three", "other", ".hidden", "sp ace"):
        (top / folder).mkdir(parents=True)
    for number, name in enumerate(
        (
            "a.txt",
            "b.tar.gz",
            "one/c.txt",
            "one/two/d.TXT",
            "one/two/three/e",
            ".hidden/f.txt",
            ".g",
        )
    ):
        (top / name).write_bytes(b"line\r\nother\rlast\n" * number)
    (top / "other/[x].txt").write_text("brackets", encoding="utf-8")
    (top / "to_file").symlink_to("a.txt")
    (top / "to_folder").symlink_to("one")
    (top / "broken").symlink_to("nowhere")
    (top / "loop").symlink_to("loop")
    (top / "other/up").symlink_to("..")
    os.link(top / "a.txt", top / "hard")
    os.mkfifo(top / "fifo")
    (top / "latin").write_bytes("é\n".encode("latin-1"))
    (top / "read_only").write_bytes(b"x")
    (top / "read_only").chmod(0o444)


def snapshot(top: pathlib.Path) -> dict[str, Any]:
    """Return what each name of the tree is, and what it holds."""
    found: dict[str, Any] = {}
    content: Any
    skipped = len(str(top)) + 1
    for folder, folders, others in os.walk(top):
        for name in folders + others:
            path = f"{folder}/{name}"
            status = os.lstat(path)
            mode, content = stat.S_IMODE(status.st_mode), None
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read(), status.st_nlink
            elif stat.S_ISLNK(status.st_mode):
                mode, content = 0, os.readlink(path)
            found[path[skipped:]] = stat.S_IFMT(status.st_mode), mode, content
    return found


def _plain(value: Any, top: pathlib.Path) -> Any:
    """Reduce a result to what both must have in common."""
    if isinstance(value, (files.Path, pathlib.PurePath)):
        return "path", re.sub(rf"^{re.escape(str(top))}(?=/|$)", "TOP", str(value))
    if isinstance(value, os.stat_result):
        return stat.S_IFMT(value.st_mode), value.st_size
    if isinstance(value, tuple):
        return tuple(_plain(each, top) for each in value)
    if isinstance(value, list):
        return [_plain(each, top) for each in value]
    if isinstance(value, (str, bytes, int, bool, type(None))):
        return value
    raise TypeError(f"the judge does not know {type(value).__name__}")


def _error(error: BaseException, top: pathlib.Path) -> Any:
    # shutil.SameFileError of copies is an OSError without number.
    kind = "OSError" if isinstance(error, OSError) else type(error).__name__
    names = [
        None if name is None else os.fspath(name).replace(str(top), "TOP")
        for name in (getattr(error, "filename", None), getattr(error, "filename2", None))
    ]
    return "raises", kind, getattr(error, "errno", None), names


def outcome_of_pathlib(call: Call, top: pathlib.Path) -> Any:
    """Return what the call returns or raises on ``pathlib.Path``."""
    try:
        value = call(top)
        if hasattr(value, "__next__"):
            value = list(value)
    except Exception as error:
        return _error(error, top)
    return _plain(value, top)


async def outcome_of(call: Call, top: pathlib.Path) -> Any:
    """Return what the same call returns or raises on ``files.Path``."""
    try:
        value = call(files.Path(top))
        if inspect.isawaitable(value):
            value = await value
        elif hasattr(value, "__anext__"):
            value = [each async for each in value]
    except Exception as error:
        return _error(error, top)
    return _plain(value, top)
