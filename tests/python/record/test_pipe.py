from __future__ import annotations

import csv
import errno
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from penstock.record import (
    CsvSink,
    InMemorySink,
    OverflowPolicy,
    ParquetSink,
    RecordSchema,
    Sample,
    SampleBatch,
    SinkError,
    SinkExistsError,
    SinkWriteError,
    pipe,
    record,
)
from tests.python.record.instruments import (
    Answer,
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
        return [float(row["Mass_Flow"]) for row in csv.DictReader(file) if not row["event"]]


def parquet_flows(path: Path) -> list[float]:
    pq = pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(path)
    return [float(flow) for flow in table.filter(table["event"].is_null())["Mass_Flow"].to_pylist()]


def sample_count(sink: InMemorySink) -> int:
    return sum(sample.event is None for sample in sink.samples)


def numbers(count: int) -> list[float]:
    return [float(n) for n in range(count)]


class FailingSink:
    """Takes some batches, then refuses."""

    def __init__(self, good: int, error: Exception) -> None:
        self.good = good
        self.error = error
        self.closed = False
        self.rows = 0

    async def open(
        self, schema: RecordSchema | None = None, metadata: Mapping[str, Any] | None = None
    ) -> None:
        pass

    async def write_batch(self, batch: SampleBatch) -> None:
        await anyio.lowlevel.checkpoint()
        if self.good == 0:
            raise self.error
        self.good -= 1
        self.rows += len(batch)

    async def write_many(self, samples: Iterable[Sample]) -> None:
        raise NotImplementedError

    async def flush(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed = True


def after_a_batch_of(sink: FailingSink) -> Answer:
    """An instrument whose poll 100 waits until ``sink`` has a batch: more than one will come."""

    async def answer(name: str, count: int) -> FakeResult:
        while count == 100 and not sink.rows:
            await anyio.lowlevel.checkpoint()
        return await prompt(name, count)

    return answer


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

    seen = 0

    def tell(batch: SampleBatch) -> None:
        nonlocal seen
        seen += sum(sample.event is None for sample in batch)
        if seen == 3:
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
    assert sample_count(sink) == 3


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


async def test_on_batch_may_be_asynchronous_and_sees_every_row() -> None:
    sink = InMemorySink()
    seen: list[int] = []

    async def tell(batch: SampleBatch) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append(len(batch))

    async with record(Bench([["a"]]), rate_hz=10, duration=3, clock=HandClock()) as recording:
        await pipe(recording, sink, batch_size=10, on_batch=tell)
    assert sum(seen) == len(sink) == 30


async def test_a_failed_sink_does_not_end_the_recording_while_another_is_healthy(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.csv"
    bad = FailingSink(1, SinkWriteError("the disk is full"))
    told: list[tuple[Any, str]] = []
    bench = Bench([["a"]], after_a_batch_of(bad))

    async with record(bench, rate_hz=10, duration=30, clock=HandClock()) as recording:
        with pytest.raises(SinkWriteError, match="the disk is full"):
            await pipe(
                recording,
                bad,
                CsvSink(path),
                batch_size=5,
                on_sink_failure=lambda sink, error: told.append((sink, str(error))),
            )
    assert told == [(bad, "the disk is full")]
    assert bad.closed
    assert csv_flows(path) == numbers(300)
    summary = recording.summary
    assert summary.samples_emitted == 300
    assert summary.sinks["FailingSink"].rows_written == bad.rows
    assert summary.sinks["FailingSink"].error == "the disk is full"
    assert summary.sinks[str(path)].rows_written == 300
    assert summary.sinks[str(path)].error is None


async def test_a_recording_ends_when_its_last_sink_has_failed() -> None:
    bad = FailingSink(2, SinkWriteError("the disk is full"))
    async with record(Bench([["a"]]), rate_hz=1000) as recording:
        with pytest.raises(SinkWriteError, match="the disk is full"):
            await pipe(recording, bad, batch_size=5)
    assert bad.closed
    assert bad.rows >= 10
    assert recording.summary.finished_at is not None


async def test_a_fallback_takes_over_with_the_batch_that_failed() -> None:
    bad, rescue = FailingSink(1, SinkWriteError("the disk is full")), InMemorySink()
    bench = Bench([["a"]], after_a_batch_of(bad))
    async with record(bench, rate_hz=10, duration=30, clock=HandClock()) as recording:
        await pipe(recording, bad, fallbacks={bad: rescue}, batch_size=5)
    assert bad.rows + len(rescue) == 300
    summary = recording.summary
    assert summary.sinks["FailingSink"].error == "the disk is full"
    assert summary.sinks["FailingSink"].replaced_by == "InMemorySink"
    assert summary.sinks["InMemorySink"].rows_written == len(rescue) > 0


async def test_a_fallback_gets_what_the_failed_sink_had_accepted_and_may_lose() -> None:
    class Gathering(FailingSink):
        """Has the rows of its last batch in memory only."""

        rows_at_risk = 0

        async def write_batch(self, batch: SampleBatch) -> None:
            await super().write_batch(batch)
            self.rows_at_risk = len(batch)

    bad, rescue = Gathering(1, SinkWriteError("the disk is full")), InMemorySink()
    bench = Bench([["a"]], after_a_batch_of(bad))
    async with record(bench, rate_hz=10, duration=30, clock=HandClock()) as recording:
        await pipe(recording, bad, fallbacks={bad: rescue}, batch_size=5)
    assert bad.rows > 0
    assert [sample.values["Mass_Flow"] for sample in rescue.samples] == numbers(300)


async def test_a_fallback_that_fails_too_is_told_with_the_first_failure() -> None:
    bad = FailingSink(2, SinkWriteError("the disk is full"))
    worse = FailingSink(0, SinkWriteError("this one too"))
    async with record(Bench([["a"]]), rate_hz=1000) as recording:
        with pytest.raises(SinkWriteError, match="the disk is full"):
            await pipe(recording, bad, fallbacks={bad: worse}, batch_size=5)
    assert bad.closed
    assert worse.closed


async def test_a_fallback_of_no_sink_is_refused() -> None:
    async with record(Bench([["a"]]), rate_hz=10) as recording:
        with pytest.raises(ValueError, match="not among the sinks"):
            await pipe(recording, fallbacks={InMemorySink(): InMemorySink()})


class SlowSink(FailingSink):
    """Holds its first batch until it is released."""

    def __init__(self) -> None:
        super().__init__(10**9, OSError())
        self.entered = anyio.Event()
        self.released = anyio.Event()

    async def write_batch(self, batch: SampleBatch) -> None:
        self.entered.set()
        await self.released.wait()
        await super().write_batch(batch)


def bench_of(slow: SlowSink, quick: InMemorySink) -> Bench:
    """An instrument whose last poll waits for the quick sink, and then releases the slow one."""

    async def answer(name: str, count: int) -> FakeResult:
        if count == 299:
            # All polls were made, and all but the last batch written, while one sink was stuck.
            while len(quick) < 250:
                await anyio.lowlevel.checkpoint()
            slow.released.set()
        return await prompt(name, count)

    return Bench([["a"]], answer)


async def test_a_slow_sink_delays_neither_the_polls_nor_the_other_sinks() -> None:
    slow, quick = SlowSink(), InMemorySink()
    bench = bench_of(slow, quick)
    async with record(bench, rate_hz=10, duration=30, clock=HandClock()) as recording:
        with anyio.fail_after(30):
            await pipe(recording, slow, quick, batch_size=10)
    assert recording.summary.samples_late == 0
    assert slow.rows == len(quick) == 300


async def test_rows_that_do_not_fit_a_sinks_queue_are_dropped_for_it_alone_and_counted() -> None:
    slow, quick = SlowSink(), InMemorySink()
    bench = bench_of(slow, quick)
    async with record(bench, rate_hz=10, duration=30, clock=HandClock()) as recording:
        with (
            anyio.fail_after(30),
            pytest.raises(SinkWriteError, match=r"SlowSink did not keep up: \d+ rows"),
        ):
            await pipe(recording, slow, quick, batch_size=10, queue_rows=20)
    assert len(quick) == 300
    counts = recording.summary.sinks["SlowSink"]
    assert counts.rows_dropped > 0
    assert counts.rows_written + counts.rows_dropped == 300
    assert recording.summary.sinks["InMemorySink"].rows_dropped == 0


async def test_a_queue_that_blocks_loses_nothing() -> None:
    slow, quick = SlowSink(), InMemorySink()

    async def release() -> None:
        await slow.entered.wait()
        slow.released.set()

    async with (
        record(Bench([["a"]]), rate_hz=10, duration=30, clock=HandClock()) as recording,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(release)
        await pipe(
            recording,
            slow,
            quick,
            batch_size=10,
            queue_rows=20,
            queue_overflow=OverflowPolicy.BLOCK,
        )
    assert slow.rows == len(quick) == 300


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
    async with record(Bench([["a"]]), rate_hz=20, duration=5, clock=HandClock()) as recording:
        with pytest.raises(SinkWriteError, match=r"/dev/full: No space left on device") as caught:
            await pipe(
                recording, CsvSink("/dev/full", overwrite=True), ParquetSink(path), batch_size=5
            )
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert parquet_flows(path) == numbers(100)


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
    hanging = Hanging(0, OSError())
    async with record(Bench([["a"]]), rate_hz=10, duration=3, clock=HandClock()) as recording:
        with pytest.raises(SinkError, match=r"to Hanging (within 1\.5 s|in time)"):
            await pipe(recording, healthy, hanging, batch_size=5, flush_timeout=1.5)
    assert len(healthy) == recording.summary.samples_emitted == 30


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


async def test_a_run_that_is_cancelled_before_its_first_sample_leaves_files_with_columns(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.csv"
    source = DescribedBench([["a"]], schemas={"a": [FakeField("Mass_Flow", "float", "SCCM")]})
    with anyio.CancelScope() as scope:
        async with CsvSink(path) as sink, record(source, rate_hz=10) as recording:
            scope.cancel()
            await pipe(recording, sink)
    assert path.read_bytes().startswith(b"device,unit_id,t_utc,")


@pytest.mark.parametrize(
    ("windows", "given", "waits"),
    [
        ((1.0,), None, 0.25),
        ((1.0, 0.4), None, 0.1),
        ((None,), None, 1.0),
        ((), None, 1.0),
        ((60.0,), None, 1.0),
        ((0.0,), None, 0.02),
        ((1.0,), 3.0, 3.0),
    ],
)
async def test_rows_wait_in_the_pipe_for_a_part_of_the_loss_window(
    tmp_path: Path, windows: tuple[float | None, ...], given: float | None, waits: float
) -> None:
    sinks = [
        CsvSink(tmp_path / f"{number}.csv", loss_interval=seconds)
        for number, seconds in enumerate(windows)
    ]
    asked = []
    async with record(Bench([["a"]]), rate_hz=10, duration=0.1, clock=HandClock()) as recording:
        take = recording.next_batch

        async def next_batch(
            min_rows: int = 1, max_wait: float | None = None
        ) -> SampleBatch | None:
            asked.append(max_wait)
            return await take(min_rows, max_wait)

        recording.next_batch = next_batch  # type: ignore[method-assign]
        await pipe(recording, *sinks, flush_interval=given)
    assert set(asked) == {waits}
