"""Events, and the count of a load's steps between the moment one becomes ready and its handler.

Latency is counted in steps, not in milliseconds, so that it does not depend on the machine: a step
works for WORK seconds, makes the event ready itself, and counts. On a loop that polls in each
iteration, and gives each ready task or callback one step in it, an event waits for one round of
what is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import penstock

WORK = 0.0005
"""Seconds of a step: more than a loop may count as a short time, 0.3 ms at most."""

EVENTS = 3
BETWEEN = 20
"""Steps between two events: a loop may poll in 16 iterations after an event, though it is busy."""

LIMIT = 300
"""Steps after which an event is taken for one that is never handled."""


class Steps:
    """The steps of a load, and how many of them each event has waited for."""

    def __init__(self, work: float = WORK, between: int = BETWEEN, limit: int = LIMIT) -> None:
        self.latencies: list[int] = []
        self.finished = False
        self.failure: BaseException | None = None
        self.ended = asyncio.Event()
        self.make_ready: Callable[[], object] = lambda: None
        self._work = work
        self._between = between
        self._limit = limit
        self._count = 0
        self._event_at = 2 * between  # a task is found to be slow in its first steps

    def step(self) -> bool:
        """Work for a while. Return whether the load goes on."""
        if self.finished:
            return False
        self._count += 1
        if self._count == self._event_at:
            self.make_ready()
        elif self._count - self._event_at > self._limit:
            self.handled()
        end = time.perf_counter() + self._work
        while time.perf_counter() < end:
            pass
        return not self.finished

    def handled(self) -> None:
        """Note that the event that was made ready is handled."""
        if self.finished:
            return
        self.latencies.append(self._count - self._event_at)
        self._event_at = self._count + self._between
        if len(self.latencies) == EVENTS:
            self._end()

    def report(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Note an error that a callback has raised: no step may follow it, so this is the end."""
        if self.failure is None:
            self.failure = context.get("exception") or RuntimeError(context["message"])
        self._end()

    async def until_finished(self) -> None:
        await self.ended.wait()
        if self.failure is not None:
            raise self.failure

    def _end(self) -> None:
        self.finished = True
        self.ended.set()


# ---- events ------------------------------------------------------------------------------------
# Each returns the function that makes it ready.

MakeReady = Callable[[], object]


def pair(stack: AsyncExitStack, kind: int = socket.SOCK_STREAM) -> tuple[socket.socket, Any]:
    near, far = socket.socketpair(socket.AF_UNIX, kind)
    near.setblocking(False)
    stack.callback(near.close)
    stack.callback(far.close)
    return near, far


def loopback_address(bound: Any) -> Any:
    return bound.sockets[0].getsockname()


async def a_readable_descriptor(steps: Steps, stack: AsyncExitStack) -> MakeReady:
    loop = asyncio.get_running_loop()
    near, far = pair(stack)

    def receive() -> None:
        near.recv(1)
        steps.handled()

    loop.add_reader(near, receive)
    stack.callback(loop.remove_reader, near)
    return lambda: far.send(b"x")


async def data_of_a_protocol(steps: Steps, stack: AsyncExitStack) -> MakeReady:
    near, far = pair(stack)
    await connect(stack, near, Calling(lambda _data: steps.handled()))
    return lambda: far.send(b"x")


def stream_event(open_connection: Any) -> Event:
    async def event(steps: Steps, stack: AsyncExitStack) -> MakeReady:
        near, far = pair(stack)
        reader, writer = await open_connection(sock=near)

        async def receive() -> None:
            while await reader.read(1):
                steps.handled()

        await background(stack, receive())
        stack.callback(writer.close)
        return lambda: far.send(b"x")

    return event


async def a_timer(steps: Steps, _stack: AsyncExitStack) -> MakeReady:
    loop = asyncio.get_running_loop()
    return lambda: loop.call_later(0, steps.handled)


