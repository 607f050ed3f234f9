"""Random programs whose datagram endpoints act in their callbacks: send, close, pause, raise.

Everything runs in one thread, and the peers are plain sockets. Unix sockets hold a few datagrams,
so that endpoints queue the others. The events are compared for each endpoint, because a loop may
deliver a batch of one endpoint before another's.

    python -m tests.python.loop.datagram_programs --programs N --seed S --gc-threshold N
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

Operation = tuple[str, int]
Body = list[Operation]

QUIET_TURNS = 60
ENDPOINT = (
    *("send",) * 4,
    *("send view", "send mutable", "burst", "burst"),
    *("close", "abort", "limit", "state", "set_protocol"),
)
PEER = (*("peer send",) * 4, *("peer receive",) * 3, "peer burst", "peer close")
HOOKS = ("made", "datagram", "error", "pause", "resume", "lost")
BURST = 14
"""More than a Unix socket holds (net.unix.max_dgram_qlen is 10)."""


class DeliberateError(Exception):
    """Raised by a protocol's callback."""


@dataclass
class Program:
    """`hooks` are the actions of each endpoint in its callbacks of each name, call by call."""

    family: str
    steps: list[tuple[int, Body]]
    hooks: list[dict[str, list[Body]]]
    connected: bool


@dataclass
class Outcome:
    events: list[list[Any]] = field(default_factory=list)
    received: list[list[bytes]] = field(default_factory=list)
    """The datagrams of each peer."""

    failure: str = ""


def run_program(factory: LoopFactory, program: Program) -> Outcome:
    loop = factory()
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        run = _Run(loop, program, outcome, Path(folder))
        loop.set_exception_handler(run.report)
        try:
            loop.run_until_complete(asyncio.wait_for(run.run(), 30))
        except Exception as exc:
            outcome.failure = repr(exc)
        finally:
            run.close()
            loop.close()
    return outcome


def compare(program: Program, expected: Outcome, found: Outcome) -> Difference | None:
    for n in range(len(program.hooks)):
        for place, one, other in (
            (f"events of endpoint {n}", expected.events[n], found.events[n]),
            (f"datagrams of peer {n}", expected.received[n], found.received[n]),
        ):
            if one != other:
                return Difference(place, one, other)
    if expected.failure != found.failure:
        return Difference("end", expected.failure, found.failure)
    return None


class _Run:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, program: Program, outcome: Outcome, folder: Path
    ) -> None:
        self.loop = loop
        self.program = program
        self.activity = 0
        self.endpoints = [_Endpoint(self, n, folder) for n in range(len(program.hooks))]
        self.latest = self.endpoints[0]
        outcome.events = [each.events for each in self.endpoints]
        outcome.received = [each.received for each in self.endpoints]

    def report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.latest.add(("reported", type(context.get("exception")).__name__))

    async def run(self) -> None:
        for each in self.endpoints:
            await each.open()
        await self.rest()
        for index, body in self.program.steps:
            with contextlib.suppress(DeliberateError):
                self.endpoints[index].perform(body)
            await self.rest()
            for each in self.endpoints:
                each.events.append("--")
        for each in self.endpoints:
            while each.use_peer("peer receive", 100):
                await self.rest()
            each.use("abort", 0)
        await self.rest()

    async def rest(self) -> None:
        seen, quiet = -1, 0
        while quiet < QUIET_TURNS:
            await asyncio.sleep(0)
            quiet = quiet + 1 if self.activity == seen else 0
            seen = self.activity

    def close(self) -> None:
        for each in self.endpoints:
            each.peer.close()


