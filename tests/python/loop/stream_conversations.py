"""Random conversations over streams: the same outcome on asyncio's loop and on Penstock's.

A program runs a few concurrent connections with one kind of streams (asyncio's or Penstock's), over
TCP, a Unix socket, TLS, or TLS that starts later. Each end writes in one task and reads in another,
which does other work between its reads: it writes, receives from another socket, uses another
connection, pauses, cancels a wait, sets water marks. The outcome excludes the division of bytes
into reads and their times of arrival, which may differ between loops. Every byte identifies its
connection and offset, so a wrong byte fails at once.

    python -m tests.python.loop.stream_conversations --programs 1000 --seed 1 --gc-threshold 1
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import gc
import itertools
import logging
import socket
import ssl
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import penstock

from .certificates import client_context, server_context
from .stream_scripts import ROUGH, Conversation, Operation, Program, make_program

OTHERS = bytes(range(256)) * 250
"""The data in the sockets that are not streams."""

PROGRAM_TIMEOUT = 60.0
"""Far longer than any program needs; a program that exceeds it hangs."""

Outcome = tuple[Any, ...]
"""(operation, outcome)"""


class WrongBytes(Exception):
    """Bytes that do not belong to this offset of this stream."""


class DeliberateError(Exception):
    """Raised, or set on a reader, by a program."""


class End:
    """One end of a connection during a part of its conversation."""

    def __init__(self, reader: Any, writer: Any, world: World, outcomes: list[Outcome]) -> None:
        self.reader = reader
        self.writer = writer
        self.world = world
        self.outcomes = outcomes
        self.incoming = b""
        self.outgoing = b""
        self.at = 0
        self.sent = 0

    # -- reads --

    def took(self, data: bytes) -> bytes:
        expected = self.incoming[self.at : self.at + len(data)]
        if data != expected:
            raise WrongBytes(self.world.describe_wrong(data, expected, self.at))
        self.at += len(data)
        return data

    async def read_all(self, operations: list[Operation]) -> None:
        for operation in operations:
            before = self.at
            try:
                await self.act(*operation)
            except (asyncio.LimitOverrunError, asyncio.IncompleteReadError, ValueError) as exc:
                if isinstance(exc, asyncio.IncompleteReadError):
                    self.took(exc.partial)
                self.outcomes.append((operation, type(exc).__name__, before, self.at))
            else:
                self.outcomes.append((operation, before, self.at))

    async def act(self, name: str, *arguments: Any) -> None:
        await getattr(self, name.replace(" ", "_"))(*arguments)

    async def readexactly(self, size: int) -> None:
        data = self.took(await self.reader.readexactly(size))
        assert len(data) == size

    async def read(self, size: int, total: int | None = None) -> None:
        if total is None:
            self.took(await self.reader.read(size))
            return
        end = self.at + total
        while self.at < end:
            data = self.took(await self.reader.read(min(size, end - self.at)))
            assert len(data) <= size
            if not data:
                raise asyncio.IncompleteReadError(data, end - self.at)

    async def readuntil(self, separator: bytes) -> None:
        assert self.took(await self.reader.readuntil(separator)).endswith(separator)

    async def readline(self) -> None:
        self.took(await self.reader.readline())

    async def iterate(self, lines: int) -> None:
        async for line in self.reader:
            self.took(line)
            lines -= 1
            if lines == 0:
                return

    async def interrupt(self, how: str, turns: int, kind: str, size: int) -> None:
        """Start a read, interrupt it unless it completes first, then read the rest."""
        end = self.at + size
        reading = asyncio.ensure_future(getattr(self.reader, kind)(size - 1))
        if how == "time out":
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(reading, turns / 10_000)
        else:
            await self.turns(1 + turns)
            if how == "cancel":
                reading.cancel()
            elif not reading.done():
                # While the first waits: refused, unless enough data are available for this read.
                with contextlib.suppress(RuntimeError):
                    self.took(await self.reader.readexactly(1))
        with contextlib.suppress(asyncio.CancelledError):
            self.took(await reading)
        if self.at < end:
            await self.read(end - self.at, end - self.at)

    # -- writes --

    async def write_all(self, operations: list[Operation]) -> None:
        for operation in operations:
            await self.act(*operation)

    def _next(self, size: int) -> bytes:
        data = self.outgoing[self.sent : self.sent + size]
        assert len(data) == size
        self.sent += size
        return data

    async def write(self, size: int) -> None:
        self.writer.write(self._next(size))

    async def write_mutable(self, size: int) -> None:
        self.writer.write(bytearray(self._next(size)))

    async def writelines(self, size: int) -> None:
        half = size // 3
        self.writer.writelines([self._next(half), self._next(size - half)])

    async def drain(self) -> None:
        await self.writer.drain()

    async def write_limit(self, high: int) -> None:
        self.writer.transport.set_write_buffer_limits(high=high)

    # -- other operations --

    async def turns(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def other_socket(self, size: int) -> None:
        await self.world.read_other_socket(size)

    async def other_connection(self, size: int) -> None:
        await self.world.use_other_connection(size)

    async def pause(self, turns: int) -> None:
        transport = self.writer.transport
        if transport.is_closing():
            return
        transport.pause_reading()
        await self.turns(turns)
        if not transport.is_closing():
            transport.resume_reading()

    async def collect(self) -> None:
        gc.collect(0)


class World:
    """The state that all connections of a program share."""

    def __init__(self, program: Program, loop: asyncio.AbstractEventLoop) -> None:
        self.program = program
        self.loop = loop
        self.streams: Any = asyncio if program.streams == "asyncio" else penstock
        self.ours, self.theirs = socket.socketpair()
        self.ours.setblocking(False)
        self.theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 18)
        self.socket_lock = asyncio.Lock()
        self.connection_lock = asyncio.Lock()
        self.elsewhere: Any = None

    async def read_other_socket(self, size: int) -> None:
        async with self.socket_lock:
            expected = OTHERS[:size]
            self.theirs.send(expected)
            got = b""
            while len(got) < size:
                got += await self.loop.sock_recv(self.ours, size - len(got))
            if got != expected:
                raise WrongBytes("sock_recv() returned bytes that were not sent there")

    async def use_other_connection(self, size: int) -> None:
        async with self.connection_lock:
            if self.elsewhere is None:
                left, right = socket.socketpair()
                self.elsewhere = [
                    await self.streams.open_connection(sock=left, limit=100),
                    await self.streams.open_connection(sock=right, limit=100),
                ]
            (_, writer), (reader, _) = self.elsewhere
            writer.write(OTHERS[:size] * (1 + size // len(OTHERS)))
            expected = OTHERS[:size] * (1 + size // len(OTHERS))
            if await reader.readexactly(len(expected)) != expected:
                raise WrongBytes("another connection's bytes are wrong")

    def describe_wrong(self, data: bytes, expected: bytes, at: int) -> str:
        i = next((i for i, (a, b) in enumerate(zip(data, expected, strict=False)) if a != b), None)
        if i is None:
            return f"{len(data)} bytes at {at}, where only {len(expected)} follow"
        sample = data[i : i + 12]
        for number, conversation in enumerate(self.program.conversations):
            for part in conversation.parts:
                for name, side in (("client", part.client), ("server", part.server)):
                    if len(sample) == 12 and sample in side.content:
                        place = side.content.index(sample)
                        return f"at {at + i}: byte {place} of what {name} {number} sent"
        origin = "the other socket" if sample in OTHERS + OTHERS else "nowhere"
        return f"at {at + i}: {sample!r} (from {origin}), not {expected[i : i + 12]!r}"

    async def close(self) -> None:
        for _, writer in self.elsewhere or []:
            writer.close()
        self.ours.close()
        self.theirs.close()
        await asyncio.sleep(0)


@cache
def _contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return client_context(), server_context()


BROKEN = (OSError, asyncio.IncompleteReadError)
"""The possible errors at the other end after an abrupt end."""


async def converse(conversation: Conversation, end: End, role: str) -> None:
    """Perform one end of a conversation."""
    is_first = conversation.first_to_end == role
    rough = conversation.ending if is_first and conversation.ending in ROUGH else None
    for number, part in enumerate(conversation.parts):
        if number == 1:
            await start_tls(end, role)
        own, other = (part.server, part.client) if role == "server" else (part.client, part.server)
        end.incoming, end.outgoing, end.at, end.sent = other.content, own.content, 0, 0
        breaks_off = rough is not None and number == len(conversation.parts) - 1
        writing = asyncio.ensure_future(end.write_all(own.writes))
        try:
            await end.read_all(own.reads[: len(own.reads) // 2] if breaks_off else own.reads)
            if breaks_off:
                await break_off(end, rough)
                return
            await writing
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
    if is_first and conversation.ending == "close":
        return
    if is_first:
        end.writer.write_eof()
    else:
        await end.read_all([conversation.last_read])
    rest = await end.reader.read()
    if not any(
        "ValueError" in outcome for outcome in end.outcomes
    ):  # a ValueError drops the available data
        end.took(rest)
        end.outcomes.append(("rest", len(rest), end.reader.at_eof(), end.reader.exception()))


async def break_off(end: End, how: str | None) -> None:
    if how == "raise":
        raise DeliberateError
    if how == "abort":
        end.writer.transport.abort()
    elif how == "set exception":
        end.reader.set_exception(DeliberateError())
        await end.reader.readexactly(1)


async def start_tls(end: End, role: str) -> None:
    client, server = _contexts()
    below = end.writer.transport
    if role == "server":
        assert await end.reader.readexactly(1) == b"S"
        end.writer.write(b"g")
        await end.writer.start_tls(server)
    else:
        end.writer.write(b"S")
        assert await end.reader.readexactly(1) == b"g"
        await end.writer.start_tls(client, server_hostname="localhost")
    # Bytes that arrive with the end of the handshake may fill asyncio's reader before it has the
    # new transport. It then pauses the lower transport, and later resumes the upper one. On
    # asyncio's loop, too, reading stops.
    if getattr(end.reader, "_paused", False):
        below.resume_reading()


async def perform(program: Program, directory: str) -> list[list[Outcome]]:
    """Run all connections concurrently; return the outcomes of all ends, and the reports."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(_task_factory(program.tasks))
    world = World(program, loop)
    reported: list[Outcome] = []
    loop.set_exception_handler(lambda _, context: reported.append(_shown(context)))
    outcomes: dict[tuple[int, str], list[Outcome]] = {}
    served: list[asyncio.Future[None]] = [loop.create_future() for _ in program.conversations]
    tls = program.link == "tls"
    unix = program.link.startswith("unix")

    async def one_end(number: int, role: str, reader: Any, writer: Any) -> None:
        conversation = program.conversations[number]
        mine = outcomes[number, role] = []
        end = End(reader, writer, world, mine)
        try:
            await converse(conversation, end, role)
        except BROKEN as exc:
            mine.append(("broken", type(exc).__name__, end.at))
        except DeliberateError:
            if role == "server":
                raise
        finally:
            writer.close()
            try:
                await writer.wait_closed()
            except (*BROKEN, DeliberateError) as exc:
                mine.append(("closed with", type(exc).__name__))
            if conversation.ending in ROUGH:
                mine.clear()
            if role == "server":
                served[number].set_result(None)

    async def handle(reader: Any, writer: Any) -> None:
        await one_end(int(await reader.readexactly(1)), "server", reader, writer)

    async def client(number: int, conversation: Conversation) -> None:
        options: dict[str, Any] = {"limit": conversation.client_limit}
        if tls:
            options |= {"ssl": _contexts()[0], "server_hostname": "localhost"}
        reader, writer = await (
            world.streams.open_unix_connection(path, **options)
            if unix
            else world.streams.open_connection(*server.sockets[0].getsockname(), **options)
        )
        writer.write(b"%d" % number)
        await one_end(number, "client", reader, writer)
        await served[number]

    options: dict[str, Any] = {"limit": program.server_limit}
    if tls:
        options["ssl"] = _contexts()[1]
    path = str(Path(directory, str(program.seed)))
    server = await (
        world.streams.start_unix_server(handle, path, **options)
        if unix
        else world.streams.start_server(handle, "127.0.0.1", 0, **options)
    )
    try:
        await asyncio.gather(*(client(*item) for item in enumerate(program.conversations)))
    finally:
        server.close()
        await world.close()
        Path(path).unlink(missing_ok=True)
    if any(conversation.ending in ROUGH for conversation in program.conversations):
        reported.clear()
    return [*(outcomes[key] for key in sorted(outcomes)), reported]


