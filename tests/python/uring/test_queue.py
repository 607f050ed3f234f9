"""Preparing, submitting, and taking completions."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from typing import Any

import pytest

from penstock.uring import UringCtx, UringError
from tests.python.uring.conftest import results


def test_completions_carry_the_user_data_the_result_and_the_flags(any_ctx: UringCtx) -> None:
    any_ctx.prep_nop("first")
    any_ctx.prep_nop(2)
    assert any_ctx.submit() == 2
    any_ctx.submit_and_wait(2)
    assert set(any_ctx.completions()) == {("first", 0, 0), (2, 0, 0)}


def test_no_operation_is_submitted_before_a_submit(ctx: UringCtx) -> None:
    ctx.prep_nop(1)
    assert (ctx.prepared, ctx.in_flight) == (1, 1)
    assert ctx.completions() == []
    assert ctx.wait_completions() == [(1, 0, 0)]
    assert (ctx.prepared, ctx.in_flight) == (0, 0)


def test_user_data_is_returned_as_the_same_object(ctx: UringCtx) -> None:
    tag = frozenset([object()])
    assert ctx.prep_nop(tag) is tag
    [(given, _, _)] = ctx.wait_completions()
    assert given is tag


def test_without_user_data_each_operation_gets_its_own_number(ctx: UringCtx) -> None:
    numbers = [ctx.prep_nop() for _ in range(20)]
    assert len(set(numbers)) == 20
    assert {tag for tag, _, _ in ctx.wait_completions(20)} == set(numbers)


@pytest.mark.parametrize(
    ("first", "second"),
    [(7, 7), ("a", "a"), ((1, 2), (1, 2)), (1, True), (1.0, 1), (True, 1), (1 << 80, 1 << 80)],
    ids=str,
)
def test_an_equal_tag_in_flight_is_refused_before_submission(
    ctx: UringCtx, first: object, second: object
) -> None:
    ctx.prep_nop(first)
    with pytest.raises(ValueError, match=r"user_data .* is in flight already"):
        ctx.prep_nop(second)
    assert ctx.prepared == 1
    assert ctx.wait_completions() == [(first, 0, 0)]
    ctx.prep_nop(second)
    assert ctx.wait_completions() == [(second, 0, 0)]


def test_a_tag_without_a_hash_is_refused(ctx: UringCtx) -> None:
    with pytest.raises(TypeError, match="unhashable"):
        ctx.prep_nop([])
    assert ctx.in_flight == 0


def test_tags_with_equal_hashes_are_distinguished(ctx: UringCtx) -> None:
    class Tag:
        def __init__(self, name: str) -> None:
            self.name = name

        def __hash__(self) -> int:
            return 5

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Tag) and other.name == self.name

    tags = [Tag(name) for name in "abcdef"]
    for tag in tags:
        ctx.prep_nop(tag)
    ctx.prep_nop(5)
    with pytest.raises(ValueError, match="in flight"):
        ctx.prep_nop(Tag("c"))
    assert {tag for tag, _, _ in ctx.wait_completions(7)} == {*tags, 5}
    ctx.prep_nop(Tag("c"))
    ctx.wait_completions()


def test_a_failed_comparison_prepares_no_operation(ctx: UringCtx) -> None:
    class Tag:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no comparison")

    ctx.prep_nop(1)
    with pytest.raises(RuntimeError, match="no comparison"):
        ctx.prep_nop(Tag())
    assert ctx.prepared == 1
    ctx.wait_completions()


def test_a_ring_closed_by_a_comparison_is_not_used_again() -> None:
    ctx = UringCtx(8)

    class Tag:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            ctx.close()
            return False

    ctx.prep_nop(1)
    with pytest.raises(ValueError, match="closed"):
        ctx.prep_nop(Tag())


def test_a_full_queue_is_an_error_and_keeps_its_operations(ctx: UringCtx) -> None:
    for number in range(ctx.entries):
        ctx.prep_nop(number)
    with pytest.raises(UringError, match="submission queue is full: 32 operations") as caught:
        ctx.prep_nop("one more")
    assert caught.value.errno == errno.EBUSY
    assert len(results(ctx.wait_completions(ctx.entries))) == 32


def test_more_completions_than_the_queue_holds_are_not_lost() -> None:
    with UringCtx(8, cq_entries=8) as ctx:
        for batch in range(16):
            ctx.prep_nop_many([(batch, i) for i in range(8)])
            ctx.submit()
        assert ctx.in_flight <= 128
        found = results(ctx.wait_completions(128))
        assert len(found) == 128
        assert ctx.in_flight == 0


def test_completions_may_be_taken_a_few_at_a_time(ctx: UringCtx) -> None:
    ctx.prep_nop_many(range(10))
    ctx.submit_and_wait(10)
    first = ctx.completions(3)
    assert len(first) == 3
    assert len(ctx.completions(0)) == 0
    assert len(results(first + ctx.completions())) == 10


def test_discard_removes_the_prepared_operations(ctx: UringCtx) -> None:
    buffer = bytearray(10)
    ctx.prep_read(0, buffer, 0, "never")
    ctx.prep_nop("nor this")
    assert ctx.discard() == 2
    assert (ctx.prepared, ctx.in_flight) == (0, 0)
    buffer.extend(b"resized")  # no longer held
    ctx.prep_nop("never")
    assert ctx.wait_completions() == [("never", 0, 0)]


def test_a_wait_ends_when_nothing_is_in_flight(ctx: UringCtx) -> None:
    assert ctx.wait_completions(5) == []
    ctx.prep_nop(1)
    assert ctx.wait_completions(5) == [(1, 0, 0)]


def test_a_wait_ends_at_its_time_limit(any_ctx: UringCtx, pipe: tuple[int, int]) -> None:
    any_ctx.prep_read(pipe[0], 4, -1, "waiting")
    before = time.monotonic()
    assert any_ctx.wait_completions(1, 0.02) == []
    assert time.monotonic() - before >= 0.02
    assert any_ctx.wait_completions(1, timeout=0) == []
    os.write(pipe[1], b"here")
    assert any_ctx.wait_completions(1, 30) == [("waiting", b"here", 0)]


def test_a_completion_wakes_a_wait(any_ctx: UringCtx, pipe: tuple[int, int]) -> None:
    any_ctx.prep_read(pipe[0], 4, -1, "waiting")
    any_ctx.submit()
    writer = threading.Timer(0.02, os.write, (pipe[1], b"late"))
    writer.start()
    assert any_ctx.wait_completions(1, 30) == [("waiting", b"late", 0)]
    writer.join()


def test_a_signal_handlers_exception_ends_a_wait_without_losing_completions(
    ctx: UringCtx, pipe: tuple[int, int]
) -> None:
    def handler(*_: object) -> None:
        raise InterruptedError("stop waiting")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        ctx.prep_read(pipe[0], 4, -1, "waiting")
        with pytest.raises(InterruptedError, match="stop waiting"):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            ctx.wait_completions()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert ctx.in_flight == 1
    os.write(pipe[1], b"data")
    assert ctx.wait_completions() == [("waiting", b"data", 0)]


def test_frequent_signals_only_delay_a_wait(ctx: UringCtx, pipe: tuple[int, int]) -> None:
    seen = []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        ctx.prep_timeout(0.05, user_data="over")
        assert ctx.wait_completions() == [("over", -errno.ETIME, 0)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen


def test_a_signal_handler_may_use_the_ring(ctx: UringCtx, pipe: tuple[int, int]) -> None:
    taken: list[Any] = []

    def handler(*_: object) -> None:
        ctx.prep_nop("from the handler")
        os.write(pipe[1], b"go")

    before = signal.signal(signal.SIGALRM, handler)
    try:
        ctx.prep_read(pipe[0], 2, -1, "pipe")
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        while len(taken) < 2:
            taken += ctx.wait_completions(2, 10)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert results(taken) == {"from the handler": 0, "pipe": b"go"}


def test_a_signal_handler_may_close_the_ring(pipe: tuple[int, int]) -> None:
    ctx = UringCtx(8)
    before = signal.signal(signal.SIGALRM, lambda *_: ctx.close())
    try:
        ctx.prep_read(pipe[0], 2, -1, "pipe")
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(ValueError, match="closed"):
            ctx.wait_completions()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ctx.closed


def test_other_threads_run_while_a_ring_waits(ctx: UringCtx, pipe: tuple[int, int]) -> None:
    done = threading.Event()

    def work() -> None:
        done.set()
        os.write(pipe[1], b"!")

    ctx.prep_read(pipe[0], 1, -1)
    thread = threading.Thread(target=work)
    thread.start()
    ctx.wait_completions()
    assert done.is_set()
    thread.join()


@pytest.mark.parametrize("count", [-1, "x", None])
def test_a_wait_for_an_invalid_count_is_refused(ctx: UringCtx, count: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        ctx.wait_completions(count)


@pytest.mark.parametrize("timeout", [-1, float("nan"), "x"])
def test_a_wait_for_an_invalid_time_is_refused(ctx: UringCtx, timeout: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        ctx.wait_completions(1, timeout)


def test_unknown_missing_and_repeated_arguments_are_refused(ctx: UringCtx) -> None:
    with pytest.raises(TypeError, match=r"prep_nop\(\) has no parameter 'lnk'"):
        ctx.prep_nop(lnk=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"prep_read\(\) .*'buffer'"):
        ctx.prep_read(0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"got two values for 'user_data'"):
        ctx.prep_nop(1, user_data=2)  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional arguments"):
        ctx.prep_nop(1, True)  # type: ignore[call-arg]
    name = "".join(["user", "_data"])  # not interned
    ctx.prep_nop(**{name: "given"})  # type: ignore[arg-type]
    assert ctx.wait_completions() == [("given", 0, 0)]


def test_a_prep_many_call_prepares_all_or_none(ctx: UringCtx) -> None:
    ctx.prep_nop("taken")
    with pytest.raises(ValueError, match="in flight"):
        ctx.prep_nop_many(["new", "taken"])
    with pytest.raises(UringError, match="do not fit"):
        ctx.prep_nop_many(range(32))
    assert ctx.prepared == 1
    ctx.prep_nop("new")
    assert len(ctx.wait_completions(2)) == 2


def test_entries_out_of_range_are_refused() -> None:
    for entries in (0, -1, 1 << 16):
        with pytest.raises(ValueError, match="entries"):
            UringCtx(entries)
    with pytest.raises(ValueError, match="cq_entries"):
        UringCtx(16, cq_entries=8)
    with pytest.raises(ValueError, match="exclude each other"):
        UringCtx(16, sqpoll=True, defer_taskrun=True)


def test_polling_a_deferring_ring_raises(pipe: tuple[int, int]) -> None:
    import select

    with UringCtx(8, defer_taskrun=True) as ctx:
        assert ctx.defers
        with pytest.raises(ValueError, match="defer_taskrun=False"):
            ctx.fileno()
    with UringCtx(8, defer_taskrun=False) as ctx:
        ctx.prep_read(pipe[0], 4, -1, "pipe")
        ctx.submit()
        os.write(pipe[1], b"wake")
        assert select.select([ctx], [], [], 30)[0] == [ctx]
        assert ctx.completions() == [("pipe", b"wake", 0)]
    with pytest.raises(ValueError, match="closed"):
        ctx.fileno()


def test_worker_threads_can_be_bounded() -> None:
    with UringCtx(8, max_workers=(3, 5)) as ctx:
        assert ctx.set_max_workers(0, 0) == (3, 5)
