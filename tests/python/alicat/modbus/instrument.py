"""A Modbus instrument for tests: a table of registers behind either framing.

Written from the specification apart from the code under test, checksum included, so that a mistake
of one is not a mistake of both.
"""

from __future__ import annotations

import os
import pty
import struct
import tty
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream

_COMMAND, _SETPOINT, _MIX, _GAS, _STATUS = 999, 1009, 1049, 1199, 1200
_MEASURED = {1202: 14.62, 1204: 21.89, 1206: 0.0, 1208: 0.0, 1210: 0.0}
_HOLD_BIT = 1 << 8


def checksum(data: bytes) -> bytes:
    remainder = 0xFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            carry = remainder & 1
            remainder >>= 1
            if carry:
                remainder ^= 0xA001
    return bytes([remainder & 0xFF, remainder >> 8])


class Instrument:
    """A mass-flow controller whose flow follows its setpoint at once."""

    def __init__(self, unit: int = 1) -> None:
        self.unit = unit
        self.words = dict.fromkeys((_COMMAND, _COMMAND + 1, _STATUS, _STATUS + 1), 0)
        self.words.update(dict.fromkeys(range(_MIX, _MIX + 10), 0))
        self.words[_GAS] = 8
        self.mixes: dict[int, dict[int, int]] = {}
        for address, value in {_SETPOINT: 0.0, **_MEASURED}.items():
            self.put_float(address, value)
        self.ignores_setpoint = False
        self.requests: list[bytes] = []
        self.counts_reads = False
        self.reads = 0

    def put_float(self, address: int, value: float) -> None:
        self.words[address], self.words[address + 1] = struct.unpack(
            ">HH", struct.pack(">f", value)
        )

    def float_at(self, address: int) -> float:
        pair = struct.pack(">HH", self.words[address], self.words[address + 1])
        return float(struct.unpack(">f", pair)[0])

    @property
    def setpoint(self) -> float:
        return self.float_at(_SETPOINT)

    def answer(self, pdu: bytes) -> bytes:
        self.requests.append(pdu)
        function, address, count = struct.unpack_from(">BHH", pdu)
        if any(address + i not in self.words for i in range(count)):
            return bytes([function | 0x80, 2])
        if function in (3, 4):
            self.reads += 1
            if self.counts_reads:
                self.put_float(1208, float(self.reads))
            words = [self.words[address + i] for i in range(count)]
            return bytes([function, 2 * count]) + struct.pack(f">{count}H", *words)
        if function != 16:
            return bytes([function | 0x80, 1])
        written = struct.unpack_from(f">{count}H", pdu, 6)
        if address == _SETPOINT:
            if not self.ignores_setpoint:
                self.words.update({_SETPOINT + i: word for i, word in enumerate(written)})
                for follower in (1206, 1208, 1210):
                    self.put_float(follower, self.setpoint)
        elif address == _MIX:
            self.words.update({_MIX + i: word for i, word in enumerate(written)})
        elif address == _COMMAND:
            self.words[_COMMAND] = written[0]
            self.words[_COMMAND + 1] = self._execute(*written)
        else:
            return bytes([function | 0x80, 2])
        return pdu[:5]

    def _execute(self, command: int, argument: int) -> int:
        match command:
            case 1:
                if argument > 255:
                    return 32770
                self.words[_GAS] = argument
            case 2:
                words = [self.words[_MIX + i] for i in range(10)]
                mix = {gas: part for gas, part in zip(words[::2], words[1::2], strict=True) if part}
                if any(gas > 210 for gas in mix):
                    return 32773
                if sum(mix.values()) != 10_000:
                    return 32774
                self.mixes[argument] = mix
                return argument
            case 3:
                return 0 if self.mixes.pop(argument, None) else 32772
            case 4:
                if argument == 1:
                    return 32771
                self.put_float(1208, 0.0)
            case 6:
                held = argument != 0
                self.words[_STATUS + 1] = _HOLD_BIT if held else 0
            case 5 | 7:
                pass
            case _:
                return 32769
        return 0