def _task_factory(tasks: str) -> Any:
    # From 3.14 on, asyncio.current_task() is None in a task of the Python implementation, and
    # asyncio.timeout() raises there.
    if tasks == "Python" and sys.version_info < (3, 14):
        return lambda loop, coro, **options: asyncio.tasks._PyTask(  # type: ignore[attr-defined]
            coro, loop=loop, **options
        )
    if tasks == "eager" and sys.version_info >= (3, 12):
        return asyncio.eager_task_factory
    return None


def _shown(context: dict[str, Any]) -> Outcome:
    return ("reported", context.get("message"), repr(context.get("exception")))


def run_program(
    factory: Callable[[], asyncio.AbstractEventLoop], program: Program, directory: str
) -> list[list[Outcome]]:
    """Return the outcome on a loop. Raises TimeoutError for a hang, WrongBytes for a wrong byte."""
    loop = factory()

    async def bounded() -> list[list[Outcome]]:
        return await asyncio.wait_for(perform(program, directory), PROGRAM_TIMEOUT)

    async def cancel_the_rest() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)

    try:
        return loop.run_until_complete(bounded())
    finally:
        loop.set_exception_handler(lambda *_: None)
        loop.set_task_factory(None)
        loop.run_until_complete(cancel_the_rest())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


# ---- comparing ----------------------------------------------------------------------------------


