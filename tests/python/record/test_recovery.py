from __future__ import annotations

import csv
import os
import select
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.record import CsvSink, ParquetSink, RecoveryError, SinkWriteError, recover
from tests.python.record.batches import few, flow_batch

pq = pytest.importorskip("pyarrow.parquet")


def flows(path: Path) -> list[float]:
    table = pq.read_table(path)
    table.validate(full=True)
    if "event" in table.column_names:
        table = table.filter(table["event"].is_null())
    return [float(v) for v in table["Mass_Flow"].to_pylist()]


def numbers(count: int) -> list[float]:
    return [float(n) for n in range(count)]


def cut_off(folder: Path, batches: int, **options: Any) -> Path:
    """What a killed recorder leaves: a copy of its files in the middle of the recording."""
    path = folder / "live" / "run.parquet"
    path.parent.mkdir()

    async def main() -> None:
        async with ParquetSink(path, **{"loss_rows": 0, **options}) as sink:
            await sink.write_batch(flow_batch(0))
            for number in range(batches):
                await sink.write_batch(flow_batch(10, first=10 * number))
            shutil.copytree(path.parent / "run.parquet.parts", folder / "run.parquet.parts")

    anyio.run(main)
    return folder / "run.parquet"


def journal_of(path: Path) -> Path:
    (journal,) = (path.with_name("run.parquet.parts") / ".penstock").glob("journal-*.arrows")
    return journal


def test_the_rows_of_the_journal_are_joined_to_the_parts(tmp_path: Path) -> None:
    path = cut_off(tmp_path, 7, part_rows=20)
    assert flows(tmp_path / "run.parquet.parts") == numbers(60)
    recovery = recover(path)
    assert (recovery.path, recovery.rows, recovery.bytes_cut) == (path, 70, 0)
    assert recovery.changed
    assert flows(path) == numbers(70)
    assert not (tmp_path / "run.parquet.parts").exists()


def test_a_recorder_killed_before_its_first_row_leaves_its_columns(tmp_path: Path) -> None:
    path = cut_off(tmp_path, 0)
    assert journal_of(path).stat().st_size > 0
    assert recover(path).rows == 0
    assert flows(path) == []


def test_recovering_twice_does_no_harm(tmp_path: Path) -> None:
    path = cut_off(tmp_path, 3)
    assert recover(path).changed
    assert not recover(path).changed
    assert flows(path) == numbers(30)


def test_a_part_that_was_sealed_before_its_journal_went_is_not_doubled(tmp_path: Path) -> None:
    path = cut_off(tmp_path, 3, seal_interval=0)
    assert flows(tmp_path / "run.parquet.parts") == numbers(30)
    assert journal_of(path).exists()
    assert recover(path).rows == 30
    assert flows(path) == numbers(30)


@few
@given(share=st.floats(0, 1))
def test_a_cut_in_the_journal_loses_only_the_torn_batch(
    tmp_path_factory: pytest.TempPathFactory, share: float
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    path = cut_off(folder, 5)
    journal = journal_of(path)
    whole = journal.read_bytes()
    head = len(whole) // 2  # the schema and the empty batch take less
    journal.write_bytes(whole[: head + int(share * (len(whole) - head))])
    rows = recover(path).rows
    assert rows % 10 == 0
    assert flows(path) == numbers(rows)


def test_a_recovery_killed_before_it_removed_the_parts_is_repeated(tmp_path: Path) -> None:
    path = cut_off(tmp_path, 5, part_rows=20)
    shutil.copytree(tmp_path / "run.parquet.parts", tmp_path / "again")
    recover(path)
    shutil.copytree(tmp_path / "again", tmp_path / "run.parquet.parts")
    recover(path)
    assert flows(path) == numbers(50)
    assert not (tmp_path / "run.parquet.parts").exists()


@pytest.mark.parametrize("sealed", [True, False])
def test_parts_of_which_a_damaged_file_was_made_stay(tmp_path: Path, sealed: bool) -> None:
    """The recovery was killed before it removed them, and maybe before it sealed the file."""
    path = cut_off(tmp_path, 5, part_rows=20)
    shutil.copytree(tmp_path / "run.parquet.parts", tmp_path / "again")
    recover(path)
    shutil.copytree(tmp_path / "again", tmp_path / "run.parquet.parts")
    rows = pq.ParquetFile(path).metadata.row_group(0)
    flow = rows.column(pq.read_schema(path).names.index("Mass_Flow"))
    with open(path, "r+b") as file:
        file.seek(flow.data_page_offset)
        file.write(bytes(30))
    if not sealed:
        path.with_name("run.parquet.seals").unlink()
    with pytest.raises(RecoveryError, match=r"run\.parquet\.parts, and has been damaged since"):
        recover(path)
    path.rename(tmp_path / "damaged.parquet")
    recover(path)
    assert flows(path) == numbers(50)


def test_a_journal_that_cannot_be_read_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = cut_off(tmp_path, 3)
    journal = journal_of(path)
    journal.write_bytes(b"not an Arrow stream")
    with pytest.raises(RecoveryError, match="is not the journal of a recording"):
        recover(path)
    assert journal.read_bytes() == b"not an Arrow stream"


@pytest.mark.parametrize("content", [b"", b"x" * 1000, b"PAR1" * 10])
def test_what_is_no_recording_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.parquet"
    path.write_bytes(content)
    with pytest.raises(RecoveryError, match="nothing can be recovered"):
        recover(path)
    assert path.read_bytes() == content


def test_a_missing_file_is_named() -> None:
    with pytest.raises(RecoveryError, match=r"nowhere\.parquet does not exist"):
        recover("nowhere.parquet")


@pytest.mark.parametrize(("kind", "suffix"), [(CsvSink, "csv"), (ParquetSink, "parquet")])
def test_a_recording_that_is_still_running_is_not_touched(
    tmp_path: Path, kind: Any, suffix: str
) -> None:
    path = tmp_path / f"run.{suffix}"

    async def main() -> None:
        async with kind(path) as sink:
            await sink.write_batch(flow_batch(5))
            with pytest.raises(SinkWriteError, match="being recorded by another"):
                recover(path)
            await sink.write_batch(flow_batch(5, first=5))

    anyio.run(main)
    assert not recover(path).changed


def test_a_torn_csv_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "run.csv"

    async def main() -> None:
        async with CsvSink(path, loss_rows=0) as sink:
            await sink.write_batch(flow_batch(5))

    anyio.run(main)
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    assert recover(path).changed
    assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[:-1])
    assert not recover(path).changed


