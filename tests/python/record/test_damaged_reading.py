"""Damaged recordings: the good rows are read, the bad ones are named, and nothing crashes."""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

import penstock.record
from penstock.cli import main
from penstock.record import (
    ArrowSink,
    CsvSink,
    DamagedError,
    JsonlSink,
    ParquetSink,
    RecordError,
    SinkWriteError,
    SqliteSink,
)
from penstock.record._stored.sound_tables import converted
from tests.python.record.batches import flow_batch
from tests.python.record.damaged_recordings import (
    COMMANDS,
    Original,
    Trial,
    examine,
    joined,
    originals,
)

pa = pytest.importorskip("pyarrow")

SINKS: dict[str, Callable[..., Any]] = {
    "run.csv": CsvSink,
    "run.jsonl": JsonlSink,
    "run.sqlite": SqliteSink,
    "run.parquet": ParquetSink,
    "run.arrow": ArrowSink,
    "run": ParquetSink,
}


def write(path: Path, *batches: Any) -> Path:
    async def run() -> None:
        async with SINKS[path.name](path) as sink:
            for batch in batches:
                await sink.write_batch(batch)

    anyio.run(run)
    return path


def read(path: Path) -> tuple[list[float], list[str]]:
    """The flows that can be read, and the places that cannot."""
    recording = penstock.record.open(path, strict=False)
    flows = recording.to_arrow()["Mass_Flow"].to_pylist()
    return flows, [damage.place for damage in recording.damages]


def line_of(path: Path, number: int, change: Callable[[bytes], bytes]) -> None:
    """Change a line, counted from 1."""
    lines = path.read_bytes().split(b"\n")
    lines[number - 1] = change(lines[number - 1])
    path.write_bytes(b"\n".join(lines))


TEXT_FAULTS: dict[str, list[tuple[Callable[[bytes], bytes], str]]] = {
    "run.csv": [
        (lambda line: line.replace(b",8,", b",8x,"), "invalid value '8x'"),
        (lambda line: line.replace(b",N2", b""), "fields instead of"),
        (lambda line: line.replace(b"fuel,A", b'fuel,A"'), "a quote is in a place"),
        (lambda line: line.replace(b"fuel,A", b'fuel,"A'), "never closed"),
        (lambda line: line.replace(b"N2", b"\xff\xfe"), "Gas is not a valid string: invalid UTF8"),
        (lambda line: b"\0" + line[5:], "fields instead of|has no device|error"),
    ],
    "run.jsonl": [
        (lambda line: line.replace(b"8.0", b"8.0x").replace(b": 8,", b": 8x,"), "not JSON"),
        (lambda _: b"5", "not a JSON object"),
        (lambda _: b"[" * 100_000, "not JSON|nested"),
        (lambda line: line.replace(b"Mass_Flow", b"Mass_Flaw"), "columns are not those"),
        (lambda line: line.replace(b"N2", b"\xff"), "not UTF-8"),
        (lambda line: line.replace(b'"fuel"', b"null"), "device.*null"),
    ],
}


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [(name, *fault) for name, faults in TEXT_FAULTS.items() for fault in faults],
)
def test_a_damaged_row_is_named_and_the_others_are_read(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes], reason: str
) -> None:
    path = write(tmp_path / name, flow_batch(20))
    line_of(path, 10, change)
    recording = penstock.record.open(path, strict=False)
    flows = recording.to_arrow()["Mass_Flow"].to_pylist()
    assert flows == [float(n) for n in range(20) if n != 8]
    (damage,) = recording.damages
    assert (damage.path, damage.place, damage.rows) == (path, "line 10", 1)
    with pytest.raises(DamagedError, match="line 10") as raised:
        penstock.record.open(path).to_arrow()
    assert raised.value.damage == damage
    assert re.search(reason, damage.reason), damage.reason


def test_the_commands_name_a_damaged_row_and_use_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "run.csv", flow_batch(20))
    line_of(path, 10, lambda line: line.replace(b",8,", b",8x,"))
    assert main(["verify", str(path)]) == 8
    assert "damaged: " in (out := capsys.readouterr().out)
    assert "line 10: " in out
    assert "samples 19" in out
    assert main(["verify", "--json", str(path)]) == 8
    (found,) = json.loads(capsys.readouterr().out).values()
    assert (found["damaged"], len(found["damages"])) == (1, 1)
    assert main(["export", str(path), str(tmp_path / "out.parquet")]) == 0
    shown = capsys.readouterr()
    assert "wrote" in shown.out
    assert "19 rows" in shown.out
    assert "warning: " in shown.err
    assert "line 10: " in shown.err
    assert main(["plot", str(path)]) == 0
    assert "line 10: " in capsys.readouterr().err


