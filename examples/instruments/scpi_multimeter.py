"""SCPI multimeters as a source of recordings: another family through the same seam.

python examples/instruments/scpi_multimeter.py 127.0.0.1:5025 volts.csv
python examples/instruments/scpi_multimeter.py /dev/ttyUSB0 volts.csv
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from time import monotonic_ns, time_ns

import anyio

from penstock.record import CsvSink, Field, PolledReading, PollResult, pipe, record
from penstock.serial import SerialPort, open_serial_port

_UNITS = {"VOLT": "V", "CURR": "A"}


class ScpiMultimeters:
    """Polls named multimeters with ``READ?``; each has a port, and so a bus, of its own.

    A port is a device such as ``/dev/ttyUSB0``, or HOST:PORT.
    """

    source_id = "scpi"
    stamps_first_byte = True

    def __init__(self, addresses: Mapping[str, str], *, timeout: float = 1.0) -> None:
        self._addresses = dict(addresses)
        self._timeout = timeout
        self._ports: dict[str, SerialPort] = {}
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
        for port in self._ports.values():
            await port.aclose()
        self._ports.clear()

    async def poll(self, names: Sequence[str] | None = None) -> Mapping[str, PollResult]:
        return {name: await self._read(name) for name in names or self.names}

    async def _read(self, name: str) -> PollResult:
        asked, asked_unix = monotonic_ns(), time_ns()
        try:
            if name not in self._ports:
                await self._connect(name)
            text, first = await self._ask(name, "READ?")
            reading = PolledReading({self._functions[name]: float(text)})
        except (OSError, ValueError) as error:
            await self._drop(name)
            return PollResult(None, error, asked, asked_unix, monotonic_ns(), time_ns())
        return PollResult(reading, None, asked, asked_unix, monotonic_ns(), time_ns(), first)

    async def _connect(self, name: str) -> None:
        address = self._addresses[name]
        with anyio.fail_after(self._timeout):
            self._ports[name] = await open_serial_port(
                address if "/" in address else f"socket://{address}"
            )
        maker, model, serial, firmware = (await self._ask(name, "*IDN?"))[0].split(",")
        self._functions[name] = (await self._ask(name, "CONF?"))[0].strip('"').split()[0]
        facts = {"maker": maker, "model": model, "serial": serial, "firmware": firmware}
        self._facts[name] = facts
        self.revision += 1

    async def _ask(self, name: str, command: str) -> tuple[str, int]:
        """The reply to a command, and when its first byte came."""
        answer = await self._ports[name].exchange(
            f"{command}\n".encode(), delimiter=b"\n", timeout=self._timeout
        )
        return answer.data.decode("ascii").strip(), answer.first_byte_ns

    async def _drop(self, name: str) -> None:
        """Close a port whose reply may still come: it must not answer the next question."""
        port = self._ports.pop(name, None)
        if port is not None:
            await anyio.aclose_forcefully(port)


async def main(address: str, path: str) -> None:
    """Record one multimeter at 10 Hz for 5 s."""
    multimeters = ScpiMultimeters({"dmm": address})
    await multimeters.open()
    async with record(multimeters, rate_hz=10, duration=5) as recording:
        summary = await pipe(recording, CsvSink(path))
    await multimeters.close()
    print(summary.samples_emitted, "samples", summary.errors, "errors")


if __name__ == "__main__":
    address, path = sys.argv[1:]
    anyio.run(main, address, path)