class RtuServer:
    """Instruments on a line: bytes of requests in, bytes of replies out."""

    def __init__(self, *instruments: Instrument) -> None:
        self.instruments = {one.unit: one for one in instruments}
        self._buffer = b""

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        replies = b""
        while len(self._buffer) >= 8:
            size = 9 + self._buffer[6] if self._buffer[1] == 16 else 8
            if len(self._buffer) < size:
                break
            frame, self._buffer = self._buffer[:size], self._buffer[size:]
            assert frame[-2:] == checksum(frame[:-2])
            if frame[0] in self.instruments:
                content = frame[:1] + self.instruments[frame[0]].answer(frame[1:-2])
                replies += content + checksum(content)
        return replies


class TcpServer:
    """The same behind the header of Modbus TCP."""

    def __init__(self, *instruments: Instrument) -> None:
        self.instruments = {one.unit: one for one in instruments}
        self._buffer = b""

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        replies = b""
        while len(self._buffer) >= 6:
            number, protocol, length = struct.unpack_from(">HHH", self._buffer)
            assert protocol == 0
            if len(self._buffer) < 6 + length:
                break
            frame, self._buffer = self._buffer[6 : 6 + length], self._buffer[6 + length :]
            if frame[0] in self.instruments:
                content = frame[:1] + self.instruments[frame[0]].answer(frame[1:])
                replies += struct.pack(">HHH", number, 0, len(content)) + content
        return replies


class Line(ByteStream):
    """A connection in memory that does to replies what a test says."""

    def __init__(self, server: RtuServer | TcpServer) -> None:
        self.server = server
        self.late: deque[bytes] = deque()
        self.hold_next = 0
        self.releases_on_receive = False
        self.spoil_next = False
        self.echoes = False
        self.closed = False
        self._arrived = b""
        self._changed = anyio.Event()

    async def send(self, item: bytes) -> None:
        if self.closed:
            raise anyio.ClosedResourceError
        await anyio.lowlevel.checkpoint()
        reply = self.server.feed(bytes(item))
        if self.echoes:
            self.put(bytes(item))
        if self.hold_next:
            self.hold_next -= 1
            self.late.append(reply)
        elif self.spoil_next:
            self.spoil_next = False
            self.put(reply[:-1] + bytes([reply[-1] ^ 1]))
        else:
            self.put(reply)

    def release(self) -> None:
        """Let the replies that were held back arrive."""
        while self.late:
            self.put(self.late.popleft())

    def put(self, data: bytes) -> None:
        self._arrived += data
        self._changed.set()
        self._changed = anyio.Event()

    def input_waiting(self) -> int:
        return len(self._arrived)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await anyio.lowlevel.checkpoint()
        if self.releases_on_receive:
            self.release()
        while not self._arrived:
            if self.closed:
                raise anyio.ClosedResourceError
            await self._changed.wait()
        # In small pieces, as an adapter hands them over.
        piece, self._arrived = self._arrived[:5], self._arrived[5:]
        return piece

    async def send_eof(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        self.closed = True
        self.put(b"")


@asynccontextmanager
async def on_pty(server: RtuServer | TcpServer) -> AsyncIterator[str]:
    """Serve on a pseudo-terminal; yields its path."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)

    async def serve() -> None:
        while True:
            await anyio.wait_readable(master)
            os.write(master, server.feed(os.read(master, 4096)))

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            yield os.ttyname(slave)
            tasks.cancel_scope.cancel()
    finally:
        os.close(master)
        os.close(slave)


@asynccontextmanager
async def on_tcp(server: RtuServer | TcpServer) -> AsyncIterator[str]:
    """Serve on a TCP port; yields its address."""

    async def serve(client: SocketStream) -> None:
        async with client:
            async for data in client:
                await client.send(server.feed(data))

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"tcp://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        tasks.cancel_scope.cancel()
