"""An open device that threads use: one receives, one sends, any may close it."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import weakref
from collections.abc import Callable

from penstock.serial._blocking.wait import Overdue, Wait, WakeUp
from penstock.serial._devices.backend import SerialBackend
from penstock.serial._port.drain import poll_interval
from penstock.serial.exceptions import SerialError

__all__ = ["BlockingDevice", "Half"]


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
        self.drain_abandoned = threading.Event()
        """Set to make closing discard unsent output instead of waiting for it."""
        self._make_lock = make_lock
        self._halves_share_wake_up = halves_share_wake_up
        self._closing = False
        self.is_released = False
        self._linger_until = 0.0
        self._make_halves()
        _in_use.add(self)

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

    def _linger(self) -> None:
        device = self.device
        with contextlib.suppress(SerialError):  # gone: nothing is left to wait for
            while (
                not self.drain_abandoned.is_set()
                and (count := device.output_waiting())
                and time.monotonic() < self._linger_until
            ):
                self.drain_abandoned.wait(poll_interval(count, device.config))

    def release(self) -> None:
        """Close the device at once. No thread may use it any more."""
        if self.is_released:
            return
        self.is_released = True
        self.close_deferred = False
        _in_use.discard(self)
        try:
            self.device.close()
        finally:
            self._close_wake_ups()

    def _close_wake_ups(self) -> None:
        for wake in {self.receiving.wake, self.sending.wake}:
            wake.close()

    def reset_in_child(self) -> None:
        """Replace what is shared with the parent process. Only in a forked child."""
        self._close_wake_ups()
        self._make_halves()
        self.drain_abandoned = threading.Event()
        self.device.forget_threads()


_in_use: weakref.WeakSet[BlockingDevice] = weakref.WeakSet()


def _reset_devices_in_child() -> None:
    for use in list(_in_use):
        use.reset_in_child()


os.register_at_fork(after_in_child=_reset_devices_in_child)
