"""Loops whose time() the program replaces, as test tools do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest

from .conftest import LoopFactory


@pytest.fixture
def base(new_loop: LoopFactory) -> Any:
    loop = new_loop()
    loop.close()
    return type(loop)


@pytest.fixture
def loop_of(base: Any) -> Iterator[Callable[..., Any]]:
    """Return a function that makes a loop of a subclass with the given methods."""
    made: list[asyncio.AbstractEventLoop] = []

    def make(**methods: Any) -> Any:
        made.append(type("OwnLoop", (base,), methods)())
        return made[-1]

    yield make
    for loop in made:
        loop.close()


class Clock:
    """A clock that changes only when the program moves it."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self, *_: Any) -> float:
        return self.now


@pytest.mark.parametrize("offset", [-1e9, -1000.0, 1000.0, 1e9])
def test_a_timeout_on_an_offset_clock_expires(
    loop_of: Callable[..., Any], base: Any, offset: float
) -> None:
    loop = loop_of(time=lambda self: base.time(self) + offset)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        begin = loop.time()
        await asyncio.sleep(0.01)
        assert loop.time() >= begin + 0.01

    loop.run_until_complete(main())


def test_timers_run_when_the_program_moves_their_clock(loop_of: Callable[..., Any]) -> None:
    clock = Clock(5.0)
    loop = loop_of(time=lambda self: clock())
    called: list[str] = []

    async def main() -> None:
        for delay in (30, 10, 20):
            loop.call_later(delay, called.append, f"after {delay}")
        loop.call_at(15, called.append, "at 15")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert called == []
        clock.now = 25.0
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert called == ["after 10", "at 15", "after 20"]

    loop.run_until_complete(main())


def test_a_clock_below_zero_keeps_the_order_of_timers(loop_of: Callable[..., Any]) -> None:
    clock = Clock(-100.0)
    loop = loop_of(time=lambda self: clock())
    called: list[float] = []

    async def main() -> None:
        for when in (-10.0, -30.0, -20.0, 5.0):
            loop.call_at(when, called.append, when)
        await asyncio.sleep(0)
        clock.now = -15.0
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert called == [-30.0, -20.0]

    loop.run_until_complete(main())


def test_the_time_of_one_loop_may_be_patched_while_it_runs(new_loop: LoopFactory) -> None:
    loop = new_loop()

    async def main() -> None:
        fired = asyncio.Event()
        timer = loop.call_later(3600, fired.set)
        with mock.patch.object(loop, "time", return_value=loop.time() + 3601):
            await asyncio.wait_for(fired.wait(), 30)
        assert timer.when() > loop.time()
        handle = loop.call_later(3600, fired.clear)
        await asyncio.sleep(0.001)
        assert fired.is_set()
        handle.cancel()

    loop.run_until_complete(main())
    loop.close()


def test_a_clock_that_raises_ends_the_run_and_loses_no_timer(loop_of: Callable[..., Any]) -> None:
    class Broken(Exception):
        pass

    def time(self: Any) -> float:
        if failing:
            raise Broken
        return 0.0

    failing: list[bool] = []
    loop = loop_of(time=time)
    called: list[str] = []
    loop.call_at(0.0, called.append, "timer")
    failing.append(True)
    with pytest.raises(Broken):
        loop.run_forever()
    assert called == []
    failing.clear()
    loop.call_soon(called.append, "ready")
    loop.call_later(0, loop.stop)
    loop.run_forever()
    assert called == ["ready", "timer"]


def test_a_clock_may_use_the_loop(loop_of: Callable[..., Any]) -> None:
    """The loop calls it during an iteration."""

    def time(self: Any) -> float:
        nonlocal asked
        asked += 1
        if asked < 50:
            self.call_soon(called.append, asked)
        for timer in timers:
            timer.cancel()
        if asked == 100:
            self.stop()
        return float(asked)

    asked = 0
    called: list[int] = []
    timers: list[asyncio.TimerHandle] = []
    loop = loop_of(time=time)
    timers += [loop.call_later(delay, called.append, -1) for delay in (1, 2, 3)]
    again = loop.call_soon

    def go_on() -> None:
        again(go_on)
        loop.call_later(1000, print)

    again(go_on)
    loop.run_forever()
    assert -1 not in called
    assert called[:40] == sorted(called[:40])
