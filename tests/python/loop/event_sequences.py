"""Runs small programs whose protocols act in their callbacks, and compares the sequences of events.

Every byte identifies its stream and its offset. Everything runs in one thread, so the sequence of
events depends only on the loop: what one end sends has arrived when the call returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import inspect
import operator
import os
import random
import socket
import sys
import tempfile
import time
import warnings
from asyncio import selector_events, sslproto
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .certificates import server_context
from .conftest import LoopFactory
from .program_peers import PipePeer, SocketPeer, TlsPeer
from .random_programs import Difference

Operation = tuple[str, int]
Body = list[Operation]

QUIET_TURNS = 80
"""Iterations without an event that end a step: a busy loop polls only every 32 callbacks."""

MOST_TURNS = 20_000

COMPUTED_TURNS = 6
"""Turns after each step in which the task of a program that computes works."""

WORK = 0.00015
"""Seconds of such a turn: more than a loop may count as a short time (docs/loop.md)."""


OWN_ERRORS = [
    *(("reported", name) for name in ("AttributeError", "TypeError", "RuntimeError")),
    ("lost", "SSLError"),
]
"""Errors of asyncio, after which it is no reference: on writes to a lost transport; on a TLS
connection aborted while it resumes after a pause, which "cannot switch state"; and on a TLS
connection closed with data in flight, which asyncio treats as data after close_notify."""

ASYNCIO_PAUSES_LINES = "_maybe_pause_protocol" in inspect.getsource(
    selector_events._SelectorSocketTransport
).partition("def writelines")[2].partition("\n    def ")[0] or sys.version_info < (3, 12)
"""Some versions lack this check; Penstock's writelines() has it on all."""


class DeliberateError(Exception):
    """Raised by a protocol's callback."""


@dataclass
class Program:
    """Each step is one callback, after which the program runs until the loop is idle.

    `hooks` are the actions of a protocol in its callbacks of each name: the first body in the
    first call, and so on. "data" counts the messages of its peer, not the reads. An operation whose
    name begins with "other " acts on the next connection. `tasks` are the programs that the
    operation "task" runs.
    """

    transport: str
    steps: list[tuple[int, Body]]
    hooks: list[dict[str, list[Body]]] = field(default_factory=lambda: [{}])
    tasks: list[Body] = field(default_factory=list)
    buffer_size: int = 0
    """For a buffered protocol; otherwise 0."""

    keep_open_on_eof: bool = False
    accepted: bool = False
    """Accepted by a server; otherwise connected."""

    eager: bool = False
    """Tasks begin when they are created (eager tasks)."""

    computes: bool = False
    """A task computes while events wait; the sequences then have the latencies of the events."""


@dataclass
class EventSequences:
    """The events of each connection in order, and the bytes that its peer received."""

    events: list[list[Any]]
    peers: list[bytearray]
    later: list[str] = field(default_factory=list)
    """Connections whose events may come earlier on a loop that polls less often."""

    discarded: set[int] = field(default_factory=set)
    """Connections that were aborted while data waited for the socket."""

    failure: str = ""
    """The error that ended the program."""

    latencies: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    """Turns of the computing task before the first and the last event of a connection in a step.

    The key is the number of the step and the connection.
    """

    def add_latency(self, step: int, connection: int, turns: int) -> None:
        span = self.latencies.setdefault((step, connection), [turns, turns])
        span[1] = turns

    def add(self, connection: int, event: Any) -> None:
        events = self.events[connection]
        # Each loop may divide a stream into reads differently.
        if isinstance(event, int) and events and isinstance(events[-1], int):
            events[-1] += event
        else:
            events.append(event)


@functools.cache
def _pattern(identity: int) -> bytes:
    return random.Random(identity).randbytes(65521) * 10


def stream(identity: int, offset: int, size: int) -> bytes:
    """Return a stream's bytes from an offset, which differ at any two places of any streams."""
    start = offset % 65521
    return _pattern(identity)[start : start + size]


