"""Cancelled operations: the fate of their buffers, data and descriptors."""

from __future__ import annotations

import errno
import gc
import os
import socket
import weakref
from pathlib import Path
from typing import Any

import pytest

from penstock.uring import UringCtx
from tests.python.uring.conftest import KINDS, results

CANARY = b"\xa5" * 64


def test_an_operation_is_cancelled_by_its_user_data(
    any_ctx: UringCtx, pipe: tuple[int, int]
) -> None:
    any_ctx.prep_read(pipe[0], 1, -1, "target")
    any_ctx.prep_read(pipe[0], 1, -1, "other")
    any_ctx.submit()
    any_ctx.prep_cancel("target", user_data="cancel")
    found = results(any_ctx.wait_completions(2))
    assert found == {"cancel": 0, "target": -errno.ECANCELED}
    os.write(pipe[1], b"!")
    assert any_ctx.wait_completions() == [("other", b"!", 0)]


def test_cancelling_an_unknown_user_data_raises(ctx: UringCtx) -> None:
    with pytest.raises(KeyError, match="nothing in flight has user_data 'unknown'"):
        ctx.prep_cancel("unknown")
    with pytest.raises(TypeError, match="unhashable"):
        ctx.prep_cancel([])
    assert ctx.in_flight == 0


def test_cancelling_a_completed_operation_results_in_enoent(ctx: UringCtx) -> None:
    ctx.prep_nop("done")
    ctx.submit()
    ctx.prep_cancel("done", user_data="cancel")
    assert results(ctx.wait_completions(2)) == {"done": 0, "cancel": -errno.ENOENT}


def test_a_tag_is_in_use_until_its_completion_is_taken(ctx: UringCtx) -> None:
    ctx.prep_nop("tag")
    ctx.submit_and_wait()
    assert ctx.in_flight == 0
    with pytest.raises(ValueError, match="until its final completion is taken"):
        ctx.prep_nop("tag")
    assert ctx.completions() == [("tag", 0, 0)]
    ctx.prep_nop("tag")
    assert ctx.wait_completions() == [("tag", 0, 0)]


def test_all_operations_on_a_descriptor_are_cancelled(ctx: UringCtx, pipe: tuple[int, int]) -> None:
    other_reader, other_writer = os.pipe()
    try:
        for tag in "abc":
            ctx.prep_read(pipe[0], 1, -1, tag)
        ctx.prep_read(other_reader, 1, -1, "other")
        ctx.submit()
        ctx.prep_cancel_fd(pipe[0], user_data="cancel")
        found = results(ctx.wait_completions(4))
        assert found.pop("cancel") == 3
        assert found == dict.fromkeys("abc", -errno.ECANCELED)
        assert ctx.in_flight == 1
    finally:
        ctx.close()
        os.close(other_reader)
        os.close(other_writer)


def test_all_operations_are_cancelled(ctx: UringCtx, pipe: tuple[int, int]) -> None:
    for tag in range(5):
        ctx.prep_read(pipe[0], 1, -1, tag)
    ctx.prep_timeout(30, user_data="timer")
    ctx.submit()
    ctx.prep_cancel_all(user_data="cancel")
    found = results(ctx.wait_completions(7))
    assert found.pop("cancel") >= 5
    assert ctx.in_flight == 0
    assert set(found.values()) == {-errno.ECANCELED}


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_reads_buffer_is_never_written_to(kind: str, pipe: tuple[int, int]) -> None:
    with UringCtx(16, **KINDS[kind]) as ctx:
        memory = bytearray(CANARY)
        ctx.prep_read(pipe[0], memory, -1, "read")
        ctx.submit()
        ctx.prep_cancel("read", user_data="cancel")
        found = results(ctx.wait_completions(2))
        os.write(pipe[1], b"late data")
        if found["read"] == -errno.ECANCELED:
            assert memory == CANARY
            assert os.read(pipe[0], 100) == b"late data"
        else:
            assert memory.startswith(b"late data"[: found["read"]])


def test_a_buffer_is_held_until_the_final_completion_after_a_cancel(
    ctx: UringCtx, pipe: tuple[int, int]
) -> None:
    memory = bytearray(CANARY)
    ctx.prep_read(pipe[0], memory, -1, "read")
    ctx.submit()
    ctx.prep_cancel("read", user_data="cancel", skip_success=True)
    with pytest.raises(BufferError):
        memory.clear()
    assert ctx.wait_completions(2) == [("read", -errno.ECANCELED, 0)]
    memory.clear()