RECORDER = textwrap.dedent(
    """
    import sys
    import anyio
    from penstock.record import CsvSink, ParquetSink, pipe, record
    from tests.python.record.instruments import Bench

    async def main():
        flushed = 0

        def tell(batch):
            nonlocal flushed
            flushed += batch.column("event").count(None)
            print(flushed, flush=True)

        async with (
            CsvSink(sys.argv[1] + "/run.csv", loss_rows=0) as csv,
            ParquetSink(sys.argv[1] + "/run.parquet", part_rows=300, loss_rows=0) as parquet,
            record(Bench([["a"]]), rate_hz=2000) as recording,
        ):
            await pipe(recording, csv, parquet, batch_size=50, on_batch=tell)

    anyio.run(main)
    """
)


@contextmanager
def recording_into(folder: Path, stderr: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """A recorder in a process of its own, which is killed at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-c", RECORDER, str(folder)],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as recorder:
        try:
            yield recorder
        finally:
            recorder.kill()


def read_until(recorder: subprocess.Popen[str], rows: int) -> int:
    """The number of flushed rows once it has reached ``rows``."""
    assert recorder.stdout is not None
    while True:
        ready, _, _ = select.select([recorder.stdout], [], [], 60)
        assert ready, "the recorder went silent"
        line = recorder.stdout.readline()
        assert line, "the recorder ended"
        if int(line) >= rows:
            return int(line)


@pytest.mark.parametrize("rows", [50, 400, 1000])
def test_kill_9_leaves_everything_readable_up_to_the_last_flush(tmp_path: Path, rows: int) -> None:
    with recording_into(tmp_path) as recorder:
        flushed = read_until(recorder, rows)
    assert recorder.returncode == -9
    recover(tmp_path / "run.parquet")
    recorded = flows(tmp_path / "run.parquet")
    assert len(recorded) >= flushed
    assert recorded == numbers(len(recorded))
    recover(tmp_path / "run.csv")
    with open(tmp_path / "run.csv", newline="") as file:
        lines = [float(row["Mass_Flow"]) for row in csv.DictReader(file) if not row["event"]]
    assert len(lines) >= flushed
    assert lines == numbers(len(lines))
    assert not (tmp_path / "run.parquet.parts").exists()


def test_ctrl_c_leaves_complete_files(tmp_path: Path) -> None:
    with recording_into(tmp_path, stderr=subprocess.DEVNULL) as recorder:
        flushed = read_until(recorder, 400)
        recorder.send_signal(2)
        recorder.wait(60)
    assert recorder.returncode != 0
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "run.csv",
        "run.csv.meta.json",
        "run.csv.seals",
        "run.parquet",
        "run.parquet.seals",
    ]
    recorded = flows(tmp_path / "run.parquet")
    assert len(recorded) >= flushed
    with open(tmp_path / "run.csv", newline="") as file:
        assert sum(not row["event"] for row in csv.DictReader(file)) == len(recorded)


def test_a_file_of_another_kind_is_refused_and_those_beside_a_recording_are_left_alone(
    tmp_path: Path,
) -> None:
    plan = tmp_path / "run.toml"
    plan.write_text("[record]")
    with pytest.raises(RecoveryError, match=r"run\.toml is not a recording: its name must end in"):
        recover(plan)
    (tmp_path / "run.csv").touch()
    seals = tmp_path / "run.csv.seals"
    seals.write_text("x")
    assert not recover(seals).changed


def test_of_a_folder_with_recordings_the_first_one_is_named(tmp_path: Path) -> None:
    path = cut_off(tmp_path, 3)
    with pytest.raises(RecoveryError, match=f"name the recordings in it, such as {path}$"):
        recover(tmp_path)
