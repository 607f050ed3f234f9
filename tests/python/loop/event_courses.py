"""Runs small programs whose protocols act in their callbacks, and compares their courses.

Every byte tells whose it is and where it belongs. Everything happens within one thread, so that a
program's course depends on the loop alone: what one end sends has arrived when the call returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import inspect
import os
import random
import socket
import sys
import tempfile
import warnings
from asyncio import selector_events
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .certificates import client_context, server_context
from .conftest import LoopFactory
from .random_programs import Difference

Operation = tuple[str, int]
Body = list[Operation]

QUIET_TURNS = 80
"""So many turns without an event, and there will be none: a busy loop polls every 32 callbacks."""

MOST_TURNS = 20_000


OWN_ERRORS = [
    *(("reported", name) for name in ("AttributeError", "TypeError", "RuntimeError")),
    ("lost", "SSLError"),
]
"""asyncio's, which then is no judge: of writes to a transport that it has lost already; of a TLS
connection that is aborted while it goes on after a pause, which "cannot switch state"; and of one
that is closed with data on its way, which it takes for data after the peer's farewell."""

ASYNCIO_PAUSES_LINES = "_maybe_pause_protocol" in inspect.getsource(
    selector_events._SelectorSocketTransport
).partition("def writelines")[2].partition("\n    def ")[0] or sys.version_info < (3, 12)
"""Some versions forgot it, which Penstock's writelines() does not do on any."""


class MeantError(Exception):
    """Raised by a protocol's callback."""


@dataclass
class Program:
    """Each step is one callback, after which everything comes to rest.

    `hooks` are what a protocol does in its callbacks of each name: the first body in the first
    call, and so on. "data" counts the messages of its peer, not the reads. An operation whose name
    begins with "other " acts on the next one of the connections. `tasks` are what the operation
    "task" runs.
    """

    transport: str
    steps: list[tuple[int, Body]]
    hooks: list[dict[str, list[Body]]] = field(default_factory=lambda: [{}])
    tasks: list[Body] = field(default_factory=list)
    buffer_size: int = 0
    """Of a buffered protocol; else 0."""

    keep_open_on_eof: bool = False
    accepted: bool = False
    """By a server; else connected."""

    eager: bool = False
    """Tasks begin where they are made."""


@dataclass
class Course:
    """What has happened: the events of each connection in order, and the bytes its peer got."""

    events: list[list[Any]]
    peers: list[bytearray]
    later: list[str] = field(default_factory=list)
    """Whose turn may come sooner on a loop that polls less often."""

    failure: str = ""
    """The error that has ended it."""

    def add(self, connection: int, event: Any) -> None:
        events = self.events[connection]
        # How a stream is cut into reads is the loop's own affair.
        if isinstance(event, int) and events and isinstance(events[-1], int):
            events[-1] += event
        else:
            events.append(event)


@functools.cache
def _pattern(identity: int) -> bytes:
    return random.Random(identity).randbytes(65521) * 10


def stream(identity: int, offset: int, size: int) -> bytes:
    """The bytes of a stream from an offset on: no two places of any two streams look alike."""
    start = offset % 65521
    return _pattern(identity)[start : start + size]


def run_program(factory: LoopFactory, program: Program) -> Course:
    loop = factory()
    count = len(program.hooks)
    course = Course([[] for _ in range(count)], [bytearray() for _ in range(count)])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # where a program does not come to its end
        execution = _Execution(loop, program, course, Path(folder))
        loop.set_exception_handler(execution.report)
        if program.eager and sys.version_info >= (3, 12):
            loop.set_task_factory(asyncio.eager_task_factory)
        try:
            loop.run_until_complete(asyncio.wait_for(execution.run(), 15))
        except Exception as exc:
            course.failure = repr(exc)
        finally:
            execution.close()
            loop.close()
        if course.failure:
            del execution
            gc.collect()
    return course


def compare(program: Program, expected: Course, found: Course) -> Difference | None:
    if any(error in events for error in OWN_ERRORS for events in expected.events):
        return None
    for index in range(len(program.hooks)):
        if found.events[index] != expected.events[index]:
            pairs = zip([*expected.events[index], None], [*found.events[index], None], strict=False)
            at = next((n for n, (one, other) in enumerate(pairs) if one != other), 0)
            return Difference(
                f"events of connection {index} from {at} on",
                expected.events[index][at:],
                found.events[index][at:],
            )
        if found.peers[index] != expected.peers[index]:
            return Difference(
                f"bytes at the peer {index}", len(expected.peers[index]), len(found.peers[index])
            )
    if found.failure != expected.failure:
        return Difference("what has ended it", expected.failure, found.failure)
    if sorted(found.later) != sorted(expected.later):
        return Difference("what ran later", expected.later, found.later)
    return None


