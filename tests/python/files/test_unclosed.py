"""What is dropped without `close` is closed, even where its report or its last write fails."""

from __future__ import annotations

import errno
import gc
import gzip
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

from penstock import files
from penstock.files import AppendLog, SegmentedLog
from tests.python.files.open_files import open_files

pytestmark = pytest.mark.anyio


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The types of what finalizers have raised; warnings of unclosed objects are errors."""
    found: list[str] = []

    def report(unraisable: Any) -> None:
        found.append(unraisable.exc_type.__name__)

    monkeypatch.setattr(sys, "unraisablehook", report)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        yield found


async def test_a_file_is_written_and_closed_where_its_warning_is_an_error(
    tmp_path: Path, reported: list[str]
) -> None:
    path = tmp_path / "file"
    file = await files.open(path, "wb")
    await file.write(b"buffered")
    assert str(path) in open_files()
    del file
    gc.collect()
    assert reported == ["ResourceWarning"]
    assert str(path) not in open_files()
    assert path.read_bytes() == b"buffered"


async def test_a_compressed_file_is_written_and_closed_where_its_warning_is_an_error(
    tmp_path: Path, reported: list[str]
) -> None:
    path = tmp_path / "data.gz"
    file = await files.open_compressed(path, "wb")
    await file.write(b"text")
    del file
    gc.collect()
    assert reported == ["ResourceWarning"]
    assert str(path) not in open_files()
    assert gzip.decompress(path.read_bytes()) == b"text"


@pytest.mark.parametrize("kind", [AppendLog, SegmentedLog])
async def test_a_log_is_closed_where_its_warning_is_an_error(
    tmp_path: Path, reported: list[str], kind: Any
) -> None:
    path = tmp_path / "log"
    log = kind(path)
    await log.open()
    await log.append(b"x")
    await anyio.lowlevel.checkpoint()
    del log
    gc.collect()
    assert set(reported) == {"ResourceWarning"}
    assert not [name for name in open_files() if name.startswith(str(path))]
    async with kind(path) as log:
        assert log.count == 1


async def test_an_unclosed_file_on_a_full_disk_is_closed() -> None:
    found: list[int | None] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda unraisable: found.append(
        getattr(unraisable.exc_value, "errno", None)
    )
    try:
        file = await files.open("/dev/full", "wb")
        await file.write(b"data")
        with pytest.warns(ResourceWarning, match="unclosed file"):
            del file
            gc.collect()
    finally:
        sys.unraisablehook = before
    assert found == [errno.ENOSPC]
    assert "/dev/full" not in open_files()
