"""A recording on disk on a board: read once, and followed while it grows."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread

from penstock.dash._board import Board
from penstock.dash._rows import RecordedRows
from penstock.record.damage import ShorterFormat
from penstock.record.errors import RecordError
from penstock.record.recorder_lock import is_being_recorded
from penstock.record.stored_parts import lacking_column
from penstock.record.view import StoredRecording

_SHORTEST_PAUSE_S = 1.0
_SHARE = 10
"""A reader waits this many times as long as reading takes, so it uses at most 10 % of a core."""
_QUIET_S = 15.0
"""A recording without a visible recorder counts as ended after this time without a change."""


class StoredRows:
    """The rows of a recording on disk, each once.

    The cursor is the number of rows of each run and device that were returned. Sealing a part moves
    rows from the journal to a file, and partitions change the order of the devices, but neither
    changes the order of the rows of one device. Two recorders of one folder write at the same time,
    so the runs are counted separately. Rejected as a cursor: the time of the last row, which is not
    unique and steps with the wall clock.
    """

    def __init__(self, recording: StoredRecording) -> None:
        self._recording = recording
        self.path = recording.path
        self._seen: dict[object, dict[str, int]] = {}
        self.left_out: dict[str, None] = {}
        """What is said of parts without the columns that every recording has."""
        self._mark: object = None

    def changed(self) -> bool:
        """Whether files were written since the last :meth:`new_tables`."""
        return _mark_of(self._recording.path) != self._mark

    def is_being_recorded(self) -> bool:
        """Whether a recorder of this machine has the recording open."""
        return is_being_recorded(_files_of(self._recording.path))

    def new_tables(self) -> Generator[Any, None, None]:
        """Yield Arrow tables with the rows that were not returned before. For a worker thread.

        Raises:
            RecordError: the recording cannot be read.
        """
        self._mark = _mark_of(self._recording.path)
        left = {run: dict(counts) for run, counts in self._seen.items()}
        for part in self._recording.pieces():
            if lacking := lacking_column(part, ("device", "t_utc")):
                self.left_out[f"{part.path} has no column {lacking} of a recording"] = None
                continue
            rows = RecordedRows(part.table)
            run = part.metadata.get("run_id")
            skip, seen = left.get(run, {}), self._seen.setdefault(run, {})
            new = rows.without_first(skip) if skip else part.table
            for name, count in rows.counts().items():
                skipped = min(count, skip.get(name, 0))
                if skipped:
                    skip[name] -= skipped
                seen[name] = seen.get(name, 0) + count - skipped
            if new.num_rows:
                yield new

    @property
    def has_rows(self) -> bool:
        """Whether a row was ever returned."""
        return any(self._seen.values())


async def read_first(board: Board, stored: StoredRows) -> None:
    """Add the rows that are there; RecordError if they cannot be read."""
    await _read_new(board, stored)
    if stored.left_out and not stored.has_rows:
        reason = next(iter(stored.left_out))
        raise RecordError(f"nothing of {stored.path} can be read: {reason}")


async def follow(board: Board, recording: StoredRecording) -> None:
    """Add the rows of a recording to a board, and follow the recording until cancelled.

    A worker thread reads the files. The board is live while a recorder holds its lock on a file. If
    no such lock was ever seen, as for a recorder on another machine, the board is live until the
    files have not changed for 15 s. Rejected: to judge by the time of the last change alone, which
    would show a recording as live that has just ended; and by the end of the file, which differs
    between the formats.

    Raises:
        RecordError: the recording cannot be read at first. Later failures go to the board's log,
            because a writer may be replacing a file at that moment.
    """
    stored = StoredRows(recording)
    board.live = locked = await anyio.to_thread.run_sync(stored.is_being_recorded)
    await read_first(board, stored)
    known_damages: set[str] = set()
    _log_damages(board, recording, stored, known_damages)
    known_failure = ""
    changed_at = -math.inf
    pause = _SHORTEST_PAUSE_S
    while True:
        await anyio.sleep(pause)
        # In this order: what was written before the lock was given up is read.
        held = await anyio.to_thread.run_sync(stored.is_being_recorded)
        if await anyio.to_thread.run_sync(stored.changed):
            begun = time.monotonic()
            try:
                await _read_new(board, stored)
                _log_damages(board, recording, stored, known_damages)
                known_failure = ""
            except (RecordError, OSError, ValueError, KeyError) as error:
                text = f"{recording.path} cannot be read: {' '.join(str(error).split())}"
                if text != known_failure:
                    board.log("error", text)
                    known_failure = text
            changed_at = time.monotonic()
            pause = max(_SHORTEST_PAUSE_S, _SHARE * (changed_at - begun))
        locked = locked or held
        board.live = held if locked else time.monotonic() - changed_at < _QUIET_S


async def _read_new(board: Board, stored: StoredRows) -> None:
    # In one thread from beginning to end: SQLite's objects belong to the thread that made them.
    await anyio.to_thread.run_sync(_read_in_thread, board, stored)


def _read_in_thread(board: Board, stored: StoredRows) -> None:
    with closing(stored.new_tables()) as tables:
        for table in tables:
            anyio.from_thread.check_cancelled()
            anyio.from_thread.run_sync(board.add, table)


def _log_damages(
    board: Board, recording: StoredRecording, stored: StoredRows, known: set[str]
) -> None:
    """Log what was left out of a recording, each place once."""
    for text in stored.left_out:
        if text not in known:
            known.add(text)
            board.log("error", f"left out: {text}")
    for damage in recording.damages:
        shorter = isinstance(damage, ShorterFormat)
        text = f"another format is shorter: {damage}" if shorter else f"left out: {damage}"
        if text not in known:
            known.add(text)
            board.log("error", text)


def _mark_of(path: Path) -> frozenset[tuple[str, int, int]]:
    """The files of a recording with their sizes and times, to find changes without reading.

    Files that readers write too are left out: the index of a SQLite log, and an empty log.
    """
    found = []
    for file in _files_of(path):
        try:
            status = os.stat(file)
        except FileNotFoundError:
            continue  # replaced at this moment
        if file.name.endswith("-shm") or (file.name.endswith("-wal") and not status.st_size):
            continue
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
