"""The packets of MQTT 5.0 that a publisher needs (OASIS MQTT Version 5.0). No I/O in here."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

CONNACK, PUBLISH, PUBACK, SUBACK, PINGRESP, DISCONNECT = 2, 3, 4, 9, 13, 14
PING_REQUEST = b"\xc0\x00"
_RECEIVE_MAXIMUM, _MAXIMUM_QOS, _MAXIMUM_SIZE = 0x21, 0x24, 0x27
_SERVER_KEEP_ALIVE, _REASON_STRING, _RETAIN_AVAILABLE = 0x13, 0x1F, 0x25
# The kinds of properties by identifier (section 2.2.2.2): bytes of an integer, or a letter for
# "variable integer", "string or binary", and "pair of strings".
_PROPERTIES: dict[int, int | str] = {
    0x01: 1, 0x02: 4, 0x03: "s", 0x08: "s", 0x09: "s", 0x0B: "v", 0x11: 4, 0x12: "s", 0x13: 2,
    0x15: "s", 0x16: "s", 0x17: 1, 0x18: 4, 0x19: 1, 0x1A: "s", 0x1C: "s", 0x1F: "s", 0x21: 2,
    0x22: 2, 0x23: 2, 0x24: 1, 0x25: 1, 0x26: "p", 0x27: 4, 0x28: 1, 0x29: 1, 0x2A: 1,
}  # fmt: skip
_LARGEST_PACKET = 1 << 20
LONGEST_TOPIC = 0xFFFF
"""In bytes. Every text has this limit (1.5.4)."""


class Malformed(ValueError):
    """Bytes that are not a packet of MQTT 5."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A packet as it was received: its kind, the four flags, what follows the length."""

    kind: int
    flags: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Welcome:
    """What a broker says to a connection (CONNACK, 3.2)."""

    reason: int
    text: str
    receive_maximum: int
    maximum_qos: int
    maximum_size: int
    keep_alive: int | None
    retains: bool


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What a broker says to a message (PUBACK, 3.4)."""

    packet_id: int
    reason: int


@dataclass(frozen=True, slots=True)
class Message:
    """A message: where it goes, and whether the broker keeps it for later subscribers."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False


def _variable(value: int) -> bytes:
    """A variable byte integer (1.5.5)."""
    encoded = bytearray()
    while True:
        value, digit = value >> 7, value & 0x7F
        encoded.append(digit | 0x80 if value else digit)
        if not value:
            return bytes(encoded)


def _text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    if len(data) > LONGEST_TOPIC:
        raise ValueError(f"a text of {len(data)} bytes is longer than MQTT's 65,535")
    return len(data).to_bytes(2, "big") + data


def _packet(first: int, *pieces: bytes) -> bytes:
    body = b"".join(pieces)
    return bytes([first]) + _variable(len(body)) + body


def connect_packet(
    client: str,
    keep_alive: int,
    will: Message | None = None,
    user: str | None = None,
    password: str | None = None,
) -> bytes:
    """CONNECT (3.1) with a clean start, for a session that ends with the connection."""
    flags = 0x02
    payload = [_text(client)]
    if will is not None:
        flags |= 0x04 | will.qos << 3 | (0x20 if will.retain else 0)
        payload += [b"\0", _text(will.topic), _text(will.payload)]
    if user is not None:
        flags |= 0x80
        payload.append(_text(user))
    if password is not None:
        flags |= 0x40
        payload.append(_text(password))
    head = _text("MQTT") + struct.pack(">BBH", 5, flags, keep_alive)
    return _packet(0x10, head, b"\0", *payload)


def publish_packet(topic: bytes, payload: bytes, packet_id: int, *, retain: bool = False) -> bytes:
    """PUBLISH (3.3); with the packet id 0 it is of QoS 0, else of QoS 1."""
    first = 0x30 | (0x02 if packet_id else 0) | retain
    number = packet_id.to_bytes(2, "big") if packet_id else b""
    return _packet(first, len(topic).to_bytes(2, "big"), topic, number, b"\0", payload)


def subscribe_packet(packet_id: int, topic_filter: str) -> bytes:
    """SUBSCRIBE (3.8) with QoS 1."""
    return _packet(0x82, packet_id.to_bytes(2, "big"), b"\0", _text(topic_filter), b"\x01")


