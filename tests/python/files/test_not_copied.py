"""What owns a descriptor is refused by copy and pickle, and works on."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import files

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_descriptor_left")]

OWNERS: dict[str, Callable[[Path], Any]] = {
    "binary file": lambda folder: files.open(folder / "file", "wb"),
    "text file": lambda folder: files.open(folder / "file", "w", encoding="utf-8"),
    "compressed file": lambda folder: files.open_compressed(folder / "file.gz", "wb"),
    "lock": lambda folder: files.lock(folder / "lock"),
    "log": lambda folder: files.AppendLog(folder / "log"),
    "log of segments": lambda folder: files.SegmentedLog(folder / "segments"),
    "map": lambda folder: files.map(folder / "mapped"),
    "named file": lambda folder: files.tempfile.NamedTemporaryFile(dir=folder),
    "watch": lambda folder: files.watch(folder),
}


@pytest.mark.parametrize("kind", OWNERS)
async def test_it_is_neither_copied_nor_pickled(tmp_path: Path, kind: str) -> None:
    (tmp_path / "mapped").write_bytes(b"content")
    async with OWNERS[kind](tmp_path) as owner:
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="pickle"):
                duplicate(owner)
        if kind == "lock":
            assert owner.held
        if kind.startswith("log"):
            await owner.append(b"record")
        if kind.endswith("file") and kind != "text file":
            assert await owner.write(b"data") == 4