@dataclass
class Tally:
    conversations: int = 0
    findings: int = 0
    judge_failed: int = 0


def compare(seed: int, directory: str, tally: Tally) -> str | None:
    """Run a seed's program on both loops; return the difference, or None."""
    program = make_program(seed)
    try:
        expected = run_program(asyncio.SelectorEventLoop, program, directory)
    except Exception as exc:  # the reference itself fails: no comparison
        tally.judge_failed += 1
        print(f"{_title(program)}: asyncio's own loop fails: {exc!r}", flush=True)
        expected = [[("the judge", repr(exc))]]
    tally.conversations += len(program.conversations)
    try:
        got = run_program(penstock.new_event_loop, program, directory)
    except Exception as exc:
        return f"{_title(program)}: {type(exc).__name__} {exc}; asyncio: {str(expected)[:200]}"
    if expected[:1] and expected[0][:1] and expected[0][0][0] == "the judge":
        return None
    for number, (here, there) in enumerate(zip(got, expected, strict=True)):
        for ours, asyncios in itertools.zip_longest(here, there):
            if ours != asyncios:
                return f"{_title(program)}, end {number}: {ours}; asyncio: {asyncios}"
    return None


def _title(program: Program) -> str:
    return (
        f"seed {program.seed}, {program.streams} streams over {program.link}, {program.tasks} tasks"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first program; the others follow"
    )
    parser.add_argument(
        "--gc-threshold", type=int, help="number of objects between garbage collections"
    )
    arguments = parser.parse_args()
    logging.getLogger("asyncio").disabled = True
    warnings.simplefilter("ignore", ResourceWarning)
    if arguments.gc_threshold is not None:
        gc.freeze()
        gc.set_threshold(arguments.gc_threshold)
    tally = Tally()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        for seed in range(arguments.seed, arguments.seed + arguments.programs):
            faulthandler.dump_traceback_later(4 * PROGRAM_TIMEOUT, exit=True)
            finding = compare(seed, directory, tally)
            if finding is not None:
                tally.findings += 1
                print(finding, flush=True)
            if (seed - arguments.seed) % 500 == 499:
                print(f"... {tally} after {time.monotonic() - began:.0f} s", flush=True)
    faulthandler.cancel_dump_traceback_later()
    last = arguments.seed + arguments.programs - 1
    print(f"seeds {arguments.seed} to {last} in {time.monotonic() - began:.0f} s: {tally}")
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
