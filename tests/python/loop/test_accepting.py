"""Ownership in a server: its sockets, its factory, and connections that are not yet made."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from .certificates import server_context
from .conftest import LoopFactory, Run, RunScript

LOCAL = "127.0.0.1"


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def port_of(server: asyncio.Server) -> int:
    port: int = server.sockets[0].getsockname()[1]
    return port


def bind_again(port: int) -> None:
    with socket.create_server((LOCAL, port)):
        pass


class Factory:
    """Sets an event when it is called: a TLS handshake begins in the same turn."""

    def __init__(self) -> None:
        self.called = asyncio.Event()

    def __call__(self) -> asyncio.Protocol:
        self.called.set()
        return asyncio.Protocol()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("tls", [False, True])
def test_closing_the_loop_frees_the_ports_of_open_servers(new_loop: LoopFactory, tls: bool) -> None:
    async def main() -> int:
        context = server_context() if tls else None
        server = await asyncio.start_server(print, LOCAL, 0, ssl=context)
        return port_of(server)

    for _ in range(2):
        with asyncio.Runner(loop_factory=new_loop) as runner:
            port = runner.run(main())
        bind_again(port)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.usefixtures("without_collector")
def test_closing_the_loop_frees_the_unix_sockets_of_open_servers(
    new_loop: LoopFactory, tmp_path: Path
) -> None:
    path = str(tmp_path / "socket")

    async def main() -> None:
        await asyncio.start_unix_server(print, path)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(path)


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("tls", [False, True])
def test_a_closed_server_releases_its_factory(
    loop: asyncio.AbstractEventLoop, run: Run, tls: bool
) -> None:
    class Application:
        def __call__(self) -> asyncio.Protocol:
            return asyncio.Protocol()

    async def main() -> None:
        application = Application()
        reference = weakref.ref(application)
        context = server_context() if tls else None
        server = await loop.create_server(application, LOCAL, 0, ssl=context)
        del application
        server.close()
        await server.wait_closed()
        del server
        await asyncio.sleep(0)
        assert reference() is None

    run(main())


class Unanswered(NamedTuple):
    server: asyncio.Server
    client: socket.socket
    tasks: set[asyncio.Task[Any]]
    """Those of the server's side."""


@asynccontextmanager
async def unanswered_handshake(loop: asyncio.AbstractEventLoop) -> AsyncIterator[Unanswered]:
    """A TLS handshake of a server, whose client says nothing."""
    own = asyncio.all_tasks()
    factory = Factory()
    server = await loop.create_server(factory, LOCAL, 0, ssl=server_context())
    with socket.create_connection((LOCAL, port_of(server))) as client:
        client.setblocking(False)
        await factory.called.wait()
        yield Unanswered(server, client, asyncio.all_tasks() - own)


def test_cancelling_all_tasks_ends_a_handshake_without_an_answer(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        async with unanswered_handshake(loop) as handshake:
            handshake.server.close()
            for task in handshake.tasks:
                task.cancel()
            await handshake.server.wait_closed()
            assert await loop.sock_recv(handshake.client, 10) == b""

    run(main())


def test_a_handshake_may_be_cancelled_by_its_task(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        async with unanswered_handshake(loop) as handshake:
            (task,) = handshake.tasks
            task.cancel()
            assert await loop.sock_recv(handshake.client, 10) == b""
            assert task.done()
        handshake.server.close()
        await handshake.server.wait_closed()

    run(main())


class Handled(asyncio.Protocol):
    """Has a task that finally closes the connection, as asyncio's streams have."""

    def connection_made(self, transport: Any) -> None:
        self.task = asyncio.get_running_loop().create_task(self.handle(transport))

    async def handle(self, transport: asyncio.Transport) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            transport.close()


@pytest.mark.parametrize("at_once", [False, True])
def test_cancelling_all_tasks_closes_a_connection_whose_protocol_begins(
    loop: asyncio.AbstractEventLoop, run: Run, at_once: bool
) -> None:
    """The protocol's own task is cancelled before its first turn, so it closes nothing."""

    async def main() -> None:
        own = asyncio.all_tasks()

        def cancel_all() -> None:
            for task in asyncio.all_tasks() - own:
                task.cancel()

        def factory() -> asyncio.Protocol:
            if at_once:
                cancel_all()
            else:
                loop.call_soon(cancel_all)
            return Handled()

        server = await loop.create_server(factory, LOCAL, 0)
        with socket.create_connection((LOCAL, port_of(server))) as client:
            client.setblocking(False)
            assert await loop.sock_recv(client, 10) == b""
            server.close()
            await server.wait_closed()

    run(main())


def test_a_connection_outlives_the_task_that_accepted_it(
    loop: asyncio.AbstractEventLoop, run: Run
) -> None:
    async def main() -> None:
        own = asyncio.all_tasks()
        made = loop.create_future()

        class Protocol(asyncio.Protocol):
            def connection_made(self, transport: Any) -> None:
                made.set_result(transport)

        server = await loop.create_server(Protocol, LOCAL, 0)
        with socket.create_connection((LOCAL, port_of(server))) as client:
            client.setblocking(False)
            transport = await made
            for task in asyncio.all_tasks() - own:
                await task
            transport.write(b"still here")
            assert await loop.sock_recv(client, 10) == b"still here"
            server.close()
            transport.abort()
            await server.wait_closed()

    run(main())


ACTS = {
    "closes the server": "server.close()",
    "closes the listening socket": "server.close(); listening.close()",
    "stops the loop": "loop.stop()",
    "raises": "raise ValueError",
    "ends the program": "raise KeyboardInterrupt",
    "closes the loop": "loop.close()",
    "cancels all tasks": "[task.cancel() for task in asyncio.all_tasks(loop)]",
    "collects garbage": "gc.collect()",
}


@pytest.mark.usefixtures("only_penstock")
@pytest.mark.parametrize(
    "place", ["factory", "connection_made", "accept task", "exception handler"]
)
@pytest.mark.parametrize("act", ACTS)
def test_code_called_while_a_server_accepts_may_do_anything(
    run_script: RunScript, place: str, act: str
) -> None:
    """Several connections wait, so the server accepts again afterwards. In a separate process."""
    done = run_script(
        f"""
        import contextlib, gc, logging, socket, warnings
        logging.disable()
        warnings.simplefilter("ignore")
        place = {place!r}
        loop = new_loop()

        def act():
            {ACTS[act]}

        class Protocol(asyncio.Protocol):
            def __init__(self):
                if place == "factory":
                    act()
                elif place == "exception handler":
                    raise ValueError
            def connection_made(self, transport):
                if place == "connection_made":
                    act()
                elif place == "accept task":
                    for task in asyncio.all_tasks(loop):
                        task.add_done_callback(lambda task: act())
                        task.cancel()
                loop.call_later(0.01, transport.abort)

        def handle_exception(loop, context):
            if place == "exception handler":
                act()

        loop.set_exception_handler(handle_exception)
        listening = socket.create_server(("127.0.0.1", 0))
        address = listening.getsockname()
        server = loop.run_until_complete(loop.create_server(Protocol, sock=listening))
        clients = [socket.create_connection(address) for _ in range(5)]
        for _ in range(3):
            with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError, RuntimeError):
                loop.run_until_complete(asyncio.sleep(0.02))
        server.close()
        for client in clients:
            client.close()
        for _ in range(3):
            with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError, RuntimeError):
                loop.run_until_complete(asyncio.sleep(0.02))
        loop.close()
        gc.collect()
        print("well")
        """
    )
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
