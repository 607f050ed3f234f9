"""Futexes, children and advice on memory through a ring."""

from __future__ import annotations

import errno
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from penstock.uring import UringCtx, UringError, WaitidBuffer
from tests.python.uring.conftest import results


@pytest.fixture
def other() -> Iterator[UringCtx]:
    with UringCtx(8) as made:
        yield made


def test_a_futex_wait_is_woken(any_ctx: UringCtx, other: UringCtx) -> None:
    word = bytearray((7).to_bytes(4, sys.byteorder))
    any_ctx.prep_futex_wait(word, 7, user_data="waits")
    any_ctx.submit()
    assert any_ctx.completions() == []
    with pytest.raises(BufferError):
        word.clear()  # the kernel has its address
    woken = 0
    while not woken:  # a kernel thread may submit it a little later
        woken = other.run(other.prep_futex_wake, word)
    assert woken == 1
    assert any_ctx.wait_completions(1, 20) == [("waits", 0, 0)]
    assert other.run(other.prep_futex_wake, word) == 0
    word.clear()


def test_a_futex_wait_on_another_value_does_not_wait(ctx: UringCtx) -> None:
    with pytest.raises(UringError) as caught:
        ctx.run(ctx.prep_futex_wait, bytearray(4), 1)
    assert caught.value.errno == errno.EAGAIN
    with pytest.raises(BufferError, match="read-only"):
        ctx.prep_futex_wait(b"0000", 0)


def test_a_mask_selects_the_waiters_to_wake(ctx: UringCtx, other: UringCtx) -> None:
    word = bytearray(4)
    ctx.prep_futex_wait(word, 0, mask=1, user_data="one")
    ctx.prep_futex_wait(word, 0, mask=2, user_data="two")
    ctx.submit()
    assert other.run(other.prep_futex_wake, word, 9, mask=2) == 1
    assert ctx.wait_completion() == ("two", 0, 0)
    assert other.run(other.prep_futex_wake, word, 9) == 1
    assert ctx.wait_completion() == ("one", 0, 0)


def test_a_wait_on_several_futexes_ends_with_any_of_them(ctx: UringCtx, other: UringCtx) -> None:
    words = [bytearray(4) for _ in range(3)]
    ctx.prep_futex_waitv([(word, 0) for word in words], user_data="waits")
    ctx.submit()
    for word in words:
        with pytest.raises(BufferError):
            word.clear()
    assert other.run(other.prep_futex_wake, words[2]) == 1
    assert ctx.wait_completion() == ("waits", 2, 0)
    for word in words:
        word.clear()


def test_a_shared_futex_wakes_another_process(ctx: UringCtx) -> None:
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    child = os.fork()
    if child == 0:
        with UringCtx(4) as own:
            woken = 0
            while not woken:
                woken = own.run(own.prep_futex_wake, memory, private=False)
        os._exit(0)
    assert ctx.run(ctx.prep_futex_wait, memory, 0, private=False) == 0
    assert os.waitpid(child, 0)[1] == 0


def test_a_waitid_completes_when_the_child_ends(any_ctx: UringCtx) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input(); exit(3)"], stdin=subprocess.PIPE)
    about = WaitidBuffer()
    assert (
        any_ctx.run(any_ctx.prep_waitid, os.P_PID, child.pid, os.WEXITED | os.WNOHANG, about) == 0
    )
    assert about.result() is None
    any_ctx.prep_waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT, about, user_data="ended")
    any_ctx.submit()
    assert child.stdin is not None
    child.stdin.close()
    assert any_ctx.wait_completions(1, 20) == [("ended", 0, 0)]
    found = about.result()
    assert found is not None
    assert (found.si_pid, found.si_status, found.si_code) == (child.pid, 1, os.CLD_EXITED)
    assert found == os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    child.wait()
    with pytest.raises(ChildProcessError):
        any_ctx.run(any_ctx.prep_waitid, os.P_PID, child.pid, os.WEXITED)


def test_advice_is_given_on_memory(ctx: UringCtx) -> None:
    memory = mmap.mmap(-1, 4 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = b"x" * len(memory)
    assert ctx.run(ctx.prep_madvise, memory, mmap.MADV_DONTNEED) == 0
    assert memory[:] == bytes(len(memory))
    with pytest.raises(UringError) as caught:
        ctx.run(ctx.prep_madvise, memory, 12345)
    assert caught.value.errno == errno.EINVAL


def test_closing_ends_futex_waits(ctx: UringCtx) -> None:
    word = bytearray(4)
    ctx.prep_futex_wait(word, 0)
    ctx.prep_futex_waitv([(word, 0)])
    ctx.submit()
    ctx.prep_nop("nop")
    assert results(ctx.wait_completions()) == {"nop": 0}
    ctx.close()
    word.clear()
