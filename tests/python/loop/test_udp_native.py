"""Datagram transports: batches, pauses, flow control, errors and leaks."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import socket
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from .conftest import LoopFactory, Run
from .test_datagrams import LOCAL, Datagrams, finish


class Writer(Datagrams):
    """Also records flow control."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[str] = []
        self.resumed = asyncio.Event()

    def pause_writing(self) -> None:
        self.pauses.append("pause")

    def resume_writing(self) -> None:
        self.pauses.append("resume")
        self.resumed.set()


async def udp_server(
    loop: asyncio.AbstractEventLoop, factory: Any = Datagrams
) -> tuple[Any, Any, Any]:
    transport, protocol = await loop.create_datagram_endpoint(factory, local_addr=LOCAL)
    return transport, protocol, transport.get_extra_info("sockname")


async def unix_pair(
    loop: asyncio.AbstractEventLoop, folder: Path
) -> tuple[Any, Writer, socket.socket]:
    """Return an endpoint connected to a plain socket with a small queue."""
    reader = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    reader.bind(str(folder / "reader"))
    reader.setblocking(False)
    transport, protocol = await loop.create_datagram_endpoint(
        Writer, remote_addr=str(folder / "reader"), family=socket.AF_UNIX
    )
    return transport, protocol, reader


def fill(transport: Any, protocol: Writer, size: int = 10_000) -> int:
    """Send until the transport queues more than its high-water mark; return the number of sends."""
    for sent in range(1, 1000):
        transport.sendto(b"%06d" % sent + bytes(size - 6))
        if protocol.pauses:
            return sent
    raise AssertionError("the queue was never full")


async def drain(loop: asyncio.AbstractEventLoop, reader: socket.socket, count: int) -> list[int]:
    return [int((await loop.sock_recv(reader, 20_000))[:6]) for _ in range(count)]


def test_it_is_an_instance_of_asyncios_transport_classes(
    loop: asyncio.AbstractEventLoop, run: Run, loop_name: str
) -> None:
    kinds: list[Any] = [asyncio.Transport]
    if loop_name == "penstock" or sys.version_info >= (3, 13):
        kinds.append(asyncio.DatagramTransport)

    async def main() -> None:
        server, protocol, address = await udp_server(loop)
        assert all(isinstance(server, kind) for kind in kinds)
        reference: Any = weakref.ref(server)
        assert reference() is server
        assert server.get_protocol() is protocol
        assert server.get_extra_info("sockname") == address
        assert server.get_extra_info("peername") is None
        assert server.get_extra_info("nothing", "default") == "default"
        assert server.get_extra_info("socket").getsockname() == address
        assert server.get_write_buffer_size() == 0
        assert server.get_write_buffer_limits() == (16384, 65536)
        assert server.is_reading()
        assert f"fd={server.get_extra_info('socket').fileno()}" in repr(server)
        await finish(server)
        assert not server.is_reading()
        assert "closed" in repr(server)

    run(main())


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", 2), ("::1", 10)])
def test_every_datagram_has_its_senders_address(
    loop: asyncio.AbstractEventLoop, run: Run, host: str, family: int
) -> None:
    class Echo(Datagrams):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            self.transport.sendto(data + b" from %d" % addr[1], addr)

    async def main() -> None:
        server, _ = await loop.create_datagram_endpoint(Echo, local_addr=(host, 0))
        address = server.get_extra_info("sockname")
        clients = []
        for _ in range(100):
            client = socket.socket(family, socket.SOCK_DGRAM)
            client.bind((host, 0))
            client.setblocking(False)
            clients.append(client)
        for turn in range(3):
            for client in clients:
                client.sendto(b"%d" % turn, address)
            for client in clients:
                own = client.getsockname()
                answer = await loop.sock_recvfrom(client, 100)
                assert answer == (b"%d from %d" % (turn, own[1]), address)
        for client in clients:
            client.close()
        await finish(server)

    run(main())


