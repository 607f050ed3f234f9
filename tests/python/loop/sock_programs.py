"""Programs of `sock_*` calls with cancels, together with readers and writers.

The comparison covers the result of each call, and the bytes at both ends whenever the loop is idle.
The effect of a cancel between two iterations depends on the loop (and asyncio then loses bytes), so
`free` programs run only on Penstock's loop, and must not lose a byte.

    python -m tests.python.loop.sock_programs --programs N --seed S --gc-threshold N
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import socket
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from .conftest import LoopFactory
from .event_sequences import stream
from .random_programs import Difference, Kind, main

Operation = tuple[str, int, int]
"""The operation's name, the number of its channel, its argument."""

QUIET_TURNS = 40

READING = ("recv", "recv_into", "recvfrom", "recvfrom_into")
WRITING = ("sendall", "sendfile")


@dataclass
class Program:
    """Each step runs at once, then the loop runs until idle. `channels` are kinds of sockets."""

    channels: list[str]
    steps: list[list[Operation]]
    free: bool = False
    """The operation "turns" runs some iterations in the middle of a step."""


@dataclass
class Outcome:
    events: list[Any] = field(default_factory=list)
    failure: str = ""
    """The error that ended the program."""


def run_program(factory: LoopFactory, program: Program) -> Outcome:
    loop = factory()
    outcome = Outcome()
    try:
        loop.set_exception_handler(
            lambda _, context: outcome.events.append(("reported", repr(context.get("exception"))))
        )
        loop.run_until_complete(asyncio.wait_for(_Run(loop, program, outcome).run(), 30))
    except Exception as exc:
        outcome.failure = repr(exc)
    finally:
        loop.close()
    return outcome


def compare(program: Program, expected: Outcome | None, found: Outcome) -> Difference | None:
    if found.failure != (expected.failure if expected else ""):
        return Difference("end", expected and expected.failure, found.failure)
    if expected is None:
        return None
    pairs = zip([*expected.events, None], [*found.events, None], strict=False)
    for at, (one, other) in enumerate(pairs):
        if one != other:
            return Difference(f"event {at}", one, other)
    return None


class _Run:
    def __init__(self, loop: asyncio.AbstractEventLoop, program: Program, outcome: Outcome) -> None:
        self.loop = loop
        self.program = program
        self.outcome = outcome
        self.activity = 0
        self.made = 0  # identities of streams
        self.channels: list[_Channel] = [self.channel(kind) for kind in program.channels]

    def channel(self, kind: str) -> _Channel:
        return (_Datagrams if kind == "udp" else _Listening if kind == "listener" else _Stream)(
            self, kind
        )

    def identity(self) -> int:
        self.made += 1
        return self.made

    async def run(self) -> None:
        for step in self.program.steps:
            for name, index, argument in step:
                if name == "turns":
                    for _ in range(argument):
                        await asyncio.sleep(0)
                elif name == "replace":
                    self.channels[index].close()
                    self.channels[index] = self.channel(self.program.channels[index])
                else:
                    self.channels[index].perform(name, argument)
            await self.rest()
            for channel in self.channels:
                self.outcome.events.append(channel.state())
        for channel in self.channels:
            await channel.finish()
            self.outcome.events.append(channel.state())
            channel.close()
        await self.rest()

    async def rest(self) -> None:
        seen, quiet = -1, 0
        while quiet < QUIET_TURNS:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self.activity == seen else 0
            seen = self.activity


