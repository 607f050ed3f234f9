"""Programs of `add_reader` and `add_writer` whose callbacks change the watchers of one another.

Callbacks remove and replace watchers, their own and others', close descriptors whose event of the
same poll has not been served yet, open others under the same number, send, and raise. The
comparison covers each call with what it read, in order. A callback must be the one that is
registered, and no byte may be lost.

    python -m tests.python.loop.watcher_programs --programs N --seed S --gc-threshold N
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
from dataclasses import dataclass, field, replace
from typing import Any

from .conftest import LoopFactory
from .event_sequences import stream
from .random_programs import Difference, Kind, main

Operation = tuple[str, int, int]
"""The operation's name, the number of its place, its argument."""

QUIET_TURNS = 80  # more than the loop runs without a poll
MOST_BODIES = 60  # of a run: a watcher that a body makes has a body too

ALL, ONE, NOTHING = range(3)
"""What a reader reads in a call. One that reads nothing removes itself."""


@dataclass
class Program:
    """Each step runs at once, then the loop runs until idle.

    A watcher executes the body of its number when it is called for the first time. `places` are
    kinds of descriptors.
    """

    places: list[str]
    steps: list[list[Operation]]
    bodies: list[list[Operation]]


@dataclass
class Outcome:
    events: list[Any] = field(default_factory=list)
    failure: str = ""
    """The error that ended the program."""


def run_program(factory: LoopFactory, program: Program) -> Outcome:
    loop = factory()
    outcome = Outcome()
    execution = _Run(loop, program, outcome)
    try:
        loop.set_exception_handler(
            lambda _, context: outcome.events.append(("reported", repr(context.get("exception"))))
        )
        loop.run_until_complete(asyncio.wait_for(execution.run(), 30))
    except Exception as exc:
        outcome.failure = repr(exc)
    finally:
        for place in execution.places:
            place.close()
        loop.close()
    return outcome


def compare(program: Program, expected: Outcome, found: Outcome) -> Difference | None:
    if found.failure != expected.failure or found.failure:
        return Difference("end", expected.failure, found.failure)
    pairs = zip([*expected.events, None], [*found.events, None], strict=False)
    for at, (one, other) in enumerate(pairs):
        if one != other:
            return Difference(f"event {at}", one, other)
    return None


class DeliberateError(Exception):
    pass


class _Run:
    def __init__(self, loop: asyncio.AbstractEventLoop, program: Program, outcome: Outcome) -> None:
        self.loop = loop
        self.program = program
        self.outcome = outcome
        self.made = 0  # identities of streams and of watchers
        self.places = [_Place(self, index, kind) for index, kind in enumerate(program.places)]
        self.wrong: list[str] = []
        self.bodies_left = MOST_BODIES

    def identity(self) -> int:
        self.made += 1
        return self.made

    def add(self, event: Any) -> None:
        self.outcome.events.append(event)

    async def run(self) -> None:
        for step in self.program.steps:
            self.perform(step)
            await self.rest()
            self.add("--")
        for place in self.places:
            place.stop("write")
            place.watch("read", ALL, None)
        await self.rest()
        for place in self.places:
            place.stop("read")
            if place.received != place.sent:
                self.wrong.append(f"{place}: {place.sent - place.received} bytes are lost")
        assert not self.wrong, self.wrong

    async def rest(self) -> None:
        seen, quiet = -1, 0
        while quiet < QUIET_TURNS:
            await asyncio.sleep(0)
            now = len(self.outcome.events)
            quiet = quiet + 1 if now == seen else 0
            seen = now

    def perform(self, operations: list[Operation]) -> None:
        for name, index, argument in operations:
            if name == "raise":
                raise DeliberateError
            self.places[index].perform(name, argument)