def disconnect_packet(reason: int = 0) -> bytes:
    """DISCONNECT (3.14); with 0x04 the broker sends the will."""
    return _packet(0xE0, bytes([reason, 0]))


class PacketParser:
    """Divides received bytes into packets."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Packet]:
        """Add bytes; the packets that are complete now. Malformed."""
        self._data += data
        while len(self._data) >= 2:
            size, shift, at = 0, 0, 1
            while True:
                if at >= len(self._data):
                    return
                byte = self._data[at]
                size |= (byte & 0x7F) << shift
                at += 1
                if byte < 0x80:
                    break
                shift += 7
                if shift > 21:
                    raise Malformed("a packet's length has more than four bytes")
            if size > _LARGEST_PACKET:
                raise Malformed(f"a packet has {size} bytes")
            if len(self._data) < at + size:
                return
            first, body = self._data[0], bytes(self._data[at : at + size])
            del self._data[: at + size]
            yield Packet(first >> 4, first & 0x0F, body)


def _properties(body: bytes, at: int) -> tuple[dict[int, int | bytes], int]:
    """The properties at a place, and where they end. Those that may repeat are left out."""
    size, at = _read_variable(body, at)
    end = at + size
    if end > len(body):
        raise Malformed("properties are longer than their packet")
    found: dict[int, int | bytes] = {}
    while at < end:
        identifier, at = body[at], at + 1
        kind = _PROPERTIES.get(identifier)
        if kind is None:
            raise Malformed(f"there is no property {identifier}")
        if isinstance(kind, int):
            found[identifier], at = int.from_bytes(body[at : at + kind], "big"), at + kind
        elif kind == "v":
            found[identifier], at = _read_variable(body, at)
        else:
            for _ in range(1 + (kind == "p")):
                length = int.from_bytes(body[at : at + 2], "big")
                found[identifier], at = body[at + 2 : at + 2 + length], at + 2 + length
    if at != end:
        raise Malformed("a property is longer than its packet")
    return found, end


def _read_variable(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(body) or shift > 21:
            raise Malformed("a variable byte integer does not end")
        byte, at = body[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def welcomed(packet: Packet) -> Welcome:
    """Read a CONNACK. Malformed."""
    if packet.kind != CONNACK or len(packet.body) < 2:
        raise Malformed("the broker's first packet is not a CONNACK of MQTT 5")
    found, _ = _properties(packet.body, 2) if len(packet.body) > 2 else ({}, 2)

    def number(identifier: int, otherwise: int) -> int:
        value = found.get(identifier, otherwise)
        return value if isinstance(value, int) else otherwise

    text = found.get(_REASON_STRING, b"")
    keep_alive = number(_SERVER_KEEP_ALIVE, -1)
    return Welcome(
        packet.body[1],
        text.decode(errors="replace") if isinstance(text, bytes) else "",
        number(_RECEIVE_MAXIMUM, 65_535),
        number(_MAXIMUM_QOS, 2),
        number(_MAXIMUM_SIZE, 1 << 28),
        None if keep_alive < 0 else keep_alive,
        number(_RETAIN_AVAILABLE, 1) != 0,
    )


def acknowledged(packet: Packet) -> Acknowledged:
    """Read a PUBACK. Malformed."""
    if len(packet.body) < 2:
        raise Malformed("a PUBACK has no packet id")
    reason = packet.body[2] if len(packet.body) > 2 else 0
    return Acknowledged(int.from_bytes(packet.body[:2], "big"), reason)


def published(packet: Packet) -> tuple[Message, int]:
    """Read a PUBLISH: the message, and its packet id, 0 for QoS 0. Malformed."""
    body, qos = packet.body, packet.flags >> 1 & 3
    size = int.from_bytes(body[:2], "big")
    at = 2 + size
    packet_id = 0
    if qos:
        packet_id, at = int.from_bytes(body[at : at + 2], "big"), at + 2
    _, at = _properties(body, at)
    topic = body[2 : 2 + size].decode(errors="replace")
    return Message(topic, body[at:], qos, bool(packet.flags & 1)), packet_id
