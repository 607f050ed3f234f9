"""The loop's own work without I/O: the self-timing program of the scheduling page.

    python benchmarks/scheduling.py --loop penstock --workload call_soon --seconds 0.3

Prints one JSON line: ``operations``, ``seconds`` and ``cpu_seconds`` of the timed region. A
workload runs in batches of a thousand operations, or of 300,000; a batch counts once all of it has
run.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

# Python puts the folder of a script on the path; the package is in a folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measured_program import (  # noqa: E402
    Unavailable,
    exit_code,
    loop_factory,
    loop_parser,
)

BATCH = 1000
BURST = 300_000
TASKS_AT_ONCE = 10
FAR_AWAY = 10.0  # seconds; such a timer is always cancelled


class Incomplete(Exception):
    """A batch ended before all of it had run: the loop is wrong, not fast."""


def nothing() -> None:
    """A callback of the least cost."""


async def call_soon(loop: asyncio.AbstractEventLoop, count: int = BATCH) -> None:
    """Schedule a batch, then run it."""
    done = loop.create_future()
    for _ in range(count):
        loop.call_soon(nothing)
    loop.call_soon(done.set_result, None)
    await done


async def call_soon_chain(loop: asyncio.AbstractEventLoop) -> None:
    """Each callback schedules the next one: one iteration of the loop for each."""
    done = loop.create_future()
    left = BATCH

    def step() -> None:
        nonlocal left
        left -= 1
        if left:
            loop.call_soon(step)
        else:
            done.set_result(None)

    loop.call_soon(step)
    await done


async def call_later(loop: asyncio.AbstractEventLoop, count: int = BATCH) -> None:
    """Schedule a batch of timers that are due at once, then run it."""
    done = loop.create_future()
    left = count

    def fire() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set_result(None)

    for _ in range(count):
        loop.call_later(0, fire)
    await done


async def call_later_chain(loop: asyncio.AbstractEventLoop) -> None:
    """Each timer, due at once, schedules the next one: one iteration of the loop for each."""
    done = loop.create_future()
    left = BATCH

    def step() -> None:
        nonlocal left
        left -= 1
        if left:
            loop.call_later(0, step)
        else:
            done.set_result(None)

    loop.call_later(0, step)
    await done


async def call_later_cancel(loop: asyncio.AbstractEventLoop) -> None:
    """Set distant timers and cancel each at once, as for a timeout that did not occur."""
    for _ in range(BATCH):
        loop.call_later(FAR_AWAY, nothing).cancel()
    # Some loops remove cancelled timers in their next iteration: that belongs to the cost.
    await asyncio.sleep(0)


async def sleep_0(loop: asyncio.AbstractEventLoop) -> None:
    """A task yields to the loop: one iteration for each."""
    for _ in range(BATCH):
        await asyncio.sleep(0)


async def create_task(loop: asyncio.AbstractEventLoop) -> None:
    """Create ten tasks at a time and await them."""

    async def child() -> int:
        return 1

    ended = 0
    for _ in range(BATCH // TASKS_AT_ONCE):
        tasks = [loop.create_task(child()) for _ in range(TASKS_AT_ONCE)]
        for task in tasks:
            ended += await task
    if ended != BATCH:
        raise Incomplete(f"{ended} of {BATCH} tasks returned their result")


async def create_future(loop: asyncio.AbstractEventLoop) -> None:
    """Create a future, resolve it in a callback, await it."""
    for _ in range(BATCH):
        future = loop.create_future()
        loop.call_soon(future.set_result, None)
        await future


Workload = Callable[[asyncio.AbstractEventLoop], Awaitable[None]]

WORKLOADS: dict[str, Workload] = {
    "call_soon": call_soon,
    "call_soon, burst": functools.partial(call_soon, count=BURST),
    "call_soon, chain": call_soon_chain,
    "call_later(0)": call_later,
    "call_later(0), burst": functools.partial(call_later, count=BURST),
    "call_later(0), chain": call_later_chain,
    "call_later, cancel": call_later_cancel,
    "sleep(0)": sleep_0,
    "create_task": create_task,
    "create_future": create_future,
}


async def check_every_callback_runs(loop: asyncio.AbstractEventLoop) -> None:
    """Check what the timed batches cannot check without a change of what they measure."""
    ran: list[int] = []
    for number in range(BATCH):
        loop.call_soon(ran.append, number)
        loop.call_later(FAR_AWAY, ran.append, -1).cancel()
    done = loop.create_future()
    loop.call_soon(done.set_result, None)
    await done
    if ran != list(range(BATCH)):
        raise Incomplete(f"{len(ran)} of {BATCH} callbacks ran, or not in their order")


def batch_of(workload: Workload) -> int:
    """Return how many operations one call of ``workload`` runs."""
    count = workload.keywords["count"] if isinstance(workload, functools.partial) else BATCH
    return int(count)


async def timed(workload: Workload, seconds: float, warmup: float) -> dict[str, float]:
    """Run batches for ``warmup`` seconds, then timed ones for ``seconds``."""
    loop = asyncio.get_running_loop()
    await check_every_callback_runs(loop)
    warm = time.perf_counter() + warmup
    while time.perf_counter() < warm:
        await workload(loop)
    operations = 0
    cpu_begin, begin = time.process_time(), time.perf_counter()
    end = begin + seconds
    while True:
        await workload(loop)
        operations += batch_of(workload)
        now = time.perf_counter()
        if now >= end:
            break
    cpu_seconds = time.process_time() - cpu_begin
    return {"operations": operations, "seconds": now - begin, "cpu_seconds": cpu_seconds}


def main() -> None:
    """Measure one workload on one loop."""
    parser = loop_parser("Micro-benchmark of an event loop")
    parser.add_argument("--workload", required=True, choices=WORKLOADS)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--warmup", type=float, default=0.1)
    arguments = parser.parse_args()
    workload = WORKLOADS[arguments.workload]
    with asyncio.Runner(loop_factory=loop_factory(arguments.loop)) as runner:
        try:
            figures = runner.run(timed(workload, arguments.seconds, arguments.warmup))
        except (AttributeError, NotImplementedError) as error:
            raise Unavailable(f"the loop does not implement it: {error!r}") from error
    print(json.dumps(figures))


if __name__ == "__main__":
    sys.exit(exit_code(main))
