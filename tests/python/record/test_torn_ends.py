"""No cut without a copy: what recovery and appending take off a file of any format."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock._torn_end import EndTooLargeError, cut_end
from penstock.record import (
    ColumnBuffer,
    CsvSink,
    Field,
    JsonlSink,
    ParquetSink,
    RecordSchema,
    RecoveryError,
    SampleBatch,
    SinkSchemaError,
    SinkWriteError,
    SqliteSink,
    recover,
)
from penstock.record._files.sqlite_log import log_path, read_log
from penstock.record._parts.journal import JournalContent, _whole_batches, read_journal
from penstock.record._parts.parts_folder import PartsFolder
from tests.python.record.batches import MASS_FLOW, flow_batch

pytest.importorskip("pyarrow")

LINES: dict[str, Callable[..., Any]] = {"run.csv": CsvSink, "run.jsonl": JsonlSink}


def write(path: Path, rows: int, first: int = 0, **options: Any) -> Any:
    sink = LINES[path.name](path, **options)

    async def main() -> None:
        async with sink:
            await sink.write_batch(flow_batch(rows, first=first))

    anyio.run(main)
    return sink


def flows(path: Path) -> list[float]:
    import penstock.record

    table = penstock.record.open(path).to_arrow()
    return [value for value in table["Mass_Flow"].to_pylist() if value is not None]


def numbers(count: int) -> list[float]:
    return [float(number) for number in range(count)]


def by_recovery(path: Path) -> None:
    recover(path)


def by_appending(path: Path) -> None:
    write(path, 1, first=20, append=True)


WAYS = pytest.mark.parametrize("repair", [by_recovery, by_appending])


def stray_quote(data: bytes) -> bytes:
    rows = data.split(b"\n")
    rows[10] = rows[10].replace(b"fuel,A", b'fuel,A"')
    return b"\n".join(rows)


def opened_quote(data: bytes) -> bytes:
    rows = data.split(b"\n")
    rows[10] = rows[10].replace(b"fuel,A", b'fuel,"A')
    return b"\n".join(rows)


@WAYS
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"\r\n", b"\n"),
        lambda data: data.replace(b"\r\n", b"\n").removesuffix(b"\n"),
        lambda data: data.removesuffix(b"\n").removesuffix(b"\r"),
        lambda data: b"\xef\xbb\xbf" + data,
    ],
)
def test_a_file_that_an_editor_has_saved_keeps_all_its_rows(
    tmp_path: Path, name: str, repair: Any, change: Any
) -> None:
    write(tmp_path / name, 20)
    (tmp_path / name).write_bytes(change((tmp_path / name).read_bytes()))
    repair(tmp_path / name)
    assert flows(tmp_path / name) == numbers(21 if repair is by_appending else 20)
    assert not list(tmp_path.glob("*.torn*"))


@WAYS
@pytest.mark.parametrize("change", [stray_quote, opened_quote])
def test_a_quote_takes_no_row_but_its_own(tmp_path: Path, repair: Any, change: Any) -> None:
    path = tmp_path / "run.csv"
    write(path, 20)
    changed = change(path.read_bytes())
    path.write_bytes(changed)
    repair(path)
    assert path.read_bytes().startswith(changed)
    assert not list(tmp_path.glob("*.torn*"))


@WAYS
@pytest.mark.parametrize("name", LINES)
def test_a_torn_row_is_kept_beside_its_file(tmp_path: Path, name: str, repair: Any) -> None:
    path = tmp_path / name
    for number, kept in enumerate(("run.X.torn", "run.X.torn2"), 1):
        if not path.exists():
            write(path, 20)
        torn = (b'{"device": "fu' if name == "run.jsonl" else b"fuel,A,20") + b"%d" % number
        path.write_bytes(path.read_bytes() + torn)
        repair(path)
        copy = tmp_path / kept.replace("run.X", name)
        assert copy.read_bytes() == torn
        assert flows(path)[:20] == numbers(20)


@pytest.mark.parametrize("name", LINES)
def test_the_parts_behind_a_text_file_are_recovered_with_it(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, 20)
    second = path.with_stem("run.part2")
    second.write_bytes(path.read_bytes()[:-40])
    (cut,) = recover(path).cuts
    assert cut.path == second
    assert (tmp_path / f"{second.name}.torn").stat().st_size == cut.size


def test_what_a_sink_cuts_is_in_its_cuts(tmp_path: Path) -> None:
    write(tmp_path / "run.csv", 20)
    with open(tmp_path / "run.csv", "ab") as file:
        file.write(b"fuel,A")
    (cut,) = write(tmp_path / "run.csv", 1, first=20, append=True).cuts
    assert (cut.size, cut.kept_in) == (6, tmp_path / "run.csv.torn")
    assert str(cut.kept_in) in str(cut)


@pytest.mark.parametrize("name", LINES)
def test_more_than_a_torn_row_is_cut_only_by_force(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, 20)
    before = path.read_bytes() + b"x" * 100_000
    path.write_bytes(before)
    for repair in (by_recovery, by_appending):
        with pytest.raises(RecoveryError, match="--force, or force=True"):
            repair(path)
        assert path.read_bytes() == before
    assert not list(tmp_path.glob("*.torn*"))
    recovery = recover(path, force=True)
    assert recovery.bytes_cut == 100_000
    assert recovery.cuts[0].kept_in.read_bytes() == b"x" * 100_000
    assert flows(path) == numbers(20)


def test_a_last_row_with_zero_bytes_in_it_is_torn(tmp_path: Path) -> None:
    """Its fields are all there, but the last one would be a text of zero bytes."""
    path = tmp_path / "run.csv"
    write(path, 20)
    path.write_bytes(path.read_bytes().removesuffix(b"\r\n") + bytes(4096))
    assert recover(path).cuts
    assert flows(path) == numbers(19)
    assert b"\0" not in path.read_bytes()


def test_an_error_behind_a_cut_names_the_copy(tmp_path: Path) -> None:
    write(tmp_path / "run.csv", 20)
    shutil.copy(tmp_path / "run.csv", tmp_path / "run.part2.csv")
    for name, torn in (("run.csv", 5), ("run.part2.csv", 70_000)):
        with open(tmp_path / name, "ab") as file:
            file.write(b"x" * torn)
    with pytest.raises(RecoveryError, match=r"part2\.csv .*; nothing was.*5 bytes.*run\.csv\.torn"):
        recover(tmp_path / "run.csv")


@pytest.mark.parametrize("taken", [Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_a_copy_gets_a_free_name(tmp_path: Path, taken: Callable[[Path], None]) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"whole\ntorn")
    taken(tmp_path / "run.csv.torn")
    with open(path, "r+b") as file:
        cut = cut_end(file.fileno(), path, 6)
    assert cut is not None
    assert cut.kept_in == tmp_path / "run.csv.torn2"
    assert cut.kept_in.read_bytes() == b"torn"


def test_zero_bytes_that_a_power_cut_leaves_need_no_force(tmp_path: Path) -> None:
    write(tmp_path / "run.csv", 20)
    with open(tmp_path / "run.csv", "ab") as file:
        file.write(bytes(200_000))
    assert recover(tmp_path / "run.csv").bytes_cut == 200_000


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.csv", b"a,b\r\n1,2\r\n3"),
        ("run.csv", b'"x\n' * 100),
        ("run.jsonl", b'{"a": 1}\n{"b'),
        ("run.jsonl", b"\xff\xfe not JSON"),
    ],
)
def test_a_file_that_penstock_has_not_written_is_left_as_it_is(
    tmp_path: Path, name: str, content: bytes
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for force in (False, True):
        with pytest.raises(RecoveryError, match="was not written by Penstock"):
            recover(path, force=force)
        with pytest.raises(RecoveryError, match="was not written by Penstock"):
            write(path, 1, append=True, force=force)
        assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_cut_that_was_killed_after_its_copy_makes_no_second_one(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"whole\ntorn")
    (tmp_path / "run.csv.torn").write_bytes(b"torn")
    (tmp_path / ".run.csv.torn.0123abcd.tmp").write_bytes(b"to")
    with open(path, "r+b") as file:
        cut = cut_end(file.fileno(), path, 6)
    assert cut is not None
    assert cut.kept_in == tmp_path / "run.csv.torn"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run.csv", "run.csv.torn"]


def test_a_copy_that_cannot_be_made_prevents_the_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "run.csv", 20)
    with open(tmp_path / "run.csv", "ab") as file:
        file.write(b"fuel,A")
    before = (tmp_path / "run.csv").read_bytes()

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("penstock._torn_end.put_file", refuse)
    with pytest.raises(SinkWriteError, match="No space left"):
        recover(tmp_path / "run.csv")
    assert (tmp_path / "run.csv").read_bytes() == before


def test_the_copy_is_as_private_as_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    path.write_bytes(b"torn")
    path.chmod(0o600)
    with open(path, "r+b") as file:
        cut_end(file.fileno(), path, 0)
    assert (tmp_path / "run.csv.torn").stat().st_mode & 0o777 == 0o600


def test_a_cut_with_more_behind_it_says_what(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    with open(path, "r+b") as file, pytest.raises(EndTooLargeError, match="3 batches follow"):
        cut_end(file.fileno(), path, 1, more="3 batches follow")
    assert path.read_bytes() == b"abc"


# -- journals of parts ------------------------------------------------------------------------


def killed_parquet(folder: Path, batches: int, name: str = "run.parquet") -> tuple[Path, Path]:
    """What a killed recorder leaves, and its journal."""
    live = folder / "live" / name
    live.parent.mkdir()
    parts = name if "." not in name else f"{name}.parts"

    async def main() -> None:
        async with ParquetSink(live, loss_rows=0) as sink:
            for number in range(batches):
                await sink.write_batch(flow_batch(10, first=10 * number))
            shutil.copytree(live.parent / parts, folder / parts)

    anyio.run(main)
    (journal,) = (folder / parts / ".penstock").glob("journal-*.arrows")
    for part in (folder / parts).glob("part-*"):
        part.unlink()  # what was sealed meanwhile
    return folder / name, journal


@pytest.mark.parametrize("name", ["run.parquet", "run"])
def test_a_journal_with_a_torn_end_is_kept(tmp_path: Path, name: str) -> None:
    path, journal = killed_parquet(tmp_path, 3, name)
    torn = journal.read_bytes()[:-20]
    journal.write_bytes(torn)
    recovery = recover(path)
    assert recovery.rows == 20
    (cut,) = recovery.cuts
    assert cut.kept_in.read_bytes() == torn
    assert cut.kept_in.exists()
    assert flows(path) == numbers(20)


def test_a_journal_torn_anywhere_in_a_batch_is_what_a_kill_leaves(tmp_path: Path) -> None:
    """Also between the dictionaries of the batch and its values, and in them."""
    _, journal = killed_parquet(tmp_path, 1)
    whole = journal.read_bytes()
    first = torn_to(journal, whole[:-1]).end
    for size in range(first, len(whole), 7):
        read = torn_to(journal, whole[:size])
        assert (read.end, read.more) == (first, ""), size


def torn_to(journal: Path, data: bytes) -> JournalContent:
    journal.write_bytes(data)
    return read_journal(journal)


def test_batches_behind_a_damaged_one_are_given_up_only_by_force(tmp_path: Path) -> None:
    path, journal = killed_parquet(tmp_path, 5)
    whole = journal.read_bytes()
    second = [at for at in range(0, len(whole), 8) if whole[at : at + 4] == b"\xff" * 4][-3]
    damaged = whole[: second + 8] + bytes(64) + whole[second + 72 :]
    journal.write_bytes(damaged)
    with pytest.raises(RecoveryError, match="whole batches follow"):
        recover(path)
    assert journal.read_bytes() == damaged
    assert not path.exists()
    (cut,) = recover(path, force=True).cuts
    assert cut.kept_in == tmp_path / "run.parquet.torn"
    assert cut.kept_in.read_bytes() == damaged
    kept = flows(path)
    assert 0 < len(kept) < 50
    assert kept == numbers(len(kept))


def test_columns_of_ones_behind_the_damage_are_not_read_as_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each four bytes of them look like the beginning of one: reading all would take hours."""
    import pyarrow.ipc

    read: list[object] = []
    monkeypatch.setattr(pyarrow.ipc, "read_message", read.append)
    assert not _whole_batches(b"\xff" * 65_536)
    assert not read


