"""An archive in an S3-compatible store, which is killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from penstock.record.archives import ArchiveError, archive_files, store_at
from penstock.record.archives.manifest import Fenced
from penstock.record.archives.run_archive import RunArchive
from penstock.record.archives.waiting_run import RunOptions
from tests.python.integration.seaweedfs import S3Server, s3_server
from tests.python.record.archived_messages import message

pytestmark = pytest.mark.slow

TARGET = "s3://lab/archive"


@pytest.fixture
def running() -> Iterator[S3Server]:
    pytest.importorskip("obstore")
    with s3_server() as server:
        yield server


@pytest.fixture
def server(running: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    store_at("s3://lab").put("first", b"")  # which makes the bucket
    return running


def test_an_archive_in_a_bucket_and_then_without_it(server: S3Server) -> None:
    store = store_at(TARGET)
    first, second = (RunArchive(store, "r", RunOptions(join=3, grace=0.0)) for _ in range(2))
    for each in (first, second):
        each.load()
        each.add(message(1, 1))
    first.write()
    with pytest.raises(Fenced):
        second.write()
    for part in (2, 3):
        first.add(message(part, part, 2))
        first.write()
    assert len(archive_files(TARGET)) == 3
    while first.tidy():
        pass
    [name] = archive_files(TARGET)
    assert name.startswith(f"{TARGET}/run=r/schema=1/day=2026-11-21/000000000001-")
    data = store.read(name.removeprefix(f"{TARGET}/"))
    assert data is not None
    table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data)).read()
    assert table["Mass_Flow"].to_pylist() == [10.0, 20.0, 21.0, 30.0, 31.0]
    # The two files that did not come into being by a commit are gone but for that of the second.
    assert len([each for each in store.list("run=r/") if each.name.endswith(".parquet")]) == 2
    server.kill()
    first.add(message(4, 4))
    with pytest.raises(ArchiveError, match=r"^s3://lab/archive/run=r/.* cannot be reached: "):
        first.write()


@pytest.mark.parametrize("target", ["s3://me:secret@lab/x", "gs://lab", "s3:///x", "s3://lab?x=1"])
def test_a_wrong_address_is_refused(target: str) -> None:
    with pytest.raises(ValueError, match="s3://BUCKET/PREFIX") as refused:
        store_at(target)
    assert "secret" not in str(refused.value)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ArchiveError, match="cannot be written: Not a directory"):
        store_at(str(tmp_path / "file")).put("a/b", b"")
