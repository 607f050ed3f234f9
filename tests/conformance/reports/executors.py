"""Executors, and what is left at the end of a loop."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from typing import Any

from tests.conformance.reports.case import Factory, Loop, Room, expect, expect_true, raised_in
from tests.conformance.reports.peers import turns

ROOM = Room("executors")


@ROOM.case(
    "zuvloop f0abf6e",
    "shutdown_default_executor() returned before the jobs, or never",
    {f"{jobs} jobs": (jobs,) for jobs in (0, 1, 8)},
)
async def shutdown_waits_for_jobs(loop: Loop, jobs: int) -> None:
    done: list[int] = []
    go = threading.Event()

    def job(number: int) -> None:
        go.wait()
        done.append(number)

    futures = [loop.run_in_executor(None, job, number) for number in range(jobs)]
    shutting = asyncio.ensure_future(loop.shutdown_default_executor())
    await turns(3)
    go.set()
    await shutting
    expect(sorted(done), list(range(jobs)), "jobs done")
    await asyncio.gather(*futures)
    expect(raised_in(loop.run_in_executor, None, print), "RuntimeError", "a job afterwards raised")


@ROOM.case(
    "zuvloop e8cfaf1",
    "a job that ended after its loop was closed raised in its thread",
)
def job_outlives_the_loop(factory: Factory) -> None:
    loop = factory()
    go = threading.Event()
    ended = threading.Event()
    troubles: list[object] = []
    hook, other_hook = threading.excepthook, sys.unraisablehook
    threading.excepthook = lambda args: troubles.append(args.exc_value)
    sys.unraisablehook = lambda args: troubles.append(args.exc_value)

    def job() -> None:
        go.wait()
        ended.set()

    async def start() -> None:
        loop.run_in_executor(None, job)
        await turns(1)

    try:
        loop.run_until_complete(start())
        loop.close()
        go.set()
        ended.wait()
        gc.collect()
    finally:
        threading.excepthook, sys.unraisablehook = hook, other_hook
    expect([repr(trouble) for trouble in troubles], [], "exceptions")


@ROOM.case(
    "zuvloop f0abf6e",
    "a job's exception or result got lost when it ended at once",
    {"result": (False,), "exception": (True,)},
)
async def short_jobs(loop: Loop, fails: bool) -> None:
    def job(number: int) -> int:
        if fails:
            raise ZeroDivisionError(number)
        return number

    results = await asyncio.gather(
        *(loop.run_in_executor(None, job, number) for number in range(100)),
        return_exceptions=True,
    )
    if fails:
        told: list[Any] = [getattr(result, "args", (None,))[0] for result in results]
        expect(told, list(range(100)), "exceptions")
    else:
        expect(results, list(range(100)), "results")


@ROOM.case(
    "CPython 117536",
    "shutdown_asyncgens() left a generator open",
)
async def generators_closed(loop: Loop) -> None:
    closed: list[int] = []

    async def generate() -> Any:
        try:
            yield 1
        finally:
            await turns(1)
            closed.append(1)

    generator = generate()
    async for _ in generator:
        break
    await loop.shutdown_asyncgens()
    expect(closed, [1], "generators closed")


@ROOM.case(
    "CPython 117536",
    "a generator that was forgotten was not closed by the loop",
)
async def forgotten_generator(loop: Loop) -> None:
    closed = asyncio.Event()

    async def generate() -> Any:
        try:
            yield 1
        finally:
            await turns(1)
            closed.set()

    async for _ in generate():
        break
    gc.collect()
    await closed.wait()


@ROOM.case(
    "uvloop 706",
    "stopping and starting the loop many times crashed or lost callbacks",
)
def many_short_runs(factory: Factory) -> None:
    loop = factory()
    calls: list[int] = []
    for number in range(200):
        loop.call_soon(calls.append, number)
        loop.call_soon(loop.stop)
        loop.run_forever()
    loop.close()
    expect_true(calls == list(range(200)), f"{len(calls)} calls")


@ROOM.case(
    "zuvloop 413a5d8",
    "a loop run inside another one was not refused, or spoiled the outer one",
)
async def loop_within_a_loop(loop: Loop) -> None:
    inner = type(loop)()
    coroutine = turns(1)
    try:
        expect(raised_in(inner.run_until_complete, coroutine), "RuntimeError", "raised")
    finally:
        coroutine.close()
        inner.close()
    expect_true(asyncio.get_running_loop() is loop, "another loop runs")
