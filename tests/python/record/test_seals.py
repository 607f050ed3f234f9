"""Seals: what is proven of a recording, and what is found where it has changed."""

from __future__ import annotations

import math
import random
import shutil
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pyarrow.parquet
import pytest

import penstock.record
from penstock.cli import main
from penstock.record import (
    ArrowSink,
    ColumnBuffer,
    CsvSink,
    Field,
    JsonlSink,
    ParquetSink,
    RecordSchema,
    RecoveryError,
    SampleBatch,
    SinkExistsError,
    SqliteSink,
    check_seals,
    recover,
)
from penstock.record._seals.seal import seals_path
from penstock.record._seals.seal_check import check_file
from penstock.record.sink_choice import sink_for
from tests.python.record.batches import flow_batch
from tests.python.record.damaged_recordings import Original, originals
from tests.python.record.flipped_bytes import NAMES as FLIPPED
from tests.python.record.flipped_bytes import flip_bytes, values_of
from tests.python.record.sealed_recordings import NAMES, TEXTS, only, write


def kill(path: Path, first: int, rows: int, tmp_path: Path, step: int = 100) -> None:
    """A run that leaves at ``path`` what it has written when its process ends here."""
    away = tmp_path / "run of another process"
    away.mkdir()
    beside = {p for p in path.parent.iterdir() if p.name.startswith(path.stem)}
    for each in beside:
        (shutil.copytree if each.is_dir() else shutil.copy)(each, away / each.name)  # type: ignore[operator]

    async def record() -> None:
        sink = sink_for(away / path.name, loss_rows=0, append=bool(beside))
        await sink.open()
        for start in range(first, first + rows, step):
            await sink.write_batch(flow_batch(step, first=start))
        for each in away.iterdir():
            copy = path.parent / each.name
            if each.is_dir():
                shutil.copytree(each, copy, dirs_exist_ok=True)
            else:
                shutil.copy(each, copy)
        await sink.close()

    anyio.run(record)
    shutil.rmtree(away)


@pytest.mark.parametrize("name", NAMES)
def test_a_closed_recording_is_complete_and_unchanged(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, 0, 2000)
    found = only(tmp_path / name)
    assert found.unchanged
    assert (found.rows, found.ended) == (2000, ["closed"])
    assert (found.first_ns, found.last_ns) == (1795262400004123000, 1795262499954123000)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_resumed_is_unchanged_and_told(tmp_path: Path, name: str) -> None:
    for run in range(3):
        write(tmp_path / name, 500 * run, 500, append=True)
    found = only(tmp_path / name)
    assert found.unchanged
    assert found.rows == 1500
    if name not in ("run.parquet", "run.arrow"):  # one file is written anew at each end
        assert found.ended == ["closed"] * 3


@pytest.mark.parametrize("name", TEXTS)
def test_a_change_is_told_by_its_rows(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, 0, 5000)
    content = bytearray(path.read_bytes())
    at = content.index(b"3333")
    content[at] = ord("4")
    path.write_bytes(content)
    (problem,) = only(path).problems
    _, first, _, last, *_ = problem.split()
    assert int(first) <= 3334 <= int(last) < int(first) + 1000
    assert problem.endswith("have changed")


@pytest.mark.parametrize("name", TEXTS)
def test_rows_that_are_missing_at_the_end_are_told(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, 0, 3000)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:1501]))
    (problem,) = only(path).problems
    assert "to 3000 are missing" in problem


