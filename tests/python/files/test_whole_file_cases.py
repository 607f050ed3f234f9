"""The cases of whole files that Python and C++ share: tests/whole_file_cases.txt."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from penstock.files import copy, write_file

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_descriptor_left")]

TABLE = Path(__file__).parents[2] / "whole_file_cases.txt"
OLD, NEW = b"old" * 1000, b"new!" * 1000
SPARSE_SIZE, PAGE = 64 << 20, 4096


class Case(NamedTuple):
    done: str
    source: str
    before: str
    umask: int
    result: str
    after: str


def read_cases() -> list[Case]:
    lines = [line for line in TABLE.read_text().splitlines() if line and line[0] != "#"]
    cases = []
    for line in lines:
        done, source, before, umask, result, after = (each.strip() for each in line.split("|"))
        cases.append(Case(done, source, before, int(umask, 8), result, after))
    return cases


def make(path: Path, what: str, content: bytes) -> None:
    """Create what a cell of the table names."""
    kind, _, detail = what.partition(" ")
    match kind:
        case "none":
            return
        case "file" | "empty":
            path.write_bytes(content if kind == "file" else b"")
        case "sparse":
            with path.open("wb") as file:
                file.truncate(SPARSE_SIZE)
                for offset in (0, SPARSE_SIZE // 2):
                    file.seek(offset)
                    file.write(content[:PAGE].ljust(PAGE, b"."))
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind(str(path))
        case "device":
            try:
                os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
            except PermissionError:
                pytest.skip("only root may make a device")
        case "same":
            os.link(path.with_name("source"), path)
        case "loop":
            path.symlink_to(path.name)
        case "link":
            inside = path.with_name(f"inside {path.name}")
            make(inside, detail, content)
            path.symlink_to(inside.name)
        case _:
            raise ValueError(f"no such file in the table: {what!r}")
    if kind in ("file", "empty", "sparse"):
        path.chmod(int(detail, 8))


def seen(path: Path) -> tuple[str, str]:
    """What is there, as the table says it, and its content."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return "none", ""
    if stat.S_ISLNK(status.st_mode):
        if os.readlink(path) == path.name:
            return "loop", ""
        what, content = seen(path.with_name(os.readlink(path)))
        return f"link {what}", content
    source = path.with_name("source")
    if path != source and source.exists() and path.samefile(source):
        return "same", repr(path.read_bytes()[:20])
    if stat.S_ISREG(status.st_mode):
        kind = "file" if status.st_size else "empty"
        if status.st_size == SPARSE_SIZE:
            holes = status.st_blocks * 512 < SPARSE_SIZE // 2
            kind = "sparse" if holes else "filled"
        with path.open("rb") as file:
            begin = file.read(len(NEW))
            file.seek(SPARSE_SIZE // 2)
            content = repr((status.st_size, begin, file.read(PAGE)))
        return f"{kind} {stat.S_IMODE(status.st_mode):04o}", content
    kinds = {
        stat.S_IFDIR: "folder",
        stat.S_IFIFO: "fifo",
        stat.S_IFSOCK: "socket",
        stat.S_IFCHR: "device",
    }
    return kinds[stat.S_IFMT(status.st_mode)], ""


async def run(case: Case, source: Path, target: Path) -> str:
    try:
        if case.done == "copy":
            await copy(source, target, sync=False)
        else:
            await write_file(target, NEW, atomic=case.done == "replace")
    except shutil.SameFileError:
        return "same file"
    except OSError as error:
        assert error.errno is not None
        assert os.fspath(error.filename) in (str(source), str(target))
        return errno.errorcode[error.errno]
    return "ok"


@pytest.fixture(params=read_cases(), ids=lambda case: " ".join(map(str, case)))
def case(request: pytest.FixtureRequest) -> Case:
    assert isinstance(request.param, Case)
    return request.param


@pytest.fixture
def umask(case: Case) -> Iterator[None]:
    before = os.umask(case.umask)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
async def test_whole_files_are_written_and_copied_as_the_table_says(
    tmp_path: Path, case: Case
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    source, target = folder / "source", folder / "target"
    if case.source != "-":
        make(source, case.source, NEW)
    make(target, case.before, OLD)
    before, names = seen(target), sorted(os.listdir(folder))

    assert await run(case, source, target) == case.result

    after = seen(target)
    assert after[0] == case.after
    if case.result == "ok":
        if not names.count("target"):
            names = sorted([*names, "target"])
        if case.before == "link none":
            names = sorted([*names, "inside target"])
        whole = NEW if case.source == "-" else source.read_bytes()
        assert target.read_bytes() == whole
    else:
        assert after == before
    assert sorted(os.listdir(folder)) == names
