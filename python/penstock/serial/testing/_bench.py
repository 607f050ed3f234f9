"""Two connected ttys with an emulated driver each.

A pair of ptys carries the bytes. An :class:`EmulatedDriver` for each has the modem lines, the
break, the error counters and any error that a driver may return. The kernel's null-modem driver
(tty0tty) tests more, where it is loaded.
"""

from __future__ import annotations

import os
import pty
import select
import threading
import tty
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from penstock.serial.testing._driver import EmulatedDriver

__all__ = ["PtyBench", "PtyEnd", "tty0tty_pairs"]

_LARGEST_READ = 65_536


class PtyEnd:
    """One end of the cable: a program opens ``path`` and finds ``driver`` behind it."""

    def __init__(self) -> None:
        self.master, self._follower = pty.openpty()
        tty.setraw(self._follower)
        os.set_blocking(self.master, False)
        self.path = os.ttyname(self._follower)
        self.driver = EmulatedDriver(self.path)

    def unplug(self) -> None:
        """Remove the device: the kernel hangs the tty up, as when an adapter is unplugged."""
        self.driver.unplug()
        master, self.master = self.master, -1
        if master >= 0:
            os.close(master)

    def discard(self) -> None:
        """Unplug it and let the kernel reuse its name."""
        self.unplug()
        follower, self._follower = self._follower, -1
        if follower >= 0:
            os.close(follower)


class PtyBench:
    """Two ttys, ``a`` and ``b``, on a null-modem cable; a context manager.

    A thread moves the bytes. If nobody reads at one end, bytes wait in the cable until the sender's
    tty is full.
    """

    def __init__(self) -> None:
        self.a = PtyEnd()
        self.b = PtyEnd()
        self.a.driver.connect(self.b.driver)
        self._lock = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stopping = False
        self._stack = ExitStack()
        self._cable = threading.Thread(target=self._carry, name="pty bench", daemon=True)

    def __enter__(self) -> PtyBench:
        self._stack.enter_context(self.a.driver.installed())
        self._stack.enter_context(self.b.driver.installed())
        self._cable.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        self._cable.join()
        self._stack.close()
        self.a.discard()
        self.b.discard()
        os.close(self._wake)

    def unplug(self, end: PtyEnd) -> None:
        """Unplug the device of one end."""
        with self._lock:
            end.unplug()
        os.eventfd_write(self._wake, 1)

    def _carry(self) -> None:
        waiting = {self.a: bytearray(), self.b: bytearray()}  # for that end
        while not self._stopping:
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            with self._lock:
                for end, other in ((self.a, self.b), (self.b, self.a)):
                    events = 0 if waiting[other] else select.POLLIN
                    events |= select.POLLOUT if waiting[end] else 0
                    if end.master >= 0 and events:
                        poll.register(end.master, events)
            for fd, _ in poll.poll():
                if fd == self._wake:
                    os.eventfd_read(self._wake)
            with self._lock:
                for end, other in ((self.a, self.b), (self.b, self.a)):
                    self._step(end, waiting[end], waiting[other])

    def _step(self, end: PtyEnd, inbound: bytearray, outbound: bytearray) -> None:
        if end.master < 0:
            inbound.clear()  # unplugged: the bytes are lost
            return
        try:
            if inbound:
                del inbound[: os.write(end.master, inbound)]
        except BlockingIOError:
            pass
        try:
            if not outbound:
                outbound += os.read(end.master, _LARGEST_READ)
        except BlockingIOError:
            pass


def tty0tty_pairs(dev: Path = Path("/dev")) -> list[tuple[str, str]]:
    """Return the null-modem pairs of the tty0tty kernel module, if it is loaded."""
    names = [dev / f"tnt{number}" for number in range(8)]
    pairs = zip(names[::2], names[1::2], strict=True)
    return [(str(a), str(b)) for a, b in pairs if a.exists() and b.exists()]
