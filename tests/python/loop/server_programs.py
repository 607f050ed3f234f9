"""Random programs on a server: its life, its connections', and files that these send.

Each step is one callback, after which the loop runs until it is idle. The events are compared for
each connection and for the server, because a loop may accept a connection in fewer iterations.

    python -m tests.python.loop.server_programs --programs N --seed S --gc-threshold N
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import socket
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .conftest import LoopFactory
from .event_sequences import stream
from .random_programs import Difference, Kind, main

Operation = tuple[str, int, int]
"""The operation's name, the number of its connection, its argument."""

QUIET_TURNS = 60
MOST_CONNECTIONS = 5

SERVER = (
    *("close server", "start serving", "wait closed", "serve forever", "cancel forever"),
    *("close clients", "abort clients", "sockets"),
)
CLIENT = (*("client send",) * 4, *("client receive",) * 2, "client shutdown", "client close")
TRANSPORT = (
    *("write",) * 3,
    *("close", "abort", "write_eof", "pause_reading", "resume_reading"),
    *("sendfile", "sendfile", "cancel sendfile"),
)
# Not connection_lost: a server ends its clients in no particular order. See event_programs.
HOOKS = ("made", "data", "eof")


class DeliberateError(Exception):
    """Raised by a protocol's callback."""


@dataclass
class Program:
    """`hooks` are the actions of the connections' protocols in the first callback of each name."""

    family: str
    steps: list[list[Operation]]
    hooks: list[dict[str, list[Operation]]]
    serves_at_once: bool = True
    keeps_open: bool = False


@dataclass
class Outcome:
    server: list[Any] = field(default_factory=list)
    connections: list[list[Any]] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    """Bytes of each client."""

    failure: str = ""


def run_program(factory: LoopFactory, program: Program) -> Outcome:
    loop = factory()
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = _Run(loop, program, outcome, Path(folder))
            loop.set_exception_handler(run.report)
            loop.run_until_complete(asyncio.wait_for(run.run(), 30))
        except Exception as exc:
            outcome.failure = repr(exc)
        finally:
            loop.close()
    return outcome


def compare(program: Program, expected: Outcome, found: Outcome) -> Difference | None:
    places = [("the server", expected.server, found.server)]
    count = max(len(expected.connections), len(found.connections))
    for n in range(count):
        one, other = (each.connections[n : n + 1] for each in (expected, found))
        places.append((f"connection {n}", one, other))
    places.append(("the clients' bytes", expected.received, found.received))
    places.append(("end", [expected.failure], [found.failure]))
    for place, one, other in places:
        if one != other:
            return Difference(place, one, other)
    return None


