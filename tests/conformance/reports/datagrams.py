"""Datagram endpoints over UDP and Unix sockets."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import socket
import tempfile
import weakref
from typing import Any

from tests.conformance.reports.case import (
    Loop,
    Room,
    expect,
    expect_no_reports,
    expect_true,
    needs_python,
    raised_in,
    reports_of,
)
from tests.conformance.reports.peers import is_open, polls, turns, until

ROOM = Room("datagrams")


class Endpoint(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.received: list[tuple[bytes, Any]] = []
        self.errors: list[Exception] = []
        self.lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.losses = 0
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.received.append((data, addr))

    def error_received(self, exc: Exception) -> None:
        self.errors.append(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        self.losses += 1
        if not self.lost.done():
            self.lost.set_result(exc)


async def endpoint(loop: Loop, protocol: Any = Endpoint, **options: Any) -> Any:
    if not options:
        options = {"local_addr": ("127.0.0.1", 0)}
    _, made = await loop.create_datagram_endpoint(protocol, **options)
    return made


def address(protocol: Any) -> Any:
    return protocol.transport.get_extra_info("sockname")


def udp_socket() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    sock.setblocking(False)
    return sock


@ROOM.case("CPython 113812", "sendto(b'') sent nothing", {"UDP": ("udp",), "Unix": ("unix",)})
async def empty_datagram_sent(loop: Loop, kind: str) -> None:
    needs_python(3, 13)
    with tempfile.TemporaryDirectory() as folder:
        if kind == "udp":
            near = await endpoint(loop)
            far = await endpoint(loop)
        else:
            path = os.path.join(folder, "far")
            far = await endpoint(loop, local_addr=path, family=socket.AF_UNIX)
            near = await endpoint(loop, local_addr=f"{path}.near", family=socket.AF_UNIX)
        near.transport.sendto(b"", address(far))
        await until(loop, lambda: far.received)
        expect([data for data, _ in far.received], [b""], "datagrams")
        near.transport.close()
        far.transport.close()
        await far.lost


@ROOM.case(
    "libuv 5133",
    "an empty datagram among others ended or spoiled the reading",
    {"UDP": ("udp",), "Unix": ("unix",)},
)
async def empty_datagram_received(loop: Loop, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if kind == "udp":
            far = await endpoint(loop)
            sender = udp_socket()
        else:
            path = os.path.join(folder, "far")
            far = await endpoint(loop, local_addr=path, family=socket.AF_UNIX)
            sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sent = [b"a", b"", b"bb", b"", b"ccc"]
        with sender:
            for data in sent:
                sender.sendto(data, address(far))
        await until(loop, lambda: len(far.received) >= len(sent))
        expect([data for data, _ in far.received], sent, "datagrams")
        far.transport.close()
        await far.lost


@ROOM.case(
    "zuvloop 77",
    "datagrams were delivered after the protocol had closed the endpoint",
    {"close": ("close",), "abort": ("abort",)},
)
async def closed_while_receiving(loop: Loop, way: str) -> None:
    class Closing(Endpoint):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, addr)
            getattr(self.transport, way)()

    far = await endpoint(loop, Closing)
    with udp_socket() as sender:
        for number in range(5):
            sender.sendto(b"%d" % number, address(far))
        await far.lost
        await polls(loop)
    expect([data for data, _ in far.received], [b"0"], "datagrams")


@ROOM.case(
    "CPython 135444",
    "the buffer's size never came back to 0 after datagrams had waited",
)
async def buffer_size_after_waiting(loop: Loop) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "far")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as far:
            far.bind(path)
            near = await endpoint(loop, remote_addr=path, family=socket.AF_UNIX)
            count = 0
            while near.transport.get_write_buffer_size() == 0 and count < 10_000:
                near.transport.sendto(bytes(1000))
                count += 1
                await asyncio.sleep(0)
            expect_true(near.transport.get_write_buffer_size() > 0, "nothing had to wait")
            far.setblocking(False)
            received = 0
            while received < count:
                try:
                    far.recv(2000)
                    received += 1
                except BlockingIOError:
                    await polls(loop, 1)
            expect(near.transport.get_write_buffer_size(), 0, "buffered bytes at the end")
            near.transport.close()
            await near.lost


@ROOM.case(
    "zuvloop 19",
    "a connected endpoint refused to send to the very address that it is connected to",
)
async def connected_endpoint_names_its_peer(loop: Loop) -> None:
    far = await endpoint(loop)
    near = await endpoint(loop, remote_addr=address(far))
    near.transport.sendto(b"named", address(far))
    near.transport.sendto(b"not named")
    await until(loop, lambda: len(far.received) == 2)
    expect([data for data, _ in far.received], [b"named", b"not named"], "datagrams")
    near.transport.close()
    far.transport.close()


@ROOM.case(
    "zuvloop 19",
    "a connected endpoint sent to its peer what was meant for another address",
)
async def connected_endpoint_names_another(loop: Loop) -> None:
    far = await endpoint(loop)
    other = await endpoint(loop)
    near = await endpoint(loop, remote_addr=address(far))
    raised = raised_in(near.transport.sendto, b"x", address(other))
    await polls(loop)
    expect((raised, far.received, other.received), ("ValueError", [], []), "raised, and received")
    for one in (near, far, other):
        one.transport.close()


@ROOM.case(
    "uvloop 319",
    "sendto() did nothing on an endpoint made of a socket that was connected already",
)
async def endpoint_of_a_connected_socket(loop: Loop) -> None:
    far = await endpoint(loop)
    sock = udp_socket()
    sock.connect(address(far))
    near = await endpoint(loop, sock=sock)
    near.transport.sendto(b"x")
    await until(loop, lambda: far.received)
    expect(far.received, [(b"x", address(near))], "datagrams")
    near.transport.close()
    far.transport.close()


@ROOM.case(
    "zuvloop 18",
    "a port beyond 65535 reached the port of its lower 16 bits",
)
async def port_out_of_range(loop: Loop) -> None:
    far = await endpoint(loop)
    near = await endpoint(loop)
    host, port = address(far)
    with contextlib.suppress(OverflowError, ValueError, OSError):
        near.transport.sendto(b"x", (host, port + 65_536))
    await polls(loop)
    expect(far.received, [], "datagrams at the port of the lower bits")
    near.transport.abort()
    far.transport.abort()


@ROOM.case(
    "zuvloop 86, uvloop 269",
    "names of abstract Unix sockets were cut at a NUL or lost",
    {
        "plain": ("\0penstock-{}", "\0penstock-from-{}"),
        "NUL inside": ("\0pen\0stock-{}", "\0from\0{}"),
        "NULs at the end": ("\0penstock-{}\0\0", "\0penstock-from-{}\0"),
        "sender without a name": ("\0penstock-{}", ""),
    },
)
async def abstract_names(loop: Loop, name: str, sender_name: str) -> None:
    name = name.format(os.getpid())
    far = await endpoint(loop, local_addr=name, family=socket.AF_UNIX)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        if sender_name:
            sender.bind(sender_name.format(os.getpid()))
        wanted = sender.getsockname() or None
        sender.sendto(b"x", name)
        await until(loop, lambda: far.received)
        expect(far.received, [(b"x", wanted)], "datagrams")
        if wanted:
            far.transport.sendto(b"back", wanted)
            sender.setblocking(False)
            await polls(loop)
            expect(sender.recvfrom(10), (b"back", name.encode()), "the answer")
    far.transport.close()
    await far.lost


@ROOM.case(
    "zuvloop 45",
    "a watched UDP socket was never called again after an ICMP error",
)
async def reader_after_an_icmp_error(loop: Loop) -> None:
    seen: list[object] = []
    with udp_socket() as near:
        gone = udp_socket()
        peer = gone.getsockname()
        gone.close()
        near.connect(peer)

        def read() -> None:
            try:
                seen.append(near.recv(100))
            except OSError as exc:
                seen.append(exc.errno)

        loop.add_reader(near, read)
        near.send(b"x")
        await until(loop, lambda: seen)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
            far.bind(peer)
            far.sendto(b"back", near.getsockname())
            await until(loop, lambda: len(seen) >= 2)
            await polls(loop)
        loop.remove_reader(near)
    expect(seen, [errno.ECONNREFUSED, b"back"], "what the reader saw")


@ROOM.case("zuvloop 45", "an ICMP error ended the endpoint or was not told")
async def endpoint_after_an_icmp_error(loop: Loop) -> None:
    gone = udp_socket()
    peer = gone.getsockname()
    gone.close()
    near = await endpoint(loop, remote_addr=peer)
    near.transport.sendto(b"x")
    await until(loop, lambda: near.errors)
    expect([type(exc) for exc in near.errors], [ConnectionRefusedError], "error_received with")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        far.bind(peer)
        far.sendto(b"back", address(near))
        await until(loop, lambda: near.received)
    expect(near.losses, 0, "calls of connection_lost")
    near.transport.close()
    await near.lost


@ROOM.case(
    "anyio 1250",
    "abort() of an endpoint after connection_lost raised",
    {"close": ("close",), "abort": ("abort",)},
)
async def endpoint_closed_again(loop: Loop, way: str) -> None:
    reports = reports_of(loop)
    near = await endpoint(loop)
    near.transport.close()
    await near.lost
    await turns(3)
    expect(raised_in(getattr(near.transport, way)), "nothing", "raised")
    await turns(3)
    expect(near.losses, 1, "calls of connection_lost")
    expect_no_reports(reports)


@ROOM.case(
    "anyio 1147",
    "the socket of a closed endpoint was still open after connection_lost",
    {"close": ("close",), "abort": ("abort",)},
)
async def descriptor_after_loss(loop: Loop, way: str) -> None:
    near = await endpoint(loop)
    descriptor = near.transport.get_extra_info("socket").fileno()
    getattr(near.transport, way)()
    await near.lost
    expect_true(not is_open(descriptor), "the descriptor is open when connection_lost was seen")


@ROOM.case(
    "zuvloop 17",
    "sendto() after close() raised, or took what is no bytes",
    {
        "bytes": (b"x", "nothing"),
        "a number": (123, "TypeError"),
        "a string": ("x", "TypeError"),
    },
)
async def sendto_after_close(loop: Loop, data: Any, wanted: str) -> None:
    far = await endpoint(loop)
    near = await endpoint(loop)
    near.transport.close()
    # asyncio still sends the datagram; nobody has settled whether that is right.
    expect(raised_in(near.transport.sendto, data, address(far)), wanted, "raised")
    far.transport.close()


@ROOM.case("zuvloop 60", "a closed endpoint was kept alive by the loop")
async def closed_endpoint_is_freed(loop: Loop) -> None:
    near = await endpoint(loop)
    near.transport.close()
    await near.lost
    await polls(loop)
    kept = weakref.ref(near)
    del near
    gc.collect()
    expect_true(kept() is None, "the protocol is still alive")


@ROOM.case(
    "zuvloop 61",
    "a buffer changed after sendto() was sent with the new content",
)
async def buffer_changed_after_sendto(loop: Loop) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "far")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as far:
            far.bind(path)
            far.setblocking(False)
            near = await endpoint(loop, remote_addr=path, family=socket.AF_UNIX)
            count = 0
            while near.transport.get_write_buffer_size() == 0 and count < 10_000:
                near.transport.sendto(b"A" * 1000)
                count += 1
            data = bytearray(b"A" * 1000)
            near.transport.sendto(data)
            data[:] = b"B" * 1000
            received: list[bytes] = []
            while len(received) <= count:
                try:
                    received.append(far.recv(2000))
                except BlockingIOError:
                    await polls(loop, 1)
            expect_true(all(one == b"A" * 1000 for one in received), "the later content was sent")
            near.transport.close()
            await near.lost