def test_a_row_that_a_kill_has_torn_is_no_error_and_is_told(tmp_path: Path) -> None:
    for name in ("run.csv", "run.jsonl"):
        path = write(tmp_path / name, flow_batch(5))
        path.write_bytes(path.read_bytes()[:-30] if name == "run.csv" else path.read_bytes() + b"{")
        recording = penstock.record.open(path)
        assert len(recording.to_arrow()) == (4 if name == "run.csv" else 5)
        assert [damage.reason for damage in recording.damages] == ["the last row is not complete"]


@pytest.mark.parametrize("beside", [b"", b"{", b"[]", b'{"columns": 5}', b'{"columns": [{}]}'])
def test_a_description_that_cannot_be_read_costs_no_row(tmp_path: Path, beside: bytes) -> None:
    path = write(tmp_path / "run.csv", flow_batch(5))
    (tmp_path / "run.csv.meta.json").write_bytes(beside)
    recording = penstock.record.open(path, strict=False)
    assert recording.to_arrow()["Mass_Flow"].to_pylist() == [0, 1, 2, 3, 4]
    assert [damage.path.name for damage in recording.damages] == ["run.csv.meta.json"]
    with pytest.raises(DamagedError, match=r"run\.csv\.meta\.json"):
        penstock.record.open(path).to_arrow()


@pytest.mark.parametrize("name", ["run.csv", "run.jsonl", "run.parquet", "run.sqlite"])
def test_a_recording_that_has_just_begun_holds_no_rows_yet(tmp_path: Path, name: str) -> None:
    async def run() -> None:
        async with SINKS[name](tmp_path / name):
            with pytest.raises(RecordError, match="no rows yet"):
                penstock.record.open(tmp_path / name).to_arrow()

    anyio.run(run)


def test_a_csv_file_of_whole_numbers_and_later_others_needs_no_description(tmp_path: Path) -> None:
    path = write(tmp_path / "run.csv", flow_batch(5000))
    (tmp_path / "run.csv.meta.json").unlink()
    line_of(path, 4900, lambda line: line.replace(b"4898", b"4898.5"))
    line_of(path, 10, lambda line: line + b",")
    flows, places = read(path)
    assert places == ["line 10"]
    assert len(flows) == 4999


@pytest.mark.parametrize("tells", ["the row", "another row", "no row", "a row beyond"])
@pytest.mark.parametrize("bad", [[], [0], [999], [3, 4, 700], [*range(0, 1000, 7)]])
def test_every_damaged_row_is_found_whatever_a_failure_tells(tells: str, bad: list[int]) -> None:
    refused: list[int] = []
    calls = 0

    def convert(rows: Sequence[int]) -> list[int]:
        nonlocal calls
        calls += 1
        wrong = [place for place, row in enumerate(rows) if row in bad]
        if wrong:
            place = {"the row": wrong[0], "another row": len(rows) // 3, "a row beyond": 5000}
            raise ValueError(f"Row #{place.get(tells, -1) + 1}: invalid")
        return list(rows)

    def suspect(error: Exception) -> int | None:
        return int(re.findall(r"\d+", str(error))[0]) - 1

    def refuse(row: int, reason: str) -> None:
        assert "invalid" in reason
        refused.append(row)

    tables = converted(range(1000), convert, refuse, None if tells == "no row" else suspect)
    assert refused == bad
    assert [row for table in tables for row in table] == sorted({*range(1000)}.difference(bad))
    if tells == "the row" and len(bad) < 5:
        assert calls <= 1 + 3 * len(bad)


def test_damaged_pages_of_a_database_cost_only_their_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", *(flow_batch(500, first=500 * n) for n in range(10)))
    with sqlite3.connect(path) as database:
        (size,) = database.execute("PRAGMA page_size").fetchone()
    database.close()
    data = bytearray(path.read_bytes())
    middle = len(data) // size // 2 * size
    data[middle : middle + size] = b"\xff" * size
    path.write_bytes(data)
    flows, places = read(path)
    assert 4800 < len(flows) < 5000
    assert flows == sorted(set(flows))
    assert any(place.startswith("table samples, row ") for place in places)
    assert places[-1] == ""  # what SQLite itself says of its pages
    with pytest.raises(DamagedError):
        penstock.record.open(path).to_arrow()


def test_a_damaged_batch_of_an_arrow_file_costs_only_its_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "run.arrow", flow_batch(50))
    table = pa.ipc.open_file(path).read_all()
    with pa.ipc.new_file(path, table.schema) as file:
        for first in range(0, 50, 10):
            file.write_table(table.slice(first, 10))
    data = path.read_bytes()
    # The offsets of the texts of one batch, out of their bounds.
    fuel = data.find(b"fuel" * 10)
    damaged = data[: fuel - 48] + b"\x7f" * 48 + data[fuel:]
    path.write_bytes(damaged)
    flows, places = read(path)
    assert len(flows) == 40
    assert places == ["batch 1"]


