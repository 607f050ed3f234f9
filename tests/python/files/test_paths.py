"""Status, folders, renaming and removing; and reads of whole files."""

from __future__ import annotations

import fcntl
import os
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import files
from penstock.files._backend import current_backend

pytestmark = pytest.mark.anyio


async def test_the_status_equals_that_of_os_stat(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    os.utime(path, ns=(1_234_567_890_123_456_789, -5_000_000_001))
    (tmp_path / "link").symlink_to(path)
    fd = os.open(path, os.O_RDONLY)
    try:
        for name in (path, tmp_path, "/dev/null", os.fsencode(path), fd):
            ours, theirs = await files.stat(name), os.stat(name)
            assert ours == theirs
            for field in dir(theirs):
                if field.startswith("st_"):
                    assert getattr(ours, field) == pytest.approx(getattr(theirs, field), abs=1e-6)
    finally:
        os.close(fd)
    assert await files.stat(tmp_path / "link") == os.stat(path)
    assert await files.stat(tmp_path / "link", follow_symlinks=False) == os.lstat(tmp_path / "link")
    with pytest.raises(FileNotFoundError) as missing:
        await files.stat(tmp_path / "missing")
    assert missing.value.filename == tmp_path / "missing"


async def test_files_are_renamed_and_removed(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    await files.rename(one, two)
    assert two.read_bytes() == b"1"
    await files.link(two, three)
    assert two.samefile(three)
    one.write_bytes(b"3")
    await files.replace(one, two)
    assert two.read_bytes() == b"3"
    await files.unlink(two)
    assert not two.exists()
    await files.unlink(two, missing_ok=True)
    with pytest.raises(FileNotFoundError) as missing:
        await files.rename(one, two)
    assert (missing.value.filename, missing.value.filename2) == (one, two)
    with pytest.raises(FileNotFoundError):
        await files.unlink(two)
    with pytest.raises(FileExistsError):
        three.touch()
        one.touch()
        await files.link(one, three)


async def test_folders_are_made_listed_and_removed(tmp_path: Path) -> None:
    await files.mkdir(tmp_path / "folder", 0o700)
    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileExistsError):
        await files.mkdir(tmp_path / "folder")
    await files.mkdir(tmp_path / "folder", exist_ok=True)
    await files.mkdir(tmp_path / "folder" / "a" / "b", parents=True)
    (tmp_path / "folder" / "file").touch()
    with pytest.raises(FileExistsError):
        await files.mkdir(tmp_path / "folder" / "file", exist_ok=True)
    entries = await files.scandir(tmp_path / "folder")
    assert {entry.name: entry.is_dir() for entry in entries} == {"a": True, "file": False}
    with pytest.raises(OSError):
        await files.rmdir(tmp_path / "folder")
    await files.rmdir(tmp_path / "folder" / "a" / "b")
    with pytest.raises(FileNotFoundError):
        await files.scandir(tmp_path / "missing")


@pytest.mark.parametrize("size", [0, 1, 4096, 65535, 65536, 65537, 200_000, (2 << 20) + 1])
async def test_a_file_is_read_whole(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    assert await files.read_file(tmp_path / "file") == data
    # Without the page cache.
    os.sync()
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    assert await files.read_file(tmp_path / "file") == data


async def test_several_files_are_read_in_order(tmp_path: Path) -> None:
    paths = [tmp_path / f"{index}" for index in range(150)]
    for index, path in enumerate(paths):
        path.write_bytes(b"%d" % index * (index * 40))
    expected = [path.read_bytes() for path in paths]
    for limit in (1, 7, 1000):
        assert await files.read_files(paths, limit) == expected
    assert await files.read_files(iter(paths)) == expected
    assert await files.read_files([]) == []
    with pytest.raises(ValueError, match="queue_depth 0"):
        await files.read_files(paths, 0)


async def test_cached_files_and_others_are_read_in_order(tmp_path: Path) -> None:
    paths = [tmp_path / f"{index}" for index in range(700)]
    for index, path in enumerate(paths):
        path.write_bytes(b"%d" % index * (index % 50))
    os.sync()
    for index in (*range(3), 100, *range(200, 500, 7), *range(600, 700)):
        fd = os.open(paths[index], os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    given: list[Any] = [str(path) if index % 3 else path for index, path in enumerate(paths)]
    given[5] = os.fsencode(paths[5])
    expected = [b"%d" % index * (index % 50) for index in range(700)]
    assert await files.read_files(given, 5) == expected
    assert await files.read_files(given, 5) == expected


async def test_errors_of_several_files_come_in_the_order_of_the_paths(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    taken: list[Any] = []

    def paths(*given: Any) -> Iterator[Any]:
        for each in given:
            taken.append(each)
            yield each
        raise KeyError("no more")

    untyped: Any = files.read_files
    for wrong, kind in (
        ("a\0b", ValueError),
        (7.5, TypeError),
        (tmp_path / "missing", FileNotFoundError),
        (tmp_path, IsADirectoryError),
    ):
        with pytest.raises(kind):
            await untyped([path, wrong, path])
    with pytest.raises(KeyError, match="no more"):
        await untyped(paths(path, path))
    assert taken == [path, path]
    with pytest.raises(TypeError):
        await untyped(None)


async def test_the_first_file_that_fails_ends_the_call(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with pytest.raises(FileNotFoundError) as missing:
        await files.read_files([tmp_path / "file", tmp_path / "missing", tmp_path / "file"])
    assert missing.value.filename == tmp_path / "missing"
    with pytest.raises(IsADirectoryError):
        await files.read_file(tmp_path)
    with pytest.raises(FileNotFoundError) as missing:
        await files.read_file(tmp_path / "missing")
    assert missing.value.filename == tmp_path / "missing"


async def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    both = os.open(tmp_path / "fifo", os.O_RDWR)
    os.write(both, b"through the pipe")
    contents: list[bytes] = []

    async def read() -> None:
        contents.append(await files.read_file(tmp_path / "fifo"))

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        with anyio.fail_after(60):
            while fcntl.ioctl(both, termios.FIONREAD, bytes(4)) != bytes(4):
                await anyio.lowlevel.checkpoint()
        os.close(both)
    assert contents == [b"through the pipe"]


async def test_a_read_waits_for_the_writer_of_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    contents: list[bytes] = []

    async def read() -> None:
        contents.append(await files.read_file(tmp_path / "fifo"))

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await files.write_file(tmp_path / "fifo", b"through the pipe")
    assert contents == [b"through the pipe"]


async def test_an_opening_of_a_pipe_waits_for_the_other_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    contents: list[bytes] = []

    async def read() -> None:
        async with files.open(tmp_path / "fifo", "rb") as file:
            contents.append(await file.read())

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        with anyio.fail_after(60):
            while not current_backend().in_flight:
                await anyio.lowlevel.checkpoint()
        async with files.open(tmp_path / "fifo", "wb") as file:
            await file.write(b"through the pipe")
    assert contents == [b"through the pipe"]
