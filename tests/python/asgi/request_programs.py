"""Random bytes in random pieces for the server, and applications that act at random.

usage: python -m tests.python.asgi.request_programs --programs N [--seed S] [--gc-threshold N]

A program is a connection: requests, perhaps with bytes changed, in pieces, and an end: the client
waits, closes, or resets. Whatever happens, messages come in the order that ASGI has, what was not
changed is answered in order and whole, nothing is raised where nobody can catch it, and the server
ends.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import random
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import h11

import penstock

from .support import serving

PART = b"x" * 70_000


@dataclass
class Request:
    """A request, and what the application does with it."""

    number: int
    method: str
    body: bytes
    chunked: bool
    actions: list[str]
    parts: list[int]

    @property
    def response(self) -> bytes:
        """The body with which the application answers."""
        if self.method == "HEAD":
            return b""
        parts = zip(self.actions, self.parts, strict=True)
        return PART[:1] * sum(size for action, size in parts if action == "part") + b"end"

    @property
    def is_clean(self) -> bool:
        """Whether the application answers it whole."""
        wrong = {"raise", "return", "cancel", "unknown"}
        return not wrong & set(self.actions) and self.actions.count("start") == 1

    def encode(self, choose: random.Random) -> bytes:
        head = f"{self.method} /{self.number} HTTP/1.1\r\nHost: x\r\n".encode()
        if self.method != "POST":
            return head + b"\r\n"
        if not self.chunked:
            return head + b"Content-Length: %d\r\n\r\n" % len(self.body) + self.body
        text, at = b"", 0
        while at < len(self.body):
            size = min(choose.choice([1, 100, 40_000]), len(self.body) - at)
            text += b"%x\r\n%b\r\n" % (size, self.body[at : at + size])
            at += size
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + text + b"0\r\n\r\n"


@dataclass
class Program:
    """A connection's bytes, their pieces, and its end."""

    requests: list[Request]
    pieces: list[bytes] = field(default_factory=list)
    changed: bool = False
    end: str = "wait"


def in_pieces(whole: bytes, choose: random.Random) -> list[bytes]:
    """Return the bytes in pieces of random sizes."""
    pieces = []
    while whole:
        size = choose.choice([1, 3, 50, 1000, len(whole)])
        pieces.append(whole[:size])
        whole = whole[size:]
        if len(pieces) > 40:
            pieces.append(whole)
            break
    return pieces


def make_requests(choose: random.Random) -> list[Request]:
    """Return requests, and what the application does with them."""
    requests = []
    for number in range(choose.choice([1, 2, 3, 6])):
        actions = [
            choose.choice(["receive", "pause", "wait for a moment", "receive in another task"])
            for _ in range(choose.randrange(4))
        ]
        actions += ["start", *["part"] * choose.randrange(4), "end"]
        if choose.random() < 0.2:
            actions.insert(choose.randrange(len(actions)), choose.choice(BAD))
        if choose.random() < 0.3:
            actions.append("receive")
        requests.append(
            Request(
                number=number,
                method=choose.choice(["GET", "HEAD", "POST", "POST"]),
                body=choose.randbytes(choose.choice([0, 5, 3000, 150_000])),
                chunked=choose.random() < 0.5,
                actions=actions,
                parts=[choose.choice([0, 1, 900, 70_000]) for _ in actions],
            )
        )
    return requests


def make_program(seed: int) -> Program:
    choose = random.Random(seed)
    requests = make_requests(choose)
    program = Program(requests)
    text = bytearray(b"".join(request.encode(choose) for request in requests))
    if choose.random() < 0.4:
        program.changed = True
        for _ in range(choose.randrange(1, 4)):
            at = choose.randrange(min(len(text), choose.choice([200, 1 << 30])))
            text[at : at + choose.randrange(3)] = choose.choice(INSERTED)
    program.end = choose.choice(["wait", "wait", "half", "close", "reset"])
    program.pieces = in_pieces(bytes(text), choose)
    if program.end in ("close", "reset") and choose.random() < 0.5:
        del program.pieces[choose.randrange(len(program.pieces)) :]
    return program


BAD = ("raise", "return", "cancel", "start", "unknown")
FIELD = b"Content-Length: 7\r\n"
INSERTED = (b"", b"\0", b"\r\n", b"\n", b"5", b":", b" ", b"\xff", FIELD, b"0\r\n\r\n")


