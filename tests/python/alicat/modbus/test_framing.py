"""Frames are made as the specification says, and only whole and sound ones are read."""

from __future__ import annotations

import math
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.alicat import AlicatParseError, AlicatValidationError
from penstock.alicat.modbus import (
    ModbusExceptionCode,
    ModbusExceptionError,
    ReadRegisters,
    RtuFraming,
    TcpFraming,
    WriteRegisters,
)
from penstock.alicat.modbus.protocol import Framing, Reply, crc16, silence_between_frames
from penstock.alicat.modbus.registers import as_float, from_float

from .instrument import checksum

WORDS = st.integers(0, 0xFFFF)
READ_REPLIES = st.lists(WORDS, min_size=1, max_size=125).map(
    lambda words: bytes([3, 2 * len(words)]) + struct.pack(f">{len(words)}H", *words)
)
RECEIPTS = st.tuples(WORDS, st.integers(1, 123)).map(lambda pair: struct.pack(">BHH", 16, *pair))
EXCEPTIONS = st.tuples(st.sampled_from([3, 4, 16]), st.integers(1, 255)).map(
    lambda pair: bytes([pair[0] | 0x80, pair[1]])
)
REPLIES = st.one_of(READ_REPLIES, RECEIPTS, EXCEPTIONS)
UNITS = st.integers(1, 247)


def rtu_frame(unit: int, pdu: bytes) -> bytes:
    content = bytes([unit]) + pdu
    return content + checksum(content)


def tcp_frame(number: int, unit: int, pdu: bytes) -> bytes:
    return struct.pack(">HHHB", number, 0, 1 + len(pdu), unit) + pdu


def replies_of(framing: Framing, pieces: list[bytes]) -> list[Reply]:
    found = []
    for piece in pieces:
        framing.feed(piece)
        while (reply := framing.next_reply()) is not None:
            found.append(reply)
    return found


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def test_checksum_is_that_of_the_specification() -> None:
    assert crc16(b"123456789") == 0x4B37
    frame = RtuFraming().frame(1, ReadRegisters(0, 10).encode())
    assert frame == bytes.fromhex("01 03 00 00 00 0a c5 cd")


@given(st.binary(max_size=300))
def test_checksum_agrees_with_bitwise_division(data: bytes) -> None:
    assert crc16(data).to_bytes(2, "little") == checksum(data)


def test_requests_have_the_bytes_of_the_specification() -> None:
    assert ReadRegisters(1199, 13).encode() == bytes.fromhex("03 04af 000d")
    assert ReadRegisters(1199, 13, input_registers=True).encode() == bytes.fromhex("04 04af 000d")
    assert WriteRegisters(1009, (0x42F0, 0)).encode() == bytes.fromhex("10 03f1 0002 04 42f0 0000")
    assert TcpFraming().frame(7, b"\x03") == bytes.fromhex("0001 0000 0002 07 03")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ReadRegisters(0, 0),
        lambda: ReadRegisters(0, 126),
        lambda: ReadRegisters(65535, 2),
        lambda: ReadRegisters(-1, 1),
        lambda: WriteRegisters(0, ()),
        lambda: WriteRegisters(0, (0,) * 124),
        lambda: WriteRegisters(0, (65536,)),
        lambda: WriteRegisters(0, (-1,)),
    ],
)
def test_impossible_requests_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(AlicatValidationError):
        make()


