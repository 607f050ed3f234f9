"""Sequences that a cancellation stops only between two steps."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from penstock.files._detached import Stop, Stopped, run_whole


@pytest.mark.anyio
async def test_results_and_errors_are_passed_to_the_caller() -> None:
    async def give(stop: Stop) -> int:
        await anyio.lowlevel.checkpoint()
        stop.check()
        return 7

    async def fail(stop: Stop) -> None:
        raise KeyError("why")

    assert await run_whole(give) == 7
    with pytest.raises(KeyError, match="why"):
        await run_whole(fail)


@pytest.mark.anyio
async def test_a_cancelled_sequence_ends_before_its_await() -> None:
    begun, go = anyio.Event(), anyio.Event()
    log: list[str] = []

    async def sequence(stop: Stop) -> None:
        begun.set()
        try:
            await go.wait()
            log.append("a step, to its end")
            stop.check()
            log.append("never")
        except Stopped:
            await anyio.lowlevel.checkpoint()
            log.append("tidied up")
            raise

    async with anyio.create_task_group() as group:

        async def caller() -> None:
            try:
                await run_whole(sequence)
            finally:
                log.append("caller")

        group.start_soon(caller)
        await begun.wait()
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            go.set()
    assert log == ["a step, to its end", "tidied up", "caller"]


@pytest.mark.parametrize("loop", ["asyncio", "penstock"])
def test_a_task_may_be_cancelled_repeatedly(loop: str, run_on: Callable[..., Any]) -> None:
    async def main() -> None:
        go = asyncio.Event()
        ended = False

        async def sequence(stop: Stop) -> None:
            nonlocal ended
            await go.wait()
            ended = stop.requested

        task = asyncio.create_task(run_whole(sequence))
        for _ in range(5):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended

    run_on(loop, main)


@pytest.mark.anyio
async def test_an_error_keeps_no_object_alive() -> None:
    class Big:
        pass

    async def fail(stop: Stop) -> None:
        big = Big()
        alive.append(weakref.ref(big))
        raise KeyError(alive[0]() is big)

    alive: list[weakref.ref[Big]] = []
    gc.disable()
    try:
        with pytest.raises(KeyError):
            await run_whole(fail)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        assert alive[0]() is None
    finally:
        gc.enable()
