"""Servers: accepting, closing, and what happens to their clients."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import inspect
import os
import resource
import socket
from typing import Any

from tests.conformance.reports.case import (
    Loop,
    NotApplicable,
    Room,
    expect,
    expect_no_reports,
    expect_true,
    needs_python,
    raised_by,
    reports_of,
)
from tests.conformance.reports.peers import (
    Recorder,
    address_of,
    is_open,
    linked,
    polls,
    turns,
    unix_path,
    until,
)

ROOM = Room("servers")


@ROOM.case(
    "zuvloop 156, zuvloop 87",
    "cancelling serve_forever() cut the clients or let new ones in",
)
async def serving_cancelled(loop: Loop) -> None:
    if "close_clients" in inspect.getsource(asyncio.Server.serve_forever):
        raise NotApplicable("CPython itself closes the clients since 3.14")
    async with linked(loop, "tcp") as link:
        address = address_of(link.server)
        task = asyncio.ensure_future(link.server.serve_forever())
        await turns(3)
        task.cancel()
        await turns(3)
        link.near.transport.write(b"still here")
        expect(await link.far.receives(10), b"still here", "data of the client")
        raised = await raised_by(asyncio.open_connection(*address))
        expect(raised, "ConnectionRefusedError", "a new client gets")
        link.near.transport.close()
        await link.far.lost
        await asyncio.wait([task])
        expect_true(task.cancelled(), "the task did not end cancelled")


@ROOM.case(
    "CPython 79033, CPython 104344",
    "wait_closed() did not wait for the clients, or never returned",
)
async def wait_closed_waits_for_clients(loop: Loop) -> None:
    needs_python(3, 12, 1)
    async with linked(loop, "tcp") as link:
        link.server.close()
        task = asyncio.ensure_future(link.server.wait_closed())
        await polls(loop)
        expect_true(not task.done(), "returned while a client is connected")
        link.near.transport.close()
        await task


@ROOM.case(
    "zuvloop ef18278",
    "a cancelled wait_closed() was woken all the same: InvalidStateError",
)
async def cancelled_wait_closed(loop: Loop) -> None:
    needs_python(3, 12, 1)
    reports = reports_of(loop)
    async with linked(loop, "tcp") as link:
        link.server.close()
        first = asyncio.ensure_future(link.server.wait_closed())
        second = asyncio.ensure_future(link.server.wait_closed())
        await turns(2)
        first.cancel()
        await asyncio.wait([first])
        link.near.transport.close()
        await second
    expect_no_reports(reports)


@ROOM.case(
    "CPython 113538",
    "a server could not be shut down with its clients",
    {"close_clients": ("close_clients",), "abort_clients": ("abort_clients",)},
)
async def clients_ended_by_the_server(loop: Loop, method: str) -> None:
    needs_python(3, 13)
    async with linked(loop, "tcp") as link:
        link.server.close()
        getattr(link.server, method)()
        await link.server.wait_closed()
        await link.near.lost
        await link.far.lost


@ROOM.case(
    "CPython 109564",
    "close() while a connection was being accepted was reported as an error",
    {f"after {steps} turns": (steps,) for steps in range(4)},
)
async def closed_while_accepting(loop: Loop, steps: int) -> None:
    reports = reports_of(loop)
    server: Any = await loop.create_server(Recorder, "127.0.0.1", 0)
    socks = [socket.create_connection(address_of(server)) for _ in range(3)]
    await turns(steps)
    server.close()
    await polls(loop)
    for sock in socks:
        sock.close()
    await server.wait_closed()
    expect_no_reports(reports)


@ROOM.case(
    "CPython 111246",
    "the file of a Unix server's socket stayed after close()",
)
async def socket_file_removed(loop: Loop) -> None:
    needs_python(3, 13)
    with unix_path() as path:
        server = await loop.create_unix_server(Recorder, path)
        server.close()
        await polls(loop, 1)
        expect_true(not os.path.exists(path), "the file is still there")


@ROOM.case(
    "zuvloop 495fd91",
    "closing a Unix server removed the file of the server that had replaced it",
)
async def replaced_socket_file(loop: Loop) -> None:
    with unix_path() as path:
        first = await loop.create_unix_server(Recorder, path)
        second = await loop.create_unix_server(Recorder, path)
        first.close()
        await polls(loop)
        transport, _ = await loop.create_unix_connection(Recorder, path)
        transport.abort()
        second.close()


@ROOM.case(
    "zuvloop 84",
    "a Unix server that could not be made left its socket open",
    {
        "no such folder": ("/nonexistent/folder/socket",),
        "path too long": ("/tmp/" + "x" * 200,),
    },
)
async def unix_server_not_made(loop: Loop, path: str) -> None:
    gc.collect()
    before = [fd for fd in range(200) if is_open(fd)]
    raised = await raised_by(loop.create_unix_server(Recorder, path))
    expect_true(raised in ("OSError", "FileNotFoundError"), f"raised {raised}")
    gc.collect()
    await polls(loop)
    expect([fd for fd in range(200) if is_open(fd)], before, "open descriptors")


@ROOM.case(
    "zuvloop c71e41f",
    "a factory that raised for one connection stopped the server or its wait_closed()",
)
async def factory_raises_once(loop: Loop) -> None:
    reports_of(loop)
    made: list[Recorder] = []
    calls = [0]

    def factory() -> Any:
        calls[0] += 1
        if calls[0] == 1:
            raise ZeroDivisionError("of the factory")
        made.append(Recorder())
        return made[-1]

    server = await loop.create_server(factory, "127.0.0.1", 0)
    with socket.create_connection(address_of(server)):
        await until(loop, lambda: calls[0] == 1)
    transport, _ = await loop.create_connection(Recorder, *address_of(server))
    transport.write(b"x")
    await until(loop, lambda: made)
    expect(await made[0].receives(1), b"x", "data of the second client")
    transport.close()
    await made[0].lost
    server.close()
    await server.wait_closed()


@ROOM.case(
    "zuvloop 8d4a58e",
    "a host named twice failed with 'address already in use'",
    {"twice the address": (["127.0.0.1", "127.0.0.1"],)},
)
async def host_named_twice(loop: Loop, hosts: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server: Any = await loop.create_server(Recorder, hosts, port)
    expect(len(server.sockets), 1, "sockets")
    server.close()


@ROOM.case(
    "zuvloop 18",
    "a port beyond 65535 reached the port of its lower 16 bits",
    {"create_connection": ("create_connection",), "create_server": ("create_server",)},
)
async def port_out_of_range(loop: Loop, method: str) -> None:
    server = await loop.create_server(Recorder, "127.0.0.1", 0)
    host, port = address_of(server)
    if method == "create_connection":
        making: Any = loop.create_connection(Recorder, host, port + 65_536)
    else:
        making = loop.create_server(Recorder, host, 65_536)
    raised = await raised_by(making)
    expect_true(raised in ("OverflowError", "OSError", "gaierror", "ValueError"), f"{raised}")
    server.close()


@ROOM.case("zuvloop 27", "keep_alive was not taken, or accepted sockets did not have it")
async def keep_alive(loop: Loop) -> None:
    needs_python(3, 13)
    protocol: asyncio.Future[Any] = loop.create_future()

    class Accepted(Recorder):
        def connection_made(self, transport: Any) -> None:
            protocol.set_result(transport)

    options: dict[str, Any] = {"keep_alive": True}
    server = await loop.create_server(Accepted, "127.0.0.1", 0, **options)
    transport, _ = await loop.create_connection(Recorder, *address_of(server))
    accepted = await protocol
    option = accepted.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    expect(bool(option), True, "SO_KEEPALIVE")
    transport.abort()
    accepted.abort()
    server.close()


@ROOM.case(
    "zuvloop 78, libuv d185607a8",
    "a server that had run out of descriptors never accepted again",
)
async def out_of_descriptors(loop: Loop) -> None:
    reports: list[dict[str, Any]] = []
    reported = asyncio.Event()

    def note(_: Loop, context: dict[str, Any]) -> None:
        reports.append(context)
        reported.set()

    loop.set_exception_handler(note)
    server = await loop.create_server(Recorder, "127.0.0.1", 0)
    address = address_of(server)
    with socket.socket() as sock:
        sock.setblocking(False)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        opened = [fd for fd in range(200) if is_open(fd)]
        fillers = [os.open("/dev/null", os.O_RDONLY) for _ in range(max(opened) - len(opened) + 1)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (max([*opened, *fillers]) + 1, hard))
        try:
            with contextlib.suppress(BlockingIOError):
                sock.connect(address)
            await reported.wait()
            told = len(reports)
            await turns(200)
            expect_true(len(reports) <= told + 1, "the loop tries to accept without a pause")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for filler in fillers:
                os.close(filler)
        sock.setblocking(True)
        transport, _ = await loop.create_connection(Recorder, *address)
        transport.write(b"x")
        await until(loop, lambda: bool(transport.get_extra_info("peername")))
        transport.abort()
    server.close()


@ROOM.case(
    "zuvloop e01f5f4",
    "closing one of Server.sockets closed the listener under the loop",
)
async def sockets_of_a_server_are_protected(loop: Loop) -> None:
    server: Any = await loop.create_server(Recorder, "127.0.0.1", 0)
    address = address_of(server)
    for view in server.sockets:
        expect_true(not hasattr(view, "close"), "the listener can be closed from outside")
    transport, _ = await loop.create_connection(Recorder, *address)
    transport.abort()
    server.close()
    expect(len(server.sockets), 0, "sockets after close()")


@ROOM.case(
    "rloop 36",
    "serve_forever() could not be called on a server that was not started",
)
async def serve_forever_starts(loop: Loop) -> None:
    server: Any = await loop.create_server(Recorder, "127.0.0.1", 0, start_serving=False)
    expect_true(not server.is_serving(), "serves before it is started")
    task = asyncio.ensure_future(server.serve_forever())
    await turns(3)
    expect_true(server.is_serving(), "does not serve")
    transport, _ = await loop.create_connection(Recorder, *address_of(server))
    transport.abort()
    task.cancel()
    await asyncio.wait([task])
    expect_true(not server.is_serving(), "serves after the task was cancelled")