def run_program(factory: LoopFactory, program: Program) -> EventSequences:
    loop = factory()
    count = len(program.hooks)
    sequences = EventSequences([[] for _ in range(count)], [bytearray() for _ in range(count)])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # for programs that do not become idle
        execution = _Execution(loop, program, sequences, Path(folder))
        loop.set_exception_handler(execution.report)
        if program.eager and sys.version_info >= (3, 12):
            loop.set_task_factory(asyncio.eager_task_factory)
        try:
            loop.run_until_complete(asyncio.wait_for(execution.run(), 30))
        except Exception as exc:
            sequences.failure = repr(exc)
        finally:
            execution.close()
            loop.close()
        if sequences.failure:
            del execution
            gc.collect()
    return sequences


def compare(program: Program, expected: EventSequences, found: EventSequences) -> Difference | None:
    if any(error in events for error in OWN_ERRORS for events in expected.events):
        return None
    for index in range(len(program.hooks)):
        if found.events[index] != expected.events[index] and not _ends_sooner(
            program, expected.events[index], found.events[index]
        ):
            at = _first_difference(expected.events[index], found.events[index])
            return Difference(
                f"events of connection {index} from {at} on",
                expected.events[index][at:],
                found.events[index][at:],
            )
        # How much a full socket accepts before an abort depends on the division into sends, and
        # Penstock joins the writes of a callback. finish() checks that these are the first bytes.
        aborted = index in found.discarded & expected.discarded
        if found.peers[index] != expected.peers[index] and not aborted:
            return Difference(
                f"bytes at the peer {index}", len(expected.peers[index]), len(found.peers[index])
            )
    for place, waited in found.latencies.items():
        allowed = expected.latencies.get(place)
        if allowed is not None and any(map(operator.gt, waited, allowed)):
            return Difference(
                f"turns before the events of (step, connection) {place}", allowed, waited
            )
    if found.failure != expected.failure:
        return Difference("what has ended it", expected.failure, found.failure)
    # asyncio also fails itself in a task that uses a lost transport.
    lacks = Counter(expected.later) - Counter(found.later)
    if Counter(found.later) - Counter(expected.later) or lacks.keys() - {"AttributeError"}:
        return Difference("what ran later", expected.later, found.later)
    return None


def _first_difference(expected: list[Any], found: list[Any]) -> int:
    pairs = enumerate(zip(expected, found, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(expected), len(found)))


def _ends_sooner(program: Program, expected: list[Any], found: list[Any]) -> bool:
    """Return whether only the end of a TLS connection closed with unread data differs.

    Penstock's loop drops the data, and ends the connection in the same step (docs/loop.md).
    """
    at = _first_difference(expected, found)
    end = [event for event in found[at:] if _is_own(event)]
    unread = [event for event in expected[at:] if _is_own(event)]
    return (
        program.transport == "tls"
        and end == [event for event in unread if not isinstance(event, int)]
        and any(isinstance(event, tuple) and event[0] == "lost" for event in end)
    )


def _is_own(event: Any) -> bool:
    """Return whether the event is the connection's: not a step's end, nor another's receive."""
    return event != "--" and not (isinstance(event, tuple) and event[0] == "another")


