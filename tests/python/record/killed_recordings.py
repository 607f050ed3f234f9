"""What killed recorders leave of Parquet and of SQLite, and the rows of a recording."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio

import penstock.record
from penstock.record import ParquetSink, SqliteSink
from tests.python.record.batches import flow_batch

__all__ = ["flows", "killed_database", "killed_parquet", "numbers"]


def flows(path: Path) -> list[float]:
    table = penstock.record.open(path).to_arrow()
    return [value for value in table["Mass_Flow"].to_pylist() if value is not None]


def numbers(count: int) -> list[float]:
    return [float(number) for number in range(count)]


def killed_parquet(folder: Path, batches: int, name: str = "run.parquet") -> tuple[Path, Path]:
    """The recording, and its journal."""
    live = folder / "live" / name
    live.parent.mkdir()
    parts = name if "." not in name else f"{name}.parts"

    async def main() -> None:
        async with ParquetSink(live, loss_rows=0) as sink:
            for number in range(batches):
                await sink.write_batch(flow_batch(10, first=10 * number))
            shutil.copytree(live.parent / parts, folder / parts)

    anyio.run(main)
    (journal,) = (folder / parts / ".penstock").glob("journal-*.arrows")
    for part in (folder / parts).glob("part-*"):
        part.unlink()  # what was sealed meanwhile
    return folder / name, journal


def killed_database(folder: Path, commits: int) -> Path:
    """A database whose rows are in its log, in a folder of its own."""
    live, kept = folder / "live", folder / "kept"
    for each in (live, kept):
        each.mkdir()

    async def main() -> None:
        async with SqliteSink(live / "run.sqlite", loss_rows=0) as sink:
            for number in range(commits):
                await sink.write_batch(flow_batch(10, first=10 * number))
            for name in ("run.sqlite", "run.sqlite-wal"):
                shutil.copy(live / name, kept)

    anyio.run(main)
    return kept / "run.sqlite"
