"""Recordings larger than the memory: each reader holds some rows, or a batch, at a time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import pyarrow.parquet
import pytest

import penstock.record
from penstock.cli import main
from penstock.record import ArrowSink
from penstock.record._files import line_ends
from penstock.record._files.sqlite_log import log_path, read_log
from penstock.record._parts import compaction, table_formats
from penstock.record._stored import line_tables, sqlite_tables, table_files
from penstock.record.sink_choice import sink_for
from tests.python.record.batches import flow_batch

pa = pytest.importorskip("pyarrow")

ROWS = 1000
AT_A_TIME = 64
NAMES = ["run.csv", "run.jsonl", "run.sqlite", "run.parquet", "run.arrow", "run"]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (line_tables, "_ROWS_AT_A_TIME"),
        (sqlite_tables, "_ROWS_AT_A_TIME"),
        (table_files, "_ROWS_AT_A_TIME"),
        (table_formats, "_ROWS_OF_A_PIECE"),
        (compaction, "_ROWS_AT_A_TIME"),
    ):
        monkeypatch.setattr(module, name, AT_A_TIME)
    monkeypatch.setattr(line_tables, "_PIECE_BYTES", 8192)


def write(path: Path, first: int = 0, **options: Any) -> None:
    if path.suffix == ".arrow":
        options["part_rows"] = AT_A_TIME  # a batch is never divided

    async def record() -> None:
        kind = ArrowSink if path.suffix == ".arrow" else sink_for
        async with kind(path, **options) as sink:
            for start in range(first, first + ROWS, 50):
                await sink.write_batch(flow_batch(50, first=start))

    anyio.run(record)


def flows(parts: Iterator[Any]) -> list[float]:
    return [flow for part in parts for flow in part.table["Mass_Flow"].to_pylist()]


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_of_any_format_comes_in_pieces(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path)
    recording = penstock.record.open(path)
    whole = recording.to_arrow()
    pieces = list(recording.pieces())
    assert max(len(piece.table) for piece in pieces) <= 2 * AT_A_TIME
    assert [piece.is_first for piece in pieces] == [True, *[False] * (len(pieces) - 1)]
    assert pa.concat_tables([piece.table for piece in pieces]).cast(whole.schema) == whole
    assert all(piece.names == tuple(whole.column_names) for piece in pieces)
    assert all(piece.units == {"Mass_Flow": "SCCM"} for piece in pieces)
    some = list(recording.pieces(["Mass_Flow", "t_utc"]))
    assert [piece.table.column_names for piece in some] == [["t_utc", "Mass_Flow"]] * len(pieces)
    assert [piece.names for piece in some] == [piece.names for piece in pieces]


@pytest.mark.parametrize("name", ["run.parquet", "run.arrow"])
def test_runs_that_were_joined_come_apart_in_pieces(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path)

    async def resumed() -> None:
        schema = penstock.record.RecordSchema(flow_batch(1).schema.fields, '{"run_id": "second"}')
        async with sink_for(path, append=True) as sink:
            await sink.write_batch(flow_batch(90, first=ROWS, schema=schema))

    anyio.run(resumed)
    pieces = list(penstock.record.open(path).pieces())
    firsts = [number for number, piece in enumerate(pieces) if piece.is_first]
    assert [pieces[number].metadata for number in firsts] == [
        {"rate_hz": 20},
        {"run_id": "second"},
    ]
    assert flows(iter(pieces[firsts[1] :])) == [float(n) for n in range(ROWS, ROWS + 90)]


def test_a_damaged_batch_of_an_arrow_file_leaves_the_runs_behind_it_in_place(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.arrow"
    test_runs_that_were_joined_come_apart_in_pieces(tmp_path, path.name)
    content = bytearray(path.read_bytes())
    whole = penstock.record.open(path).to_arrow()
    chance = random.Random(1)
    for _ in range(100):
        damaged = bytearray(content)
        at = chance.randrange(len(content) // 8, len(content) // 2)
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        recording = penstock.record.open(path, strict=False)
        found = flows(recording.pieces())
        if recording.damage_count == 1 and len(found) < len(whole):
            (damage,) = recording.damages
            assert damage.rows == len(whole) - len(found)
            pieces = list(recording.pieces())
            second = [piece for piece in pieces if piece.metadata == {"run_id": "second"}]
            assert flows(iter(second)) == [float(n) for n in range(ROWS, ROWS + 90)]
            return
    pytest.fail("no flipped byte has damaged one batch alone")


def test_a_csv_file_without_a_description_has_one_type_for_each_column(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    write(path)
    (tmp_path / "run.csv.meta.json").unlink()
    text = path.read_bytes()
    # Nothing in the first pieces, whole numbers in others, and a fraction in the last one.
    lines = text.split(b"\r\n")
    for number in range(1, 500):
        lines[number] = lines[number].replace(b",%d.0," % (number - 1), b",,")
        lines[number] = lines[number].replace(b",%d," % (number - 1), b",,")
    lines[-2] = lines[-2].replace(b",999", b",999.5", 1)
    path.write_bytes(b"\r\n".join(lines))
    pieces = list(penstock.record.open(path).pieces())
    assert len(pieces) > 3
    assert {str(piece.table.schema.field("Mass_Flow").type) for piece in pieces} == {"double"}
    found = flows(iter(pieces))
    assert found[:499] == [None] * 499
    assert found[499:] == [*map(float, range(499, 999)), 999.5]


@pytest.mark.parametrize("line", [3, 300, 990])
def test_a_stray_quote_takes_no_more_than_a_piece_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: int
) -> None:
    path = tmp_path / "run.csv"
    write(path)
    lines = path.read_bytes().split(b"\r\n")
    lines[line] = lines[line].replace(b"fuel,", b'fuel,"')
    path.write_bytes(b"\r\n".join(lines))
    monkeypatch.setattr(line_tables, "_MOST_LINES_BACK", 5)
    recording = penstock.record.open(path, strict=False)
    pieces = list(recording.pieces())
    assert max(len(piece.table) for piece in pieces) <= 2 * AT_A_TIME
    assert flows(iter(pieces)) == [float(n) for n in range(ROWS) if n != line - 1]
    assert [damage.place for damage in recording.damages] == [f"line {line + 1}"]


def test_the_log_of_a_database_is_read_frame_by_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.sqlite"

    async def record() -> None:
        async with sink_for(path, loss_rows=0) as sink:
            for start in range(0, 500, 50):
                await sink.write_batch(flow_batch(50, first=start))
            monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it was read whole"))
            found = read_log(log_path(path))
            assert found is not None
            assert found.end == found.size == log_path(path).stat().st_size
            assert not found.more

    anyio.run(record)


def test_pieces_of_text_name_the_lines_of_damaged_rows(tmp_path: Path) -> None:
    for name in ("run.csv", "run.jsonl"):
        path = tmp_path / name
        write(path)
        lines = path.read_bytes().split(b"\n")
        lines[700] = b"damaged"
        path.write_bytes(b"\n".join(lines))
        recording = penstock.record.open(path, strict=False)
        assert len(flows(recording.pieces())) == ROWS - 1
        assert [damage.place for damage in recording.damages] == ["line 701"]


@pytest.mark.parametrize("name", ["run.csv", "run.jsonl"])
@pytest.mark.parametrize("described", [True, False])
@pytest.mark.parametrize("fill", [b"\0", b"y"])
def test_a_line_without_an_end_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, described: bool, fill: bytes
) -> None:
    """As where a disk has lost blocks of a file, or an editor its line ends."""
    for module in (line_ends, line_tables):
        monkeypatch.setattr(module, "_LARGEST_ROW", 16384)
    path = tmp_path / name
    write(path)
    if not described:
        for other in tmp_path.iterdir():
            if other != path:
                other.unlink()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:501], fill * 100_000, *lines[501:]]))
    recording = penstock.record.open(path, strict=False)
    assert flows(recording.pieces()) == [float(n) for n in range(ROWS) if n != 500]
    [damage] = recording.damages
    assert (damage.place, damage.reason) == ("line 502", "it is longer than 16 MiB")


@pytest.mark.parametrize("columns", [[], ["other"]])
@pytest.mark.parametrize("name", ["run.arrow", "run.parquet"])
def test_a_file_without_the_columns_that_are_needed_comes_to_an_end(
    tmp_path: Path, name: str, columns: list[str]
) -> None:
    path = tmp_path / name
    table = pa.table({"other": range(100)}).select(columns)
    if name == "run.arrow":
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    else:
        pyarrow.parquet.write_table(table, path)
    for needed in (None, ("device", "t_utc")):
        pieces = penstock.record.open(path, strict=False).pieces(needed)
        assert len(list(islice(pieces, 3))) <= 2
    assert main(["verify", str(path)]) in (5, 8)
