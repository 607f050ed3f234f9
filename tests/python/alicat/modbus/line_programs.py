"""Random damage to Modbus lines, both ends judged by a second reading of the bytes.

A program sends requests and replies over a line that loses, adds and changes bytes, cut into
pieces at random. Whatever an end takes for a frame must stand on the line, in order, with a right
checksum or header; neither end may raise another error than its own.

    python -m tests.python.alicat.modbus.line_programs --programs 1000 --seed 1 --gc-threshold 1
"""

from __future__ import annotations

import contextlib
import random
import struct
import sys
import traceback
from collections.abc import Callable

from penstock.alicat import AlicatParseError
from penstock.alicat.modbus import (
    ModbusExceptionError,
    ReadRegisters,
    RtuFraming,
    TcpFraming,
    WriteRegisters,
)
from penstock.sim import ModbusRtuFraming, ModbusTcpFraming

from ..random_programs import main
from .instrument import checksum

FRAMES_A_PROGRAM = 12
Frame = Callable[[int, bytes], bytes]


def rtu(unit: int, pdu: bytes) -> bytes:
    content = bytes([unit]) + pdu
    return content + checksum(content)


def tcp(number: int) -> Frame:
    return lambda unit, pdu: struct.pack(">HHHB", number, 0, 1 + len(pdu), unit) + pdu


def random_request(chance: random.Random) -> ReadRegisters | WriteRegisters:
    address, count = chance.randrange(65000), chance.choice((1, 2, 13, 60))
    if chance.random() < 0.5:
        return ReadRegisters(address, count, input_registers=chance.random() < 0.3)
    return WriteRegisters(address, tuple(chance.randrange(65536) for _ in range(count)))


def random_reply(request: ReadRegisters | WriteRegisters, chance: random.Random) -> bytes:
    if chance.random() < 0.15:
        return bytes([request.encode()[0] | 0x80, chance.randrange(256)])
    if isinstance(request, WriteRegisters):
        return request.encode()[:5]
    return bytes([request.function, 2 * request.count]) + chance.randbytes(2 * request.count)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes of a line after losses, noise and wrong bits."""
    changed = bytearray(data)
    for _ in range(chance.choice((0, 0, 1, 1, 2, 4))):
        place = chance.randrange(len(changed) + 1)
        match chance.randrange(4):
            case 0 if place < len(changed):
                changed[place] ^= 1 << chance.randrange(8)
            case 1:
                changed[place:place] = chance.randbytes(chance.randrange(1, 9))
            case _:
                del changed[place : place + chance.choice((1, 1, 2, 20))]
    return bytes(changed)


def pieces(data: bytes, chance: random.Random) -> list[bytes]:
    found = []
    while data:
        size = chance.choice((1, 3, 8, 40, 400))
        found.append(data[:size])
        data = data[size:]
    return found


def misplaced(line: bytes, frames: list[bytes]) -> str | None:
    """Why these frames are not what stands on the line; None if they are."""
    begin = 0
    for frame in frames:
        at = line.find(frame, begin)
        if at < 0:
            return f"{frame!r} does not stand on {line!r} from {begin} on"
        begin = at + len(frame)
    return None


def of_the_asking_end(chance: random.Random, *, over_tcp: bool) -> str | None:
    framing = TcpFraming() if over_tcp else RtuFraming()
    for _ in range(FRAMES_A_PROGRAM):
        request, unit = random_request(chance), chance.randrange(1, 248)
        sent = framing.frame(unit, request.encode())
        number = int.from_bytes(sent[:2], "big")
        frame = tcp(number) if over_tcp else rtu
        line = damaged(frame(unit, random_reply(request, chance)), chance)
        if not over_tcp and chance.random() < 0.1:
            line = sent + line  # the echo of a two-wire adapter
        taken = []
        for piece in pieces(line, chance):
            framing.feed(piece)
            try:
                while (reply := framing.next_reply()) is not None:
                    taken.append(frame(reply.unit, reply.pdu))
                    with contextlib.suppress(AlicatParseError, ModbusExceptionError):
                        request.decode(reply.pdu)
            except AlicatParseError:
                if framing.clear():
                    return "bytes were kept after an error"
        framing.clear()
        why = misplaced(line, taken)
        if why is not None:
            return why
    return None


def of_the_answering_end(chance: random.Random, *, over_tcp: bool) -> str | None:
    framing = ModbusTcpFraming() if over_tcp else ModbusRtuFraming()
    for number in range(FRAMES_A_PROGRAM):
        frame = tcp(number) if over_tcp else rtu
        bodies = [random_request(chance).encode() for _ in range(chance.randrange(1, 3))]
        line = damaged(b"".join(frame(chance.randrange(1, 248), body) for body in bodies), chance)
        taken = []
        for piece in pieces(line, chance):
            for request in framing.feed(piece, float(number)):
                taken.append(
                    (tcp(request.number) if over_tcp else rtu)(int(request.address), request.body)
                )
                if not 0 <= request.end <= len(piece):
                    return f"a request ends after {request.end} of {len(piece)} bytes"
        framing.reset()
        why = misplaced(line, taken)
        if why is not None:
            return why
    return None


def run_program(seed: int) -> str | None:
    """Run one program; what was wrong, or None."""
    chance = random.Random(f"modbus/{seed}")
    end = of_the_asking_end if chance.random() < 0.5 else of_the_answering_end
    try:
        why = end(chance, over_tcp=chance.random() < 0.5)
    except Exception:
        why = traceback.format_exc()
    return None if why is None else f"program {seed}: {why}"


if __name__ == "__main__":
    sys.exit(main(run_program, __doc__ or ""))
