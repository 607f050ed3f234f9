"""The arguments of `open`: which are valid, which are refused, and what remains afterwards."""

from __future__ import annotations

import errno
import gc
import os
import stat
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock import files
from tests.python.files.open_files import open_files

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", ["", "rw", "rr", "q", "b", "rbt", "+", "r++", "U"])
async def test_a_mode_invalid_for_the_built_in_is_refused(tmp_path: Path, mode: str) -> None:
    with pytest.raises(ValueError):
        open(tmp_path / "file", mode).close()
    with pytest.raises(ValueError, match="mode"):
        files.open(tmp_path / "file", mode)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "rb", "encoding": "utf-8"},
        {"mode": "rb", "errors": "strict"},
        {"mode": "rb", "newline": "\n"},
        {"mode": "r", "newline": "x"},
        {"mode": "r", "buffering": 0},
        {"mode": "r", "closefd": False},
        {"mode": "r", "flags": os.O_DIRECT},
        {"mode": "rb", "flags": os.O_DIRECT, "buffering": 4096},
    ],
    ids=str,
)
async def test_contradictory_arguments_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        files.open(tmp_path / "file", **options)
    assert not (tmp_path / "file").exists()


async def test_wrong_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        files.open(tmp_path / "file", 7)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        files.open(3.5)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="null"):
        await files.open("nul\0byte")


@pytest.mark.parametrize(
    "options", [{"buffering": 1.5}, {"encoding": 5}, {"errors": 5}, {"newline": 5}], ids=str
)
async def test_options_of_a_wrong_type_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        open(tmp_path / "file", "w", **options).close()
    with pytest.raises(TypeError):
        files.open(tmp_path / "file", "w", **options)


async def test_line_buffering_of_a_binary_file_warns(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="buffering=1"):
        opening = files.open(tmp_path / "file", "wb", 1)
    async with opening as file:
        await file.write(b"line\n")
        assert (tmp_path / "file").read_bytes() == b""
    assert (tmp_path / "file").read_bytes() == b"line\n"


async def test_errors_have_the_file_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        await files.open(tmp_path / "missing")
    assert missing.value.filename == str(tmp_path / "missing")
    with pytest.raises(IsADirectoryError) as folder:
        await files.open(tmp_path, "rb")
    assert folder.value.filename == str(tmp_path)
    with pytest.raises(IsADirectoryError):
        await files.open(tmp_path, "wb")
    (tmp_path / "there").touch()
    with pytest.raises(FileExistsError) as there:
        await files.open(os.fsencode(tmp_path / "there"), "x")
    assert there.value.filename == os.fsencode(tmp_path / "there")
    with pytest.raises(NotADirectoryError):
        await files.open(tmp_path / "there" / "below")
    with pytest.raises(OSError) as loop:
        (tmp_path / "loop").symlink_to("loop")
        await files.open(tmp_path / "loop")
    assert loop.value.errno == errno.ELOOP


async def test_a_path_may_have_any_type(tmp_path: Path) -> None:
    path = tmp_path / "näme"
    for name in (path, str(path), os.fsencode(path)):
        async with files.open(name, "w", encoding="utf-8") as file:
            await file.write("text")
        assert file.name == os.fspath(name)
    assert path.read_text() == "text"


async def test_a_new_file_has_the_mode_that_the_mask_allows(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        async with files.open(tmp_path / "file", "x"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


async def test_a_descriptor_is_closed_on_exec(tmp_path: Path) -> None:
    async with files.open(tmp_path / "file", "w") as written:
        assert not os.get_inheritable(written.fileno())
        async with files.open(tmp_path / "file") as read:
            assert not os.get_inheritable(read.fileno())


async def test_an_open_descriptor_is_taken_over_or_left_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    fd = os.open(tmp_path / "file", os.O_RDWR)
    os.lseek(fd, 4, os.SEEK_SET)
    async with files.open(fd, "r+b", closefd=False) as file:
        assert file.name == fd
        assert await file.read(2) == b"45"
    os.fstat(fd)
    async with files.open(fd, "r+b") as file:
        assert await file.tell() == 4
        await file.seek(0, 2)
        await file.write(b"end")
    with pytest.raises(OSError):
        os.fstat(fd)
    assert (tmp_path / "file").read_bytes() == b"0123456789end"
    with pytest.raises(OSError) as bad:
        await files.open(fd)
    assert bad.value.errno == errno.EBADF


async def test_an_opener_opens_the_file(tmp_path: Path) -> None:
    calls: list[tuple[Any, int]] = []

    def opener(path: Any, flags: int) -> int:
        calls.append((path, flags))
        return os.open(path, flags, 0o600, dir_fd=folder)

    folder = os.open(tmp_path, os.O_DIRECTORY)
    try:
        async with files.open("relative", "w", opener=opener) as file:
            await file.write("text")
            assert not os.get_inheritable(file.fileno())
    finally:
        os.close(folder)
    assert calls == [("relative", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC)]
    assert (tmp_path / "relative").read_text() == "text"
    with pytest.raises(ValueError, match="-1"):
        await files.open(tmp_path / "relative", opener=lambda path, flags: -1)
    with pytest.raises(ZeroDivisionError):
        await files.open(tmp_path / "relative", opener=lambda path, flags: 1 // 0)
    with pytest.raises(TypeError, match="opener"):
        await files.open(tmp_path / "x", opener=lambda path, flags: "fd")  # type: ignore[arg-type, return-value]


async def test_an_unclosed_file_is_reported_and_written(tmp_path: Path) -> None:
    file = await files.open(tmp_path / "file", "w")
    await file.write("buffered")
    fd = file.fileno()
    with pytest.warns(ResourceWarning, match="unclosed file"):
        del file
        gc.collect()
    with pytest.raises(OSError):
        os.fstat(fd)
    assert (tmp_path / "file").read_text() == "buffered"


async def test_data_that_cannot_be_written_are_reported_and_the_file_is_closed() -> None:
    file = await files.open("/dev/full", "wb")
    await file.write(b"data")
    with pytest.raises(OSError) as full:
        await file.flush()
    assert full.value.errno == errno.ENOSPC
    with pytest.raises(OSError) as full:
        await file.close()
    assert full.value.errno == errno.ENOSPC
    assert file.closed
    with anyio.fail_after(60):
        while "/dev/full" in open_files():
            await anyio.lowlevel.checkpoint()


async def test_pipes_and_devices_have_no_positions(tmp_path: Path) -> None:
    ends = os.pipe()
    async with files.open(ends[0], "rb") as reader, files.open(ends[1], "wb") as writer:
        for file in (reader, writer):
            assert not file.seekable()
            with pytest.raises(OSError):
                await file.seek(0)
            with pytest.raises(OSError):
                await file.tell()
        await writer.write(b"line one\nline two\nrest")
        await writer.close()
        assert await reader.readline() == b"line one\n"
        assert await reader.read(5) == b"line "
        buffer = bytearray(3)
        assert await reader.readinto(buffer) == 3
        assert buffer == b"two"
        assert await reader.read() == b"\nrest"
        assert await reader.read() == b""
    async with files.open("/dev/zero", "rb") as zero:
        assert await zero.read(10) == bytes(10)
    async with files.open("/dev/null", "r+b", buffering=0) as null:
        assert await null.write(b"gone") == 4
        assert await null.read() == b""


async def test_a_file_of_the_proc_file_system_is_read_whole() -> None:
    async with files.open("/proc/self/status") as file:
        assert (await file.read()).startswith("Name:")
    assert (await files.read_file("/proc/self/status")).startswith(b"Name:")
