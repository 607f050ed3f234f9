"""Child processes on Python 3.11, whose asyncio starts a thread for each to wait for its end.

Later versions wait through a process descriptor (pidfd_open(2)), and so does this. A child watcher
that the program has set itself is left in charge.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from asyncio import unix_events
from asyncio.log import logger
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.loop.event_loop import Loop

_SubprocessTransport: Any = getattr(unix_events, "_UnixSubprocessTransport", None)


def thread_would_wait() -> bool:
    """Whether asyncio's own way would be a thread for each child."""
    return isinstance(_child_watcher(), asyncio.ThreadedChildWatcher)


async def make_subprocess_transport(
    loop: Loop, *arguments: Any, **options: Any
) -> asyncio.SubprocessTransport:
    """Start a process and watch it; asyncio's private seam of the same name.

    When the start is cancelled or fails, the process is killed and awaited.
    """
    waiter = loop.create_future()
    transport: Any = _SubprocessTransport(loop, *arguments, waiter=waiter, **options)
    _watch(loop, transport)
    try:
        await waiter
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException:
        transport.close()
        await transport._wait()
        raise
    started: asyncio.SubprocessTransport = transport
    return started


def _watch(loop: Loop, transport: Any) -> None:
    pid: int = transport.get_pid()
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        # Before Linux 5.3, refused by a container, or out of descriptors: asyncio's thread then.
        _child_watcher().add_child_handler(pid, loop._child_watcher_callback, transport)
        return
    loop._add_reader(pidfd, _reap, loop, transport, pidfd)


def _reap(loop: Loop, transport: Any, pidfd: int) -> None:
    loop._remove_reader(pidfd)
    os.close(pidfd)
    pid: int = transport.get_pid()
    try:
        _, status = os.waitpid(pid, 0)
        return_code = os.waitstatus_to_exitcode(status)
    except ChildProcessError:
        # Somebody else has waited for it: how it ended is not to be known any more.
        logger.warning(
            "child process pid %d exit status already read: will report returncode 255", pid
        )
        return_code = 255
    # What the child wrote last is delivered before its end is.
    loop.call_soon(transport._process_exited, return_code)


def _child_watcher() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return asyncio.get_child_watcher()
