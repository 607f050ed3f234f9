"""One library polls an instrument: request to frame, opening, and 4 KiB at the pace of a line.

    python benchmarks/serial_ports/polling.py --contender penstock@asyncio --count 500
    python benchmarks/serial_ports/polling.py --contender pyserial --device /dev/ttyUSB0

A contender is ``library@loop``, or the name of a library without an event loop. The instrument is a
process behind a pseudo-terminal, or with ``--device`` a real one.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # Python puts the folder of a script on the path; the package is in a folder above.
    sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)

from benchmarks.measured_program import Unavailable, exit_code
from benchmarks.serial_ports.blocking import Receive, Send
from benchmarks.serial_ports.in_loop import overshoot
from benchmarks.serial_ports.libraries import (
    BAUDRATE,
    Port,
    backend_of,
    imported,
    open_port,
    run,
    split,
)
from benchmarks.serial_ports.ptys import FRAME, PtyPair, answering_process, far_end, other_core
from benchmarks.serial_ports.timing import timed, timed_blocking

REQUEST = b"A\r"
END = b"\r"
LONGEST = 128
PATIENCE = 5.0
OPENINGS = 100
CANCELS = 50
CHUNK = 4096
CHUNKS = 16
LINE_BAUDRATE = 921_600
LINE_BYTES_PER_SECOND = LINE_BAUDRATE // 10

Operation = Callable[[], Awaitable[object]]
Results = dict[str, dict[str, float]]


class Instrument:
    """What is polled.

    Attributes:
        path: the device.
        request: what asks for a frame.
        frame: the expected frame, None if only its end is known.
        baudrate: of the device.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.pair = None if arguments.device else PtyPair()
        self.path: str = arguments.device or (self.pair.path if self.pair else "")
        self.request = arguments.request.encode().decode("unicode_escape").encode("latin-1")
        self.frame = FRAME if self.pair else None
        self.baudrate: int = arguments.baudrate

    @contextmanager
    def answering(self) -> Iterator[None]:
        """The block in which the instrument answers."""
        if self.pair is None:
            yield
            return
        with answering_process([self.pair], other_core(), frames=True):
            yield

    def check(self, frame: bytes) -> None:
        """Raise if *frame* is not the instrument's."""
        if frame != self.frame if self.frame is not None else not frame.endswith(END):
            raise AssertionError(f"a frame was damaged: {frame!r}")


# ---- in an event loop -------------------------------------------------------------------------


def polling(port: Port, library: str, instrument: Instrument) -> Operation:
    """Send a request and receive until the end of its frame, by the library's own calls."""
    send, receive, request = port.send, port.receive, instrument.request
    if library.startswith("pyserial-asyncio"):
        reader, _ = port.native

        async def poll_reader() -> None:
            await send(request)
            instrument.check(await reader.readuntil(END))

        return poll_reader

    async def poll() -> None:
        await send(request)
        frame = await receive(LONGEST)
        while not frame.endswith(END):
            frame += await receive(LONGEST)
        instrument.check(frame)

    return poll


def polling_buffered(port: Port, instrument: Instrument) -> Operation:
    """The same through AnyIO's BufferedByteReceiveStream."""
    from anyio.streams.buffered import BufferedByteReceiveStream

    send, request = port.send, instrument.request
    stream = BufferedByteReceiveStream(port.native)

    async def poll() -> None:
        await send(request)
        frame = await stream.receive_until(END, LONGEST)
        instrument.check(frame + END)

    return poll


async def in_loop(
    library: str, instrument: Instrument, arguments: argparse.Namespace
) -> dict[str, Any]:
    """All workloads of a library in the running event loop."""
    port = await open_port(library, instrument.path, instrument.baudrate)
    results: Results = {}
    try:
        with instrument.answering():
            poll = polling(port, library, instrument)
            results["async"] = await timed(poll, arguments.count)
            if library in ("penstock", "anyserial"):
                buffered = polling_buffered(port, instrument)
                results["buffered"] = await timed(buffered, arguments.count)
        if instrument.pair is None:
            results["cancel"] = await overshoot(port, CANCELS)
    finally:
        await port.close()

    async def open_and_close() -> None:
        opened = await open_port(library, instrument.path, instrument.baudrate)
        await opened.close()

    results["open"] = await timed(open_and_close, arguments.openings)
    if instrument.pair is not None and not arguments.no_line:
        results.update(await line_in_loop(library))
    return results


def through_portal(library: str, loop: str, instrument: Instrument, count: int) -> dict[str, float]:
    """Polls by calls into the event loop of another thread."""
    from anyio.from_thread import start_blocking_portal

    backend, options = backend_of(loop)
    with start_blocking_portal(backend, options) as portal:
        port = portal.call(open_port, library, instrument.path, instrument.baudrate)
        try:
            with instrument.answering():
                poll = polling(port, library, instrument)
                return timed_blocking(lambda: portal.call(poll), count)
        finally:
            portal.call(port.close)


