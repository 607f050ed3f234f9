"""Reads and writes of files, and their memory."""

from __future__ import annotations

import array
import errno
import mmap
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.uring import BufferPool, UringCtx, UringError
from tests.python.uring.conftest import results


def test_a_read_by_size_gives_bytes(any_ctx: UringCtx, letters: int) -> None:
    any_ctx.prep_read(letters, 3, 100, "b")
    any_ctx.prep_read(letters, 50, 2580, "end")
    any_ctx.prep_read(letters, 50, 99_999, "behind")
    any_ctx.prep_read(letters, 0, 0, "none")
    assert results(any_ctx.wait_completions(4)) == {
        "b": b"bbb",
        "end": b"z" * 20,
        "behind": b"",
        "none": b"",
    }


def test_a_read_into_a_buffer_gives_the_count(ctx: UringCtx, letters: int) -> None:
    for memory in (bytearray(5), array.array("b", bytes(5)), mmap.mmap(-1, 5)):
        ctx.prep_read(letters, memory, 200)
        [(_, count, _)] = ctx.wait_completions()
        assert count == 5
        assert bytes(memory) == b"ccccc"


def test_a_read_into_a_slice_changes_only_the_slice(ctx: UringCtx, letters: int) -> None:
    memory = bytearray(b"." * 10)
    ctx.prep_read(letters, memoryview(memory)[3:7], 0)
    ctx.wait_completions()
    assert memory == b"...aaaa..."


def test_the_files_own_position_is_used_without_an_offset(ctx: UringCtx, letters: int) -> None:
    os.lseek(letters, 99, os.SEEK_SET)
    ctx.prep_read(letters, 2)
    assert ctx.wait_completions()[0][1] == b"ab"
    ctx.prep_write(letters, b"XY")
    assert ctx.wait_completions()[0][1] == 2
    assert os.pread(letters, 4, 100) == b"bXYb"


def test_writes_accept_any_buffer(ctx: UringCtx, letters: int) -> None:
    for data in (b"12345", bytearray(b"12345"), memoryview(b"0123456")[1:6]):
        os.pwrite(letters, b".....", 0)
        ctx.prep_write(letters, data, 0)
        assert ctx.wait_completions()[0][1] == 5
        assert os.pread(letters, 5, 0) == b"12345"
    with pytest.raises(TypeError, match="bytes-like"):
        ctx.prep_write(letters, "text", 0)  # type: ignore[arg-type]


def test_several_buffers_are_read_and_written_at_once(ctx: UringCtx, letters: int) -> None:
    parts = [bytearray(100), bytearray(50)]
    ctx.prep_readv(letters, parts, 100)
    assert ctx.wait_completions()[0][1] == 150
    assert parts == [b"b" * 100, b"c" * 50]
    ctx.prep_writev(letters, [b"one", bytearray(b"two"), b""], 0)
    assert ctx.wait_completions()[0][1] == 6
    assert os.pread(letters, 7, 0) == b"onetwoa"


def test_a_read_only_buffer_is_refused_with_the_remedy(ctx: UringCtx, letters: int) -> None:
    for read_only in (b"constant", memoryview(b"constant")):
        with pytest.raises(BufferError, match="read-only or not contiguous; pass a bytearray"):
            ctx.prep_read(letters, read_only)
        with pytest.raises(BufferError):
            ctx.prep_readv(letters, [read_only])
    with pytest.raises(BufferError, match="contiguous"):
        ctx.prep_read(letters, memoryview(bytearray(10))[::2])
    with pytest.raises(TypeError):
        ctx.prep_read(letters, None)  # type: ignore[arg-type]
    assert ctx.in_flight == 0


def test_a_buffer_in_flight_cannot_be_resized(ctx: UringCtx, pipe: tuple[int, int]) -> None:
    memory = bytearray(4)
    ctx.prep_read(pipe[0], memory, -1)
    ctx.submit()
    with pytest.raises(BufferError):
        memory.append(1)
    os.write(pipe[1], b"data")
    ctx.wait_completions()
    memory.append(1)


@pytest.mark.parametrize("value", [-2, 1 << 63, "0", None])
def test_an_invalid_offset_is_refused(ctx: UringCtx, letters: int, value: Any) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        ctx.prep_read(letters, 1, value)
    assert ctx.in_flight == 0


