"""Only one thread of one process may use a ring, and only while it is open."""

from __future__ import annotations

import gc
import os
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from penstock.uring import BufferPool, Message, UringCtx, probe
from penstock.uring.constants import OPCODE
from tests.python.uring.conftest import run_python

CALLS: list[Callable[[UringCtx], Any]] = [
    lambda ctx: ctx.prep_nop(),
    lambda ctx: ctx.prep_read(0, 1),
    lambda ctx: ctx.prep_openat("x"),
    lambda ctx: ctx.prep_nop_many([1]),
    lambda ctx: ctx.read_offsets(0, 1, [0]),
    lambda ctx: ctx.submit(),
    lambda ctx: ctx.submit_and_wait(),
    lambda ctx: ctx.wait_completions(),
    lambda ctx: ctx.completions(),
    lambda ctx: ctx.wait_completion(),
    lambda ctx: ctx.peek_completion(),
    lambda ctx: ctx.read(0, 1),
    lambda ctx: ctx.discard(),
    lambda ctx: ctx.register_files([0]),
    lambda ctx: ctx.register_files_sparse(1),
    lambda ctx: ctx.update_files(0, [0]),
    lambda ctx: ctx.unregister_files(),
    lambda ctx: ctx.register_buffers([bytearray(1)]),
    lambda ctx: ctx.register_buffers(BufferPool(1, 1)),
    lambda ctx: ctx.unregister_buffers(),
    lambda ctx: ctx.register_buffer_ring(1, 1),
    lambda ctx: ctx.set_max_workers(1, 1),
    lambda ctx: ctx.prep_cancel(1),
    lambda ctx: ctx.__enter__(),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_a_closed_ring_refuses_everything(number: int) -> None:
    ctx = UringCtx(4)
    ctx.close()
    with pytest.raises(ValueError, match="the ring is closed"):
        CALLS[number](ctx)


def in_thread(function: Callable[[], Any]) -> list[BaseException]:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised


@pytest.mark.parametrize("options", [{}, {"defer_taskrun": False}], ids=str)
def test_another_thread_is_refused_without_an_effect(options: dict[str, Any]) -> None:
    with UringCtx(4, **options) as ctx:
        ctx.prep_nop("mine")
        for call in CALLS:
            [error] = in_thread(lambda call=call: call(ctx))  # type: ignore[misc]
            assert isinstance(error, RuntimeError)
            assert "make a ring for each thread" in str(error)
        [error] = in_thread(ctx.close)
        assert "belongs to thread" in str(error)
        assert ctx.wait_completions() == [("mine", 0, 0)]


def test_each_thread_may_have_a_ring(letters: int) -> None:
    def work() -> None:
        with UringCtx(8) as ctx:
            for _ in range(50):
                assert ctx.read_offsets(letters, 3, [0, 100]) == [b"aaa", b"bbb"]

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_message_wakes_another_threads_ring() -> None:
    if not probe().supports("msg_ring"):
        pytest.skip("the kernel has no messages between rings")
    ready = threading.Event()
    fds: list[int] = []
    received: list[Any] = []

    def receive() -> None:
        with UringCtx(8) as theirs:
            fds.append(theirs.ring_fd)
            ready.set()
            while len(received) < 2:
                received.extend(theirs.wait_completions(1, 30))

    thread = threading.Thread(target=receive)
    thread.start()
    ready.wait()
    with UringCtx(8) as ctx:
        ctx.prep_msg_ring(fds[0], 12345, 67, user_data="sent")
        assert ctx.wait_completions() == [("sent", 0, 0)]
        ctx.prep_msg_ring(fds[0], (1 << 62) - 1)
        ctx.wait_completions()
        with pytest.raises(ValueError, match="value is"):
            ctx.prep_msg_ring(fds[0], 1 << 62)
    thread.join()
    (first, result, _), (second, _, _) = received
    assert isinstance(first, Message)
    assert (first.value, result) == (12345, 67)
    assert second.value == (1 << 62) - 1


def test_a_message_does_not_complete_an_operation() -> None:
    with UringCtx(8) as target, UringCtx(8) as sender:
        reader, writer = os.pipe()
        target.prep_read(reader, 1, -1, "read")
        target.submit()
        for value in range(3):
            sender.prep_msg_ring(target, value)
        sender.wait_completions(3)
        found = target.wait_completions(3, 5)
        assert [tag for tag, _, _ in found] == [Message((0,)), Message((1,)), Message((2,))]
        assert target.in_flight == 1
        target.close()
        os.close(reader)
        os.close(writer)


def test_a_stale_number_completes_no_operation() -> None:
    with UringCtx(8) as target, UringCtx(8) as sender:
        reader, writer = os.pipe()
        target.prep_read(reader, 1, -1, "first")
        stale = target._key("first")
        os.write(writer, b"1")
        assert target.wait_completions() == [("first", b"1", 0)]
        target.prep_read(reader, 1, -1, "second")
        assert target._key("second") != stale
        target.submit()
        # A message of another program may contain any 64 bits.
        sender._prep(OPCODE["msg_ring"], target.ring_fd, 0, 99, offset=stale)
        sender.wait_completions()
        assert target.wait_completions(1, 5) == [(Message((stale,)), 99, 0)]
        os.write(writer, b"2")
        assert target.wait_completions() == [("second", b"2", 0)]
        os.close(reader)
        os.close(writer)


def test_a_child_of_fork_is_refused_and_the_parent_continues() -> None:
    program = """
import os
from penstock.uring import BufferPool, UringCtx
reader, writer = os.pipe()
ctx = UringCtx(8)
pool = BufferPool(2, 64, registered=True)
ctx.prep_read(reader, pool[0], -1, "read")
ctx.submit()
ctx.prep_nop("prepared")
child = os.fork()
if child == 0:
    for call in (ctx.prep_nop, ctx.submit, ctx.wait_completions, ctx.completions, ctx.discard):
        try:
            call()
        except RuntimeError as error:
            assert "child of fork" in str(error), error
        else:
            os._exit(1)
    assert repr(ctx) and ctx.prepared == 0
    fd = ctx.ring_fd
    ctx.close()
    try:
        os.fstat(fd)
    except OSError:
        pass
    else:
        os._exit(2)
    with UringCtx(8) as own:
        own.prep_nop("own")
        assert own.wait_completions() == [("own", 0, 0)]
    del ctx, pool
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
os.write(writer, b"parent")
found = {tag: result for tag, result, _ in ctx.wait_completions(2)}
assert found == {"read": 6, "prepared": 0}, found
assert bytes(pool[0])[:6] == b"parent"
ctx.close()
"""
    assert run_python(program) == ""


def test_a_child_that_only_drops_its_ring_does_not_warn() -> None:
    program = """
import gc, os
from penstock.uring import UringCtx
ctx = UringCtx(8)
ctx.prep_nop(1)
ctx.submit()
child = os.fork()
if child == 0:
    del ctx
    gc.collect()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert ctx.wait_completions() == [(1, 0, 0)]
ctx.close()
"""
    assert run_python(program) == ""


def test_a_ring_left_open_at_the_end_of_the_program_warns() -> None:
    program = """
import os
from penstock.uring import UringCtx
ctx = UringCtx(8)
reader, writer = os.pipe()
ctx.prep_read(reader, bytearray(100), -1)
ctx.submit()
"""
    assert "ResourceWarning: unclosed ring <UringCtx" in run_python(program)


def test_a_ring_whose_thread_has_ended_is_freed() -> None:
    rings: list[UringCtx] = []
    memory = bytearray(8)
    reader, writer = os.pipe()

    def work() -> None:
        ctx = UringCtx(8)
        ctx.prep_read(reader, memory, -1)
        ctx.submit()
        rings.append(ctx)

    in_thread(work)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rings.clear()
        gc.collect()
    assert [each.category for each in caught] == [ResourceWarning]
    os.write(writer, b"afterwards")
    assert memory == bytes(8)
    assert os.read(reader, 99) == b"afterwards"
    os.close(reader)
    os.close(writer)


def test_a_ring_with_a_foreign_close_of_its_descriptor_keeps_its_memory(
    pipe: tuple[int, int],
) -> None:
    ctx = UringCtx(8)
    memory = bytearray(8)
    ctx.prep_read(pipe[0], memory, -1)
    ctx.submit()
    os.close(ctx.ring_fd)
    ctx.close()
    with pytest.raises(BufferError):
        memory.clear()  # the kernel might still write there, so it is never freed
