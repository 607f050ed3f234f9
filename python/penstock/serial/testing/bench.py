"""Two real ttys with a cable between them, and a stand-in for the driver of each.

Where the kernel has a null-modem driver (tty0tty), that tests more. Everywhere else a pair of
ptys carries the bytes, and an :class:`EmulatedDriver` each has the modem lines, the break, the
error counters and whatever error a driver may answer with.
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

from penstock.serial.testing.driver import EmulatedDriver

__all__ = ["PtyBench", "PtyEnd", "tty0tty_pairs"]

_LARGEST_READ = 65_536


class PtyEnd:
    """One end of the cable: ``path`` is what a program opens, ``driver`` what it meets there."""

    def __init__(self) -> None:
        self.master, self._follower = pty.openpty()
        tty.setraw(self._follower)
        os.set_blocking(self.master, False)
        self.path = os.ttyname(self._follower)
        self.driver = EmulatedDriver(self.path)

    def unplug(self) -> None:
        """Take the device away: the kernel hangs the tty up, as when an adapter is pulled out."""
        self.driver.unplug()
        master, self.master = self.master, -1
        if master >= 0:
            os.close(master)

    def discard(self) -> None:
        """Unplug it, and let the kernel give its name to another pty."""
        self.unplug()
        follower, self._follower = self._follower, -1
        if follower >= 0:
            os.close(follower)


class PtyBench:
    """Two ttys, ``a`` and ``b``, on a null-modem cable; a context manager.

    A thread carries the bytes. Bytes for an end that nobody reads wait in the cable, up to what
    the sender's tty then refuses to take.
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
        """Pull one end's device out."""
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
            inbound.clear()  # nobody there: the wire ends in the air
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
