from __future__ import annotations

import csv
import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock.record import (
    CsvSink,
    InMemorySink,
    ParquetSink,
    Sample,
    SampleBatch,
    SinkError,
    SinkExistsError,
    SinkWriteError,
    pipe,
    record,
)
from tests.python.record.instruments import (
    Bench,
    DescribedBench,
    FakeField,
    FakeResult,
    HandClock,
    failure,
    prompt,
    reply,
)

pytestmark = pytest.mark.anyio


def csv_flows(path: Path) -> list[float]:
    with open(path, newline="") as file:
        return [float(row["Mass_Flow"]) for row in csv.DictReader(file)]


def parquet_flows(path: Path) -> list[float]:
    pq = pytest.importorskip("pyarrow.parquet")
    return [float(v) for v in pq.read_table(path)["Mass_Flow"].to_pylist()]


def numbers(count: int) -> list[float]:
    return [float(n) for n in range(count)]


class FailingSink:
    """Takes some batches, then refuses."""

    def __init__(self, good: int, error: Exception) -> None:
        self.good = good
        self.error = error
        self.closed = False
        self.rows = 0

    async def open(self) -> None:
        pass

    async def write_batch(self, batch: SampleBatch) -> None:
        await anyio.lowlevel.checkpoint()
        if self.good == 0:
            raise self.error
        self.good -= 1
        self.rows += len(batch)

    async def write_many(self, samples: Iterable[Sample]) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed = True


