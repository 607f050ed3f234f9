"""Two ports in memory, connected like two machines on a null-modem cable, and their faults."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import termios
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.serial._devices.stream_backend import LineEvents, SocketBackend, stream_capabilities
from penstock.serial._port.port import SerialPort
from penstock.serial._tty.system_calls import PendingIoctl
from penstock.serial._values import ControlLines, ErrorCounters, LineActivity, ModemLines
from penstock.serial.config import SerialConfig
from penstock.serial.exceptions import SerialError


@dataclass
class FaultPlan:
    """The faults of one :class:`MockBackend`; change its attributes at any time.

    The counts go down, and ``raise_eio_on_read`` becomes False, as the faults happen. A fault of
    reading wakes a waiting reader.

    Attributes:
        eagain_reads: The next N reads report EAGAIN.
        eagain_writes: The next N writes report EAGAIN.
        eintr_reads: The next N reads are interrupted by a signal and repeated.
        eintr_writes: The next N writes are interrupted by a signal and repeated.
        short_write_max: The most bytes that one write accepts.
        disconnected: Every call reports that the device is gone, until this is False again.
        raise_eio_on_read: The next read fails, as on a tty that was hung up.
        parity_errors: The next N reads raise SerialError and are counted; the port stays usable.
    """

    eagain_reads: int = 0
    eagain_writes: int = 0
    eintr_reads: int = 0
    eintr_writes: int = 0
    short_write_max: int | None = None
    disconnected: bool = False
    raise_eio_on_read: bool = False
    parity_errors: int = 0

    _on_failure: Callable[[], None] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if name in ("disconnected", "raise_eio_on_read", "parity_errors") and value:
            wake = getattr(self, "_on_failure", None)
            if wake is not None:
                wake()

    def use(self, name: str) -> bool:
        """Return whether the count ``name`` is above 0, and subtract 1 if so."""
        left: int = getattr(self, name)
        if left > 0:
            setattr(self, name, left - 1)
        return left > 0


class MockBackend(SocketBackend):
    """A serial device without hardware: one end of a pair; see :meth:`pair`.

    What one end sends, the other receives. RTS drives the peer's CTS, DTR its DSR and CD; both are
    released at first. Settings are stored and have no other effect. ``faults`` makes it fail.
    """

    kind = "a simulated port"
    is_plain_descriptor = False
    never_blocks = False

    def __init__(self, path: str, sock: socket.socket) -> None:
        capabilities = stream_capabilities(
            "mock",
            *("custom_baudrate", "mark_space_parity", "one_point_five_stop_bits"),
            *("xon_xoff", "rts_cts", "dtr_dsr", "modem_lines", "break_signal"),
            *("exclusive_access", "low_latency", "rs485", "input_waiting", "output_waiting"),
        )
        super().__init__(path, SerialConfig(), capabilities, sock)
        self.faults: FaultPlan = FaultPlan()
        self.faults._on_failure = self._wake
        self._peer: MockBackend | None = None
        self._rts = self._dtr = False
        self._parity_errors = 0
        self._opened = False
        # How many bytes precede the one that woke a reader; None if there is none.
        self._before_wake_up: int | None = None
        self._line_events = LineEvents()
        self._break = False
        self.last_config: SerialConfig | None = None
        """The settings of the last ``open`` or ``configure``, None before the first."""
        self.read: Callable[[int], bytes] = self._read
        self.readinto: Callable[[memoryview], int] = self._readinto
        self.write: Callable[[bytes | memoryview], int] = self._write

    @classmethod
    def pair(
        cls, *, path_a: str = "/dev/mockA", path_b: str = "/dev/mockB"
    ) -> tuple[MockBackend, MockBackend]:
        """Return two ends; wrap each in a :class:`SerialPort`, or use :func:`serial_port_pair`."""
        sockets = socket.socketpair()
        a, b = cls(path_a, sockets[0]), cls(path_b, sockets[1])
        a._peer, b._peer = b, a
        return a, b

    def open(self, path: str, config: SerialConfig) -> None:
        """Set the path and settings, for callers that construct the port themselves; call once."""
        if self._opened:
            raise RuntimeError(f"{self.path} is open already")
        self._opened = True
        self.path: str = path or self.path
        self.config = self.last_config = config

    @property
    def is_open(self) -> bool:
        """Whether this end is open."""
        return self._fd >= 0

    @property
    def break_asserted(self) -> bool:
        """Whether this end holds the line in the break state."""
        return self._break

    def _read(self, size: int) -> bytes:
        fd = self._readable_descriptor()
        data = os.read(
            fd, size if self._before_wake_up is None else min(size, self._before_wake_up)
        )
        self._have_read(len(data))
        return data

    def _readinto(self, buffer: memoryview) -> int:
        fd = self._readable_descriptor()
        count = os.readv(fd, [buffer[: self._before_wake_up]])
        self._have_read(count)
        return count

    def _readable_descriptor(self) -> int:
        """Apply the faults of reading, and return the descriptor."""
        self._check_connected()
        faults = self.faults
        if faults.raise_eio_on_read:
            faults.raise_eio_on_read = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if faults.use("parity_errors"):
            self._parity_errors += 1
            raise SerialError(errno.EIO, f"{self.path}: parity error", self.path)
        while faults.use("eintr_reads"):
            pass  # Python repeats an interrupted call itself (PEP 475)
        if faults.use("eagain_reads"):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        fd = self._descriptor()
        if self._before_wake_up == 0:
            os.read(fd, 1)
            self._before_wake_up = None
        return fd

    def _have_read(self, count: int) -> None:
        if self._before_wake_up is not None:
            self._before_wake_up -= count

    def _write(self, data: bytes | memoryview) -> int:
        self._check_connected()
        while self.faults.use("eintr_writes"):
            pass
        if self.faults.use("eagain_writes"):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        most = self.faults.short_write_max
        return os.write(self._descriptor(), data if most is None else data[:most])

    def configure(self, config: SerialConfig) -> None:
        """Store the settings, which have no other effect.

        Raises:
            SerialClosedError: this end is closed.
            SerialDisconnectedError: the fault plan has unplugged it.
        """
        self._check_connected()
        super().configure(config)
        self.last_config = config

    def modem_lines(self) -> ModemLines:
        """The modem lines that the peer drives; all are low when the peer is closed.

        Raises:
            SerialClosedError: this end is closed.
            SerialDisconnectedError: the fault plan has unplugged it.
        """
        self._check_connected()
        peer = self._peer
        there = peer is not None and peer.is_open
        rts, dtr = (peer._rts, peer._dtr) if there and peer is not None else (False, False)
        return ModemLines(cts=rts, dsr=dtr, ri=False, cd=dtr)

    def control_lines(self) -> ControlLines:
        """RTS and DTR as this end drives them.

        Raises:
            SerialClosedError: this end is closed.
            SerialDisconnectedError: the fault plan has unplugged it.
        """
        self._check_connected()
        return ControlLines(rts=self._rts, dtr=self._dtr)

    def set_control_lines(self, rts: bool | None, dtr: bool | None) -> None:
        """Drive RTS and DTR, which the peer sees as CTS, DSR and CD; None leaves a line as it is.

        Raises:
            SerialClosedError: this end is closed.
            SerialDisconnectedError: the fault plan has unplugged it.
        """
        self._check_connected()
        changed = 0
        if rts is not None and rts != self._rts:
            changed |= termios.TIOCM_CTS
        if dtr is not None and dtr != self._dtr:
            changed |= termios.TIOCM_DSR | termios.TIOCM_CD
        self._rts = self._rts if rts is None else rts
        self._dtr = self._dtr if dtr is None else dtr
        if self._peer is not None and changed:
            self._peer._line_events.notify(changed)

    def line_activity(self) -> LineActivity:
        """The modem lines, and how often each has changed.

        Raises:
            SerialClosedError: this end is closed.
            SerialDisconnectedError: the fault plan has unplugged it.
        """
        return self._line_events.activity(self.modem_lines())

    def begin_line_wait(self, mask: int) -> PendingIoctl:
        """Begin a wait for a change of the modem lines in ``mask`` (TIOCM_*).

        Raises:
            SerialClosedError: this end is closed.
            SerialDisconnectedError: the fault plan has unplugged it.
        """
        self._check_connected()
        return self._line_events.begin_wait(mask)

    def error_counters(self) -> ErrorCounters:
        """Return zeros, except for the parity errors of the fault plan."""
        self._check_connected()
        return ErrorCounters(
            received=0,
            sent=0,
            framing_errors=0,
            parity_errors=self._parity_errors,
            overruns=0,
            buffer_overruns=0,
            breaks=0,
        )

    def set_break(self, on: bool) -> None:
        """Begin or end the break state, which the peer does not see.

        Raises:
            SerialClosedError: this end is closed.
            SerialDisconnectedError: the fault plan has unplugged it.
        """
        self._check_connected()
        self._break = on

    def input_waiting(self) -> int:
        """The number of bytes that can be received at once.

        Raises:
            SerialClosedError: this end is closed.
            SerialDisconnectedError: the fault plan has unplugged it.
        """
        self._check_connected()
        return super().input_waiting() - (self._before_wake_up is not None)

    def output_waiting(self) -> int:
        """Return 0: written bytes have arrived."""
        self._check_connected()
        return 0

    def discard_output(self) -> None:
        """Do nothing: written bytes have arrived.

        Raises:
            SerialClosedError: this end is closed.
            SerialDisconnectedError: the fault plan has unplugged it.
        """
        self._check_connected()

    def close(self) -> None:
        """Close this end; the peer receives what was sent, and then the end of its input."""
        self._break = False
        super().close()

    def _descriptor(self) -> int:
        self._check_open()
        return self._fd

    def _check_connected(self) -> None:
        self._check_open()
        if self.faults.disconnected:
            self._disconnected()

    def _refuse_unsupported(self, config: SerialConfig) -> None:
        """Do nothing: a simulated port accepts every optional setting, without effect."""

    def _wake(self) -> None:
        self._line_events.end_waits()
        # A byte from the peer's side wakes a waiting reader, which then meets the fault. After the
        # fault the byte is removed again.
        peer = self._peer
        if peer is None or not (peer.is_open and self.is_open) or self._before_wake_up is not None:
            return
        before = super().input_waiting()
        # If there is no room, the port is readable already.
        with contextlib.suppress(BlockingIOError):
            os.write(peer._fd, b"\0")
            self._before_wake_up = before


def serial_port_pair(
    *,
    config_a: SerialConfig | None = None,
    config_b: SerialConfig | None = None,
    path_a: str = "/dev/mockA",
    path_b: str = "/dev/mockB",
) -> tuple[SerialPort, SerialPort]:
    """Return two open ports that are connected to each other; close both."""
    a, b = MockBackend.pair(path_a=path_a, path_b=path_b)
    a.open(path_a, SerialConfig() if config_a is None else config_a)
    b.open(path_b, SerialConfig() if config_b is None else config_b)
    return SerialPort(a, a.config), SerialPort(b, b.config)


def faults_of(port: SerialPort) -> FaultPlan:
    """Return the fault plan of a port of a pair; TypeError for any other port."""
    backend = getattr(port, "_device", None)
    if not isinstance(backend, MockBackend):
        raise TypeError(f"{port!r} is not a port of serial_port_pair(): it cannot be made to fail")
    return backend.faults
