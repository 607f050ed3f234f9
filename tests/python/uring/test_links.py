"""Order of operations: links, drain, time limits, and skipped completions."""

from __future__ import annotations

import errno
import os

import pytest

from penstock.uring import UringCtx, UringError
from tests.python.uring.conftest import results


def test_a_chain_runs_in_order(any_ctx: UringCtx, letters: int) -> None:
    any_ctx.prep_write(letters, b"1", 0, "first", link=True)
    any_ctx.prep_write(letters, b"22", 0, "second", link=True)
    any_ctx.prep_read(letters, 3, 0, "third")
    completions = any_ctx.wait_completions(3)
    assert [tag for tag, _, _ in completions] == ["first", "second", "third"]
    assert results(completions)["third"] == b"22a"


def test_a_failure_cancels_the_rest_of_a_chain(ctx: UringCtx, letters: int) -> None:
    ctx.prep_read(9999, 1, 0, "fails", link=True)
    ctx.prep_nop("cancelled", link=True)
    ctx.prep_nop("cancelled too")
    ctx.prep_nop("not in the chain")
    assert results(ctx.wait_completions(4)) == {
        "fails": -errno.EBADF,
        "cancelled": -errno.ECANCELED,
        "cancelled too": -errno.ECANCELED,
        "not in the chain": 0,
    }


def test_a_short_read_breaks_a_link_but_not_a_hard_one(ctx: UringCtx, letters: int) -> None:
    ctx.prep_read(letters, 100, 2550, "short", link=True)
    ctx.prep_nop("after it")
    assert results(ctx.wait_completions(2)) == {"short": b"z" * 50, "after it": -errno.ECANCELED}
    ctx.prep_read(letters, 100, 2550, "short", hardlink=True)
    ctx.prep_nop("after it")
    assert results(ctx.wait_completions(2)) == {"short": b"z" * 50, "after it": 0}


def test_an_open_chain_cannot_be_submitted(ctx: UringCtx, letters: int) -> None:
    ctx.prep_nop(1, link=True)
    for submits in (ctx.submit, ctx.wait_completions, lambda: ctx.read_offsets(letters, 1, [0])):
        with pytest.raises(ValueError, match=r"linked to a next one; .* discard\(\)"):
            submits()
    assert ctx.prepared == 1
    ctx.prep_nop(2)
    assert len(ctx.wait_completions(2)) == 2


def test_a_chain_that_does_not_fit_can_be_discarded(ctx: UringCtx) -> None:
    with pytest.raises(UringError, match="full"):
        for number in range(ctx.entries + 1):
            ctx.prep_nop(number, link=True)
    assert ctx.discard() == ctx.entries
    ctx.prep_nop("works")
    assert ctx.wait_completions() == [("works", 0, 0)]


def test_a_drain_waits_for_earlier_operations(ctx: UringCtx, pipe: tuple[int, int]) -> None:
    ctx.prep_read(pipe[0], 1, -1, "slow")
    ctx.prep_nop("drain", drain=True)
    ctx.submit()
    assert ctx.wait_completions(1, 0.02) == []
    os.write(pipe[1], b"!")
    assert [tag for tag, _, _ in ctx.wait_completions(2)] == ["slow", "drain"]


def test_skip_success_skips_a_success_but_not_a_failure(any_ctx: UringCtx, letters: int) -> None:
    memory = bytearray(3)
    any_ctx.prep_read(letters, memory, 0, "untold", skip_success=True)
    any_ctx.prep_read(9999, 1, 0, "failed", skip_success=True)
    any_ctx.prep_nop("last")
    assert results(any_ctx.wait_completions(3)) == {"failed": -errno.EBADF, "last": 0}
    assert memory == b"aaa"
    memory.append(0)  # released without a completion
    any_ctx.prep_nop("untold")
    assert any_ctx.wait_completions() == [("untold", 0, 0)]


def test_skip_success_operations_of_a_failed_chain_complete(ctx: UringCtx) -> None:
    ctx.prep_read(9999, 1, 0, "a", link=True, skip_success=True)
    ctx.prep_nop("b", link=True, skip_success=True)
    ctx.prep_nop("c")
    found = results(ctx.wait_completions(3))
    assert found == {"a": -errno.EBADF, "b": -errno.ECANCELED, "c": -errno.ECANCELED}
    assert ctx.in_flight == 0


def test_a_link_timeout_ends_the_operation_before_it(
    any_ctx: UringCtx, pipe: tuple[int, int]
) -> None:
    any_ctx.prep_read(pipe[0], 1, -1, "read", link=True)
    any_ctx.prep_link_timeout(0.01, user_data="limit")
    found = results(any_ctx.wait_completions(2))
    assert found["read"] in (-errno.ECANCELED, -errno.EINTR)
    assert found["limit"] == -errno.ETIME
    any_ctx.prep_read(pipe[0], 1, -1, "read", link=True)
    any_ctx.prep_link_timeout(30, user_data="limit")
    os.write(pipe[1], b"!")
    found = results(any_ctx.wait_completions(2))
    assert found == {"read": b"!", "limit": -errno.ECANCELED}


def test_timeouts_end_after_their_time_or_count(ctx: UringCtx) -> None:
    ctx.prep_timeout(0.005, user_data="time")
    assert ctx.wait_completions() == [("time", -errno.ETIME, 0)]
    ctx.prep_timeout(30, 2, user_data="count")
    ctx.prep_nop(1)
    ctx.prep_nop(2)
    assert results(ctx.wait_completions(3)) == {"count": 0, 1: 0, 2: 0}
    with pytest.raises(ValueError, match="seconds"):
        ctx.prep_timeout(-1)


def test_a_timeout_in_flight_can_be_changed_and_removed(ctx: UringCtx) -> None:
    ctx.prep_timeout(30, user_data="timer")
    ctx.submit()
    ctx.prep_timeout_update("timer", 0.001, user_data="update")
    assert results(ctx.wait_completions(2)) == {"update": 0, "timer": -errno.ETIME}
    ctx.prep_timeout(30, user_data="timer")
    ctx.submit()
    ctx.prep_timeout_remove("timer", user_data="remove")
    assert results(ctx.wait_completions(2)) == {"remove": 0, "timer": -errno.ECANCELED}


def test_an_absolute_time_may_be_in_the_past(ctx: UringCtx) -> None:
    for clock in ("monotonic", "boottime", "realtime"):
        ctx.prep_timeout(1, absolute=True, clock=clock, user_data=clock)
        assert ctx.wait_completions() == [(clock, -errno.ETIME, 0)]
