"""Small programs over one connection, whose events and bytes can be compared between loops.

Everything happens over Unix sockets within one thread, so that a program's course depends on the
loop alone: what one end sends has arrived when the call returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .certificates import client_context, server_context

Operation = tuple[str, int]
Steps = list[list[Operation]]
Hooks = dict[str, list[Operation]]

QUIET_TURNS = 80
"""So many turns without an event, and there will be none: a busy loop polls every 32 callbacks."""

MOST_TURNS = 20_000


class MeantError(Exception):
    """Raised by a protocol's callback."""


@dataclass
class Program:
    """Each step is one callback, after which everything comes to rest.

    A hook runs in the first of the protocol's callbacks of its name.
    """

    steps: Steps
    hooks: Hooks = field(default_factory=dict)
    buffered: bool = False
    keep_open_on_eof: bool = False
    tls: bool = False


@dataclass
class Course:
    """What has happened: the protocol's events in order, and the bytes that the peer got."""

    events: list[Any] = field(default_factory=list)
    peer: bytearray = field(default_factory=bytearray)

    def add(self, event: Any) -> None:
        # How a stream is cut into reads is the loop's own affair.
        if isinstance(event, bytes) and self.events and isinstance(self.events[-1], bytes):
            self.events[-1] += event
        else:
            self.events.append(event)


def run_program(factory: Callable[[], asyncio.AbstractEventLoop], program: Program) -> Course:
    loop = factory()
    course = Course()
    try:
        loop.set_exception_handler(
            lambda _, context: course.add(("reported", type(context.get("exception")).__name__))
        )
        execution = _Execution(loop, program, course)
        loop.run_until_complete(asyncio.wait_for(execution.run(), 15))
    finally:
        loop.close()
    return course


