"""Arguments of every kind that the built-in file object takes, and the errors for others."""

from __future__ import annotations

import ctypes
import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from penstock import files

pytestmark = pytest.mark.anyio

CONTENT = bytes(range(256)) * 4


class Pair(ctypes.Structure):
    """Items that :mod:`struct` has no letter for."""

    _fields_ = (("number", ctypes.c_int32), ("flag", ctypes.c_int16))


class Index:
    """A number that is not an int."""

    def __index__(self) -> int:
        return 5


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "file"
    file.write_bytes(CONTENT)
    return file


async def test_buffers_may_have_items_of_every_kind(path: Path, tmp_path: Path) -> None:
    target: Any = (Pair * 4)()
    size = ctypes.sizeof(target)
    async with files.open(path, "r+b") as file:
        for read in (file.readinto, file.readinto1):
            await file.seek(3)
            assert await read(target) == size
            assert bytes(target) == CONTENT[3 : 3 + size]
        assert await file.pwritev([target, b"x"], 0) == size + 1
        assert await file.pread(size + 1, 0) == bytes(target) + b"x"
        assert await file.write(target) == size
        for gaps in (memoryview(bytearray(9))[::2], memoryview(b"constant"), "text"):
            untyped: Any = gaps
            for read in (file.readinto, file.readinto1):
                with pytest.raises(TypeError):
                    await read(untyped)
    await files.write_file(path, target)
    assert path.read_bytes() == bytes(target)
    other = tmp_path / "file.gz"
    other.write_bytes(gzip.compress(CONTENT))
    async with files.open_compressed(other) as compressed:
        assert await compressed.readinto(target) == size
        assert bytes(target) == CONTENT[:size]


async def test_a_buffer_cannot_change_its_size_while_it_is_filled(path: Path) -> None:
    async with files.open(path, "rb", buffering=0) as file:
        target = bytearray(64)
        assert await file.readinto(target) == 64
        target.append(1)
        assert target[:64] == CONTENT[:64]
        assert await file.readinto(bytearray()) == 0


@pytest.mark.parametrize("buffering", [0, -1])
async def test_sizes_below_minus_one_are_what_they_are_to_the_built_in(
    path: Path, buffering: int
) -> None:
    with path.open("rb", buffering) as plain:
        async with files.open(path, "rb", buffering) as file:
            for size in (-1, -2, -(1 << 70)):
                plain.seek(0)
                await file.seek(0)
                try:
                    expected: Any = plain.read(size)
                except (ValueError, OverflowError) as error:
                    expected = type(error)
                try:
                    found: Any = await file.read(size)
                except (ValueError, OverflowError) as error:
                    found = type(error)
                if size < -(1 << 60):
                    assert found in (ValueError, OverflowError, CONTENT)
                else:
                    assert found == expected
            assert await file.seek(9) == plain.seek(9)
            assert await file.readline(-5) == plain.readline(-5)


async def test_lengths_of_truncate_are_those_of_the_built_in(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(CONTENT)
    async with files.open(path, "r+b") as file:
        untyped: Any = file
        with other.open("r+b") as plain:
            lengths: tuple[Any, ...] = (None, 1000, 1000, 3, Index(), 200_000, 0, 9000, 100)
            for length in lengths:
                for each in (b"ab", b"c" * 9000):
                    assert await file.write(each) == plain.write(each)
                assert await file.seek(40) == plain.seek(40)
                assert await file.read(7) == plain.read(7)
                found = await untyped.truncate(length)
                assert found == (5 if isinstance(length, Index) else plain.truncate(length))
                if isinstance(length, Index):
                    plain.truncate(5)
                assert await file.tell() == plain.tell()
                assert os.stat(path).st_size == os.stat(other).st_size
                assert path.read_bytes() == other.read_bytes()
            for wrong in ("5", 1.5, b""):
                with pytest.raises(TypeError):
                    await untyped.truncate(wrong)
            for refused in (-1, 1 << 63):
                with pytest.raises((OSError, OverflowError)):
                    await file.truncate(refused)
            with pytest.raises(TypeError, match="at most 1 argument"):
                untyped.truncate(1, 2)
            assert await file.truncate(size=7) == 7
    async with files.open(path, "rb") as file:
        with pytest.raises(OSError, match="reading only"):
            await file.truncate(0)
    with pytest.raises(ValueError, match="closed"):
        await file.truncate(0)
    assert path.read_bytes() == other.read_bytes()[:7]


@pytest.mark.filterwarnings("error")
@pytest.mark.usefixtures("no_descriptor_left")
async def test_a_buffer_that_no_file_has_is_refused_before_it_is_opened(path: Path) -> None:
    for size in (1 << 31, 1 << 63, 1 << 70):
        with pytest.raises(OverflowError, match="too large a buffer"):
            await files.open(path, "rb", size)
        with pytest.raises(OverflowError, match="too large a buffer"):
            await files.tempfile.TemporaryFile("w+b", size)