@given(UNITS, st.lists(REPLIES, min_size=1, max_size=3), st.lists(st.integers(0, 1000), max_size=6))
def test_rtu_replies_are_read_however_their_bytes_arrive(
    unit: int, pdus: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(rtu_frame(unit, pdu) for pdu in pdus)
    assert replies_of(RtuFraming(), pieces_of(data, cuts)) == [Reply(unit, pdu) for pdu in pdus]


@given(UNITS, REPLIES, st.data())
def test_rtu_frame_with_a_wrong_bit_is_no_reply(unit: int, pdu: bytes, data: st.DataObject) -> None:
    frame = bytearray(rtu_frame(unit, pdu))
    # Function and byte count say where the frame ends, so another checksum would be compared.
    places = [place for place in range(len(frame)) if place not in (1, 2)]
    frame[data.draw(st.sampled_from(places))] ^= 1 << data.draw(st.integers(0, 7))
    framing = RtuFraming()
    framing.feed(bytes(frame))
    with pytest.raises(AlicatParseError, match="checksum"):
        framing.next_reply()
    assert framing.clear() == 0


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_rtu_noise_is_refused_or_waited_for(pieces: list[bytes]) -> None:
    framing = RtuFraming()
    framing.frame(1, b"\x03\x00\x00\x00\x01")
    for piece in pieces:
        framing.feed(piece)
        try:
            while (reply := framing.next_reply()) is not None:
                assert reply.pdu[0] & 0x7F
        except AlicatParseError:
            assert framing.clear() == 0
    framing.clear()
    framing.feed(rtu_frame(1, b"\x03\x02\x00\x07"))
    assert framing.next_reply() == Reply(1, b"\x03\x02\x00\x07")


@given(UNITS, st.integers(0, 65000), st.lists(WORDS, min_size=1, max_size=100), st.booleans())
def test_rtu_echo_of_the_request_is_dropped(
    unit: int, address: int, words: list[int], write: bool
) -> None:
    framing = RtuFraming()
    request = WriteRegisters(address, tuple(words)) if write else ReadRegisters(address, len(words))
    echo = framing.frame(unit, request.encode())
    reply = (
        struct.pack(">BHH", 16, address, len(words))
        if write
        else bytes([3, 2 * len(words)]) + struct.pack(f">{len(words)}H", *words)
    )
    assert replies_of(framing, [echo, rtu_frame(unit, reply)]) == [Reply(unit, reply)]


@given(UNITS, st.lists(REPLIES, min_size=1, max_size=3), st.lists(st.integers(0, 1000), max_size=6))
def test_tcp_replies_are_read_however_their_bytes_arrive(
    unit: int, pdus: list[bytes], cuts: list[int]
) -> None:
    framing = TcpFraming()
    framing.frame(unit, b"\x03")
    data = b"".join(tcp_frame(1, unit, pdu) for pdu in pdus)
    assert replies_of(framing, pieces_of(data, cuts)) == [Reply(unit, pdu) for pdu in pdus]


@given(st.integers(0, 70_000), st.integers(1, 0xFFFF), REPLIES, REPLIES)
def test_tcp_reply_to_an_older_request_is_passed_over(
    before: int, back: int, old: bytes, new: bytes
) -> None:
    framing = TcpFraming()
    framing._number = before & 0xFFFF
    framing.frame(1, b"\x03")
    number = (before + 1) & 0xFFFF
    late = tcp_frame((number - back) & 0xFFFF, 1, old)
    assert replies_of(framing, [late + tcp_frame(number, 1, new)]) == [Reply(1, new)]


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_tcp_noise_is_refused_or_waited_for(pieces: list[bytes]) -> None:
    framing = TcpFraming()
    for piece in pieces:
        framing.feed(piece)
        try:
            while framing.next_reply() is not None:
                pass
        except AlicatParseError:
            assert framing.clear() == 0


@given(st.integers(0, 65000), st.lists(WORDS, min_size=1, max_size=125), st.booleans())
def test_read_returns_the_registers_of_its_reply(
    address: int, words: list[int], input_registers: bool
) -> None:
    request = ReadRegisters(address, len(words), input_registers)
    reply = bytes([request.function, 2 * len(words)]) + struct.pack(f">{len(words)}H", *words)
    assert request.decode(reply) == tuple(words)
    with pytest.raises(AlicatParseError):
        ReadRegisters(address, len(words) % 125 + 1, input_registers).decode(reply)


@given(st.one_of(st.binary(max_size=20), REPLIES))
def test_decoding_raises_nothing_but_protocol_errors(pdu: bytes) -> None:
    for request in (ReadRegisters(1199, 13), WriteRegisters(1009, (1, 2))):
        try:
            request.decode(pdu)
        except (AlicatParseError, ModbusExceptionError):
            continue
        assert len(pdu) == (28 if isinstance(request, ReadRegisters) else 5)


def test_receipt_of_other_registers_is_refused() -> None:
    request = WriteRegisters(1009, (1, 2))
    assert request.decode(bytes.fromhex("10 03f1 0002")) == ()
    for other in ("10 03f2 0002", "10 03f1 0001", "03 03f1 0002"):
        with pytest.raises(AlicatParseError):
            request.decode(bytes.fromhex(other))


def test_exception_tells_its_code_and_meaning() -> None:
    with pytest.raises(ModbusExceptionError, match="does not have these registers") as caught:
        ReadRegisters(0, 1).decode(b"\x83\x02")
    assert caught.value.code == 2
    assert caught.value.code is ModbusExceptionCode.ILLEGAL_DATA_ADDRESS
    with pytest.raises(
        ModbusExceptionError, match="Modbus exception 99: the specification"
    ) as caught:
        ReadRegisters(0, 1).decode(b"\x83\x63")
    assert caught.value.code == 99


@given(st.floats(width=32, allow_nan=False))
def test_float_survives_its_registers(value: float) -> None:
    assert from_float(as_float(from_float(value))) == from_float(value)
    assert as_float(from_float(value)) == pytest.approx(value, rel=1e-6)


def test_float_has_the_digits_that_its_registers_can_tell() -> None:
    assert as_float(from_float(14.62)) == 14.62
    assert as_float(from_float(0.1)) == 0.1
    assert as_float((0x7F7F, 0xFFFF)) == pytest.approx(3.4028235e38)
    assert math.isnan(as_float((0x7FC0, 0)))


def test_float_has_its_high_half_first() -> None:
    assert from_float(120.0) == (0x42F0, 0x0000)


def test_silence_between_frames_follows_the_baud_rate() -> None:
    assert silence_between_frames(None) == 0
    assert silence_between_frames(9600) == pytest.approx(0.00401, rel=0.01)
    assert silence_between_frames(115200) == 0.00175