class _Execution:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, program: Program, course: Course, folder: Path
    ) -> None:
        self.loop = loop
        self.program = program
        self.course = course
        self.folder = folder
        self.tasks: set[asyncio.Task[None]] = set()
        self.other = socket.socketpair()
        for sock in self.other:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
        self.in_task = False  # where a turn has passed since a callback
        self.latest = 0  # the connection whose callback was called last
        self.connections = [_Connection(self, index) for index in range(len(program.hooks))]

    async def run(self) -> None:
        for connection in self.connections:
            await connection.open()
        await self.rest()
        for index, body in self.program.steps:
            with contextlib.suppress(MeantError):
                self.connections[index].perform(body)
            await self.rest()
            for connection in self.connections:
                self.course.add(connection.index, "--")
        for connection in self.connections:
            await connection.finish()

    def report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.course.add(self.latest, ("reported", type(context.get("exception")).__name__))

    def close(self) -> None:
        for sock in self.other:
            sock.close()
        for connection in self.connections:
            if connection.peer is not None:
                connection.peer.close()

    def read_another_socket(self, index: int, size: int) -> None:
        """Receive what lies there, at once, as an eager task's first step would."""
        self.other[1].send(b"\xff" * size)
        try:
            self.loop.sock_recv(self.other[0], size).send(None)
        except StopIteration as end:
            self.course.add(index, ("another", len(end.value), set(end.value) == {255}))

    async def rest(self) -> None:
        seen, quiet = -1, 0
        for _ in range(MOST_TURNS):
            await asyncio.sleep(0)
            now = sum(each.activity for each in self.connections)
            quiet = quiet + 1 if now == seen else 0
            seen = now
            if quiet == QUIET_TURNS:
                return
        raise AssertionError("the program does not come to rest")


class _Connection:
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
            self.peer = peer = _TlsPeer(self)
            await asyncio.gather(
                loop.connect_accepted_socket(lambda: protocol, ours, ssl=server_context()),
                loop.create_connection(
                    lambda: peer, sock=theirs, ssl=client_context(), server_hostname="localhost"
                ),
            )
        elif kind in {"read pipe", "write pipe"}:
            out, into = os.pipe()
            ours, theirs = (out, into) if kind == "read pipe" else (into, out)
            self.peer = _PipePeer(self, theirs)
            connect: Any = (
                loop.connect_read_pipe if kind == "read pipe" else loop.connect_write_pipe
            )
            mode = "rb" if kind == "read pipe" else "wb"
            await connect(lambda: protocol, open(ours, mode, 0))  # noqa: SIM115
        elif self.program.accepted:
            await self.accept(protocol)
        else:
            ours, theirs = self.pair()
            self.peer = _SocketPeer(self, theirs)
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
        self.peer = _SocketPeer(self, client)
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
        """Everything under way arrives; then the connection is closed, if it still is there."""
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
        """The peer receives until nothing more comes."""
        before = -1
        while before != len(self.got):
            before = len(self.got)
            self.peer.receive(1 << 20)
            await self.execution.rest()

    @property
    def got(self) -> bytearray:
        """What the peer has received."""
        return self.execution.course.peers[self.index]

    # ---- what happens ----------------------------------------------------------------------------

    def event(self, name: str, what: Any) -> None:
        self.activity += 1
        self.execution.course.add(self.index, what)
        self.ended = self.ended or name == "eof_received"
        self.lost = self.lost or name == "connection_lost"
        self.call_hook(name)

    def data(self, data: bytes) -> None:
        assert data == stream(2 * self.index, self.received, len(data)), "another's bytes"
        self.activity += 1
        self.received += len(data)
        self.execution.course.add(self.index, len(data))
        if self.received == self.sent:
            self.call_hook("data")

    def call_hook(self, name: str) -> None:
        self.execution.latest = self.index
        if bodies := self.hooks.get(name):
            self.perform(bodies.pop(0))

    def peer_got(self, data: bytes) -> None:
        self.activity += 1
        self.got.extend(data)

    # ---- what is done ----------------------------------------------------------------------------

    def perform(self, operations: Body) -> None:
        connections = self.execution.connections
        for operation, argument in operations:
            if operation == "raise":
                raise MeantError
            if operation.startswith("other "):
                other = connections[(self.index + 1) % len(connections)]
                other.perform_one(operation.removeprefix("other "), argument)
            else:
                self.perform_one(operation, argument)

    def perform_one(self, operation: str, argument: int) -> None:
        course, loop = self.execution.course, self.execution.loop
        if operation == "soon" and self.execution.in_task:
            course.later.append(f"soon {argument}")
        elif operation == "soon":
            loop.call_soon(course.add, self.index, ("soon", argument))
        elif operation == "later":
            loop.call_later(0, course.later.append, f"later {argument}")
        elif operation == "task":
            task = loop.create_task(self.task(self.program.tasks[argument]))
            self.execution.tasks.add(task)
        elif operation == "send":
            # One message at a time: where several wait, the cut of reads would show.
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
        later = self.execution.course.later
        self.execution.in_task = True
        try:
            self.perform(body)
        except Exception as exc:  # asyncio's pipe transports raise where they are lost
            later.append(type(exc).__name__)
        self.execution.in_task = False
        await asyncio.sleep(0)
        later.append("task")

    def use_transport(self, operation: str, argument: int) -> None:
        transport = self.transport
        if operation.startswith("write") and operation != "write_eof":
            # asyncio falls over some writes to a connection that is lost, or about to be.
            if not self.lost and (operation != "writelines" or not transport.is_closing()):
                self.write(operation, argument)
        elif operation == "limit":
            transport.set_write_buffer_limits(high=argument)
        elif operation == "state":
            reading = self.program.transport != "write pipe" and transport.is_reading()
            self.execution.course.add(self.index, ("state", transport.is_closing(), reading))
        elif operation == "set_protocol":
            transport.set_protocol(self.protocol(argument))
        elif operation in {"pause_reading", "resume_reading"}:
            if not self.ended:  # asyncio tells of the end again then
                getattr(transport, operation)()
        elif self.program.transport != "tls" or not transport.is_closing():
            # asyncio's TLS falls apart when it is closed twice.
            getattr(transport, operation)()

    def write(self, operation: str, size: int) -> None:
        data = stream(2 * self.index + 1, self.written, size)
        self.written += size  # now: pause_writing may write more
        try:
            # asyncio's writelines() tries the socket even where something waits, since Python 3.12.
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
            self.execution.course.add(self.index, "refused")