def test_a_burst_arrives_in_order(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        server, protocol, address = await udp_server(loop)
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            for start in range(0, 1000, 50):
                for number in range(start, start + 50):
                    sender.sendto(b"%d" % number, address)
                for number in range(start, start + 50):
                    assert (await protocol.received.get())[0] == b"%d" % number
        await finish(server)

    run(main())


def test_large_and_small_datagrams_are_not_merged(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    sizes = [65507, 1, 65507, 0, 1000, 30000, 2] * 3

    async def main() -> None:
        server, protocol, address = await udp_server(loop)
        server.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            for turn in range(4):
                for size in sizes[turn:]:
                    sender.sendto(bytes([turn]) * size, address)
                    received, _ = await protocol.received.get()
                    assert received == bytes([turn]) * size
        await finish(server)

    run(main())


def test_a_pause_in_the_middle_of_a_burst_delays_the_rest(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    class Pausing(Datagrams):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, addr)
            if int(data) % 3 == 2:
                self.transport.pause_reading()

    async def main() -> None:
        server, protocol, address = await udp_server(loop, Pausing)
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.bind(LOCAL)
            for number in range(40):
                sender.sendto(b"%d" % number, address)
            for number in range(39):
                assert await protocol.received.get() == (b"%d" % number, sender.getsockname())
                if number % 3 == 2:
                    for _ in range(3):
                        await asyncio.sleep(0)
                    assert protocol.received.empty()
                    assert not server.is_reading()
                    server.resume_reading()
        assert (await protocol.received.get())[0] == b"39"
        await finish(server)

    run(main())


@pytest.mark.parametrize("ending", ["close", "abort"])
def test_nothing_is_delivered_after_the_end(
    loop: asyncio.AbstractEventLoop, run: Run, ending: str
) -> None:
    class Ending(Datagrams):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, addr)
            getattr(self.transport, ending)()

    async def main() -> None:
        for _ in range(5):
            server, protocol, address = await udp_server(loop, Ending)
            with socket.socket(type=socket.SOCK_DGRAM) as sender:
                server.pause_reading()
                for number in range(20):
                    sender.sendto(b"%d" % number, address)
                server.resume_reading()
                await protocol.closed.wait()
            assert protocol.received.get_nowait()[0] == b"0"
            assert protocol.received.empty()
            assert protocol.lost == [None]

    run(main())


def test_a_raising_receiver_does_not_end_the_burst(
    loop: asyncio.AbstractEventLoop, run: Run, contexts: list[dict[str, Any]]
) -> None:
    class Raising(Datagrams):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, addr)
            raise LookupError(data)

    async def main() -> None:
        server, protocol, address = await udp_server(loop, Raising)
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            for number in range(5):
                sender.sendto(b"%d" % number, address)
            for number in range(5):
                assert (await protocol.received.get())[0] == b"%d" % number
        assert not server.is_closing()
        await finish(server)

    run(main())
    assert [type(context["exception"]) for context in contexts] == [LookupError] * 5


def test_an_interrupt_in_a_burst_loses_no_datagram(new_loop: LoopFactory) -> None:
    loop = new_loop()

    class Leaving(Datagrams):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, addr)
            if data == b"3":
                raise KeyboardInterrupt

    server, protocol, address = loop.run_until_complete(udp_server(loop, Leaving))
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        for number in range(10):
            sender.sendto(b"%d" % number, address)
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        assert protocol.received.qsize() == 4

        async def rest() -> None:
            for number in range(10):
                assert (await protocol.received.get())[0] == b"%d" % number
            await finish(server)

        loop.run_until_complete(asyncio.wait_for(rest(), 30))
    loop.close()