class _Run:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, program: Program, outcome: Outcome, folder: Path
    ) -> None:
        self.loop: Any = loop
        self.program = program
        self.outcome = outcome
        self.activity = 0
        self.path = str(folder / "socket")
        self.server: Any = None
        self.latest: list[Any] = outcome.server
        self.clients: list[_Client] = []
        self.connections: list[_Connection] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.calls = 0  # of the server's coroutines

    def add(self, events: list[Any], event: Any) -> None:
        self.activity += 1
        # Each loop may divide a stream into reads differently.
        if isinstance(event, int) and events and type(events[-1]) is int:
            events[-1] += event
        else:
            events.append(event)

    def report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.add(self.latest, ("reported", type(context.get("exception")).__name__))

    async def run(self) -> None:
        program = self.program
        options = {"start_serving": program.serves_at_once}
        if program.family == "unix":
            self.server = await self.loop.create_unix_server(self.connection, self.path, **options)
        else:
            self.server = await self.loop.create_server(self.connection, "127.0.0.1", 0, **options)
            self.path = self.server.sockets[0].getsockname()
        await self.rest()
        for step in program.steps:
            with contextlib.suppress(DeliberateError):
                for operation in step:
                    self.perform(*operation)
            await self.rest()
            self.note_state()
        await self.finish()

    async def rest(self) -> None:
        seen, quiet = -1, 0
        while quiet < QUIET_TURNS:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self.activity == seen else 0
            seen = self.activity

    def note_state(self) -> None:
        self.outcome.server.append(("state", self.server.is_serving(), sorted(self.tasks)))
        for each in self.connections:
            if each.transport is not None:  # otherwise the server was closed before it began
                state = each.transport.is_closing(), each.transport.is_reading()
                each.events.append(("state", *state))

    async def finish(self) -> None:
        before = -1
        while before != self.activity:
            before = self.activity
            for client in self.clients:
                self.activity += client.receive(1 << 24)
            await self.rest()
        for task in list(self.tasks.values()):
            task.cancel()
        await self.rest()
        for each in self.connections:
            if each.transport is not None:
                each.transport.abort()
        self.server.close()
        await self.rest()
        self.note_state()
        for client in self.clients:
            client.receive(1 << 24)
            client.sock.close()
            self.outcome.received.append(client.received)

    def connection(self) -> _Connection:
        made = _Connection(self, len(self.connections))
        self.connections.append(made)
        self.outcome.connections.append(made.events)
        return made

    def spawn(self, name: str, events: list[Any], call: Any) -> None:
        if name in self.tasks:
            return

        async def perform() -> None:
            try:
                result = await call()
            except asyncio.CancelledError:
                self.add(events, (name, "cancelled"))
                raise
            except Exception as exc:
                error = "ConnectionError" if isinstance(exc, OSError) else type(exc).__name__
                self.add(events, (name, error))
            else:
                self.add(events, (name, result))
            finally:
                self.tasks.pop(name, None)

        task = self.tasks[name] = self.loop.create_task(perform())
        task.add_done_callback(lambda done: self.tasks.pop(name, None) if done is task else None)

    # ---- operations ------------------------------------------------------------------------------

    def perform(self, name: str, index: int, argument: int) -> None:
        if name in SERVER:
            self.use_server(name)
        elif name == "connect":
            if len(self.clients) < MOST_CONNECTIONS:
                self.connect()
        elif name.startswith("client "):
            if self.clients:
                self.clients[index % len(self.clients)].perform(name, argument)
        elif name == "raise":
            raise DeliberateError
        elif self.connections:
            self.connections[index % len(self.connections)].perform(name, argument)

    def connect(self) -> None:
        kind = socket.AF_UNIX if self.program.family == "unix" else socket.AF_INET
        sock = socket.socket(kind)
        try:
            sock.connect(self.path)
        except OSError:
            sock.close()
            self.add(self.outcome.server, "nobody listens")
            return
        sock.setblocking(False)
        self.clients.append(_Client(sock, len(self.clients)))

    def use_server(self, name: str) -> None:
        server, events = self.server, self.outcome.server
        if name == "close server":
            server.close()
        elif name in ("start serving", "wait closed", "serve forever"):
            self.calls += 1
            call = getattr(server, name.replace(" ", "_"))
            self.spawn(f"{name} {self.calls}", events, call)
        elif name == "cancel forever":
            for key, task in list(self.tasks.items()):
                if key.startswith("serve forever"):
                    task.cancel()
        elif name == "sockets":
            self.add(events, ("sockets", len(server.sockets)))
        elif not any(key.startswith("sendfile") for key in self.tasks):
            # asyncio cannot end a connection while it sends a file. From Python 3.13 on:
            getattr(server, name.replace(" ", "_"), lambda: None)()


class _Client:
    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock = sock
        self.number = number
        self.sent = self.received = 0

    def perform(self, name: str, argument: int) -> None:
        with contextlib.suppress(OSError):
            if name == "client send":
                self.sent += self.sock.send(stream(self.number, self.sent, argument))
            elif name == "client receive":
                self.receive(argument)
            elif name == "client shutdown":
                self.sock.shutdown(socket.SHUT_WR)
            else:
                self.sock.close()

    def receive(self, most: int) -> int:
        count = 0
        with contextlib.suppress(OSError):
            while count < most and (data := self.sock.recv(most - count)):
                count += len(data)
        self.received += count
        return count


