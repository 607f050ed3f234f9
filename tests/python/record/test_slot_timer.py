"""The waits of many tasks for the slots of a recording."""

from __future__ import annotations

import asyncio
import time

import anyio
import pytest

from penstock.record import SystemClock

pytestmark = pytest.mark.anyio

MS = 1_000_000


async def test_tasks_that_wait_for_one_moment_wake_together_and_not_before() -> None:
    clock = SystemClock()
    target = time.monotonic_ns() + 20 * MS
    woken: list[int] = []

    async def wait() -> None:
        await clock.sleep_until_ns(target)
        woken.append(time.monotonic_ns())

    async with anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(wait)
    assert len(woken) == 8
    assert min(woken) >= target


async def test_a_moment_that_has_passed_is_still_a_point_of_cancellation() -> None:
    clock = SystemClock()
    await clock.sleep_until_ns(0)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await clock.sleep_until_ns(0)
    assert scope.cancelled_caught


async def test_a_cancelled_wait_leaves_the_others() -> None:
    clock = SystemClock()
    woken: list[str] = []

    async def wait(name: str, scope: anyio.CancelScope, target: int) -> None:
        with scope:
            await clock.sleep_until_ns(target)
            woken.append(name)

    for delay in (50, 500, 5000):
        woken.clear()
        target = time.monotonic_ns() + delay * MS
        first, second = anyio.CancelScope(), anyio.CancelScope()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, "first", first, target)
            tasks.start_soon(wait, "second", second, target)
            await anyio.wait_all_tasks_blocked()
            first.cancel()
            in_time = time.monotonic_ns() < target
        if in_time:  # otherwise the machine stood still until both were due
            break
    assert woken == ["second"]
    assert first.cancelled_caught


@pytest.fixture
def only_asyncio(anyio_backend_name: str) -> None:
    if anyio_backend_name != "asyncio":
        pytest.skip("trio keeps its deadlines itself")


@pytest.mark.usefixtures("only_asyncio")
async def test_a_moment_that_nobody_waits_for_any_more_leaves_no_timer() -> None:
    clock = SystemClock()
    far = time.monotonic_ns() + 3_600_000 * MS
    with anyio.move_on_after(0.01):
        await clock.sleep_until_ns(far)
    assert clock._timer is not None
    assert not clock._timer._moments


def test_a_clock_serves_one_loop_after_the_other() -> None:
    clock = SystemClock()
    for _ in range(2):
        asyncio.run(clock.sleep_until_ns(time.monotonic_ns() + MS))
