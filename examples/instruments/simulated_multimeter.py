"""A simulated SCPI multimeter on a TCP port, and in the tests.

    python examples/instruments/simulated_multimeter.py 5025

It answers ``*IDN?``, ``CONF?``, ``CONF:VOLT:DC``, ``CONF:CURR:DC`` and ``READ?`` as IEEE 488.2 and
SCPI-1999 define them: commands end with a line feed, and an error goes into the queue that
``SYST:ERR?`` reads.
"""

from __future__ import annotations

import math
import sys
import time

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream


class Multimeter:
    """The instrument's state; :meth:`serve` answers one connection."""

    def __init__(self, serial: str = "SIM0001") -> None:
        self.serial = serial
        self.function = "VOLT"
        self.errors: list[str] = []
        self.silent = False

    def answer(self, command: str) -> str | None:
        """The reply to one command; None where it has none."""
        word = command.strip().upper()
        if word == "*IDN?":
            return f"PENSTOCK,SIMULATED DMM,{self.serial},1.0"
        if word in ("CONF:VOLT:DC", "CONF:CURR:DC"):
            self.function = word[5:9]
            return None
        if word == "CONF?":
            return f'"{self.function} +1.00000000E+01,+1.00000000E-05"'
        if word == "READ?":
            return f"{5.0 + 0.1 * math.sin(time.monotonic()):+.8E}"
        if word == "SYST:ERR?":
            return self.errors.pop(0) if self.errors else '+0,"No error"'
        self.errors.append('-113,"Undefined header"')
        return None

    async def serve(self, stream: ByteStream) -> None:
        """Answer until the connection is closed."""
        lines = BufferedByteReceiveStream(stream)
        async with stream:
            try:
                while True:
                    command = await lines.receive_until(b"\n", 256)
                    reply = self.answer(command.decode("ascii", "replace"))
                    if reply is not None and not self.silent:
                        await stream.send(f"{reply}\n".encode())
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
                return


async def main(port: int) -> None:
    """Serve a multimeter on ``port`` of this machine."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    await listener.serve(Multimeter().serve)


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]))
