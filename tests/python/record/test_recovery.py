from __future__ import annotations

import csv
import os
import select
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import IO, Any

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
    return [float(v) for v in table["Mass_Flow"].to_pylist()]


def numbers(count: int) -> list[float]:
    return [float(n) for n in range(count)]


def cut_off(folder: Path, batches: int, **options: Any) -> list[Path]:
    """What a killed recorder leaves: copies of its files in the middle of the recording."""
    path = folder / "live" / "run.parquet"
    path.parent.mkdir()

    async def main() -> list[Path]:
        async with ParquetSink(path, **options) as sink:
            for number in range(batches):
                await sink.write_batch(flow_batch(10, first=10 * number))
            return [Path(shutil.copy(file, folder)) for file in path.parent.iterdir()]

    return anyio.run(main)


def test_the_journal_is_joined_to_the_sealed_row_groups(tmp_path: Path) -> None:
    cut_off(tmp_path, 7, row_group_rows=20)
    path = tmp_path / "run.parquet"
    assert flows(path) == numbers(60)
    recovery = recover(path)
    assert (recovery.path, recovery.rows, recovery.bytes_cut) == (path, 10, 0)
    assert recovery.changed
    assert flows(path) == numbers(70)
    assert not (tmp_path / "run.parquet.journal").exists()


def test_a_recorder_killed_before_its_first_row_leaves_a_journal_that_is_read(
    tmp_path: Path,
) -> None:
    # The head must be on the disk by itself: Arrow would write it together with the first rows.
    path = tmp_path / "live" / "run.parquet"
    path.parent.mkdir()

    async def main() -> None:
        async with ParquetSink(path) as sink:
            await sink.write_batch(flow_batch(0))
            for file in path.parent.iterdir():
                shutil.copy(file, tmp_path)

    anyio.run(main)
    assert (tmp_path / "run.parquet.journal").stat().st_size > 0
    assert recover(tmp_path / "run.parquet").rows == 0
    assert flows(tmp_path / "run.parquet") == []


def test_recovering_twice_does_no_harm(tmp_path: Path) -> None:
    cut_off(tmp_path, 3)
    recover(tmp_path / "run.parquet")
    again = recover(tmp_path / "run.parquet")
    assert not again.changed
    assert flows(tmp_path / "run.parquet") == numbers(30)


def test_the_journal_may_be_named_instead_of_the_file(tmp_path: Path) -> None:
    cut_off(tmp_path, 3)
    assert recover(tmp_path / "run.parquet.journal").rows == 30
    assert flows(tmp_path / "run.parquet") == numbers(30)


def test_rows_sealed_before_the_journal_was_restarted_are_not_doubled(tmp_path: Path) -> None:
    # The moment between the seal and the new journal: the file of the next batch, the journal
    # of this one.
    (tmp_path / "before").mkdir()
    cut_off(tmp_path / "before", 3, row_group_rows=20)
    (tmp_path / "after").mkdir()
    cut_off(tmp_path / "after", 4, row_group_rows=20)
    path = tmp_path / "after" / "run.parquet"
    shutil.copy(tmp_path / "before" / "run.parquet.journal", path.parent)
    assert recover(path).rows == 0
    assert flows(path) == numbers(40)


