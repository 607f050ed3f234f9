"""Instruments other than Alicat's, recorded through the same seam."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute, SocketListener

import penstock.record
from penstock.alicat import AlicatManager, SerialSettings
from penstock.record import InMemorySink, ParquetSink, PollSource, pipe, record
from penstock.sim import Bus, MassFlowController, open_pty

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / f"examples/instruments/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def served(handle: Any) -> AsyncIterator[int]:
    multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
    listener: SocketListener = multi.listeners[0]
    async with multi, anyio.create_task_group() as tasks:
        tasks.start_soon(multi.serve, handle)
        yield int(listener.extra(SocketAttribute.local_port))
        tasks.cancel_scope.cancel()


async def test_a_scpi_multimeter_is_recorded_with_its_unit_and_its_name() -> None:
    simulated, scpi = example("simulated_multimeter"), example("scpi_multimeter")
    volts, amperes = simulated.Multimeter("V1"), simulated.Multimeter("A1")
    amperes.function = "CURR"
    sink = InMemorySink()
    async with served(volts.serve) as one, served(amperes.serve) as other:
        addresses = {"volts": f"127.0.0.1:{one}", "amps": f"127.0.0.1:{other}"}
        source = scpi.ScpiMultimeters(addresses, timeout=20)
        checked: PollSource = source
        await source.open()
        async with record(checked, rate_hz=100, duration=0.1) as recording:
            assert recording.schema_known
            about = json.loads(recording.schema.metadata)
            summary = await pipe(recording, sink)
        await source.close()
    assert about["devices"]["volts"]["serial"] == "V1"
    assert about["devices"]["volts"]["units"] == {"VOLT": "V"}
    assert about["devices"]["amps"]["units"] == {"CURR": "A"}
    assert summary.errors == 0
    for name in ("volts", "amps"):
        counts = summary.devices[name]
        assert counts.samples_emitted + counts.samples_late == 10
    samples = [sample for sample in sink.samples if sample.event is None]
    assert all(4.8 < sample.values["VOLT"] < 5.2 for sample in samples if sample.device == "volts")
    for sample in samples:
        assert sample.first_byte_s is not None
        assert 0 < sample.first_byte_s <= sample.latency_s + 1e-6


async def test_a_multimeter_that_falls_silent_and_returns_is_recorded_again() -> None:
    simulated, scpi = example("simulated_multimeter"), example("scpi_multimeter")
    meter = simulated.Multimeter()
    async with served(meter.serve) as port:
        source = scpi.ScpiMultimeters({"volts": f"127.0.0.1:{port}"}, timeout=1.5)
        await source.open()
        async with record(source, rate_hz=50) as recording:

            async def until(ok: bool) -> None:
                with anyio.fail_after(30):
                    while True:
                        batch = await recording.next_batch()
                        assert batch is not None
                        if any(sample.ok is ok for sample in batch if sample.event is None):
                            return

            await until(True)
            meter.silent = True
            await until(False)
            meter.silent = False
            await until(True)
        await source.close()


def of_page(language: str) -> str:
    page = (ROOT / "docs" / "instruments.md").read_text(encoding="utf-8")
    (code,) = re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)
    return str(code)


def names_of_page() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(of_page("python"), "docs/instruments.md", "exec"), names)
    return names


async def thermometer(stream: ByteStream) -> None:
    async with stream:
        try:
            while True:
                assert await stream.receive() == b"T?\n"
                await stream.send(b"21.50\n")
        except anyio.EndOfStream:
            return


async def test_the_source_of_the_page_records_a_thermometer() -> None:
    assert len(of_page("python").splitlines()) <= 60
    names = names_of_page()
    sink = InMemorySink()
    async with served(thermometer) as port:
        source = names["Thermometers"](
            {"bath": ("127.0.0.1", port), "gone": ("127.0.0.1", 1)}  # nothing listens there
        )
        async with record(source, rate_hz=10, duration=1) as recording:
            await pipe(recording, sink)
        for stream in source._streams.values():
            await stream.aclose()
    samples = [sample for sample in sink.samples if sample.event is None]
    baths = [sample for sample in samples if sample.device == "bath" and sample.ok]
    assert {sample.values["Temperature"] for sample in baths} == {21.5}
    assert all(sample.error for sample in samples if sample.device == "gone")
    assert {field.unit for field in recording.schema.fields if field.name == "Temperature"} == {"C"}


async def test_the_lines_of_the_page_record_it_beside_other_instruments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = names_of_page() | {"ParquetSink": ParquetSink, "pipe": pipe, "record": record}
    async with (
        served(thermometer) as port,
        open_pty(Bus([MassFlowController("A")], baudrate=115_200)) as path,
        AlicatManager() as manager,
    ):
        serial = SerialSettings(path, baudrate=115_200)
        await manager.add("fuel", path, serial=serial, timeout=20)
        lines = of_page("py").replace('"lab-7", 4001', f'"127.0.0.1", {port}')
        body = textwrap.indent(lines.replace("duration=3600", "duration=1"), "    ")
        exec(f"async def program(manager):\n{body}    return baths", names)
        baths = await names["program"](manager)
        for stream in baths._streams.values():
            await stream.aclose()
    table = penstock.record.open(tmp_path / "run").to_arrow()
    rows = table.select(["device", "event"]).to_pylist()
    assert {row["device"] for row in rows if row["event"] is None} == {"bath", "fuel"}
