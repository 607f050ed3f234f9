"""Penstock: one asynchronous I/O stack, from the kernel ring to the instrument.

The names of the event loop are here; the other floors are packages of their own:
``penstock.serial``, ``penstock.alicat``, ``penstock.record``, ``penstock.sim``.

``import penstock`` loads nothing else: each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module

# Type checkers know the name; importing it from typing would be most of this module's cost.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from penstock.loop import EventLoopPolicy as EventLoopPolicy
    from penstock.loop import Loop as Loop
    from penstock.loop import StreamReader as StreamReader
    from penstock.loop import StreamWriter as StreamWriter
    from penstock.loop import install as install
    from penstock.loop import new_event_loop as new_event_loop
    from penstock.loop import open_connection as open_connection
    from penstock.loop import open_unix_connection as open_unix_connection
    from penstock.loop import run as run
    from penstock.loop import start_server as start_server
    from penstock.loop import start_unix_server as start_unix_server

__version__ = "0.1.0"

_LOOP_NAMES = (
    "EventLoopPolicy",
    "Loop",
    "StreamReader",
    "StreamWriter",
    "install",
    "new_event_loop",
    "open_connection",
    "open_unix_connection",
    "run",
    "start_server",
    "start_unix_server",
)

__all__ = ["__version__", *_LOOP_NAMES]


def __getattr__(name: str) -> Any:
    if name in _LOOP_NAMES:
        value = getattr(import_module("penstock.loop"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LOOP_NAMES})
