"""The blocking client and server; `websockets.sync` is the judge."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets.sync.client
import websockets.sync.server

from penstock import websocket
from penstock.websocket.sync import background
from penstock.websocket.sync import client as own_client
from penstock.websocket.sync import server as own_server
from tests.python.documentation.page_steps import ROOT

CLIENTS: dict[str, Any] = {
    "penstock": own_client.connect,
    "websockets": websockets.sync.client.connect,
}
SERVERS: dict[str, Any] = {
    "penstock": own_server.serve,
    "websockets": websockets.sync.server.serve,
}
ROLES = [(client, server) for client in CLIENTS for server in SERVERS]


def echo(connection: Any) -> None:
    for message in connection:
        connection.send(message)


@contextlib.contextmanager
def serving(library: str, handler: Any, **options: Any) -> Iterator[str]:
    with SERVERS[library](handler, "127.0.0.1", 0, **options) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


def connect(library: str, uri: str, **options: Any) -> Any:
    if library == "websockets":
        options["legacy"] = True
    return CLIENTS[library](uri, **options)


@pytest.mark.parametrize(("client", "server"), ROLES)
def test_messages_are_exchanged(client: str, server: str) -> None:
    with serving(server, echo) as uri, connect(client, uri) as connection:
        for message in ("text", b"bytes", "ä" * 100_000):
            connection.send(message)
            assert connection.recv() == message
        connection.send("as bytes")
        assert connection.recv(decode=False) == b"as bytes"
        connection.send(b"as text", text=True)
        assert connection.recv(timeout=20) == "as text"
        connection.send(part for part in ("in ", "parts"))
        assert "".join(connection.recv_streaming()) == "in parts"
        assert connection.ping().wait(20)
        connection.pong()
        with pytest.raises(TimeoutError):
            connection.recv(timeout=0.01)
        with pytest.raises(TypeError):
            connection.send({"a": 1})
        connection.send("not lost")
        assert connection.recv() == "not lost"
        assert not connection.wait_closed(timeout=0.01) if client == "penstock" else True
        connection.close()
        assert connection.close_code == 1000


@pytest.mark.parametrize(("client", "server"), ROLES)
def test_an_end_ends_the_iteration_or_raises(client: str, server: str) -> None:
    def tell(connection: Any) -> None:
        connection.send("one")
        connection.send("two")
        if connection.request.path == "/crash":
            raise RuntimeError("crash")

    with serving(server, tell) as uri:
        with connect(client, uri) as connection:
            assert list(connection) == ["one", "two"]
        with connect(client, uri + "/crash") as connection:
            messages = iter(connection)
            assert [next(messages), next(messages)] == ["one", "two"]
            with pytest.raises(Exception) as end:
                next(messages)
            assert type(end.value).__name__ == "ConnectionClosedError"
            assert end.value.rcvd.code == 1011  # type: ignore[attr-defined]


@pytest.mark.parametrize("client", list(CLIENTS))
def test_a_server_lets_in_and_refuses(client: str) -> None:
    """`process_request` may block, and what it sets is there in the handler."""
    users: list[str] = []
    met = threading.Barrier(2, timeout=20)

    def check(connection: Any, request: websocket.Request) -> websocket.Response | None:
        met.wait()  # two handshakes are processed at the same time
        if request.path == "/no":
            return own_server.ServerConnection.respond(connection, 403, "no\n")
        connection.user = request.path
        return None

    def note(connection: Any) -> None:
        users.append(connection.user)

    with serving("penstock", note, process_request=check) as uri:
        refused: list[BaseException] = []

        def knock() -> None:
            try:
                connect(client, uri + "/no")
            except Exception as error:
                refused.append(error)

        thread = threading.Thread(target=knock)
        thread.start()
        with connect(client, uri + "/yes") as connection:
            assert list(connection) == []
        thread.join()
        assert [type(error).__name__ for error in refused] == ["InvalidStatus"]
    assert users == ["/yes"]


def test_many_connections_have_a_thread_each() -> None:
    count = 60  # more than the executor has threads
    all_there = threading.Barrier(count, timeout=50)

    def meet(connection: Any) -> None:
        connection.send(str(all_there.wait() >= 0))

    with serving("penstock", meet) as uri, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(own_client.connect(uri)) for _ in range(count)]
        assert [each.recv() for each in connections] == ["True"] * count


@pytest.mark.parametrize("client", ["penstock", "websockets"])
def test_unix_sockets(tmp_path: Path, client: str) -> None:
    connects: dict[str, Any] = {
        "penstock": own_client.unix_connect,
        "websockets": websockets.sync.client.unix_connect,
    }
    path = str(tmp_path / "socket")
    with own_server.unix_serve(echo, path) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        options = {"legacy": True} if client == "websockets" else {}
        with connects[client](path, **options) as connection:
            connection.send("hello")
            assert connection.recv() == "hello"
        server.shutdown()
        thread.join()
    # The server has bound it. The loop's own servers remove such a file from Python 3.13 on.
    assert (tmp_path / "socket").exists() is (sys.version_info < (3, 13))


def test_the_file_of_a_given_unix_socket_is_the_callers(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        sock.listen()
        with own_server.unix_serve(echo, sock=sock) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            with own_client.unix_connect(str(path)) as connection:
                connection.send("hello")
                assert connection.recv() == "hello"
            server.shutdown()
            thread.join()
    assert path.exists()


def test_a_given_socket_is_used() -> None:
    with serving("penstock", echo) as uri:
        host, port = uri.removeprefix("ws://").split(":")
        with own_client.connect(
            uri, sock=socket.create_connection((host, int(port)))
        ) as connection:
            connection.send("hello")
            assert connection.recv() == "hello"
            assert connection.socket.getpeername() == (host, int(port))


def test_a_call_in_the_loops_thread_is_refused() -> None:
    async def nothing() -> None:
        pass

    async def block() -> None:
        coroutine = nothing()
        coroutine.close()
        with pytest.raises(RuntimeError, match="would never return"):
            background.call(nothing)

    background.call(block)


def test_the_child_of_a_fork_has_a_loop_of_its_own() -> None:
    with serving("penstock", echo) as uri:
        background.loop_of_this_process()
        program = (
            "import os, sys\n"
            "from penstock.websocket.sync.client import connect\n"
            f"def check():\n"
            f"    with connect({uri!r}) as connection:\n"
            "        connection.send('hello')\n"
            "        assert connection.recv() == 'hello'\n"
            "check()\n"
            "child = os.fork()\n"
            "check()\n"
            "if child == 0:\n"
            "    os._exit(7)\n"
            "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
            env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")


def test_a_forked_process_leaves_its_parents_connection_alone() -> None:
    with serving("penstock", echo) as uri, own_client.connect(uri) as connection:
        process = os.fork()
        if process == 0:
            status = 1
            try:
                for call in (connection.recv, lambda: connection.send("child")):
                    with pytest.raises(RuntimeError, match="forked this one"):
                        call()
                connection.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
        connection.send("parent")
        assert connection.recv() == "parent"