def test_an_arrow_file_without_its_end_is_read_up_to_there(tmp_path: Path) -> None:
    path = write(tmp_path / "run.arrow", flow_batch(50))
    path.write_bytes(path.read_bytes()[:-100])
    flows, places = read(path)
    assert len(flows) == 50
    assert places[0] == "the index at its end"


def test_a_folder_with_a_damaged_part_is_read_without_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with ParquetSink(tmp_path / "run", part_rows=10) as sink:
            for number in range(3):
                await sink.write_batch(flow_batch(10, first=10 * number))

    anyio.run(run)
    second = tmp_path / "run" / "part-000002.parquet"
    second.write_bytes(second.read_bytes()[:200])
    flows, _ = read(tmp_path / "run")
    assert flows == [*map(float, range(10)), *map(float, range(20, 30))]


def test_of_several_formats_the_one_with_most_rows_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("run.parquet", "run", "run.csv"):
        write(tmp_path / name, flow_batch(20))
    assert read(tmp_path) == ([float(n) for n in range(20)], [])
    (tmp_path / "run.parquet").unlink()
    write(tmp_path / "run.parquet", flow_batch(15))
    recording = penstock.record.open(tmp_path)
    assert len(recording.to_arrow()) == 20
    (damage,) = recording.damages
    assert damage.path == tmp_path / "run.parquet"
    assert "it has 15 rows" in damage.reason
    assert main(["verify", str(tmp_path)]) == 8
    assert "it has 15 rows that can be read" in capsys.readouterr().out


def test_an_export_beside_a_run_is_not_read_with_it(tmp_path: Path) -> None:
    for name in ("run.parquet", "run.csv"):
        write(tmp_path / name, flow_batch(20))
    main(["export", str(tmp_path / "run.csv"), str(tmp_path / "mine.csv")])
    assert read(tmp_path) == ([float(n) for n in range(20)], [])


def test_metadata_that_cannot_be_read_cost_no_row(tmp_path: Path) -> None:
    path = write(tmp_path / "run.arrow", flow_batch(5))
    table = pa.ipc.open_file(path).read_all()
    for about in (b"\xff", b"[]", b'{"devices": 5}', b'{"devices": {"fuel": 5}}'):
        with pa.ipc.new_file(path, table.schema.with_metadata({b"penstock": about})) as file:
            file.write_table(table.replace_schema_metadata({b"penstock": about}))
        flows, places = read(path)
        assert (flows, places) == ([0, 1, 2, 3, 4], ["metadata"])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Original]:
    return {each.name: each for each in originals(tmp_path_factory.mktemp("sound"))}


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "csv",
        "jsonl",
        "sqlite",
        "parquet",
        "arrow",
        "parts",
        "journal",
        "Arrow parts",
        "log of SQLite",
    ],
)
def test_no_damage_is_a_crash_or_a_defect(sound: dict[str, Original], name: str, cut: bool) -> None:
    """A small sample of what ``damaged_recordings`` does with thousands of copies."""
    codes, faults = examine(Trial(sound[name], COMMANDS, "sample", cut), 4)
    assert faults == []
    assert sum(codes.values()) == 4 * len(COMMANDS)


def test_results_of_other_commands_stay_beside_new_ones() -> None:
    def results(copies: int, **codes: int) -> dict[str, Any]:
        counts = {name.replace("_", ": "): count for name, count in codes.items()}
        commands = dict.fromkeys(name.partition("_")[0] for name in codes)
        return {
            **{way: {"copies": copies, "codes": counts} for way in ("flipped", "truncated")},
            "faults": [f"csv, cut, copy 7, {command}: wrong" for command in commands],
        }

    known = results(8, verify_0=8, query_5=8)
    new = results(8, query_0=7, query_5=1)
    found = joined(known, new)
    assert found["flipped"]["codes"] == {"query: 0": 7, "query: 5": 1, "verify: 0": 8}
    assert found["faults"] == [f"csv, cut, copy 7, {name}: wrong" for name in ("verify", "query")]
    assert joined(known, results(9, query_0=9)) == results(9, query_0=9)
    assert joined(None, new) == new


def test_offsets_out_of_their_bounds_are_found_before_they_are_used(tmp_path: Path) -> None:
    path = write(tmp_path / "run.arrow", flow_batch(100))
    data = path.read_bytes()
    for seed in range(40):
        choice = random.Random(seed)
        damaged = bytearray(data)
        for _ in range(8):
            damaged[choice.randrange(len(damaged))] = choice.randrange(256)
        path.write_bytes(damaged)
        try:
            table = penstock.record.open(path, strict=False).to_arrow()
        except RecordError:
            continue
        table.validate(full=True)


