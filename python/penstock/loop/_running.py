"""Ways to run a program on the loop."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.loop._event_loop import Loop

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

T = TypeVar("T")


def new_event_loop() -> Loop:
    """Return a new loop. For ``asyncio.Runner(loop_factory=...)`` and similar functions."""
    return Loop()


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """Run a coroutine on a new Penstock loop, as ``asyncio.run`` does on asyncio's.

    ``debug`` sets the loop's debug mode; None leaves it to ``PYTHONASYNCIODEBUG`` and ``-X dev``.
    Remaining tasks are cancelled, asynchronous generators and the default executor are shut down.
    Ctrl-C cancels ``main`` and raises KeyboardInterrupt.

    Raises:
        RuntimeError: if an event loop is running in this thread.
        ValueError: if ``main`` is not a coroutine.
    """
    if asyncio._get_running_loop() is not None:
        # asyncio.Runner would raise later, with another message.
        raise RuntimeError("penstock.run() cannot be called from a running event loop")
    with asyncio.Runner(debug=debug, loop_factory=new_event_loop) as runner:
        return runner.run(main)


def install() -> None:
    """Make Penstock the loop of ``asyncio.run`` and ``asyncio.new_event_loop`` in this process.

    Python 3.14 deprecates asyncio's policies: use ``penstock.run`` or a loop factory there.

    Raises:
        RuntimeError: on Python 3.16 and later, which have no policies.
    """
    if not hasattr(asyncio, "set_event_loop_policy"):
        raise RuntimeError(
            "penstock.install(): this Python has no event loop policies; use penstock.run(main()) "
            "or asyncio.run(main(), loop_factory=penstock.new_event_loop)"
        )
    with warnings.catch_warnings():
        if sys.version_info >= (3, 14):
            warnings.simplefilter("ignore", DeprecationWarning)
        asyncio.set_event_loop_policy(EventLoopPolicy())


def _base_policy() -> type[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        # Python 3.16 has none.
        policy: type[Any] = getattr(asyncio, "DefaultEventLoopPolicy", object)
        return policy


if TYPE_CHECKING:
    from asyncio import DefaultEventLoopPolicy as _DefaultPolicy
else:
    _DefaultPolicy = _base_policy()


class EventLoopPolicy(_DefaultPolicy):
    """An event loop policy whose loops are Penstock's."""

    _loop_factory: Callable[[], AbstractEventLoop] = Loop
