"""Runs programs that use the published clients, in an interpreter that has them.

alicatlib needs CPython 3.13. On an older one the programs run in `build/venv-3.13`, which
``scripts/setup test`` makes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock.sim import Bus, MassFlowController, Station, open_pty, open_tcp

FOLDER = Path(__file__).parent
_OWN = Path(__file__).resolve().parents[3] / "build" / "venv-3.13" / "bin" / "python"
_SECONDS = 60


@cache
def interpreter_with(package: str) -> str:
    """The path of a CPython 3.13 or newer that has ``package``; skips the test where none is."""
    candidates = [sys.executable] if sys.version_info >= (3, 13) else []
    for candidate in (*candidates, str(_OWN)):
        if Path(candidate).exists() and not subprocess.call(
            [candidate, "-c", f"import {package}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ):
            return candidate
    pytest.skip(f"the published client {package!r} needs CPython 3.13 and 'scripts/setup test'")


@asynccontextmanager
async def on_pty(bus: Bus) -> AsyncIterator[str]:
    async with open_pty(bus) as path:
        yield path


@asynccontextmanager
async def on_tcp(bus: Bus) -> AsyncIterator[str]:
    async with open_tcp(bus) as port:
        yield f"127.0.0.1:{port}"


PORTS: dict[str, Callable[[Bus], AbstractAsyncContextManager[str]]] = {"pty": on_pty, "tcp": on_tcp}


def instrument() -> MassFlowController:
    """A controller whose flow follows its setpoint at once and does not scatter."""
    return MassFlowController("A", tau=0.0)


def bus_with(*units: Station) -> Bus:
    return Bus(units, baudrate=None, turnaround=0.0)


def output_of(
    package: str,
    program: str,
    port: str,
    *arguments: str,
    make: Callable[[], Station] = instrument,
) -> str:
    """What ``program`` prints when it is run with the address of a new instrument.

    The instrument, which ``make`` returns, answers in this process.
    """
    python = interpreter_with(package)

    async def serve() -> str:
        async with PORTS[port](bus_with(make())) as address:
            with anyio.fail_after(_SECONDS):
                command = [python, str(FOLDER / program), address, *arguments]
                done = await anyio.run_process(command, check=False, stderr=None)
        assert done.returncode == 0, done.stdout.decode()
        return done.stdout.decode()

    return anyio.run(serve)


def outcomes(
    package: str,
    program: str,
    port: str,
    *arguments: str,
    make: Callable[[], Station] = instrument,
) -> list[dict[str, Any]]:
    """The same where the program prints one outcome a line, as JSON."""
    printed = output_of(package, program, port, *arguments, make=make)
    return [json.loads(line) for line in printed.splitlines()]


def first_lines(package: str, program: str, port: str, count: int, *arguments: str) -> list[str]:
    """The first lines of a program that prints until it is stopped."""
    python = interpreter_with(package)

    async def serve() -> list[str]:
        async with PORTS[port](bus_with(instrument())) as address:
            command = [python, "-u", str(FOLDER / program), address, *arguments]
            async with await anyio.open_process(command, stderr=None) as process:
                printed = b""
                assert process.stdout is not None
                with anyio.fail_after(_SECONDS):
                    while printed.count(b"\n") < count:
                        printed += await process.stdout.receive()
                process.kill()
        return printed.decode().splitlines()[:count]

    return anyio.run(serve)
