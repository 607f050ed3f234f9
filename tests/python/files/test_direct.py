"""Files without the page cache: aligned transfers, and clear errors for others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock import files

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(65536 + 100))
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip(f"{tmp_path} is on a file system without O_DIRECT")
    return path


async def test_a_direct_file_is_read_to_its_end(path: Path) -> None:
    content = path.read_bytes()
    async with files.open(path, "rb", flags=os.O_DIRECT) as file:
        parts = []
        while part := await file.read(8192):
            parts.append(part)
        assert b"".join(parts) == content
        await file.seek(0)
        assert await file.read() == content
        assert await file.pread(8192, 4096) == content[4096:12288]
        buffer = files.aligned_buffer(65536)
        assert await file.pread_into(buffer, 0) == 65536
        assert bytes(buffer) == content[:65536]
        await file.seek(4096)
        assert await file.readinto(buffer[:4096]) == 4096
        assert bytes(buffer[:4096]) == content[4096:8192]


async def test_nothing_follows_the_end_of_a_direct_file(path: Path) -> None:
    content = path.read_bytes()
    buffer = files.aligned_buffer(4096)
    async with files.open(path, "rb", flags=os.O_DIRECT) as opened:
        file: Any = opened
        await file.seek(65536)
        assert await file.read() == content[65536:]
        assert await file.tell() == len(content)
        for read in (file.read, file.readall, file.read1, file.readline, file.peek):
            assert await read() == b""
        assert await file.read(4096) == b""
        assert await file.readinto(buffer) == 0
        assert await file.tell() == len(content)
        with pytest.raises(StopAsyncIteration):
            await anext(file)
        await file.seek(0)
        assert (await file.peek())[:9] == content[:9]
        await file.seek(65536)
        assert await file.peek() == content[65536:]
        assert await file.read(4096) == content[65536:]
        await file.seek(100)
        for call in (file.read, file.read1, lambda: file.readinto(buffer)):
            with pytest.raises(ValueError, match=r"offset 100 .*multiple"):
                await call()


async def test_the_last_line_of_a_direct_file_is_read(path: Path) -> None:
    path.write_bytes(b"x" * 65_636)
    async with files.open(path, "rb", flags=os.O_DIRECT) as file:
        assert [line async for line in file] == [b"x" * 65_636]


async def test_many_direct_reads_are_in_flight_together(path: Path) -> None:
    content = path.read_bytes()
    async with files.open(path, "rb", flags=os.O_DIRECT) as file:

        async def read(offset: int) -> None:
            assert await file.pread(4096, offset) == content[offset : offset + 4096]

        async with anyio.create_task_group() as group:
            for offset in range(0, 65536, 4096):
                group.start_soon(read, offset)


async def test_one_call_reads_many_aligned_parts(path: Path) -> None:
    content = path.read_bytes()
    offsets = [*range(0, 65536, 4096), 0, 65536]
    async with files.open(path, "rb", flags=os.O_DIRECT) as file:
        found = await file.pread_many(4096, offsets)
        assert found == [content[offset : offset + 4096] for offset in offsets]
        with pytest.raises(ValueError, match=r"offset 7 .*multiple"):
            await file.pread_many(4096, [4096, 7])
        with pytest.raises(ValueError, match="offset -1 is negative"):
            await file.pread_many(4096, [4096, -1])


async def test_unaligned_transfers_are_refused_before_any_data_move(path: Path) -> None:
    async with files.open(path, "r+b", flags=os.O_DIRECT) as file:
        buffer = files.aligned_buffer(8192)
        with pytest.raises(ValueError, match=r"size 100 .*multiple"):
            await file.pread(100, 0)
        with pytest.raises(ValueError, match=r"offset 7 .*multiple"):
            await file.pread(4096, 7)
        with pytest.raises(ValueError, match="aligned_buffer"):
            await file.pread_into(buffer[1:4097], 0)
        with pytest.raises(ValueError, match="aligned_buffer"):
            await file.write(buffer[1:4097])
        with pytest.raises(ValueError, match="multiple"):
            await file.write(buffer[:10])
    assert path.stat().st_size == 65536 + 100


async def test_aligned_data_is_written(path: Path) -> None:
    buffer = files.aligned_buffer(8192)
    buffer[:] = os.urandom(8192)
    async with files.open(path, "r+b", flags=os.O_DIRECT) as file:
        assert await file.write(buffer) == 8192
        assert await file.pwrite(buffer[:4096], 16384) == 4096
    content = path.read_bytes()
    assert content[:8192] == bytes(buffer)
    assert content[16384:20480] == bytes(buffer[:4096])


async def test_an_opener_may_set_o_direct(path: Path) -> None:
    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_DIRECT)

    async with files.open(path, "rb", opener=opener) as file:
        with pytest.raises(ValueError, match="O_DIRECT"):
            await file.read(100)
    with pytest.raises(ValueError, match="O_DIRECT"):
        await files.open(path, "r", opener=opener)


def test_a_buffer_of_size_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="0 bytes"):
        files.aligned_buffer(0)
