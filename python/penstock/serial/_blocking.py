"""Using a device from threads: waiting, locks, closing and forking, for ``sync`` and ``compat``."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import select
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio

from penstock.serial._devices.backend import SerialBackend
from penstock.serial._port.send import poll_interval
from penstock.serial.exceptions import SerialError

FOREVER = math.inf
"""The deadline of a wait without a limit."""

_LONGEST_WAIT_S = 86_400.0  # poll(2) takes at most 24.8 days; after a day the wait is renewed
_SHORT_S = 0.1
_SELECT_LIMIT = 1024  # FD_SETSIZE


class Overdue(Exception):
    """The deadline has passed. Not an OSError, as TimeoutError is: the port has no error.

    Attributes:
        unsent: How many bytes a write has left.
    """

    def __init__(self, unsent: int = 0) -> None:
        self.unsent = unsent


def deadline_after(timeout: float | None) -> float:
    """Return the moment of ``time.monotonic()`` that is ``timeout`` seconds ahead.

    Raises:
        ValueError: The timeout is negative or NaN.
        TypeError: It is not a number.
    """
    if timeout is None:
        return FOREVER
    try:
        valid = timeout >= 0
    except TypeError:
        sentence = f"timeout must be a number of seconds, or None, not {timeout!r}"
        raise TypeError(sentence) from None
    if not valid:
        raise ValueError(f"timeout must be 0 or more seconds, or None, not {timeout}")
    return time.monotonic() + timeout


class WakeUp:
    """A descriptor that ends the waits of other threads, made for the first wait. Thread-safe.

    Most ports that are only opened, asked what they are and closed never wait.
    """

    __slots__ = ("_closed", "_fd", "_mutex", "is_set")

    def __init__(self) -> None:
        # Reentrant: a signal handler may set what its thread is just making.
        self._mutex = threading.RLock()
        self._fd = -1
        self._closed = False
        self.is_set = False

    def fileno(self) -> int:
        """Return the descriptor, which is readable while this is set; -1 once closed."""
        fd = self._fd
        if fd < 0 and not self._closed:
            with self._mutex:
                fd = self._fd
                if fd < 0 and not self._closed:
                    fd = self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                    if self.is_set:
                        os.eventfd_write(fd, 1)
        return fd

    def set(self) -> None:
        """End every wait, present and future, until :meth:`clear`."""
        with self._mutex:
            if self._fd >= 0:
                os.eventfd_write(self._fd, 1)
            self.is_set = True  # after the write, so that clear() finds something to read

    def clear(self) -> None:
        """Let the next wait begin."""
        with self._mutex:
            self.is_set = False
            if self._fd >= 0:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._fd)

    def close(self) -> None:
        """Close the descriptor. Nobody may wait any more."""
        # Without the mutex, which in a forked child a thread of the parent may hold.
        self._closed = True
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class Wait:
    """Waits for one event of one descriptor, or for a :class:`WakeUp`. One thread at a time.

    poll(2) counts milliseconds. So a wait with a short limit uses select(2), which costs more and
    ends a fraction of a millisecond nearer to it, unless a descriptor is too large for select.
    """

    def __init__(self, wake: WakeUp, fd: int = -1, event: int = 0) -> None:
        """Prepare waits for ``event`` (``select.POLLIN`` or ``POLLOUT``) of ``fd``; 0: for none."""
        self._wake_up = wake
        self._fd = fd
        self._event = event
        self._wake = -1

    def _begin(self) -> bool:
        wake, fd, event = self._wake_up.fileno(), self._fd, self._event
        if wake < 0:
            return False
        self._poll = select.poll()
        self._poll.register(wake, select.POLLIN)
        if event:
            self._poll.register(fd, event)
        self._small = max(wake, fd) < _SELECT_LIMIT
        self._reading = [wake, fd] if event == select.POLLIN else [wake]
        self._writing = [fd] if event == select.POLLOUT else []
        self._wake = wake
        return True

    def until(self, deadline: float) -> bool | None:
        """Wait; return True once ready, False at ``deadline``, None if woken up."""
        if self._wake < 0 and not self._begin():
            return None  # the port was closed before the first wait
        wake = self._wake
        while True:
            try:
                if deadline == FOREVER:
                    ready = [fd for fd, _ in self._poll.poll()]
                else:
                    left = min(max(0.0, deadline - time.monotonic()), _LONGEST_WAIT_S)
                    if left < _SHORT_S and self._small:
                        readable, writable, _ = select.select(
                            self._reading, self._writing, (), left
                        )
                        ready = readable or writable
                    else:
                        # Rounded up: waking early would cost another call.
                        ready = [fd for fd, _ in self._poll.poll(math.ceil(left * 1000))]
            except OSError as exc:
                if exc.errno != errno.EBADF:
                    raise
                return None  # the port was closed, and the descriptors with it, before the call
            if wake in ready:
                return None
            if ready:
                return True
            if deadline <= time.monotonic():
                return False


T = TypeVar("T")


class BlockingWaiter:
    """Waits in the calling thread, at most until ``deadline``.

    A wait that ends at the deadline returns, so that its caller checks its condition once more. A
    wait that begins after the deadline raises :class:`Overdue`.

    Drivers are called directly. A driver that has been called cannot be interrupted, so those
    calls return when it answers, whatever the deadline.
    """

    def __init__(self, wake: WakeUp | None = None, deadline: float = FOREVER) -> None:
        """End every wait once ``wake`` is set, because the port is closed. None: no wake-up."""
        self._wake = wake
        self.deadline = deadline

    async def checkpoint(self) -> None:
        pass

    async def sleep(self, seconds: float) -> None:
        self._wait(-1, 0, seconds)

    async def wait_readable(self, fd: int, seconds: float) -> bool:
        return self._wait(fd, select.POLLIN, seconds)

    def _wait(self, fd: int, event: int, seconds: float) -> bool:
        now = time.monotonic()
        if now >= self.deadline:
            raise Overdue
        with contextlib.ExitStack() as stack:
            wake = self._wake
            if wake is None:
                wake = WakeUp()
                stack.callback(wake.close)
            ready = Wait(wake, fd, event).until(min(now + seconds, self.deadline))
        if ready is None:
            raise anyio.ClosedResourceError
        return ready

    async def call(self, function: Callable[..., T], *args: object) -> T:
        return function(*args)

    async def call_to_end(
        self,
        function: Callable[..., T],
        *args: object,
        undo: Callable[[T], object] | None = None,
    ) -> T:
        return function(*args)

    async def call_shielded(self, function: Callable[..., T], *args: object) -> T:
        return function(*args)

    def close(self) -> None:
        """Do nothing: closing the device sets the wake-up."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whose waits block."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        coroutine.close()
    raise AssertionError(f"{coroutine!r} suspended without an event loop")


