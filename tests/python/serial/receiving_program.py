"""Receives pending bytes between two marks in the trace: ``receiving_program.py LOOP COUNT``."""

from __future__ import annotations

import os
import sys

import anyio

from penstock.serial import open_serial_port
from tests.python.serial.pty_peer import PtyPeer

MARK = b"measured part"


async def main(count: int) -> None:
    mark = os.open("/dev/null", os.O_WRONLY)
    with PtyPeer() as peer:
        async with await open_serial_port(peer.path) as port:
            peer.write(b"!")
            await port.receive()
            peer.write(bytes(count))
            print(port._device.fileno(), flush=True)
            os.write(mark, MARK)
            for _ in range(count - 1):
                await port.receive(1)
            await port.receive_available()
            os.write(mark, MARK)


if __name__ == "__main__":
    loop, count = sys.argv[1], int(sys.argv[2])
    if loop == "trio":
        anyio.run(main, count, backend="trio")
    elif loop == "penstock":
        import penstock

        penstock.run(main(count))
    else:
        anyio.run(main, count, backend_options={"use_uvloop": loop == "uvloop"})