def test_rows_behind_the_end_of_a_closed_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    write(path, 0, 100)
    last = path.read_bytes().splitlines(keepends=True)[-1]
    with path.open("ab") as file:
        file.write(last)
    (problem,) = only(path).problems
    assert "were added after its run was closed" in problem
    recover(path)
    write(path, 100, 100, append=True)
    (problem,) = only(path).problems
    assert problem == "row 101 were added after its run was closed"


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_kill_leaves_is_proven_but_for_its_window(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    kill(path, 0, 1000, tmp_path)
    found = only(path)
    assert (found.rows, found.ended, found.problems) == (1000, ["cut off"], [])
    assert not found.unchanged
    # Rows that the kill left behind the last seal, and a torn one.
    more = path.read_bytes().splitlines(keepends=True)[-1]
    with path.open("ab") as file:
        file.write(more + more[:20])
    found = only(path)
    assert not found.problems
    assert "unproven" in found.remarks[0]
    recover(path)
    found = only(path)
    assert (found.rows, found.problems) == (1001, [])
    assert found.remarks == ["row 1001 were found when it was resumed, and are sealed since"]
    write(path, 1000, 500, append=True)
    found = only(path)
    assert (found.rows, found.problems) == (1501, [])
    assert found.ended == ["cut off", "cut off", "closed"]


@pytest.mark.parametrize("name", ["run.parquet", "run.arrow", "run"])
def test_a_killed_recording_of_parts_is_sealed_by_its_journal_and_after_recovery(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    kill(path, 0, 1000, tmp_path)
    found = check_seals(path)[-1]
    assert (found.rows, found.ended, found.problems) == (1000, ["cut off"], [])
    recover(path)
    found = only(path)
    assert (found.rows, found.ended, found.problems) == (1000, ["cut off"], [])


def test_a_changed_journal_is_told_also_after_its_recovery(tmp_path: Path) -> None:
    path = tmp_path / "run"
    kill(path, 0, 300, tmp_path)
    (journal,) = (path / ".penstock").glob("journal-*.arrows")
    content = journal.read_bytes()
    # The last value of Mass_Flow in it.
    at = content.rindex(struct.pack("<d", 250.0))
    journal.write_bytes(content[:at] + struct.pack("<d", 251.0) + content[at + 8 :])
    assert "have changed" in check_seals(path)[-1].problems[0]
    recover(path)
    assert "have changed" in only(path).problems[0]
    assert main(["verify", str(path)]) == 8


def test_a_part_that_is_missing_changed_or_exchanged_is_told(tmp_path: Path) -> None:
    path = tmp_path / "run"

    async def record() -> None:
        async with ParquetSink(path, part_rows=100) as sink:
            for start in range(0, 500, 100):
                await sink.write_batch(flow_batch(100, first=start))

    anyio.run(record)
    assert only(path).unchanged
    one, two = path / "part-000001.parquet", path / "part-000002.parquet"
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    assert len(only(path).problems) == 2
    one.unlink()
    two.write_bytes(second)
    (problem,) = only(path).problems
    assert "part-000001.parquet is missing" in problem
    one.write_bytes(first)
    listed = path / ".penstock" / "parts.jsonl"
    lines = listed.read_bytes().splitlines(keepends=True)
    listed.write_bytes(b"".join(lines[:1] + lines[2:]))
    assert [p.split(": ")[-1] for p in only(path).problems if "follow" in p] == ["one is missing"]
    listed.write_bytes(b"".join(lines).replace(b'"rows": 100', b'"rows": 101', 1))
    assert "has been changed" in only(path).problems[0]


def test_files_without_seals_are_told_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"

    async def record() -> None:
        async with CsvSink(path, seals=False) as sink:
            await sink.write_batch(flow_batch(10))

    anyio.run(record)
    assert not only(path).sealed
    before = {each: each.read_bytes() for each in tmp_path.iterdir()}
    assert main(["verify", str(path)]) == 0
    assert {each: each.read_bytes() for each in tmp_path.iterdir()} == before
    write(path, 10, 10, step=10, append=True)
    found = only(path)
    assert (found.rows, found.ended, found.problems) == (20, ["not sealed", "closed"], [])
    assert "rows 1 to 10 were found" in found.remarks[0]


def write_without_seals(path: Path, rows: int) -> None:
    kinds: dict[str, Callable[..., Any]] = {
        "run.csv": CsvSink,
        "run.jsonl": JsonlSink,
        "run.sqlite": SqliteSink,
    }

    async def record() -> None:
        async with kinds[path.name](path, seals=False) as sink:
            await sink.write_batch(flow_batch(rows))
            sink.add_metadata({"summary": "all was well"})

    anyio.run(record)


def as_cut(path: Path) -> None:
    if path.suffix == ".sqlite":
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("DELETE FROM samples WHERE rowid > 60")
        return
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:61] + lines[121:]))


def test_an_end_that_nothing_states_is_said_to_be_unseen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.jsonl"
    write_without_seals(path, 120)
    unseen = "a missing end cannot be detected either"
    assert main(["verify", str(path)]) == 0
    assert unseen not in capsys.readouterr().out
    # The last line is the one that states the rows.
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-11]))
    assert main(["verify", str(path)]) == 0
    assert unseen in capsys.readouterr().out


