"""Ports that carry bytes in both directions under random disturbances.

    python benchmarks/serial_ports/soak.py --loop penstock --seconds 600

The port receives one endless stream that is known in advance. All receive functions take turns and
are cancelled at random; the stream must arrive complete. The port sends frames, each terminated by
a NUL. A cancelled send has written an unknown part of its frame, which the next NUL terminates. The
far end must find all frames in order, complete or truncated by a cancelled send, and nothing else.
The far end is a separate process at the pace of the line. Settings change meanwhile.

Prints one JSON line; fails at the first unexpected byte.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

import anyio

from benchmarks.measured_program import exit_code
from benchmarks.serial_ports.libraries import imported, run
from benchmarks.serial_ports.ptys import PtyPair

BAUDRATE = 921_600
BYTES_PER_SECOND = BAUDRATE // 10
PATTERN_SIZE = 1_000_003  # prime, so that the loss of a power of two of bytes is detected
LONGEST_FRAME = 3000
PACE = 0.005


def pattern(port: int) -> bytes:
    """The endless stream to a port. It has no NUL, so that frames can use it too."""
    source = random.Random(port)
    return bytes(source.choices(range(1, 256), k=PATTERN_SIZE))


def frame(stream: bytes, number: int) -> bytes:
    """The content of a port's frame with that number."""
    begin = number * 7919 % (PATTERN_SIZE - LONGEST_FRAME)
    return stream[begin : begin + 1 + number * 31 % LONGEST_FRAME]


@dataclass
class FarEnd:
    """The state of the far end of one port."""

    fd: int
    stream: bytes
    sent: int = 0
    received: int = 0
    frames: int = 0
    pending: bytearray = field(default_factory=bytearray)
    cut: list[int] = field(default_factory=list)

    def send(self, elapsed: float) -> None:
        """Send at the pace of the line; what does not fit into a full buffer is sent later."""
        due = int(elapsed * BYTES_PER_SECOND) - self.sent
        begin = self.sent % PATTERN_SIZE
        chunk = self.stream[begin : begin + min(due, 4096)]
        if chunk:
            try:
                self.sent += os.write(self.fd, chunk)
            except BlockingIOError:
                return

    def receive(self) -> bool:
        """Read available bytes and check each completed frame; returns whether there were any."""
        try:
            data = os.read(self.fd, 65_536)
        except BlockingIOError:
            return False
        self.received += len(data)
        self.pending += data
        *ended, rest = self.pending.split(b"\0")
        self.pending = bytearray(rest)
        for content in ended:
            expected = frame(self.stream, self.frames)
            if bytes(content) != expected:
                if not expected.startswith(bytes(content)):
                    raise AssertionError(f"frame {self.frames} is damaged")
                self.cut.append(self.frames)
            self.frames += 1
        return True


def far_ends(pairs: list[PtyPair], seconds: float, report: int, stop: int) -> None:
    """The process of the far ends: it sends for *seconds*, and receives until *stop* ends."""
    ends = {pair.fd: FarEnd(pair.fd, pattern(number)) for number, pair in enumerate(pairs)}
    poll = select.epoll()
    for fd in (*ends, stop):
        poll.register(fd, select.EPOLLIN)
    begin = time.monotonic()
    ending = False
    while not ending:
        for fd, _ in poll.poll(PACE):
            if fd == stop:
                ending = True
            else:
                ends[fd].receive()
        elapsed = min(time.monotonic() - begin, seconds)
        for end in ends.values():
            end.send(elapsed)
    for end in ends.values():
        while end.receive():
            pass
    totals = [
        {"sent": end.sent, "received": end.received, "frames": end.frames, "cut": end.cut}
        for end in ends.values()
    ]
    os.write(report, json.dumps(totals).encode())


