"""Buffer pools, buffer rings, registered files and registered buffers."""

from __future__ import annotations

import ctypes
import errno
import gc
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.uring import CQE_F_BUFFER, CQE_F_MORE, BufferPool, UringCtx, UringError, probe
from tests.python.uring.conftest import results

Pair = tuple[socket.socket, socket.socket]


def address_of(buffer: Any) -> int:
    import ctypes

    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


@pytest.mark.parametrize("alignment", [1, 512, 4096, 1 << 16])
def test_a_pools_buffers_are_aligned_and_apart(alignment: int) -> None:
    pool = BufferPool(3, 700, alignment=alignment)
    for number, buffer in enumerate(pool):
        assert address_of(buffer) % alignment == 0
        assert (len(buffer), buffer.index) == (700, number)
        memoryview(buffer)[:] = bytes([number]) * 700
    assert [bytes(buffer) for buffer in pool] == [bytes([number]) * 700 for number in range(3)]
    gc.collect()
    pool.close()


def test_buffers_are_acquired_and_released() -> None:
    with BufferPool(2, 100) as pool:
        first = pool.acquire()
        with pool.acquire() as second:
            assert {first.index, second.index} == {0, 1}
            assert pool.available == 0
            with pytest.raises(BufferError, match="all 2 buffers of the pool are in use"):
                pool.acquire()
        assert pool.acquire() is second
        view = memoryview(first)
        with pytest.raises(BufferError, match="buffer 0 is still in use"):
            first.release()
        with pytest.raises(BufferError, match="the pool is still in use"):
            pool.close()
        view.release()
        first.release()
        assert pool.available == 1
    assert pool.closed
    with pytest.raises(ValueError, match="closed"):
        pool.acquire()
    with pytest.raises(ValueError, match="closed"):
        memoryview(first)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((0, 100), {}),
        ((2, 0), {}),
        ((-1, 100), {}),
        ((2, 100), {"alignment": 3}),
        ((2, 100), {"alignment": 0}),
        ((1 << 40, 1 << 40), {}),
        ((20_000, 100), {"registered": True}),
    ],
)
def test_invalid_pool_arguments_are_refused(arguments: Any, options: Any) -> None:
    with pytest.raises(ValueError, match=r"must be|exceed|at most"):
        BufferPool(*arguments, **options)


def test_a_pools_memory_outlives_its_last_python_reference(
    ctx: UringCtx, pipe: tuple[int, int]
) -> None:
    buffer = BufferPool(1, 64).acquire()
    ctx.prep_read(pipe[0], buffer, -1)
    ctx.submit()
    del buffer
    gc.collect()
    os.write(pipe[1], b"still there")
    assert ctx.wait_completions()[0][1] == 11


def test_a_buffer_in_flight_cannot_be_released(ctx: UringCtx, pipe: tuple[int, int]) -> None:
    with BufferPool(1, 64) as pool:
        buffer = pool.acquire()
        ctx.prep_read(pipe[0], buffer, -1)
        ctx.submit()
        with pytest.raises(BufferError):
            buffer.release()
        os.write(pipe[1], b"!")
        ctx.wait_completions()
        buffer.release()


def test_a_registered_pool_is_used_by_the_ring(any_ctx: UringCtx, letters: int) -> None:
    with BufferPool(4, 100, registered=True) as pool:
        for buffer in pool:
            any_ctx.prep_read(letters, buffer, 100 * buffer.index)
        assert set(results(any_ctx.wait_completions(4)).values()) == {100}
        assert [bytes(buffer) for buffer in pool] == [bytes([97 + i]) * 100 for i in range(4)]
        any_ctx.prep_write(letters, pool[3], 0)
        any_ctx.wait_completions()
        assert os.pread(letters, 100, 0) == b"d" * 100
        with pytest.raises(BufferError, match="registered with a ring"):
            pool.close()
        any_ctx.close()