async def test_every_sink_gets_every_sample_and_the_summary(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    memory = InMemorySink()
    c, p = CsvSink(tmp_path / "run.csv"), ParquetSink(tmp_path / "run.parquet")
    async with record(Bench([["a"]]), rate_hz=20, duration=10, clock=HandClock()) as recording:
        summary = await pipe(recording, memory, c, p, batch_size=16)
    assert summary is recording.summary
    assert [s.values["Mass_Flow"] for s in memory.samples] == numbers(200)
    assert csv_flows(tmp_path / "run.csv") == numbers(200)
    assert parquet_flows(tmp_path / "run.parquet") == numbers(200)
    assert memory.metadata["summary"]["samples_emitted"] == 200
    assert memory.metadata["summary"]["finished_at"] is not None


async def test_columns_and_metadata_are_on_disk_before_the_first_sample(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"

    asked = anyio.Event()

    async def answer(name: str, count: int) -> FakeResult:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    source = DescribedBench(
        [["a"]], answer, schemas={"a": [FakeField("Mass_Flow", "float", "SCCM")]}
    )
    async with record(source, rate_hz=10) as recording, anyio.create_task_group() as tasks:
        tasks.start_soon(pipe, recording, CsvSink(path))
        await asked.wait()
        while not path.exists() or not path.read_bytes():
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert path.read_bytes().startswith(b"device,unit_id,t_utc,")
    assert b"Mass_Flow" in path.read_bytes()


async def test_waiting_samples_are_flushed_while_a_device_stalls() -> None:
    stalled = anyio.Event()

    async def answer(name: str, count: int) -> FakeResult:
        if count == 3:
            stalled.set()
            await anyio.sleep_forever()
        return await prompt(name, count)

    sink = InMemorySink()
    flushed = anyio.Event()

    def tell(batch: SampleBatch) -> None:
        if len(sink) == 3:
            flushed.set()

    async with (
        record(Bench([["a"]], answer), rate_hz=1000) as recording,
        anyio.create_task_group() as tasks,
    ):

        async def run() -> None:
            await pipe(recording, sink, batch_size=100, flush_interval=0.01, on_batch=tell)

        tasks.start_soon(run)
        await stalled.wait()
        # Far fewer than batch_size wait, and nothing more will come: only time can flush them.
        with anyio.fail_after(30):
            await flushed.wait()
        tasks.cancel_scope.cancel()
    assert len(sink) == 3


@pytest.mark.parametrize("kind", ["csv", "parquet"])
async def test_cancelling_in_the_middle_leaves_complete_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"run.{kind}"
    sink: Any
    if kind == "csv":
        sink = CsvSink(path)
    else:
        pytest.importorskip("pyarrow")
        sink = ParquetSink(path)
    received = 0

    async def answer(name: str, count: int) -> FakeResult:
        nonlocal received
        if count == 500:
            scope.cancel()
            await anyio.sleep_forever()
        received += 1
        return await prompt(name, count)

    with anyio.CancelScope() as scope:
        async with record(Bench([["a"]], answer), rate_hz=20, clock=HandClock()) as recording:
            await pipe(recording, sink, batch_size=64)
    assert scope.cancelled_caught
    assert received == 500
    flows = csv_flows(path) if kind == "csv" else parquet_flows(path)
    assert flows == numbers(500)
    assert recording.summary.samples_emitted == 500
    assert recording.summary.finished_at is not None
    assert not path.with_name(path.name + ".journal").exists()


async def test_a_reply_before_the_cancellation_is_kept_while_its_neighbour_is_asked(
    tmp_path: Path,
) -> None:
    async def answer(name: str, count: int) -> FakeResult:
        if name == "second":
            scope.cancel()
            await anyio.sleep_forever()
        return reply()

    sink = InMemorySink()
    bench = Bench([["first", "second"]], answer)
    with anyio.CancelScope() as scope:
        async with record(bench, rate_hz=1, clock=HandClock()) as recording:
            await pipe(recording, sink)
    assert [s.device for s in sink.samples] == ["first"]


async def test_an_exception_in_on_batch_leaves_after_everything_is_written() -> None:
    class Mine(Exception):
        pass

    def tell(batch: SampleBatch) -> None:
        raise Mine

    sink = InMemorySink()
    async with record(Bench([["a"]]), rate_hz=10, duration=3, clock=HandClock()) as recording:
        with pytest.raises(Mine):
            await pipe(recording, sink, batch_size=1, on_batch=tell)
    assert [s.values["Mass_Flow"] for s in sink.samples] == numbers(len(sink))
    assert len(sink) == recording.summary.samples_emitted


async def test_on_batch_may_be_asynchronous_and_comes_after_the_sinks() -> None:
    sink = InMemorySink()
    seen: list[tuple[int, int]] = []

    async def tell(batch: SampleBatch) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append((len(batch), len(sink)))

    async with record(Bench([["a"]]), rate_hz=10, duration=3, clock=HandClock()) as recording:
        await pipe(recording, sink, batch_size=10, on_batch=tell)
    assert seen
    assert seen[0][0] == seen[0][1]
    assert sum(rows for rows, _ in seen) == 30


async def test_a_failing_sink_stops_the_recording_and_the_others_keep_everything(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.csv"
    bad = FailingSink(2, SinkWriteError("the disk is full"))
    async with record(Bench([["a"]]), rate_hz=1000) as recording:
        with pytest.raises(SinkWriteError, match="the disk is full"):
            await pipe(recording, bad, CsvSink(path), batch_size=5)
    assert bad.closed
    assert bad.rows >= 10
    assert csv_flows(path) == numbers(recording.summary.samples_emitted)
    assert recording.summary.finished_at is not None


async def test_the_errors_of_further_sinks_are_told_too() -> None:
    first = FailingSink(0, SinkWriteError("first"))
    second = FailingSink(0, SinkWriteError("second"))
    async with record(Bench([["a"]]), rate_hz=1000) as recording:
        with pytest.raises(SinkWriteError, match="first") as caught:
            await pipe(recording, first, second, batch_size=1)
    assert caught.value.__notes__ == ["also: second"]


async def test_a_full_device_keeps_the_other_files(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "run.parquet"
    async with record(Bench([["a"]]), rate_hz=1000) as recording:
        with pytest.raises(SinkWriteError, match=r"/dev/full: No space left on device") as caught:
            await pipe(
                recording, CsvSink("/dev/full", overwrite=True), ParquetSink(path), batch_size=5
            )
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert parquet_flows(path) == numbers(recording.summary.samples_emitted)


async def test_a_file_that_exists_is_refused_before_the_first_row_is_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "run.csv").write_text("precious")
    memory = InMemorySink()
    async with record(Bench([["a"]]), rate_hz=10) as recording:
        with pytest.raises(SinkExistsError):
            await pipe(
                recording, CsvSink(tmp_path / "other.csv"), CsvSink(tmp_path / "run.csv"), memory
            )
    assert (tmp_path / "run.csv").read_text() == "precious"
    assert list(tmp_path.iterdir()) == [tmp_path / "run.csv"]
    assert len(memory) == 0


async def test_a_disk_that_does_not_answer_is_given_up_in_time() -> None:
    class Hanging(FailingSink):
        async def write_batch(self, batch: SampleBatch) -> None:
            await anyio.sleep_forever()

    healthy = InMemorySink()
    async with record(Bench([["a"]]), rate_hz=1000) as recording:
        with pytest.raises(SinkError, match=r"could not be written within 0\.05 s"):
            await pipe(recording, healthy, Hanging(0, OSError()), batch_size=5, flush_timeout=0.05)
    assert len(healthy) == recording.summary.samples_emitted


async def test_failed_polls_are_rows_of_the_files(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    text = 'no reply to "A"\r\nwithin 0,5 s'

    async def answer(name: str, count: int) -> FakeResult:
        if count % 2:
            return failure(TimeoutError(text))
        return await prompt(name, count)

    c, p = CsvSink(tmp_path / "run.csv"), ParquetSink(tmp_path / "run.parquet")
    bench = Bench([["a"]], answer)
    async with record(bench, rate_hz=10, duration=1, clock=HandClock()) as recording:
        await pipe(recording, c, p)
    with open(tmp_path / "run.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    errors = [f"TimeoutError: {text}" if n % 2 else "" for n in range(10)]
    assert [row["error"] for row in rows] == errors
    assert [row["Mass_Flow"] == "" for row in rows] == [bool(n % 2) for n in range(10)]
    table = pq.read_table(tmp_path / "run.parquet")
    assert table["error"].to_pylist() == [e or None for e in errors]
    assert table["Mass_Flow"].null_count == 5
    assert table["status"].to_pylist() == [None if e else "" for e in errors]


async def test_a_recording_without_sinks_still_counts() -> None:
    async with record(Bench([["a"]]), rate_hz=10, duration=3, clock=HandClock()) as recording:
        summary = await pipe(recording)
    assert summary.samples_emitted == 30
