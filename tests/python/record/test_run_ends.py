"""How a run has ended is in its seals: closed, cut off, by a full disk, by another error."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import penstock.record
from penstock.cli import main
from penstock.record import SinkWriteError, check_seals, recover
from penstock.record._parts.journal import Journal
from penstock.record._sinks import line_file
from penstock.record.sink_choice import sink_for
from tests.python.record.batches import flow_batch
from tests.python.record.sealed_recordings import NAMES, TEXTS, only, write

pytest.importorskip("pyarrow")


def refuse(number: int) -> Callable[..., Any]:
    def refused(*arguments: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return refused


def fail_once(path: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of 100 rows; the disk refuses the next ones, and closing finds room again."""

    async def record() -> None:
        sink: Any = sink_for(path, loss_rows=0)
        await sink.open()
        await sink.write_batch(flow_batch(100))
        with monkeypatch.context() as patches:
            if path.suffix == ".sqlite":
                # Only a full one: SQLite has no call here that could be refused otherwise.
                sink._file._connected().execute("PRAGMA max_page_count = 1")
            patches.setattr(line_file, "write_fully", refuse(number))
            patches.setattr(Journal, "append", refuse(number))
            with pytest.raises(SinkWriteError, match=os.strerror(number) + "|is full"):
                await sink.write_batch(flow_batch(1000, first=100))
        if path.suffix == ".sqlite":
            sink._file._connected().execute("PRAGMA max_page_count = 1000000")
        await sink.close()

    anyio.run(record)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_a_full_disk_has_ended_is_not_complete(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    fail_once(path, errno.ENOSPC, monkeypatch)
    found = only(path)
    assert (found.ended, found.problems) == (["ended by a full disk"], [])
    assert not found.unchanged
    assert main(["verify", str(path)]) == 0
    out = capsys.readouterr().out
    assert "unchanged as far as it is sealed; ended by a full disk, " in out
    assert recover(path).rows == 0  # its end is known, and stays so
    assert only(path).ended == ["ended by a full disk"]
    rows = penstock.record.open(path).to_arrow().num_rows
    write(path, 2000, 100, append=True)
    assert check_seals(path)[-1].ended[-1] == "closed"
    assert penstock.record.open(path).to_arrow().num_rows == rows + 100


@pytest.mark.parametrize("name", [name for name in NAMES if name != "run.sqlite"])
def test_a_run_that_another_error_has_ended_is_not_complete(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(tmp_path / name, errno.EIO, monkeypatch)
    assert only(tmp_path / name).ended == ["ended by an error"]


@pytest.mark.parametrize("name", TEXTS)
def test_rows_that_were_not_synced_do_not_end_a_run_as_closed(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def record() -> None:
        sink = sink_for(tmp_path / name, loss_rows=0)
        await sink.open()
        await sink.write_batch(flow_batch(10))
        with monkeypatch.context() as patches:
            # Linux tells such an error once: the next call succeeds, and the rows are lost.
            patches.setattr(os, "fdatasync", refuse(errno.EIO))
            with pytest.raises(SinkWriteError, match="cannot sync"):
                await sink.write_batch(flow_batch(10, first=10))
        await sink.close()

    anyio.run(record)
    assert only(tmp_path / name).ended == ["ended by an error"]
