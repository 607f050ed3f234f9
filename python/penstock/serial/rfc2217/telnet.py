"""The telnet layer: bytes and commands in one stream (RFC 854), and agreeing on options (RFC 1143).

No I/O happens here. Nothing that a peer may send raises an error: what makes no sense is dropped,
as a terminal server should. A subnegotiation longer than :data:`LONGEST_SUBNEGOTIATION` ends the
decoding: :attr:`TelnetDecoder.gave_up` tells, and the connection is of no more use.
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
    """The options that this package speaks of; any other is refused."""

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
    """What a peer sent for an option, doubled 255s made single again."""

    option: int
    payload: bytes


Event = bytes | Command | Negotiation | Subnegotiation


def escape(data: bytes | bytearray | memoryview) -> bytes:
    """Return *data* as it travels: every 255 doubled."""
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
    """Takes the stream apart, however it was cut into pieces.

    ``gave_up`` is True once a subnegotiation has exceeded its limit. Nothing behind that is
    decoded: a peer that sends one without end would otherwise be read for as long as it likes.
    """

    def __init__(self) -> None:
        self.gave_up = False
        self._state = _State.DATA
        self._verb = Verb.WILL
        self._option = 0
        self._payload = bytearray()

    def feed(self, received: bytes) -> Iterator[Event]:
        """Yield what *received* completes, in its order; data in as few pieces as possible.

        Consume the iterator before the next call.
        """
        data = bytearray()
        position, end = 0, len(received)
        while position < end and not self.gave_up:
            if self._state is _State.DATA or self._state is _State.PAYLOAD:
                # The usual case, at the speed of find: nothing of meaning up to the next 255.
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
            # Another command where the end should be: the peer gave the subnegotiation up.
        return self._command(byte)

    def _extend(self, payload: bytes) -> None:
        if len(self._payload) + len(payload) > LONGEST_SUBNEGOTIATION:
            self.gave_up = True
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
    REFUSED = auto()  # like NO, but the peer said so after we had asked


class Negotiator:
    """Which options are in force, on our side and on the peer's.

    Answers are sent only on a change of state, so two such peers cannot talk in circles
    (RFC 1143). Options once agreed are never given up by us, so its queue states are not needed.
    """

    def __init__(self, offer: frozenset[int], ask: frozenset[int]) -> None:
        """*offer*: options that we perform if the peer agrees; *ask*: those it may perform."""
        self._offer = offer
        self._ask = ask
        self._ours: dict[int, _Side] = {}
        self._theirs: dict[int, _Side] = {}

    def start(self, offer: frozenset[int], ask: frozenset[int]) -> bytes:
        """Return the opening of a negotiation for these options of ours and of the peer's."""
        message = b""
        for table, options, verb in ((self._ours, offer, Verb.WILL), (self._theirs, ask, Verb.DO)):
            for option in sorted(options):
                table[option] = _Side.ASKED
                message += _say(verb, option)
        return message

    def receive(self, event: Negotiation) -> bytes:
        """Note what the peer said and return the answer, often none."""
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
        """Whether either side performs *option*: servers differ in who has to."""
        return _Side.YES in (self._ours.get(option), self._theirs.get(option))

    def is_refused(self, option: int) -> bool:
        """Whether the peer has refused every way of performing *option* that was asked for."""
        sides = {self._ours.get(option), self._theirs.get(option)} - {None}
        return _Side.REFUSED in sides and sides <= {_Side.REFUSED, _Side.NO}


def _say(verb: Verb, option: int) -> bytes:
    return bytes((_IAC, verb, option))