def test_registered_buffers_are_read_and_written(ctx: UringCtx, letters: int) -> None:
    first, second = bytearray(100), bytearray(50)
    ctx.register_buffers([first, second])
    with pytest.raises(BufferError):
        first.clear()
    ctx.prep_read_fixed(letters, first, 0, 100)
    ctx.prep_read_fixed(letters, memoryview(second)[10:20], 1, 200)
    assert sorted(results(ctx.wait_completions(2)).values()) == [10, 100]
    assert first == b"b" * 100
    assert second == bytes(10) + b"c" * 10 + bytes(30)
    ctx.prep_write_fixed(letters, first, 0, 0)
    ctx.wait_completions()
    assert os.pread(letters, 100, 0) == b"b" * 100
    with pytest.raises(ValueError, match="no registered buffer 2: 2 are registered"):
        ctx.prep_read_fixed(letters, first, 2)
    with pytest.raises(ValueError, match="does not lie within the registered buffer 1"):
        ctx.prep_read_fixed(letters, first, 1)
    with pytest.raises(TypeError, match="not into a size"):
        ctx.prep_read_fixed(letters, 10, 0)  # type: ignore[arg-type]
    with pytest.raises(UringError, match="registered already"):
        ctx.register_buffers([second])
    ctx.unregister_buffers()
    first.clear()
    with pytest.raises(UringError, match="no buffers are registered"):
        ctx.unregister_buffers()


def test_buffers_stay_registered_while_operations_may_use_them(
    ctx: UringCtx, pipe: tuple[int, int]
) -> None:
    memory = bytearray(8)
    ctx.register_buffers([memory])
    ctx.prep_read_fixed(pipe[0], memory, 0)
    ctx.submit()
    with pytest.raises(UringError, match="1 operations are in flight"):
        ctx.unregister_buffers()
    os.write(pipe[1], b"x")
    ctx.wait_completions()
    ctx.unregister_buffers()


def test_buffers_that_cannot_be_registered_are_refused(ctx: UringCtx) -> None:
    for buffers in ([], [b"constant"], [bytearray()], 5):
        with pytest.raises((ValueError, BufferError, TypeError)):
            ctx.register_buffers(buffers)  # type: ignore[arg-type]
    ctx.register_buffers([bytearray(8)])


def test_the_limit_of_locked_memory_is_named() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become a user with a limit")
    program = """
import errno, os, resource, sys
from penstock.uring import BufferPool, UringCtx, UringError
resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
os.setgid(65534); os.setuid(65534)
with UringCtx(8) as ctx, BufferPool(64, 1 << 20, registered=True) as pool:
    try:
        ctx.register_buffers(pool)
    except UringError as error:
        assert error.errno == errno.ENOMEM
        print(error)
    try:
        ctx.prep_read(0, pool[0])
    except UringError as error:
        print(error)
    assert ctx.in_flight == 0
"""
    path = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("RLIMIT_MEMLOCK is 1048576 bytes") == 2
    assert "ulimit -l" in done.stdout


def test_registered_files_are_named_by_index(any_ctx: UringCtx, letters: int) -> None:
    any_ctx.register_files([-1, letters])
    any_ctx.prep_read(1, 2, 0, "there", fixed_file=True)
    any_ctx.prep_read(0, 2, 0, "empty", fixed_file=True)
    any_ctx.prep_read(7, 2, 0, "outside", fixed_file=True)
    assert results(any_ctx.wait_completions(3)) == {
        "there": b"aa",
        "empty": -errno.EBADF,
        "outside": -errno.EBADF,
    }
    assert any_ctx.read_offsets(1, 2, [100], fixed_file=True) == [b"bb"]
    any_ctx.update_files(0, [letters, -1])
    any_ctx.prep_read(0, 2, 0, "there", fixed_file=True)
    any_ctx.prep_read(1, 2, 0, "empty", fixed_file=True)
    assert results(any_ctx.wait_completions(2)) == {"there": b"aa", "empty": -errno.EBADF}
    with pytest.raises(ValueError, match="places 1 to 2 are not all registered: there are 2"):
        any_ctx.update_files(1, [letters, letters])
    with pytest.raises(UringError, match="registered already"):
        any_ctx.register_files([letters])
    with pytest.raises(ValueError, match="index of a registered file"):
        any_ctx.prep_read(-1, 2, 0, fixed_file=True)
    any_ctx.unregister_files()
    with pytest.raises(UringError, match="no files are registered"):
        any_ctx.unregister_files()


def test_files_that_cannot_be_registered_are_refused(ctx: UringCtx) -> None:
    with pytest.raises(UringError):
        ctx.register_files([9999])
    with pytest.raises(ValueError, match="register_files_sparse"):
        ctx.register_files([])
    with pytest.raises(ValueError, match="negative"):
        ctx.register_files([-2])
    with pytest.raises(ValueError, match="count is 0"):
        ctx.register_files_sparse(0)


