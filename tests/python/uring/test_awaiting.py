"""Completions of a ring on an event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock
from penstock.uring import UringAsync, UringCtx

FACTORIES: list[Callable[[], asyncio.AbstractEventLoop]] = [
    asyncio.new_event_loop,
    penstock.new_event_loop,
]


@pytest.fixture(params=FACTORIES, ids=["asyncio", "penstock"])
def run(request: pytest.FixtureRequest) -> Iterator[Any]:
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run


@pytest.fixture
def watched() -> Iterator[UringCtx]:
    with UringCtx(16, defer_taskrun=False) as made:
        yield made


def test_completions_are_awaited(run: Any, watched: UringCtx, pipe: tuple[int, int]) -> None:
    async def main() -> None:
        async with UringAsync(watched) as ring:
            assert ring.ctx is watched
            assert ring.ring_fd == watched.ring_fd
            for number in range(50):
                watched.prep_read(pipe[0], 8, -1, number)
                task = asyncio.ensure_future(ring.wait_completion())
                await asyncio.sleep(0)
                os.write(pipe[1], b"data")
                assert await task == (number, b"data", 0)
            for number in range(10):
                watched.prep_nop(number)
            found = await asyncio.gather(*[ring.wait_completion() for _ in range(10)])
            assert [tag for tag, _, _ in found] == list(range(10))

    run(main())


def test_a_cancelled_wait_loses_no_completion(
    run: Any, watched: UringCtx, pipe: tuple[int, int]
) -> None:
    async def main() -> None:
        ring = UringAsync(watched)
        loop = asyncio.get_running_loop()
        for number in range(30):
            watched.prep_read(pipe[0], 1, -1, number)
            first = asyncio.ensure_future(ring.wait_completion())
            await asyncio.sleep(0)
            second = asyncio.ensure_future(ring.wait_completion()) if number % 2 else None
            await asyncio.sleep(0)
            os.write(pipe[1], b"x")
            if number % 3:
                # Cancelled after its future has the completion, before the task resumes.
                loop.call_soon(ring._distribute_completions)
                loop.call_soon(first.cancel)
            else:
                first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert await (second or ring.wait_completion()) == (number, b"x", 0)
        ring.close()
        ring.close()

    run(main())


def test_closing_ends_the_waits(run: Any, watched: UringCtx, pipe: tuple[int, int]) -> None:
    async def main() -> None:
        ring = UringAsync(watched)
        watched.prep_read(pipe[0], 1, -1, "read")
        waits = [asyncio.ensure_future(ring.wait_completion()) for _ in range(3)]
        await asyncio.sleep(0)
        ring.close()
        for wait in waits:
            with pytest.raises(RuntimeError, match="was closed"):
                await wait
        with pytest.raises(RuntimeError, match="is closed"):
            await ring.wait_completion()
        assert watched.in_flight == 1

    run(main())


def test_a_ring_that_cannot_be_polled_is_refused() -> None:
    with UringCtx(4, defer_taskrun=True) as ctx, pytest.raises(ValueError, match="defer_taskrun"):
        UringAsync(ctx)
    ctx = UringCtx(4, defer_taskrun=False)
    ctx.close()
    with pytest.raises(ValueError, match="closed"):
        UringAsync(ctx)


def test_another_loop_is_refused(watched: UringCtx) -> None:
    ring = UringAsync(watched)

    async def wait() -> None:
        watched.prep_nop()
        await ring.wait_completion()

    asyncio.run(wait())
    with pytest.raises(RuntimeError, match="another event loop"):
        asyncio.run(wait())