class _Channel:
    """A socket under test, with one call per direction at a time, and its peer."""

    def __init__(self, run: _Run, kind: str) -> None:
        self.run = run
        self.kind = kind
        self.events: dict[str, list[Any]] = {}
        self.calls: dict[str, asyncio.Task[None]] = {}

    def state(self) -> Any:
        """Return the events since the last call, and the calls in progress."""
        events, self.events = self.events, {}
        return (self.kind, sorted(events.items()), sorted(self.calls))

    def add(self, who: str, event: Any) -> None:
        """Record an event by caller, because a call needs fewer iterations than on asyncio's."""
        self.run.activity += 1
        self.events.setdefault(who, []).append(event)

    def begin(self, side: str, name: str, call: Callable[[], Awaitable[Any]]) -> None:
        if side in self.calls:
            return  # asyncio would remove the first call's registration

        async def perform() -> None:
            try:
                result = await call()
            except asyncio.CancelledError:
                self.add(side, (name, "cancelled"))
                raise
            except OSError as exc:
                self.add(side, (name, type(exc).__name__, exc.errno))
            except Exception as exc:
                self.add(side, (name, type(exc).__name__))
            else:
                self.add(side, (name, result))
            finally:
                self.calls.pop(side, None)

        task = self.run.loop.create_task(perform())
        self.calls[side] = task
        task.add_done_callback(
            lambda task: self.calls.pop(side, None) if task.cancelled() else None
        )

    def cancel(self, side: str) -> None:
        if task := self.calls.get(side):
            task.cancel()

    def perform(self, name: str, argument: int) -> None:
        raise NotImplementedError

    async def finish(self) -> None:
        for side in list(self.calls):
            self.cancel(side)
        await self.run.rest()

    def close(self) -> None:
        for side in list(self.calls):
            self.cancel(side)


class _Stream(_Channel):
    """A connected stream: "unix" or "tcp"."""

    def __init__(self, run: _Run, kind: str) -> None:
        super().__init__(run, kind)
        if kind == "tcp":
            with socket.create_server(("127.0.0.1", 0)) as listener:
                self.peer = socket.create_connection(listener.getsockname())
                self.sock, _ = listener.accept()
            for sock in (self.sock, self.peer):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            self.sock, self.peer = socket.socketpair()
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 100_000)
        self.sock.setblocking(False)
        self.peer.setblocking(False)
        self.incoming = run.identity()
        self.sent = self.received = 0
        self.outgoing: list[tuple[int, int]] = []  # identity and size of each send
        self.peer_got = bytearray()
        self.reading = self.writing = False

    def perform(self, name: str, argument: int) -> None:
        loop = self.run.loop
        if name in READING:
            if not self.reading:
                self.begin("read", name, functools.partial(self.read, name, argument))
        elif name in WRITING:
            if not self.writing:
                self.begin("write", name, functools.partial(self.write, name, argument))
        elif name.startswith("cancel "):
            self.cancel(name.removeprefix("cancel "))
        elif name == "add_reader":
            if "read" not in self.calls and self.sock.fileno() >= 0:
                loop.add_reader(self.sock, self.on_readable, max(argument, 1000))
                self.reading = True
        elif name == "add_writer":
            if "write" not in self.calls and self.sock.fileno() >= 0:
                loop.add_writer(self.sock, self.on_writable)
                self.writing = True
        elif name == "remove_reader":
            if self.reading:
                self.add("reader", loop.remove_reader(self.sock))
                self.reading = False
        elif name == "remove_writer":
            if self.writing:
                self.add("writer", loop.remove_writer(self.sock))
                self.writing = False
        else:
            self.use_peer(name, argument)

    def use_peer(self, name: str, argument: int) -> None:
        with contextlib.suppress(OSError):
            if name == "peer send":
                self.sent += self.peer.send(stream(self.incoming, self.sent, argument))
            elif name == "peer receive":
                while argument > 0 and (data := self.peer.recv(argument)):
                    self.peer_got += data
                    argument -= len(data)
            elif name == "peer shutdown":
                self.peer.shutdown(socket.SHUT_WR)
            elif name == "peer close":
                self.peer.close()

    async def read(self, name: str, size: int) -> int:
        loop: Any = self.run.loop
        if name == "recv":
            data = await loop.sock_recv(self.sock, size)
        elif name == "recvfrom":
            data, _ = await loop.sock_recvfrom(self.sock, size)
        else:
            buffer = bytearray(size)
            if name == "recv_into":
                count = await loop.sock_recv_into(self.sock, buffer)
            else:
                count, _ = await loop.sock_recvfrom_into(self.sock, buffer)
            data = bytes(buffer[:count])
            assert not any(buffer[count:])
        return self.take(data)

    def take(self, data: bytes) -> int:
        assert data == stream(self.incoming, self.received, len(data)), "another's bytes"
        self.received += len(data)
        return len(data)

    async def write(self, name: str, size: int) -> None:
        identity = self.run.identity()
        self.outgoing.append((identity, size))
        data = stream(identity, 0, size)
        if name == "sendall":
            await self.run.loop.sock_sendall(self.sock, bytearray(data) if size % 2 else data)
            return
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            # Without asyncio's fallback: the end of its thread cannot be observed.
            await self.run.loop.sock_sendfile(self.sock, file, fallback=False)

    def on_readable(self, size: int) -> None:
        try:
            data = self.sock.recv(size)
        except OSError as exc:
            self.add("reader", type(exc).__name__)
            data = b""
        else:
            self.add("reader", self.take(data))
        if not data:
            self.run.loop.remove_reader(self.sock)
            self.reading = False

    def on_writable(self) -> None:
        self.add("writer", "called")
        self.run.loop.remove_writer(self.sock)
        self.writing = False

    async def finish(self) -> None:
        if self.reading:
            self.run.loop.remove_reader(self.sock)
            self.reading = False
        before = -1
        while before != len(self.peer_got):
            before = len(self.peer_got)
            self.use_peer("peer receive", 1 << 24)
            await self.run.rest()
        await super().finish()
        self.use_peer("peer receive", 1 << 24)
        # All data sent and not received are still available.
        with contextlib.suppress(OSError):
            while data := self.sock.recv(1 << 20):
                self.take(data)
        broken = self.peer.fileno() < 0
        assert broken or self.received == self.sent, f"{self.sent - self.received} bytes are lost"
        self.check_outgoing()
        if self.kind == "unix":
            self.add("peer", len(self.peer_got))

    def check_outgoing(self) -> None:
        """Check that the peer has received a prefix of each send, in order."""
        rest = memoryview(self.peer_got)
        for identity, size in self.outgoing:
            data = stream(identity, 0, size)
            count = min(len(rest), size)
            while rest[:count] != data[:count]:
                count -= 1 if count < 64 else count // 16
            while count < min(len(rest), size) and rest[count] == data[count]:
                count += 1
            rest = rest[count:]
        assert not rest, "the peer received bytes of another send"

    def close(self) -> None:
        super().close()
        if self.sock.fileno() >= 0:
            self.run.loop.remove_reader(self.sock)
            self.run.loop.remove_writer(self.sock)
        self.sock.close()
        self.peer.close()