def test_a_damaged_name_in_a_message_of_sqlite_is_a_reading_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", flow_batch(20))
    # The statement of the view, which SQLite quotes when it cannot parse it.
    data = path.read_bytes()
    at = data.find(b"CREATE VIEW") + 3
    path.write_bytes(data[:at] + b"\xfd" + data[at + 1 :])
    recording = penstock.record.open(path, strict=False)
    with pytest.raises(RecordError):
        recording.to_arrow()
    assert "cannot be read" in recording.damages[0].reason
    assert main(["verify", str(path)]) == 5
    with pytest.raises(RecordError):
        penstock.record.recover(path)


@pytest.mark.parametrize("name", ["run.csv", "run.jsonl", "run.parquet"])
def test_a_part_that_is_missing_between_others_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    write(path, flow_batch(5))
    for part in ("run.part2", "run.part4"):
        shutil.copy(path, path.with_stem(part))
    with pytest.raises(DamagedError, match=rf"run\.part3\{path.suffix}: it is missing"):
        penstock.record.open(path).to_arrow()
    for target in (path, tmp_path):
        recording = penstock.record.open(target, strict=False)
        assert len(recording.to_arrow()) == 15
        assert [damage.path.name for damage in recording.damages] == [f"run.part3{path.suffix}"]


def test_a_plot_of_what_cannot_be_read_names_verify_and_no_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "run.arrow", flow_batch(0, 100))
    path.write_bytes(path.read_bytes()[:3000])  # the head, and a part of the only batch
    assert main(["plot", str(path)]) == 5
    assert "no sample to plot; penstock verify says" in capsys.readouterr().err
    assert main(["plot", str(path), "--device", "fuel"]) == 5
    assert "no sample to plot; check --field" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["a page", "the end", "a value"])
@pytest.mark.parametrize("name", ["run.parquet", "run.arrow"])
def test_a_damaged_file_stays_and_a_resumed_run_follows_it(
    tmp_path: Path, name: str, damage: str
) -> None:
    path = write(tmp_path / name, flow_batch(1000))
    data = bytearray(path.read_bytes())
    if damage == "the end":
        del data[-100:]
    else:
        at = len(data) // 3 if damage == "a page" else data.index(b"N2")
        data[at : at + 2] = b"O2"
    path.write_bytes(data)
    seals = path.with_name(f"{name}.seals").read_bytes()
    kind = SINKS[name]

    async def resume() -> None:
        async with kind(path, append=True) as sink:
            await sink.write_batch(flow_batch(5, first=2000))

    anyio.run(resume)
    assert path.read_bytes() == data
    assert path.with_name(f"{name}.seals").read_bytes() == seals
    assert read(path.with_stem("run.part2"))[0] == [2000, 2001, 2002, 2003, 2004]
    assert read(path)[0][-5:] == [2000, 2001, 2002, 2003, 2004]
    assert main(["verify", str(path)]) in (5, 8)


def test_rows_behind_a_damaged_part_of_a_killed_run_are_kept_and_named(tmp_path: Path) -> None:
    original = next(each for each in originals(tmp_path) if each.name == "Arrow parts")
    path = original.copy(tmp_path / "copy")
    part = original.files(path.parent)[0]
    part.write_bytes(part.read_bytes()[:500])

    async def resume() -> None:
        async with ArrowSink(path, append=True) as sink:
            await sink.write_batch(flow_batch(5))

    with pytest.raises(
        SinkWriteError, match=r"part 1, .* \S*run\.arrow\.parts, or in it\..*; penstock export"
    ):
        anyio.run(resume)
    assert read(path)[0][-5:] == [0, 1, 2, 3, 4]


def test_a_damaged_database_is_not_continued(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", flow_batch(3000))
    data = bytearray(path.read_bytes())
    at = len(data) // 4096 // 2 * 4096
    data[at : at + 100] = bytes(100)
    path.write_bytes(data)

    async def resume() -> None:
        async with SqliteSink(path, append=True) as sink:
            await sink.write_batch(flow_batch(5))

    with pytest.raises(RecordError, match=r"damaged|malformed"):
        anyio.run(resume)
    assert path.read_bytes() == data


def test_a_database_with_a_damaged_description_is_continued_in_another_table(
    tmp_path: Path,
) -> None:
    path = write(tmp_path / "run.sqlite", flow_batch(3))
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("UPDATE penstock_parts SET columns = '[{'")

    async def resume() -> None:
        async with SqliteSink(path, append=True) as sink:
            await sink.write_batch(flow_batch(2, first=7))

    anyio.run(resume)
    assert read(path) == ([0, 1, 2, 7, 8], ["table samples"])
    with pytest.raises(DamagedError, match="its description in penstock_parts cannot be read"):
        penstock.record.open(path).to_arrow()
