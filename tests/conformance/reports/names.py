"""Name resolution and connecting by name."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

from tests.conformance.reports.case import (
    Factory,
    Loop,
    Room,
    expect,
    expect_true,
    needs_python,
    raised_by,
)
from tests.conformance.reports.peers import Recorder, address_of, turns

ROOM = Room("names")


@ROOM.case(
    "uvloop 596, zuvloop 816d764",
    "getaddrinfo() answered otherwise than the socket module",
    {
        "empty host": ("", 0, {}),
        "no host": (None, 80, {}),
        "no host, passive": (None, 80, {"flags": socket.AI_PASSIVE}),
        "no port": ("127.0.0.1", None, {}),
        "port as text": ("127.0.0.1", "80", {}),
        "port as bytes": ("127.0.0.1", b"80", {}),
        "service": ("127.0.0.1", "http", {"type": socket.SOCK_STREAM}),
        "IPv4": ("127.0.0.1", 80, {"type": socket.SOCK_STREAM}),
        "IPv6": ("::1", 80, {"type": socket.SOCK_STREAM}),
        "host as bytes": (b"127.0.0.1", 80, {}),
        "short IPv4": ("127.1", 80, {"type": socket.SOCK_STREAM}),
        "localhost": ("localhost", 80, {"family": socket.AF_INET}),
        "not numeric": ("localhost", 80, {"flags": socket.AI_NUMERICHOST}),
        "wrong family": ("127.0.0.1", 80, {"family": socket.AF_INET6}),
        "NUL in the host": ("local\0host", 80, {}),
    },
)
async def getaddrinfo(loop: Loop, host: Any, port: Any, options: dict[str, Any]) -> None:
    try:
        wanted: Any = socket.getaddrinfo(host, port, **options)
    except Exception as exc:
        wanted = (type(exc).__name__, getattr(exc, "errno", None))
    try:
        actual: Any = await loop.getaddrinfo(host, port, **options)
    except NotImplementedError:
        raise
    except Exception as exc:
        actual = (type(exc).__name__, getattr(exc, "errno", None))
    expect(actual, wanted, "the answer")


@ROOM.case(
    "zuvloop 20",
    "getnameinfo() of what is no address raised another error",
    {
        "IPv4": (("127.0.0.1", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV),
        "IPv6": (("::1", 80, 0, 0), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV),
        "a name": (("no.such.host.invalid", 80), socket.NI_NUMERICHOST),
        "no tuple": ("127.0.0.1", 0),
        "a large port": (("127.0.0.1", 65_536), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV),
    },
)
async def getnameinfo(loop: Loop, address: Any, flags: int) -> None:
    try:
        wanted: Any = socket.getnameinfo(address, flags)
    except Exception as exc:
        wanted = type(exc).__name__
    try:
        actual: Any = await loop.getnameinfo(address, flags)
    except NotImplementedError:
        raise
    except Exception as exc:
        actual = type(exc).__name__
    expect(actual, wanted, "the answer")


@ROOM.case(
    "zuvloop 4e5d4ed",
    "closing the loop with a pending name resolution crashed",
)
def closed_with_a_pending_resolution(factory: Factory) -> None:
    loop = factory()

    async def start() -> Any:
        task = asyncio.ensure_future(loop.getaddrinfo("localhost", 80))
        await turns(1)
        return task

    task = loop.run_until_complete(start())
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "all_errors": {"all_errors": True},
    "happy_eyeballs_delay": {"happy_eyeballs_delay": 0.01},
    "both": {"happy_eyeballs_delay": 0.01, "all_errors": True},
}


async def addresses_of_nobody(*_: Any, **__: Any) -> Any:
    """Two addresses at which nobody listens."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.2", 0))
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", first.getsockname()),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", second.getsockname()),
        ]


@ROOM.case(
    "zuvloop 28, aiohappyeyeballs 93",
    "a connection that failed at every address raised IndexError or lost the errors",
    {name: (options,) for name, options in OPTIONS.items()},
)
async def every_address_fails(loop: Loop, options: dict[str, Any]) -> None:
    if options.get("all_errors"):
        needs_python(3, 12)
    loop.getaddrinfo = addresses_of_nobody  # type: ignore[method-assign]
    try:
        await loop.create_connection(Recorder, "name.test", 9, **options)
    except ExceptionGroup as group:
        expect_true(options.get("all_errors"), "an ExceptionGroup")
        kinds = [type(exc).__name__ for exc in group.exceptions]
        expect(kinds, ["ConnectionRefusedError"] * 2, "errors")
        expect_true("127.0.0.1" in str(group.exceptions[0]), "not in the order of the addresses")
    except OSError as exc:
        expect_true(not options.get("all_errors"), "no ExceptionGroup")
        expect_true("127.0.0.1" in str(exc) and "127.0.0.2" in str(exc), f"{exc}")
    else:
        expect_true(False, "connected")


@ROOM.case(
    "zuvloop 28",
    "the second address was not tried when the first one failed",
    {"plain": ({},), "happy_eyeballs_delay": ({"happy_eyeballs_delay": 0.01},)},
)
async def second_address(loop: Loop, options: dict[str, Any]) -> None:
    server = await loop.create_server(Recorder, "127.0.0.1", 0)
    address = address_of(server)
    nobody = (await addresses_of_nobody())[0]

    async def resolve(*_: Any, **__: Any) -> Any:
        return [nobody, (socket.AF_INET, socket.SOCK_STREAM, 6, "", address)]

    loop.getaddrinfo = resolve  # type: ignore[method-assign]
    transport, _ = await loop.create_connection(Recorder, "name.test", 9, **options)
    expect(transport.get_extra_info("peername"), address, "peer")
    transport.abort()
    server.close()


@ROOM.case(
    "CPython 135836",
    "a local address that cannot be bound raised IndexError",
    {"plain": ({},), "happy_eyeballs_delay": ({"happy_eyeballs_delay": 0.01},)},
)
async def local_address_in_use(loop: Loop, options: dict[str, Any]) -> None:
    server = await loop.create_server(Recorder, "127.0.0.1", 0)
    raised = await raised_by(
        loop.create_connection(
            Recorder, *address_of(server), local_addr=address_of(server), **options
        )
    )
    expect(raised, "OSError", "raised")
    server.close()