def test_closing_ends_operations_in_flight_and_releases_their_buffers(
    pipe: tuple[int, int],
) -> None:
    for options in KINDS.values():
        memory = bytearray(CANARY)
        with UringCtx(16, **options) as ctx:
            for i in range(4):
                ctx.prep_read(pipe[0], memoryview(memory)[i * 8 : i * 8 + 8], -1)
            ctx.prep_poll_add(pipe[0], multishot=True)
            ctx.prep_timeout(1000)
            ctx.prep_nop("prepared only")
            ctx.submit()
            ctx.prep_read(pipe[0], memory, -1)
        assert ctx.closed
        assert ctx.in_flight == 0
        os.write(pipe[1], b"written after closing")
        assert memory == CANARY
        memory.append(1)  # no longer held
        assert os.read(pipe[0], 100) == b"written after closing"


def test_closing_ends_a_chain_with_a_later_part_that_would_wait(pipe: tuple[int, int]) -> None:
    ctx = UringCtx(16)
    for number in range(5):
        ctx.prep_read(pipe[0], 1, -1, number, hardlink=True)
    ctx.prep_read(pipe[0], 1, -1, "last")
    ctx.submit()
    ctx.close()
    os.write(pipe[1], b"x")
    assert os.read(pipe[0], 9) == b"x"


def test_closing_twice_is_allowed(ctx: UringCtx) -> None:
    ctx.close()
    ctx.close()
    assert repr(ctx) == "<UringCtx closed>"


def test_a_ring_with_operations_in_flight_can_be_garbage_collected(pipe: tuple[int, int]) -> None:
    memory = bytearray(CANARY)
    ctx = UringCtx(8)
    ctx.prep_read(pipe[0], memory, -1, ctx)  # a cycle: the ring holds the tag, the tag the ring
    ctx.submit()
    gone = weakref.ref(ctx)
    with pytest.warns(ResourceWarning, match="unclosed ring <UringCtx"):
        del ctx
        gc.collect()
    assert gone() is None
    os.write(pipe[1], b"after")
    assert memory == CANARY
    memory.append(1)
    assert os.read(pipe[0], 9) == b"after"


def test_a_ring_keeps_a_buffer_alive_without_another_reference(
    ctx: UringCtx, pipe: tuple[int, int]
) -> None:
    class Watched(bytearray):
        pass

    memory = Watched(4)
    gone = weakref.ref(memory)
    ctx.prep_read(pipe[0], memory, -1, "read")
    ctx.submit()
    del memory
    gc.collect()
    assert gone() is not None
    os.write(pipe[1], b"data")
    assert ctx.wait_completions() == [("read", 4, 0)]
    gc.collect()
    assert gone() is None


def test_a_connection_accepted_by_a_cancelled_operation_is_not_lost() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        before = set(os.listdir("/proc/self/fd"))
        ctx = UringCtx(8)
        ctx.prep_accept(server, user_data="accept")
        ctx.submit()
        with socket.create_connection(server.getsockname()) as client:
            ctx.prep_cancel("accept", user_data="cancel")
            ctx.submit_and_wait(2)
            ctx.close()
            # Either the connection waits for the next accept, or the ring has closed it.
            server.settimeout(0)
            try:
                accepted, _ = server.accept()
            except BlockingIOError:
                assert client.recv(1) == b""
            else:
                accepted.close()
        assert set(os.listdir("/proc/self/fd")) == before


def test_a_buffer_whose_release_runs_python_code_may_use_the_ring(
    ctx: UringCtx, letters: int
) -> None:
    seen = []

    class Tag:
        def __del__(self) -> None:
            seen.append(ctx.completions())
            ctx.prep_nop("from a destructor")

    ctx.prep_read(letters, 1, 0, Tag(), skip_success=True)
    ctx.prep_nop("from the test")
    taken = ctx.wait_completions(2)
    while ctx.in_flight:
        taken += ctx.wait_completions()
    for batch in seen:
        taken += batch
    assert results(taken) == {"from the test": 0, "from a destructor": 0}


def test_a_cancelled_opening_of_a_pipe_ends_with_an_errno(ctx: UringCtx, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for flags in (os.O_RDONLY, os.O_WRONLY):
        ctx.prep_openat(tmp_path / "fifo", flags, user_data="open", force_async=True)
        ctx.submit()
        found: dict[Any, Any] = {}
        while "open" not in found:  # not found while it moves to its kernel thread
            ctx.prep_cancel("open", user_data="cancel")
            found = results(ctx.wait_completions(1))
            found |= results(ctx.wait_completions(1)) if "cancel" not in found else {}
        assert found["open"] in (-errno.EINTR, -errno.ECANCELED)
        while ctx.in_flight:
            ctx.wait_completions()
