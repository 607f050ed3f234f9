"""An echo server on native streams.

    python examples/echo_server.py --port 7000

Try it with ``nc 127.0.0.1 7000``. Ctrl-C stops it.
"""

from __future__ import annotations

import argparse
import contextlib

import penstock


async def echo(reader: penstock.StreamReader, writer: penstock.StreamWriter) -> None:
    """Send back all received data, until the peer ends its side."""
    # A connection that the peer resets is not an error of the server.
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            # Waits while the peer does not read, so that memory stays bounded.
            await writer.drain()
    writer.close()


async def serve(host: str, port: int) -> None:
    server = await penstock.start_server(echo, host, port)
    for socket in server.sockets:
        print("listening on", *socket.getsockname()[:2], flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="Echo data received over TCP.")
    parser.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    parser.add_argument(
        "--port", type=int, default=7000, help="0: any free port; default: %(default)s"
    )
    arguments = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        penstock.run(serve(arguments.host, arguments.port))


if __name__ == "__main__":
    main()
