"""Devices that fail for a while: the rows, codes and events that they leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.alicat import (
    AlicatCommandRejectedError,
    AlicatConnectionError,
    AlicatError,
    AlicatIdentityError,
    AlicatParseError,
    AlicatTimeoutError,
    AlicatUnitChangedError,
    AlicatUnitIdMismatchError,
)
from penstock.alicat.modbus import ModbusExceptionError
from penstock.cli._stored.checks import check
from penstock.record import (
    AcquisitionSummary,
    CsvSink,
    FailureCode,
    InMemorySink,
    RecordSchema,
    Sample,
    SampleBatch,
    Sink,
    pipe,
    record,
)
from penstock.record.arrow import METADATA_KEY
from penstock.record.failure_codes import failure_code
from penstock.record.schema import LEADING_COLUMNS, TRAILING_COLUMNS
from penstock.record.stored_parts import StoredPart
from tests.python.record.batches import flow_batch
from tests.python.record.instruments import Bench, FakeResult, HandClock, failure, reply

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, "timeout"),
        (TimeoutError(), "timeout"),
        (AlicatTimeoutError("no reply"), "timeout"),
        (OSError(5, "Input/output error"), "connection"),
        (AlicatConnectionError("lost"), "connection"),
        (AlicatIdentityError("another"), "identity"),
        (AlicatUnitIdMismatchError("B answers"), "identity"),
        (AlicatParseError("garbage"), "reply"),
        (AlicatCommandRejectedError("?"), "rejected"),
        (AlicatUnitChangedError("SLPM"), "unit"),
        (AlicatError("something"), "other"),
        (ValueError("a bug"), "other"),
    ],
)
def test_every_error_has_a_code_of_the_small_set(error: Exception | None, code: str) -> None:
    assert failure_code(error) is FailureCode(code)


def test_an_exception_may_tell_its_own_code_but_no_new_one() -> None:
    class Absent(Exception):
        failure_code = "absent"

    class Invented(Exception):
        failure_code = "broken"

    assert failure_code(Absent()) is FailureCode.ABSENT
    assert failure_code(Invented()) is FailureCode.OTHER
    assert ModbusExceptionError.failure_code == "rejected"


async def _recorded(answers: list[FakeResult], **options: Any) -> tuple[list[Sample], Any]:
    async def answer(name: str, count: int) -> FakeResult:
        return answers[count]

    sink = InMemorySink()
    bench = Bench([["a"]], answer)
    seconds = len(answers)
    async with record(
        bench, rate_hz=1, duration=seconds, clock=HandClock(), **options
    ) as recording:
        summary: AcquisitionSummary = await pipe(recording, sink)
    return sink.samples, summary


def _failed(error: Exception) -> FakeResult:
    return failure(error)


async def test_a_device_that_stays_away_is_one_row_for_each_code_and_one_event() -> None:
    lost = [AlicatConnectionError(f"lost; tried again in {n} s") for n in range(3)]
    late = [AlicatTimeoutError(f"no reply within {n} s") for n in range(2)]
    answers = [reply(), *map(_failed, (lost[0], late[0], lost[1], lost[2], late[1])), reply()]
    samples, summary = await _recorded(answers)
    assert [(s.error_code, s.event) for s in samples] == [
        (None, None),
        ("connection", None),
        ("timeout", None),
        (None, "failed_polls"),
        (None, None),
    ]
    assert samples[1].error == "AlicatConnectionError: lost; tried again in 0 s"
    assert samples[3].message == "3 more polls failed (connection 2, timeout 1)"
    assert samples[3].device == "a"
    counts = summary.devices["a"]
    assert (counts.samples_emitted, counts.errors, counts.repeated) == (4, 5, 3)
    assert summary.as_dict()["repeated"] == summary.as_dict()["devices"]["a"]["repeated"] == 3


async def test_what_was_counted_is_told_when_the_recording_ends() -> None:
    samples, _ = await _recorded([_failed(TimeoutError("gone"))] * 4)
    assert [s.message for s in samples if s.event] == ["3 more polls failed (timeout 3)"]


async def test_a_device_that_fails_now_and_then_has_a_row_for_each_failure() -> None:
    answers = [reply(), _failed(TimeoutError("x"))] * 3
    samples, summary = await _recorded(answers)
    assert [s.error_code for s in samples] == [None, "timeout"] * 3
    assert (summary.events, summary.repeated) == (0, 0)


async def test_every_failure_is_a_row_where_that_is_wanted() -> None:
    samples, summary = await _recorded([_failed(TimeoutError("x"))] * 3, every_failure=True)
    assert [s.error_code for s in samples] == ["timeout"] * 3
    assert (summary.errors, summary.repeated) == (3, 0)


async def test_a_reply_that_no_row_can_hold_is_no_answer() -> None:
    bad = reply({"status": 1.0, "field_status": 2.0})
    samples, summary = await _recorded([bad, bad, bad, reply()])
    assert [(s.error_code, s.event) for s in samples] == [
        ("unrecorded", None),
        (None, "failed_polls"),
        (None, None),
    ]
    assert summary.errors == 3


async def test_slots_that_pass_while_a_device_fails_are_told_once() -> None:
    clock = HandClock()

    async def answer(name: str, count: int) -> FakeResult:
        if 1 <= count <= 3:
            clock.now += 2_400_000_000  # a timeout of more than two periods
            return failure(TimeoutError("x"), asked_ns=clock.now)
        return reply(asked_ns=clock.now)

    sink = InMemorySink()
    async with record(Bench([["a"]], answer), rate_hz=1, duration=12, clock=clock) as recording:
        summary = await pipe(recording, sink)
    events = [(s.event, s.message) for s in sink.samples if s.event]
    assert events[-1] == ("failed_polls", "2 more polls failed (timeout 2)")
    assert [kind for kind, _ in events] == ["missed_slots", "failed_polls"]
    assert events[0][1] == f"{summary.samples_late} missed while it failed"


async def test_the_code_is_the_last_column_and_files_without_it_are_continued(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.csv"

    async def write(batch: SampleBatch, **options: bool) -> None:
        sink: Sink = CsvSink(path, **options)
        await sink.open()
        await sink.write_batch(batch)
        await sink.close()

    old = flow_batch(2)
    assert "error_code" not in old.schema.names
    await write(old)
    samples, _ = await _recorded([reply({"Mass_Flow": 1.0}), _failed(TimeoutError("x"))])
    new = SampleBatch.from_samples(samples)
    assert new.schema.names[-3:] == (*TRAILING_COLUMNS, "error_code")
    assert new.schema.names[: len(LEADING_COLUMNS)] == LEADING_COLUMNS
    assert list(SampleBatch.from_arrow(new.to_arrow())) == list(new)
    await write(new, append=True)
    second = path.with_name("run.part2.csv").read_text().splitlines()
    assert second[0].endswith(",status,error,error_code")
    assert second[-1].endswith(",timeout")
    assert not path.read_text().splitlines()[0].endswith("error_code")


def part_of(samples: list[Sample], rate_hz: float) -> StoredPart:
    batch = SampleBatch.from_samples(samples, RecordSchema()).to_arrow()
    table = pa.Table.from_batches([batch])
    about = {"run_id": "r", "devices": {"a": {"rate_hz": rate_hz}}}
    return StoredPart(
        Path("run"), table.replace_schema_metadata({METADATA_KEY: json.dumps(about).encode()})
    )


async def test_polls_that_are_only_counted_are_no_gap() -> None:
    clock = HandClock()

    async def answer(name: str, count: int) -> FakeResult:
        at = clock.now
        if 3 <= count < 8:
            return failure(TimeoutError("x"), asked_ns=at, latency_ns=1_000_000)
        return reply(asked_ns=at)

    sink = InMemorySink()
    async with record(Bench([["a"]], answer), rate_hz=1, duration=12, clock=clock) as recording:
        await pipe(recording, sink)
    found = check(lambda: [part_of(sink.samples, 1.0)])
    assert (found.devices["a"].gaps, found.devices["a"].failed) == (0, 5)
    without = [sample for sample in sink.samples if sample.event != "failed_polls"]
    assert check(lambda: [part_of(without, 1.0)]).devices["a"].gaps == 1