def test_the_kernel_selects_a_buffer(any_ctx: UringCtx, pair: Pair) -> None:
    one, other = pair
    buffers = any_ctx.register_buffer_ring(4, 16)
    any_ctx.prep_recv(other, buffers, user_data="recv")
    any_ctx.submit()
    one.sendall(b"picked")
    [(_, count, flags)] = any_ctx.wait_completions()
    assert flags & CQE_F_BUFFER
    assert buffers.available == 3
    assert buffers.take(count, flags) == b"picked"
    assert buffers.available == 4
    with pytest.raises(ValueError, match="not the program's"):
        buffers.take(count, flags)
    with pytest.raises(ValueError, match="name no buffer"):
        buffers.take(count, 0)


def test_receiving_continues_until_no_buffer_is_left(ctx: UringCtx, pair: Pair) -> None:
    one, other = pair
    buffers = ctx.register_buffer_ring(2, 4)
    ctx.prep_recv_multishot(other, buffers, user_data="recv")
    ctx.submit()
    one.sendall(b"aaaabbbbcccc")
    taken = []
    while ctx.in_flight:
        taken += ctx.wait_completions()
    taken += ctx.completions()
    *data, (_, error, last) = taken
    assert error == -errno.ENOBUFS
    assert not last & CQE_F_MORE
    assert all(flags & CQE_F_MORE for _, _, flags in data)
    assert b"".join(buffers.take(count, flags) for _, count, flags in data) == b"aaaabbbb"
    ctx.prep_recv_multishot(other, buffers, user_data="recv")
    [(_, count, flags)] = ctx.wait_completions()
    assert buffers.take(count, flags) == b"cccc"


def test_every_byte_of_a_stream_arrives_in_order(ctx: UringCtx, pair: Pair) -> None:
    one, other = pair
    sent = os.urandom(50_000)
    buffers = ctx.register_buffer_ring(8, 512)
    received = b""
    armed = False
    position = 0
    one.setblocking(False)
    while len(received) < len(sent):
        if not armed:
            ctx.prep_recv_multishot(other, buffers, user_data="recv")
            armed = True
        if position < len(sent):
            position += one.send(sent[position : position + 3000])
        for _, count, flags in ctx.wait_completions():
            if count > 0:
                received += buffers.take(count, flags)
            else:
                assert count == -errno.ENOBUFS
            armed = bool(flags & CQE_F_MORE)
    assert received == sent


def test_a_multishot_read_delivers_each_write_to_a_pipe(
    ctx: UringCtx, pipe: tuple[int, int]
) -> None:
    if not probe().supports("read_multishot"):
        pytest.skip("the kernel has no multishot read")
    buffers = ctx.register_buffer_ring(2, 16)
    ctx.prep_read_multishot(pipe[0], buffers, user_data="read")
    ctx.submit()
    for word in (b"one", b"two", b"three"):
        os.write(pipe[1], word)
        [(_, count, flags)] = ctx.wait_completions()
        assert flags & CQE_F_MORE
        assert buffers.take(count, flags) == word


def test_multishot_requires_a_buffer_ring(ctx: UringCtx, pair: Pair) -> None:
    with pytest.raises(TypeError, match="needs a BufferRing, not bytearray"):
        ctx.prep_recv_multishot(pair[0], bytearray(5))  # type: ignore[arg-type]
    for count, size in ((3, 10), (0, 10), (4, 0), (1 << 16, 10)):
        with pytest.raises(ValueError, match="must be"):
            ctx.register_buffer_ring(count, size)


def test_a_buffer_ring_belongs_to_its_ring(ctx: UringCtx, pair: Pair) -> None:
    with UringCtx(8) as stranger:
        buffers = ctx.register_buffer_ring(2, 16)
        with pytest.raises(ValueError, match="another UringCtx"):
            stranger.prep_recv(pair[0], buffers)
        ctx.prep_recv(pair[0], buffers, user_data="recv")
        ctx.submit()
        with pytest.raises(BufferError, match="in flight"):
            buffers.close()
        ctx.prep_cancel("recv")
        ctx.wait_completions(2)
        buffers.close()
        buffers.close()
        with pytest.raises(ValueError, match="closed"):
            ctx.prep_recv(pair[0], buffers)


