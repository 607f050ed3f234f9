"""Two connected ttys, each with a UART driver emulated at the ioctl.

A pty moves bytes, but it has no modem lines, no break, no output queue, no RS-485, no driver
flags and no error counters. An :class:`EmulatedDriver` answers those requests from its own state
and lets all others through to the pty. Two of them can be wired together like two machines on a
null-modem cable.

Where the kernel module tty0tty is loaded, its ports test more: they have a real driver.
"""

from __future__ import annotations

import errno
import os
import pty
import select
import struct
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from penstock.serial._tty import system_calls

Argument = bytes | bytearray | int

_INT = struct.Struct("i")
_COUNTERS = struct.Struct("11i9i")
_INPUT_LINES = termios.TIOCM_CTS | termios.TIOCM_DSR | termios.TIOCM_RI | termios.TIOCM_CD
_COUNTER_OF_LINE = {
    termios.TIOCM_CTS: "cts",
    termios.TIOCM_DSR: "dsr",
    termios.TIOCM_RI: "rng",
    termios.TIOCM_CD: "dcd",
}
_COUNTER_NAMES = (
    "cts",
    "dsr",
    "rng",
    "dcd",
    "rx",
    "tx",
    "frame",
    "overrun",
    "parity",
    "brk",
    "buf_overrun",
)