class _Execution:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        program: Program,
        sequences: EventSequences,
        folder: Path,
    ) -> None:
        self.loop = loop
        self.program = program
        self.sequences = sequences
        self.folder = folder
        self.tasks: set[asyncio.Task[None]] = set()
        self.other = socket.socketpair()
        for sock in self.other:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
        self.in_task = False  # whether an iteration has passed since a callback
        self.latest = 0  # the connection with the latest callback
        self.step = -1  # the connections are being opened
        self.turn = 0  # of the computing task since the step
        self.connections = [Connection(self, index) for index in range(len(program.hooks))]

    async def run(self) -> None:
        for connection in self.connections:
            await connection.open()
        await self.rest()
        for step, (index, body) in enumerate(self.program.steps):
            self.step = step
            self.turn = 0
            with contextlib.suppress(DeliberateError):
                self.connections[index].perform(body)
            await self.rest()
            for connection in self.connections:
                self.sequences.add(connection.index, "--")
        for connection in self.connections:
            await connection.finish()

    def report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.sequences.add(self.latest, ("reported", type(context.get("exception")).__name__))

    def close(self) -> None:
        for sock in self.other:
            sock.close()
        for connection in self.connections:
            if connection.peer is not None:
                connection.peer.close()

    def read_another_socket(self, index: int | None, size: int) -> None:
        """Receive available data at once, as the first step of an eager task would.

        ``None`` stands for a connection whose callback has not called this.
        """
        self.other[1].send(b"\xff" * size)
        try:
            self.loop.sock_recv(self.other[0], size).send(None)
        except StopIteration as end:
            data = len(end.value), set(end.value) == {255}
            # An event of another descriptor may have come before it, or come later.
            if self.in_task or index is None:
                self.sequences.later.append(f"another {data}")
            else:
                self.sequences.add(index, ("another", *data))

    async def rest(self) -> None:
        seen, quiet = -1, 0
        for _ in range(MOST_TURNS):
            if self.program.computes and self.turn < COMPUTED_TURNS:
                self.compute()
            await asyncio.sleep(0)
            now = sum(each.activity for each in self.connections)
            quiet = quiet + 1 if now == seen else 0
            seen = now
            if quiet == QUIET_TURNS:
                return
        raise AssertionError("the program does not become idle")

    def compute(self) -> None:
        self.turn += 1
        end = time.perf_counter() + WORK
        while time.perf_counter() < end:
            pass

    def add_latency(self, index: int) -> None:
        """Note how long the loop has taken to call a connection's protocol after a step."""
        if self.program.computes:
            self.sequences.add_latency(self.step, index, self.turn)