# ---- without an event loop --------------------------------------------------------------------


def open_blocking(
    library: str, path: str, baudrate: int
) -> tuple[Receive, Send, Callable[[], None]]:
    """The functions to receive some or all bytes of a frame, to send, and to close."""
    if library == "floor":
        fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        poll = select.poll()
        poll.register(fd, select.POLLIN)

        def receive() -> bytes:
            poll.poll()
            return os.read(fd, LONGEST)

        return receive, lambda data: os.write(fd, data), lambda: os.close(fd)
    if library in ("penstock", "anyserial"):
        module = imported(f"{'penstock.serial' if library == 'penstock' else library}.sync")
        port = module.SerialPort.open(path, baudrate=baudrate)
        return lambda: port.receive(LONGEST, timeout=PATIENCE), port.send, port.close
    if library in ("pyserial", "pyserial, one read"):
        port = imported("serial").Serial(path, baudrate=baudrate, timeout=PATIENCE)
        if library == "pyserial":
            return lambda: bytes(port.read_until(END)), port.write, port.close
        return lambda: bytes(port.read(len(FRAME))), port.write, port.close
    raise Unavailable(f"unknown library '{library}'")


def without_loop(
    library: str, instrument: Instrument, arguments: argparse.Namespace
) -> dict[str, Any]:
    """All workloads of a library without an event loop."""
    if instrument.pair is None and library == "pyserial, one read":
        raise Unavailable("the length of the device's frames is not known")
    receive, send, close = open_blocking(library, instrument.path, instrument.baudrate)

    def poll() -> None:
        send(instrument.request)
        frame = receive()
        while not frame.endswith(END):
            more = receive()
            if not more:
                raise AssertionError(f"no end of a frame came: {frame!r}")
            frame += more
        instrument.check(frame)

    with instrument.answering():
        results: Results = {"sync": timed_blocking(poll, arguments.count)}
    close()

    def open_and_close() -> None:
        open_blocking(library, instrument.path, instrument.baudrate)[2]()

    results["open"] = timed_blocking(open_and_close, arguments.openings)
    return results


# ---- 4 KiB at the pace of a line --------------------------------------------------------------


async def line_in_loop(library: str) -> Results:
    """Send 4 KiB chunks to a line of 921,600 baud, and receive as much from one.

    The far end first waits for one byte. Then it sends all chunks, or takes all and acknowledges
    them with one byte.
    """
    pace = f"{CHUNK * CHUNKS},{LINE_BYTES_PER_SECOND}"
    results: Results = {}
    payload = b"x" * CHUNK
    for name, sends in (("line send", False), ("line receive", True)):
        pair = PtyPair()
        port = await open_port(library, pair.path, LINE_BAUDRATE)
        with far_end(["send" if sends else "take", pace], [pair.fd], other_core()):
            begin, cpu = time.perf_counter(), time.process_time()
            await port.send(b"?")
            if sends:
                left = CHUNK * CHUNKS
                while left:
                    left -= len(await port.receive(min(left, CHUNK)))
            else:
                for _ in range(CHUNKS):
                    await port.send(payload)
                if await port.receive(1) != b"!":
                    raise AssertionError("a wrong byte was received")
            results[name] = {
                "seconds": time.perf_counter() - begin,
                "cpu_seconds": time.process_time() - cpu,
            }
        await port.close()
        pair.close()
    return results


def main() -> None:
    """Measure one contender."""
    parser = argparse.ArgumentParser(description="A serial library polls an instrument")
    parser.add_argument("--contender", required=True, help="library@loop, or a blocking library")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--openings", type=int, default=OPENINGS)
    parser.add_argument("--no-line", action="store_true", help="without the line of 921,600 baud")
    parser.add_argument("--device", help="a real port instead of a pseudo-terminal")
    parser.add_argument("--request", default=r"A\r", help=r"what asks for a frame (A\r)")
    parser.add_argument("--baudrate", type=int, default=BAUDRATE)
    arguments = parser.parse_args()
    instrument = Instrument(arguments)
    library, loop = split(arguments.contender)
    if not loop:
        print(json.dumps(without_loop(library, instrument, arguments)), flush=True)
        os._exit(0)  # threads of some libraries would print messages

    async def program() -> dict[str, Any]:
        return await in_loop(library, instrument, arguments)

    results = run(loop, program)
    if library in ("penstock", "anyserial"):
        results["portal"] = through_portal(library, loop, instrument, arguments.count)
    print(json.dumps(results))


if __name__ == "__main__":
    sys.exit(exit_code(main))