class _Endpoint:
    """An endpoint, its protocols' hooks, and the plain socket that it talks to."""

    def __init__(self, run: _Run, number: int, folder: Path) -> None:
        self.run = run
        self.number = number
        self.hooks = {name: list(each) for name, each in run.program.hooks[number].items()}
        self.events: list[Any] = []
        self.received: list[bytes] = []
        self.transport: Any = None
        self.ending = False  # the loss is due, or was told
        self.sent = 0
        if run.program.family == "unix":
            self.peer = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.own: Any = str(folder / f"endpoint {number}")
            self.target: Any = str(folder / f"peer {number}")
        else:
            self.peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.own = self.target = ("127.0.0.1", 0)
        self.peer.bind(self.target)
        self.peer.setblocking(False)
        self.target = self.peer.getsockname()

    async def open(self) -> None:
        loop: Any = self.run.loop
        family = socket.AF_UNIX if self.run.program.family == "unix" else 0
        target = {"remote_addr": self.target} if self.run.program.connected else {}
        await loop.create_datagram_endpoint(
            lambda: _Protocol(self), local_addr=self.own, family=family, **target
        )
        self.own = self.transport.get_extra_info("sockname")

    def add(self, event: Any) -> None:
        self.run.activity += 1
        self.events.append(event)

    def event(self, name: str, event: Any) -> None:
        self.run.latest = self
        self.add(event)
        bodies = self.hooks.get(name)
        if bodies:
            self.perform(bodies.pop(0))

    def perform(self, body: Body) -> None:
        for name, argument in body:
            if name == "raise":
                raise DeliberateError
            if name.startswith("peer "):
                self.use_peer(name, argument)
            else:
                self.use(name, argument)

    def use(self, name: str, argument: int) -> None:
        transport = self.transport
        if self.ending and name != "state":
            return  # asyncio's transport then fails, or counts what it has dropped
        if name in {"close", "abort"}:
            self.ending |= name == "abort" or not transport.get_write_buffer_size()
        if name == "burst":
            for _ in range(BURST):
                self.send(argument, bytes)
        elif name.startswith("send"):
            kinds = {"send": bytes, "send view": memoryview, "send mutable": bytearray}
            self.send(argument, kinds[name])
        elif name == "limit":
            transport.set_write_buffer_limits(argument)
        elif name == "state":
            # asyncio still counts what an abort has dropped.
            size = None if transport.is_closing() else transport.get_write_buffer_size()
            self.add(("state", size))
        elif name == "set_protocol":
            transport.set_protocol(_Protocol(self))
        else:
            getattr(transport, name)()

    def send(self, size: int, kind: Any) -> None:
        if self.ending:
            return
        data = stream(2 * self.number, 100 * self.sent, size)
        self.sent += 1
        if self.run.program.connected:
            self.transport.sendto(kind(data))
        else:
            self.transport.sendto(kind(data), self.target)

    def use_peer(self, name: str, argument: int) -> int:
        count = 0
        with contextlib.suppress(OSError):
            if name == "peer receive":
                while count < argument:
                    self.received.append(self.peer.recv(1 << 16))
                    count += 1
            elif name == "peer close":
                self.peer.close()
            else:
                for n in range(5 if name == "peer burst" else 1):
                    self.peer.sendto(stream(2 * self.number + 1, n, argument), self.own)
        return count


class _Protocol(asyncio.DatagramProtocol):
    def __init__(self, endpoint: _Endpoint) -> None:
        self.endpoint = endpoint

    def connection_made(self, transport: Any) -> None:
        self.endpoint.transport = transport
        self.endpoint.event("made", "made")

    def datagram_received(self, data: bytes, addr: Any) -> None:
        known = addr == self.endpoint.target
        self.endpoint.event("datagram", (len(data), known))

    def error_received(self, exc: Exception) -> None:
        self.endpoint.event("error", ("error", type(exc).__name__))

    def pause_writing(self) -> None:
        self.endpoint.event("pause", "pause")

    def resume_writing(self) -> None:
        self.endpoint.event("resume", "resume")

    def connection_lost(self, exc: BaseException | None) -> None:
        self.endpoint.ending = True
        self.endpoint.event("lost", ("lost", type(exc).__name__))


# ---- random programs -----------------------------------------------------------------------------


def make_program(family: str, seed: int) -> Program:
    choices = random.Random(f"{family} datagrams {seed}")

    def operation(words: tuple[str, ...]) -> Operation:
        name = choices.choice(words)
        if family == "udp" and name == "peer close":
            # An error that waits comes before a datagram, and a batch takes several of these first.
            name = "peer send"
        if name == "limit":
            return name, choices.choice((0, 500, 5000, 100_000))
        if name == "peer receive":
            return name, choices.choice((1, 5, 100))
        return name, choices.choice((0, 1, 100, 5000))

    def body(words: tuple[str, ...], most: int) -> Body:
        return [operation(words) for _ in range(choices.randrange(1, most))]

    def hook(name: str) -> Body:
        # In these asyncio ends an endpoint twice, or uses one that it has ended.
        left_out = {"close", "abort"} if name in {"resume", "error"} else set()
        words = ENDPOINT + PEER if name != "lost" else ("state", "peer send", "peer receive")
        made = [each for each in body(words, 3) if each[0] not in left_out]
        if choices.random() < 0.15:
            made.append(("raise", 0))
        return made

    def hooks() -> dict[str, list[Body]]:
        return {
            name: [hook(name) for _ in range(choices.choice((1, 1, 3)))]
            for name in HOOKS
            if choices.random() < 0.3
        }

    count = choices.choice((1, 1, 2))
    words = ENDPOINT + PEER * 2
    steps = [(choices.randrange(count), body(words, 5)) for _ in range(choices.randrange(1, 12))]
    return Program(family, steps, [hooks() for _ in range(count)], choices.random() < 0.5)


def shorter(program: Program) -> list[Program]:
    """Programs with one element less."""
    steps = program.steps
    found = [replace(program, steps=steps[:n] + steps[n + 1 :]) for n in range(len(steps))]
    for n, (index, body) in enumerate(steps):
        for at in range(len(body)):
            less = (index, body[:at] + body[at + 1 :])
            found.append(replace(program, steps=[*steps[:n], less, *steps[n + 1 :]]))
    for n, hooks in enumerate(program.hooks):
        for name in hooks:
            rest = {key: value for key, value in hooks.items() if key != name}
            found.append(
                replace(program, hooks=[*program.hooks[:n], rest, *program.hooks[n + 1 :]])
            )
    return found


def kind_of(family: str) -> Kind[Program]:
    return Kind(functools.partial(make_program, family), run_program, compare, shorter)


KINDS = {f"{family} datagrams": kind_of(family) for family in ("unix", "udp")}

if __name__ == "__main__":
    main(KINDS)
