"""The loop's calls on plain sockets, and watched descriptors."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import tempfile
from typing import Any

from tests.conformance.reports.case import (
    Loop,
    Room,
    expect,
    expect_true,
    reports_of,
)
from tests.conformance.reports.peers import is_open, linked, polls, turns, until

ROOM = Room("sockets")


@contextlib.contextmanager
def socket_pair() -> Any:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    with near, far:
        yield near, far


def datagram_sockets() -> Any:
    socks = []
    for _ in range(2):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.bind(("127.0.0.1", 0))
        socks.append(sock)
    return socks


@ROOM.case(
    "uvloop 561",
    "the loop's calls on datagram sockets were missing",
    {name: (name,) for name in ("sock_recvfrom", "sock_recvfrom_into", "sock_sendto")},
)
async def datagram_calls(loop: Loop, method: str) -> None:
    near, far = datagram_sockets()
    with near, far:
        if method == "sock_sendto":
            expect(await loop.sock_sendto(near, b"data", far.getsockname()), 4, "bytes sent")
            await until(loop, lambda: True)
            expect(far.recv(10), b"data", "received")
        else:
            far.sendto(b"data", near.getsockname())
            if method == "sock_recvfrom":
                got: Any = await loop.sock_recvfrom(near, 10)
                expect(got, (b"data", far.getsockname()), "received")
            else:
                buffer = bytearray(10)
                got = await loop.sock_recvfrom_into(near, buffer)
                expect((got, buffer[:4]), ((4, far.getsockname()), b"data"), "received")


@ROOM.case(
    "uvloop 99, uvloop 139",
    "sock_connect() of an IPv6 address with four parts raised TypeError",
)
async def connect_ipv6(loop: Loop) -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        return
    with listener, socket.socket(socket.AF_INET6) as sock:
        sock.setblocking(False)
        await loop.sock_connect(sock, listener.getsockname())
        expect(sock.getpeername()[1], listener.getsockname()[1], "port")


@ROOM.case(
    "CPython 131728, aiohappyeyeballs 157",
    "a cancelled sock_connect() left its watch on the number of a socket that was closed",
    {f"after {steps} turns": (steps,) for steps in range(1, 4)},
)
async def connect_cancelled(loop: Loop, steps: int) -> None:
    reports = reports_of(loop)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1)
    sock = socket.socket()
    sock.setblocking(False)
    task = asyncio.ensure_future(loop.sock_connect(sock, listener.getsockname()))
    await turns(steps)
    task.cancel()
    await asyncio.wait([task])
    number = sock.fileno()
    sock.close()
    await turns(2)
    near, far = socket.socketpair()
    with near, far, listener:
        seen: list[int] = []
        if near.fileno() != number:
            os.dup2(near.fileno(), number)
        loop.add_writer(number, seen.append, 1)
        await until(loop, lambda: seen)
        expect(loop.remove_writer(number), True, "remove_writer")
        if near.fileno() != number:
            os.close(number)
    expect(len(reports), 0, "reports")


@ROOM.case(
    "anyio 1267",
    "a cancelled receive left a watch behind that hurt the next one",
    {"sock_recv": ("sock_recv",), "sock_recv_into": ("sock_recv_into",)},
)
async def receive_cancelled(loop: Loop, method: str) -> None:
    with socket_pair() as (near, far):
        buffer = bytearray(10)
        argument: Any = 10 if method == "sock_recv" else buffer
        for _ in range(5):
            task = asyncio.ensure_future(getattr(loop, method)(near, argument))
            await turns(2)
            task.cancel()
            await asyncio.wait([task])
        far.send(b"data")
        got = await getattr(loop, method)(near, argument)
        expect(got, b"data" if method == "sock_recv" else 4, "received")
        expect(loop.remove_reader(near), False, "a watch is left")


@ROOM.case(
    "anyio 1267",
    "a receive that was cancelled in the turn in which data came took the data with it",
)
async def receive_cancelled_with_data(loop: Loop) -> None:
    with socket_pair() as (near, far):
        got = b""
        for number in range(20):
            task = asyncio.ensure_future(loop.sock_recv(near, 10))
            await turns(1)
            far.send(b"%02d" % number)
            await turns(number % 4)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                got += task.result()
        far.close()
        while data := await loop.sock_recv(near, 10):
            got += data
        expect(got, b"".join(b"%02d" % number for number in range(20)), "data")


@ROOM.case(
    "libuv 5039, libuv 5133",
    "a watcher that was removed in the same iteration was called all the same",
    {"own": ("own",), "another": ("another",), "own, closed": ("closed",)},
)
async def watcher_removed_in_a_callback(loop: Loop, which: str) -> None:
    calls: list[str] = []
    pairs = [socket.socketpair() for _ in range(2)]

    def called(number: int) -> None:
        calls.append(str(number))
        if which == "another":
            loop.remove_reader(pairs[1 - number][0])
        else:
            loop.remove_reader(pairs[number][0])
            if which == "closed":
                pairs[number][0].close()

    for number, (near, far) in enumerate(pairs):
        near.setblocking(False)
        loop.add_reader(near, called, number)
        far.send(b"x")
    await until(loop, lambda: calls)
    for near, _ in pairs:
        if near.fileno() >= 0:
            loop.remove_reader(near)
    await polls(loop)
    for near, far in pairs:
        near.close()
        far.close()
    if which == "another":
        expect(len(set(calls)), 1, "watchers called")
    else:
        expect(sorted(calls), ["0", "1"], "calls")


@ROOM.case(
    "libuv 5039",
    "a watcher that replaced another was called with the old callback",
)
async def watcher_replaced(loop: Loop) -> None:
    calls: list[str] = []
    with socket_pair() as (near, far):
        loop.add_reader(near, calls.append, "old")
        loop.add_reader(near, calls.append, "new")
        far.send(b"x")
        await until(loop, lambda: calls)
        loop.remove_reader(near)
    expect(set(calls), {"new"}, "callbacks called")


@ROOM.case(
    "CPython 131728",
    "a watcher of a socket that was closed and reused was never called",
)
async def number_reused_under_a_watcher(loop: Loop) -> None:
    first, other = socket.socketpair()
    number = first.fileno()
    loop.add_reader(first, print)
    loop.remove_reader(first)
    first.close()
    other.close()
    calls: list[int] = []
    with socket_pair() as (near, far):
        if near.fileno() != number:
            os.dup2(near.fileno(), number)
        loop.add_reader(number, calls.append, 1)
        far.send(b"x")
        await until(loop, lambda: calls)
        loop.remove_reader(number)
        if near.fileno() != number:
            os.close(number)


@ROOM.case(
    "uvloop 228, uvloop 549",
    "a file could not be sent with the loop's sendfile()",
    {"TCP": ("tcp",), "Unix": ("unix",), "TLS": ("tls",), "sock_sendfile": ("sock",)},
)
async def file_sent(loop: Loop, kind: str) -> None:
    data = os.urandom(300_000)
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        if kind == "sock":
            with socket_pair() as (near, far):
                sending = asyncio.ensure_future(loop.sock_sendfile(near, file))
                got = b""
                while len(got) < len(data):
                    got += await loop.sock_recv(far, 65_536)
                sent = await sending
        else:
            async with linked(loop, kind) as link:
                sent = await loop.sendfile(link.near.transport, file)
                got = await link.far.receives(len(data))
        expect((sent, got == data), (len(data), True), "bytes sent, and content")
        expect(file.tell(), len(data), "position in the file")


@ROOM.case(
    "aiohttp 12096",
    "sendfile() with a count or an offset beyond the file sent too much or never ended",
    {
        "count beyond the end": (0, 2_000_000, 1000),
        "part": (100, 200, 200),
        "offset at the end": (1000, None, 0),
        "offset beyond the end": (5000, 10, 0),
        "all": (0, None, 1000),
    },
)
async def part_of_a_file_sent(loop: Loop, offset: int, count: int | None, wanted: int) -> None:
    data = bytes(range(250)) * 4
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        async with linked(loop, "tcp") as link:
            sent = await loop.sendfile(link.near.transport, file, offset, count)
            link.near.transport.close()
            await link.far.lost
            got = bytes(link.far.received)
    expect((sent, got), (wanted, data[offset : offset + wanted]), "bytes sent, and content")


@ROOM.case(
    "uvloop 738",
    "a socket given to a call of the loop was closed by the loop",
)
async def sockets_stay_the_callers(loop: Loop) -> None:
    with socket_pair() as (near, far):
        far.send(b"x")
        await loop.sock_recv(near, 1)
        task = asyncio.ensure_future(loop.sock_recv(near, 1))
        await turns(2)
        task.cancel()
        await asyncio.wait([task])
        del task
        gc.collect()
        expect_true(is_open(near.fileno()), "closed")