class _Datagrams(_Channel):
    """A UDP socket and its peer; a datagram names its sender and its number."""

    def __init__(self, run: _Run, kind: str) -> None:
        super().__init__(run, kind)
        self.sock, self.peer = (socket.socket(type=socket.SOCK_DGRAM) for _ in range(2))
        for sock in (self.sock, self.peer):
            sock.setblocking(False)
            sock.bind(("127.0.0.1", 0))
        self.incoming = run.identity()
        self.sent: list[bytes] = []
        self.received = 0

    def perform(self, name: str, argument: int) -> None:
        if name in READING:
            self.begin("read", name, functools.partial(self.read, name, argument))
        elif name == "sendto":
            self.begin("write", name, functools.partial(self.send, argument))
        elif name.startswith("cancel "):
            self.cancel(name.removeprefix("cancel "))
        elif name == "peer send":
            self.sent.append(stream(self.incoming, 100 * len(self.sent), argument))
            self.peer.sendto(self.sent[-1], self.sock.getsockname())
        elif name == "peer receive":
            with contextlib.suppress(BlockingIOError):
                self.add("peer", len(self.peer.recv(argument)))

    async def read(self, name: str, size: int) -> int:
        loop: Any = self.run.loop
        if name in {"recv", "recvfrom"}:
            data, sender = await loop.sock_recvfrom(self.sock, size)
        else:
            buffer = bytearray(size)
            count, sender = await loop.sock_recvfrom_into(self.sock, buffer)
            data = bytes(buffer[:count])
        assert sender == self.peer.getsockname()
        assert data == self.sent[self.received][:size], "another's bytes"
        self.received += 1
        return len(data)

    async def send(self, size: int) -> int:
        data = stream(self.run.identity(), 0, size)
        loop: Any = self.run.loop
        count: int = await loop.sock_sendto(self.sock, data, self.peer.getsockname())
        return count

    async def finish(self) -> None:
        await super().finish()
        with contextlib.suppress(BlockingIOError):
            while True:
                assert self.sock.recv(1 << 16) == self.sent[self.received]
                self.received += 1
        assert self.received == len(self.sent), "a datagram is lost"

    def close(self) -> None:
        super().close()
        self.sock.close()
        self.peer.close()


