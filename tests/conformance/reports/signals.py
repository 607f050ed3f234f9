"""Signals: handlers, the wake-up descriptor, and who owns them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import Any

from tests.conformance.reports.case import Factory, Loop, Room, expect, expect_true, raised_in
from tests.conformance.reports.peers import polls, turns, until

ROOM = Room("signals")


def wakeup_descriptor() -> int:
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
    return descriptor


@ROOM.case(
    "zuvloop d553c5c",
    "a closed loop left its handler or its wake-up descriptor behind",
    {"closed": (True,), "handler removed": (False,)},
)
def state_after_the_loop(factory: Factory, by_closing: bool) -> None:
    before = (wakeup_descriptor(), signal.getsignal(signal.SIGUSR1))
    loop = factory()

    async def use() -> None:
        seen: list[int] = []
        loop.add_signal_handler(signal.SIGUSR1, seen.append, 1)
        os.kill(os.getpid(), signal.SIGUSR1)
        await until(loop, lambda: seen)
        if not by_closing:
            expect(loop.remove_signal_handler(signal.SIGUSR1), True, "remove_signal_handler")
            expect(loop.remove_signal_handler(signal.SIGUSR1), False, "removing it again")

    loop.run_until_complete(use())
    if by_closing:
        loop.close()
    disposition = signal.getsignal(signal.SIGUSR1)
    loop.close()
    expect((wakeup_descriptor(), disposition), (before[0], signal.SIG_DFL), "afterwards")


@ROOM.case(
    "zuvloop 8467b98",
    "closing the older of two loops took the signal away from the newer",
)
def older_loop_closed(factory: Factory) -> None:
    older, newer = factory(), factory()
    seen: list[str] = []
    older.add_signal_handler(signal.SIGUSR1, seen.append, "older")
    older.remove_signal_handler(signal.SIGUSR1)
    newer.add_signal_handler(signal.SIGUSR2, seen.append, "newer")
    older.close()

    async def use() -> None:
        os.kill(os.getpid(), signal.SIGUSR2)
        await until(newer, lambda: seen)

    newer.run_until_complete(asyncio.wait_for(use(), 5))
    newer.close()
    expect(seen, ["newer"], "handlers called")


@ROOM.case(
    "zuvloop fbde4dd",
    "a signal that came while the loop did not run was lost",
)
def signal_between_two_runs(factory: Factory) -> None:
    loop = factory()
    seen: list[int] = []
    loop.add_signal_handler(signal.SIGUSR1, seen.append, 1)
    loop.run_until_complete(turns(1))
    os.kill(os.getpid(), signal.SIGUSR1)
    loop.run_until_complete(polls(loop))
    loop.close()
    expect(seen, [1], "calls of the handler")


@ROOM.case(
    "rloop 39",
    "a signal without a handler of the loop ended run_forever() with InterruptedError",
)
def foreign_handler(factory: Factory) -> None:
    seen: list[int] = []
    previous = signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
    loop = factory()

    def send() -> None:
        for _ in range(5):
            os.kill(os.getpid(), signal.SIGUSR1)

    async def use() -> str:
        thread = threading.Thread(target=send)
        thread.start()
        await until(loop, lambda: seen)
        thread.join()
        await polls(loop)
        return "done"

    try:
        expect(loop.run_until_complete(use()), "done", "the result")
    finally:
        loop.close()
        signal.signal(signal.SIGUSR1, previous)


@ROOM.case(
    "CPython 94732",
    "after KeyboardInterrupt the loop still said that it runs, or kept its hooks",
    {"in a callback": ("callback",), "in a task": ("task",)},
)
def interrupted(factory: Factory, where: str) -> None:
    hooks = sys.get_asyncgen_hooks()
    loop = factory()

    def interrupt() -> None:
        raise KeyboardInterrupt

    async def interrupted_task() -> None:
        interrupt()

    task: Any = None
    if where == "callback":
        loop.call_soon(interrupt)
    else:
        task = loop.create_task(interrupted_task())
    outcome = "run_forever returned"
    try:
        loop.call_later(5, loop.stop)
        loop.run_forever()
    except KeyboardInterrupt:
        outcome = "KeyboardInterrupt"
    expect(outcome, "KeyboardInterrupt", "out of the loop came")
    expect_true(not loop.is_running(), "the loop says that it runs")
    expect_true(sys.get_asyncgen_hooks() == hooks, "the hooks of async generators are kept")
    expect(raised_in(asyncio.get_running_loop), "RuntimeError", "get_running_loop() raised")
    loop.run_until_complete(turns(2))
    if task is not None and not task.cancelled():
        task.exception()
    loop.close()


@ROOM.case(
    "zuvloop 62",
    "a signal handler could be added or removed from another thread",
    {"add": ("add_signal_handler",), "remove": ("remove_signal_handler",)},
)
async def signals_in_another_thread(loop: Loop, method: str) -> None:
    raised: list[str] = []

    def work() -> None:
        arguments: tuple[Any, ...] = (signal.SIGUSR1,)
        if method == "add_signal_handler":
            arguments += (print,)
        raised.append(raised_in(getattr(loop, method), *arguments))

    before = signal.getsignal(signal.SIGUSR1)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if method == "add_signal_handler":
        expect_true(raised[0] in ("ValueError", "RuntimeError"), f"raised {raised[0]}")
    expect(signal.getsignal(signal.SIGUSR1), before, "the handler afterwards")


@ROOM.case(
    "zuvloop 2cce9cb",
    "of many signals in a row some were never handled",
)
async def burst_of_signals(loop: Loop) -> None:
    seen: list[int] = []
    numbers = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGWINCH)
    for number in numbers:
        loop.add_signal_handler(number, seen.append, int(number))
    for _ in range(50):
        for number in numbers:
            os.kill(os.getpid(), number)
        await asyncio.sleep(0)
    await polls(loop)
    for number in numbers:
        loop.remove_signal_handler(number)
    expect({number: seen.count(number) for number in numbers}, dict.fromkeys(numbers, 50), "calls")
