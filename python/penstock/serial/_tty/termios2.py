"""The kernel's serial numbers, and ``struct termios2``: from a :class:`SerialConfig` and back.

The numbers and the layout differ between architectures. The extension takes them from the kernel's
headers. If it is not built, a table of the three most common families is used.
"""

from __future__ import annotations

import errno
import platform
import struct
import termios
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.serial.config import ByteSize, Parity, SerialConfig, StopBits, is_rate_met
from penstock.serial.exceptions import (
    UnsupportedConfigurationError,
    UnsupportedFeatureError,
    UnsupportedPlatformError,
)

_from_headers: Mapping[str, Any] | None
try:
    from penstock._core import serial_abi as _from_headers
except ImportError:
    _from_headers = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SerialAbi:
    """Request numbers, flag bits and the layout of ``struct termios2``, as the kernel names them.

    The four flag words come first on every architecture; the offsets give the place of the rest.
    """

    TCGETS2: int
    TCSETS2: int
    TIOCSBRK: int
    TIOCCBRK: int
    TIOCGRS485: int
    TIOCSRS485: int
    TIOCGEXCL: int
    TIOCSERGETLSR: int
    TIOCMIWAIT: int
    TIOCGICOUNT: int
    CBAUD: int
    BOTHER: int
    CMSPAR: int
    termios_size: int
    discipline_offset: int
    control_chars_offset: int
    control_chars_count: int
    input_rate_offset: int
    output_rate_offset: int
    rates: Mapping[int, int]  # bits a second -> their code in c_cflag


# Not from the termios module: since glibc 2.42 its constants are the rates themselves.
_SLOW_RATES = (
    *(50, 75, 110, 134, 150, 200, 300, 600, 1_200, 1_800, 2_400, 4_800, 9_600, 19_200, 38_400),
)
_FAST_RATES = (
    *(57_600, 115_200, 230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000, 1_152_000),
    *(1_500_000, 2_000_000, 2_500_000, 3_000_000, 3_500_000, 4_000_000),
)


def _rates(fast_from: int) -> dict[int, int]:
    return {
        **{rate: 1 + code for code, rate in enumerate(_SLOW_RATES)},
        **{rate: fast_from + code for code, rate in enumerate(_FAST_RATES)},
    }


# asm-generic: x86, arm, arm64, riscv, s390, loongarch and more.
_GENERIC = SerialAbi(
    TCGETS2=0x802C542A,
    TCSETS2=0x402C542B,
    TIOCSBRK=0x5427,
    TIOCCBRK=0x5428,
    TIOCGRS485=0x542E,
    TIOCSRS485=0x542F,
    TIOCGEXCL=0x80045440,
    TIOCSERGETLSR=0x5459,
    TIOCMIWAIT=0x545C,
    TIOCGICOUNT=0x545D,
    CBAUD=0o010017,
    BOTHER=0o010000,
    CMSPAR=0o10000000000,
    termios_size=44,
    discipline_offset=16,
    control_chars_offset=17,
    control_chars_count=19,
    input_rate_offset=36,
    output_rate_offset=40,
    rates=_rates(0o010001),
)
_MIPS = replace(
    _GENERIC,
    TCGETS2=0x4030542A,
    TCSETS2=0x8030542B,
    TIOCGRS485=0x4020542E,
    TIOCSRS485=0xC020542F,
    TIOCGEXCL=0x40045440,
    TIOCSERGETLSR=0x548E,
    TIOCMIWAIT=0x5491,
    TIOCGICOUNT=0x5492,
    termios_size=48,
    control_chars_count=23,
    input_rate_offset=40,
    output_rate_offset=44,
)
# PowerPC has no termios2: its struct termios holds the rates, and TCGETS and TCSETS use it.
_POWERPC = replace(
    _GENERIC,
    TCGETS2=0x402C7413,
    TCSETS2=0x802C7414,
    TIOCGEXCL=0x40045440,
    CBAUD=0xFF,
    BOTHER=0x1F,
    discipline_offset=35,
    control_chars_offset=16,
    rates=_rates(0x10),
)
_NOT_IN_TABLE = ("sparc", "alpha", "parisc", "hppa", "sh")


