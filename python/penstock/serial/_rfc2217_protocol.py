"""RFC 2217 without I/O: the COM-PORT commands, and the Telnet layer that carries them.

The Telnet layer is bytes and commands in one stream (RFC 854), and agreeing on options (RFC 1143).
No bytes from a peer raise an error: what is invalid is dropped, as by a
terminal server. A subnegotiation longer than :data:`LONGEST_SUBNEGOTIATION` ends the decoding. Then
:attr:`TelnetDecoder.limit_exceeded` is True, and the connection must be closed.
"""

from __future__ import annotations

import struct
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum, IntFlag, auto

from penstock.serial._values import CommEvent, ErrorCounters, ModemLines
from penstock.serial.config import ByteSize, FlowControl, Parity, SerialConfig, StopBits

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


LONGEST_SUBNEGOTIATION = 1024
"""Bytes of payload. RFC 2217 needs 5, its signatures perhaps a hundred."""

_IAC, _SB, _SE = 255, 250, 240
_IAC_BYTE = b"\xff"


class Verb(IntEnum):
    """The four verbs of an option negotiation."""

    WILL = 251
    WONT = 252
    DO = 253
    DONT = 254


class Option(IntEnum):
    """The options that this package supports; any other is refused."""

    BINARY = 0
    ECHO = 1
    SUPPRESS_GO_AHEAD = 3
    COM_PORT = 44


@dataclass(frozen=True, slots=True)
class Command:
    """A command without argument, such as BRK (243) or AYT (246)."""

    code: int


@dataclass(frozen=True, slots=True)
class Negotiation:
    """A peer's WILL, WONT, DO or DONT."""

    verb: Verb
    option: int


@dataclass(frozen=True, slots=True)
class Subnegotiation:
    """A peer's message for an option, with doubled 255s made single."""

    option: int
    payload: bytes


Event = bytes | Command | Negotiation | Subnegotiation


def escape(data: bytes | bytearray | memoryview) -> bytes:
    """Return ``data`` as it is sent: every 255 doubled."""
    return bytes(data).replace(_IAC_BYTE, b"\xff\xff")


def subnegotiation(option: int, payload: bytes) -> bytes:
    """Return the bytes of one subnegotiation."""
    return bytes((_IAC, _SB, option)) + escape(payload) + bytes((_IAC, _SE))


class _State(Enum):
    DATA = auto()
    COMMAND = auto()
    VERB = auto()
    OPTION = auto()
    PAYLOAD = auto()
    PAYLOAD_COMMAND = auto()


class TelnetDecoder:
    """Splits the stream into data and commands, in whatever pieces it arrives.

    ``limit_exceeded`` is True once a subnegotiation has exceeded its limit. Nothing after that is
    decoded. Otherwise a peer could send one without end.
    """

    def __init__(self) -> None:
        self.limit_exceeded = False
        self._state = _State.DATA
        self._verb = Verb.WILL
        self._option = 0
        self._payload = bytearray()

    def feed(self, received: bytes) -> Iterator[Event]:
        """Yield what ``received`` completes, in order; data in as few pieces as possible.

        Consume the iterator before the next call.
        """
        data = bytearray()
        position, end = 0, len(received)
        while position < end and not self.limit_exceeded:
            if self._state is _State.DATA or self._state is _State.PAYLOAD:
                # The usual case, at the speed of find: plain bytes up to the next 255.
                stop = received.find(_IAC_BYTE, position)
                stop = end if stop < 0 else stop
                if self._state is _State.DATA:
                    data += received[position:stop]
                    after = _State.COMMAND
                else:
                    self._extend(received[position:stop])
                    after = _State.PAYLOAD_COMMAND
                position = stop + 1
                if stop < end:
                    self._state = after
                continue
            byte = received[position]
            position += 1
            if self._state is _State.COMMAND and byte == _IAC:
                data.append(_IAC)
                self._state = _State.DATA
                continue
            event = self._step(byte)
            if event is not None:
                if data:
                    yield bytes(data)
                    data.clear()
                yield event
        if data:
            yield bytes(data)

    def _step(self, byte: int) -> Event | None:
        state, self._state = self._state, _State.DATA
        if state is _State.VERB:
            return Negotiation(self._verb, byte)
        if state is _State.OPTION:
            self._option = byte
            self._payload.clear()
            self._state = _State.PAYLOAD
            return None
        if state is _State.PAYLOAD_COMMAND:
            if byte == _IAC:
                self._state = _State.PAYLOAD
                self._extend(_IAC_BYTE)
                return None
            if byte == _SE:
                return Subnegotiation(self._option, bytes(self._payload))
            # Another command instead of the end: the peer has aborted the subnegotiation.
        return self._command(byte)

    def _extend(self, payload: bytes) -> None:
        if len(self._payload) + len(payload) > LONGEST_SUBNEGOTIATION:
            self.limit_exceeded = True
            self._payload.clear()
        else:
            self._payload += payload

    def _command(self, byte: int) -> Event | None:
        if byte == _SB:
            self._state = _State.OPTION
            return None
        if Verb.WILL <= byte <= Verb.DONT:
            self._verb = Verb(byte)
            self._state = _State.VERB
            return None
        return None if byte == _SE else Command(byte)


