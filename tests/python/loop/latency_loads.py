"""How many steps of a load an event waits for, on each loop.

python -m tests.python.loop.latency_loads [--loop NAME ...] [--load NAME ...] [--event NAME ...]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

import penstock

from .certificates import client_context, server_context
from .conftest import LoopFactory
from .latency_events import (
    EVENTS,
    KINDS_OF_EVENTS,
    Calling,
    CallingBuffered,
    Datagrams,
    Made,
    Steps,
    background,
    connect,
    loopback_address,
    pair,
)


async def one_task(steps: Steps, _stack: AsyncExitStack) -> None:
    while steps.step():  # noqa: ASYNC110 (each turn is a step)
        await asyncio.sleep(0)


async def many_tasks(steps: Steps, _stack: AsyncExitStack) -> None:
    await asyncio.gather(*(one_task(steps, _stack) for _ in range(1000)))


async def a_chain_of_callbacks(steps: Steps, _stack: AsyncExitStack) -> None:
    loop = asyncio.get_running_loop()

    def again() -> None:
        if steps.step():
            loop.call_soon(again)

    loop.call_soon(again)
    await steps.until_finished()


async def a_chain_of_timers(steps: Steps, _stack: AsyncExitStack) -> None:
    loop = asyncio.get_running_loop()

    def again() -> None:
        if steps.step():
            loop.call_later(0, again)

    loop.call_soon(again)
    await steps.until_finished()


async def futures(steps: Steps, _stack: AsyncExitStack) -> None:
    loop = asyncio.get_running_loop()
    while steps.step():
        future = loop.create_future()
        loop.call_soon(future.set_result, None)
        await future


async def a_queue(steps: Steps, stack: AsyncExitStack) -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(1)

    async def produce() -> None:
        while steps.step():
            await queue.put(1)

    await background(stack, produce())
    while steps.step():
        await queue.get()


def reading(open_connection: Any, *, at_once: int, line: bool) -> Run:
    """Read what is always there: each step sends as much as it has read."""

    async def load(steps: Steps, stack: AsyncExitStack) -> None:
        near, far = pair(stack)
        reader, writer = await open_connection(sock=near)
        stack.callback(writer.close)
        while not steps.finished:
            far.send(b"x" * 99 + b"\n" if at_once == 1 else (b"x" * 99 + b"\n") * at_once)
            for _ in range(at_once):
                await (reader.readline() if line else reader.readexactly(100))
                steps.step()

    return load


def ping_pong(open_connection: Any) -> Run:
    """Each of two tasks makes the other's data ready."""

    async def load(steps: Steps, stack: AsyncExitStack) -> None:
        near, far = pair(stack)
        far.setblocking(False)
        ends = [await open_connection(sock=end) for end in (near, far)]
        for _, writer in ends:
            stack.callback(writer.close)

        async def play(reader: Any, writer: Any) -> None:
            while await reader.read(1) and steps.step():
                writer.write(b"x")
            writer.write_eof()

        ends[0][1].write(b"x")
        await asyncio.gather(*(play(*end) for end in ends))

    return load


async def sock_recv(steps: Steps, stack: AsyncExitStack) -> None:
    loop = asyncio.get_running_loop()
    near, far = pair(stack)
    while steps.step():
        receiving = asyncio.ensure_future(loop.sock_recv(near, 100))
        await asyncio.sleep(0)
        far.send(b"x")
        await receiving


async def a_flood_among_quiet_connections(steps: Steps, stack: AsyncExitStack) -> None:
    quiet, _ = pair(stack)
    for _ in range(500):
        await connect(stack, quiet.dup(), Calling(lambda _data: None))
    await a_flood(steps, stack)


async def a_flood(steps: Steps, stack: AsyncExitStack) -> None:
    near, far = pair(stack)
    await connect(stack, near, Calling(lambda data: steps.step() and far.send(data)))
    far.send(b"x" * 1000)
    await steps.until_finished()


async def a_pipe(steps: Steps, stack: AsyncExitStack) -> None:
    loop = asyncio.get_running_loop()
    near, far = os.pipe()
    stack.callback(os.close, far)
    transport, _ = await loop.connect_read_pipe(
        lambda: Calling(lambda data: steps.step() and os.write(far, data)),
        os.fdopen(near, "rb", 0),
    )
    stack.callback(transport.close)
    os.write(far, b"x" * 1000)
    await steps.until_finished()


async def accepts(steps: Steps, stack: AsyncExitStack) -> None:
    loop = asyncio.get_running_loop()
    clients: list[socket.socket] = []
    stack.callback(lambda: [client.close() for client in clients])

    def made(_transport: asyncio.Transport) -> None:
        if steps.step():
            clients.pop(0).close()
            clients.append(socket.create_connection(address))

    server = await loop.create_server(lambda: Made(made), "127.0.0.1", 0)
    stack.callback(server.close)
    address = loopback_address(server)
    clients += [socket.create_connection(address) for _ in range(30)]
    await steps.until_finished()


