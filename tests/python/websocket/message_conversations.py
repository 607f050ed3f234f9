"""Random conversations over WebSocket: the same outcome on asyncio's loop and on Penstock's.

Each end sends in one task and receives in another, which acts between its receives: it cancels one,
receives from another socket, pings, waits some iterations, has a function called for some messages.
Queues are short, so reading pauses and resumes. The outcome is what each end has received, in
order, and how its connection has ended.

    python -m tests.python.websocket.message_conversations --programs N --seed S --gc-threshold N
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from dataclasses import dataclass, replace
from typing import Any

from penstock import websocket
from tests.python.loop.certificates import client_context, server_context
from tests.python.loop.conftest import LoopFactory
from tests.python.loop.random_programs import Difference, Kind, main

from .libraries import seen

Operation = tuple[str, int]
Outcome = list[list[Any]]

SIZES = (0, 1, 125, 126, 4000, 16_384, 65_536, 300_000)
OTHERS = b"\xff" * 60_000
"""What another socket holds."""


@dataclass
class Program:
    """What the client and the server do. `closer` is the end that sends the first close frame."""

    secure: bool
    compression: str | None
    queue: int | None
    sends: tuple[list[Operation], list[Operation]]
    reads: tuple[list[Operation], list[Operation]]
    closer: int


def make_program(seed: int) -> Program:
    choices = random.Random(f"messages {seed}")

    def sends() -> list[Operation]:
        return [
            (choices.choice(("text", "bytes", "write", "fragments")), choices.choice(SIZES))
            if choices.random() < 0.7
            else (choices.choice(("turns", "ping")), choices.randrange(4))
            for _ in range(choices.choice((2, 10, 40)))
        ]

    def reads() -> list[Operation]:
        kinds = ("recv", "recv", "cancel", "read another", "turns", "ping", "iterate", "each")
        return [
            (choices.choice(kinds), choices.choice((0, 1, 2, 5)))
            for _ in range(choices.choice((0, 5, 30)))
        ]

    return Program(
        choices.random() < 0.3,
        choices.choice(("deflate", None)),
        choices.choice((1, 1, 2, 16, None)),
        (sends(), sends()),
        (reads(), reads()),
        choices.randrange(2),
    )


def message_of(end: int, position: int, name: str, size: int) -> str | bytes:
    """Different from every other message of the program."""
    text = f"{end} {position} " + "é" * (size // 2)
    return text.encode() if name == "bytes" else text


def sent_by(program: Program, end: int) -> list[str | bytes]:
    return [
        message_of(end, position, name, size)
        for position, (name, size) in enumerate(program.sends[end])
        if name not in {"turns", "ping"}
    ] + ["end"]


class Enough(Exception):
    """Ends a delivery."""


class End:
    """One end of the connection while a program runs."""

    def __init__(self, connection: Any, program: Program, number: int) -> None:
        self.connection = connection
        self.program = program
        self.number = number
        self.received: list[Any] = []
        self.ended = False

    async def run(self) -> list[Any]:
        await asyncio.gather(self.send(), self.receive())
        if self.number == self.program.closer:
            await self.connection.close(4000 + self.number, "done")
        try:
            await self.connection.recv()
        except websocket.ConnectionClosed as end:
            self.received.append(seen(end))
        return self.received

    async def send(self) -> None:
        for position, (name, size) in enumerate(self.program.sends[self.number]):
            if name == "turns":
                await self.turns(size)
            elif name == "ping":
                await self.connection.ping()
            elif name == "write":
                self.connection.write(message_of(self.number, position, name, size))
            else:
                message = message_of(self.number, position, name, size)
                parts = [message[: size // 3], message[:0], message[size // 3 :]]
                await self.connection.send(iter(parts) if name == "fragments" else message)
        await self.connection.send("end")

    async def receive(self) -> None:
        for name, count in self.program.reads[self.number]:
            if self.ended:
                break
            await self.act(name, count)
        while not self.ended:
            self.took(await self.connection.recv())

    async def act(self, name: str, count: int) -> None:
        if name == "recv":
            self.took(await self.connection.recv())
        elif name == "iterate":
            async for message in self.connection:
                self.took(message)
                if self.ended or len(self.received) % (count + 1) == 0:
                    break
        elif name == "each":
            await self.each(count)
        elif name == "cancel":
            receiving = asyncio.ensure_future(self.connection.recv())
            await self.turns(count)
            receiving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                self.took(await receiving)
        elif name == "ping":
            with contextlib.suppress(websocket.ConnectionClosed):  # with messages left to receive
                await self.connection.ping()
        elif name == "turns":
            await self.turns(count)
        else:
            await self.read_another()

    async def each(self, count: int) -> None:
        """Ends by an exception, or, with count 0, by cancellation."""
        task = asyncio.current_task()
        assert task is not None

        def take(message: str | bytes) -> None:
            self.took(message)
            if self.ended or len(self.received) % (count + 1) == 0:
                if count > 0:
                    raise Enough
                if not task.cancelling():
                    task.cancel()

        try:
            # The end of the connection comes first if the queue holds all: then nothing suspends.
            with contextlib.suppress(Enough, websocket.ConnectionClosed):
                await self.connection.for_each(take)
            if task.cancelling():
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            task.uncancel()

    def took(self, message: str | bytes) -> None:
        self.received.append(message)
        self.ended = message == "end"

    async def turns(self, count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    async def read_another(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.send(OTHERS)
            loop = asyncio.get_running_loop()
            assert await loop.sock_recv(ours, len(OTHERS)) == OTHERS


async def converse(program: Program) -> Outcome:
    options: dict[str, Any] = {
        "compression": program.compression,
        "max_queue": program.queue,
        "close_timeout": 60,
        "ping_interval": None,
    }
    served: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()

    async def handle(connection: Any) -> None:
        try:
            served.set_result(await End(connection, program, 1).run())
        except Exception as error:
            served.set_exception(error)

    secure = server_context() if program.secure else None
    async with websocket.serve(handle, "127.0.0.1", 0, ssl=secure, **options) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        scheme, context = ("wss", client_context()) if program.secure else ("ws", None)
        uri = f"{scheme}://localhost:{port}/"
        async with websocket.connect(uri, host="127.0.0.1", ssl=context, **options) as connection:
            outcome = await asyncio.gather(End(connection, program, 0).run(), served)
    for end, received in enumerate(outcome):
        assert received[:-1] == sent_by(program, 1 - end), f"end {end} lacks or mixes messages"
    return outcome


def run_program(factory: LoopFactory, program: Program) -> Outcome:
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(asyncio.wait_for(converse(program), 60))


def compare(program: Program, expected: Outcome, found: Outcome) -> Difference | None:
    for end, (here, there) in enumerate(zip(found, expected, strict=True)):
        if here != there:
            return Difference(f"end {end}", str(there)[-200:], str(here)[-200:])
    return None


def shorter(program: Program) -> list[Program]:
    """Programs with one operation less."""
    found = []
    for name in ("sends", "reads"):
        both: tuple[list[Operation], list[Operation]] = getattr(program, name)
        for end, operations in enumerate(both):
            for n in range(len(operations)):
                fewer = operations[:n] + operations[n + 1 :]
                pair = (fewer, both[1]) if end == 0 else (both[0], fewer)
                found.append(replace(program, **{name: pair}))
    return found


KINDS = {"messages": Kind(make_program, run_program, compare, shorter)}

if __name__ == "__main__":
    main(KINDS)
