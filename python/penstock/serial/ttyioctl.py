"""The kernel's serial-port calls, one function each, all through one seam: :func:`ioctl`.

Everything is an ioctl here, also what ``termios`` offers as a function: ``fcntl.ioctl`` raises
OSError where ``termios`` raises ``termios.error``, which is no OSError and slips through every
``except OSError``. And a test can stand in for a whole driver by replacing :func:`ioctl`.

Numbers come from the ``termios`` module where it has them, and so are right for every
architecture. The few that it lacks are those of asm-generic; :func:`require_known_abi` refuses
the architectures that number them differently.
"""

from __future__ import annotations

import errno
import fcntl
import platform
import struct
import termios

from penstock.serial.exceptions import UnsupportedPlatformError

# asm-generic/ioctls.h: the same on x86, arm, arm64, riscv, s390, loongarch.
TCGETS2 = 0x802C542A
TCSETS2 = 0x402C542B
TIOCSBRK = 0x5427
TIOCCBRK = 0x5428
TIOCGRS485 = 0x542E
TIOCSRS485 = 0x542F
TIOCGEXCL = 0x80045440
TIOCSERGETLSR = 0x5459

TERMIOS2_SIZE = 44
_SERIAL_STRUCT_SIZE = 128  # struct serial_struct is 72 bytes on 64-bit kernels; room to spare
_SERIAL_FLAGS_OFFSET = 16  # type, line, port, irq, flags: five 32-bit words
_RS485_FORMAT = "=3I5I"
_LSR_EMPTY = 0x01  # TIOCSER_TEMT: FIFO and shift register are empty

ASYNC_LOW_LATENCY = 0x2000

_OTHER_ABI = ("mips", "ppc", "powerpc", "sparc", "alpha", "parisc", "hppa", "sh")

_INT = struct.Struct("i")
_ZERO_INT = bytes(4)


def require_known_abi() -> None:
    """Raise UnsupportedPlatformError where the kernel numbers its serial ioctls differently."""
    machine = platform.machine()
    if machine.startswith(_OTHER_ABI):
        raise UnsupportedPlatformError(
            errno.ENOSYS,
            f"serial ports are not supported on {machine} processors; use x86, arm, riscv, "
            "s390x or loongarch",
        )


def ioctl(fd: int, request: int, argument: bytes | bytearray | int = 0) -> bytes:
    """Do one ioctl, again if a signal interrupted it, and return the argument's new bytes."""
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
    return ioctl(fd, TCGETS2, bytes(TERMIOS2_SIZE))


def set_settings(fd: int, settings: bytes) -> None:
    """Apply a raw ``struct termios2`` at once."""
    ioctl(fd, TCSETS2, settings)


def bytes_to_read(fd: int) -> int:
    return _get_int(fd, termios.FIONREAD)


def bytes_to_send(fd: int) -> int:
    """Bytes still in the driver's buffer; those in the chip's FIFO are not counted."""
    return _get_int(fd, termios.TIOCOUTQ)


def transmitter_is_empty(fd: int) -> bool:
    """Whether FIFO and shift register are empty too; few drivers can tell (else ENOTTY)."""
    return bool(_get_int(fd, TIOCSERGETLSR) & _LSR_EMPTY)


def wait_until_sent(fd: int) -> None:
    """Block until the last bit is on the wire (tcdrain)."""
    ioctl(fd, termios.TCSBRK, 1)


def discard_input(fd: int) -> None:
    ioctl(fd, termios.TCFLSH, termios.TCIFLUSH)


def discard_output(fd: int) -> None:
    ioctl(fd, termios.TCFLSH, termios.TCOFLUSH)


def get_lines(fd: int) -> int:
    """Return the TIOCM_* bits."""
    return _get_int(fd, termios.TIOCMGET)


def raise_lines(fd: int, bits: int) -> None:
    ioctl(fd, termios.TIOCMBIS, _INT.pack(bits))


def drop_lines(fd: int, bits: int) -> None:
    ioctl(fd, termios.TIOCMBIC, _INT.pack(bits))


def set_break(fd: int, on: bool) -> None:
    ioctl(fd, TIOCSBRK if on else TIOCCBRK)


def set_exclusive(fd: int, on: bool) -> None:
    """Make the kernel refuse further opens (not those of privileged processes)."""
    ioctl(fd, termios.TIOCEXCL if on else termios.TIOCNXCL)


def is_exclusive(fd: int) -> bool:
    return bool(_get_int(fd, TIOCGEXCL))


def get_driver_flags(fd: int) -> int:
    """Return the ASYNC_* flags of ``struct serial_struct``."""
    answer = ioctl(fd, termios.TIOCGSERIAL, bytes(_SERIAL_STRUCT_SIZE))
    flags: int = _INT.unpack_from(answer, _SERIAL_FLAGS_OFFSET)[0]
    return flags


def set_driver_flags(fd: int, flags: int) -> None:
    """Change the flags alone: read, modify, write."""
    record = bytearray(ioctl(fd, termios.TIOCGSERIAL, bytes(_SERIAL_STRUCT_SIZE)))
    _INT.pack_into(record, _SERIAL_FLAGS_OFFSET, flags)
    ioctl(fd, termios.TIOCSSERIAL, bytes(record))


def get_rs485(fd: int) -> tuple[int, ...]:
    """Return ``struct serial_rs485``: flags, ms before, ms after, five words of address data."""
    return struct.unpack(_RS485_FORMAT, ioctl(fd, TIOCGRS485, bytes(32)))


def set_rs485(fd: int, words: tuple[int, ...]) -> None:
    ioctl(fd, TIOCSRS485, struct.pack(_RS485_FORMAT, *words))
