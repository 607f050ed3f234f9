"""Compressed files and archives, beside the standard library's own reading and writing."""

from __future__ import annotations

import asyncio
import bz2
import gc
import gzip
import importlib
import io
import lzma
import os
import random
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock import files
from tests.python.conftest import not_sanitized
from tests.python.files.test_file_calls import work_for

pytestmark = pytest.mark.anyio

DECOMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.decompress,
    "bz2": bz2.decompress,
    "xz": lzma.decompress,
}
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
}
LINES = [b"line %d \xc3\xa9" % number + b"x" * (number % 97) + b"\n" for number in range(1200)]
CONTENT = b"".join(LINES)
DAMAGED: tuple[type[Exception], ...] = (OSError,)
if sys.version_info >= (3, 14):
    DAMAGED += (importlib.import_module("compression.zstd").ZstdError,)


@pytest.mark.parametrize("suffix", DECOMPRESS)
async def test_what_is_written_is_read_by_the_standard_library(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"data.{suffix}"
    async with files.open_compressed(path, "wb") as file:
        assert await file.write(CONTENT) == len(CONTENT)
        await file.writelines(LINES)
        assert await file.tell() == 2 * len(CONTENT)
    assert file.closed
    assert DECOMPRESS[suffix](path.read_bytes()) == 2 * CONTENT
    async with files.open_compressed(path, "ab", level=1) as file:
        await file.write(b"end")
    async with files.open_compressed(path) as file:
        assert await file.read() == 2 * CONTENT + b"end"
    with pytest.raises(FileExistsError, match=r"data\."):
        await files.open_compressed(path, "xb")


@pytest.mark.parametrize("suffix", COMPRESS)
async def test_reading_is_that_of_a_file_in_memory(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "data"  # told by its first bytes
    path.write_bytes(COMPRESS[suffix](CONTENT))
    judge = io.BytesIO(CONTENT)
    chance = random.Random(suffix)
    async with files.open_compressed(path) as file:
        assert [line async for line in file] == LINES
        assert await file.seek(0) == 0
        for _ in range(70):
            size = chance.choice([0, 1, 30, 1000, 20_000])
            match chance.randrange(7):
                case 0:
                    assert await file.read(size) == judge.read(size)
                case 1:
                    assert await file.readline() == judge.readline()
                case 2:
                    assert await file.readline(size) == judge.readline(size)
                case 3:
                    assert await anext(file, b"") == next(judge, b"")
                case 4:
                    buffers = bytearray(size), bytearray(size)
                    assert await file.readinto(buffers[0]) == judge.readinto(buffers[1])
                    assert buffers[0] == buffers[1]
                case 5:
                    if judge.tell() > len(CONTENT) // 2:
                        assert await file.seek(size) == judge.seek(size)
                    else:
                        assert await file.seek(size, 1) == judge.seek(size, 1)
                case 6:
                    assert await file.tell() == judge.tell()
        judge.seek(0)
        await file.seek(0)
        assert await anext(file) == judge.readline()
        assert await file.readlines(500) == judge.readlines(500)
        assert await file.readlines() == judge.readlines()


async def test_text_has_an_encoding_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    async with files.open_compressed(path, "wt", encoding="utf-16", newline="\r\n") as file:
        assert await file.write("é\n") == 2
        await file.writelines(["a\n", "b"])
        with pytest.raises(TypeError, match="must be str"):
            await file.write(b"bytes")  # type: ignore[arg-type]
    assert gzip.decompress(path.read_bytes()).decode("utf-16") == "é\r\na\r\nb"
    async with files.open_compressed(path, "rt", encoding="utf-16") as file:
        assert await anext(file) == "é\n"
        with pytest.raises(OSError, match="telling position"):
            await file.tell()
        assert [await file.readline(), await file.read(1), await file.read()] == ["a\n", "b", ""]


async def test_text_that_cannot_be_encoded_is_refused_alone(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    async with files.open_compressed(path, "wt", encoding="ascii", newline="") as file:
        await file.write("one\n")
        for refused in ("é\n", "é" * 100_000):
            with pytest.raises(UnicodeEncodeError):
                await file.write(refused)
        await file.write("two\n")
    async with files.open_compressed(path, "at", encoding="ascii", errors="replace") as file:
        await file.write("é\n")
    assert gzip.decompress(path.read_bytes()) == b"one\ntwo\n?\n"


@not_sanitized("zstandard leaks an int for each file that it writes")
async def test_zstd(tmp_path: Path) -> None:
    path = tmp_path / "data.zst"
    try:
        opening = await files.open_compressed(path, "wb")
    except ModuleNotFoundError as error:
        assert "penstock[compress]" in str(error)
        pytest.skip("no zstd here")
    async with opening as file:
        await file.writelines(LINES)
    async with files.open_compressed(path, "ab") as file:
        await file.write(CONTENT)
    async with files.open_compressed(path) as file:
        assert [line async for line in file] == 2 * LINES
    async with files.open_compressed(path, "rt", encoding="utf-8", newline="") as text:
        assert await text.read() == 2 * CONTENT.decode()
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    async with files.open_compressed(path) as file:
        with pytest.raises(EOFError):
            await file.read()
    path.write_bytes(whole[:200] + bytes(100) + whole[300:])
    async with files.open_compressed(path) as file:
        with pytest.raises(DAMAGED):
            await file.read()


@pytest.mark.parametrize("mode", ["rb", "rt"])
async def test_the_lines_before_a_damage_come_before_its_error(tmp_path: Path, mode: Any) -> None:
    path = tmp_path / "cut.gz"
    chance = random.Random(7)
    lines = [b"%032x\n" % chance.getrandbits(128) for _ in range(6000)]
    path.write_bytes(gzip.compress(b"".join(lines))[:-5000])
    expected: list[Any] = []
    with pytest.raises(EOFError), gzip.open(path, mode) as judge:
        for line in judge:
            expected.append(line)
    assert len(expected) > 5000
    async with files.open_compressed(path, mode) as file:
        found = [await anext(file) for _ in expected]
        for _ in range(2):
            with pytest.raises(EOFError):
                await anext(file)
        assert found == expected
        await file.seek(0)
        assert await file.readline() == expected[0]


async def test_what_is_no_compressed_file_is_refused(tmp_path: Path) -> None:
    plain, cut = tmp_path / "plain", tmp_path / "cut.gz"
    plain.write_bytes(b"plain text")
    with pytest.raises(ValueError, match=r"plain.* is not a gzip"):
        await files.open_compressed(plain)
    with pytest.raises(ValueError, match="pass format="):
        await files.open_compressed(tmp_path / "new", "wb")
    with pytest.raises(ValueError, match="format 'lz4' is not one of"):
        await files.open_compressed(plain, format="lz4")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="invalid mode"):
        files.open_compressed(plain, "r+")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="binary file has no encoding"):
        files.open_compressed(plain, "rb", encoding="utf-8")  # type: ignore[call-overload]
    with pytest.raises(FileNotFoundError, match="missing"):
        await files.open_compressed(tmp_path / "missing.gz")
    cut.write_bytes(gzip.compress(CONTENT)[:-9])
    async with files.open_compressed(cut) as file:
        with pytest.raises(EOFError):
            await file.read()
        with pytest.raises(OSError, match="reading only"):
            await file.write(b"")
    with pytest.raises(ValueError, match="closed"):
        await file.read()


async def test_a_cancelled_block_leaves_a_complete_file(tmp_path: Path) -> None:
    path = tmp_path / "data.gz"
    with anyio.CancelScope() as scope:
        async with files.open_compressed(path, "wb") as file:
            await file.write(CONTENT[:1000])
            scope.cancel()
            await anyio.sleep(10)
    assert gzip.decompress(path.read_bytes()) == CONTENT[:1000]


async def test_an_unclosed_file_is_told_and_written(tmp_path: Path) -> None:
    file = await files.open_compressed(tmp_path / "data.gz", "wb")
    await file.write(b"text")
    with pytest.warns(ResourceWarning, match="unclosed"):
        del file
        gc.collect()
    assert gzip.decompress((tmp_path / "data.gz").read_bytes()) == b"text"


async def test_a_zip_archive(tmp_path: Path, no_descriptor_left: None) -> None:
    path = tmp_path / "archive.zip"
    (tmp_path / "source").write_bytes(CONTENT)
    async with files.open_zip(path, "w") as archive:
        await archive.writestr("text", "é")
        await archive.write(tmp_path / "source", "folder/file")
        async with archive.open("streamed", "w") as member:
            await member.writelines(LINES)
    with zipfile.ZipFile(path) as judge:
        assert judge.testzip() is None
        assert judge.namelist() == ["text", "folder/file", "streamed"]
        assert judge.read("streamed") == CONTENT
        assert judge.getinfo("streamed").compress_size < len(CONTENT) / 2
    async with files.open_zip(path) as archive:
        assert archive.namelist() == ["text", "folder/file", "streamed"]
        assert await archive.read("text") == "é".encode()
        assert await archive.testzip() is None
        async with archive.open("folder/file") as one, archive.open("streamed") as other:
            assert [await anext(one), await anext(other)] == LINES[:1] * 2
            assert await one.read() == CONTENT[len(LINES[0]) :]
            assert [line async for line in other] == LINES[1:]
        await archive.extractall(tmp_path / "out")
        with pytest.raises(KeyError, match="missing"):
            await archive.read("missing")
    assert (tmp_path / "out" / "folder" / "file").read_bytes() == CONTENT
    with pytest.raises(zipfile.BadZipFile):
        await files.open_zip(tmp_path / "source")
    with pytest.raises(FileNotFoundError):
        await files.open_zip(tmp_path / "missing")


@pytest.mark.parametrize("compression", ["", "gz", "xz"])
async def test_a_tar_archive(tmp_path: Path, compression: str, no_descriptor_left: None) -> None:
    path = tmp_path / "archive"
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_bytes(CONTENT)
    (folder / "link").symlink_to("file")
    async with files.open_tar(path, f"w:{compression}") as archive:
        await archive.add(folder, "top")
        await archive.addbytes("memory", b"content")
    with tarfile.open(path) as judge:
        assert set(judge.getnames()) == {"top", "top/file", "top/link", "memory"}
    async with files.open_tar(path) as archive:
        names = [member.name async for member in archive]
        assert names == await archive.getnames()
        assert sorted(names) == ["memory", "top", "top/file", "top/link"]
        assert await archive.read("memory") == b"content"
        one, other = await archive.extractfile("top/file"), await archive.extractfile("top/link")
        assert one is not None
        assert other is not None
        assert [await anext(one), await anext(other)] == LINES[:1] * 2
        assert await other.read() == await one.read() == CONTENT[len(LINES[0]) :]
        assert await archive.extractfile("top") is None
        with pytest.raises(ValueError, match="'top' is neither"):
            await archive.read("top")
        await archive.extractall(tmp_path / "out")
        for each in one, other:
            await each.close()
    assert (tmp_path / "out" / "top" / "link").read_bytes() == CONTENT
    assert os.readlink(tmp_path / "out" / "top" / "link") == "file"


async def test_a_tar_archive_cannot_write_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "archive.tar"
    async with files.open_tar(path, "w") as archive:
        await archive.addbytes("../outside", b"content")
    async with files.open_tar(path) as archive:
        with pytest.raises(tarfile.FilterError):
            await archive.extractall(tmp_path / "out")
    assert not (tmp_path / "outside").exists()


async def test_other_tasks_run_while_data_are_compressed(
    tmp_path: Path, anyio_backend_name: str
) -> None:
    if anyio_backend_name == "trio":
        pytest.skip("the tasks are counted by asyncio's")
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async with files.open_compressed(tmp_path / "data.xz", "wb") as file:
        await file.write(os.urandom(60_000))
    counting.cancel()
    assert turns > 10


def test_every_function_is_public() -> None:
    names: list[Any] = [files.open_compressed, files.open_zip, files.open_tar]
    assert all(each.__name__ in files.__all__ for each in names)


async def test_a_line_that_a_cancelled_loop_has_not_returned_is_the_next(tmp_path: Path) -> None:
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(CONTENT))
    async with files.open_compressed(path) as file:
        found = [await anext(file)]
        for _ in range(20):
            work_for(0.003)  # the next line yields to other tasks first
            with anyio.CancelScope() as scope:
                scope.cancel()
                found.append(await anext(file))
            found.append(await anext(file))
        assert found == LINES[: len(found)]


async def test_readlines_after_a_loop_ends_where_the_built_in_does(tmp_path: Path) -> None:
    content = b"ab\n" * 30_000
    (tmp_path / "lines").write_bytes(content)
    (tmp_path / "lines.gz").write_bytes(gzip.compress(content))
    for hint in (65_532, 65_535, 65_538):
        with (tmp_path / "lines").open("rb") as judge:
            async with files.open_compressed(tmp_path / "lines.gz") as file:
                assert await anext(file) == judge.readline()
                assert len(await file.readlines(hint)) == len(judge.readlines(hint))


async def test_a_number_is_no_data_to_compress(tmp_path: Path) -> None:
    async with files.open_compressed(tmp_path / "data.gz", "wb") as file:
        with pytest.raises(TypeError):
            await file.write(5)
        assert await file.write(memoryview(b"data")) == 4
    assert gzip.decompress((tmp_path / "data.gz").read_bytes()) == b"data"