@pytest.mark.parametrize("name", ["run.csv", "run.jsonl", "run.sqlite"])
def test_rows_that_are_missing_are_told_also_without_seals(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    write_without_seals(path, 120)
    assert main(["verify", str(path)]) == 0
    assert "not sealed, so changes of values cannot be detected" in capsys.readouterr().out
    as_cut(path)
    (found,) = check_seals(path)
    (problem,) = found.problems
    assert problem.startswith("rows 61 to 120")
    assert "are missing: 120 rows were stated at its end, and 60 are there" in problem
    assert main(["verify", str(path)]) == 8
    assert "120 rows were stated at its end" in capsys.readouterr().out


def test_rows_behind_the_stated_end_are_no_problem_and_told(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    write_without_seals(path, 120)
    assert only(path).ended == ["closed"]
    with path.open("ab") as file:
        file.write(path.read_bytes().splitlines(keepends=True)[-1])
    found = only(path)
    assert (found.problems, found.ended, found.sealed) == ([], ["cut off"], False)
    assert found.remarks == ["row 121 were written after the last stated end, or added since"]


def test_a_part_with_fewer_rows_than_its_line_states_is_told_without_seals(tmp_path: Path) -> None:
    path = tmp_path / "run"

    async def record() -> None:
        async with ParquetSink(path, seals=False, part_rows=50) as sink:
            for start in range(0, 150, 50):
                await sink.write_batch(flow_batch(50, first=start))

    anyio.run(record)
    assert not only(path).problems
    part = path / "part-000002.parquet"
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(part).slice(0, 20), part)
    assert only(path).problems == ["part 2 has 20 rows instead of 50"]
    assert main(["verify", str(path)]) == 8


@pytest.mark.parametrize("name", TEXTS)
def test_no_change_of_the_seals_is_taken_for_proof(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, 0, 1000)
    seals = seals_path(path)
    content = seals.read_bytes()
    chance = random.Random(1)
    for _ in range(100):
        damaged = bytearray(content)
        damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        seals.write_bytes(damaged)
        assert not check_file(path).unchanged
    for size in range(0, len(content) - 1, 29):
        seals.write_bytes(content[:size])
        assert not check_file(path).unchanged
        assert main(["verify", str(path)]) in (0, 8)


@pytest.mark.parametrize("beside", [b"", b"{", b"\xff\xfe", b'{"penstock": 5}\n', b"[1]\n" * 9])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "run.sqlite"])
def test_side_files_that_cannot_be_read_are_told_and_recording_goes_on(
    tmp_path: Path, name: str, beside: bytes
) -> None:
    path = tmp_path / name
    write(path, 0, 100)
    side = path / ".penstock" / "parts.jsonl" if name == "run" else seals_path(path)
    side.write_bytes(beside)
    assert main(["verify", str(path)]) == 8
    write(path, 100, 100, append=True)
    assert len(penstock.record.open(path).to_arrow()) == 200


@pytest.mark.parametrize("name", ["run.csv", "run.jsonl", "run.parquet"])
def test_overwrite_leaves_no_part_of_the_recording_before(tmp_path: Path, name: str) -> None:
    path = tmp_path / name

    async def two_parts() -> None:
        wider = RecordSchema((Field("Mass_Flow", "float", "SCCM"), Field("Other", "float")))
        async with sink_for(path) as sink:
            await sink.write_batch(flow_batch(5))
            await sink.write_batch(flow_batch(5, first=5, schema=wider))

    anyio.run(two_parts)
    assert path.with_stem("run.part2").exists()
    write(path, 0, 7, step=7, overwrite=True)
    assert not [each for each in tmp_path.iterdir() if "part2" in each.name]
    assert len(penstock.record.open(path).to_arrow()) == 7
    assert only(path).unchanged


@pytest.mark.parametrize("name", ["run.csv", "run.jsonl"])
def test_a_recording_with_a_missing_part_is_not_continued(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    kind: Callable[..., Any] = CsvSink if name == "run.csv" else JsonlSink

    async def rotated() -> None:
        async with kind(path, rotate_bytes=1, loss_rows=0) as sink:
            for start in range(4):
                await sink.write_batch(flow_batch(1, first=start))

    anyio.run(rotated)
    path.with_stem("run.part2").unlink()
    with pytest.raises(RecoveryError, match=r"run\.part2\.\w+ is missing, and run\.part3"):
        write(path, 4, 1, step=1, append=True)
    path.unlink()
    with pytest.raises(RecoveryError, match=rf"{name} is missing, and run\.part3"):
        write(path, 4, 1, step=1, append=True)
    with pytest.raises(SinkExistsError, match=r"run\.part3\.\w+ already exists"):
        write(path, 0, 1, step=1)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Original]:
    return {each.name: each for each in originals(tmp_path_factory.mktemp("sound"))}


COPIES = 50


@pytest.mark.slow
@pytest.mark.parametrize("name", FLIPPED)
def test_one_flipped_byte_is_found_wherever_a_value_has_changed(
    sound: dict[str, Original], name: str, tmp_path: Path
) -> None:
    found = flip_bytes(sound[name], COPIES, tmp_path)
    assert not found.missed
    assert found.changed > COPIES // 10