class _Place:
    """A descriptor under test with its watchers, and its far end."""

    def __init__(self, run: _Run, index: int, kind: str) -> None:
        self.run = run
        self.index = index
        self.kind = kind
        self.watchers: dict[str, int] = {}  # the identities of those that are registered
        self.bodies: dict[int, int] = {}  # what they execute in their first call
        self.open()

    def __str__(self) -> str:
        return f"{self.kind} {self.index}"

    def open(self) -> None:
        if self.kind == "pipe":
            near, far = os.pipe2(os.O_NONBLOCK)
            self.near: Any = open(near, "rb", 0)  # noqa: SIM115
            self.far: Any = open(far, "wb", 0)  # noqa: SIM115
        else:
            self.near, self.far = socket.socketpair()
            self.near.setblocking(False)
            self.far.setblocking(False)
        self.watched = self.near if self.kind == "socket" else self.near.fileno()
        self.identity = self.run.identity()
        self.sent = self.received = 0

    def close(self) -> None:
        self.near.close()
        self.far.close()

    def perform(self, name: str, argument: int) -> None:
        if name in {"read", "write"}:
            bodies = self.run.program.bodies
            self.watch(name, argument % 3, argument % len(bodies) if bodies else None)
        elif name == "send":
            with contextlib.suppress(OSError, ValueError):  # the end is full, or closed
                number = self.far.fileno()
                self.sent += os.write(number, stream(self.identity, self.sent, argument))
        elif name == "end":
            self.far.close()
        elif name == "close first" and len(self.watchers) < 2:
            # As programs do by mistake. asyncio raises OSError for one of two watchers.
            self.close()
            self.stop("read")
            self.stop("write")
            self.open()
        else:
            if name != "stop write":
                self.stop("read")
            if name != "stop read":
                self.stop("write")
            if not name.startswith("stop "):
                self.close()
                self.open()

    def watch(self, direction: str, mode: int, body: int | None) -> None:
        if direction == "write" and self.kind == "pipe":
            return
        loop, identity = self.run.loop, self.run.identity()
        add = loop.add_reader if direction == "read" else loop.add_writer
        add(self.watched, self.called, direction, identity, mode)
        self.watchers[direction] = identity
        if body is not None:
            self.bodies[identity] = body

    def stop(self, direction: str) -> None:
        loop = self.run.loop
        remove = loop.remove_reader if direction == "read" else loop.remove_writer
        there = self.watchers.pop(direction, None) is not None
        try:
            removed = remove(self.watched)
        except ValueError:  # a closed socket that is not registered has no number
            removed = False
        if removed is not there:
            self.run.wrong.append(f"{self}: the removal of its {direction}er returned {removed}")

    def called(self, direction: str, identity: int, mode: int) -> None:
        if self.watchers.get(direction) != identity:
            self.run.wrong.append(f"{self}: a {direction}er was called that is removed")
            return
        what = "writable"
        if direction == "read":
            what = self.read(mode)
        if direction == "write" or what == "end" or mode == NOTHING:
            self.stop(direction)
        self.run.add((self.index, identity, what))
        body = self.bodies.pop(identity, None)
        if body is not None and self.run.bodies_left > 0:
            self.run.bodies_left -= 1
            self.run.perform(self.run.program.bodies[body])

    def read(self, mode: int) -> str:
        if mode == NOTHING:
            return "left"
        try:
            data = os.read(self.near.fileno(), 1 if mode == ONE else 1 << 20)
        except BlockingIOError:
            return "empty"
        if data != stream(self.identity, self.received, len(data)):
            self.run.wrong.append(f"{self}: another's bytes")
        self.received += len(data)
        return str(len(data)) if data else "end"


# ---- random programs -----------------------------------------------------------------------------

_NAMES = (
    *("read",) * 5,
    *("write",) * 2,
    *("send",) * 5,
    *("stop read", "stop write"),
    *("replace",) * 2,
    *("close first", "end"),
)


def make_program(seed: int) -> Program:
    choices = random.Random(f"watchers {seed}")
    kinds = ("socket", "socket", "number", "pipe")
    places = [choices.choice(kinds) for _ in range(choices.randrange(1, 6))]

    def operations(most: int) -> list[Operation]:
        return [
            (choices.choice(_NAMES), choices.randrange(len(places)), choices.randrange(1, 40))
            for _ in range(choices.randrange(most + 1))
        ]

    bodies = [operations(4) for _ in range(choices.randrange(1, 6))]
    for body in bodies:
        if choices.random() < 0.1:
            body.append(("raise", 0, 0))
    return Program(places, [operations(8) for _ in range(choices.randrange(1, 8))], bodies)


def shorter(program: Program) -> list[Program]:
    """Programs with one element less."""
    steps, bodies = program.steps, program.bodies
    found = [replace(program, steps=steps[:n] + steps[n + 1 :]) for n in range(len(steps))]
    for n, step in enumerate(steps):
        found += [
            replace(program, steps=[*steps[:n], step[:at] + step[at + 1 :], *steps[n + 1 :]])
            for at in range(len(step))
        ]
    for n, body in enumerate(bodies):
        found += [
            replace(program, bodies=[*bodies[:n], body[:at] + body[at + 1 :], *bodies[n + 1 :]])
            for at in range(len(body))
        ]
    return found


KINDS = {"watchers": Kind(make_program, run_program, compare, shorter)}

if __name__ == "__main__":
    main(KINDS)