class _Listening(_Channel):
    """A listener: accepts and connects."""

    def __init__(self, run: _Run, kind: str) -> None:
        super().__init__(run, kind)
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.sock.setblocking(False)
        self.ends: list[socket.socket] = []

    def perform(self, name: str, argument: int) -> None:
        if name == "accept":
            self.begin("read", name, self.accept)
        elif name == "connect":
            self.begin("write", name, functools.partial(self.connect, argument))
        elif name.startswith("cancel "):
            self.cancel(name.removeprefix("cancel "))
        elif name == "peer connect":
            client = socket.create_connection(self.sock.getsockname())
            self.ends.append(client)

    async def accept(self) -> bool:
        connection, address = await self.run.loop.sock_accept(self.sock)
        self.ends.append(connection)
        return address == connection.getpeername() and connection.gettimeout() == 0

    async def connect(self, refused: int) -> bool:
        client = socket.socket()
        client.setblocking(False)
        self.ends.append(client)
        address = self.sock.getsockname()
        if refused:
            with socket.create_server(("127.0.0.1", 0)) as gone:
                address = gone.getsockname()
        await self.run.loop.sock_connect(client, address)
        return bool(client.getpeername() == address)

    def close(self) -> None:
        super().close()
        for sock in (self.sock, *self.ends):
            sock.close()


# ---- random programs -----------------------------------------------------------------------------


def make_program(free: bool, seed: int) -> Program:
    choices = random.Random(f"{free} {seed}")
    channels = [
        choices.choice(("unix", "unix", "tcp", "udp", "listener"))
        for _ in range(choices.randrange(1, 4))
    ]

    def operation() -> Operation:
        index = choices.randrange(len(channels))
        kind = channels[index]
        if choices.random() < 0.06:
            return "replace", index, 0
        if kind == "listener":
            return choices.choice(_LISTENER), index, choices.choice((0, 0, 1))
        if kind == "udp":
            return choices.choice(_DATAGRAMS), index, choices.choice((1, 100, 5000))
        name = choices.choice(_STREAM)
        sizes = (1, 100, 5000, 70_001, 400_000)
        if kind == "tcp":
            sizes = sizes[:3]
        elif name == "peer send":
            sizes = sizes[:4]
        return name, index, choices.choice(sizes)

    def step() -> list[Operation]:
        operations: list[Operation] = []
        for _ in range(choices.randrange(1, 6)):
            operations.append(operation())
            if free and choices.random() < 0.5:
                operations.append(("turns", 0, choices.randrange(1, 6)))
        return operations

    return Program(channels, [step() for _ in range(choices.randrange(1, 12))], free)


_STREAM = (
    *READING,
    *READING,
    *WRITING,
    "sendall",
    *("cancel read", "cancel write") * 2,
    *("peer send",) * 4,
    *("peer receive",) * 3,
    *("peer shutdown", "peer close"),
    *("add_reader", "add_writer", "remove_reader", "remove_writer"),
)
_DATAGRAMS = (
    *("recvfrom", "recvfrom_into") * 2,
    *("sendto",) * 3,
    *("peer send",) * 3,
    *("peer receive",) * 2,
    *("cancel read", "cancel write"),
)
_LISTENER = (
    "accept",
    "accept",
    "connect",
    "connect",
    "peer connect",
    "cancel read",
    "cancel write",
)


def shorter(program: Program) -> list[Program]:
    """Programs with one element less."""
    steps = program.steps
    found = [replace(program, steps=steps[:n] + steps[n + 1 :]) for n in range(len(steps))]
    for n, step in enumerate(steps):
        found += [
            replace(program, steps=[*steps[:n], step[:at] + step[at + 1 :], *steps[n + 1 :]])
            for at in range(len(step))
        ]
    return found


def kind_of(free: bool) -> Kind[Program]:
    make = functools.partial(make_program, free)
    return Kind(make, run_program, compare, shorter, judged=not free)


KINDS = {"compared": kind_of(False), "free": kind_of(True)}

if __name__ == "__main__":
    main(KINDS)
