"""``struct termios2``: from a :class:`SerialConfig` to the kernel's words, and back to compare."""

from __future__ import annotations

import errno
import struct
import termios
from dataclasses import dataclass, replace

from penstock.serial._tty.abi import ABI
from penstock.serial.config import ByteSize, Parity, SerialConfig, StopBits, is_rate_met
from penstock.serial.exceptions import UnsupportedConfigurationError, UnsupportedFeatureError

__all__ = ["LineSettings", "settings_for", "unmet_requests"]

BOTHER = ABI.BOTHER  # the rate is in c_ospeed
CBAUD = ABI.CBAUD
CMSPAR = ABI.CMSPAR

_FLAGS = struct.Struct("=4I")
_RATE = struct.Struct("=I")

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
        iflag, oflag, cflag, lflag = _FLAGS.unpack_from(raw)
        chars = ABI.control_chars_offset
        return cls(
            iflag,
            oflag,
            cflag,
            lflag,
            discipline=raw[ABI.discipline_offset],
            control_chars=raw[chars : chars + ABI.control_chars_count],
            input_rate=_RATE.unpack_from(raw, ABI.input_rate_offset)[0],
            output_rate=_RATE.unpack_from(raw, ABI.output_rate_offset)[0],
        )

    def pack(self) -> bytes:
        raw = bytearray(ABI.termios_size)
        _FLAGS.pack_into(raw, 0, self.iflag, self.oflag, self.cflag, self.lflag)
        raw[ABI.discipline_offset] = self.discipline
        chars = ABI.control_chars_offset
        raw[chars : chars + ABI.control_chars_count] = self.control_chars
        _RATE.pack_into(raw, ABI.input_rate_offset, self.input_rate)
        _RATE.pack_into(raw, ABI.output_rate_offset, self.output_rate)
        return bytes(raw)

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

    chars = bytearray(previous.control_chars)
    # With VMIN 1 a read of 0 bytes always means a hangup; no data is EAGAIN.
    chars[termios.VMIN] = 1
    chars[termios.VTIME] = 0
    chars[termios.VSTART] = _XON
    chars[termios.VSTOP] = _XOFF
    iflag = termios.IXON | termios.IXOFF if flow.xon_xoff else 0
    if config.mark_errors:
        iflag |= termios.PARMRK
        if config.parity is not Parity.NONE:
            iflag |= termios.INPCK
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
        f"{path}: its driver does not support {', '.join(unmet)}; choose another value "
        "(the previous settings are in force again)",
        path,
    )
