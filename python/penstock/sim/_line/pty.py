"""A simulated bus behind a pseudo-terminal, so that any serial program can open it.

The simulator holds the master side. It also keeps the slave side open, otherwise the master would
report a hang-up whenever the last client closes the port.
"""

from __future__ import annotations

import math
import os
import pty
import shutil
import tempfile
import termios
import tty
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from penstock._plain_task_group import running
from penstock.sim._line.bus import Bus, BusTap

_READ_SIZE: Final = 4096
#: Its index in what ``termios.tcgetattr`` returns.
_OUTPUT_SPEED: Final = 5


class PtyPort:
    """The pseudo-terminal of one bus, without a loop of its own.

    The owner calls ``receive`` when ``fileno`` is readable, and ``transmit`` at the time that it
    returned last; ``open_pty`` does so on AnyIO. Not thread-safe.

    ``link`` is a symbolic link to keep pointing at the port, which gets a new number at every
    replug, as a USB adapter does. A link that exists is replaced; any other file is not:
    FileExistsError. Where the bus's faults unplug the port and no link is given, one is made in a
    directory for temporary files.

    With ``match_baudrate`` the units receive a client's bytes only while the terminal is set to the
    bus's baud rate; at any other rate they stay silent.
    """

    def __init__(
        self,
        bus: Bus | BusTap,
        *,
        link: str | os.PathLike[str] | None = None,
        match_baudrate: bool = False,
    ) -> None:
        self.bus = bus
        self._match_baudrate = match_baudrate
        #: Bytes that were lost because no client read them.
        self.overrun: int = 0
        self._temporary: str | None = None
        if link is None and bus.faults.unplug:
            self._temporary = tempfile.mkdtemp(prefix="penstock-sim-")
            link = Path(self._temporary, "ttySIM0")
        self._link = None if link is None else Path(link)
        self._master = self._slave = -1
        self._slave_path = ""
        self._opened = bus.clock()
        edges = ((b, b + length) for b, length in bus.faults.unplug)
        self._edges = sorted(edge for pair in edges for edge in pair)
        self._passed_edges = 0
        try:
            self.plug()
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> str:
        """The path that a serial program opens."""
        return self._slave_path if self._link is None else str(self._link)

    @property
    def plugged(self) -> bool:
        """Whether the port exists: a program can open it."""
        return self._master >= 0

    def fileno(self) -> int:
        """The master's descriptor, -1 while unplugged."""
        return self._master

    def plug(self) -> None:
        """Create the port. Does nothing if it exists."""
        if self.plugged:
            return
        self._master, self._slave = pty.openpty()
        os.set_blocking(self._master, False)
        # Raw from the beginning: the cooked mode would echo every answer back as a request.
        tty.setraw(self._slave, termios.TCSANOW)
        self._slave_path = os.ttyname(self._slave)
        if self._link is not None:
            if self._link.is_symlink():
                self._link.unlink()
            self._link.symlink_to(self._slave_path)

    def unplug(self) -> None:
        """Remove the port: its clients get a hang-up, and the bytes on the line are lost."""
        if not self.plugged:
            return
        self._remove_link()
        master, slave = self._master, self._slave
        self._master = self._slave = -1
        os.close(slave)
        os.close(master)
        self.bus.disconnect()

    def receive(self, now: float | None = None) -> None:
        """Take what the client has written."""
        if self.bus.congested or not self.plugged:
            return
        with suppress(BlockingIOError):
            data = os.read(self._master, _READ_SIZE)
            if self._hears_the_client():
                self.bus.feed(data, now)

    def transmit(self, now: float | None = None) -> float | None:
        """Write what is due, and return when to call again, None for never.

        A client that does not read loses what its terminal cannot hold, as on a real line.
        """
        if now is None:
            now = self.bus.clock()
        edge = self._follow_faults(now)
        data = self.bus.take_due(now)
        if data and self.plugged:
            sent = 0
            with suppress(BlockingIOError):
                sent = os.write(self._master, data)
            self.overrun += len(data) - sent
        deadline = self.bus.next_deadline()
        if edge is None or deadline is None:
            return edge if deadline is None else deadline
        return min(edge, deadline)

    def close(self) -> None:
        """Remove the port and the link. Idempotent."""
        self.unplug()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def _hears_the_client(self) -> bool:
        # Checked for every piece: a command may change the bus's rate.
        speed = getattr(termios, f"B{self.bus.baudrate}", None) if self._match_baudrate else None
        return speed is None or termios.tcgetattr(self._slave)[_OUTPUT_SPEED] == speed

    def _remove_link(self) -> None:
        # Only if it is still this port's link: another file may have replaced it.
        with suppress(OSError):
            if self._link is not None and os.readlink(self._link) == self._slave_path:
                self._link.unlink()

    def _follow_faults(self, now: float) -> float | None:
        while self._passed_edges < len(self._edges):
            edge = self._opened + self._edges[self._passed_edges]
            if now < edge:
                return edge
            self._passed_edges += 1
            if self._passed_edges % 2:
                self.unplug()
                self.bus.fault_log.add(now, "unplug", "")
            else:
                self.plug()
        return None


@asynccontextmanager
async def open_pty(
    bus: Bus | BusTap,
    *,
    link: str | os.PathLike[str] | None = None,
    match_baudrate: bool = False,
) -> AsyncIterator[str]:
    """Serve the bus on a pseudo-terminal while the context lasts; yields the path to open.

    For ``link`` and ``match_baudrate`` see ``PtyPort``. Runs in a task of the current event loop,
    so a client that blocks the loop also stops the instrument.

    Raises:
        OSError: the system has no pseudo-terminal left.
    """
    port = PtyPort(bus, link=link, match_baudrate=match_baudrate)
    try:
        async with running(partial(_serve, port)):
            yield port.path
    finally:
        port.close()


async def _serve(port: PtyPort) -> None:
    clock = port.bus.clock
    waiting: anyio.CancelScope | None = None

    def wake() -> None:
        # Another port of the line has fed it or taken its bytes: the deadline is another one.
        if waiting is not None:
            waiting.cancel()

    if isinstance(port.bus, BusTap):
        port.bus.wake = wake
    while True:
        deadline = port.transmit()
        seconds = math.inf if deadline is None else max(0.0, deadline - clock())
        waiting = anyio.move_on_after(seconds)
        with waiting:
            if not port.plugged or port.bus.congested:
                await anyio.sleep_forever()
            await anyio.wait_readable(port.fileno())
            port.receive()
        waiting = None
