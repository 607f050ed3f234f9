"""Simulated Alicat instruments on pseudo-terminals, recorded into files."""

from __future__ import annotations

import csv
import json
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskStatus

from penstock.alicat import (
    AlicatManager,
    ErrorPolicy,
    EventKind,
    FlowController,
    SerialSettings,
)
from penstock.record import (
    CsvSink,
    InMemorySink,
    ParquetSink,
    PollSource,
    StreamSource,
    pipe,
    record,
)
from penstock.sim import Bus, BusFaults, MassFlowController, open_pty

pytestmark = pytest.mark.anyio

BAUD = 115200


async def add(manager: AlicatManager, name: str, path: str, unit_id: str) -> None:
    await manager.add(
        name, path, unit_id=unit_id, serial=SerialSettings(port=path, baudrate=BAUD), timeout=20
    )


async def test_two_buses_are_recorded_into_both_files(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    shared = Bus(
        [
            MassFlowController("A", full_scale=500.0),
            MassFlowController("B", full_scale=100.0),
        ],
        baudrate=BAUD,
    )
    alone = Bus([MassFlowController("C", full_scale=5000.0)], baudrate=BAUD)
    async with AsyncExitStack() as stack:
        c = await stack.enter_async_context(CsvSink(tmp_path / "run.csv"))
        p = await stack.enter_async_context(ParquetSink(tmp_path / "run.parquet"))
        shared_path = await stack.enter_async_context(open_pty(shared))
        alone_path = await stack.enter_async_context(open_pty(alone))
        manager = await stack.enter_async_context(AlicatManager(error_policy=ErrorPolicy.RETURN))
        await add(manager, "fuel", shared_path, "A")
        await add(manager, "air", shared_path, "B")
        await add(manager, "purge", alone_path, "C")
        controller = manager.get("purge")
        assert isinstance(controller, FlowController)
        await controller.setpoint(1000.0)
        source: PollSource = manager
        async with record(source, rate_hz=10, duration=1) as recording:
            assert recording.schema_known
            summary = await pipe(recording, c, p)
    for name in ("fuel", "air", "purge"):
        counts = summary.devices[name]
        assert counts.samples_emitted + counts.samples_late == 10
        assert counts.samples_emitted > 0
    assert summary.errors == 0

    table = pq.read_table(tmp_path / "run.parquet")
    assert table.num_rows == summary.samples_emitted + summary.events
    samples = table.filter(table["event"].is_null())
    rows = samples.drop_columns(["t_utc", "requested_at", "received_at"]).to_pylist()
    assert {(row["device"], row["unit_id"]) for row in rows} == {
        ("fuel", "A"),
        ("air", "B"),
        ("purge", "C"),
    }
    assert all(row["Mass_Flow_Setpt"] == 1000.0 for row in rows if row["device"] == "purge")
    assert all(row["latency_s"] > 0 for row in rows)
    for name in ("fuel", "air", "purge"):
        stamps = [row["t_mono_ns"] for row in rows if row["device"] == name]
        assert stamps == sorted(set(stamps))
    with open(tmp_path / "run.csv", newline="") as file:
        lines = [row for row in csv.DictReader(file) if not row["event"]]
    assert [line["device"] for line in lines] == [row["device"] for row in rows]
    assert [float(line["Mass_Flow"]) for line in lines] == [row["Mass_Flow"] for row in rows]

    metadata = json.loads(pq.read_schema(tmp_path / "run.parquet").metadata[b"penstock"])
    assert metadata["rate_hz"] == 10
    purge = metadata["devices"]["purge"]
    assert purge["unit_id"] == "C"
    assert purge["model"] and purge["serial"] and purge["firmware"]
    assert purge["units"]["Mass_Flow"] == "SCCM"
    sidecar = json.loads((tmp_path / "run.csv.meta.json").read_text())
    assert sidecar["recording"] == metadata
    assert sidecar["summary"]["samples_emitted"] == summary.samples_emitted


async def test_a_streaming_instrument_is_recorded_beside_a_polled_one() -> None:
    sink = InMemorySink()
    async with (
        open_pty(Bus([MassFlowController("A")], baudrate=BAUD)) as polled,
        open_pty(Bus([MassFlowController("B")], baudrate=BAUD)) as streaming,
        AlicatManager(error_policy=ErrorPolicy.RETURN) as manager,
        AlicatManager() as others,
    ):
        await add(manager, "polled", polled, "A")
        await add(others, "streaming", streaming, "B")
        device = others.get("streaming")
        streams = StreamSource(
            {"streaming": device.stream(rate_hz=100)},
            fields={"streaming": device.field_schema()},
            facts={"streaming": device.info.facts()},
        )
        async with record([manager, streams], rate_hz=20) as recording:
            assert recording.schema_known
            seen: set[str] = set()
            with anyio.fail_after(60):
                while seen != {"polled", "streaming"}:
                    batch = await recording.next_batch()
                    assert batch is not None
                    await sink.write_batch(batch)
                    seen.update(sample.device for sample in batch if sample.ok)
        # The instrument has its letter back, and can be asked again.
        assert (await device.poll()).unit_id == "B"
    sent = [sample for sample in sink.samples if sample.device == "streaming" and sample.ok]
    assert all(sample.late_s is None and sample.unit_id == "B" for sample in sent)
    assert all("Mass_Flow" in sample.values for sample in sent)


async def test_a_unit_that_falls_silent_leaves_rows_with_errors() -> None:
    bus = Bus([MassFlowController("A", full_scale=500.0)], baudrate=BAUD, faults=BusFaults())
    sink = InMemorySink()
    async with (
        open_pty(bus) as path,
        AlicatManager(error_policy=ErrorPolicy.RETURN) as manager,
    ):
        await manager.add(
            "fuel",
            path,
            unit_id="A",
            serial=SerialSettings(port=path, baudrate=BAUD),
            timeout=1.5,
        )
        async with record(manager, rate_hz=20) as recording:
            first = await recording.next_batch()
            assert first is not None
            await sink.write_batch(first)
            bus.faults = BusFaults(drop_rate=1.0)
            while not recording.summary.errors:
                batch = await recording.next_batch()
                assert batch is not None
                await sink.write_batch(batch)
            await sink.write_batch(recording.take())
    # A slow machine misses slots, and the rows that say so are no polls.
    samples = [sample for sample in sink.samples if sample.event is None]
    assert samples[0].ok
    failed = [sample for sample in samples if not sample.ok]
    assert failed
    assert failed[0].values == {}
    assert failed[0].unit_id == "A"
    assert "Timeout" in str(failed[0].error)
    # uvloop's timers count in whole milliseconds, and may be a part of one early.
    assert failed[0].latency_s >= 1.499


async def test_an_instrument_that_comes_back_is_recorded_again(tmp_path: Path) -> None:
    """Its adapter is pulled out and put in again, and gets another device node."""
    link = tmp_path / "by-id"

    async def plugged_in(
        pulled_out: anyio.Event, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        async with open_pty(Bus([MassFlowController("A")], baudrate=BAUD)) as path:
            link.unlink(missing_ok=True)
            link.symlink_to(path)
            task_status.started()
            await pulled_out.wait()

    kinds: list[EventKind] = []
    first, second = anyio.Event(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        await tasks.start(plugged_in, first)
        async with AlicatManager(error_policy=ErrorPolicy.RETURN) as manager:
            await manager.add(
                "fuel",
                str(link),
                unit_id="A",
                serial=SerialSettings(port=str(link), baudrate=BAUD),
                timeout=5,
            )
            manager.subscribe(lambda name, event: kinds.append(event.kind))
            async with record(manager, rate_hz=20) as recording:

                async def until(ok: bool) -> None:
                    while True:
                        batch = await recording.next_batch()
                        assert batch is not None
                        if any(sample.ok is ok for sample in batch if sample.event is None):
                            return

                await until(True)
                first.set()
                await until(False)
                await tasks.start(plugged_in, second)
                await until(True)
        second.set()
    assert kinds[:2] == [EventKind.CONNECTION_LOST, EventKind.RECONNECTED]
