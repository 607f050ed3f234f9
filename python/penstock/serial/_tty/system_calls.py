"""The kernel's serial-port calls, one function each; a blocking one can be cancelled.

Every ioctl goes through :func:`ioctl`. Calls that ``termios`` offers as functions are ioctls here
too, for two reasons. ``fcntl.ioctl`` raises OSError, while ``termios`` raises ``termios.error``,
which ``except OSError`` does not catch. And a test can replace a whole driver at this one place:
see :func:`replace_driver`.

Numbers come from the ``termios`` module where it has them, else from
:mod:`penstock.serial._tty.termios2`, so that they are correct on every architecture.

``tcdrain`` and ``TIOCMIWAIT`` block for as long as the far end decides. The extension runs them in
a native thread that can be cancelled inside the system call. Without the extension, or for an
emulated driver, a daemon thread runs them. If that is cancelled, it ends when its call returns.
"""

from __future__ import annotations

import fcntl
import os
import struct
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

from penstock.serial._tty.termios2 import ABI


class DescriptorCalls(NamedTuple):
    """Calls on a descriptor; each raises BlockingIOError instead of waiting."""

    read: Callable[[int], bytes]
    readinto: Callable[[memoryview], int]
    write: Callable[[bytes | memoryview], int]


def descriptor_calls(fd: int) -> DescriptorCalls:
    """Bind the calls to ``fd``, as C functions where the standard library has one."""
    return DescriptorCalls(partial(os.read, fd), partial(_read_into, fd), partial(os.write, fd))


def _read_into(fd: int, buffer: memoryview) -> int:
    return os.readv(fd, [buffer])


_PTY_SLAVE_MAJORS = range(136, 144)  # Linux, Documentation/admin-guide/devices.txt


def is_pty(tty: int | str) -> bool:
    """Return whether a descriptor or a path is a pseudo-terminal; False for a path to nothing."""
    try:
        return os.major(os.stat(tty).st_rdev) in _PTY_SLAVE_MAJORS
    except (OSError, ValueError):
        return False


TCGETS2 = ABI.TCGETS2
TCSETS2 = ABI.TCSETS2
TIOCSBRK = ABI.TIOCSBRK
TIOCCBRK = ABI.TIOCCBRK
TIOCGRS485 = ABI.TIOCGRS485
TIOCSRS485 = ABI.TIOCSRS485
TIOCGEXCL = ABI.TIOCGEXCL
TIOCSERGETLSR = ABI.TIOCSERGETLSR
TIOCMIWAIT = ABI.TIOCMIWAIT
TIOCGICOUNT = ABI.TIOCGICOUNT

_SERIAL_STRUCT_SIZE = 128  # struct serial_struct is 72 bytes on 64-bit kernels; room to spare
SERIAL_FLAGS_OFFSET = 16  # type, line, port, irq, flags: five 32-bit words
_RS485_FORMAT = "=3I5I"
_COUNTERS = struct.Struct("11i9i")  # struct serial_icounter_struct
_LSR_EMPTY = 0x01  # TIOCSER_TEMT: FIFO and shift register are empty

ASYNC_LOW_LATENCY = 0x2000

_INT = struct.Struct("i")
_ZERO_INT = bytes(4)


Driver = Callable[[int, int, bytes | bytearray | int], bytes | None]

_drivers: list[Driver] = []


@contextmanager
def replace_driver(driver: Driver) -> Iterator[None]:
    """Let ``driver`` answer before the kernel for as long as the context lasts.

    ``driver(fd, request, argument)`` returns the argument's new bytes, raises OSError as a real
    driver would, or returns None for a request or a descriptor that it does not handle. If there
    are several, the newest is called first. Meant for tests and simulations; thread-safe.
    """
    _drivers.append(driver)
    try:
        yield
    finally:
        _drivers.remove(driver)


def driver_replaced() -> bool:
    """Return whether any driver is replaced; calls must then come through :func:`ioctl`."""
    return bool(_drivers)


