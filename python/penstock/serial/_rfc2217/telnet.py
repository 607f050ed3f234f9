"""The telnet layer: bytes and commands in one stream (RFC 854), and agreeing on options (RFC 1143).

No I/O happens here. No bytes from a peer raise an error: what is invalid is dropped, as by a
terminal server. A subnegotiation longer than :data:`LONGEST_SUBNEGOTIATION` ends the decoding. Then
:attr:`TelnetDecoder.limit_exceeded` is True, and the connection must be closed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum, auto

__all__ = [
    "LONGEST_SUBNEGOTIATION",
    "Command",
    "Negotiation",
    "Negotiator",
    "Option",
    "Subnegotiation",
    "TelnetDecoder",
    "Verb",
    "escape",
    "subnegotiation",
]

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
            # Another command in place of the end: the peer has aborted the subnegotiation.
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