class _Connection(asyncio.Protocol):
    def __init__(self, run: _Run, number: int) -> None:
        self.run = run
        self.number = number
        self.events: list[Any] = []
        hooks = run.program.hooks
        self.hooks = dict(hooks[number % len(hooks)])
        self.transport: Any = None
        self.ended = self.lost = False
        self.file_name = f"sendfile {number}"

    def event(self, name: str, event: Any) -> None:
        self.run.latest = self.events
        self.run.add(self.events, event)
        for operation in self.hooks.pop(name, ()):
            self.run.perform(*operation)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.event("made", "made")

    def data_received(self, data: bytes) -> None:
        self.event("data", len(data))

    def eof_received(self) -> bool:
        self.ended = True
        self.event("eof", "eof")
        return self.run.program.keeps_open

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost = True
        reason = "ConnectionError" if isinstance(exc, ConnectionError) else type(exc).__name__
        self.event("lost", ("lost", reason))

    def perform(self, name: str, argument: int) -> None:
        transport, run = self.transport, self.run
        sending = run.tasks.get(self.file_name)
        if name == "cancel sendfile":
            if sending is not None:
                sending.cancel()
        elif transport is None or (name in {"resume_reading", "sendfile"} and self.ended):
            pass  # reading is resumed, and asyncio then reports the end again
        elif name == "write":
            if self.lost:
                return  # loops warn of many of them
            try:
                transport.write(stream(100 + self.number, 0, argument))
            except RuntimeError:
                run.add(self.events, "refused")
        elif name == "sendfile":
            run.spawn(self.file_name, self.events, functools.partial(self.send_file, argument))
        elif sending is None:  # asyncio cannot end a connection while it sends a file
            try:
                getattr(transport, name)()
            except OSError:  # write_eof(), after a reset
                run.add(self.events, "reset")

    async def send_file(self, size: int) -> int:
        with tempfile.TemporaryFile() as file:
            file.write(stream(200 + self.number, 0, size))
            # Without asyncio's fallback: the end of its thread cannot be observed.
            count: int = await self.run.loop.sendfile(self.transport, file, 0, None, fallback=False)
            return count


# ---- random programs -----------------------------------------------------------------------------


def make_program(family: str, seed: int) -> Program:
    choices = random.Random(f"{family} server {seed}")
    sizes = (1, 100, 5000, 60_000) if family == "unix" else (1, 100, 5000)

    def operation(words: tuple[str, ...]) -> Operation:
        return choices.choice(words), choices.randrange(MOST_CONNECTIONS), choices.choice(sizes)

    def body(words: tuple[str, ...], most: int) -> list[Operation]:
        return [operation(words) for _ in range(choices.randrange(1, most))]

    def hooks() -> dict[str, list[Operation]]:
        made = {}
        for name in HOOKS:
            if choices.random() < 0.25:
                made[name] = body(SERVER + TRANSPORT, 3)
                if choices.random() < 0.2:
                    made[name].append(("raise", 0, 0))
        return made

    def step() -> list[Operation]:
        # Alone: a loop that accepts in one iteration has made the connection before others' events.
        if choices.random() < 0.25:
            return [("connect", 0, 0)]
        return body(CLIENT * 2 + SERVER + TRANSPORT, 4)

    return Program(
        family,
        [[("connect", 0, 0)], *(step() for _ in range(choices.randrange(1, 14)))],
        [hooks() for _ in range(choices.randrange(1, 4))],
        choices.random() < 0.8,
        choices.random() < 0.4,
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
    for n, hooks in enumerate(program.hooks):
        for name, body in hooks.items():
            rest = {key: value for key, value in hooks.items() if key != name}
            fewer = [rest, *({**rest, name: body[:at] + body[at + 1 :]} for at in range(len(body)))]
            found += [
                replace(program, hooks=[*program.hooks[:n], each, *program.hooks[n + 1 :]])
                for each in fewer
            ]
    return found


def kind_of(family: str) -> Kind[Program]:
    return Kind(functools.partial(make_program, family), run_program, compare, shorter)


KINDS = {f"server on {family}": kind_of(family) for family in ("unix", "tcp")}

if __name__ == "__main__":
    main(KINDS)