class Half:
    """Receiving, or sending: its lock, the thread that holds it, and its wait.

    A caller takes ``lock`` and sets ``holder`` itself, inline: this is on the path of every byte.
    """

    __slots__ = ("holder", "lock", "wait", "wake")

    def __init__(
        self, lock: threading.Lock | threading.RLock, wake: WakeUp, fd: int, event: int
    ) -> None:
        self.lock = lock
        self.holder = 0
        self.wake = wake
        self.wait = Wait(wake, fd, event)

    def write(
        self, write: Callable[[memoryview], int], unsent: memoryview, deadline: float
    ) -> memoryview:
        """Write ``unsent`` as room becomes available.

        Returns:
            What is left: nothing, or the rest if the wait was woken up.

        Raises:
            Overdue: The deadline has passed.
        """
        while unsent:
            ready = self.wait.until(deadline)
            if ready is None:
                break
            if not ready:
                raise Overdue(len(unsent))
            try:
                unsent = unsent[write(unsent) :]
            except BlockingIOError:
                continue
        return unsent


class BlockingDevice:
    """The use of an open backend by threads.

    Closing wakes the threads of both halves, waits until they have left, and lets unsent output
    leave. It cannot wait in a signal handler that interrupts the thread's own receive or send. Then
    ``close_deferred`` is set, and that call closes the device when it ends: every user of a half
    calls :meth:`finish_closing` if ``close_deferred``.

    In a forked child the locks and wake-ups are replaced. Threads that the child does not have may
    hold the parent's locks, and the wake-ups' descriptors are shared.
    """

    def __init__(
        self,
        device: SerialBackend,
        make_lock: Callable[[], threading.Lock | threading.RLock],
        *,
        halves_share_wake_up: bool,
    ) -> None:
        """Use ``device``.

        Args:
            device: An open backend.
            make_lock: Makes the lock of each half.
            halves_share_wake_up: False if a wait of one half can be ended alone.
        """
        self.device = device
        self.close_deferred = False
        self._output_abandoned = False
        self._lingering: threading.Event | None = None
        self._make_lock = make_lock
        self._halves_share_wake_up = halves_share_wake_up
        self._closing = False
        self.is_released = False
        self._linger_until = 0.0
        self._make_halves()
        _in_use[id(self)] = weakref.ref(self)

    def _make_halves(self) -> None:
        fd = self.device.fileno()
        wake = WakeUp()
        self.receiving = Half(self._make_lock(), wake, fd, select.POLLIN)
        wake = wake if self._halves_share_wake_up else WakeUp()
        self.sending = Half(self._make_lock(), wake, fd, select.POLLOUT)
        self.close_deferred = False

    def close(self, linger_until: float) -> None:
        """Wake the threads that wait, and close the device once they have left.

        Unsent output gets until ``linger_until``, on the clock of ``time.monotonic()``, to leave.
        """
        self._linger_until = linger_until
        if not self._closing:
            self._closing = True
            self.receiving.wake.set()
            if not self._halves_share_wake_up:
                self.sending.wake.set()
        if threading.get_ident() in (self.receiving.holder, self.sending.holder):
            self.close_deferred = True
        else:
            self.finish_closing()

    def finish_closing(self) -> None:
        """Close the device, unless this thread is still inside a receive or a send."""
        thread = threading.get_ident()
        if thread in (self.receiving.holder, self.sending.holder):
            return
        # Nobody uses the descriptor any more once both halves are held.
        with self.receiving.lock, self.sending.lock:
            if self.is_released:
                return
            # A signal handler of this thread that closes the port during the wait returns at once.
            self.receiving.holder = self.sending.holder = thread
            try:
                self._linger()
            finally:
                self.receiving.holder = self.sending.holder = 0
                self.release()

    def abandon_output(self) -> None:
        """Let closing discard unsent output instead of waiting for it. From any thread."""
        self._output_abandoned = True
        if (lingering := self._lingering) is not None:
            lingering.set()

    def _linger(self) -> None:
        device = self.device
        try:
            if not device.output_waiting():
                return
            interrupted = self._lingering = threading.Event()  # before the flag is read again
            while (
                not self._output_abandoned
                and (count := device.output_waiting())
                and time.monotonic() < self._linger_until
            ):
                interrupted.wait(poll_interval(count, device.config))
        except SerialError:
            return  # gone: nothing is left to wait for

    def release(self) -> None:
        """Close the device at once. No thread may use it any more."""
        if self.is_released:
            return
        self.is_released = True
        self.close_deferred = False
        _in_use.pop(id(self), None)
        try:
            self.device.close()
        finally:
            self._close_wake_ups()

    def _close_wake_ups(self) -> None:
        self.receiving.wake.close()
        self.sending.wake.close()

    def reset_in_child(self) -> None:
        """Replace what is shared with the parent process. Only in a forked child."""
        self._close_wake_ups()
        self._make_halves()
        self._output_abandoned = False
        self._lingering = None
        self.device.forget_threads()


# The open devices by their ids. A WeakSet would cost a tenth of opening a port.
_in_use: dict[int, weakref.ref[BlockingDevice]] = {}


def _reset_devices_in_child() -> None:
    for reference in list(_in_use.values()):
        use = reference()
        if use is not None:
            use.reset_in_child()


os.register_at_fork(after_in_child=_reset_devices_in_child)