def resident_kilobytes() -> int:
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Rss"))


def test_an_unreferenced_buffer_ring_is_freed(ctx: UringCtx, pair: Pair) -> None:
    def use(ring: UringCtx) -> None:
        # Every page is registered with the kernel; only the list of buffers is touched here.
        buffers = ring.register_buffer_ring(1 << 15, 64)
        ring.prep_recv(pair[0], buffers)
        ring.submit()

    for _ in range(3):
        with UringCtx(8) as other:
            use(other)  # freed during the close of its ring
    before = resident_kilobytes()
    for _ in range(40):
        with UringCtx(8) as other:
            use(other)
        ctx.register_buffer_ring(1 << 15, 64)
    gc.collect()
    each = (1 << 15) * 16 // 1024
    assert resident_kilobytes() - before < 20 * each


def test_a_buffer_ring_outlives_its_ring(ctx: UringCtx) -> None:
    buffers = ctx.register_buffer_ring(2, 16)
    ctx.close()
    buffers.close()


def test_several_parts_of_a_registered_buffer_are_one_transfer(
    any_ctx: UringCtx, letters: int, tmp_path: Path
) -> None:
    memory = bytearray(300)
    any_ctx.register_buffers([memory, bytearray(8)])
    view = memoryview(memory)
    parts = [view[200:300], view[:50]]
    assert any_ctx.run(any_ctx.prep_readv_fixed, letters, parts, 0, 50) == 150
    assert memory == b"b" * 50 + bytes(150) + b"a" * 50 + b"b" * 50
    fd = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
    assert any_ctx.run(any_ctx.prep_writev_fixed, fd, parts, 0, 0) == 150
    assert os.pread(fd, 200, 0) == b"a" * 50 + b"b" * 100
    os.close(fd)
    with pytest.raises(ValueError, match="not lie within the registered buffer 1"):
        any_ctx.prep_readv_fixed(letters, parts, 1)
    with pytest.raises(ValueError, match="not lie within the registered buffer 0"):
        any_ctx.prep_readv_fixed(letters, [view, bytearray(1)], 0)
    with pytest.raises(ValueError, match="no registered buffer 70000"):
        any_ctx.prep_readv_fixed(letters, parts, 70000)
    view.release()
    for part in parts:
        part.release()


@pytest.mark.parametrize("alignment", [512, 4096, 65536])
def test_a_pools_buffer_can_be_resized(ctx: UringCtx, letters: int, alignment: int) -> None:
    with BufferPool(3, 100, alignment=alignment) as pool:
        others = [bytes([number]) * 100 for number in range(3)]
        for buffer, content in zip(pool, others, strict=True):
            memoryview(buffer)[:] = content
        for size in (50, 100, 5000, 200_000, 70, 300_000, 1):
            kept = bytes(pool[1])[:size]
            pool.resize(1, size)
            assert len(pool[1]) == size
            assert bytes(pool[1]) == kept.ljust(size, b"\0")
            wanted = min(size, 2600)
            assert ctx.run(ctx.prep_read, letters, pool[1], 0) == wanted
            assert bytes(pool[1])[:wanted] == os.pread(letters, wanted, 0)
            assert [bytes(pool[0]), bytes(pool[2])] == [others[0], others[2]]
        pool.resize(1, 100_000)
        address = ctypes.addressof(ctypes.c_char.from_buffer(pool[1]))
        assert address % alignment == 0
        gc.collect()
        with memoryview(pool[2]), pytest.raises(BufferError, match="buffer 2 is still in use"):
            pool.resize(2, 1)
        with pytest.raises(IndexError, match="3 buffers"):
            pool.resize(3, 1)
        with pytest.raises(ValueError, match="size is 0"):
            pool.resize(0, 0)
        ctx.register_buffers(pool)
        assert ctx.run(ctx.prep_read, letters, pool[1], 100) == 2500
        assert bytes(pool[1])[:100] == b"b" * 100
        assert ctx.run(ctx.prep_read_fixed, letters, pool[1], 1, 0) == 2600
        with pytest.raises(BufferError, match="registered with a ring"):
            pool.resize(1, 10)
        ctx.unregister_buffers()
        kept_buffer = pool[1]
    with pytest.raises(ValueError, match="closed"):
        memoryview(kept_buffer)
    with pytest.raises(ValueError, match="closed"):
        pool.resize(0, 1)