def test_an_invalid_size_is_refused(ctx: UringCtx, letters: int) -> None:
    for size in (-1, 1 << 31, 1 << 70):
        with pytest.raises((ValueError, OverflowError)):
            ctx.prep_read(letters, size)


def test_an_invalid_descriptor_is_refused(ctx: UringCtx) -> None:
    with pytest.raises(ValueError, match="negative"):
        ctx.prep_read(-1, 1)
    with pytest.raises(TypeError, match="fileno"):
        ctx.prep_read("file", 1)  # type: ignore[arg-type]
    ctx.prep_read(9999, 1)
    assert ctx.wait_completions()[0][1] == -errno.EBADF


def test_an_object_with_fileno_is_a_descriptor(ctx: UringCtx, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with open(tmp_path / "file", "rb") as file:
        ctx.prep_read(file, 7, 0)
        assert ctx.wait_completions()[0][1] == b"content"


def test_a_batch_of_reads_returns_each_block(any_ctx: UringCtx, letters: int) -> None:
    order = [100 * i for i in range(26)] * 5
    random.Random(1).shuffle(order)
    blocks = any_ctx.read_offsets(letters, 100, order)
    assert blocks == [bytes([97 + offset // 100]) * 100 for offset in order]
    assert any_ctx.read_offsets(letters, 200, [2500, 9999]) == [b"z" * 100, b""]
    assert any_ctx.read_offsets(letters, 1, []) == []


def test_a_batch_keeps_other_completions(
    ctx: UringCtx, letters: int, pipe: tuple[int, int]
) -> None:
    ctx.prep_read(pipe[0], 8, -1, "pipe")
    ctx.prep_nop("nop")
    os.write(pipe[1], b"for pipe")
    assert ctx.read_offsets(letters, 2, [0, 100]) == [b"aa", b"bb"]
    assert results(ctx.wait_completions(2)) == {"pipe": b"for pipe", "nop": 0}


def test_a_batch_names_the_read_that_failed(ctx: UringCtx, letters: int) -> None:
    with pytest.raises(UringError, match="the read at offset 100 failed") as caught:
        ctx.read_offsets(9999, 10, [100])
    assert caught.value.errno == errno.EBADF
    with pytest.raises(ValueError, match="offset is -5"):
        ctx.read_offsets(letters, 10, [0, 100, -5])
    with pytest.raises(TypeError):
        ctx.read_offsets(letters, 10, [0, "x"])  # type: ignore[list-item]
    assert ctx.in_flight == 0
    assert ctx.wait_completions(1, 0) == []


def test_many_reads_and_writes_are_prepared_in_one_call(ctx: UringCtx, letters: int) -> None:
    tags = ctx.prep_read_many(letters, 4, [0, 100, 200], user_data="abc")
    assert tags == ["a", "b", "c"]
    assert results(ctx.wait_completions(3)) == {"a": b"aaaa", "b": b"bbbb", "c": b"cccc"}
    tags = ctx.prep_write_many(letters, [b"1", b"22"], [0, 100])
    assert sorted(results(ctx.wait_completions(2)).values()) == [1, 2]
    buffers = [bytearray(2), bytearray(2)]
    ctx.prep_read_many(letters, buffers, [0, 100])
    ctx.wait_completions(2)
    assert buffers == [b"1a", b"22"]
    with pytest.raises(ValueError, match="need as many"):
        ctx.prep_read_many(letters, buffers, [0])
    with pytest.raises(BufferError):
        ctx.prep_read_many(letters, [bytearray(2), b"no"], [0, 1])
    assert ctx.prepared == 0
    buffers[0].append(0)  # no longer held


def _needs_alignment(fd: int) -> bool:
    try:
        os.preadv(fd, [memoryview(mmap.mmap(-1, 8192))[:100]], 0)
    except OSError:
        return True
    return False


@pytest.fixture
def direct(tmp_path: Path) -> Iterator[int]:
    """Yield a descriptor with O_DIRECT, on a file system that requires alignment."""
    for folder in (str(tmp_path), "/var/tmp", os.getcwd()):
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(bytes(range(256)) * 64)
            file.flush()
            try:
                fd = os.open(file.name, os.O_RDWR | os.O_DIRECT)
            except OSError:
                continue
            try:
                if _needs_alignment(fd):
                    yield fd
                    return
            finally:
                os.close(fd)
    pytest.skip("no file system here requires alignment for O_DIRECT")


def test_aligned_buffers_work_with_o_direct(ctx: UringCtx, direct: int) -> None:
    with BufferPool(2, 4096) as pool:
        with pool.acquire() as buffer:
            ctx.prep_read(direct, buffer, 4096)
            assert ctx.wait_completions()[0][1] == 4096
            assert bytes(buffer) == bytes(range(256)) * 16
        with pool.acquire() as buffer:
            memoryview(buffer)[:] = b"w" * 4096
            ctx.prep_write(direct, buffer, 0)
            assert ctx.wait_completions()[0][1] == 4096
        assert os.preadv(direct, [pool[1]], 0) == 4096
        assert bytes(pool[1]) == b"w" * 4096


def test_misaligned_o_direct_is_refused_with_the_remedy(ctx: UringCtx, direct: int) -> None:
    with BufferPool(1, 8192) as pool, memoryview(pool[0]) as memory:
        with pytest.raises(ValueError, match=r"the buffer's address .* BufferPool"):
            ctx.prep_read(direct, memory[1:4097], 0)
        with pytest.raises(ValueError, match="the length 100 is not a multiple of"):
            ctx.prep_read(direct, memory[:100], 0)
        with pytest.raises(ValueError, match="the offset 7 is not a multiple of"):
            ctx.prep_write(direct, memory[:4096], 7)
        with pytest.raises(ValueError, match="not a multiple"):
            ctx.prep_writev(direct, [memory[:4096], memory[4097:4200]], 0)
        with pytest.raises(ValueError, match="not a multiple"):
            ctx.read_offsets(direct, 100, [0])
        with pytest.raises(ValueError, match="the length 1000 is not a multiple of"):
            ctx.read(direct, 1000, 0)  # not of the buffer, which the caller did not give
        assert ctx.in_flight == 0
        ctx.prep_read(direct, memory[512:1024], 512)
        assert ctx.wait_completions()[0][1] == 512
        memory.release()


def test_large_transfers_move_every_byte(any_ctx: UringCtx, tmp_path: Path) -> None:
    data = random.Random(2).randbytes(3_000_001)
    fd = os.open(tmp_path / "large", os.O_RDWR | os.O_CREAT)
    try:
        any_ctx.prep_write(fd, data, 0, "write", link=True)
        any_ctx.prep_fsync(fd, datasync=True, user_data="sync", link=True)
        any_ctx.prep_read(fd, len(data), 0, "read")
        found = results(any_ctx.wait_completions(3))
        assert (found["write"], found["sync"]) == (len(data), 0)
        assert found["read"] == data
    finally:
        os.close(fd)


def test_bytes_that_the_program_keeps_are_never_reused(any_ctx: UringCtx, tmp_path: Path) -> None:
    # From 512 bytes on, a ring reuses the objects of dropped results.
    data = random.Random(6).randbytes(40 * 1024)
    (tmp_path / "file").write_bytes(data)
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    blocks = [data[at : at + 1024] for at in range(0, len(data), 1024)]
    offsets = list(range(0, len(data), 1024))
    kept: list[tuple[int, bytes]] = []
    views: list[tuple[int, memoryview]] = []
    choose = random.Random(7)
    try:
        for _ in range(60):
            if choose.random() < 0.5:
                read = any_ctx.read_offsets(fd, 1024, offsets)
            else:
                some = offsets[:20]
                any_ctx.prep_read_many(fd, 1024, some, some)
                found = results(any_ctx.wait_completions(20))
                read = [found[at] for at in some]
            assert read == blocks[: len(read)]
            for number, block in enumerate(read):
                hash(block)  # cached in the object
                if choose.random() < 0.05:
                    kept.append((number, block))
                if choose.random() < 0.05:
                    views.append((number, memoryview(block)))
            del read, block
            assert all(block == blocks[number] for number, block in kept)
            assert all(view == blocks[number] for number, view in views)
            assert {block: 1 for _, block in kept}.keys() <= set(blocks)
    finally:
        os.close(fd)


def test_reused_bytes_have_the_hash_of_their_content(ctx: UringCtx, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1" * 600 + b"2" * 600)
    with open(tmp_path / "file", "rb") as file:
        for offset, expected in ((0, b"1" * 600), (600, b"2" * 600)) * 3:
            [block] = ctx.read_offsets(file.fileno(), 600, [offset])
            assert {block: "found"}[expected] == "found"
            del block
