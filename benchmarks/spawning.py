"""Start children and wait for them: the self-timing program of the spawn page.

    python benchmarks/spawning.py --loop penstock --child build/bench/trivial_child --at-once 8

Prints one JSON line: ``operations``, ``seconds`` and ``cpu_seconds`` of the timed region; the CPU
time is that of this process without its children.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

# Python puts the folder of a script on the path; the package is in a folder above.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measured_program import (  # noqa: E402
    Unavailable,
    exit_code,
    loop_factory,
    loop_parser,
)

EXIT_CODE = 7  # of the trivial child


class WrongExit(Exception):
    """A child ended with another exit code: it did not run, or its exit was missed."""


async def spawn_and_wait(child: str) -> None:
    """One child from start to end."""
    process = await asyncio.create_subprocess_exec(child)
    code = await process.wait()
    if code != EXIT_CODE:
        raise WrongExit(f"{child} is reported to have ended with {code} instead of {EXIT_CODE}")


async def spawn_batch(child: str, at_once: int) -> None:
    """Several children at once."""
    if at_once == 1:
        await spawn_and_wait(child)
    else:
        await asyncio.gather(*(spawn_and_wait(child) for _ in range(at_once)))


async def timed(child: str, at_once: int, seconds: float, warmup: float) -> dict[str, float]:
    """Run batches for ``warmup`` seconds, then timed ones for ``seconds``."""
    warm = time.perf_counter() + warmup
    while True:
        await spawn_batch(child, at_once)
        if time.perf_counter() >= warm:
            break
    operations = 0
    cpu_begin, begin = time.process_time(), time.perf_counter()
    while True:
        await spawn_batch(child, at_once)
        operations += at_once
        now = time.perf_counter()
        if now >= begin + seconds:
            break
    cpu_seconds = time.process_time() - cpu_begin
    return {"operations": operations, "seconds": now - begin, "cpu_seconds": cpu_seconds}


def main() -> None:
    """Measure one loop."""
    parser = loop_parser("Children of an event loop")
    parser.add_argument("--child", required=True, help="a program that ends with exit code 7")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--warmup", type=float, default=0.1)
    arguments = parser.parse_args()
    work = timed(arguments.child, arguments.at_once, arguments.seconds, arguments.warmup)
    try:
        with asyncio.Runner(loop_factory=loop_factory(arguments.loop)) as runner:
            figures = runner.run(work)
    except (AttributeError, NotImplementedError) as error:
        raise Unavailable(f"the loop cannot spawn and wait: {error!r}") from error
    finally:
        work.close()
    print(json.dumps(figures))


if __name__ == "__main__":
    sys.exit(exit_code(main))
