"""What several small writes in one callback cost: each sent at once, or joined by the program.

    python benchmarks/small_writes.py --loop penstock,asyncio --against CHECKOUT

A server answers each request with a head and a body, or with sixteen parts: by a call of ``write``
for each, by one ``writelines``, or by one ``write`` of the joined bytes. The figures are CPU time
in microseconds per request, of the server and of server and client together: medians of the rounds,
in which the contenders take turns. ``--against`` adds Penstock as built in another checkout.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Python puts the folder of a script on the path; the package is in a folder above.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from benchmarks.measure.certificate import make_certificate
from benchmarks.measure.cpu_time import cpu_time_ns
from benchmarks.measured_program import loop_factory, serve_until_stdin_ends

REQUEST = b"r" * 60
TWO = (b"H" * 150, b"b" * 500)
SIXTEEN = (b"p" * 60,) * 16
CONNECTIONS = 16
AGAINST = "against"

WAYS: dict[str, Callable[[Any, tuple[bytes, ...]], object]] = {
    "writes": lambda writer, parts: [writer.write(part) for part in parts],
    "writelines": lambda writer, parts: writer.writelines(parts),
    "joined": lambda writer, parts: writer.write(b"".join(parts)),
}
KINDS = ["protocol", "sixteen", "tls", "streams", "native-streams"]
ROWS = [f"{kind} {way}" for kind in KINDS for way in WAYS] + ["websocket writes"]


def server_context(folder: Path) -> ssl.SSLContext:
    """A context with a certificate that is made in ``folder``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(folder))
    return context


async def serve(kind: str, way: str) -> None:
    """Serve until standard input ends."""
    write = WAYS[way]
    parts = SIXTEEN if kind == "sixteen" else TWO
    loop = asyncio.get_running_loop()
    listener = socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS)

    class Answering(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            write(self.transport, parts)

    async def answer(reader: Any, writer: Any) -> None:
        while await reader.read(1000):
            write(writer, parts)
            await writer.drain()

    server: Any
    if kind == "streams":
        server = await asyncio.start_server(answer, sock=listener)
    elif kind == "native-streams":
        import penstock

        server = await penstock.start_server(answer, sock=listener)
    elif kind == "websocket":
        from penstock.websocket import ServerConnection
        from penstock.websocket import serve as serve_websocket

        async def send_parts(connection: ServerConnection) -> None:
            async for _ in connection:
                for part in parts:
                    await connection.send(part)

        server = await serve_websocket(send_parts, sock=listener, compression=None)
    else:
        with tempfile.TemporaryDirectory() as folder:
            context = server_context(Path(folder)) if kind == "tls" else None
            server = await loop.create_server(Answering, sock=listener, ssl=context)
    await serve_until_stdin_ends(listener.getsockname()[1])
    server.close()


class Client:
    """Sixteen connections that send a request each, and then read all answers."""

    def __init__(self, kind: str, port: int) -> None:
        self.request, self.expected = REQUEST, sum(map(len, TWO))
        if kind == "sixteen":
            self.expected = sum(map(len, SIXTEEN))
        elif kind == "websocket":
            self.request = bytes([0x82, 0x80 | len(REQUEST), 0, 0, 0, 0]) + REQUEST
            self.expected += len(TWO) * 4  # 16-bit lengths
        self.sockets = [self._connect(kind, port) for _ in range(CONNECTIONS)]

    def _connect(self, kind: str, port: int) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if kind == "tls":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return context.wrap_socket(plain)
        if kind == "websocket":
            key = base64.b64encode(bytes(16)).decode()
            plain.sendall(
                "GET / HTTP/1.1\r\nHost: localhost\r\n"
                "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
            )
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += plain.recv(1)
        return plain

    def close(self) -> None:
        """End all connections."""
        for connection in self.sockets:
            connection.close()

    def turn(self) -> None:
        """One request on each connection."""
        for connection in self.sockets:
            connection.sendall(self.request)
        for connection in self.sockets:
            left = self.expected
            while left:
                data = connection.recv(left)
                if not data:
                    raise ConnectionError("the server has ended the connection")
                left -= len(data)


def measure(row: str, contender: str, options: argparse.Namespace) -> tuple[float, float]:
    """CPU microseconds per request: of the server, and of both ends."""
    kind = row.partition(" ")[0]
    environment = dict(os.environ)
    if contender == AGAINST:
        environment["PYTHONPATH"] = str(Path(options.against) / "python")
    command = [sys.executable, __file__, "--serve", row]
    command += ["--loop", "penstock" if contender == AGAINST else contender]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        client = Client(kind, int(server.stdout.readline()))
        for _ in range(options.turns // 10):
            client.turn()
        begun = cpu_time_ns(server.pid), time.process_time_ns()
        for _ in range(options.turns):
            client.turn()
        server_ns = cpu_time_ns(server.pid) - begun[0]
        client_ns = time.process_time_ns() - begun[1]
        client.close()
        server.stdin.close()
    requests = options.turns * CONNECTIONS * 1000
    return server_ns / requests, (server_ns + client_ns) / requests


def report(options: argparse.Namespace) -> None:
    """Measure the chosen rows and print a table of them."""
    contenders = options.loop.split(",") + ([AGAINST] if options.against else [])
    print("| row | " + " | ".join(f"{name}: server, both" for name in contenders) + " |")
    print("|---" * (len(contenders) + 1) + "|")
    for row in [row for row in ROWS if row.startswith(options.rows)]:
        needs_penstock = row.startswith(("native", "websocket"))
        measured = [name for name in contenders if not needs_penstock or name != "asyncio"]
        samples: dict[str, list[tuple[float, float]]] = {name: [] for name in measured}
        for _ in range(options.rounds):
            for name in measured:
                samples[name].append(measure(row, name, options))
        cells = [
            ", ".join(f"{statistics.median(part):.2f}" for part in zip(*samples[name], strict=True))
            if name in samples
            else "-"
            for name in contenders
        ]
        print(f"| {row} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Run the server, or the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--loop", default="penstock,asyncio", help="loops, separated by commas")
    parser.add_argument("--against", metavar="CHECKOUT", help="another built checkout")
    parser.add_argument("--rows", default="", help="only rows that begin so")
    parser.add_argument("--turns", type=int, default=1000, help="requests per connection")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", metavar="ROW", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is None:
        report(options)
        return
    kind, _, way = options.serve.partition(" ")
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(serve(kind, way))


if __name__ == "__main__":
    main()