def ioctl(fd: int, request: int, argument: bytes | bytearray | int = 0) -> bytes:
    """Make one ioctl, again if a signal interrupts it; return the argument's new bytes."""
    if _drivers:
        for driver in reversed(_drivers):
            emulated = driver(fd, request, argument)
            if emulated is not None:
                return emulated
    if argument.__class__ is bytearray:
        return kernel_ioctl(fd, request, argument)
    try:
        answer = fcntl.ioctl(fd, request, argument)
    except InterruptedError:
        return kernel_ioctl(fd, request, argument)
    return answer if answer.__class__ is bytes else _INT.pack(answer)


def kernel_ioctl(fd: int, request: int, argument: bytes | bytearray | int = 0) -> bytes:
    """Make one ioctl in the kernel, for a replaced driver that passes a request on."""
    while True:
        try:
            answer = fcntl.ioctl(fd, request, argument)
        except InterruptedError:
            continue
        if isinstance(argument, bytearray):
            return bytes(argument)
        return answer if isinstance(answer, bytes) else _INT.pack(answer)


def _get_int(fd: int, request: int) -> int:
    value: int = _INT.unpack(ioctl(fd, request, _ZERO_INT))[0]
    return value


def get_settings(fd: int) -> bytes:
    """Return the raw ``struct termios2``."""
    return ioctl(fd, TCGETS2, bytes(ABI.termios_size))


def set_settings(fd: int, settings: bytes) -> None:
    """Apply a raw ``struct termios2`` at once."""
    ioctl(fd, TCSETS2, settings)


def bytes_to_read(fd: int) -> int:
    """Bytes in the driver's input buffer."""
    if _native_count is not None and not _drivers:
        return _native_count(fd)
    return _get_int(fd, termios.FIONREAD)


def bytes_to_send(fd: int) -> int:
    """Bytes still in the driver's buffer; those in the chip's FIFO are not counted."""
    return _get_int(fd, termios.TIOCOUTQ)


def transmitter_is_empty(fd: int) -> bool:
    """Whether FIFO and shift register are empty too; few drivers can tell (else ENOTTY)."""
    return bool(_get_int(fd, TIOCSERGETLSR) & _LSR_EMPTY)


def discard_input(fd: int) -> None:
    """Drop what was received and not read."""
    ioctl(fd, termios.TCFLSH, termios.TCIFLUSH)


def discard_output(fd: int) -> None:
    """Drop what was written and not sent."""
    ioctl(fd, termios.TCFLSH, termios.TCOFLUSH)


def get_lines(fd: int) -> int:
    """Return the TIOCM_* bits."""
    return _get_int(fd, termios.TIOCMGET)


def raise_lines(fd: int, bits: int) -> None:
    """Assert the lines of these TIOCM_* bits."""
    ioctl(fd, termios.TIOCMBIS, _INT.pack(bits))


def drop_lines(fd: int, bits: int) -> None:
    """Deassert the lines of these TIOCM_* bits."""
    ioctl(fd, termios.TIOCMBIC, _INT.pack(bits))


def get_counters(fd: int) -> tuple[int, ...]:
    """Return the driver's counts since it began.

    CTS, DSR, RI, CD changes, received, sent, framing errors, overruns, parity errors, breaks,
    buffer overruns.
    """
    return _COUNTERS.unpack(ioctl(fd, TIOCGICOUNT, bytes(_COUNTERS.size)))[:11]


def set_break(fd: int, on: bool) -> None:
    """Begin or end a break condition."""
    ioctl(fd, TIOCSBRK if on else TIOCCBRK)


def set_exclusive(fd: int, on: bool) -> None:
    """Make the kernel refuse further opens (not those of privileged processes)."""
    ioctl(fd, termios.TIOCEXCL if on else termios.TIOCNXCL)


def is_exclusive(fd: int) -> bool:
    """Whether the kernel refuses further opens."""
    return bool(_get_int(fd, TIOCGEXCL))