@few
@given(st.data())
def test_a_cut_in_the_journal_loses_only_the_torn_batch(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    cut_off(folder, 4)
    journal = folder / "run.parquet.journal"
    whole = journal.read_bytes()
    cut = data.draw(st.integers(len(whole) // 2, len(whole)))
    journal.write_bytes(whole[:cut])
    rows = recover(folder / "run.parquet").rows
    assert rows % 10 == 0
    assert flows(folder / "run.parquet") == numbers(rows)
    if cut == len(whole):
        assert rows == 40


@few
@given(st.data())
def test_a_seal_torn_anywhere_is_taken_back_and_made_again(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    folder = tmp_path_factory.mktemp("torn")
    (folder / "next").mkdir()
    cut_off(folder, 3, row_group_rows=40)
    cut_off(folder / "next", 4, row_group_rows=40)
    before, after = folder / "run.parquet", folder / "next" / "run.parquet"
    start, whole = before.stat().st_size, after.read_bytes()
    cut = data.draw(st.integers(start, len(whole)))
    # The torn seal of the fourth batch, and the journal with the three before it.
    before.write_bytes(whole[:cut])
    recovery = recover(before)
    if cut == len(whole):
        assert flows(before) == numbers(40)
        assert recovery.bytes_cut == 0
    else:
        assert flows(before) == numbers(30)
        assert recovery.bytes_cut == cut - start


def test_a_torn_file_without_its_journal_is_readable_up_to_the_last_seal(tmp_path: Path) -> None:
    cut_off(tmp_path, 6, row_group_rows=20)
    (tmp_path / "run.parquet.journal").unlink()
    path = tmp_path / "run.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    assert recover(path).bytes_cut > 0
    assert flows(path) == numbers(40)


def test_a_journal_of_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    cut_off(tmp_path / "one", 2, row_group_rows=20)
    cut_off(tmp_path / "two", 5, row_group_rows=20)
    shutil.copy(tmp_path / "two" / "run.parquet.journal", tmp_path / "one")
    with pytest.raises(RecoveryError, match="not the file that the journal belongs to"):
        recover(tmp_path / "one" / "run.parquet")
    assert (tmp_path / "one" / "run.parquet.journal").exists()


def test_a_journal_that_cannot_be_read_is_refused_and_left_alone(tmp_path: Path) -> None:
    cut_off(tmp_path, 5, row_group_rows=20)
    journal = tmp_path / "run.parquet.journal"
    journal.write_bytes(b"not an Arrow stream")
    with pytest.raises(RecoveryError, match="is not the journal of a recording"):
        recover(tmp_path / "run.parquet")
    assert journal.read_bytes() == b"not an Arrow stream"
    assert flows(tmp_path / "run.parquet") == numbers(40)


@pytest.mark.parametrize("content", [b"", b"x" * 1000, b"PAR1" * 10])
def test_what_is_no_recording_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.parquet"
    path.write_bytes(content)
    with pytest.raises(RecoveryError, match="no complete Parquet footer"):
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
        async with CsvSink(path) as sink:
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
            flushed += len(batch)
            print(flushed, flush=True)

        async with (
            CsvSink(sys.argv[1] + "/run.csv") as csv,
            ParquetSink(sys.argv[1] + "/run.parquet", row_group_rows=300) as parquet,
            record(Bench([["a"]]), rate_hz=2000) as recording,
        ):
            await pipe(recording, csv, parquet, batch_size=50, on_batch=tell)

    anyio.run(main)
    """
)


def read_until(stream: IO[str], rows: int) -> int:
    """The number of flushed rows once it has reached ``rows``."""
    while True:
        ready, _, _ = select.select([stream], [], [], 60)
        assert ready, "the recorder went silent"
        line = stream.readline()
        assert line, "the recorder ended"
        if int(line) >= rows:
            return int(line)


@pytest.mark.parametrize("rows", [50, 400, 1000])
def test_kill_9_leaves_everything_readable_up_to_the_last_flush(tmp_path: Path, rows: int) -> None:
    recorder = subprocess.Popen(
        [sys.executable, "-c", RECORDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert recorder.stdout is not None
    with recorder:
        try:
            flushed = read_until(recorder.stdout, rows)
        finally:
            recorder.kill()
    assert recorder.returncode == -9
    recover(tmp_path / "run.parquet")
    recorded = flows(tmp_path / "run.parquet")
    assert len(recorded) >= flushed
    assert recorded == numbers(len(recorded))
    recover(tmp_path / "run.csv")
    with open(tmp_path / "run.csv", newline="") as file:
        lines = [float(row["Mass_Flow"]) for row in csv.DictReader(file)]
    assert len(lines) >= flushed
    assert lines == numbers(len(lines))
    assert not (tmp_path / "run.parquet.journal").exists()


def test_ctrl_c_leaves_complete_files(tmp_path: Path) -> None:
    recorder = subprocess.Popen(
        [sys.executable, "-c", RECORDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert recorder.stdout is not None
    with recorder:
        try:
            flushed = read_until(recorder.stdout, 400)
            recorder.send_signal(2)
            recorder.wait(60)
        finally:
            recorder.kill()
    assert recorder.returncode != 0
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "run.csv",
        "run.csv.meta.json",
        "run.parquet",
    ]
    recorded = flows(tmp_path / "run.parquet")
    assert len(recorded) >= flushed
    with open(tmp_path / "run.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == len(recorded)
