"""A folder that cannot be listed is not an empty one: nothing is removed or left out for it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from penstock.record import ParquetSink, RecordError, recover
from penstock.record.archives import archive_files, store_at
from penstock.record.archives.run_archive import RunArchive
from penstock.record.archives.stores import ArchiveError
from penstock.record.damage import DamageList
from penstock.record.queries import parquet_files
from tests.python.record.archived_messages import loaded_run, message
from tests.python.record.batches import flow_batch


@pytest.fixture
def unlisted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """A function that lets the disk refuse to list a folder."""
    listed = os.scandir
    refused: list[str] = []

    def scandir(path: Any = ".") -> Any:
        if os.fspath(path) in refused:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return lambda path: refused.append(os.fspath(path))


def archive_of(folder: Path) -> RunArchive:
    return loaded_run(store_at(str(folder)))


def archived(folder: Path, *parts: int) -> None:
    archive = archive_of(folder)
    for part in parts:
        archive.add(message(part, part))
        archive.write()


def aged(folder: Path) -> set[Path]:
    """All files below a folder, which are made old."""
    files = {path for path in folder.rglob("*") if path.is_file()}
    for path in files:
        os.utime(path, (0, 0))
    return files


def test_an_archive_whose_manifests_cannot_be_listed_keeps_its_files(
    tmp_path: Path, unlisted: Callable[[Path], None]
) -> None:
    archived(tmp_path, 1, 2, 3)
    files = aged(tmp_path)
    unlisted(tmp_path / "_archive" / "r")
    with pytest.raises(ArchiveError, match="_archive/r cannot be read: Input/output error"):
        archive_of(tmp_path)
    assert all(path.exists() for path in files)


def test_an_archive_whose_manifests_are_lost_keeps_its_files(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archived(archive, 1, 2, 3)
    shutil.move(archive / "_archive", tmp_path / "elsewhere")
    (archive / "run=r" / "notes.txt").write_text("mine")
    files = aged(archive)
    assert len(files) == 4
    archived(archive, 4)  # the stream has nothing older any more
    archive_of(archive)
    assert files < aged(archive)
    assert len(archive_files(archive)) == 1


def test_what_a_killed_archiver_has_left_is_removed(tmp_path: Path) -> None:
    archived(tmp_path, 1, 2)
    files = aged(tmp_path)
    named = Path(archive_files(tmp_path)[1])
    shutil.copy(named, named.with_name("000000000003-0123456789ab.parquet"))
    shutil.copy(named, named.with_name("copy of mine.parquet"))
    assert len(aged(tmp_path)) == len(files) + 2
    archive_of(tmp_path)
    # A new version of the manifest is written first: the file's writer, if it runs, cannot name it.
    versions = set((tmp_path / "_archive" / "r").iterdir())
    assert len(versions - files) == 1
    assert aged(tmp_path) - versions == files - versions | {named.with_name("copy of mine.parquet")}


def test_parts_that_cannot_be_listed_are_neither_joined_nor_removed(
    tmp_path: Path, unlisted: Callable[[Path], None]
) -> None:
    live, kept = tmp_path / "live", tmp_path / "kept"
    live.mkdir()

    async def main() -> None:
        async with ParquetSink(live / "run.parquet", loss_rows=0, part_rows=20) as sink:
            for first in range(0, 50, 10):
                await sink.write_batch(flow_batch(10, first=first))
            shutil.copytree(live, kept)

    anyio.run(main)
    folder = kept / "run.parquet.parts"
    files = {path for path in folder.rglob("*") if path.is_file()}
    assert len(list(folder.glob("part-*"))) >= 2
    unlisted(folder)
    with pytest.raises((OSError, RecordError), match="Input/output error"):
        recover(kept / "run.parquet")
    assert all(path.exists() for path in files)


def test_a_query_leaves_out_no_folder_that_cannot_be_listed(
    tmp_path: Path, unlisted: Callable[[Path], None]
) -> None:
    for day in ("day=1", "day=2"):
        (tmp_path / day).mkdir()
        (tmp_path / day / "rows.parquet").write_bytes(b"PAR1")
    unlisted(tmp_path / "day=2")
    with pytest.raises(OSError, match="Input/output error"):
        parquet_files(tmp_path, DamageList(strict=False))
