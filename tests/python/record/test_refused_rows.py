"""The file of rows that a server refuses: whole lines, also where the disk refuses some."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from penstock.record._network import rows
from penstock.record._network.rows import RefusedRows


def test_refused_rows_are_in_the_file_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = RefusedRows(tmp_path / "refused")
    refused.add([b"flow=1 1"], "too old")
    before = refused.path.read_bytes()

    def fill(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(rows, "write_fully", fill)
        with pytest.raises(OSError, match="No space left"):
            refused.add([b"flow=2 2", b"flow=3 3"], "a field of another type")
    assert refused.path.read_bytes() == before
    refused.add([b"flow=2 2", b"flow=3 3"], "a field of another type")
    lines = refused.path.read_bytes().removeprefix(before).split(b"\n")
    assert lines[0].endswith(b" 2 refused: a field of another type")
    assert lines[1:] == [b"flow=2 2", b"flow=3 3", b""]
    assert refused.reason == "too old"