async def a_signal(steps: Steps, stack: AsyncExitStack) -> MakeReady:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, steps.handled)
    stack.callback(loop.remove_signal_handler, signal.SIGUSR1)
    return lambda: signal.raise_signal(signal.SIGUSR1)


async def a_connection(steps: Steps, stack: AsyncExitStack) -> MakeReady:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Made(lambda _t: steps.handled()), "127.0.0.1", 0)
    stack.callback(server.close)
    address = loopback_address(server)
    return lambda: stack.callback(socket.create_connection(address).close)


async def a_datagram(steps: Steps, stack: AsyncExitStack) -> MakeReady:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: Datagrams(steps.handled), local_addr=("127.0.0.1", 0)
    )
    stack.callback(transport.close)
    sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    address = transport.get_extra_info("sockname")
    return lambda: sender.sendto(b"x", address)


async def a_childs_exit(steps: Steps, stack: AsyncExitStack) -> MakeReady:
    children = []
    for _ in range(EVENTS):
        theirs, ours = os.pipe()
        process = await asyncio.create_subprocess_exec("cat", stdin=theirs)
        os.close(theirs)
        children.append((process, ours))
    waiting = iter(children)

    def end_the_others() -> None:
        for _, ours in waiting:
            os.close(ours)

    stack.callback(end_the_others)

    async def wait() -> None:
        for process, _ in children:
            await process.wait()
            steps.handled()

    await background(stack, wait())

    def end_one() -> None:
        process, ours = next(waiting)
        os.close(ours)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    return end_one


async def a_call_from_a_thread(steps: Steps, _stack: AsyncExitStack) -> MakeReady:
    loop = asyncio.get_running_loop()

    def call() -> None:
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(steps.handled,))
        thread.start()
        thread.join()

    return call


Event = Callable[[Steps, AsyncExitStack], Awaitable[MakeReady]]

KINDS_OF_EVENTS: dict[str, Event] = {
    "descriptor": a_readable_descriptor,
    "protocol": data_of_a_protocol,
    "asyncio stream": stream_event(asyncio.open_connection),
    "native stream": stream_event(penstock.open_connection),
    "timer": a_timer,
    "signal": a_signal,
    "accept": a_connection,
    "datagram": a_datagram,
    "thread": a_call_from_a_thread,
}
if sys.version_info >= (3, 12):  # before, asyncio waits for children in threads
    KINDS_OF_EVENTS["child"] = a_childs_exit


# ---- what loads are made of --------------------------------------------------------------------


class Calling(asyncio.Protocol):
    """Passes its data to a function."""

    def __init__(self, received: Callable[[bytes], object]) -> None:
        self._received = received

    def data_received(self, data: bytes) -> None:
        self._received(data)


class CallingBuffered(asyncio.BufferedProtocol):
    """The same with a buffer of its own."""

    def __init__(self, received: Callable[[bytes], object], size: int) -> None:
        self._received = received
        self._buffer = bytearray(size)

    def get_buffer(self, _hint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        self._received(bytes(self._buffer[:count]))


class Made(asyncio.Protocol):
    """Calls a function with its transport, and closes the connection."""

    def __init__(self, made: Callable[[asyncio.Transport], object]) -> None:
        self._made = made

    def connection_made(self, transport: Any) -> None:
        try:
            self._made(transport)
        finally:
            transport.abort()


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, received: Callable[[], object]) -> None:
        self._received = received

    def datagram_received(self, _data: bytes, _address: Any) -> None:
        self._received()


async def connect(stack: AsyncExitStack, near: socket.socket, protocol: Any) -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(lambda: protocol, sock=near)
    stack.callback(transport.close)


async def background(stack: AsyncExitStack, coroutine: Any) -> None:
    task = asyncio.create_task(coroutine)

    async def end() -> None:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, ConnectionError):
            await task

    stack.push_async_callback(end)
    await asyncio.sleep(0)
