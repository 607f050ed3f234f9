"""call_later, call_at and time."""

from __future__ import annotations

import asyncio
import gc
import random
import time
import weakref
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .conftest import Run, penstock_factory
from .resident_memory import measures_memory, resident_bytes


def test_time_is_the_monotonic_clock(loop: asyncio.AbstractEventLoop) -> None:
    before = time.monotonic()
    now = loop.time()
    after = time.monotonic()
    assert before <= now <= after


def test_timers_run_in_the_order_of_their_deadlines(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    start = loop.time()
    numbers = list(range(500))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        loop.call_at(start + number * 1e-5, seen.append, number)
    loop.call_at(start + 0.02, loop.stop)
    loop.run_forever()
    assert seen == sorted(numbers)


def test_overdue_timers_run_in_the_order_of_their_deadlines(
    loop: asyncio.AbstractEventLoop,
) -> None:
    seen: list[int] = []
    start = loop.time()
    for number in (3, 1, 2):
        loop.call_at(start - 10 + number, seen.append, number)
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    assert seen == [1, 2, 3]


def test_all_timers_with_one_deadline_run(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    deadline = loop.time() + 0.005
    for number in range(200):
        loop.call_at(deadline, seen.append, number)
    loop.call_at(deadline + 0.005, loop.stop)
    loop.run_forever()
    assert sorted(seen) == list(range(200))


def test_a_timer_never_runs_before_its_deadline(loop: asyncio.AbstractEventLoop) -> None:
    early: list[float] = []
    start = loop.time()

    # asyncio runs a timer up to one tick of the clock's declared resolution early.
    resolution = time.get_clock_info("monotonic").resolution

    def check(deadline: float) -> None:
        if loop.time() + resolution < deadline:
            early.append(deadline)

    for step in range(1, 60):
        deadline = start + step * 0.00037
        loop.call_at(deadline, check, deadline)
    loop.call_at(start + 0.03, loop.stop)
    loop.run_forever()
    assert early == []


@pytest.mark.parametrize("delay", [0, 0.0, -1, -1e9])
def test_a_delay_of_zero_or_less_runs_in_one_of_the_next_turns(
    loop: asyncio.AbstractEventLoop, delay: float
) -> None:
    turns = 0
    ran_in: list[int] = []

    def turn() -> None:
        nonlocal turns
        turns += 1
        if not ran_in:
            loop.call_soon(turn)

    def timer() -> None:
        ran_in.append(turns)
        loop.stop()

    loop.call_soon(turn)
    loop.call_later(delay, timer)
    loop.run_forever()
    # A turn checks the timers before or after it runs the ready callbacks.
    assert ran_in[0] <= 2


def test_when_returns_the_deadline(loop: asyncio.AbstractEventLoop) -> None:
    deadline = loop.time() + 100
    handle = loop.call_at(deadline, print)
    assert handle.when() == deadline
    handle.cancel()
    before = loop.time()
    handle = loop.call_later(50, print)
    assert before + 50 <= handle.when() <= loop.time() + 50
    handle.cancel()


def test_a_timer_handle_can_be_weakly_referenced(loop: asyncio.AbstractEventLoop) -> None:
    handle = loop.call_later(100, print)
    reference = weakref.ref(handle)
    assert reference() is handle
    handle.cancel()


def test_the_repr_of_a_timer_names_callback_and_deadline(loop: asyncio.AbstractEventLoop) -> None:
    def distinctly_named() -> None: ...

    handle = loop.call_at(123456789.5, distinctly_named)
    assert "distinctly_named" in repr(handle)
    assert "when=123456789.5" in repr(handle)
    assert "TimerHandle" in repr(handle)
    handle.cancel()
    assert "cancelled" in repr(handle)


def test_timers_compare_by_deadline(loop: asyncio.AbstractEventLoop) -> None:
    now = loop.time()
    sooner = loop.call_at(now + 100, print)
    later = loop.call_at(now + 200, print)
    assert sooner < later
    assert later > sooner
    assert sooner <= later
    assert later >= sooner
    assert sooner != later
    assert hash(sooner) != hash(later)
    sooner.cancel()
    later.cancel()


def test_time_passes_for_a_tool_that_runs_the_scheduled_handles(
    loop: asyncio.AbstractEventLoop,
) -> None:
    seen: list[str] = []
    view: Any = loop
    handles = [
        loop.call_later(delay, seen.append, name)
        for delay, name in ((200, "c"), (100, "a"), (100.5, "b"), (150, "cancelled"))
    ]
    handles[3].cancel()
    due = [handle for handle in sorted(view._scheduled) if not handle.cancelled()]
    assert due == [handles[1], handles[2], handles[0]]
    for handle in due:
        assert isinstance(handle, asyncio.TimerHandle)
        handle._run()
        handle.cancel()
    assert seen == ["a", "b", "c"]
    assert [handle for handle in view._scheduled if not handle.cancelled()] == []


@pytest.mark.usefixtures("only_penstock")
def test_the_list_of_scheduled_timers_is_a_view(loop: Any) -> None:
    handle = loop.call_later(100, print)
    loop._scheduled.clear()
    assert loop._scheduled == [handle]
    with pytest.raises(AttributeError, match="read-only"):
        loop._scheduled = [handle]
    handle.cancel()
    assert loop._scheduled == []


def test_timers_with_equal_callbacks_and_arguments_are_equal(
    loop: asyncio.AbstractEventLoop,
) -> None:
    when = loop.time() + 100
    texts: list[str] = []
    argument = "".join(["a", "1"])
    timers = [
        loop.call_at(when, texts.append, "".join(["a", "1"])),
        loop.call_at(when, texts.append, argument),
    ]
    assert timers[0] == timers[1]
    assert timers[0] <= timers[1]
    assert (timers[0] != timers[1]) is False
    others = [
        loop.call_at(when, texts.append, "a2"),
        loop.call_at(when, texts.remove, argument),
        loop.call_at(when, print, argument, 1),
        loop.call_at(when, print),
        loop.call_at(when + 1, texts.append, argument),
    ]
    assert timers[0] not in others
    cancelled = loop.call_at(when, texts.append, argument)
    cancelled.cancel()
    assert timers[0] != cancelled
    for timer in timers + others:
        timer.cancel()


def test_an_argument_that_cannot_be_compared_raises_from_the_comparison_of_timers(
    loop: asyncio.AbstractEventLoop,
) -> None:
    class Incomparable:
        def __eq__(self, other: object) -> bool:
            raise ZeroDivisionError

        __hash__ = None  # type: ignore[assignment]

    one, other = (loop.call_at(100.0, print, Incomparable()) for _ in range(2))
    with pytest.raises(ZeroDivisionError):
        assert one == other
    assert not one < other
    one.cancel()
    other.cancel()


def test_timers_compare_with_those_of_other_loops(loop: asyncio.AbstractEventLoop) -> None:
    ours = loop.call_at(100.0, print)
    sooner = asyncio.TimerHandle(50.0, print, (), loop)
    same = asyncio.TimerHandle(100.0, print, (), loop, ours._context)  # type: ignore[attr-defined]
    assert sooner < ours
    assert ours > sooner
    assert ours >= same
    assert ours == same
    assert sooner != ours
    ours.cancel()


def test_a_cancelled_timer_does_not_run(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []
    handle = loop.call_later(0.001, seen.append, 1)
    handle.cancel()
    assert handle.cancelled()
    loop.call_later(0.003, loop.stop)
    loop.run_forever()
    assert seen == []


def test_a_timer_can_cancel_another_of_the_same_deadline(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[str] = []
    deadline = loop.time() + 0.001
    handles: list[asyncio.TimerHandle] = []

    def run_and_cancel_others(name: str) -> None:
        seen.append(name)
        for handle in handles:
            handle.cancel()

    handles.append(loop.call_at(deadline, run_and_cancel_others, "a"))
    handles.append(loop.call_at(deadline, run_and_cancel_others, "b"))
    loop.call_at(deadline + 0.002, loop.stop)
    loop.run_forever()
    assert len(seen) == 1


def test_a_timer_can_be_cancelled_from_its_own_callback(loop: asyncio.AbstractEventLoop) -> None:
    def stop() -> None:
        handle.cancel()
        loop.stop()

    handle = loop.call_later(0, stop)
    loop.run_forever()
    assert handle.cancelled()


def test_cancelling_a_timer_releases_its_arguments(loop: asyncio.AbstractEventLoop) -> None:
    class Payload:
        pass

    payload = Payload()
    handle = loop.call_later(1000, lambda _: None, payload)
    reference = weakref.ref(payload)
    del payload
    handle.cancel()
    gc.collect()
    assert reference() is None


def test_a_timer_scheduled_by_a_timer_runs(loop: asyncio.AbstractEventLoop) -> None:
    seen: list[int] = []

    def step(count: int) -> None:
        seen.append(count)
        if count == 20:
            loop.stop()
        else:
            loop.call_later(0, step, count + 1)

    loop.call_later(0, step, 0)
    loop.run_forever()
    assert seen == list(range(21))


def test_timers_do_not_starve_ready_callbacks(loop: asyncio.AbstractEventLoop) -> None:
    turns = 0

    def again() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(again)

    loop.call_soon(again)
    loop.call_later(0.005, loop.stop)
    loop.run_forever()
    assert turns > 1


def test_a_delay_of_none_is_refused(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(TypeError):
        loop.call_later(None, print)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        loop.call_at(None, print)  # type: ignore[arg-type]


def test_a_distant_deadline_does_not_affect_a_near_one(loop: asyncio.AbstractEventLoop) -> None:
    handles = [
        loop.call_at(deadline, print)
        for deadline in (loop.time() + 1e6, loop.time() + 1e12, 1e300, float("inf"))
    ]
    loop.call_later(0.001, loop.stop)
    loop.run_forever()
    for handle in handles:
        handle.cancel()


@given(
    timers=st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=200),
    order=st.randoms(use_true_random=False),
)
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_timers_that_are_not_cancelled_run_once_and_in_order(
    loop_name: str, timers: list[tuple[int, bool]], order: random.Random
) -> None:
    loop = asyncio.SelectorEventLoop() if loop_name == "asyncio" else penstock_factory()()
    try:
        past = loop.time() - 100
        seen: list[tuple[int, int]] = []
        handles = [
            loop.call_at(past + step, seen.append, (step, number))
            for number, (step, _) in enumerate(timers)
        ]
        cancelled = [number for number, (_, cancel) in enumerate(timers) if cancel]
        order.shuffle(cancelled)
        for number in cancelled:
            handles[number].cancel()
        loop.call_later(0, loop.stop)
        loop.run_forever()
        expected = [(step, n) for n, (step, cancel) in enumerate(timers) if not cancel]
        assert sorted(seen) == sorted(expected)
        assert [step for step, _ in seen] == sorted(step for step, _ in expected)
    finally:
        loop.close()


@measures_memory
def test_a_million_cancelled_timers_leak_no_memory(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def cancel_many(rounds: int) -> None:
        for _ in range(rounds):
            for handle in [loop.call_later(3600, print) for _ in range(20_000)]:
                handle.cancel()
            await asyncio.sleep(0)

    run(cancel_many(5))
    gc.collect()
    before = resident_bytes()
    run(cancel_many(50))
    gc.collect()
    # A million live timers use well over 100 MB.
    assert resident_bytes() - before < 20_000_000


def test_wait_for_and_sleep_use_the_timers(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.001)
        async with asyncio.timeout(30):
            assert await asyncio.sleep(0.001, "slept") == "slept"

    run(main())