class _Execution:
    def __init__(self, loop: asyncio.AbstractEventLoop, program: Program, course: Course) -> None:
        self.loop = loop
        self.program = program
        self.course = course
        self.hooks = dict(program.hooks)
        self.transport: Any = None
        self.lost = False
        self.ended = False  # the peer has ended its side
        self.sent = 0
        self.peer: _SocketPeer | _TlsPeer
        self.other = socket.socketpair()
        for sock in self.other:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)

    async def run(self) -> None:
        ours, theirs = socket.socketpair()
        for sock in (ours, theirs):
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
        protocol: Any = (_Buffered if self.program.buffered else _Plain)(self)
        if self.program.tls:
            self.peer = peer = _TlsPeer(self.course)
            await asyncio.gather(
                self.loop.connect_accepted_socket(lambda: protocol, ours, ssl=server_context()),
                self.loop.create_connection(
                    lambda: peer, sock=theirs, ssl=client_context(), server_hostname="localhost"
                ),
            )
        else:
            self.peer = _SocketPeer(self.course, theirs)
            await self.loop.create_connection(lambda: protocol, sock=ours)
        await self.rest()
        for step in self.program.steps:
            with contextlib.suppress(MeantError):
                self.perform(step)
            await self.rest()
            self.course.add("--")
        await self.finish()

    async def finish(self) -> None:
        """Everything under way arrives; then the connection is closed, if it still is there."""
        if not self.lost and not self.ended:
            self.transport.resume_reading()
        before = -1
        while before != len(self.course.peer):
            before = len(self.course.peer)
            self.peer.receive(1 << 20)
            await self.rest()
        if not self.lost:
            self.transport.abort()
        await self.rest()
        self.peer.end("abort")
        await self.rest()
        for sock in self.other:
            sock.close()

    async def rest(self) -> None:
        seen, quiet = -1, 0
        for _ in range(MOST_TURNS):
            await asyncio.sleep(0)
            last = self.course.events[-1:]
            now = len(self.course.events) + len(self.course.peer)
            now += len(last[0]) if last and isinstance(last[0], bytes) else 0
            quiet = quiet + 1 if now == seen else 0
            seen = now
            if quiet == QUIET_TURNS:
                return
        raise AssertionError("the program does not come to rest")

    def event(self, name: str, what: Any) -> None:
        self.course.add(what)
        self.ended = self.ended or name == "eof_received"
        self.lost = self.lost or name == "connection_lost"
        self.perform(self.hooks.pop(name, []))

    def perform(self, operations: list[Operation]) -> None:
        for operation, argument in operations:
            if operation == "raise":
                raise MeantError
            if operation == "soon":
                self.loop.call_soon(self.course.add, ("soon", argument))
            elif operation == "send":
                self.peer.send(self.data(argument))
            elif operation == "other socket":
                self.read_other_socket(argument)
            elif operation == "receive":
                self.peer.receive(argument)
            elif operation.startswith("peer "):
                self.peer.end(operation.removeprefix("peer "))
            elif not self.lost:
                self.use_transport(operation, argument)

    def use_transport(self, operation: str, argument: int) -> None:
        transport = self.transport
        if operation == "write":
            with contextlib.suppress(RuntimeError):  # after write_eof()
                transport.write(self.data(argument))
        elif operation == "write mutable":
            with contextlib.suppress(RuntimeError):
                transport.write(bytearray(self.data(argument)))
        elif operation == "limit":
            transport.set_write_buffer_limits(high=argument)
        elif operation == "state":
            self.course.add(("state", transport.is_closing(), transport.is_reading()))
        elif operation in {"pause_reading", "resume_reading"}:
            if not self.ended:  # asyncio tells of the end again then
                getattr(transport, operation)()
        elif operation != "close" or not transport.is_closing():  # asyncio's TLS falls apart
            getattr(transport, operation)()

    def read_other_socket(self, size: int) -> None:
        """Receive what lies there, at once, as an eager task's first step would."""
        self.other[1].send(b"\xff" * size)
        try:
            self.loop.sock_recv(self.other[0], size).send(None)
        except StopIteration as end:
            self.course.add(("other socket", len(end.value), set(end.value) == {255}))

    def data(self, size: int) -> bytes:
        """Bytes that differ from one write to the next."""
        self.sent += 1
        return b"%d:" % self.sent + bytes(range(251)) * (size // 251) if size else b""


class _Callbacks:
    def __init__(self, execution: _Execution) -> None:
        self.execution = execution

    def connection_made(self, transport: Any) -> None:
        self.execution.transport = transport
        self.execution.event("connection_made", "made")

    def eof_received(self) -> bool:
        self.execution.event("eof_received", "eof")
        return self.execution.program.keep_open_on_eof and not self.execution.program.tls

    def pause_writing(self) -> None:
        self.execution.event("pause_writing", "pause")

    def resume_writing(self) -> None:
        self.execution.event("resume_writing", "resume")

    def connection_lost(self, exc: BaseException | None) -> None:
        # Which of its errors a broken connection shows first depends on which end is looked at.
        reason = "ConnectionError" if isinstance(exc, ConnectionError) else type(exc).__name__
        self.execution.event("connection_lost", ("lost", reason))


class _Plain(_Callbacks, asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        self.execution.event("data", data)


class _Buffered(_Callbacks, asyncio.BufferedProtocol):
    def get_buffer(self, sizehint: int) -> memoryview:
        self.buffer = bytearray(65536)
        return memoryview(self.buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.execution.event("data", bytes(self.buffer[:nbytes]))


class _SocketPeer:
    """The other end of a plain connection: a socket that does what it is told."""

    def __init__(self, course: Course, sock: socket.socket) -> None:
        self.course = course
        self.sock = sock

    def send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # closed, at either end
            self.sock.send(data)

    def receive(self, count: int) -> None:
        with contextlib.suppress(OSError):  # nothing is there, or no longer
            while count > 0 and (data := self.sock.recv(count)):
                self.course.peer += data
                count -= len(data)

    def end(self, how: str) -> None:
        if how == "shutdown":
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)
        else:
            self.sock.close()


class _TlsPeer(asyncio.Protocol):
    """The other end of a TLS connection: it receives all the time."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.transport: Any = None
        self.closing = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.course.peer += data

    def connection_lost(self, exc: BaseException | None) -> None:
        self.transport, self.closing = None, True

    def send(self, data: bytes) -> None:
        if not self.closing:
            self.transport.write(data)

    def receive(self, count: int) -> None:
        """It does so by itself."""

    def end(self, how: str) -> None:
        if self.transport is not None and (not self.closing or how == "abort"):
            self.transport.abort() if how == "abort" else self.transport.close()
            self.closing = True
