"""Joining parts to a file fails or is killed: what was proven before stays proven."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import anyio
import pyarrow
import pyarrow.parquet as parquet
import pytest

import penstock.record
from penstock.cli import main
from penstock.record import (
    ParquetSink,
    RecoveryError,
    SinkExistsError,
    SinkWriteError,
    check_seals,
    recover,
)
from penstock.record._seals.seal import seals_path
from tests.python.record.batches import flow_batch
from tests.python.record.sealed_recordings import only, write


def flows(path: Path) -> list[float]:
    return [float(v) for v in penstock.record.open(path).to_arrow()["Mass_Flow"].to_pylist()]


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def killed_run(path: Path, first: int) -> None:
    """What ``kill -9`` leaves of a run that was to be joined to ``path``."""
    parts = path.with_name(f"{path.name}.parts")
    away = path.with_name("away")

    async def run() -> None:
        async with ParquetSink(path, append=True, loss_rows=0) as sink:
            await sink.write_batch(flow_batch(10, first=first))
            shutil.copytree(parts, away)
            shutil.copy(path, path.with_name("kept"))
            shutil.copy(seals_path(path), path.with_name("kept.seals"))

    anyio.run(run)
    away.rename(parts)
    path.with_name("kept").replace(path)
    path.with_name("kept.seals").replace(seals_path(path))


def test_a_disk_that_is_full_while_joining_takes_no_seal_of_the_file_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.parquet"
    write(path, 0, 100)
    with monkeypatch.context() as patched:
        patched.setattr("penstock.record._parts.compaction._fill", full)
        with pytest.raises(SinkWriteError, match="all samples wait in"):
            write(path, 100, 100, append=True)
    assert check_seals(path)[0].unchanged
    assert recover(path).rows == 100
    assert only(path).problems == []
    assert flows(path) == [float(n) for n in range(200)]


def test_a_file_that_has_appeared_meanwhile_keeps_its_seals(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"

    async def run() -> None:
        async with ParquetSink(path) as sink:
            await sink.write_batch(flow_batch(10))
            other = tmp_path / "other"
            other.mkdir()
            await anyio.to_thread.run_sync(record_other, other)
            for name in ("run.parquet", "run.parquet.seals"):
                shutil.copy(other / name, tmp_path)

    def record_other(folder: Path) -> None:
        write(folder / "run.parquet", 50, 100)

    with pytest.raises(SinkExistsError, match=r"already exists: move it away, then run penstock"):
        anyio.run(run)
    assert check_seals(path)[0].unchanged
    assert path.with_name("run.parquet.parts").exists()


def test_what_a_kill_has_left_of_the_joined_file_goes_with_recover(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    write(path, 0, 100)
    killed_run(path, 100)
    for name in (".run.parquet.0123abcd.tmp", ".run.parquet.seals.0123abcd.tmp"):
        (tmp_path / name).write_bytes(b"half of it")
    assert recover(path).rows == 10
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run.parquet", "run.parquet.seals"]
    assert flows(path) == [float(n) for n in range(110)]


@pytest.mark.parametrize("damaged", [False, True])
def test_seals_that_a_kill_has_left_aside_are_those_of_the_file(
    tmp_path: Path, damaged: bool
) -> None:
    path = tmp_path / "run.parquet"
    write(path, 0, 100)
    killed_run(path, 100)
    seals_path(path).rename(tmp_path / ".run.parquet.seals.0123abcd.tmp")
    if damaged:
        data = bytearray(path.read_bytes())
        data[60] ^= 1  # in the first page
        path.write_bytes(data)
    recover(path)
    assert bool(check_seals(path)[0].problems) is damaged
    assert path.with_stem("run.part2").exists() is damaged
    if not damaged:
        assert only(path).rows == 110
        assert flows(path) == [float(n) for n in range(110)]


def killed_parts(folder: Path) -> Path:
    """What ``kill -9`` leaves of a run with final parts; the file that it was to become."""
    live = folder / "live"
    live.mkdir()

    async def run() -> None:
        async with ParquetSink(live / "run.parquet", loss_rows=0, part_rows=20) as sink:
            for first in range(0, 50, 10):
                await sink.write_batch(flow_batch(10, first=first))
            shutil.copytree(live, folder / "kept")

    anyio.run(run)
    return folder / "kept" / "run.parquet"


def remove(part: Path) -> None:
    part.unlink()


def change(part: Path) -> None:
    table = parquet.read_table(part)
    place = table.schema.get_field_index("Mass_Flow")
    values = pyarrow.array([0.0] * len(table))
    pa_field = table.schema.field(place)
    parquet.write_table(table.set_column(place, pa_field, values), part, compression="zstd")


@pytest.mark.parametrize(
    ("harm", "told"), [(remove, "is missing, with rows of"), (change, "has changed, with rows of")]
)
def test_parts_that_are_not_as_they_were_sealed_are_not_joined_and_sealed_anew(
    tmp_path: Path, harm: Any, told: str
) -> None:
    path = killed_parts(tmp_path)
    part = path.with_name("run.parquet.parts") / "part-000001.parquet"
    harm(part)
    there = {each for each in part.parent.iterdir() if each.is_file()}
    with pytest.raises(RecoveryError, match=f"part-000001.parquet {told} part 1"):
        recover(path)
    assert main(["verify", str(path)]) == 8
    # A run that goes on is recorded, and does not wash it away either.
    with pytest.raises(SinkWriteError, match=f"{told} part 1"):
        write(path, 50, 100, append=True)
    assert main(["verify", str(path)]) == 8
    assert there <= set(part.parent.iterdir())
    kept = 20 if harm is remove else 0
    assert len(penstock.record.open(path, strict=False).to_arrow()) == 150 - kept
    assert recover(path, force=True).rows == 150 - kept
    assert not part.parent.exists()
