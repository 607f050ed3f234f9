"""Single operations in one call, and completions one by one."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from penstock.uring import UringCtx, UringError, UringPool
from tests.python.uring.conftest import run_python


def test_a_read_and_a_write_are_one_call(any_ctx: UringCtx, tmp_path: Path) -> None:
    fd = any_ctx.run(any_ctx.prep_openat, tmp_path / "file", os.O_RDWR | os.O_CREAT)
    assert any_ctx.write(fd, b"some data", 3) == 9
    assert any_ctx.read(fd, 100, 0) == b"\0\0\0some data"
    assert any_ctx.writev(fd, [b"two ", bytearray(b"parts")], 0) == 9
    first, second = bytearray(4), bytearray(5)
    assert any_ctx.readv(fd, [first, second], 0) == 9
    assert (first, second) == (b"two ", b"parts")
    first.clear()
    # At the file's own position.
    assert any_ctx.read(fd, 3) == b"two"
    assert any_ctx.write(fd, b"-") == 1
    assert any_ctx.read(fd, 5) == b"parts"
    any_ctx.run(any_ctx.prep_close, fd)
    with pytest.raises(UringError) as caught:
        any_ctx.read(fd, 1)
    assert caught.value.errno == errno.EBADF
    assert any_ctx.in_flight == 0


def test_a_call_keeps_other_completions(any_ctx: UringCtx, letters: int) -> None:
    reader, writer = os.pipe()
    any_ctx.prep_read(reader, 4, -1, "pipe")
    any_ctx.prep_nop("prepared")
    assert any_ctx.read(letters, 3, 100) == b"bbb"
    os.write(writer, b"late")
    assert any_ctx.read(letters, 3, 200) == b"ccc"
    found = {any_ctx.wait_completion(), any_ctx.wait_completion()}
    assert found == {("prepared", 0, 0), ("pipe", b"late", 0)}
    os.close(reader)
    os.close(writer)


def test_completions_can_be_taken_one_by_one(any_ctx: UringCtx) -> None:
    assert any_ctx.peek_completion() is None
    assert any_ctx.wait_completion() is None
    any_ctx.prep_nop(1)
    assert any_ctx.peek_completion() is None
    assert any_ctx.wait_completion() == (1, 0, 0)
    any_ctx.prep_timeout(1000, user_data=2)
    assert any_ctx.wait_completion(timeout=0.001) is None
    with pytest.raises(ValueError, match="timeout is -1"):
        any_ctx.wait_completion(-1)


def test_a_call_refuses_to_break_a_chain(ctx: UringCtx, letters: int) -> None:
    ctx.prep_nop(1, link=True)
    with pytest.raises(ValueError, match="linked to a next one"):
        ctx.read(letters, 1)
    assert ctx.prepared == 1


def test_a_zero_copy_send_ends_when_its_data_are_released(
    ctx: UringCtx, pair: tuple[socket.socket, socket.socket]
) -> None:
    data = bytearray(b"zero copy")
    assert ctx.run(ctx.prep_send, pair[0], data, zero_copy=True) == 9
    data.clear()
    assert pair[1].recv(100) == b"zero copy"


@pytest.mark.parametrize("kind", ["{}", "{'defer_taskrun': False}", "{'sqpoll': True}"])
def test_a_signal_handler_that_raises_cancels_the_call(kind: str) -> None:
    program = f"""
import os, signal
from penstock.uring import UringCtx
reader, writer = os.pipe()
memory = bytearray(10)
def handler(*_):
    raise KeyError("handler")
signal.signal(signal.SIGALRM, handler)
with UringCtx(8, **{kind}) as ctx:
    ctx.prep_timeout(1000, user_data="other")
    for call in (lambda: ctx.read(reader, 10), lambda: ctx.readv(reader, [memory])):
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            call()
        except KeyError:
            pass
        else:
            raise AssertionError
        assert ctx.in_flight == 1, ctx.in_flight
        assert ctx.completions() == []
    memory.clear()
    os.write(writer, b"not taken")
    assert ctx.read(reader, 100) == b"not taken"
"""
    assert run_python(program) == ""


@pytest.mark.parametrize("act", ["c.close()", "c.discard()", "c.completions()", "c.read(zero, 1)"])
def test_code_in_the_middle_of_a_call_may_call_anything(act: str) -> None:
    program = f"""
import os, signal
from penstock.uring import UringCtx
reader, writer = os.pipe()
zero = os.open("/dev/zero", os.O_RDONLY)
c = UringCtx(8)
c.prep_timeout(1000, user_data="other")
def handler(*_):
    os.write(writer, b"data")
    {act}
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    assert c.read(reader, 10) == b"data"
except (ValueError, RuntimeError) as error:
    assert c.closed or "taken" in str(error), error
c.close()
"""
    assert run_python(program) == ""


def test_each_thread_uses_its_own_ring_of_a_pool(letters: int) -> None:
    with UringPool(3, entries=8) as pool:
        assert len(pool) == 3
        assert pool.rings() == []

        def work(number: int) -> None:
            assert pool[number].read(letters, 1, 100 * number) == bytes([97 + number])
            pool[number].prep_timeout(1000)
            pool[number].submit()

        threads = [threading.Thread(target=work, args=(number,)) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert pool[2] is pool[5]
        assert len(pool.rings()) == 3
        with pytest.raises(RuntimeError, match="belongs to thread"):
            pool[0].prep_nop()
    with pytest.raises(ValueError, match="closed"):
        pool[0]
    with pytest.raises(ValueError, match="n is 0"):
        UringPool(0)


def test_closing_a_pool_reports_rings_of_other_threads() -> None:
    pool = UringPool(2, entries=8)
    go, made = threading.Event(), threading.Event()

    def work() -> None:
        ring = pool[1]
        made.set()
        go.wait()
        ring.close()

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    made.wait()
    mine = pool[0]
    with pytest.raises(RuntimeError, match="1 of worker"):
        pool.close()
    assert mine.closed
    go.set()
    thread.join()
    pool.close()
