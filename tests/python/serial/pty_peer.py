"""The peer of a port under test: the controlling side of a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import termios
import tty
from collections.abc import Callable
from types import TracebackType
from typing import Any

import anyio
import anyio.lowlevel


class PtyPeer:
    """A pty. The port opens ``path``; this object is the far end of the wire."""

    def __init__(self) -> None:
        self.fd, follower = pty.openpty()
        self.path = os.ttyname(follower)
        # A mode that no port uses, so that a missing restore is detected.
        self.found_as = termios.tcgetattr(follower)
        self._follower = follower
        os.set_blocking(self.fd, False)

    def write(self, data: bytes) -> None:
        assert os.write(self.fd, data) == len(data)

    async def read(self, count: int) -> bytes:
        """Return exactly ``count`` bytes that the port sent."""
        data = b""
        while len(data) < count:
            try:
                data += os.read(self.fd, count - len(data))
            except BlockingIOError:
                await anyio.wait_readable(self.fd)
        return data

    def nothing_sent(self) -> bool:
        try:
            os.read(self.fd, 1)
        except BlockingIOError:
            return True
        return False

    def settings(self) -> list[Any]:
        return termios.tcgetattr(self._follower)

    def raw(self) -> None:
        """Make the tty raw, for tests without a port that does it."""
        tty.setraw(self._follower)

    def make_settings_odd(self) -> list[Any]:
        """Set modes that an earlier program may have left: translation, parity marking, echo."""
        settings = self.settings()
        settings[tty.IFLAG] |= termios.PARMRK | termios.INPCK | termios.ISTRIP | termios.INLCR
        settings[tty.CC][termios.VMIN] = b"\x07"
        termios.tcsetattr(self._follower, termios.TCSANOW, settings)
        return self.settings()

    def is_exclusive(self) -> bool:
        answer = fcntl.ioctl(self._follower, 0x80045440, bytes(4))
        return answer != bytes(4)

    def unplug(self) -> None:
        """Close the far end; the kernel then hangs up the tty, as for an unplugged adapter."""
        if self._follower >= 0:
            os.close(self._follower)
            self._follower = -1
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> PtyPeer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.unplug()


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks run until ``condition`` is true."""
    with anyio.fail_after(60):
        while not condition():
            await anyio.lowlevel.checkpoint()


def received(peer: PtyPeer, count: int) -> bytes:
    """The next ``count`` bytes that the port sends, in however many parts they come."""
    data = b""
    while len(data) < count:
        ready, _, _ = select.select([peer.fd], [], [], 60)
        assert ready, f"{data!r} and no more"
        data += os.read(peer.fd, count - len(data))
    return data