def stream_from_start(identity: int, size: int) -> bytes:
    pattern = _pattern(identity)[:65521]
    return (pattern * (size // 65521 + 1))[:size]


class _Callbacks:
    def __init__(self, connection: _Connection) -> None:
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
        # Which of its errors a broken connection shows first depends on which end is looked at.
        reason = "ConnectionError" if isinstance(exc, ConnectionError) else type(exc).__name__
        self.connection.event("connection_lost", ("lost", reason))


class _Plain(_Callbacks, asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        self.connection.data(data)


class _Buffered(_Callbacks, asyncio.BufferedProtocol):
    def __init__(self, connection: _Connection, size: int) -> None:
        super().__init__(connection)
        self.size = size

    def get_buffer(self, sizehint: int) -> memoryview:
        self.buffer = bytearray(self.size)
        self.connection.call_hook("get_buffer")
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.connection.data(bytes(self.buffer[:nbytes]))


class _SocketPeer:
    """The other end of a plain connection: a socket that does what it is told."""

    def __init__(self, connection: _Connection, sock: socket.socket) -> None:
        self.connection = connection
        self.sock = sock

    def send(self, data: bytes) -> int:
        with contextlib.suppress(OSError):  # closed, at either end
            return self.sock.send(data)
        return 0

    def receive(self, count: int) -> None:
        with contextlib.suppress(OSError):  # nothing is there, or no longer
            while count > 0 and (data := self.sock.recv(count)):
                self.connection.peer_got(data)
                count -= len(data)

    def end(self, how: str) -> None:
        if how == "shutdown":
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)
        else:
            self.sock.close()

    def close(self) -> None:
        self.sock.close()


class _PipePeer:
    """The other end of a pipe."""

    def __init__(self, connection: _Connection, fd: int) -> None:
        os.set_blocking(fd, False)
        self.connection = connection
        self.fd = fd

    def send(self, data: bytes) -> int:
        if self.fd >= 0 and self.connection.program.transport == "read pipe":
            with contextlib.suppress(OSError):
                return os.write(self.fd, data)
        return 0

    def receive(self, count: int) -> None:
        with contextlib.suppress(OSError):
            while count > 0 and (data := os.read(self.fd, count)):
                self.connection.peer_got(data)
                count -= len(data)

    def end(self, how: str) -> None:
        self.close()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class _TlsPeer(asyncio.Protocol):
    """The other end of a TLS connection: it receives all the time."""

    def __init__(self, connection: _Connection) -> None:
        self.connection = connection
        self.transport: Any = None
        self.closing = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.connection.peer_got(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.transport, self.closing = None, True

    def send(self, data: bytes) -> int:
        if self.closing:
            return 0
        self.transport.write(data)
        return len(data)

    def receive(self, count: int) -> None:
        """It does so by itself."""

    def end(self, how: str) -> None:
        if self.transport is not None and (not self.closing or how == "abort"):
            self.transport.abort() if how == "abort" else self.transport.close()
            self.closing = True

    def close(self) -> None:
        """Its transport goes with the loop."""
