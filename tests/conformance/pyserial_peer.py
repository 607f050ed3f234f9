"""One process: the far end of a port under test, which echoes.

usage: pyserial_peer.py KIND FOLDER

KIND is ``pty``, ``socket``, ``rfc2217`` (Penstock's server for a ``loop://`` port) or
``rfc2217-of-pyserial`` (the example server of pyserial's source distribution in FOLDER, for
pyserial's ``loop://`` port). Prints the port's name and serves until its standard input ends.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pty
import select
import socket
import sys
import threading
import tty
from pathlib import Path

_MOST_KEPT = 65_536


def print_port(name: str) -> None:
    print(name, flush=True)


def echo_on_a_pty() -> None:
    controller, follower = pty.openpty()  # the follower stays open while ports open and close
    tty.setraw(follower)
    os.set_blocking(controller, False)
    print_port(os.ttyname(follower))
    kept = bytearray()
    while True:
        wanted = select.POLLIN if len(kept) < _MOST_KEPT else 0
        poll = select.poll()
        poll.register(controller, wanted | (select.POLLOUT if kept else 0))
        poll.poll()
        with contextlib.suppress(BlockingIOError):
            kept += os.read(controller, 4096)
        with contextlib.suppress(BlockingIOError):
            del kept[: os.write(controller, kept)]


def echo_on_a_socket() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print_port(f"socket://127.0.0.1:{listener.getsockname()[1]}")

    def echo(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65_536):
                connection.sendall(data)

    while True:
        threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()


def serve_a_loop() -> None:
    import anyio

    from penstock.serial.rfc2217 import serve_serial_port

    async def serve() -> None:
        async with anyio.create_task_group() as tasks:

            async def serve_loop(*, task_status: anyio.abc.TaskStatus[int]) -> None:
                await serve_serial_port("loop://", port=0, task_status=task_status)

            print_port(f"rfc2217://127.0.0.1:{await tasks.start(serve_loop)}")

    anyio.run(serve)


def serve_pyserials_loop(folder: Path) -> None:
    sys.path[:0] = [str(folder), str(folder / "examples")]
    serial = importlib.import_module("serial")
    redirector = importlib.import_module("rfc2217_server").Redirector
    port = serial.serial_for_url("loop://", timeout=0.1)
    settings = port.get_settings()
    listener = socket.create_server(("127.0.0.1", 0))
    print_port(f"rfc2217://127.0.0.1:{listener.getsockname()[1]}")
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client = redirector(port, connection)
            try:
                client.shortcircuit()
            finally:
                client.stop()
        port.apply_settings(settings)
        port.reset_input_buffer()


def main(kind: str, folder: str) -> None:
    serve = {
        "pty": echo_on_a_pty,
        "socket": echo_on_a_socket,
        "rfc2217": serve_a_loop,
        "rfc2217-of-pyserial": lambda: serve_pyserials_loop(Path(folder)),
    }[kind]
    threading.Thread(target=serve, daemon=True).start()
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
