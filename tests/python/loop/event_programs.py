"""Random programs whose protocols act in their callbacks: close, write, pause, raise, and so on.

python -m tests.python.loop.event_programs --programs N --seed S --gc-threshold N
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from .event_sequences import Body, Operation, Program, compare, run_program
from .random_programs import Kind, main


@dataclass(frozen=True)
class Vocabulary:
    """The elements of programs for a kind of transport."""

    writes: tuple[int, ...] = ()
    sends: tuple[int, ...] = ()
    acts: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    peer: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    receives: bool = True
    schedules: bool = True
    raises: bool = True
    buffers: tuple[int, ...] = (20, 100, 4096, 65536)
    connections: int = 3


READS = ("pause_reading", "resume_reading")
CALLBACKS = ("connection_made", "data", "eof_received", "connection_lost", "get_buffer")
FLOW = ("pause_writing", "resume_writing")
BIG = (0, 1, 999, 5000, 70_000, 300_000)

VOCABULARIES = {
    "unix": Vocabulary(
        writes=BIG,
        sends=(1, 100, 3000, 60_000),
        acts=(*READS, "state", "read another", "set_protocol", "limit"),
        ends=("close", "abort", "write_eof"),
        peer=("peer shutdown", "peer close"),
        hooks=CALLBACKS + FLOW,
    ),
    # How much a TCP socket accepts depends on the kernel and changes over time.
    "tcp": Vocabulary(
        writes=(0, 1, 999, 5000),
        sends=(1, 100, 3000, 15_000),
        acts=(*READS, "state", "read another", "set_protocol", "limit"),
        ends=("close", "abort", "write_eof"),
        peer=("peer shutdown",),
        hooks=CALLBACKS,
    ),
    "read pipe": Vocabulary(
        sends=(1, 100, 3000, 60_000),
        acts=(*READS, "state", "read another", "set_protocol"),
        ends=("close",),
        peer=("peer close",),
        hooks=("connection_made", "data", "eof_received", "connection_lost"),
        receives=False,
        buffers=(),
    ),
    "write pipe": Vocabulary(
        writes=BIG,
        acts=("state", "read another", "limit"),
        ends=("close", "abort", "write_eof"),
        peer=("peer close",),
        hooks=("connection_made", "connection_lost", *FLOW),
        buffers=(),
    ),
    # The time of a peer's read must not matter, so all data fit into the socket. asyncio drops data
    # written in connection_made before the handshake's end is sent, and data that a small buffer
    # has not accepted when the peer ends. It needs one more turn from abort() to connection_lost,
    # and continues after a callback that raised.
    "tls": Vocabulary(
        writes=(0, 1, 5000, 17_000),
        sends=(1, 100, 1000),
        acts=(*READS, "state", "read another"),
        ends=("close", "abort"),
        peer=("peer close", "peer drop"),
        hooks=("data", "eof_received"),
        receives=False,
        schedules=False,
        raises=False,
        buffers=(65536,),
        connections=1,
    ),
}


def make_program(transport: str, seed: int) -> Program:
    return _Maker(transport, random.Random(f"{transport} {seed}")).program()


class _Maker:
    def __init__(self, transport: str, choices: random.Random) -> None:
        self.transport = transport
        self.words = VOCABULARIES[transport]
        self.choices = choices

    def program(self) -> Program:
        choices, words = self.choices, self.words
        count = choices.choice((1, 1, 2, 3)) if words.connections > 1 else 1
        buffered = words.buffers and choices.random() < 0.4
        return Program(
            self.transport,
            [(choices.randrange(count), self.step()) for _ in range(choices.randrange(9))],
            [self.hooks() for _ in range(count)],
            [self.body(()) for _ in range(3)],
            choices.choice(words.buffers) if buffered else 0,
            choices.random() < 0.4,
            self.transport in {"unix", "tcp"} and choices.random() < 0.3,
            choices.random() < 0.3,
            choices.random() < 0.5,
        )

    def step(self) -> Body:
        choices, words = self.choices, self.words
        if words.receives and choices.random() < 0.3:
            # Alone: if the socket were also writable, the division into reads would differ.
            return [("receive", choices.choice((1, 1000, 100_000, 1 << 24)))]
        if choices.random() < 0.1:
            return [(choices.choice(words.peer), 0)]
        body = self.body(("soon", "later", "task") if words.schedules else ())
        if words.sends and choices.random() < 0.5:
            body.insert(choices.randrange(len(body) + 1), ("send", choices.choice(words.sends)))
        if self.transport != "tls" and choices.random() < 0.1:
            body.append((choices.choice(words.peer), 0))
        return body

    def hooks(self) -> dict[str, list[Body]]:
        choices, words = self.choices, self.words
        return {
            name: [self.hook(name) for _ in range(choices.choice((1, 1, 2, 5)))]
            for name in words.hooks
            if choices.random() < 0.5
        }

    def hook(self, name: str) -> Body:
        choices, words = self.choices, self.words
        body = self.body(("soon", "later", "task") if words.schedules else ())
        # asyncio calls connection_lost twice for a connection ended in one of these, and sends data
        # written in connection_lost after a close.
        if name in {"resume_writing", "connection_lost"}:
            body = [
                each
                for each in body
                if each[0].removeprefix("other ") not in words.ends
                and (name == "resume_writing" or "write" not in each[0])
                and (
                    name == "resume_writing" or "soon" not in each[0]
                )  # it would run two iterations later
            ]
        if name == "data" and choices.random() < 0.2:
            body.append(("send", choices.choice(words.sends)))
        if words.raises and choices.random() < 0.2:
            body.append(("raise", 0))
        return body

    def body(self, schedules: tuple[str, ...]) -> Body:
        return [self.operation(schedules) for _ in range(self.choices.randrange(4))]

    def operation(self, schedules: tuple[str, ...]) -> Operation:
        choices, words = self.choices, self.words
        kinds = ["act", "act"]
        kinds += ["write"] * 3 if words.writes else []
        kinds += ["end"] if choices.random() < 0.4 else []
        kinds += ["schedule"] if schedules else []
        kind = choices.choice(kinds)
        if kind == "write":
            writes = ("write", "write", "write mutable", "write view", "writelines")
            if self.transport in {"tls", "write pipe"}:
                writes = writes[:3]
            name, argument = choices.choice(writes), choices.choice(words.writes)
            if name == "writelines":
                argument += 3  # asyncio 3.13.0 spins on empty chunks
        elif kind == "end":
            name, argument = choices.choice(words.ends), 0
        elif kind == "schedule":
            name, argument = choices.choice(schedules), choices.randrange(3)
        else:
            name, argument = choices.choice(words.acts), 0
            if name == "limit":
                argument = choices.choice((0, 1000, 65536, 200_000))
            elif name == "read another":
                argument = choices.choice((1, 60_000))
            elif name == "set_protocol" and words.buffers:
                argument = choices.choice((0, 100, 65536))
        if words.connections > 1 and choices.random() < 0.15:
            name = f"other {name}"
        return name, argument


def shorter(program: Program) -> list[Program]:
    """Programs with one element less."""
    found = []
    for n, (index, body) in enumerate(program.steps):
        rest = program.steps[:n] + program.steps[n + 1 :]
        found.append(replace(program, steps=rest))
        found += [
            replace(program, steps=[*program.steps[:n], (index, less), *program.steps[n + 1 :]])
            for less in _less(body)
        ]
    for index, hooks in enumerate(program.hooks):
        for name, bodies in hooks.items():
            for fewer in [
                bodies[:-1],
                *(
                    [*bodies[:n], less, *bodies[n + 1 :]]
                    for n, b in enumerate(bodies)
                    for less in _less(b)
                ),
            ]:
                changed = (
                    {**hooks, name: fewer} if fewer else {k: hooks[k] for k in hooks if k != name}
                )
                found.append(
                    replace(
                        program,
                        hooks=[*program.hooks[:index], changed, *program.hooks[index + 1 :]],
                    )
                )
    last = len(program.hooks) - 1
    if last and all(index < last for index, _ in program.steps):
        found.append(replace(program, hooks=program.hooks[:-1]))
    for plainer in (
        {"accepted": False},
        {"eager": False},
        {"keep_open_on_eof": False},
        {"buffer_size": 0},
        {"computes": False},
    ):
        variant = replace(program, **plainer)  # type: ignore[arg-type]
        if variant != program:
            found.append(variant)
    return found


def _less(body: Body) -> list[Body]:
    return [body[:n] + body[n + 1 :] for n in range(len(body))]


def kind_of(transport: str) -> Kind[Program]:
    make: Callable[[int], Program] = functools.partial(make_program, transport)
    return Kind(make, run_program, compare, shorter)


KINDS = {transport: kind_of(transport) for transport in VOCABULARIES}

if __name__ == "__main__":
    main(KINDS)
