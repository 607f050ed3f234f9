"""Sinks whose disk fails and comes back: what is in the files then, to the row."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

import penstock.record
from penstock.record import (
    AcquisitionSummary,
    InMemorySink,
    SampleBatch,
    Sink,
    SinkWriteError,
    pipe,
    record,
)
from penstock.record._sinks import sink_writer
from penstock.record.sink_choice import sink_for
from tests.python.integration.daemons import until
from tests.python.record.instruments import Bench

pytestmark = pytest.mark.anyio

FORMATS = ("run.csv", "run.jsonl", "run.parquet", "run.arrow", "run", "run.sqlite")


class Disk:
    """A disk that is full while ``full`` is set: a write takes a part of its bytes and fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
        self.full = False
        self._path = path
        self._blocker: sqlite3.Connection | None = None
        for module in ("_sinks.line_file", "_parts.journal", "_parts.part_writer"):
            name = f"penstock.record.{module}"
            target = "put_file" if module.endswith("part_writer") else "write_fully"
            real: Callable[..., Any] = __import__(name, fromlist=[target]).__dict__[target]
            monkeypatch.setattr(f"{name}.{target}", self._failing(target, real))

    def _failing(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *rest: Any, **options: Any) -> Any:
            if not self.full:
                return real(first, *rest, **options)
            if kind == "write_fully":
                data = bytes(rest[0])
                os.write(first, data[: len(data) * 2 // 3])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return call

    def fill(self) -> None:
        self.full = True
        if self._path.suffix == ".sqlite":
            # What another program's transaction does to a sink that does not wait.
            self._blocker = sqlite3.connect(self._path, isolation_level=None)
            self._blocker.execute("BEGIN IMMEDIATE")

    def free(self) -> None:
        self.full = False
        if self._blocker is not None:
            self._blocker.close()


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sink_writer, "_FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(sink_writer, "_LONGEST_PAUSE_S", 0.05)
    yield


def _sink(path: Path, **options: Any) -> Sink:
    if path.suffix == ".sqlite":
        return penstock.record.SqliteSink(path, busy_timeout=0.01, loss_interval=0.02, **options)
    return sink_for(path, loss_interval=0.02, **options)


def _flows(path: Path) -> list[float]:
    table = penstock.record.open(path).to_arrow()
    rows = zip(table["event"].to_pylist(), table["Mass_Flow"].to_pylist(), strict=True)
    return [flow for event, flow in rows if event is None]


class Watched:
    """The callbacks of a pipe, as events to wait for."""

    def __init__(self) -> None:
        self.failed = anyio.Event()
        self.returned = anyio.Event()

    def fail(self, sink: Sink, error: Exception) -> None:
        self.failed.set()

    def back(self, sink: Sink) -> None:
        self.returned.set()


async def _fails_and_returns(
    path: Path, disk: Disk, *, fallback: Path | None = None, times: int = 1
) -> tuple[AcquisitionSummary, int]:
    """Record while the disk is full for a while; the summary, and how many polls there were."""
    sink = _sink(path)
    stand_in = None if fallback is None else _sink(fallback)
    reopen = {sink: lambda: _sink(path, append=True)}
    if stand_in is not None:
        assert fallback is not None
        second = fallback
        reopen[stand_in] = lambda: _sink(second, append=True)
    bench = Bench([["a"]])
    async with record(bench, rate_hz=500) as recording, anyio.create_task_group() as tasks:
        watched = Watched()

        async def write() -> None:
            await pipe(
                recording,
                sink,
                fallbacks={} if stand_in is None else {sink: stand_in},
                reopen=reopen,
                on_sink_failure=lambda *about: watched.fail(*about),
                on_sink_return=lambda again: watched.back(again),
                flush_interval=0.01,
            )

        tasks.start_soon(write)
        for _ in range(times):
            watched = Watched()
            seen = bench.counts.get("a", 0)
            await until(lambda seen=seen: bench.counts.get("a", 0) > seen + 60)  # type: ignore[misc]
            disk.fill()
            with anyio.fail_after(60):
                await watched.failed.wait()
            seen = bench.counts["a"]
            await until(lambda seen=seen: bench.counts["a"] > seen + 60)  # type: ignore[misc]
            disk.free()
            with anyio.fail_after(60):
                await watched.returned.wait()
        seen = bench.counts["a"]
        await until(lambda: bench.counts["a"] > seen + 60)
        recording.stop()
    return recording.summary, bench.counts["a"]


@pytest.mark.parametrize("name", FORMATS)
async def test_a_sink_goes_on_behind_its_last_row_once_its_disk_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    summary, polls = await _fails_and_returns(path, Disk(monkeypatch, path), times=2)
    assert _flows(path) == [float(n) for n in range(polls)]
    counts, rows = summary.sinks[str(path)], summary.samples_emitted + summary.events
    assert (counts.error, counts.failures >= 2) == (None, True)
    assert (counts.rows_written, counts.rows_dropped, counts.rows_lost) == (rows, 0, 0)


@pytest.mark.parametrize("name", ["run.csv", "run"])
async def test_a_fallback_stands_in_until_the_sink_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path, other = tmp_path / name, tmp_path / "other.sqlite"
    summary, polls = await _fails_and_returns(
        path, Disk(monkeypatch, path), fallback=other, times=2
    )
    own, rescued = _flows(path), _flows(other)
    assert set(own) | set(rescued) == {float(n) for n in range(polls)}
    for flows in (own, rescued):
        assert flows == sorted(set(flows))
    assert own[-1] == polls - 1 > rescued[-1]
    assert summary.sinks[str(path)].replaced_by == str(other)


async def test_what_waits_for_a_sink_that_is_not_back_at_the_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.csv"
    disk = Disk(monkeypatch, path)
    sink = _sink(path)
    bench = Bench([["a"]])
    failed = anyio.Event()
    async with record(bench, rate_hz=500) as recording:

        async def stop() -> None:
            await until(lambda: bench.counts.get("a", 0) > 60)
            disk.fill()
            await failed.wait()
            seen = bench.counts["a"]
            await until(lambda: bench.counts["a"] > seen + 60)
            recording.stop()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop)
            with pytest.raises(SinkWriteError, match="No space left"):
                await pipe(
                    recording,
                    sink,
                    reopen={sink: lambda: _sink(path, append=True)},
                    on_sink_failure=lambda *about: failed.set(),
                    flush_interval=0.01,
                )
    disk.free()
    counts = recording.summary.sinks[str(path)]
    assert counts.error is not None and "No space left" in counts.error
    flows = _flows(path)
    assert flows == [float(n) for n in range(len(flows))]
    assert len(flows) + counts.rows_lost >= bench.counts["a"] > len(flows)


async def test_rows_wait_in_memory_up_to_the_length_of_the_queue() -> None:
    class Away(InMemorySink):
        """Fails once, and can be opened again when ``back`` is set."""

        back = False
        fails = True

        async def open(self, *about: Any) -> None:
            if not Away.back and not Away.fails:
                raise SinkWriteError("the mount is away")
            await super().open(*about)

        async def write_batch(self, batch: SampleBatch) -> None:
            if Away.fails and len(batch):
                Away.fails = False
                raise SinkWriteError("the mount is away")
            await super().write_batch(batch)

    sinks = [Away()]

    def again() -> Sink:
        sinks.append(Away())
        return sinks[-1]

    bench = Bench([["a"]])
    async with record(bench, rate_hz=500) as recording:

        async def free() -> None:
            await until(lambda: recording.summary.sinks["Away"].rows_dropped > 0)
            Away.back = True
            await until(lambda: recording.summary.sinks["Away"].rows_written > 0)
            recording.stop()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(free)
            with pytest.raises(SinkWriteError, match="was away for too long"):
                await pipe(
                    recording,
                    sinks[0],
                    reopen={sinks[0]: again},
                    queue_rows=30,
                    flush_interval=0.01,
                )
    flows = [s.values["Mass_Flow"] for sink in sinks for s in sink.samples if s.ok]
    assert flows[0] == 0
    assert flows == sorted(set(flows))


async def test_a_sink_to_open_again_must_be_one_of_the_sinks() -> None:
    async with record(Bench([["a"]]), rate_hz=10) as recording:
        with pytest.raises(ValueError, match="which is not among the sinks"):
            await pipe(recording, InMemorySink(), reopen={InMemorySink(): InMemorySink})