async def datagrams(steps: Steps, stack: AsyncExitStack) -> None:
    loop = asyncio.get_running_loop()
    sender = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    transport, _ = await loop.create_datagram_endpoint(
        lambda: Datagrams(lambda: steps.step() and sender.sendto(b"x", address)),
        local_addr=("127.0.0.1", 0),
    )
    stack.callback(transport.close)
    address = transport.get_extra_info("sockname")
    for _ in range(32):
        sender.sendto(b"x", address)
    await steps.until_finished()


def tls(make_protocol: Callable[[Callable[[bytes], object]], Any], size: int) -> Run:
    """A peer whose records the protocol reads in parts of 100 bytes, or each as a whole."""

    async def load(steps: Steps, stack: AsyncExitStack) -> None:
        loop = asyncio.get_running_loop()
        near, far = pair(stack)
        peers: list[ssl.SSLSocket] = []
        ours, theirs = server_context(), client_context()

        def shake_hands() -> None:
            peers.append(theirs.wrap_socket(far, server_hostname="localhost"))

        left = 0

        def received(data: bytes) -> None:
            nonlocal left
            left -= len(data)
            if steps.step() and left <= 0:
                left += size
                peers[0].send(b"x" * size)

        thread = threading.Thread(target=shake_hands)
        thread.start()
        transport, _ = await loop.connect_accepted_socket(
            lambda: make_protocol(received), near, ssl=ours
        )
        stack.callback(transport.abort)
        await loop.run_in_executor(None, thread.join)
        stack.callback(peers[0].close)
        left = size
        peers[0].send(b"x" * size)
        await steps.until_finished()

    return load


Run = Callable[[Steps, AsyncExitStack], Awaitable[None]]

LOADS: dict[str, Run] = {
    "a task": one_task,
    "1000 tasks": many_tasks,
    "call_soon": a_chain_of_callbacks,
    "call_later(0)": a_chain_of_timers,
    "futures": futures,
    "a queue": a_queue,
    "asyncio streams": reading(asyncio.open_connection, at_once=1, line=False),
    "native streams": reading(penstock.open_connection, at_once=1, line=False),
    "lines, asyncio": reading(asyncio.open_connection, at_once=30, line=True),
    "lines, native": reading(penstock.open_connection, at_once=30, line=True),
    "ping-pong, asyncio": ping_pong(asyncio.open_connection),
    "ping-pong, native": ping_pong(penstock.open_connection),
    "sock_recv": sock_recv,
    "a flood": a_flood,
    "a flood, 500 quiet": a_flood_among_quiet_connections,
    "a pipe": a_pipe,
    "accepts": accepts,
    "datagrams": datagrams,
    "TLS": tls(Calling, 100),
    "TLS, small buffers": tls(lambda received: CallingBuffered(received, 100), 3000),
}

SIZES: dict[str, dict[str, Any]] = {"1000 tasks": {"work": 0.00002, "between": 1500, "limit": 9000}}


def measure(new_loop: LoopFactory, loads: Sequence[str], event: str, **sizes: float) -> list[int]:
    """Return the latencies of a few events, in steps of loads that run side by side."""

    async def main() -> list[int]:
        steps = Steps(**{**SIZES.get(loads[0], {}), **sizes})
        asyncio.get_running_loop().set_exception_handler(steps.report)
        async with AsyncExitStack() as stack:
            steps.make_ready = await KINDS_OF_EVENTS[event](steps, stack)
            await asyncio.gather(*(LOADS[load](steps, stack) for load in loads))
        for _ in range(100):  # connections that were closed or accepted last are lost
            await asyncio.sleep(0)
        if steps.failure is not None:
            raise steps.failure
        return steps.latencies

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main())


def factories() -> dict[str, LoopFactory]:
    found: dict[str, LoopFactory] = {
        "asyncio": asyncio.SelectorEventLoop,
        "penstock": penstock.new_event_loop,
    }
    with contextlib.suppress(ImportError):
        import uvloop

        found["uvloop"] = uvloop.new_event_loop
    return found


if __name__ == "__main__":
    known = factories()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loop", action="append", choices=known)
    parser.add_argument("--load", action="append", choices=LOADS)
    parser.add_argument("--event", action="append", choices=KINDS_OF_EVENTS)
    options = parser.parse_args()
    loops = options.loop or list(known)
    events = options.event or list(KINDS_OF_EVENTS)
    print(f"steps until the event is handled, the worst of {EVENTS}: {', '.join(loops)}")
    for load in options.load or LOADS:
        worst = {
            event: "/".join(str(max(measure(known[loop], [load], event))) for loop in loops)
            for event in events
        }
        print(
            f"{load:20}",
            *(f"{event} {cell}" for event, cell in worst.items()),
            sep="  ",
            flush=True,
        )
