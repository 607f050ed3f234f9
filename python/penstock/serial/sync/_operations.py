"""The asynchronous port's operations on waits that block."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio import TypedAttributeProvider

from penstock.serial._blocking.device import BlockingDevice, Half
from penstock.serial._blocking.wait import FOREVER, Overdue
from penstock.serial._blocking.waiter import BlockingWaiter
from penstock.serial._devices.backend import SerialBackend
from penstock.serial._port.control import PortOperations
from penstock.serial._values import PortInfo

__all__ = ["BlockingOperations"]

T = TypeVar("T")


class BlockingOperations(BlockingDevice, PortOperations, TypedAttributeProvider):
    """The operations of a port, as coroutines that block instead of suspending.

    The thread that holds a half sets its deadline by :meth:`limit`.
    """

    def __init__(self, device: SerialBackend, port_info: PortInfo | None) -> None:
        BlockingDevice.__init__(self, device, threading.Lock, halves_share_wake_up=True)
        PortOperations.__init__(self, device, port_info)
        self._use_halves()

    def _use_halves(self) -> None:
        self._readiness = self.readiness = _BlockingReadiness(self.receiving, self.sending)
        self._yield = self.readiness.checkpoint
        self._waiter = self.send_waiter = self.waiter_until(FOREVER)

    def waiter_until(self, deadline: float) -> BlockingWaiter:
        """Return a waiter that closing the port wakes up."""
        return BlockingWaiter(self.sending.wake, deadline)

    def limit(self, half: Half, deadline: float) -> None:
        """Set the deadline of the operation that the holder of ``half`` runs next."""
        if half is self.receiving:
            self.readiness.read_deadline = deadline
        else:
            self.readiness.write_deadline = self.send_waiter.deadline = deadline

    def refuse_further_use(self) -> None:
        """Let every call but closing raise :class:`SerialClosedError`."""
        if not self._closed:
            self._closed = True
            self._read = self._readinto = self._write = self._refuse

    def reset_in_child(self) -> None:
        super().reset_in_child()
        self._use_halves()
        self._receiving = self._sending = False
        self._answer_is_due = False
        if not self._closed:
            self.bind_device()


class _BlockingReadiness:
    """The blocking counterpart of :class:`AsyncioReadiness`."""

    def __init__(self, receiving: Half, sending: Half) -> None:
        self._receiving = receiving
        self._sending = sending
        self.read_deadline = FOREVER
        self.write_deadline = FOREVER
        self.checkpoint: Callable[[], Awaitable[None]] = _no_checkpoint

    def is_current(self) -> bool:
        return True

    async def read(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T:
        while ready := self._receiving.wait.until(self.read_deadline):
            try:
                return attempt()
            except BlockingIOError:
                continue
        if ready is None:
            raise anyio.ClosedResourceError
        raise Overdue

    async def write(self, write: Callable[[memoryview], int], data: memoryview) -> None:
        if self._sending.write(write, data, self.write_deadline):
            raise anyio.ClosedResourceError

    def discard_read(self) -> None:
        """Do nothing: no attempt is made on behalf of another thread."""

    def close(self, reason: Callable[[], BaseException]) -> None:
        """Do nothing: closing the device sets the wake-up."""

    def abandon(self, close: Callable[[], None]) -> None:
        close()


async def _no_checkpoint() -> None:
    pass