@pytest.mark.parametrize("name", ["run.parquet", "run"])
def test_rows_of_a_folder_that_has_lost_its_id_stay(tmp_path: Path, name: str) -> None:
    path, journal = killed_parquet(tmp_path, 3, name)
    journal.with_name("run.json").unlink()
    before = journal.read_bytes()
    with pytest.raises(RecoveryError, match=r"run\.json cannot be read"):
        recover(path)
    assert journal.read_bytes() == before


def test_replacing_a_folder_leaves_the_recordings_below_it(tmp_path: Path) -> None:
    async def record(path: Path, **options: Any) -> None:
        async with ParquetSink(path, **options) as sink:
            await sink.write_batch(flow_batch(5))

    below = tmp_path / "runs" / "monday"
    for path in (below.parent, below):
        anyio.run(record, path)
    anyio.run(lambda: record(below.parent, overwrite=True))
    assert flows(below) == numbers(5)


def cut_off_while_joining(path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """Record two parts, and stop behind the file that was made of them."""

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    async def record() -> None:
        async with ParquetSink(path, part_rows=5) as sink:
            for first in (0, 5):
                await sink.write_batch(flow_batch(5, first=first))

    with monkeypatch.context() as patched:
        patched.setattr(PartsFolder, at, kill)
        with pytest.raises(Killed):
            anyio.run(record)
    assert path.exists()
    assert path.with_name("run.parquet.parts").exists()


@pytest.mark.parametrize("at", ["remove", "_remove_partitions"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [({"append": True}, [*numbers(10), 20.0, 21.0]), ({"overwrite": True}, [20.0, 21.0])],
)
def test_a_run_behind_one_that_was_cut_off_while_joining_has_its_rows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    expected: list[float],
    at: str,
) -> None:
    path = tmp_path / "run.parquet"
    cut_off_while_joining(path, monkeypatch, at)
    assert flows(path) == numbers(10)

    async def record() -> None:
        async with ParquetSink(path, **options) as sink:
            await sink.write_batch(flow_batch(2, first=20))

    anyio.run(record)
    assert flows(path) == expected
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["run.parquet", "run.parquet.seals"]


# -- SQLite -----------------------------------------------------------------------------------


def killed_database(folder: Path, commits: int) -> Path:
    """A database whose rows are in its log, as a kill leaves it."""
    live = folder / "live"
    live.mkdir()

    async def main() -> None:
        async with SqliteSink(live / "run.sqlite", loss_rows=0) as sink:
            for number in range(commits):
                await sink.write_batch(flow_batch(10, first=10 * number))
            for name in ("run.sqlite", "run.sqlite-wal"):
                shutil.copy(live / name, folder)

    anyio.run(main)
    return folder / "run.sqlite"


def test_a_database_is_one_recording_by_its_link_too(tmp_path: Path) -> None:
    path = killed_database(tmp_path, 5)
    link = tmp_path / "linked" / "run.sqlite"
    link.parent.mkdir()
    link.symlink_to(path)
    log = log_path(path)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(RecoveryError, match="confirmed transactions follow"):
        recover(link)
    assert log.read_bytes() == data

    async def replace() -> None:
        async with SqliteSink(link, overwrite=True) as sink:
            with pytest.raises(SinkWriteError, match="being recorded"):
                recover(path)
            await sink.write_batch(flow_batch(3))
            with pytest.raises(SinkWriteError, match="being recorded"):
                recover(path)

    anyio.run(replace)
    assert flows(path) == numbers(3)
    assert link.is_symlink()
    assert not list(tmp_path.rglob("*-lock"))


def test_the_log_of_a_killed_recorder_is_whole(tmp_path: Path) -> None:
    path = killed_database(tmp_path, 5)
    found = read_log(log_path(path))
    assert found is not None
    assert (found.end, found.more) == (log_path(path).stat().st_size, "")
    assert not recover(path).changed
    assert flows(path) == numbers(50)


def test_transactions_behind_a_damaged_frame_are_given_up_only_by_force(tmp_path: Path) -> None:
    path = killed_database(tmp_path, 5)
    log = log_path(path)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(RecoveryError, match="confirmed transactions follow"):
        recover(path)

    async def resume(**options: Any) -> SqliteSink:
        async with SqliteSink(path, append=True, **options) as sink:
            await sink.write_batch(flow_batch(1, first=50))
        return sink

    with pytest.raises(RecoveryError, match="confirmed transactions follow"):
        anyio.run(resume)
    assert log.read_bytes() == data
    sink = anyio.run(lambda: resume(force=True))
    assert sink.cuts[0].kept_in.read_bytes() == data
    kept = flows(path)
    assert kept[:-1] == numbers(len(kept) - 1)


def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE samples (x)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(RecoveryError, match="was not written by Penstock"):
        recover(path)
    assert path.read_bytes() == before


# -- what a format cannot hold is refused before the disk is asked ----------------------------


def test_a_device_whose_folder_cannot_be_named_is_refused_with_its_row(tmp_path: Path) -> None:
    async def run() -> None:
        async with ParquetSink(tmp_path / "run", partition_by=("device",)) as sink:
            await sink.write_batch(named("fuel"))
            await sink.flush()
            with pytest.raises(SinkSchemaError, match="too long for that of a folder"):
                await sink.write_batch(named("x" * 300))
                await sink.flush()

    def named(device: str) -> SampleBatch:
        buffer = ColumnBuffer(MASS_FLOW)
        buffer.append_row(device, "A", 1, 1, 1, 1, {"Mass_Flow": 1.0}, "", None)
        return SampleBatch.from_buffer(buffer)

    with contextlib.suppress(SinkWriteError):
        anyio.run(run)
    recover(tmp_path / "run")
    assert flows(tmp_path / "run") == [1.0]


def test_a_device_that_the_metadata_name_is_refused_at_open(tmp_path: Path) -> None:
    schema = RecordSchema(MASS_FLOW.fields, json.dumps({"devices": {"fuel": {}, "x" * 300: {}}}))

    async def run() -> None:
        with pytest.raises(SinkSchemaError, match="too long for that of a folder"):
            await ParquetSink(tmp_path / "run", partition_by=("device",)).open(schema)

    anyio.run(run)


def test_a_database_refuses_more_columns_than_a_table_takes_at_open(tmp_path: Path) -> None:
    schema = RecordSchema(tuple(Field(f"F{number}", "float") for number in range(2100)))

    async def run() -> None:
        with pytest.raises(SinkSchemaError, match="SQLite takes 2000 in a table"):
            await SqliteSink(tmp_path / "run.sqlite").open(schema)

    anyio.run(run)