@dataclass
class NearEnd:
    """One port under test and its disturbances."""

    number: int
    port: Any
    received: int = 0
    cancelled_receives: int = 0
    cancelled_sends: list[int] = field(default_factory=list)
    frames: int = 0
    reconfigurations: int = 0

    def __post_init__(self) -> None:
        self.stream = pattern(self.number)
        self.random = random.Random(1000 + self.number)

    def check(self, data: bytes) -> None:
        """Compare received bytes with the stream and advance in it."""
        begin = self.received % PATTERN_SIZE
        expected = self.stream[begin : begin + len(data)]
        expected += self.stream[: len(data) - len(expected)]
        if data != expected:
            raise AssertionError(
                f"port {self.number}: the stream breaks after {self.received} bytes"
            )
        self.received += len(data)

    async def receive_once(self) -> None:
        """Receive by one of the functions, cancelled after a random time."""
        way = self.random.randrange(5)
        size = self.random.choice((1, 7, 64, 1000, 65_536))
        data = b""
        with anyio.move_on_after(self.random.choice((0, 0.0002, 0.002, 0.02))) as scope:
            if way == 0:
                data = await self.port.receive(size)
            elif way == 1:
                buffer = bytearray(size)
                data = bytes(buffer[: await self.port.receive_into(buffer)])
            elif way == 2:
                data = await self.port.receive_available()
            elif way == 3:
                data = await self.port.receive_exactly(min(size, 64))
            else:
                delimiter = bytes([self.random.randrange(1, 256)])
                with suppress(anyio.DelimiterNotFound):
                    data = await self.port.receive_until(delimiter, 300) + delimiter
        self.cancelled_receives += scope.cancelled_caught
        self.check(data)

    async def send_once(self) -> None:
        """Send the next frame; some sends are cancelled halfway."""
        content = frame(self.stream, self.frames)
        with anyio.move_on_after(self.random.choice((0, 0.0005, 1, 1))) as scope:
            await self.port.send(content)
        if scope.cancelled_caught:
            self.cancelled_sends.append(self.frames)
        await self.port.send(b"\0")
        self.frames += 1
        await anyio.sleep(len(content) / BYTES_PER_SECOND)

    async def reconfigure(self) -> None:
        """Change settings that do not affect the bytes."""
        await anyio.sleep(self.random.uniform(0, 0.2))
        await self.port.configure(
            self.port.config.with_changes(
                baudrate=self.random.choice((9600, 115_200, 460_800, BAUDRATE)),
                exclusive=self.random.random() < 0.5,
                hangup_on_close=self.random.random() < 0.5,
                read_chunk_size=self.random.choice((64, 4096, 65_536)),
            )
        )
        self.reconfigurations += 1


def have_done(ends: list[NearEnd], least: int) -> bool:
    """Whether *least* bytes have arrived and each kind of disturbance has occurred."""
    return (
        sum(end.received for end in ends) >= least
        and any(end.cancelled_receives for end in ends)
        and any(end.cancelled_sends for end in ends)
        and any(end.reconfigurations for end in ends)
    )


async def soak(
    pairs: list[PtyPair], seconds: float, least: int | None, all_sent: Any
) -> list[NearEnd]:
    """Disturb all ports for *seconds*, then receive the rest and wait until everything has arrived.

    With *least*, continue until so many bytes have arrived and each disturbance has occurred.
    """
    serial = imported("penstock.serial")
    config = serial.SerialConfig(baudrate=BAUDRATE)
    ends = [
        NearEnd(number, await serial.open_serial_port(pair.path, config))
        for number, pair in enumerate(pairs)
    ]
    finish = time.monotonic() + seconds

    async def repeat(action: Any) -> None:
        while time.monotonic() < finish or not (least is None or have_done(ends, least)):
            await action()

    async with anyio.create_task_group() as tasks:
        for end in ends:
            for action in (end.receive_once, end.send_once, end.reconfigure):
                tasks.start_soon(repeat, action)
    totals = await anyio.to_thread.run_sync(all_sent)
    for end, far in zip(ends, totals, strict=True):
        while end.received < far["sent"]:
            end.check(await end.port.receive())
        await end.port.aclose()
        allowed = set(end.cancelled_sends)
        if far["frames"] != end.frames or not allowed.issuperset(far["cut"]):
            raise AssertionError(
                f"port {end.number}: frames are missing, duplicated or truncated without a cancel"
            )
    return ends


def main() -> None:
    """Run the soak and print its totals."""
    parser = argparse.ArgumentParser(description="A soak test of serial ports")
    parser.add_argument("--loop", default="penstock")
    parser.add_argument("--ports", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--least", type=int, help="continue until so many bytes have arrived")
    arguments = parser.parse_args()
    pairs = [PtyPair() for _ in range(arguments.ports)]
    report, report_write = os.pipe()
    stop, stop_write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(stop_write)
            far_ends(pairs, arguments.seconds, report_write, stop)
            os._exit(0)
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
    os.close(report_write)
    os.close(stop)

    def all_sent() -> list[dict[str, Any]]:
        os.close(stop_write)
        parts = b""
        while part := os.read(report, 1 << 20):
            parts += part
        if not parts:
            raise AssertionError("the far end has found an error")
        parsed: list[dict[str, Any]] = json.loads(parts)
        return parsed

    begin = time.monotonic()

    def work() -> Any:
        return soak(pairs, arguments.seconds, arguments.least, all_sent)

    ends: list[NearEnd] = run(arguments.loop, work)
    seconds = time.monotonic() - begin
    os.waitpid(child, 0)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "ports": len(ends),
                "received_bytes": sum(end.received for end in ends),
                "sent_frames": sum(end.frames for end in ends),
                "cancelled_receives": sum(end.cancelled_receives for end in ends),
                "cancelled_sends": sum(len(end.cancelled_sends) for end in ends),
                "reconfigurations": sum(end.reconfigurations for end in ends),
            }
        )
    )


if __name__ == "__main__":
    sys.exit(exit_code(main))
