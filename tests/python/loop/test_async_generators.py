"""Unfinished async generators."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from .conftest import LoopFactory, Run


async def numbers(closed: list[str]) -> AsyncIterator[int]:
    try:
        yield 1
        yield 2
    finally:
        await asyncio.sleep(0)
        closed.append("closed")


def test_a_dropped_generator_is_closed_by_the_loop(run: Run) -> None:
    closed: list[str] = []

    async def main() -> None:
        generator = numbers(closed)
        assert await anext(generator) == 1
        del generator
        gc.collect()
        for _ in range(3):
            await asyncio.sleep(0)
        assert closed == ["closed"]

    run(main())


def test_shutdown_closes_unfinished_generators(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    closed: list[str] = []
    kept: list[Any] = []

    async def main() -> None:
        for _ in range(3):
            kept.append(numbers(closed))
            await anext(kept[-1])
        await loop.shutdown_asyncgens()

    run(main())
    assert closed == ["closed"] * 3
    loop.run_until_complete(loop.shutdown_asyncgens())


def test_a_generator_that_fails_to_close_is_reported(
    loop: asyncio.AbstractEventLoop, run: Run, contexts: list[dict[str, Any]]
) -> None:
    kept: list[Any] = []

    async def fails() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise LookupError("meant")

    async def main() -> None:
        kept.append(fails())
        await anext(kept[0])
        await loop.shutdown_asyncgens()

    run(main())
    assert [type(context["exception"]) for context in contexts] == [LookupError]
    assert "an error occurred during closing of asynchronous generator" in contexts[0]["message"]


def test_a_generator_begun_after_the_shutdown_warns(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        await loop.shutdown_asyncgens()
        generator = numbers([])
        with pytest.warns(ResourceWarning, match="was scheduled after loop.shutdown_asyncgens"):
            await anext(generator)
        await generator.aclose()  # type: ignore[attr-defined]

    run(main())


def test_the_hooks_are_restored_after_the_run(new_loop: LoopFactory) -> None:
    before = sys.get_asyncgen_hooks()
    loop = new_loop()

    async def main() -> None:
        assert sys.get_asyncgen_hooks() != before

    loop.run_until_complete(main())
    loop.close()
    assert sys.get_asyncgen_hooks() == before


def test_asyncio_run_closes_generators(new_loop: LoopFactory) -> None:
    closed: list[str] = []
    kept: list[Any] = []

    async def main() -> None:
        kept.append(numbers(closed))
        await anext(kept[0])

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    assert closed == ["closed"]
