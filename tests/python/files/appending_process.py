"""A process that appends to logs until it is killed: the victim of test_log_crashes.py.

Reads lines "LOOP LOG FIRST LENGTH" from standard input. For each it forks a child that appends
records FIRST, FIRST + 1, ... of up to LENGTH bytes, several at a time, and prints each number that
has been acknowledged. It prints the child's process id before, and "ended" after its end. Forking
spares each child the interpreter's start, so that many can be killed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import anyio
import trio

import penstock
from penstock.files.append_log import AppendLog

TASKS = 8


def record_of(number: int, length: int) -> bytes:
    """The record of this number; its content tells if it is whole."""
    body = number.to_bytes(4, "big") * (1 + number * 7919 % length // 4)
    return len(body).to_bytes(4, "big") + body


def number_of(record: bytes) -> int:
    """The number of a record, checked."""
    body = record[4:]
    assert len(body) == int.from_bytes(record[:4], "big")
    assert body == body[:4] * (len(body) // 4)
    return int.from_bytes(body[:4], "big")


async def append_for_ever(path: str, first: int, length: int) -> None:
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
    "asyncio": lambda *arguments: anyio.run(append_for_ever, *arguments),
    "penstock": lambda *arguments: penstock.run(append_for_ever(*arguments)),
    "trio": lambda *arguments: trio.run(append_for_ever, *arguments),
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