class _Side(Enum):
    NO = auto()
    YES = auto()
    ASKED = auto()  # WANTYES of RFC 1143
    REFUSED = auto()  # like NO, but as the peer's answer to a request


class Negotiator:
    """Keeps which options are in force, on this side and on the peer's.

    Answers are sent only on a change of state, so that two such peers cannot negotiate without end
    (RFC 1143). This side never withdraws an option, so RFC 1143's queue states are not needed.
    """

    def __init__(self, offer: frozenset[int], ask: frozenset[int]) -> None:
        """``offer``: options that this side performs if the peer agrees; ``ask``: the peer's."""
        self._offer = offer
        self._ask = ask
        self._ours: dict[int, _Side] = {}
        self._theirs: dict[int, _Side] = {}

    def start(self, offer: frozenset[int], ask: frozenset[int]) -> bytes:
        """Return the first message of a negotiation for these options of either side."""
        message = b""
        for table, options, verb in ((self._ours, offer, Verb.WILL), (self._theirs, ask, Verb.DO)):
            for option in sorted(options):
                table[option] = _Side.ASKED
                message += _say(verb, option)
        return message

    def receive(self, event: Negotiation) -> bytes:
        """Process a message of the peer and return the answer, often none."""
        if event.verb in (Verb.DO, Verb.DONT):
            table, allowed, yes, no = self._ours, self._offer, Verb.WILL, Verb.WONT
        else:
            table, allowed, yes, no = self._theirs, self._ask, Verb.DO, Verb.DONT
        before = table.get(event.option, _Side.NO)
        if event.verb in (Verb.DO, Verb.WILL):
            if event.option not in allowed:
                return _say(no, event.option)
            table[event.option] = _Side.YES
            return _say(yes, event.option) if before in (_Side.NO, _Side.REFUSED) else b""
        table[event.option] = _Side.REFUSED if before is _Side.ASKED else _Side.NO
        return _say(no, event.option) if before is _Side.YES else b""

    def is_agreed(self, option: int) -> bool:
        """Return whether either side performs ``option``: servers differ in which has to."""
        return _Side.YES in (self._ours.get(option), self._theirs.get(option))

    def is_refused(self, option: int) -> bool:
        """Return whether the peer has refused every requested way of performing ``option``."""
        sides = {self._ours.get(option), self._theirs.get(option)} - {None}
        return _Side.REFUSED in sides and sides <= {_Side.REFUSED, _Side.NO}


def _say(verb: Verb, option: int) -> bytes:
    return bytes((_IAC, verb, option))
