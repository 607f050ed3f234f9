"""What every measured Python program is built on: its loop, its ready line, its end.

A program prints one line when it is ready and ends when its standard input does. A loop that is not
installed, or lacks what the program needs, ends it with exit code 69 and the reason as the last
line on standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import sys
from collections.abc import Callable

# Where each loop's factory lives; any other loop is named "module:factory".
FACTORIES = {
    "penstock": "penstock:new_event_loop",
    "asyncio": "asyncio:new_event_loop",
    "uvloop": "uvloop:new_event_loop",
    "zloop": "zloop:new_event_loop",
    "rloop": "rloop:new_event_loop",
}

EXIT_UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h


class Unavailable(Exception):
    """The loop cannot do what is measured; the message tells why."""


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
    module, _, attribute = factory_path(name).partition(":")
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = getattr(
            importlib.import_module(module), attribute
        )
    except (ImportError, AttributeError) as error:
        raise Unavailable(f"{name} is not installed here: {error}") from error
    return factory


async def serve_until_stdin_ends(ready_line: object) -> None:
    """Tell that the server is ready, and wait for the end of standard input."""
    stdin_ended = asyncio.Event()
    # add_reader, not a thread: a thread of the server's would be in its CPU time.
    asyncio.get_running_loop().add_reader(
        0, lambda: None if os.read(0, 4096) else stdin_ended.set()
    )
    print(ready_line, flush=True)
    await stdin_ended.wait()


def exit_code(program: Callable[[], None]) -> int:
    """Run a program: 0, or 69 with the reason where its loop lacks something."""
    try:
        program()
    except Unavailable as error:
        print(error, file=sys.stderr)
        return EXIT_UNAVAILABLE
    return 0
