"""RFC 2217: the commands of the COM-PORT option and the meaning of their values."""

from __future__ import annotations

import struct
import termios
from enum import IntEnum, IntFlag

from penstock.serial._values import CommEvent, ErrorCounters, ModemLines
from penstock.serial.config import ByteSize, FlowControl, Parity, SerialConfig, StopBits

__all__ = [
    "ANSWER",
    "BAUDRATE",
    "Control",
    "LineState",
    "ModemState",
    "PortCommand",
    "Purge",
    "byte_size_code",
    "flow_code",
    "flow_of",
    "parity_code",
    "parity_of",
    "stop_bits_code",
    "stop_bits_of",
]

ANSWER = 100
"""A server's answer has its command's number plus this."""

BAUDRATE = struct.Struct("!I")


class PortCommand(IntEnum):
    """From the client; a server's have :data:`ANSWER` added."""

    SIGNATURE = 0
    SET_BAUDRATE = 1
    SET_DATASIZE = 2
    SET_PARITY = 3
    SET_STOPSIZE = 4
    SET_CONTROL = 5
    NOTIFY_LINESTATE = 6
    NOTIFY_MODEMSTATE = 7
    FLOWCONTROL_SUSPEND = 8
    FLOWCONTROL_RESUME = 9
    SET_LINESTATE_MASK = 10
    SET_MODEMSTATE_MASK = 11
    PURGE_DATA = 12


class Control(IntEnum):
    """Values of SET_CONTROL."""

    ASK_FLOW = 0
    FLOW_NONE = 1
    FLOW_XON_XOFF = 2
    FLOW_HARDWARE = 3
    ASK_BREAK = 4
    BREAK_ON = 5
    BREAK_OFF = 6
    ASK_DTR = 7
    DTR_ON = 8
    DTR_OFF = 9
    ASK_RTS = 10
    RTS_ON = 11
    RTS_OFF = 12
    ASK_INBOUND_FLOW = 13
    INBOUND_FLOW_NONE = 14
    INBOUND_FLOW_XON_XOFF = 15
    INBOUND_FLOW_HARDWARE = 16
    FLOW_DCD = 17
    INBOUND_FLOW_DTR = 18
    FLOW_DSR = 19


class Purge(IntFlag):
    """Values of PURGE_DATA: which of the server's buffers to empty."""

    RECEIVED = 1
    UNSENT = 2


class ModemState(IntFlag):
    """The lines, and which of them changed since the last notification."""

    CTS_CHANGED = 1
    DSR_CHANGED = 2
    RI_ENDED = 4
    CD_CHANGED = 8
    CTS = 16
    DSR = 32
    RI = 64
    CD = 128

    @classmethod
    def of(cls, lines: ModemLines, before: ModemLines | None = None) -> ModemState:
        """The state of ``lines``, with the changes from ``before``."""
        state = cls(0)
        for name, bit in (("cts", cls.CTS), ("dsr", cls.DSR), ("ri", cls.RI), ("cd", cls.CD)):
            if getattr(lines, name):
                state |= bit
        if before is None:
            return state
        if lines.cts != before.cts:
            state |= cls.CTS_CHANGED
        if lines.dsr != before.dsr:
            state |= cls.DSR_CHANGED
        if before.ri and not lines.ri:  # the trailing edge, as a 16450 reports it
            state |= cls.RI_ENDED
        if lines.cd != before.cd:
            state |= cls.CD_CHANGED
        return state

    @classmethod
    def of_event(cls, event: CommEvent | None) -> ModemState:
        """Return the changes in ``event``."""
        state = cls(0)
        if event is not None:
            state |= cls.CTS_CHANGED if event.cts_changed else state
            state |= cls.DSR_CHANGED if event.dsr_changed else state
            state |= cls.RI_ENDED if event.ring else state
            state |= cls.CD_CHANGED if event.rlsd_changed else state
        return state

    def changed_bits(self) -> int:
        """The lines that changed, as TIOCM_* bits."""
        return sum(bit for change, bit in _CHANGES.items() if change in self)

    def lines(self) -> ModemLines:
        return ModemLines(
            cts=bool(self & ModemState.CTS),
            dsr=bool(self & ModemState.DSR),
            ri=bool(self & ModemState.RI),
            cd=bool(self & ModemState.CD),
        )


_CHANGES = {
    ModemState.CTS_CHANGED: termios.TIOCM_CTS,
    ModemState.DSR_CHANGED: termios.TIOCM_DSR,
    ModemState.RI_ENDED: termios.TIOCM_RI,
    ModemState.CD_CHANGED: termios.TIOCM_CD,
}


class LineState(IntFlag):
    """The line status of a 16450."""

    DATA_READY = 1
    OVERRUN = 2
    PARITY_ERROR = 4
    FRAMING_ERROR = 8
    BREAK = 16
    HOLDING_REGISTER_EMPTY = 32
    SHIFT_REGISTER_EMPTY = 64
    TIMEOUT = 128
    ERRORS = OVERRUN | PARITY_ERROR | FRAMING_ERROR | BREAK

    @classmethod
    def between(cls, before: ErrorCounters, after: ErrorCounters) -> LineState:
        """Return which errors a driver has counted between two readings."""
        state = cls(0)
        for name, bit in _COUNTED.items():
            if getattr(before, name) != getattr(after, name):
                state |= bit
        return state


_COUNTED = {
    "overruns": LineState.OVERRUN,
    "buffer_overruns": LineState.OVERRUN,
    "parity_errors": LineState.PARITY_ERROR,
    "framing_errors": LineState.FRAMING_ERROR,
    "breaks": LineState.BREAK,
}


_PARITIES = (Parity.NONE, Parity.ODD, Parity.EVEN, Parity.MARK, Parity.SPACE)  # 1 to 5
_STOP_BITS = (StopBits.ONE, StopBits.TWO, StopBits.ONE_POINT_FIVE)  # 1 to 3


def byte_size_code(config: SerialConfig) -> int:
    """Return the value that RFC 2217 has for the byte size."""
    return int(ByteSize(config.byte_size))


def parity_code(config: SerialConfig) -> int:
    """Return the value that RFC 2217 has for the parity."""
    return 1 + _PARITIES.index(config.parity)


def parity_of(code: int) -> Parity | None:
    """Return the parity of a value; None for one that RFC 2217 does not define."""
    return _PARITIES[code - 1] if 1 <= code <= len(_PARITIES) else None


def stop_bits_code(config: SerialConfig) -> int:
    """Return the value that RFC 2217 has for the stop bits."""
    return 1 + _STOP_BITS.index(config.stop_bits)


def stop_bits_of(code: int) -> StopBits | None:
    """Return the stop bits of a value; None for one that RFC 2217 does not define."""
    return _STOP_BITS[code - 1] if 1 <= code <= len(_STOP_BITS) else None


_FLOWS = {
    Control.FLOW_NONE: FlowControl(),
    Control.FLOW_XON_XOFF: FlowControl(xon_xoff=True),
    Control.FLOW_HARDWARE: FlowControl(rts_cts=True),
    Control.FLOW_DSR: FlowControl(dtr_dsr=True),
}


def flow_code(flow: FlowControl) -> Control | None:
    """Return the SET_CONTROL value of ``flow``; None if RFC 2217 has none (two at once)."""
    return next((code for code, meaning in _FLOWS.items() if meaning == flow), None)


def flow_of(code: int) -> FlowControl | None:
    """Return what a SET_CONTROL value asks for; None if this package does not support it."""
    return next((flow for known, flow in _FLOWS.items() if known == code), None)