def abi_by_table(machine: str) -> SerialAbi | None:
    """Return the numbers of a processor as ``platform.machine()`` names it, None if unknown."""
    if machine.startswith("mips"):
        return _MIPS
    if machine.startswith(("ppc", "powerpc")):
        return _POWERPC
    return None if machine.startswith(_NOT_IN_TABLE) else _GENERIC


def _find(headers: Mapping[str, Any] | None) -> SerialAbi | None:
    return abi_by_table(platform.machine()) if headers is None else SerialAbi(**headers)


_found = _find(_from_headers)
ABI = _found or _GENERIC


def require_known_abi() -> None:
    """Raise UnsupportedPlatformError where the kernel's numbers are not known."""
    if _found is None:
        raise UnsupportedPlatformError(
            errno.ENOSYS,
            f"serial ports need Penstock's extension on {platform.machine()} processors; install "
            "a build that has it",
        )


BOTHER = ABI.BOTHER  # the rate is in c_ospeed
CBAUD = ABI.CBAUD
CMSPAR = ABI.CMSPAR

_DISCIPLINE_FIRST = ABI.discipline_offset < ABI.control_chars_offset


def _layout(abi: SerialAbi) -> struct.Struct:
    """Return the layout of ``struct termios2``; the line discipline's place is the ABI's."""
    fields = sorted(
        [
            (0, "4I", 16),
            (abi.discipline_offset, "B", 1),
            (abi.control_chars_offset, f"{abi.control_chars_count}s", abi.control_chars_count),
            (abi.input_rate_offset, "I", 4),
            (abi.output_rate_offset, "I", 4),
        ]
    )
    form, end = "=", 0
    for offset, code, size in fields:
        form += "x" * (offset - end) + code
        end = offset + size
    return struct.Struct(form + "x" * (abi.termios_size - end))


_LAYOUT = _layout(ABI)

_SIZE_BITS = {
    ByteSize.FIVE: termios.CS5,
    ByteSize.SIX: termios.CS6,
    ByteSize.SEVEN: termios.CS7,
    ByteSize.EIGHT: termios.CS8,
}
_PARITY_BITS = {
    Parity.NONE: 0,
    Parity.EVEN: termios.PARENB,
    Parity.ODD: termios.PARENB | termios.PARODD,
    Parity.SPACE: termios.PARENB | CMSPAR,
    Parity.MARK: termios.PARENB | termios.PARODD | CMSPAR,
}
_PARITY_KIND_MASK = termios.PARODD | CMSPAR
_XON, _XOFF = 0x11, 0x13


@dataclass(frozen=True, slots=True)
class LineSettings:
    """The fields of ``struct termios2``, unpacked."""

    iflag: int
    oflag: int
    cflag: int
    lflag: int
    discipline: int
    control_chars: bytes
    input_rate: int
    output_rate: int

    @classmethod
    def unpack(cls, raw: bytes) -> LineSettings:
        iflag, oflag, cflag, lflag, fifth, sixth, input_rate, output_rate = _LAYOUT.unpack(raw)
        if not _DISCIPLINE_FIRST:
            fifth, sixth = sixth, fifth
        return cls(iflag, oflag, cflag, lflag, fifth, sixth, input_rate, output_rate)

    def pack(self) -> bytes:
        fifth, sixth = self.discipline, self.control_chars
        flags = self.iflag, self.oflag, self.cflag, self.lflag
        if _DISCIPLINE_FIRST:
            return _LAYOUT.pack(*flags, fifth, sixth, self.input_rate, self.output_rate)
        return _LAYOUT.pack(*flags, sixth, fifth, self.input_rate, self.output_rate)

    def with_hangup(self, on: bool) -> LineSettings:
        cflag = self.cflag | termios.HUPCL if on else self.cflag & ~termios.HUPCL
        return replace(self, cflag=cflag)


