"""A recording on disk on a board: read once, and followed while it grows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from penstock.dash._board import Board
from penstock.dash._rows import RecordedRows
from penstock.record.errors import RecordError
from penstock.record.view import StoredRecording

__all__ = ["StoredRows", "follow"]

_SHORTEST_PAUSE_S = 1.0
_SHARE = 10
"""A reader waits this many times as long as reading takes, so it uses at most 10 % of a core."""
_QUIET_S = 15.0
"""Without a change for this long, a recording counts as finished."""


class StoredRows:
    """The rows of a recording on disk, each once.

    How many rows of each device were given is the cursor: sealing a part moves rows from the
    journal to a file, and partitions change the order of devices, but not that of one device.
    Rejected: the time of the last row, which is not unique and steps with the wall clock.
    """

    def __init__(self, recording: StoredRecording) -> None:
        self._recording = recording
        self._seen: dict[str, int] = {}
        self._mark: object = None

    def changed(self) -> bool:
        """Whether files were written since the last :meth:`new_tables`."""
        return _mark_of(self._recording.path) != self._mark

    def new_tables(self) -> Iterator[Any]:
        """Arrow tables with the rows that were not given yet. For a worker thread.

        Raises:
            RecordError: the recording cannot be read.
        """
        self._mark = _mark_of(self._recording.path)
        skip = dict(self._seen)
        for part in self._recording.parts():
            rows = RecordedRows(part.table)
            counts = rows.counts()
            new = rows.without_first(skip) if skip else part.table
            for name, count in counts.items():
                skipped = min(count, skip.get(name, 0))
                if skipped:
                    skip[name] -= skipped
                self._seen[name] = self._seen.get(name, 0) + count - skipped
            if new.num_rows:
                yield new


async def follow(board: Board, recording: StoredRecording) -> None:
    """Put a recording on a board, and what is added to it until cancelled.

    The files are read in a worker thread.

    Raises:
        RecordError: the recording cannot be read at first. Later failures are in the board's log:
            a writer may be replacing a file at that moment.
    """
    stored = StoredRows(recording)
    board.live = False
    await _read_new(board, stored)
    known_failure = ""
    changed_at = time.monotonic() - (_QUIET_S if not _is_growing(recording.path) else 0.0)
    pause = _SHORTEST_PAUSE_S
    while True:
        board.live = time.monotonic() - changed_at < _QUIET_S
        await anyio.sleep(pause)
        if not await anyio.to_thread.run_sync(stored.changed):
            continue
        begun = time.monotonic()
        try:
            await _read_new(board, stored)
            known_failure = ""
        except (RecordError, OSError, ValueError, KeyError) as error:
            text = f"{recording.path} cannot be read: {' '.join(str(error).split())}"
            if text != known_failure:
                board.log("error", text)
                known_failure = text
        changed_at = time.monotonic()
        pause = max(_SHORTEST_PAUSE_S, _SHARE * (changed_at - begun))


async def _read_new(board: Board, stored: StoredRows) -> None:
    tables = stored.new_tables()
    while (table := await anyio.to_thread.run_sync(next, tables, None)) is not None:
        board.add(table)


def _is_growing(path: Path) -> bool:
    newest = max((stamp for _, _, stamp in _mark_of(path)), default=0)
    return time.time_ns() - newest < _QUIET_S * 1e9


def _mark_of(path: Path) -> frozenset[tuple[str, int, int]]:
    """The files of a recording with their sizes and times, to see changes without reading."""
    found = []
    for file in _files_of(path):
        try:
            status = os.stat(file)
        except FileNotFoundError:
            continue  # replaced at this moment
        found.append((os.fspath(file), status.st_size, status.st_mtime_ns))
    return frozenset(found)


def _files_of(path: Path) -> Iterator[Path]:
    """The path, its further parts and its journals, and all files below a folder."""
    beside = path.parent.glob(f"{_escaped(path.stem)}*") if path.suffix else [path]
    for candidate in beside:
        if candidate.is_dir():
            yield from (file for file in candidate.rglob("*") if file.is_file())
        else:
            yield candidate


def _escaped(text: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in text)
