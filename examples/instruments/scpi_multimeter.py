"""SCPI multimeters as a source of recordings: another family through the same seam.

python examples/instruments/scpi_multimeter.py 127.0.0.1:5025 volts.csv
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from time import monotonic_ns, time_ns

import anyio
from anyio.abc import ByteStream

from penstock.record import CsvSink, Field, PolledReading, PollResult, pipe, record

_UNITS = {"VOLT": "V", "CURR": "A"}


class ScpiMultimeters:
    """Polls named multimeters with ``READ?``; each has a connection, and so a bus, of its own."""

    source_id = "scpi"
    stamps_first_byte = True

    def __init__(self, addresses: Mapping[str, tuple[str, int]], *, timeout: float = 1.0) -> None:
        self._addresses = dict(addresses)
        self._timeout = timeout
        self._streams: dict[str, ByteStream] = {}
        self._facts: dict[str, dict[str, str]] = {}
        self._functions: dict[str, str] = {}
        self.revision = 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._addresses)

    def poll_groups(self) -> Sequence[Sequence[str]]:
        return [(name,) for name in self._addresses]

    def field_schemas(self) -> Mapping[str, Sequence[Field]]:
        return {
            name: [Field(function, "float", _UNITS.get(function))]
            for name, function in self._functions.items()
        }

    def device_facts(self, name: str) -> Mapping[str, str]:
        return self._facts.get(name, {})

    async def open(self) -> None:
        """Connect to every multimeter and ask who it is and what it measures."""
        for name in self._addresses:
            await self._connect(name)

    async def close(self) -> None:
        for stream in self._streams.values():
            await stream.aclose()
        self._streams.clear()

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, PollResult]:
        return {name: await self._read(name) for name in names or self.names}

    async def _read(self, name: str) -> PollResult:
        asked, asked_unix = monotonic_ns(), time_ns()
        try:
            if name not in self._streams:
                await self._connect(name)
            text, first = await self._ask(name, "READ?")
            reading = PolledReading({self._functions[name]: float(text)})
        except (OSError, ValueError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
            await self._drop(name)
            return PollResult(None, error, asked, asked_unix, monotonic_ns(), time_ns())
        return PollResult(reading, None, asked, asked_unix, monotonic_ns(), time_ns(), first)

    async def _connect(self, name: str) -> None:
        with anyio.fail_after(self._timeout):
            self._streams[name] = await anyio.connect_tcp(*self._addresses[name])
        maker, model, serial, firmware = (await self._ask(name, "*IDN?"))[0].split(",")
        self._functions[name] = (await self._ask(name, "CONF?"))[0].strip('"').split()[0]
        facts = {"maker": maker, "model": model, "serial": serial, "firmware": firmware}
        self._facts[name] = facts
        self.revision += 1

    async def _ask(self, name: str, command: str) -> tuple[str, int]:
        """The reply to a command, and when its first byte came."""
        stream = self._streams[name]
        with anyio.fail_after(self._timeout):
            await stream.send(f"{command}\n".encode())
            reply = await stream.receive()
            first = monotonic_ns()
            while not reply.endswith(b"\n"):
                reply += await stream.receive()
        return reply.decode("ascii").strip(), first

    async def _drop(self, name: str) -> None:
        """Close a connection whose reply may still come: it must not answer the next question."""
        stream = self._streams.pop(name, None)
        if stream is not None:
            await anyio.aclose_forcefully(stream)


async def main(address: str, path: str) -> None:
    """Record one multimeter at 10 Hz for 5 s."""
    host, _, port = address.rpartition(":")
    multimeters = ScpiMultimeters({"dmm": (host, int(port))})
    await multimeters.open()
    async with record(multimeters, rate_hz=10, duration=5) as recording:
        summary = await pipe(recording, CsvSink(path))
    await multimeters.close()
    print(summary.samples_emitted, "samples", summary.errors, "errors")


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:])