def settings_for(config: SerialConfig, previous: LineSettings, path: str) -> LineSettings:
    """Return the raw-mode settings for ``config``.

    Every flag word is written as a whole, so that nothing an earlier user of the tty left set
    (character translation, parity checking, echo) remains. Only the line discipline and the control
    characters that have no effect in raw mode are those of ``previous``.

    Raises :class:`UnsupportedFeatureError` for what no Linux driver offers.
    """
    iflag, cflag = raw_flags(config, path)
    chars = bytearray(previous.control_chars)
    # With VMIN 1 a read of 0 bytes always means a hangup; no data is EAGAIN.
    chars[termios.VMIN] = 1
    chars[termios.VTIME] = 0
    chars[termios.VSTART] = _XON
    chars[termios.VSTOP] = _XOFF
    return LineSettings(
        iflag=iflag,
        oflag=0,
        cflag=cflag,
        lflag=0,
        discipline=previous.discipline,
        control_chars=bytes(chars),
        input_rate=config.baudrate,
        output_rate=config.baudrate,
    )


def raw_flags(config: SerialConfig, path: str) -> tuple[int, int]:
    """Return the input and the control flags of ``config``; the others are 0 in raw mode.

    Raises :class:`UnsupportedFeatureError` for what no Linux driver offers.
    """
    flow = config.flow_control
    if flow.dtr_dsr:
        raise UnsupportedFeatureError(
            errno.ENOTSUP,
            f"{path}: Linux has no DTR/DSR flow control; use FlowControl(rts_cts=True) or none",
            path,
        )
    if config.stop_bits is StopBits.ONE_POINT_FIVE:
        raise UnsupportedFeatureError(
            errno.ENOTSUP,
            f"{path}: Linux has no 1.5 stop bits; use StopBits.TWO, which every receiver "
            "of 1.5 accepts",
            path,
        )
    cflag = termios.CREAD | termios.CLOCAL
    cflag |= _SIZE_BITS[config.byte_size] | _PARITY_BITS[config.parity]
    if config.stop_bits is StopBits.TWO:
        cflag |= termios.CSTOPB
    if flow.rts_cts:
        cflag |= termios.CRTSCTS
    if config.hangup_on_close:
        cflag |= termios.HUPCL
    # A standard rate is set by its constant, so that other programs read it back correctly:
    # glibc's tcgetattr does not know BOTHER. 0 in the input rate's bits means the output rate.
    cflag |= ABI.rates.get(config.baudrate, BOTHER)

    iflag = termios.IXON | termios.IXOFF if flow.xon_xoff else 0
    if config.mark_errors:
        iflag |= termios.PARMRK
        if config.parity is not Parity.NONE:
            iflag |= termios.INPCK
    return iflag, cflag


def unmet_requests(wanted: LineSettings, actual: LineSettings, *, has_wire: bool) -> list[str]:
    """Return the names of the settings that the driver did not accept.

    The system call reports success if the driver accepted any of them. On a pty, which has no
    wire, the character format is not compared: its driver always keeps 8 bits without parity, and
    no bit is ever sent.
    """
    unmet = []
    if not is_rate_met(wanted.output_rate, actual.output_rate):
        unmet.append(f"{wanted.output_rate} baud (it set {actual.output_rate})")
    differing = wanted.cflag ^ actual.cflag
    if has_wire:
        if differing & termios.CSIZE:
            unmet.append("the data bits")
        kind_matters = wanted.cflag & termios.PARENB
        if differing & termios.PARENB or (kind_matters and differing & _PARITY_KIND_MASK):
            unmet.append("the parity")
        if differing & termios.CSTOPB:
            unmet.append("the stop bits")
    if differing & termios.CRTSCTS:
        unmet.append("RTS/CTS flow control")
    if (wanted.iflag ^ actual.iflag) & (termios.IXON | termios.IXOFF):
        unmet.append("XON/XOFF flow control")
    return unmet


def refused_error(path: str, unmet: list[str]) -> UnsupportedConfigurationError:
    return UnsupportedConfigurationError(
        errno.EINVAL,
        f"{path}: the driver does not support {', '.join(unmet)}; choose another value "
        "(the previous settings are in force again)",
        path,
    )