class Watched:
    """An application's `receive`, whose messages have to come in the order that ASGI has."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self._ended = self._gone = False
        self.body = b""

    async def __call__(self) -> str:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._gone = True
        else:
            assert message["type"] == "http.request", message
            assert not self._ended and not self._gone, "a body after its end"
            self.body += message["body"]
            self._ended = not message["more_body"]
        return str(message["type"])


class Run:
    """Runs programs on one server."""

    options: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        self.program: Any = Program([])
        self.running = 0
        self.faults: list[BaseException] = []

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        self.running += 1
        watched = Watched(receive)
        try:
            await self._act(scope, watched, send)
        except AssertionError as error:
            self.faults.append(error)
        finally:
            self.running -= 1

    async def _act(self, scope: Any, watched: Watched, send: Any) -> None:
        path = scope["path"]
        number = int(path[1:]) if path[1:].isdecimal() else 0
        if number >= len(self.program.requests):
            number = 0
        request = self.program.requests[number]
        for action, size in zip(request.actions, request.parts, strict=True):
            match action:
                case "receive":
                    with suppress(TimeoutError):
                        await asyncio.wait_for(watched(), 0.005)
                case "receive in another task":
                    await asyncio.wait([asyncio.ensure_future(watched())], timeout=0.002)
                case "pause":
                    await asyncio.sleep(0)
                case "wait for a moment":
                    await asyncio.sleep(0.001)
                case "start":
                    await send({"type": "http.response.start", "status": 200, "headers": []})
                case "part":
                    await send(
                        {"type": "http.response.body", "body": PART[:size], "more_body": True}
                    )
                case "end":
                    await send({"type": "http.response.body", "body": b"end"})
                case "raise":
                    raise ZeroDivisionError
                case "return":
                    return
                case "cancel":
                    task = asyncio.current_task()
                    assert task is not None
                    task.cancel()
                case "unknown":
                    await send({"type": "no.such.message"})

    async def run(self, seed: int, port: int) -> None:
        """Run a program."""
        program = make_program(seed)
        self.program = program
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        if program.end == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        reading = asyncio.ensure_future(reader.read())
        try:
            for piece in program.pieces:
                if not writer.transport.is_closing():
                    writer.write(piece)
                await asyncio.sleep(0)
            if program.end == "wait" and not writer.transport.is_closing():
                writer.write(b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            elif program.end == "half":
                with suppress(OSError, RuntimeError):  # a refusal has closed it
                    writer.write_eof()
            if program.end in ("close", "reset"):
                writer.close()
            elif program.changed:
                # A changed length may ask for more than there is.
                await asyncio.wait([reading], timeout=0.05)
            else:
                answers = await asyncio.wait_for(reading, 10)
                if program.end == "wait":
                    self._judge(program, answers)
        except ConnectionError:
            if not program.changed and all(each.is_clean for each in program.requests):
                raise
        finally:
            reading.cancel()
            writer.close()
            with suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.wait([reading])
                reading.exception()

    @staticmethod
    def _judge(program: Program, answers: bytes) -> None:
        client = h11.Connection(h11.CLIENT)
        client.receive_data(answers)
        client.receive_data(b"")
        may_end = False
        for request in program.requests:
            if client.our_state is not h11.IDLE:
                client.start_next_cycle()
            client.send(h11.Request(method=request.method, target="/", headers=[("host", "x")]))
            client.send(h11.EndOfMessage())
            body = b""
            may_end |= not request.is_clean
            try:
                while not isinstance(event := client.next_event(), h11.EndOfMessage):
                    if isinstance(event, h11.Data):
                        body += bytes(event.data)
                    elif not isinstance(event, h11.Response):
                        raise h11.RemoteProtocolError("the connection has ended")
            except h11.RemoteProtocolError:
                assert may_end, f"request {request.number} is not answered"
                return
            if request.is_clean and request.method != "HEAD":
                assert body == request.response, f"request {request.number}"
            if client.their_state is not h11.DONE:
                assert may_end, f"request {request.number} ends the connection"
                return


async def run_programs(programs: int, seed: int, kind: type[Run] = Run) -> Run:
    run = kind()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: run.faults.append(
            context.get("exception") or RuntimeError(context["message"])
        )
    )
    sys.unraisablehook = lambda raised: run.faults.append(
        raised.exc_value or RuntimeError(str(raised.err_msg))
    )
    async with serving(run.application, timeout_graceful_shutdown=1, **run.options) as server:
        for number in range(seed, seed + programs):
            try:
                await run.run(number, server.port)
            except (AssertionError, TimeoutError) as error:
                run.faults.append(error)
            if run.faults:
                raise AssertionError(f"seed {number}: {run.faults[0]!r}") from run.faults[0]
    assert run.running == 0, "an application still runs"
    return run


def main(kind: type[Run] = Run) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gc-threshold", type=int)
    parser.add_argument("--loop", choices=("penstock", "asyncio"), default="penstock")
    options = parser.parse_args()
    if options.gc_threshold is not None:
        gc.set_threshold(options.gc_threshold)
    logging.disable(logging.CRITICAL)
    loops = {"penstock": penstock.new_event_loop, "asyncio": asyncio.SelectorEventLoop}
    with asyncio.Runner(loop_factory=loops[options.loop]) as runner:
        runner.run(run_programs(options.programs, options.seed, kind))
    print(f"{options.programs} connections, as they have to be")


if __name__ == "__main__":
    main()