def get_driver_flags(fd: int) -> int:
    """Return the ASYNC_* flags of ``struct serial_struct``."""
    answer = ioctl(fd, termios.TIOCGSERIAL, bytes(_SERIAL_STRUCT_SIZE))
    flags: int = _INT.unpack_from(answer, SERIAL_FLAGS_OFFSET)[0]
    return flags


def set_driver_flags(fd: int, flags: int) -> None:
    """Change the flags alone: read, modify, write."""
    record = bytearray(ioctl(fd, termios.TIOCGSERIAL, bytes(_SERIAL_STRUCT_SIZE)))
    _INT.pack_into(record, SERIAL_FLAGS_OFFSET, flags)
    ioctl(fd, termios.TIOCSSERIAL, bytes(record))


def get_rs485(fd: int) -> tuple[int, ...]:
    """Return ``struct serial_rs485``: flags, ms before, ms after, five words of address data."""
    return struct.unpack(_RS485_FORMAT, ioctl(fd, TIOCGRS485, bytes(32)))


def set_rs485(fd: int, words: tuple[int, ...]) -> None:
    """Set ``struct serial_rs485``, given as :func:`get_rs485` returns it."""
    ioctl(fd, TIOCSRS485, struct.pack(_RS485_FORMAT, *words))


OpenTty: TypeAlias = tuple[int, bool, bytes, bytes, bytes]
"""A descriptor, whether it has a wire, and the settings: found, asked for, answered."""

_native_count: Callable[[int], int] | None

native_open: Callable[[str, int, int, int, bool], OpenTty | None] | None
"""Opens, locks and configures a tty; None without the extension.

Takes the path, the input flags, the control flags, bits a second and whether to be alone. Returns
None where anything is in the way: nothing is then open, locked or changed.
"""
native_close: Callable[[int, bytes, bool], tuple[int, ...]] | None
"""Closes such a tty: discards what was not sent, restores the settings unless the lock is shared
and another program holds it too, unlocks. Returns the errno of each step that has failed."""

try:
    from penstock._core import IoctlThread
    from penstock._core import close_tty as native_close
    from penstock._core import count_input as _native_count
    from penstock._core import open_tty as native_open
except ImportError:
    _has_native = False
    native_open = native_close = _native_count = None
else:
    _has_native = True


class PendingIoctl(Protocol):
    """A blocking ioctl that has been started."""

    def fileno(self) -> int:
        """Return a descriptor that is readable once the ioctl has returned."""

    def finish(self) -> None:
        """Raise the ioctl's OSError if it failed. Only once :meth:`fileno` is readable."""

    def cancel(self) -> None:
        """End it and close its descriptors. Never blocks. Also needed after :meth:`finish`."""


def begin_ioctl(fd: int, request: int, argument: int) -> PendingIoctl:
    """Start a blocking ioctl with an integer argument on a duplicate of ``fd``."""
    if _has_native and not driver_replaced():
        return IoctlThread(fd, request, argument)
    return _ThreadedIoctl(fd, request, argument)


class _ThreadedIoctl:
    def __init__(self, fd: int, request: int, argument: int) -> None:
        self._error: OSError | None = None
        self._done = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Descriptors of its own, closed by the side that ends last. The thread may outlive the
        # port, and the kernel gives the port's number to the next file that is opened.
        self._users = 2
        self._lock = threading.Lock()
        self._fd = os.dup(fd)
        threading.Thread(
            target=self._run, args=(request, argument), name="penstock.serial ioctl", daemon=True
        ).start()

    def fileno(self) -> int:
        return self._done

    def finish(self) -> None:
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        self._release()

    def _run(self, request: int, argument: int) -> None:
        try:
            ioctl(self._fd, request, argument)
        except OSError as exc:
            self._error = exc
        finally:
            os.eventfd_write(self._done, 1)
            self._release()

    def _release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
        os.close(self._fd)
        os.close(self._done)