class Connection:
    """One connection of a program: its transport, its protocol's hooks, its peer."""

    def __init__(self, execution: _Execution, index: int) -> None:
        self.execution = execution
        self.index = index
        self.program = execution.program
        self.hooks = {name: list(each) for name, each in self.program.hooks[index].items()}
        self.transport: Any = None
        self.lost = False
        self.ended = False  # the peer has ended its side
        self.received = 0
        self.sent = 0  # by the peer
        self.written = 0
        self.activity = 0
        self.peer: Any = None

    # ---- opening and closing ---------------------------------------------------------------------

    async def open(self) -> None:
        loop, kind = self.execution.loop, self.program.transport
        protocol = self.protocol(self.program.buffer_size)
        if kind == "tls":
            ours, theirs = self.pair()
            self.peer = peer = TlsPeer(self, theirs)
            await asyncio.gather(
                loop.connect_accepted_socket(lambda: protocol, ours, ssl=server_context()),
                peer.connect(),
            )
        elif kind in {"read pipe", "write pipe"}:
            out, into = os.pipe()
            ours, theirs = (out, into) if kind == "read pipe" else (into, out)
            self.peer = PipePeer(self, theirs)
            connect: Any = (
                loop.connect_read_pipe if kind == "read pipe" else loop.connect_write_pipe
            )
            mode = "rb" if kind == "read pipe" else "wb"
            await connect(lambda: protocol, open(ours, mode, 0))  # noqa: SIM115
        elif self.program.accepted:
            await self.accept(protocol)
        else:
            ours, theirs = self.pair()
            self.peer = SocketPeer(self, theirs)
            await loop.create_connection(lambda: protocol, sock=ours)

    async def accept(self, protocol: Any) -> None:
        loop: Any = self.execution.loop
        if self.program.transport == "tcp":
            server = await loop.create_server(lambda: protocol, "127.0.0.1", 0)
            client = socket.socket()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.connect(server.sockets[0].getsockname())
        else:
            path = self.execution.folder / str(self.index)
            server = await loop.create_unix_server(lambda: protocol, path)
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(path))
        client.setblocking(False)
        self.peer = SocketPeer(self, client)
        await self.execution.rest()
        server.close()

    def pair(self) -> tuple[socket.socket, socket.socket]:
        if self.program.transport == "tcp":
            with socket.create_server(("127.0.0.1", 0)) as listener:
                theirs = socket.create_connection(listener.getsockname())
                ours, _ = listener.accept()
            for sock in (ours, theirs):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            ours, theirs = socket.socketpair()
            for sock in (ours, theirs):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
        for sock in (ours, theirs):
            sock.setblocking(False)
        return ours, theirs

    def protocol(self, buffer_size: int) -> Any:
        return _Buffered(self, buffer_size) if buffer_size else _Plain(self)

    async def finish(self) -> None:
        """Let everything in flight arrive, then close the connection if it is still open."""
        rest = self.execution.rest
        await self.drain()
        if not self.lost and not self.ended and self.program.transport != "write pipe":
            self.transport.resume_reading()
            await rest()
        await self.drain()
        if not self.lost:
            end = "close" if self.program.transport == "read pipe" else "abort"
            getattr(self.transport, end)()
        await rest()
        self.peer.end("abort")
        await rest()
        assert self.got == stream_from_start(2 * self.index + 1, len(self.got)), "another's bytes"

    async def drain(self) -> None:
        """Let the peer receive until nothing more arrives."""
        before = -1
        while before != len(self.got):
            before = len(self.got)
            self.peer.receive(1 << 20)
            await self.execution.rest()

    @property
    def got(self) -> bytearray:
        """Return the bytes that the peer has received."""
        return self.execution.sequences.peers[self.index]

    # ---- events ----------------------------------------------------------------------------------

    def event(self, name: str, what: Any) -> None:
        self.activity += 1
        self.execution.add_latency(self.index)
        self.execution.sequences.add(self.index, what)
        self.ended = self.ended or name == "eof_received"
        self.lost = self.lost or name == "connection_lost"
        self.call_hook(name)

    def data(self, data: bytes) -> None:
        assert data == stream(2 * self.index, self.received, len(data)), "another's bytes"
        self.activity += 1
        self.execution.add_latency(self.index)
        self.received += len(data)
        self.execution.sequences.add(self.index, len(data))
        if self.received == self.sent:
            self.call_hook("data")

    def call_hook(self, name: str) -> None:
        self.execution.latest = self.index
        if bodies := self.hooks.get(name):
            self.perform(bodies.pop(0))

    def peer_got(self, data: bytes) -> None:
        self.activity += 1
        self.got.extend(data)

    # ---- operations ------------------------------------------------------------------------------

    def perform(self, operations: Body) -> None:
        connections = self.execution.connections
        for operation, argument in operations:
            if operation == "raise":
                raise DeliberateError
            name = operation.removeprefix("other ")
            other = connections[(self.index + 1) % len(connections)]
            if name == operation:
                self.perform_one(operation, argument)
            elif name == "read another":
                self.execution.read_another_socket(None, argument)
            elif name != "state":  # an event of its descriptor may come before or after this
                other.perform_one(name, argument)

    def perform_one(self, operation: str, argument: int) -> None:
        sequences, loop = self.execution.sequences, self.execution.loop
        if operation == "soon" and self.execution.in_task:
            sequences.later.append(f"soon {argument}")
        elif operation == "soon":
            loop.call_soon(sequences.add, self.index, ("soon", argument))
        elif operation == "later":
            loop.call_later(0, sequences.later.append, f"later {argument}")
        elif operation == "task":
            task = loop.create_task(self.task(self.program.tasks[argument]))
            self.execution.tasks.add(task)
        elif operation == "send":
            # One message at a time: with several, the division into reads would differ.
            if self.received == self.sent:
                self.sent += self.peer.send(stream(2 * self.index, self.sent, argument))
        elif operation == "read another":
            self.execution.read_another_socket(self.index, argument)
        elif operation == "receive":
            self.peer.receive(argument)
        elif operation.startswith("peer "):
            self.peer.end(operation.removeprefix("peer "))
        elif self.transport is not None:
            self.use_transport(operation, argument)

    async def task(self, body: Body) -> None:
        later = self.execution.sequences.later
        self.execution.in_task = True
        try:
            self.perform(body)
        except Exception as exc:  # asyncio's pipe transports raise after connection_lost
            later.append(type(exc).__name__)
        self.execution.in_task = False
        await asyncio.sleep(0)
        later.append("task")

    def use_transport(self, operation: str, argument: int) -> None:
        transport = self.transport
        if operation.startswith("write") and operation != "write_eof":
            # asyncio fails on some writes to a connection that is lost, or will be lost soon.
            if not self.lost and (operation != "writelines" or not transport.is_closing()):
                self.write(operation, argument)
        elif operation == "limit":
            transport.set_write_buffer_limits(high=argument)
        elif operation == "state":
            reading = self.program.transport != "write pipe" and transport.is_reading()
            if not self.execution.in_task:
                self.execution.sequences.add(self.index, ("state", is_closing(transport), reading))
        elif operation == "set_protocol":
            transport.set_protocol(self.protocol(argument))
        elif operation in {"pause_reading", "resume_reading"}:
            if not self.ended:  # asyncio then reports the end again
                getattr(transport, operation)()
        elif not self.fails_on_asyncio(operation):
            if operation == "abort" and transport.get_write_buffer_size():
                self.execution.sequences.discarded.add(self.index)
            getattr(transport, operation)()

    def fails_on_asyncio(self, operation: str) -> bool:
        """TLS, when it is closed twice, and the write end of a pipe, aborted after its end."""
        if self.program.transport == "write pipe":
            return self.lost and operation == "abort"
        return self.program.transport == "tls" and is_closing(self.transport)

    def write(self, operation: str, size: int) -> None:
        data = stream(2 * self.index + 1, self.written, size)
        self.written += size  # now: pause_writing may write more
        try:
            # Since Python 3.12, asyncio's writelines() tries the socket even if data is queued.
            if operation == "writelines" and self.transport.get_write_buffer_size() == 0:
                third = size // 3
                chunks = [data[:third], bytearray(data[third : 2 * third]), data[2 * third :]]
                self.transport.writelines(chunks)
                if not ASYNCIO_PAUSES_LINES and isinstance(
                    self.transport, selector_events._SelectorSocketTransport
                ):
                    self.transport._maybe_pause_protocol()
            elif operation == "write mutable":
                self.transport.write(bytearray(data))
            elif operation == "write view":
                self.transport.write(memoryview(b"-" + data + b"-")[1:-1])
            else:
                self.transport.write(data)
        except RuntimeError:  # after write_eof()
            self.written -= size
            self.execution.sequences.add(self.index, "refused")