def test_pages_of_parquet_carry_checksums_that_are_read(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    write(path, 0, 1000)
    seals_path(path).unlink()
    content = bytearray(path.read_bytes())
    right = values_of(path)
    for at in range(4, len(content) // 2, 51):
        damaged = bytearray(content)
        damaged[at] ^= 0x55
        path.write_bytes(damaged)
        if values_of(path) != right:
            assert main(["verify", str(path)]) != 0


def test_a_change_in_the_header_of_a_page_is_told_though_no_checksum_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.parquet"
    write(path, 0, 1000)
    content = path.read_bytes()
    group = pyarrow.parquet.read_metadata(path).row_group(0)
    begins = [group.column(n).data_page_offset for n in range(group.num_columns)]
    for at in [begin + offset for begin in begins[:3] for offset in (1, 3, 8)]:
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        assert main(["verify", str(path)]) == 8
        assert "rows 1 to 1000" in (out := capsys.readouterr().out)
        assert "have changed" in out
    seals_path(path).unlink()
    main(["verify", str(path)])
    assert "not sealed, so changes of values cannot be detected" in capsys.readouterr().out


def test_arrow_sinks_without_seals_leave_one_file(tmp_path: Path) -> None:
    async def record() -> None:
        async with ArrowSink(tmp_path / "run.arrow", seals=False) as sink:
            await sink.write_batch(flow_batch(3))

    anyio.run(record)
    assert [each.name for each in tmp_path.iterdir()] == ["run.arrow"]


def record_values(path: Path, values: list[float | None], **options: Any) -> None:
    schema = RecordSchema((Field("Mass_Flow", "float", "SCCM"), Field("Gas", "text")))
    buffer = ColumnBuffer(schema)
    for number, value in enumerate(values):
        fields = {} if value is None else {"Mass_Flow": value, "Gas": "" if number % 2 else "N2"}
        buffer.append_row("d", "A", number, number, number, number, fields, "", None)

    async def record() -> None:
        async with sink_for(path, **options) as sink:
            await sink.write_batch(SampleBatch.from_buffer(buffer))

    anyio.run(record)


def test_values_that_sqlite_stores_in_another_form_are_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    values = [1.5, math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, 2.0**60, None, 7.0]
    record_values(path, values)
    assert only(path).unchanged
    record_values(path, values, append=True)
    assert only(path).unchanged
    assert only(path).rows == 20


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE samples SET Mass_Flow = 3 WHERE rowid = 1500", "rows 801 to 1600 have changed"),
        ("UPDATE samples SET status = NULL WHERE rowid = 5", "rows 1 to 800 have changed"),
        ("DELETE FROM samples WHERE rowid = 3000", "rows 2401 to 3000 have changed"),
        ("INSERT INTO samples SELECT * FROM samples WHERE rowid = 7", "1 rows of table samples"),
        ("UPDATE penstock_parts SET columns = replace(columns, 'SCCM', 'SLPM')", "description"),
        ("DELETE FROM penstock_seals WHERE seal = 1", "a seal before rows 1601 to 2400 is missing"),
    ],
)
def test_a_change_in_a_database_is_told(tmp_path: Path, statement: str, problem: str) -> None:
    path = tmp_path / "run.sqlite"
    write(path, 0, 3000)
    assert only(path).unchanged
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement)
    assert problem in only(path).problems[0]
    assert main(["verify", str(path)]) == 8


def test_a_single_file_with_a_missing_part_is_not_continued(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"

    async def three_parts() -> None:
        async with ParquetSink(path) as sink:
            for number in range(3):
                schema = RecordSchema((Field("Mass_Flow", "float", f"unit {number}"),))
                await sink.write_batch(flow_batch(2, first=2 * number, schema=schema))

    anyio.run(three_parts)
    path.with_stem("run.part2").unlink()
    with pytest.raises(RecoveryError, match=r"run\.part2\.parquet is missing"):
        write(path, 6, 2, step=2, append=True)
    assert not path.with_name("run.parquet.parts").exists()


@pytest.mark.parametrize("left", ["nothing", "the head"])
def test_seals_that_a_failed_creation_has_left_are_begun_anew(tmp_path: Path, left: str) -> None:
    path = tmp_path / "run.csv"
    write(path, 0, 100)
    seals = seals_path(path)
    kept = seals.read_bytes()
    path.unlink()
    (tmp_path / "run.csv.meta.json").unlink()
    with pytest.raises(SinkExistsError, match=r"already exists, and run\.csv does not"):
        write(path, 0, 100)
    assert seals.read_bytes() == kept
    seals.write_bytes(b"" if left == "nothing" else kept[: kept.index(b"\n") + 1])
    write(path, 0, 100)
    (found,) = check_seals(path)
    assert found.unchanged


def test_a_folder_of_parts_whose_state_was_removed_is_read(tmp_path: Path) -> None:
    """A kill during the removal of the folder of a joined file."""
    path = tmp_path / "run.parquet"
    write(path, 0, 100)
    before = penstock.record.open(path).to_arrow()
    (tmp_path / "run.parquet.parts").mkdir()
    assert penstock.record.open(path).to_arrow() == before
