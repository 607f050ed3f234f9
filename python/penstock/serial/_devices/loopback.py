"""``loop://``: a port whose output is wired to its own input, RTS to CTS and DTR to DSR.

Event loops wait for an eventfd, whose counter can express each state: nothing to read (0),
something to read and room for more (1), and full (its largest value: readable, not writable).
Rejected: a socket pair, one end of which cannot show both that written bytes can be read and that
there is room for more; and a TCP socket connected to itself, which delivers with a delay.
"""

from __future__ import annotations

import os
import struct
import termios

from penstock.serial._devices.stream_backend import LineEvents, StreamBackend, stream_capabilities
from penstock.serial._devices.url import SerialUrl
from penstock.serial._tty.system_calls import PendingIoctl
from penstock.serial._values import ControlLines, LineActivity, ModemLines
from penstock.serial.config import SerialConfig

_CAPACITY = 65_536
_COUNTER = struct.Struct("=Q")
_FULL = (1 << 64) - 2


def open_loop(path: str, config: SerialConfig) -> LoopBackend:
    """Open a ``loop://`` URL."""
    SerialUrl.parse(path, "loop://", frozenset({"logging"}))
    return LoopBackend(path, config)


class LoopBackend(StreamBackend):
    """64 KiB of memory whose bytes are read in the order in which they were written."""

    kind = "a loop"

    def __init__(self, path: str, config: SerialConfig) -> None:
        capabilities = stream_capabilities(
            "loop",
            *("custom_baudrate", "mark_space_parity", "xon_xoff", "rts_cts"),
            *("modem_lines", "break_signal", "input_waiting", "output_waiting"),
        )
        super().__init__(path, config, capabilities)
        self._bytes = bytearray()
        self._counter = 0
        self._rts = self._dtr = True
        self._line_events = LineEvents()
        self.read = self._read
        self.readinto = self._readinto
        self.write = self._write
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def _read(self, size: int) -> bytes:
        with self._mutex:
            self._check_open()
            if not self._bytes:
                raise BlockingIOError
            data = bytes(self._bytes[:size])
            del self._bytes[:size]
            self._show_state()
            return data

    def _readinto(self, buffer: memoryview) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _write(self, data: bytes | memoryview) -> int:
        with self._mutex:
            self._check_open()
            room = _CAPACITY - len(self._bytes)
            if not room:
                raise BlockingIOError
            taken = data[:room]
            self._bytes += taken
            self._show_state()
            return len(taken)

    def input_waiting(self) -> int:
        with self._mutex:
            self._check_open()
            return len(self._bytes)

    def discard_input(self) -> None:
        with self._mutex:
            self._check_open()
            self._bytes.clear()
            self._show_state()

    def modem_lines(self) -> ModemLines:
        self._check_open()
        return ModemLines(cts=self._rts, dsr=self._dtr, ri=False, cd=True)

    def control_lines(self) -> ControlLines:
        self._check_open()
        return ControlLines(rts=self._rts, dtr=self._dtr)

    def set_control_lines(self, rts: bool | None, dtr: bool | None) -> None:
        self._check_open()
        changed = 0
        if rts is not None and rts != self._rts:
            changed |= termios.TIOCM_CTS
        if dtr is not None and dtr != self._dtr:
            changed |= termios.TIOCM_DSR
        self._rts = self._rts if rts is None else rts
        self._dtr = self._dtr if dtr is None else dtr
        self._line_events.notify(changed)

    def line_activity(self) -> LineActivity:
        return self._line_events.activity(self.modem_lines())

    def begin_line_wait(self, mask: int) -> PendingIoctl:
        self._check_open()
        return self._line_events.begin_wait(mask)

    def set_break(self, on: bool) -> None:
        self._check_open()

    def forget_threads(self) -> None:
        """Separate from the parent's loop; the child's continues with a copy of its bytes."""
        super().forget_threads()
        self._line_events.forget_threads()
        # Under the same number, because a poller may have registered it.
        own = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        os.dup2(own, self._fd, inheritable=False)
        os.close(own)
        self._counter = 0
        self._show_state()

    def _show_state(self) -> None:
        wanted = 0 if not self._bytes else _FULL if len(self._bytes) >= _CAPACITY else 1
        if wanted == self._counter:
            return
        if self._counter:
            os.read(self._fd, 8)
        if wanted:
            os.write(self._fd, _COUNTER.pack(wanted))
        self._counter = wanted

    def close(self) -> None:
        with self._mutex:
            fd = self._fd
            super().close()
            if fd >= 0:
                os.close(fd)
