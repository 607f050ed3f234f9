"""Files and messages of an archive that are not what they should be."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from penstock.record.archives import Archiver, archive_files, store_at
from penstock.record.archives.run_archive import RunArchive
from penstock.record.archives.waiting_run import RunOptions
from tests.python.record.archived_messages import message


@pytest.mark.parametrize("damage", ["other bytes", "another file", "gone"])
def test_a_damaged_file_is_told_and_holds_up_no_rows(tmp_path: Path, damage: str) -> None:
    """It would be read again for ever, and the rows that come would wait for a copy of it."""
    store = store_at(str(tmp_path / "archive"))
    run = RunArchive(store, "r", RunOptions(join=3, grace=0.0))
    run.load()
    for part in range(1, 5):
        run.add(message(part, part, part))
        run.write()
    names = archive_files(tmp_path / "archive")
    if damage == "other bytes":
        Path(names[1]).write_bytes(b"PAR1" + bytes(100))
    elif damage == "another file":
        shutil.copyfile(names[2], names[1])
    else:
        Path(names[1]).unlink()
    told: list[str] = []

    async def main() -> None:
        archiver = Archiver("nats://127.0.0.1:1/lab", store, told=told.append)
        async with asyncio.timeout(60):
            await archiver._tidy(run)

    asyncio.run(main())
    [text] = told
    assert text.startswith(f"{names[1]} cannot be joined with others")
    assert text.endswith("restore a copy of it")
    left = archive_files(tmp_path / "archive")
    assert len(left) == 2
    assert names[1] in left
    [joined] = set(left) - {names[1]}
    assert pyarrow.parquet.ParquetFile(joined).metadata.num_rows == 1 + 3 + 4
    run.add(message(5, 5))
    assert run.write().rows == 1 + 2 + 3 + 4 + 1


def test_a_device_that_is_no_text_is_no_row_of_a_recorder(tmp_path: Path) -> None:
    """Several of them cannot be put in order beside a text."""
    run = RunArchive(store_at(str(tmp_path)), "r", RunOptions())
    run.load()
    for part in (1, 2):
        sound = message(part, part)
        with pyarrow.ipc.open_stream(sound.payload) as stream:
            table = stream.read_all()
        place = table.schema.get_field_index("device")
        table = table.set_column(place, "device", pyarrow.array([part - 1]))
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        run.add(replace(sound, payload=sink.getvalue().to_pybytes()))
    manifest = run.write()
    assert (manifest.rows, manifest.refused) == (0, 2)
