"""Which runs of a recording were cut off, by what its own files say.

A closed run has a last seal that says so. Without one it was killed, and has lost what the loss
window allows: in each format another number of rows. The first run that goes on in the same files
keeps that knowledge: it seals what it finds as *found*, and the list of parts, the seal of a single
file, or the list of the runs in it says *cut off*.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

from penstock.record._files.files import numbered_parts
from penstock.record._files.line_ends import HEAD_KEY, described_beside
from penstock.record._parts.journal import read_journal
from penstock.record._parts.parts_folder import RUNS_KEY, PartsFolder, parts_path
from penstock.record._seals.part_list import read_part_list
from penstock.record._seals.row_seals import read_row_seals
from penstock.record._seals.seal import ENDS, read_seals, seals_path
from penstock.record._stored.sqlite_tables import connected
from penstock.record._stored.table_files import format_of
from penstock.record.arrow import METADATA_KEY
from penstock.record.damage import UNREADABLE
from penstock.record.errors import RecordError

_UNREADABLE: tuple[type[Exception], ...] = (RecordError, *UNREADABLE)
_CUT_OFF = "cut off"


def cut_off_runs(path: Path) -> frozenset[str]:
    """The ids of the runs in a recording whose end was lost. Blocking.

    Of a recording that cannot be read, or has no seals, none is known. A run that is being recorded
    counts as cut off.

    Args:
        path: a file, or a folder of parts.
    """
    try:
        return frozenset(run for run in _cut_off(path) if isinstance(run, str))
    except _UNREADABLE:
        return frozenset()


def _cut_off(path: Path) -> Iterator[Any]:
    if (path / ".penstock").is_dir():
        yield from _of_folder(PartsFolder(path, format_of(path).suffix))
    elif path.suffix in (".sqlite", ".sqlite3", ".db"):
        yield from _of_database(path)
    else:
        for _, part in numbered_parts(path):
            if part.suffix in (".csv", ".jsonl"):
                yield from _of_text(part)
            elif part.stat().st_size:
                yield from _of_table(part)
        if parts_path(path).is_dir():
            yield from _of_folder(PartsFolder(parts_path(path), path.suffix))


def _of_text(path: Path) -> Iterator[Any]:
    found = read_seals(seals_path(path))
    if found is None or found.fault:
        return
    ends = [one for one, other in pairwise(found.seals) if other.kind == "found"]
    if found.last.kind not in ENDS or any(seal.kind not in ENDS for seal in ends):
        yield _described_text(path).get("run_id")


def _described_text(path: Path) -> dict[str, Any]:
    if path.suffix == ".csv":
        about: Any = (described_beside(path) or {}).get("recording")
    else:
        with open(path, "rb") as file:
            head = file.readline()
        # A part that was made just before the kill has none yet.
        about = json.loads(head)[HEAD_KEY]["recording"] if head else None
    return about if isinstance(about, dict) else {}


def _of_table(path: Path) -> Iterator[Any]:
    metadata = format_of(path).read_schema(path).metadata or {}
    run = _run_id(metadata)
    if RUNS_KEY in metadata:
        for each in json.loads(metadata[RUNS_KEY]):
            run = each["recording"].get("run_id")
            if each.get("ended") == _CUT_OFF:
                yield run
    found = read_seals(seals_path(path))
    if found is not None and found.last.kind == _CUT_OFF:
        yield run  # the last one


def _of_folder(folder: PartsFolder) -> Iterator[Any]:
    """By the list of its parts: one that another was to follow ends a run where none does."""
    runs: dict[int, Any] = {}
    for number, part in folder.parts():
        if number not in runs:
            runs[number] = _run_id(format_of(part).read_schema(part).metadata or {})
    open_end: Any = None
    for listed in read_part_list(folder.list).parts:
        run = runs.get(listed.number) if listed.entry["files"] else None
        if open_end is not None and run is not None and run != open_end:
            yield open_end
        ended = listed.entry.get("ended")
        open_end = run if ended == "continued" else None
        if ended == _CUT_OFF:
            yield run
    yield open_end
    for _, journal in folder.journals():
        yield _run_id(read_journal(journal).table.schema.metadata or {})


def _of_database(path: Path) -> Iterator[Any]:
    with closing(connected(path)) as database:
        seals = read_row_seals(database)
        listed = database.execute("SELECT part, recording FROM penstock_parts ORDER BY part")
        last_part = {json.loads(recording).get("run_id"): part for part, recording in listed}
    if seals is None:
        return
    kinds = {seal.part: seal.kind for seal in seals}
    for run, part in last_part.items():
        if kinds.get(part) not in ENDS:
            yield run


def _run_id(metadata: dict[bytes, bytes]) -> Any:
    return json.loads(metadata.get(METADATA_KEY, b"{}")).get("run_id")
