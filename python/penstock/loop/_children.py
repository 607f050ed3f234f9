"""Child processes: the poller waits for each through a process descriptor (pidfd_open(2)).

asyncio of Python 3.11 starts a thread for each child. Later versions use a process descriptor, but
find their watcher through a deprecated function, with warnings disabled and enabled again, and
report the end as if from another thread, through an eventfd. Both cost more than everything else
that the loop adds to a start. A child watcher that the program has set is used instead.
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
    from penstock.loop._event_loop import Loop

_SubprocessTransport: Any = unix_events._UnixSubprocessTransport  # type: ignore[attr-defined]
_DefaultPolicy: Any = getattr(unix_events, "_UnixDefaultEventLoopPolicy", None)
# Python 3.14 has only the private names.
_ThreadWatcher: Any = getattr(unix_events, "ThreadedChildWatcher", None) or getattr(
    unix_events, "_ThreadedChildWatcher", None
)
_ProcessDescriptorWatcher: Any = getattr(unix_events, "PidfdChildWatcher", None) or getattr(
    unix_events, "_PidfdChildWatcher", None
)


class _UnixSubprocessTransport(_SubprocessTransport):  # type: ignore[misc]
    """asyncio's transport; ``wait()`` ends with the child, as in later versions of asyncio.

    In earlier ones it ends with the child's pipes, which a grandchild may hold open.
    """

    def close(self) -> None:
        if self._loop is not None and self._loop.is_closed():
            # Closing a pipe's transport would schedule its end. Without a transport that refers
            # to it, its finalizer closes the descriptor.
            self._pipes.clear()
        super().close()

    def _process_exited(self, returncode: int) -> None:
        super()._process_exited(returncode)
        waiters = self._exit_waiters
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(returncode)
        if waiters:
            waiters.clear()


class _ProcessDescriptor:
    """A descriptor of a process; closed with the loop that watches it, if the child outlives it."""

    __slots__ = ("number",)

    def __init__(self, pid: int) -> None:
        self.number = -1
        self.number = os.pidfd_open(pid)

    def close(self) -> None:
        if self.number >= 0:
            os.close(self.number)
            self.number = -1

    __del__ = close


def watcher_is_asyncios(loop: Loop) -> bool:
    """Whether the child watcher is one of asyncio's own, which this module replaces."""
    if sys.version_info >= (3, 14):
        # The loop has made it; it uses threads where the kernel or a sandbox has no process
        # descriptors.
        return type(loop._watcher) is _ProcessDescriptorWatcher
    # The private attribute: ``get_child_watcher`` warns that it is deprecated.
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
    """Start a process and watch it; replaces asyncio's private method of the same name.

    If the start fails or is cancelled, the process is killed and awaited.
    """
    waiter = loop.create_future()
    transport: Any = _UnixSubprocessTransport(loop, *arguments, waiter=waiter, **options)
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
        descriptor = _ProcessDescriptor(pid)
    except OSError:
        # Before Linux 5.3, refused by a container, or out of descriptors: use asyncio's thread.
        _ThreadWatcher().add_child_handler(pid, loop._child_watcher_callback, transport)
        return
    loop._add_reader(descriptor.number, _note_end, loop, transport, descriptor)


def _note_end(loop: Loop, transport: Any, descriptor: _ProcessDescriptor) -> None:
    loop._remove_reader(descriptor.number)
    descriptor.close()
    # The child's last output, which the same poll may have found, is delivered before its end: as
    # in asyncio, by a step in between before Python 3.14, then by that of the protocol's call.
    if sys.version_info >= (3, 14):
        _reap(transport)
    else:
        loop.call_soon(_reap, transport)


def _reap(transport: Any) -> None:
    # Both in one step: between them a signal could reach another process with the same id.
    transport._process_exited(_wait_for(transport))


def _wait_for(transport: Any) -> int:
    pid: int = transport.get_pid()
    try:
        _, status = os.waitpid(pid, 0)
    except ChildProcessError:
        # Up to Python 3.12 sending a signal polls the child first, which reaps one that has ended.
        known: int | None = transport._proc.returncode
        if known is not None:
            return known
        # Other code has waited for it: its exit status is lost.
        logger.warning(
            "child process pid %d exit status already read: will report returncode 255", pid
        )
        return 255
    return os.waitstatus_to_exitcode(status)


def _watcher_of(policy: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return policy.get_child_watcher()