def is_closing(transport: Any) -> bool:
    """Return what the transport says; some versions of asyncio's TLS do not ask its socket's."""
    if type(transport) is sslproto._SSLProtocolTransport:
        under = transport._ssl_protocol._transport
        return transport.is_closing() or (under is not None and under.is_closing())
    return bool(transport.is_closing())


def stream_from_start(identity: int, size: int) -> bytes:
    pattern = _pattern(identity)[:65521]
    return (pattern * (size // 65521 + 1))[:size]


class _Callbacks:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def connection_made(self, transport: Any) -> None:
        self.connection.transport = transport
        self.connection.event("connection_made", "made")

    def eof_received(self) -> bool:
        program = self.connection.program
        self.connection.event("eof_received", "eof")
        return program.keep_open_on_eof and program.transport != "tls"

    def pause_writing(self) -> None:
        self.connection.event("pause_writing", "pause")

    def resume_writing(self) -> None:
        self.connection.event("resume_writing", "resume")

    def connection_lost(self, exc: BaseException | None) -> None:
        # The first error of a broken connection differs between its ends.
        reason = "ConnectionError" if isinstance(exc, ConnectionError) else type(exc).__name__
        self.connection.event("connection_lost", ("lost", reason))


class _Plain(_Callbacks, asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        self.connection.data(data)


class _Buffered(_Callbacks, asyncio.BufferedProtocol):
    def __init__(self, connection: Connection, size: int) -> None:
        super().__init__(connection)
        self.size = size

    def get_buffer(self, sizehint: int) -> memoryview:
        self.buffer = bytearray(self.size)
        self.connection.call_hook("get_buffer")
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.connection.data(bytes(self.buffer[:nbytes]))
