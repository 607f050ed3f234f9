"""``verify``: what it finds in recorded files, and what it says of files that it cannot read."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import penstock.record
from penstock.cli._stored.checks import check
from penstock.cli._stored.reading import read_parts
from penstock.record import DamagedError, Field, ParquetSink, RecordSchema, RecoveryError
from penstock.record.sink_choice import sink_for
from tests.python.cli.made_recordings import changing_recording, output, record_into, rewritten
from tests.python.record.batches import MASS_FLOW, flow_batch


@pytest.mark.parametrize("name", ["run.csv", "run.parquet", "run.jsonl", "run.sqlite", ""])
def test_a_whole_recording_verifies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    record_into(tmp_path)
    code, out, err = output(capsys, "verify", tmp_path / name)
    assert (code, err) == (0, "")
    assert "no problem; parts 1, runs 1, events 0" in out
    assert "fuel: samples 100, failed 0, missed slots 0, gaps 0" in out


def test_slots_that_the_rows_report_as_missed_are_no_gap(tmp_path: Path) -> None:
    record_into(tmp_path, slow_at=30)
    findings = check(lambda: read_parts(tmp_path / "run.parquet"))
    assert findings.problems == 0
    assert findings.devices["fuel"].missed_slots > 0
    assert findings.devices["fuel"].samples + findings.devices["fuel"].missed_slots == 100


def test_rows_that_are_gone_are_a_gap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_into(tmp_path)
    rewritten(tmp_path / "run.parquet", [n for n in range(200) if not 50 <= n < 60])
    code, out, _ = output(capsys, "verify", "--json", tmp_path / "run.parquet")
    assert code == 8
    (found,) = json.loads(out).values()
    assert found["problems"] == 2
    for device in found["devices"].values():
        assert (device["gaps"], device["out_of_order"], device["duplicates"]) == (1, 0, 0)
        assert device["longest_gap_s"] == pytest.approx(0.6)


def test_duplicates_and_wrong_order_are_found(tmp_path: Path) -> None:
    record_into(tmp_path)
    order = [*range(100), 98, 99, *range(100, 150), 149, 140, *range(150, 200)]
    path = rewritten(tmp_path / "run.parquet", order)
    findings = check(lambda: read_parts(path))
    duplicates = sum(device.duplicates for device in findings.devices.values())
    out_of_order = sum(device.out_of_order for device in findings.devices.values())
    assert (duplicates, out_of_order) == (4, 0)


def test_a_file_without_the_columns_of_a_recording_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"device": ["a"], "flow": [1.0]}), tmp_path / "other.parquet")
    code, out, _ = output(capsys, "verify", tmp_path / "other.parquet")
    assert code == 8
    assert "other.parquet has no column unit_id, t_utc, t_mono_ns" in out


def test_what_cannot_be_read_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torn.parquet").write_bytes(b"PAR1 and nothing more")
    code, _, err = output(capsys, "verify", tmp_path / "torn.parquet")
    assert code == 5
    assert f"nothing of {tmp_path / 'torn.parquet'} can be read: " in err
    code, _, err = output(capsys, "verify", tmp_path / "nowhere")
    assert (code, "does not exist" in err) == (5, True)


def test_a_table_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path)
    code, out, err = output(capsys, "verify", tmp_path / "run.sqlite", "--table", "kiln")
    assert (code, out) == (5, "")
    assert "has no recording kiln yet; check the path and --table" in err


def test_devices_are_listed_in_the_order_of_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changing_recording(tmp_path / "run.parquet")
    _, out, _ = output(capsys, "verify", path)
    assert out.index("  d: ") < out.index("  b: ")


def test_what_recover_cuts_off_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_into(tmp_path)
    with (tmp_path / "run.csv").open("ab") as file:
        file.write(b"fuel,A")
    code, out, _ = output(capsys, "recover", tmp_path / "run.csv")
    assert code == 0
    assert f"6 bytes of a torn end cut off and kept in {tmp_path / 'run.csv.torn'}" in out
    with (tmp_path / "run.csv").open("ab") as file:
        file.write(b"x" * 100_000)
    code, _, err = output(capsys, "recover", tmp_path / "run.csv")
    assert (code, "add --force" in err) == (5, True)
    code, out, _ = output(capsys, "recover", "--json", "--force", tmp_path / "run.csv")
    assert json.loads(out)["kept_in"] == [f"{tmp_path / 'run.csv.torn2'}"]


@pytest.mark.parametrize("command", ["verify", "plot"])
def test_a_folder_whose_parts_are_all_gone_tells_which_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    async def main() -> None:
        async with ParquetSink(tmp_path / "run") as sink:
            await sink.write_batch(flow_batch(10))

    anyio.run(main)
    (part,) = (tmp_path / "run").glob("part-*.parquet")
    part.unlink()
    code, _, err = output(capsys, command, tmp_path / "run")
    assert code == 5
    assert f"{part} is missing, with rows of part 1. Restore its parts" in err


def test_recover_and_verify_go_on_behind_a_file_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path)
    with (tmp_path / "run.csv").open("ab") as file:
        file.write(b"fuel,A")
    away = [tmp_path / "nowhere.csv", tmp_path / "elsewhere.csv"]
    code, out, err = output(capsys, "recover", away[0], tmp_path / "run.csv", away[1])
    assert code == 5
    assert [f"{path} does not exist" in err for path in away] == [True, True]
    assert f"recovered {tmp_path / 'run.csv'}: 6 bytes of a torn end cut off" in out
    code, out, err = output(capsys, "verify", away[0], tmp_path / "run.csv", away[1])
    assert (code, err.count("does not exist")) == (5, 2)
    assert f"{tmp_path / 'run.csv'}: no problem" in out
    data = (tmp_path / "run.csv").read_bytes()
    (tmp_path / "run.csv").write_bytes(data.replace(b"fuel", b"fool", 1))
    assert output(capsys, "verify", away[0], tmp_path / "run.csv")[0] == 8


def in_two_files(path: Path) -> Path:
    """A recording whose columns change; the second file."""
    wider = RecordSchema((*MASS_FLOW.fields, Field("Abs_Press", "float")), MASS_FLOW.metadata)

    async def main() -> None:
        async with sink_for(path) as sink:
            await sink.write_batch(flow_batch(20))
            await sink.write_batch(flow_batch(20, first=20, schema=wider))

    anyio.run(main)
    return path.with_stem(f"{path.stem}.part2")


@pytest.mark.parametrize("name", ["run.csv", "run.jsonl", "run.parquet", "run.arrow"])
def test_a_file_that_goes_on_in_a_missing_one_is_no_whole_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / name
    second = in_two_files(path)
    assert output(capsys, "verify", path)[0] == 0
    second.rename(tmp_path / "elsewhere")
    for target in (path, tmp_path):
        code, out, _ = output(capsys, "verify", target)
        assert (code, "1 problems" in out) == (8, True), out
        assert f"  damaged: {second}: it is missing, and {name} continues in it\n" in out
    with pytest.raises(DamagedError, match="continues in it"):
        penstock.record.open(path).to_arrow()
    assert len(penstock.record.open(path, strict=False).to_arrow()) == 20

    async def go_on() -> None:
        async with sink_for(path, append=True) as sink:
            await sink.write_batch(flow_batch(10, first=40))

    with pytest.raises(RecoveryError, match="the recording cannot be continued"):
        anyio.run(go_on)
    assert output(capsys, "verify", path)[0] == 8


def test_a_part_that_is_checked_alone_is_named_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.csv"
    second = in_two_files(path)
    code, out, _ = output(capsys, "verify", second)
    assert code == 0
    assert "  part: run.part2.csv is one part of a recording" in out
    assert f"penstock verify {path} checks all of them" in out
    path.rename(tmp_path / "elsewhere")
    for target in (second, tmp_path):
        code, out, _ = output(capsys, "verify", target)
        assert code == 8
        assert f"  damaged: {path}: it is missing, and run.part2.csv is there\n" in out


def test_recover_takes_all_recordings_of_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "run-1"
    folder.mkdir(parents=True)
    record_into(folder)
    torn = [folder / "run.csv", folder / "run.jsonl"]
    for path in torn:
        with path.open("ab") as file:
            file.write(b"fuel,A")
    beside = {path: path.read_bytes() for path in folder.iterdir() if path not in torn}
    code, out, err = output(capsys, "recover", tmp_path / "runs")
    assert (code, err) == (0, "")
    for path in torn:
        kept = path.with_name(f"{path.name}.torn")
        assert f"recovered {path}: 6 bytes of a torn end cut off and kept in {kept}" in out
        assert kept.read_bytes() == b"fuel,A"
    for name in ("run.parquet", "run.sqlite"):
        assert f"{folder / name} is complete; nothing to recover" in out
    assert {path: path.read_bytes() for path in beside} == beside
    assert output(capsys, "verify", folder)[0] == 0


def test_recover_of_a_folder_tells_each_file_and_touches_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path)
    (tmp_path / "notes.csv").write_bytes(b"who,what\nme,this and tha")
    with (tmp_path / "run.csv").open("ab") as file:
        file.write(b"x" * 100_000)
    with (tmp_path / "run.jsonl").open("ab") as file:
        file.write(b"fuel,A")
    before = (tmp_path / "run.csv").read_bytes()
    code, out, err = output(capsys, "recover", tmp_path)
    assert code == 5
    assert f"{tmp_path / 'notes.csv'} was not written by Penstock" in err
    assert f"{tmp_path / 'run.csv'} cannot be read from byte" in err
    assert f"recovered {tmp_path / 'run.jsonl'}: 6 bytes" in out
    assert (tmp_path / "run.csv").read_bytes() == before
    assert (tmp_path / "notes.csv").read_bytes() == b"who,what\nme,this and tha"
    assert [path.name for path in tmp_path.glob("*.torn*")] == ["run.jsonl.torn"]
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "notes.txt").write_text("mine")
    code, _, err = output(capsys, "recover", empty)
    assert (code, "is not the folder of a recording" in err) == (5, True)


def test_recover_mends_a_file_behind_one_that_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_into(tmp_path)
    third = tmp_path / "run.part3.csv"
    third.write_bytes((tmp_path / "run.csv").read_bytes() + b"fuel,A")
    code, out, _ = output(capsys, "recover", tmp_path / "run.csv")
    assert (code, f"kept in {third}.torn" in out) == (0, True)


def test_recover_names_a_folder_below_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("run-1", "run-2"):
        (tmp_path / name).mkdir()
        record_into(tmp_path / name)
    listed = Path.iterdir

    def iterdir(path: Path) -> Iterator[Path]:
        if path.name == "run-1":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    code, out, err = output(capsys, "recover", tmp_path)
    assert (code, f"{tmp_path / 'run-1'} cannot be read: Permission denied" in err) == (5, True)
    assert f"{tmp_path / 'run-2' / 'run.csv'} is complete" in out
