"""Faults of stream connections: resets, raising protocols, exhausted descriptors."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Run, RunScript
from .peers import BufferedRecorder, Recorder, Recording, connect, fill, reset, until
from .stream_transport_cases import both_protocols

Contexts = list[dict[str, Any]]

# If the factory raises, asyncio leaves the socket's close to the garbage collector.
LEFT_TO_THE_COLLECTOR = "ignore:.*<socket:pytest.PytestUnraisableExceptionWarning"


@both_protocols
def test_a_reset_while_reading_ends_in_connection_reset_error(
    run: Run, make: Callable[[], Recording], contexts: Contexts
) -> None:
    async def main() -> None:
        with await connect(make) as c:
            reset(c.peer)
            await c.protocol.closed.wait()
            assert c.protocol.calls == ["made", "lost"]
            assert type(c.protocol.lost_with[0]) is ConnectionResetError
            assert c.transport.is_closing()

    run(main())
    assert contexts == []


def test_a_reset_while_writing_ends_in_a_connection_error(run: Run, contexts: Contexts) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            fill(c.transport, c.protocol)
            reset(c.peer)
            await c.protocol.closed.wait()
            assert c.protocol.calls == ["made", "pause", "lost"]
            assert isinstance(c.protocol.lost_with[0], ConnectionError)
            assert c.transport.get_write_buffer_size() == 0

    run(main())
    assert contexts == []


def test_a_reset_while_writing_with_reading_paused_is_detected(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            c.transport.pause_reading()
            fill(c.transport, c.protocol)
            reset(c.peer)
            await c.protocol.closed.wait()
            assert isinstance(c.protocol.lost_with[0], ConnectionError)

    run(main())


def test_a_write_to_a_reset_connection_fails_through_connection_lost(
    run: Run, contexts: Contexts
) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            reset(c.peer)
            c.transport.write(b"x")
            c.transport.write(b"x")
            await c.protocol.closed.wait()
            assert isinstance(c.protocol.lost_with[0], ConnectionError)
            assert len(c.protocol.lost_with) == 1

    run(main())
    assert contexts == []


def test_a_peer_that_closes_during_a_flushing_close_ends_the_connection(run: Run) -> None:
    async def main() -> None:
        with await connect(Recorder) as c:
            fill(c.transport, c.protocol)
            c.transport.close()
            reset(c.peer)
            await c.protocol.closed.wait()
            assert len(c.protocol.lost_with) == 1

    run(main())


class DeliberateError(Exception):
    pass


def raising(base: type, name: str) -> Callable[[], Any]:
    def callback(self: Any, *arguments: Any) -> Any:
        getattr(base, name)(self, *arguments)
        raise DeliberateError(name)

    return type("Raising", (base,), {name: callback})


@pytest.mark.parametrize(
    ("base", "name", "message"),
    [
        (Recorder, "data_received", "Fatal error: protocol.data_received() call failed."),
        (BufferedRecorder, "get_buffer", "Fatal error: protocol.get_buffer() call failed."),
        (BufferedRecorder, "buffer_updated", "Fatal error: protocol.buffer_updated() call failed."),
        (Recorder, "eof_received", "Fatal error: protocol.eof_received() call failed."),
    ],
)
def test_a_protocol_that_raises_is_reported_and_its_connection_closed(
    run: Run, contexts: Contexts, base: type, name: str, message: str
) -> None:
    async def main() -> None:
        with await connect(raising(base, name)) as c:
            c.peer.sendall(b"x")
            if name == "eof_received":
                c.peer.close()
            await c.protocol.closed.wait()
            assert [type(exc) for exc in c.protocol.lost_with] == [DeliberateError]
            assert [context["message"] for context in contexts] == [message]
            assert contexts[0]["exception"] is c.protocol.lost_with[0]
            assert contexts[0]["transport"] is c.transport
            assert contexts[0]["protocol"] is c.protocol
        # The loop still works: another connection succeeds.
        with await connect(Recorder) as c:
            c.peer.sendall(b"next")
            assert await c.protocol.received(4) == b"next"

    run(main())


def test_an_empty_buffer_is_reported_and_the_connection_closed(
    run: Run, contexts: Contexts
) -> None:
    async def main() -> None:
        with await connect(lambda: BufferedRecorder(0)) as c:
            c.peer.sendall(b"x")
            await c.protocol.closed.wait()
            assert isinstance(c.protocol.lost_with[0], RuntimeError)
            assert "get_buffer() returned an empty buffer" in str(c.protocol.lost_with[0])

    run(main())
    assert len(contexts) == 1


@pytest.mark.parametrize("buffer", [b"read only", None, 7])
def test_a_buffer_that_cannot_be_written_is_reported_and_the_connection_closed(
    run: Run, contexts: Contexts, buffer: Any
) -> None:
    class Wrong(BufferedRecorder):
        def get_buffer(self, sizehint: int) -> Any:
            return buffer

    async def main() -> None:
        with await connect(Wrong) as c:
            c.peer.sendall(b"x")
            await c.protocol.closed.wait()
            assert isinstance(c.protocol.lost_with[0], (TypeError, BufferError))

    run(main())
    assert len(contexts) == 1


@pytest.mark.parametrize("name", ["connection_made", "connection_lost"])
def test_a_protocol_that_raises_at_its_start_or_end_is_reported(
    run: Run, contexts: Contexts, name: str
) -> None:
    async def main() -> None:
        with await connect(raising(Recorder, name)) as c:
            c.transport.close()
            await c.protocol.closed.wait()
            assert [type(context["exception"]) for context in contexts] == [DeliberateError]
            await asyncio.sleep(0)
            assert c.peer.recv(10) == b""

    run(main())


@pytest.mark.parametrize("name", ["pause_writing", "resume_writing"])
def test_a_flow_control_callback_that_raises_is_reported_and_the_connection_stays_open(
    run: Run, contexts: Contexts, name: str
) -> None:
    async def main() -> None:
        with await connect(raising(Recorder, name)) as c:
            written = fill(c.transport, c.protocol)
            reader = asyncio.create_task(asyncio.to_thread(_receive_count, c.peer, written))
            assert await reader == written
            await c.protocol.resumed.wait()
            assert [context["message"] for context in contexts] == [f"protocol.{name}() failed"]
            assert type(contexts[0]["exception"]) is DeliberateError
            c.peer.sendall(b"alive")
            assert await c.protocol.received(5) == b"alive"

    run(main())


def _receive_count(peer: Any, count: int) -> int:
    received = 0
    while received < count:
        received += len(peer.recv(1 << 20))
    return received


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@both_protocols
def test_a_base_exception_of_a_protocol_ends_the_run(
    run: Run, make: type, error: type[BaseException]
) -> None:
    name = "data_received" if make is Recorder else "buffer_updated"

    class Ends(make):
        pass

    def callback(self: Any, *arguments: Any) -> None:
        raise error

    setattr(Ends, name, callback)
    keep: list[Any] = []

    async def main() -> None:
        connection = await connect(Ends)
        keep.append(connection)
        connection.peer.sendall(b"x")
        await asyncio.Event().wait()

    with pytest.raises(error):
        run(main())
    keep[0].transport.abort()
    keep[0].peer.close()


@pytest.mark.parametrize("how", ["close", "abort"])
def test_a_protocol_may_close_others_that_have_data_waiting(run: Run, how: str) -> None:
    """The events of all of them may be in one batch of the poller."""

    async def main() -> None:
        connections: list[Any] = []

        class Ends(Recorder):
            def data_received(self, data: bytes) -> None:
                super().data_received(data)
                for other in connections:
                    if other.protocol is not self:
                        getattr(other.transport, how)()

        for _ in range(10):
            connections.append(await connect(Ends))
        for c in connections:
            c.peer.sendall(b"x")
        await until(lambda: sum(c.protocol.closed.is_set() for c in connections) >= 9)
        for c in connections:
            if not c.transport.is_closing():
                c.transport.abort()
            await c.protocol.closed.wait()
            assert c.protocol.calls.count("lost") == 1
            c.peer.close()
        assert sum("data" in c.protocol.calls for c in connections) == 1

    run(main())


def test_a_protocol_that_exhausts_memory_loses_only_its_connection(
    run: Run, contexts: Contexts
) -> None:
    class Exhausted(BufferedRecorder):
        def get_buffer(self, sizehint: int) -> bytearray:
            return bytearray(1 << 62)

    async def main() -> None:
        with await connect(Exhausted) as c:
            c.peer.sendall(b"x")
            await c.protocol.closed.wait()
            assert type(c.protocol.lost_with[0]) is MemoryError

    run(main())
    assert len(contexts) == 1


@pytest.mark.filterwarnings(LEFT_TO_THE_COLLECTOR)
def test_a_servers_factory_that_raises_is_reported_and_the_server_continues(
    loop: asyncio.AbstractEventLoop, run: Run, loop_name: str, contexts: Contexts
) -> None:
    made: list[Recorder] = []

    def factory() -> Recorder:
        if not contexts:
            raise DeliberateError("factory")
        made.append(Recorder())
        return made[-1]

    async def main() -> None:
        server = await loop.create_server(factory, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        with socket.create_connection(address) as refused:
            await until(lambda: bool(contexts))
            if loop_name == "penstock":
                refused.settimeout(30)
                assert await asyncio.to_thread(refused.recv, 1) == b""
        with socket.create_connection(address) as client:
            client.sendall(b"second")
            await until(lambda: bool(made))
            assert await made[0].received(6) == b"second"
        await made[0].closed.wait()
        server.close()
        await server.wait_closed()

    # asyncio reports it only in debug mode.
    loop.set_debug(True)
    run(main())
    assert type(contexts[0]["exception"]) is DeliberateError


@pytest.mark.filterwarnings(LEFT_TO_THE_COLLECTOR)
def test_an_exception_of_a_clients_factory_reaches_the_caller(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    def factory() -> Recorder:
        raise DeliberateError("factory")

    with pytest.raises(DeliberateError):
        run(connect(factory))


def test_exhausting_descriptors_backs_off_logs_and_continues(run_script: RunScript) -> None:
    done = run_script(
        """
        import json, os, resource, socket

        backlog = 20
        accepted, reports = [], []

        class Greeter(asyncio.Protocol):
            def connection_made(self, transport):
                accepted.append(transport)
                transport.write(b"hello")

        async def main():
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: reports.append(context))
            server = await loop.create_server(Greeter, "127.0.0.1", 0, backlog=backlog)
            address = server.sockets[0].getsockname()
            clients = [socket.socket() for _ in range(10)]
            in_use = len(os.listdir("/proc/self/fd")) - 1
            resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 4, in_use + 4))
            for client in clients:
                client.setblocking(False)
                client.connect_ex(address)
            # asyncio reports the limit before it tells the protocols of what it has accepted.
            while not (reports and accepted):
                await asyncio.sleep(0.001)
            at_the_limit = len(accepted)
            for transport in accepted:
                transport.abort()
            accepted.clear()
            await asyncio.sleep(0.05)
            while True:
                for transport in accepted:
                    transport.abort()
                greeted = 0
                for client in clients:
                    try:
                        greeted += client.recv(5, socket.MSG_PEEK) == b"hello"
                    except BlockingIOError:
                        pass
                    except ConnectionResetError:
                        greeted += 1
                if greeted == len(clients):
                    break
                await asyncio.sleep(0.01)
            print(json.dumps({
                "at_the_limit": at_the_limit,
                "reports": len(reports),
                "messages": sorted({report["message"] for report in reports}),
                "errnos": sorted({report["exception"].errno for report in reports}),
                "serving": server.is_serving(),
            }))
            server.close()

        loop = new_loop()
        loop.run_until_complete(asyncio.wait_for(main(), 30))
        loop.close()
        """
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert 0 < result["at_the_limit"] < 10
    assert result["messages"] == ["socket.accept() out of system resource"]
    assert result["errnos"] == [24]
    assert result["serving"] is True
    # The loop waits between attempts. Without waits, it would report thousands per second.
    assert result["reports"] <= 100
