"""Every argument, by position and by name, valid or invalid, has the same effect as on asyncio."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .conftest import penstock_factory

UNUSED_PORT = 1  # the port of tcpmux, without a listener


class Stage:
    """A loop, sockets and transports, all closed at the end."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.left, self.right = socket.socketpair()
        self.connected, self.peer = socket.socketpair()
        self.datagrams = socket.socket(type=socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", 0))
        self.fresh = socket.socket()
        self.fresh_datagrams = socket.socket(type=socket.SOCK_DGRAM)
        self.sockets = [self.left, self.right, self.connected, self.peer, self.datagrams]
        self.sockets += [self.fresh, self.fresh_datagrams]
        for sock in self.sockets:
            sock.setblocking(False)
        self.right.send(b"hello")
        self.datagrams.sendto(b"hello", self.datagrams.getsockname())
        self.transport: Any = None
        self.protocol: Any = None
        self.datagram_transport: Any = None

    async def open(self) -> None:
        self.transport, self.protocol = await self.loop.create_connection(
            asyncio.Protocol, sock=self.connected
        )
        self.datagram_transport, _ = await self.loop.create_datagram_endpoint(
            asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
        )

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()
            self.datagram_transport.abort()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()
        for sock in self.sockets:
            sock.close()


Call = Callable[[Stage], Any]


def connect(**arguments: Any) -> Call:
    async def call(stage: Stage) -> None:
        transport, _ = await stage.loop.create_connection(asyncio.Protocol, **arguments)
        transport.abort()

    return call


def serve(**arguments: Any) -> Call:
    async def call(stage: Stage) -> object:
        server = await stage.loop.create_server(asyncio.Protocol, **arguments)
        seen = (server.is_serving(), len(server.sockets))
        server.close()
        await server.wait_closed()
        return seen, server.sockets, server.is_serving()

    return call


def serve_unix(**arguments: Any) -> Call:
    async def call(stage: Stage) -> object:
        server = await stage.loop.create_unix_server(asyncio.Protocol, **arguments)
        seen = (server.is_serving(), len(server.sockets))
        server.close()
        await server.wait_closed()
        return seen, server.sockets, server.is_serving()

    return call


def connect_unix(**arguments: Any) -> Call:
    async def call(stage: Stage) -> None:
        await stage.loop.create_unix_connection(asyncio.Protocol, **arguments)

    return call


def datagrams(**arguments: Any) -> Call:
    async def call(stage: Stage) -> object:
        transport, _ = await stage.loop.create_datagram_endpoint(
            asyncio.DatagramProtocol, **arguments
        )
        sock = transport.get_extra_info("socket")
        seen = [
            sock.getsockopt(socket.SOL_SOCKET, option)
            for option in (socket.SO_BROADCAST, socket.SO_REUSEPORT, socket.SO_REUSEADDR)
        ]
        transport.abort()
        return sock.family, seen

    return call


async def nothing() -> None: ...


def coroutine_given(schedule: Callable[[Stage, Any], Any]) -> Call:
    def call(stage: Stage) -> None:
        coroutine = nothing()
        try:
            schedule(stage, coroutine)
        finally:
            coroutine.close()

    return call


def in_debug_mode(call: Call) -> Call:
    async def debugging(stage: Stage) -> Any:
        stage.loop.set_debug(True)
        result = call(stage)
        return await result if inspect.isawaitable(result) else result

    return debugging


CALLS: dict[str, Call] = {
    # scheduling
    "call_soon(callback=)": lambda s: s.loop.call_soon(callback=print).cancel(),
    "call_soon(callback=, context=)": lambda s: s.loop.call_soon(
        callback=print, context=None
    ).cancel(),
    "call_soon()": lambda s: s.loop.call_soon(),
    "call_soon(unknown=)": lambda s: s.loop.call_soon(print, unknown=1),
    "call_soon_threadsafe(callback=)": lambda s: s.loop.call_soon_threadsafe(
        callback=print
    ).cancel(),
    "call_soon_threadsafe()": lambda s: s.loop.call_soon_threadsafe(),
    "call_later(delay=, callback=)": lambda s: s.loop.call_later(delay=9, callback=print).cancel(),
    "call_later(9, callback=)": lambda s: s.loop.call_later(9, callback=print).cancel(),
    "call_later(None)": lambda s: s.loop.call_later(None, print),
    "call_later('1')": lambda s: s.loop.call_later("1", print),
    "call_later()": lambda s: s.loop.call_later(9),
    "call_at(when=, callback=)": lambda s: s.loop.call_at(when=1e9, callback=print).cancel(),
    "call_at(None)": lambda s: s.loop.call_at(None, print),
    "call_soon(coroutine function), debug": in_debug_mode(lambda s: s.loop.call_soon(nothing)),
    "call_later(coroutine function), debug": in_debug_mode(lambda s: s.loop.call_later(1, nothing)),
    "call_soon(None), debug": in_debug_mode(lambda s: s.loop.call_soon(None)),
    "create_task(coro=, name=)": lambda s: s.loop.create_task(coro=nothing(), name="x"),
    "create_task(3)": lambda s: s.loop.create_task(3),
    "create_task(unknown=)": coroutine_given(lambda s, c: s.loop.create_task(c, unknown=1)),
    "set_task_factory(3)": lambda s: s.loop.set_task_factory(3),
    "set_exception_handler(3)": lambda s: s.loop.set_exception_handler(3),
    "set_default_executor(3)": lambda s: s.loop.set_default_executor(3),
    "close() while running": lambda s: s.loop.close(),
    # readiness and signals
    "add_reader(fd=, callback=)": lambda s: s.loop.add_reader(fd=s.right, callback=print),
    "add_reader(callback missing)": lambda s: s.loop.add_reader(s.right),
    "add_writer(transport's)": lambda s: s.loop.add_writer(s.connected, print),
    "remove_reader(fd=)": lambda s: s.loop.remove_reader(fd=s.right),
    "remove_writer(unknown=)": lambda s: s.loop.remove_writer(unknown=s.right),
    "remove_reader(-1)": lambda s: s.loop.remove_reader(-1),
    "add_reader(object)": lambda s: s.loop.add_reader(object(), print),
    "add_signal_handler(SIGKILL)": lambda s: s.loop.add_signal_handler(9, print),
    "add_signal_handler(999)": lambda s: s.loop.add_signal_handler(999, print),
    "add_signal_handler('x')": lambda s: s.loop.add_signal_handler("x", print),
    "add_signal_handler(coroutine function)": lambda s: s.loop.add_signal_handler(10, nothing),
    "remove_signal_handler(none set)": lambda s: s.loop.remove_signal_handler(10),
    # sock_*
    "sock_recv(sock=, n=)": lambda s: s.loop.sock_recv(sock=s.left, n=2),
    "sock_recv(negative)": lambda s: s.loop.sock_recv(s.left, -1),
    "sock_recv('x')": lambda s: s.loop.sock_recv(s.left, "x"),
    "sock_recv(no socket)": lambda s: s.loop.sock_recv(3.5, 1),
    "sock_recv_into(sock=, buf=)": lambda s: s.loop.sock_recv_into(sock=s.left, buf=bytearray(3)),
    "sock_recv_into(read-only)": lambda s: s.loop.sock_recv_into(s.left, b"xx"),
    "sock_sendall(sock=, data=)": lambda s: s.loop.sock_sendall(sock=s.left, data=b"x"),
    "sock_sendall(str)": lambda s: s.loop.sock_sendall(s.left, "x"),
    "sock_sendall(nothing)": lambda s: s.loop.sock_sendall(s.left, b""),
    "sock_recvfrom(sock=, bufsize=)": lambda s: s.loop.sock_recvfrom(sock=s.datagrams, bufsize=3),
    "sock_recvfrom_into(nbytes=)": lambda s: s.loop.sock_recvfrom_into(
        sock=s.datagrams, buf=bytearray(9), nbytes=2
    ),
    "sock_sendto(address=)": lambda s: s.loop.sock_sendto(
        sock=s.datagrams, data=b"x", address=s.datagrams.getsockname()
    ),
    "sock_sendto(bad address)": lambda s: s.loop.sock_sendto(s.datagrams, b"x", ("localhost",)),
    "sock_connect(bad address)": lambda s: s.loop.sock_connect(s.fresh, ("127.0.0.1",)),
    "sock_connect(nobody)": lambda s: s.loop.sock_connect(s.fresh, ("127.0.0.1", UNUSED_PORT)),
    "sock_accept(not listening)": lambda s: s.loop.sock_accept(sock=s.fresh),
    # stream transports
    "write(data=)": lambda s: s.transport.write(data=b"x"),
    "write(unknown=)": lambda s: s.transport.write(unknown=b"x"),
    "write()": lambda s: s.transport.write(),
    "write(None)": lambda s: s.transport.write(None),
    "write(str)": lambda s: s.transport.write("x"),
    "writelines(list_of_data=)": lambda s: s.transport.writelines(list_of_data=[b"x"]),
    "writelines(bytes)": lambda s: s.transport.writelines(b"xx"),
    "writelines(strs)": lambda s: s.transport.writelines(["x"]),
    "writelines(3)": lambda s: s.transport.writelines(3),
    "get_extra_info(name=)": lambda s: s.transport.get_extra_info(name="sockname"),
    "get_extra_info(default=)": lambda s: s.transport.get_extra_info("unknown", default=3),
    "get_extra_info(both)": lambda s: s.transport.get_extra_info(default=3, name="unknown"),
    "get_extra_info(unknown=)": lambda s: s.transport.get_extra_info("unknown", unknown=3),
    "get_extra_info()": lambda s: s.transport.get_extra_info(),
    "get_extra_info(unhashable)": lambda s: s.transport.get_extra_info([]),
    "set_protocol(protocol=)": lambda s: s.transport.set_protocol(protocol=s.protocol),
    "set_write_buffer_limits(three)": lambda s: s.transport.set_write_buffer_limits(1, 2, 3),
    "set_write_buffer_limits(-1)": lambda s: s.transport.set_write_buffer_limits(high=-1),
    "set_write_buffer_limits(low above high)": lambda s: s.transport.set_write_buffer_limits(
        high=1, low=2
    ),
    "write after write_eof": lambda s: (s.transport.write_eof(), s.transport.write(b"x")),
    # datagram transports
    "sendto(data=, addr=)": lambda s: s.datagram_transport.sendto(
        data=b"x", addr=("127.0.0.1", UNUSED_PORT)
    ),
    "sendto(str)": lambda s: s.datagram_transport.sendto("x", ("127.0.0.1", UNUSED_PORT)),
    "sendto(nothing)": lambda s: s.datagram_transport.sendto(b"", ("127.0.0.1", UNUSED_PORT)),
    "datagram set_protocol(protocol=)": lambda s: s.datagram_transport.set_protocol(
        protocol=s.protocol
    ),
    # create_datagram_endpoint
    "datagrams()": datagrams(),
    "datagrams(family mismatch)": datagrams(local_addr=("127.0.0.1", 0), family=socket.AF_INET6),
    "datagrams(local_addr=str)": datagrams(local_addr="x"),
    "datagrams(reuse_port)": datagrams(local_addr=("127.0.0.1", 0), reuse_port=True),
    "datagrams(allow_broadcast)": datagrams(local_addr=("127.0.0.1", 0), allow_broadcast=True),
    "datagrams(remote_addr too short)": datagrams(remote_addr=("127.0.0.1",)),
    "datagrams(flags only)": datagrams(flags=socket.AI_PASSIVE),
    "datagrams(reuse_address)": datagrams(local_addr=("127.0.0.1", 0), reuse_address=True),
    "datagrams(both)": datagrams(local_addr=("127.0.0.1", 0), remote_addr=("127.0.0.1", 9)),
    # create_connection
    "connect()": connect(),
    "connect(nobody)": connect(host="127.0.0.1", port=UNUSED_PORT),
    "connect(server_hostname without ssl)": connect(
        host="127.0.0.1", port=UNUSED_PORT, server_hostname="x"
    ),
    "connect(handshake timeout -1)": connect(
        host="127.0.0.1", port=UNUSED_PORT, ssl=True, ssl_handshake_timeout=-1
    ),
    "connect(handshake timeout without ssl)": connect(
        host="127.0.0.1", port=UNUSED_PORT, ssl_handshake_timeout=1
    ),
    "connect(shutdown timeout without ssl)": connect(
        host="127.0.0.1", port=UNUSED_PORT, ssl_shutdown_timeout=1
    ),
    "connect(bad local_addr)": connect(
        host="127.0.0.1", port=UNUSED_PORT, local_addr=("256.0.0.1", 0)
    ),
    "connect(happy eyeballs)": connect(
        host="127.0.0.1", port=UNUSED_PORT, happy_eyeballs_delay=0.1, interleave=1
    ),
    "connect(all_errors)": connect(host="127.0.0.1", port=UNUSED_PORT, all_errors=True),
    "connect(datagram socket)": lambda s: connect(sock=s.fresh_datagrams)(s),
    "connect(host and sock)": lambda s: connect(host="127.0.0.1", port=1, sock=s.fresh)(s),
    "connect_accepted_socket(datagram socket)": lambda s: s.loop.connect_accepted_socket(
        asyncio.Protocol, sock=s.fresh_datagrams
    ),
    # create_server
    "serve()": serve(),
    "serve(ssl=True)": serve(host="127.0.0.1", port=0, ssl=True),
    "serve(handshake timeout without ssl)": serve(
        host="127.0.0.1", port=0, ssl_handshake_timeout=1
    ),
    "serve(shutdown timeout without ssl)": serve(host="127.0.0.1", port=0, ssl_shutdown_timeout=1),
    "serve(hosts)": serve(host=["127.0.0.1", "127.0.0.1"], port=0),
    "serve(host='')": serve(host="", port=0),
    "serve(reuse_port, backlog)": serve(host="127.0.0.1", port=0, reuse_port=True, backlog=5),
    "serve(start_serving=False)": serve(host="127.0.0.1", port=0, start_serving=False),
    "serve(keep_alive)": serve(host="127.0.0.1", port=0, keep_alive=True),
    "serve(bad host)": serve(host="256.1.1.1", port=0),
    "serve(datagram socket)": lambda s: serve(sock=s.fresh_datagrams)(s),
    "serve(host and sock)": lambda s: serve(host="127.0.0.1", port=0, sock=s.fresh)(s),
    # Unix sockets
    "serve_unix()": serve_unix(),
    "serve_unix(no such folder)": serve_unix(path="/nonexistent/x"),
    "serve_unix(abstract)": serve_unix(path=f"\0penstock-arguments-{os.getpid()}"),
    "serve_unix(3)": serve_unix(path=3),
    "serve_unix(internet socket)": lambda s: serve_unix(sock=s.fresh)(s),
    "connect_unix()": connect_unix(),
    "connect_unix(no such file)": connect_unix(path="/nonexistent/x"),
    "connect_unix(internet socket)": lambda s: connect_unix(sock=s.fresh)(s),
    "connect_unix(path and sock)": lambda s: connect_unix(path="/tmp/x", sock=s.fresh)(s),
    # child processes
    "subprocess_exec()": lambda s: s.loop.subprocess_exec(asyncio.SubprocessProtocol),
    "subprocess_exec(shell)": lambda s: s.loop.subprocess_exec(
        asyncio.SubprocessProtocol, "true", shell=True
    ),
    "subprocess_exec(text)": lambda s: s.loop.subprocess_exec(
        asyncio.SubprocessProtocol, "true", text=True
    ),
    "subprocess_exec(no such program)": lambda s: s.loop.subprocess_exec(
        asyncio.SubprocessProtocol, "/nonexistent/program"
    ),
    "subprocess_shell(list)": lambda s: s.loop.subprocess_shell(
        asyncio.SubprocessProtocol, ["true"]
    ),
    # names
    "getaddrinfo(type=)": lambda s: s.loop.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM),
    "getnameinfo(flags)": lambda s: s.loop.getnameinfo(
        ("127.0.0.1", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    ),
}


def outcome(loop: Any, call: Call) -> object:
    """Return a call's result if it is plain data, or the class of its exception."""
    stage = Stage(loop)

    async def main() -> object:
        await stage.open()
        try:
            result = call(stage)
            if inspect.isawaitable(result):
                result = await asyncio.wait_for(result, 30)
        except Exception as exc:
            return type(exc)
        return result if isinstance(result, (bool, bytes, int, list, str, tuple)) else None

    try:
        return loop.run_until_complete(main())
    finally:
        stage.close()


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def without_ports(value: object) -> object:
    """Replace port numbers, which differ between stages."""
    if isinstance(value, tuple):
        return tuple(without_ports(each) for each in value)
    return None if isinstance(value, int) and value > 1024 else value


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_is_accepted_or_refused_as_by_asyncio(name: str) -> None:
    new_penstock_loop = penstock_factory()
    expected = outcome(asyncio.SelectorEventLoop(), CALLS[name])
    assert without_ports(outcome(new_penstock_loop(), CALLS[name])) == without_ports(expected)


METHODS = [name for name in dir(asyncio.AbstractEventLoop) if not name.startswith("_")]


def test_every_method_has_asyncios_parameters() -> None:
    loop, reference = penstock_factory()(), asyncio.SelectorEventLoop()
    differing = []
    for name in METHODS:
        ours, theirs = getattr(loop, name), getattr(reference, name)
        if inspect.ismethod(ours):  # native methods are called with each parameter above
            parameters = list(inspect.signature(ours).parameters)
            if parameters != list(inspect.signature(theirs).parameters):
                differing.append(name)
    loop.close()
    reference.close()
    assert not differing


def create_task_of(loop: Any) -> None:
    coroutine = nothing()
    try:
        loop.create_task(coroutine)
    finally:
        coroutine.close()


def test_a_closed_loop_refuses_as_asyncios_does() -> None:
    calls: list[Callable[[Any], object]] = [
        lambda loop: loop.call_soon(print),
        lambda loop: loop.call_later(1, print),
        lambda loop: loop.call_at(1, print),
        lambda loop: loop.call_soon_threadsafe(print),
        lambda loop: loop.add_reader(0, print),
        lambda loop: loop.remove_reader(0),
        lambda loop: loop.run_in_executor(None, print),
        lambda loop: loop.run_forever(),
        lambda loop: loop.close(),
        lambda loop: loop.stop(),
        lambda loop: type(loop.create_future()),
        create_task_of,
    ]

    def outcomes(loop: Any) -> list[object]:
        loop.close()
        seen: list[object] = []
        for call in calls:
            try:
                seen.append(call(loop))
            except Exception as exc:
                seen.append(type(exc))
        return seen

    assert outcomes(penstock_factory()()) == outcomes(asyncio.SelectorEventLoop())