@pytest.mark.usefixtures("only_penstock")
def test_one_of_a_pair_sends_to_the_other_without_an_address(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    """asyncio queries the peer's name, which is empty, and ends the transport."""

    async def main() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with theirs:
            theirs.setblocking(False)
            transport, protocol = await loop.create_datagram_endpoint(Datagrams, sock=ours)
            for number in range(3):
                transport.sendto(b"%d" % number)
            assert [await loop.sock_recv(theirs, 10) for _ in range(3)] == [b"0", b"1", b"2"]
            theirs.send(b"answer")
            assert (await protocol.received.get())[0] == b"answer"
            await finish(transport)

    run(main())


def test_callbacks_run_in_the_context_of_creation(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")

    class Noting(Datagrams):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, variable.get())

    async def main() -> None:
        variable.set("creator")
        server, protocol, address = await udp_server(loop, Noting)
        variable.set("later")
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.sendto(b"x", address)
        assert await protocol.received.get() == (b"x", "creator")
        await finish(server)

    run(main())


def test_datagrams_that_the_kernel_refuses_are_queued_in_order(
    loop: asyncio.AbstractEventLoop, run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        transport, protocol, reader = await unix_pair(loop, tmp_path)
        with reader:
            changing = bytearray(b"%06d" % 0)
            sent = fill(transport, protocol)
            transport.sendto(changing)
            changing[:] = b"999999"
            assert transport.get_write_buffer_size() > 65536
            assert await drain(loop, reader, sent + 1) == [*range(1, sent + 1), 0]
            await protocol.resumed.wait()
            assert protocol.pauses == ["pause", "resume"]
            await finish(transport)

    run(main())


def test_close_sends_queued_datagrams_and_abort_drops_them(
    loop: asyncio.AbstractEventLoop, run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        transport, protocol, reader = await unix_pair(loop, tmp_path)
        with reader:
            sent = fill(transport, protocol)
            transport.close()
            assert transport.is_closing()
            assert not protocol.closed.is_set()
            assert await drain(loop, reader, sent) == list(range(1, sent + 1))
            await protocol.closed.wait()
            assert protocol.lost == [None]
        (tmp_path / "reader").unlink()
        transport, protocol, reader = await unix_pair(loop, tmp_path)
        with reader:
            sent = fill(transport, protocol)
            transport.abort()
            await protocol.closed.wait()
            reader.setblocking(False)
            with pytest.raises(BlockingIOError):
                for _ in range(sent):
                    reader.recv(20_000)

    run(main())


def test_water_marks_are_set_and_returned(
    loop: asyncio.AbstractEventLoop, run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        transport, protocol, reader = await unix_pair(loop, tmp_path)
        transport.set_write_buffer_limits(high=1000)
        assert transport.get_write_buffer_limits() == (250, 1000)
        with pytest.raises(ValueError, match="must be >="):
            transport.set_write_buffer_limits(high=1, low=2)
        transport.set_write_buffer_limits()
        assert transport.get_write_buffer_limits() == (16384, 65536)
        with reader:
            fill(transport, protocol, size=100)
            transport.abort()
            await protocol.closed.wait()

    run(main())


def test_unix_datagrams_have_their_senders_path(
    loop: asyncio.AbstractEventLoop, run: Run, tmp_path: Path
) -> None:
    async def main() -> None:
        server, receiving = await loop.create_datagram_endpoint(
            Datagrams, local_addr=str(tmp_path / "server"), family=socket.AF_UNIX
        )
        client, answered = await loop.create_datagram_endpoint(
            Datagrams, local_addr=str(tmp_path / "client"), family=socket.AF_UNIX
        )
        client.sendto(b"x" * 100_000, str(tmp_path / "server"))
        data, sender = await receiving.received.get()
        assert (data, sender) == (b"x" * 100_000, str(tmp_path / "client"))
        server.sendto(b"back", sender)
        assert await answered.received.get() == (b"back", str(tmp_path / "server"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as nobody:
            nobody.sendto(b"nameless", str(tmp_path / "server"))
        assert await receiving.received.get() == (b"nameless", None)
        await finish(server, client)

    run(main())


def test_errors_of_a_send_reach_the_protocol(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        server, protocol, address = await udp_server(loop)
        server.sendto(bytes(70_000), address)
        assert isinstance(await protocol.errors.get(), OSError)
        server.sendto(b"x", ("name.invalid", 9))
        assert isinstance(await protocol.errors.get(), OSError)
        assert not server.is_closing()
        server.sendto(b"by name", ("localhost", address[1]))
        assert (await protocol.received.get())[0] == b"by name"
        await finish(server)

    run(main())


@pytest.mark.parametrize("address", [None, "text", ("127.0.0.1",), ("127.0.0.1", 70_000)])
def test_an_address_of_the_wrong_kind_is_fatal(
    loop: asyncio.AbstractEventLoop, run: Run, contexts: list[dict[str, Any]], address: Any
) -> None:
    async def main() -> None:
        server, protocol, _ = await udp_server(loop)
        server.sendto(b"x", address)
        assert server.is_closing()
        await protocol.closed.wait()
        assert len(protocol.lost) == 1
        assert isinstance(protocol.lost[0], (TypeError, OverflowError))

    run(main())
    assert [context["message"] for context in contexts] == [
        "Fatal write error on datagram transport"
    ]


def test_a_broadcasting_endpoint_has_only_one_target(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        server, protocol, address = await udp_server(loop)
        client, _ = await loop.create_datagram_endpoint(
            Datagrams, remote_addr=address, allow_broadcast=True
        )
        assert client.get_extra_info("peername") is None
        client.sendto(b"1")
        client.sendto(b"2", address)
        client.sendto(b"3", addr=address)
        assert [(await protocol.received.get())[0] for _ in range(3)] == [b"1", b"2", b"3"]
        with pytest.raises(ValueError, match="must be None or"):
            client.sendto(b"x", ("127.0.0.1", 9))
        await finish(server, client)

    run(main())


def test_sends_after_the_end_are_counted_and_warn(
    loop: asyncio.AbstractEventLoop, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        server, _, address = await udp_server(loop)
        client, protocol = await loop.create_datagram_endpoint(Datagrams, remote_addr=address)
        client.abort()
        for _ in range(6):
            client.sendto(b"x")
        await protocol.closed.wait()
        await finish(server)

    with caplog.at_level(logging.WARNING, "asyncio"):
        run(main())
    warnings = [record.getMessage() for record in caplog.records]
    assert warnings == ["socket.send() raised exception."] * 2


def test_its_descriptor_is_protected_from_other_uses(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        server, _, _ = await udp_server(loop)
        sock = server.get_extra_info("socket")
        with pytest.raises(RuntimeError, match="is used by transport"):
            loop.add_reader(sock.fileno(), print)
        await finish(server)

    run(main())


def test_a_protocol_can_be_replaced(loop: asyncio.AbstractEventLoop, run: Run) -> None:
    async def main() -> None:
        server, first, address = await udp_server(loop)
        second = Datagrams()
        server.set_protocol(second)
        assert server.get_protocol() is second
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.sendto(b"x", address)
            assert (await second.received.get())[0] == b"x"
        assert first.received.empty()
        server.close()
        await second.closed.wait()

    run(main())


def test_an_endpoint_that_is_not_closed_warns(new_loop: LoopFactory) -> None:
    loop = new_loop()
    server, protocol, _ = loop.run_until_complete(udp_server(loop))
    sock = server._sock
    with pytest.warns(ResourceWarning, match="unclosed transport"):
        loop.close()
        protocol.transport = None
        del server, protocol
        gc.collect()
    assert sock.fileno() == -1


def test_thousands_of_datagrams_leak_no_objects(
    loop: asyncio.AbstractEventLoop, run: Run, loop_name: str
) -> None:
    if loop_name != "penstock":
        pytest.skip("a count of Penstock's objects")

    async def exchange(count: int) -> None:
        server, receiving, address = await udp_server(loop)
        client, _ = await loop.create_datagram_endpoint(Datagrams, remote_addr=address)
        for number in range(count):
            client.sendto(b"%d" % number)
            assert (await receiving.received.get())[0] == b"%d" % number
        await finish(server, client)

    def blocks() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    def transports() -> int:
        return [type(thing).__name__ for thing in gc.get_objects()].count("DatagramTransport")

    run(exchange(200))
    before = blocks()
    others = transports()
    # On Python 3.14, pytest keeps the reports of earlier tests, also on asyncio's own loop.
    assert others == 0 or sys.version_info >= (3, 14)
    run(exchange(4000))
    for _ in range(20):
        run(exchange(1))
    assert blocks() - before < 200
    assert transports() == others


def test_a_cycle_through_an_endpoint_is_collected(new_loop: LoopFactory) -> None:
    def leave_behind() -> list[weakref.ref[Any]]:
        loop = new_loop()
        server, protocol, _ = loop.run_until_complete(udp_server(loop))
        server.close()
        loop.run_until_complete(protocol.closed.wait())
        loop.close()
        return [weakref.ref(server), weakref.ref(protocol), weakref.ref(loop)]

    references = leave_behind()
    gc.collect()
    assert [reference() for reference in references] == [None, None, None]
