"""Child processes: each is waited for through a process descriptor (pidfd_open(2)) in the poller.

asyncio of Python 3.11 starts a thread for each child. Later versions use a process descriptor, but
look their watcher up through a deprecated function, with warnings switched off and on again, and
pass the end on as if from another thread, writing and reading an eventfd. Both cost more than all
else that the loop adds to a start. A child watcher of the program's own is left in charge.
"""

from __future__ import annotations

import asyncio
import os
import sys
import warnings
from asyncio import unix_events
from asyncio.log import logger
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.loop.event_loop import Loop

_SubprocessTransport: Any = getattr(unix_events, "_UnixSubprocessTransport", None)
_DefaultPolicy: Any = getattr(unix_events, "_UnixDefaultEventLoopPolicy", None)
# Python 3.14 has only the private names.
_ThreadWatcher: Any = getattr(unix_events, "ThreadedChildWatcher", None) or getattr(
    unix_events, "_ThreadedChildWatcher", None
)
_ProcessDescriptorWatcher: Any = getattr(unix_events, "PidfdChildWatcher", None) or getattr(
    unix_events, "_PidfdChildWatcher", None
)


def watcher_is_asyncios(loop: Loop) -> bool:
    """Whether a child's end would be seen by asyncio's own means, which this module replaces."""
    if sys.version_info >= (3, 14):
        # The loop has made it; a thread where the kernel, or whoever answers for it, has no
        # process descriptors.
        return type(loop._watcher) is _ProcessDescriptorWatcher
    # Its cheap, private side: `get_child_watcher` warns that it is deprecated.
    policy: Any = asyncio.get_event_loop_policy()
    if getattr(type(policy), "get_child_watcher", None) is _DefaultPolicy.get_child_watcher:
        watcher = policy._watcher
        if watcher is None:
            return True
    else:
        watcher = _watcher_of(policy)
    return type(watcher) in (_ThreadWatcher, _ProcessDescriptorWatcher)


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
        await asyncio.shield(transport._wait())
        raise
    started: asyncio.SubprocessTransport = transport
    return started


def _watch(loop: Loop, transport: Any) -> None:
    pid: int = transport.get_pid()
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        # Before Linux 5.3, refused by a container, or out of descriptors: asyncio's thread then.
        _ThreadWatcher().add_child_handler(pid, loop._child_watcher_callback, transport)
        return
    loop._add_reader(pidfd, _note_end, loop, transport, pidfd)


def _note_end(loop: Loop, transport: Any, pidfd: int) -> None:
    loop._remove_reader(pidfd)
    os.close(pidfd)
    # What the child wrote last is delivered before its end is.
    loop.call_soon(_reap, transport)


def _reap(transport: Any) -> None:
    # Both in one step: between them a signal for the child could reach whoever has its number next.
    transport._process_exited(_wait_for(transport))


def _wait_for(transport: Any) -> int:
    pid: int = transport.get_pid()
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        # Up to Python 3.12 a signal has Popen look first, which waits for a child that has ended.
        known: int | None = transport._proc.returncode
        if known is not None:
            return known
        # Somebody else has waited for it: how it ended is not to be known any more.
        logger.warning(
            "child process pid %d exit status already read: will report returncode 255", pid
        )
        return 255
    return os.waitstatus_to_exitcode(status)


def _watcher_of(policy: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return policy.get_child_watcher()
