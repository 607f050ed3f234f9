"""What all measured Python programs share: loop factory, ready line, exit code.

A program prints one line when it is ready and ends at the end of its standard input. If its loop is
not installed, or lacks what the program needs, it exits with code 69 and writes the reason as the
last line on standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

# Where each loop's factory lives; any other loop is named "module:factory".
FACTORIES = {
    "penstock": "penstock:new_event_loop",
    "asyncio": "asyncio:new_event_loop",
    "uvloop": "uvloop:new_event_loop",
    "zloop": "zloop:new_event_loop",
    "rloop": "rloop:new_event_loop",
    "blazio": "blazio:new_event_loop",
    "talyn": "talyn:Loop",
    "veloxloop": "veloxloop:new_event_loop",
    "loopmini": "loopmini:new_event_loop",
    "rsloop": "rsloop:new_event_loop",
    "zuvloop": "zuvloop:new_event_loop",
}
# What changes another loop: "aiofastnet@uvloop".
CHANGES = {"aiofastnet": "aiofastnet:loop_factory"}

EXIT_UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h


class Unavailable(Exception):
    """The loop cannot do what is measured; the message gives the reason."""


def loop_parser(description: str) -> argparse.ArgumentParser:
    """A command line with ``--loop``."""
    parser = argparse.ArgumentParser(description=description)
    known = ", ".join(FACTORIES)
    parser.add_argument("--loop", required=True, help=f"{known}, or module:factory")
    return parser


def factory_path(name: str) -> str:
    """The ``module:factory`` of the loop called ``name``."""
    module, _, attribute = FACTORIES.get(name, name).partition(":")
    return f"{module}:{attribute or 'new_event_loop'}"


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """Find the factory of the loop called ``name`` (or ``module:factory``).

    Raises:
        Unavailable: if the module cannot be imported or has no such factory.
    """
    change, at, base = name.rpartition("@")
    factory: Callable[[], asyncio.AbstractEventLoop] = _imported(factory_path(base), base)
    if at:
        changed: Callable[[], asyncio.AbstractEventLoop] = _imported(CHANGES[change], change)(
            factory
        )
        return changed
    return factory


def _imported(path: str, name: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise Unavailable(f"{name} is not installed here: {error}") from error


async def serve_until_stdin_ends(ready_line: object) -> None:
    """Print the ready line and wait for the end of standard input."""
    stdin_ended = asyncio.Event()
    # add_reader, not a thread: the CPU time of a thread would count as the server's.
    asyncio.get_running_loop().add_reader(
        0, lambda: None if os.read(0, 4096) else stdin_ended.set()
    )
    print(ready_line, flush=True)
    await stdin_ended.wait()


def exit_code(program: Callable[[], None]) -> int:
    """Run a program. Returns 0, or 69 after printing the reason if its loop lacks something."""
    try:
        program()
    except Unavailable as error:
        print(error, file=sys.stderr)
        return EXIT_UNAVAILABLE
    return 0
