"""Callbacks, timers, tasks and threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import gc
import threading
import time
import weakref
from typing import Any

from tests.conformance.reports.case import (
    Factory,
    Loop,
    Room,
    expect,
    expect_no_reports,
    expect_true,
    needs_python,
    raised_in,
    reports_of,
)
from tests.conformance.reports.peers import Recorder, is_open, linked, polls, turns

ROOM = Room("scheduling")


class Referable:
    """What callbacks hold in the cases about what is freed."""


@ROOM.case(
    "zuvloop 76",
    "a delay longer than the clock holds fired at once or raised",
    {
        name: (delay,)
        for name, delay in (
            ("1e9 s", 1e9),
            ("1e12 s", 1e12),
            ("2**63 ms", 2**63 / 1000),
            ("1e20 s", 1e20),
            ("infinite", float("inf")),
        )
    },
)
async def oversized_delay(loop: Loop, delay: float) -> None:
    fired: list[int] = []
    handle = loop.call_later(delay, fired.append, 1)
    await polls(loop)
    await asyncio.sleep(0.001)
    handle.cancel()
    expect(fired, [], "calls")


@ROOM.case(
    "rloop 40",
    "timers that were due already ran late or in another order",
    {"call_later": ("call_later",), "call_at": ("call_at",)},
)
async def timers_in_the_past(loop: Loop, method: str) -> None:
    order: list[int] = []
    now = loop.time()
    for number, delay in enumerate((-3, -2, -1)):
        when = delay if method == "call_later" else now + delay
        getattr(loop, method)(when, order.append, number)
    await polls(loop)
    expect(order, [0, 1, 2], "order of the calls")


@ROOM.case("rloop 9", "call_at() counted from another moment than loop.time()")
async def call_at_uses_the_clock(loop: Loop) -> None:
    when = loop.time() + 0.02
    fired: asyncio.Future[float] = loop.create_future()
    loop.call_at(when, lambda: fired.set_result(loop.time()))
    at = await fired
    # The clock's resolution is what asyncio allows a timer to be early.
    expect_true(at >= when - 0.0011, f"{when - at} s early")


@ROOM.case("zuvloop aa20fec", "loop.time() was not time.monotonic()")
async def the_clock_is_monotonic(loop: Loop) -> None:
    before = time.monotonic()
    now = loop.time()
    after = time.monotonic()
    # A loop may take the clock once an iteration, in milliseconds.
    expect_true(before - 1 <= now <= after, f"{now} is not between {before} and {after}")


@ROOM.case(
    "zuvloop 4d6398a",
    "a handle could not be referenced weakly",
    {"call_soon": ("call_soon", ()), "call_later": ("call_later", (1,))},
)
async def weak_reference_to_a_handle(loop: Loop, method: str, arguments: tuple[Any, ...]) -> None:
    handle = getattr(loop, method)(*arguments, print)
    expect_true(weakref.ref(handle)() is handle, "another object is referenced")
    handle.cancel()


@ROOM.case(
    "zuvloop 9c74510",
    "a cancelled handle kept its callback's arguments until its time",
    {"call_soon": ("call_soon", ()), "call_later": ("call_later", (1000,))},
)
async def cancelled_handle_frees(loop: Loop, method: str, arguments: tuple[Any, ...]) -> None:
    held = Referable()
    kept = weakref.ref(held)
    handle = getattr(loop, method)(*arguments, print, held)
    del held
    handle.cancel()
    await turns(2)
    gc.collect()
    expect_true(kept() is None, "the argument is still alive")


@ROOM.case(
    "CPython 128340, zuvloop 42",
    "a handle of call_soon_threadsafe() could not be cancelled",
)
async def threadsafe_handle_cancelled(loop: Loop) -> None:
    called: list[int] = []
    handle = loop.call_soon_threadsafe(called.append, 1)
    handle.cancel()
    await polls(loop)
    expect((called, handle.cancelled()), ([], True), "calls, and cancelled()")


@ROOM.case(
    "CPython 144506",
    "what a job had sent with call_soon_threadsafe() ran after the job's own result",
)
async def threadsafe_calls_before_the_result(loop: Loop) -> None:
    order: list[str] = []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:

        def job() -> None:
            loop.call_soon_threadsafe(order.append, "call")

        await loop.run_in_executor(pool, job)
        order.append("result")
    expect(order, ["call", "result"], "order")


@ROOM.case(
    "CPython 112622",
    "the name given to create_task() did not reach the task factory's task",
    {"plain": (False,), "with a factory": (True,)},
)
async def name_of_a_task(loop: Loop, with_factory: bool) -> None:
    if with_factory:

        def factory(on: Any, coro: Any, **options: Any) -> Any:
            return asyncio.Task(coro, loop=on, **options)

        loop.set_task_factory(factory)
    task = asyncio.create_task(turns(1), name="the name")
    loop.set_task_factory(None)
    await task
    expect(task.get_name(), "the name", "name")


@ROOM.case(
    "CPython 133745, uvloop 746",
    "a task factory with asyncio's documented signature got arguments that it does not know",
)
async def plain_task_factory(loop: Loop) -> None:
    def factory(on: Any, coro: Any, context: Any = None) -> Any:
        return asyncio.Task(coro, loop=on, context=context)

    loop.set_task_factory(factory)
    task = loop.create_task(turns(1), context=contextvars.copy_context())
    loop.set_task_factory(None)
    await task


@ROOM.case(
    "zuvloop 15",
    "a finalizer that calls the loop, run while a handle was freed, corrupted the queue",
    {"cancel": ("cancel",), "run": ("run",)},
)
async def finalizer_calls_the_loop(loop: Loop, how: str) -> None:
    order: list[int] = []

    class Calling:
        def __del__(self) -> None:
            for number in range(50):
                loop.call_soon(order.append, number)
            loop.call_later(1000, print).cancel()

    def take(_: object) -> None:
        pass

    handle = loop.call_soon(take, Calling())
    for _ in range(20):
        loop.call_soon(take, None)
    if how == "cancel":
        handle.cancel()
    del handle
    await turns(4)
    gc.collect()
    await turns(2)
    expect(order, list(range(50)), "calls")


@ROOM.case(
    "zuvloop 35",
    "debug mode with an endless slow_callback_duration failed",
    {"infinite": (float("inf"),), "huge": (1e300,), "zero": (0.0,)},
)
async def slow_callback_duration(loop: Loop, duration: float) -> None:
    reports = reports_of(loop)
    loop.set_debug(True)
    loop.slow_callback_duration = duration
    await turns(3)
    await asyncio.sleep(0.001)
    loop.set_debug(False)
    expect_no_reports(reports)


@ROOM.case(
    "uvloop 720",
    "a storm of calls from threads lost some or changed their order",
)
async def calls_from_threads(loop: Loop) -> None:
    calls: list[tuple[int, int]] = []
    done = asyncio.Event()

    def work(thread: int) -> None:
        for number in range(2000):
            loop.call_soon_threadsafe(calls.append, (thread, number))

    def all_sent() -> None:
        for thread in threads:
            thread.join()
        loop.call_soon_threadsafe(done.set)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    last = threading.Thread(target=all_sent)
    last.start()
    await done.wait()
    last.join()
    for number in range(3):
        own = [call for thread, call in calls if thread == number]
        expect_true(own == list(range(2000)), f"the calls of thread {number} differ")


@ROOM.case(
    "zuvloop e8cfaf1",
    "calls to a closed loop were taken silently or crashed",
    {
        "call_soon": ("call_soon", (print,)),
        "call_later": ("call_later", (1, print)),
        "call_soon_threadsafe": ("call_soon_threadsafe", (print,)),
        "run_in_executor": ("run_in_executor", (None, print)),
    },
)
def calls_to_a_closed_loop(factory: Factory, method: str, arguments: tuple[Any, ...]) -> None:
    loop = factory()
    loop.close()
    expect(raised_in(getattr(loop, method), *arguments), "RuntimeError", "raised")
    loop.close()


@ROOM.case(
    "zuvloop 413a5d8",
    "a loop that was never closed left its descriptors or crashed when it was collected",
)
def loop_collected_without_close(factory: Factory) -> None:
    before = {fd for fd in range(300) if is_open(fd)}
    loop = factory()
    loop.call_soon(print, loop)
    loop.run_until_complete(turns(2))
    del loop
    gc.collect()
    gc.collect()
    expect({fd for fd in range(300) if is_open(fd)} - before, set(), "descriptors left open")


@ROOM.case(
    "anyio 1111",
    "cancelling a task from one of its own done callbacks spun the loop",
)
async def cancel_in_done_callback(loop: Loop) -> None:
    calls: list[int] = []

    def again(task: Any) -> None:
        calls.append(1)
        task.cancel()

    task = asyncio.ensure_future(turns(2))
    task.add_done_callback(again)
    await task
    await turns(3)
    expect(calls, [1], "calls")


@ROOM.case(
    "CPython 116720",
    "an outer cancellation was lost when a task group was cancelled in the same turn",
)
async def group_cancelled_twice(loop: Loop) -> None:
    needs_python(3, 13)

    async def fail() -> None:
        raise ZeroDivisionError

    async def group() -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(fail())
                await asyncio.sleep(1000)
        except* ZeroDivisionError:
            pass

    async def outer() -> str:
        try:
            async with asyncio.timeout(0):
                await group()
                await asyncio.sleep(1000)
        except TimeoutError:
            return "timed out"
        return "went on"

    expect(await outer(), "timed out", "outcome")


@ROOM.case(
    "uvloop 305",
    "the context of a callback was not the one in which it was scheduled",
    {
        "call_soon": ("call_soon", ()),
        "call_later": ("call_later", (0,)),
        "call_soon_threadsafe": ("call_soon_threadsafe", ()),
    },
)
async def context_of_callbacks(loop: Loop, method: str, arguments: tuple[Any, ...]) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="outside")
    seen: asyncio.Future[tuple[str, str]] = loop.create_future()
    given = contextvars.copy_context()
    given.run(variable.set, "given")
    first: list[str] = []
    variable.set("scheduled")
    getattr(loop, method)(*arguments, lambda: first.append(variable.get()))
    getattr(loop, method)(
        *arguments, lambda: seen.set_result((first[0], variable.get())), context=given
    )
    variable.set("later")
    expect(await seen, ("scheduled", "given"), "values seen")


@ROOM.case(
    "CPython 140947",
    "data_received ran in the context of the task that had last called resume_reading()",
    {"TCP": ("tcp",), "Unix": ("unix",), "TLS": ("tls",)},
)
async def context_of_a_protocol(loop: Loop, kind: str) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    class Looking(Recorder):
        def data_received(self, data: bytes) -> None:
            seen.append(variable.get())
            super().data_received(data)

    async def resume(transport: Any) -> None:
        variable.set("of the task")
        transport.resume_reading()

    async with linked(loop, kind, far=Looking) as link:
        link.far.transport.pause_reading()
        await asyncio.create_task(resume(link.far.transport))
        link.near.transport.write(b"x")
        await link.far.receives(1)
    expect(seen, ["unset"], "the variable in data_received")
