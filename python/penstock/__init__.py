"""Penstock: one asynchronous I/O stack, from the kernel ring to the instrument.

The names of the event loop are here; the other floors are packages of their own:
``penstock.serial``, ``penstock.alicat``, ``penstock.record``, ``penstock.sim``.

``import penstock`` loads nothing else: each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.loop import (
        EventLoopPolicy as EventLoopPolicy,
    )
    from penstock.loop import (
        Loop as Loop,
    )
    from penstock.loop import (
        install as install,
    )
    from penstock.loop import (
        new_event_loop as new_event_loop,
    )
    from penstock.loop import (
        run as run,
    )

__version__ = "0.1.0"

__all__ = ["EventLoopPolicy", "Loop", "__version__", "install", "new_event_loop", "run"]

_LOOP_NAMES = frozenset({"EventLoopPolicy", "Loop", "install", "new_event_loop", "run"})


def __getattr__(name: str) -> Any:
    if name in _LOOP_NAMES:
        value = getattr(import_module("penstock.loop"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LOOP_NAMES})