class EmulatedDriver:
    """The state of one emulated UART; a test may read and write every attribute.

    With a ``path``, only descriptors of that tty are handled, else all. :meth:`set_lines` may be
    called from any thread.

    Attributes:
        lines: TIOCM_* bits that the port sees.
        counters: The counters of TIOCGICOUNT, by their kernel names.
        output_queue: Unsent bytes, as TIOCOUTQ reports them.
        breaking: Whether a break is being sent.
        flags: ASYNC_* of ``struct serial_struct``.
        rs485: The words of ``struct serial_rs485``.
        fail: The errno with which a request fails.
        on_request: Called with each request before it is handled.
        requests: All requests so far.
    """

    def __init__(self, path: str | None = None) -> None:
        self._device = None if path is None else os.stat(path).st_rdev
        self._changed = threading.Condition()
        self._removed = False
        self._unplugged = False
        self._far_end: EmulatedDriver | None = None
        self.lines: int = 0
        self.breaking: bool = False
        self.output_queue: int = 0
        self.discarded_output: int = 0
        self.transmitter_empty: bool | None = True
        self.flags: int = 0
        # bus termination and an address, to be kept
        self.rs485: tuple[int, ...] = (0x20, 0, 0, 7, 0, 0, 0, 0)
        self.has_rs485 = True
        self.has_flags = True
        self.has_counters = True
        self.counters: dict[str, int] = dict.fromkeys(_COUNTER_NAMES, 0)
        self.fail: dict[int, int] = {}  # request -> errno
        self.on_request: Callable[[int], None] = lambda request: None
        self.requests: list[int] = []

    @contextmanager
    def installed(self) -> Iterator[EmulatedDriver]:
        """Answer the package's ioctls for as long as the context lasts."""
        self._removed = False
        try:
            with system_calls.replace_driver(self.ioctl):
                yield self
        finally:
            with self._changed:
                self._removed = True  # otherwise a wait for a line would never end
                self._changed.notify_all()

    def unplug(self) -> None:
        """Answer every request with EIO from now on, as the kernel does on a tty that hung up."""
        with self._changed:
            self._unplugged = True
            self._changed.notify_all()

    def connect(self, other: EmulatedDriver) -> None:
        """Wire two drivers like a null-modem cable: RTS to CTS, DTR to DSR and CD, both ways."""
        self._far_end, other._far_end = other, self
        self._drive_far_end()
        other._drive_far_end()

    def set_lines(self, mask: int, state: int) -> None:
        """Set the lines in ``mask`` to those in ``state``; count the changes and end the waits."""
        with self._changed:
            before = self.lines
            self.lines = (before & ~mask) | (state & mask)
            for line, name in _COUNTER_OF_LINE.items():
                # A ring counts when it ends, as 8250's trailing-edge interrupt does.
                fell = before & ~self.lines & line
                changed = (before ^ self.lines) & line
                if fell if line == termios.TIOCM_RI else changed:
                    self.counters[name] += 1
            self._changed.notify_all()

    def ioctl(self, fd: int, request: int, argument: Argument = 0) -> bytes | None:
        """Handle one request; returns None if the pty is to handle it."""
        if self._device is not None and os.fstat(fd).st_rdev != self._device:
            return None
        self.requests.append(request)
        self.on_request(request)
        if self._unplugged:
            raise _error(errno.EIO)
        if request in self.fail:
            raise _error(self.fail[request])
        handler = self._handlers().get(request)
        return None if handler is None else handler(fd, argument)

    def _handlers(self) -> dict[int, Callable[[int, Argument], bytes]]:
        return {
            termios.TIOCMGET: lambda fd, arg: _INT.pack(self.lines),
            termios.TIOCMBIS: self._raise_lines,
            termios.TIOCMBIC: self._drop_lines,
            system_calls.TIOCMIWAIT: self._wait_for_lines,
            system_calls.TIOCGICOUNT: self._get_counters,
            system_calls.TIOCSBRK: lambda fd, arg: self._set_break(True),
            system_calls.TIOCCBRK: lambda fd, arg: self._set_break(False),
            termios.TIOCOUTQ: lambda fd, arg: _INT.pack(self.output_queue),
            termios.TCFLSH: self._flush,
            system_calls.TIOCSERGETLSR: self._line_status,
            termios.TIOCGSERIAL: self._get_serial,
            termios.TIOCSSERIAL: self._set_serial,
            system_calls.TIOCGRS485: self._get_rs485,
            system_calls.TIOCSRS485: self._set_rs485,
        }

    def _raise_lines(self, fd: int, argument: Argument) -> bytes:
        bits = _int_of(argument)
        self.set_lines(bits, bits)
        self._drive_far_end()
        return _INT.pack(bits)

    def _drop_lines(self, fd: int, argument: Argument) -> bytes:
        bits = _int_of(argument)
        self.set_lines(bits, 0)
        self._drive_far_end()
        return _INT.pack(bits)

    def _drive_far_end(self) -> None:
        if self._far_end is None:
            return
        seen = 0
        if self.lines & termios.TIOCM_RTS:
            seen |= termios.TIOCM_CTS
        if self.lines & termios.TIOCM_DTR:
            seen |= termios.TIOCM_DSR | termios.TIOCM_CD
        self._far_end.set_lines(termios.TIOCM_CTS | termios.TIOCM_DSR | termios.TIOCM_CD, seen)

    def _wait_for_lines(self, fd: int, argument: Argument) -> bytes:
        names = [name for line, name in _COUNTER_OF_LINE.items() if _int_of(argument) & line]

        def seen() -> list[int]:
            return [self.counters[name] for name in names]

        with self._changed:
            before = seen()
            self._changed.wait_for(lambda: seen() != before or self._removed or self._unplugged)
            if self._unplugged:
                raise _error(errno.EIO)
        return bytes(4)

    def _get_counters(self, fd: int, argument: Argument) -> bytes:
        if not self.has_counters:
            raise _error(errno.ENOTTY)
        values = [self.counters[name] for name in _COUNTER_NAMES]
        return _COUNTERS.pack(*values, *[0] * 9)

    def _set_break(self, on: bool) -> bytes:
        self.breaking = on
        return bytes(4)

    def _flush(self, fd: int, argument: Argument) -> bytes:
        if argument == termios.TCOFLUSH:
            self.discarded_output += self.output_queue
            self.output_queue = 0
        return system_calls.kernel_ioctl(fd, termios.TCFLSH, argument)

    def _line_status(self, fd: int, argument: Argument) -> bytes:
        if self.transmitter_empty is None:
            raise _error(errno.ENOTTY)
        return _INT.pack(int(self.transmitter_empty))

    def _get_serial(self, fd: int, argument: Argument) -> bytes:
        if not self.has_flags:
            raise _error(errno.ENOTTY)
        record = bytearray(_bytes_of(argument))
        _INT.pack_into(record, system_calls.SERIAL_FLAGS_OFFSET, self.flags)
        return bytes(record)

    def _set_serial(self, fd: int, argument: Argument) -> bytes:
        record = _bytes_of(argument)
        self.flags = _INT.unpack_from(record, system_calls.SERIAL_FLAGS_OFFSET)[0]
        return record

    def _get_rs485(self, fd: int, argument: Argument) -> bytes:
        if not self.has_rs485:
            raise _error(errno.ENOTTY)
        return struct.pack("=8I", *self.rs485)

    def _set_rs485(self, fd: int, argument: Argument) -> bytes:
        if not self.has_rs485:
            raise _error(errno.ENOTTY)
        self.rs485 = struct.unpack("=8I", _bytes_of(argument))
        return _bytes_of(argument)


def _int_of(argument: Argument) -> int:
    if isinstance(argument, int):
        return argument
    value: int = _INT.unpack(argument)[0]
    return value


def _bytes_of(argument: Argument) -> bytes:
    if isinstance(argument, int):
        raise _error(errno.EFAULT)
    return bytes(argument)


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


_LARGEST_READ = 65_536


class PtyEnd:
    """One end of the cable: a program opens ``path`` and finds ``driver`` behind it."""

    def __init__(self) -> None:
        self.master: int
        self.master, self._follower = pty.openpty()
        tty.setraw(self._follower)
        os.set_blocking(self.master, False)
        self.path: str = os.ttyname(self._follower)
        self.driver: EmulatedDriver = EmulatedDriver(self.path)

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
        self.a: PtyEnd = PtyEnd()
        self.b: PtyEnd = PtyEnd()
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
