"""A process that appends to logs until test_log_crashes.py kills it.

Reads lines "LOOP LOG FIRST LENGTH" from standard input. For each line, it prints the process id of
a forked child, and "ended" when the child has ended. The child appends records FIRST, FIRST + 1,
... of up to LENGTH bytes, several at a time, and prints each acknowledged number. A fork is much
faster than a new interpreter, so a test can kill many children.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import anyio
import trio

import penstock
from penstock.files import AppendLog

TASKS = 8


def record_of(number: int, length: int) -> bytes:
    """Return the record with this number. Its content shows whether it is whole."""
    body = number.to_bytes(4, "big") * (1 + number * 7919 % length // 4)
    return len(body).to_bytes(4, "big") + body


def number_of(record: bytes) -> int:
    """Return a record's number, after checking its content."""
    body = record[4:]
    assert len(body) == int.from_bytes(record[:4], "big")
    assert body == body[:4] * (len(body) // 4)
    return int.from_bytes(body[:4], "big")


async def append_forever(path: str, first: int, length: int) -> None:
    async with AppendLog(path) as log:
        number = first

        async def append() -> None:
            nonlocal number
            while True:
                mine = number
                number += 1
                await log.append(record_of(mine, length))
                os.write(1, b"%d\n" % mine)

        async with anyio.create_task_group() as group:
            for _ in range(TASKS):
                group.start_soon(append)


LOOPS: dict[str, Callable[..., Any]] = {
    "asyncio": lambda *arguments: anyio.run(append_forever, *arguments),
    "penstock": lambda *arguments: penstock.run(append_forever(*arguments)),
    "trio": lambda *arguments: trio.run(append_forever, *arguments),
}


def main() -> None:
    for line in sys.stdin:
        loop, path, first, length = line.split()
        pid = os.fork()
        if pid == 0:
            LOOPS[loop](path, int(first), int(length))
            os._exit(1)
        os.write(1, b"pid %d\n" % pid)
        os.waitpid(pid, 0)
        os.write(1, b"ended\n")


if __name__ == "__main__":
    main()
