"""The seals of a whole recording: of each of its files, or of its parts and their list."""

from __future__ import annotations

import os
from pathlib import Path

from penstock.record._files.files import numbered_parts
from penstock.record._files.sqlite_log import lock_path
from penstock.record._parts.parts_folder import RUN_KEY, PartsFolder, parts_path
from penstock.record._seals.digests import digest_like
from penstock.record._seals.part_list import ListedPart, PartList, file_digest, read_part_list
from penstock.record._seals.row_check import check_database
from penstock.record._seals.seal_check import SealFindings, check_file
from penstock.record._seals.signing import PublicKey
from penstock.record._seals.stated_rows import check_stated_part, check_stated_text
from penstock.record._stored.table_files import format_of
from penstock.record.damage import UNREADABLE
from penstock.record.errors import RecordError
from penstock.record.recorder_lock import is_being_recorded

__all__ = ["check_seals"]

_UNREADABLE: tuple[type[Exception], ...] = (RecordError, *UNREADABLE)
_HOW = {"failed": "ended by an error"}


def check_seals(path: str | os.PathLike[str], key: PublicKey | None = None) -> list[SealFindings]:
    """Compare the files of one recording with their seals. Nothing is changed.

    Blocking; call it from a thread. OSError if a file cannot be read.

    Args:
        path: a file of a recording, or a folder of parts.
        key: the key that must have signed them.
    """
    path = Path(path)
    if (path / ".penstock").is_dir():
        return _check_folder(path, key)
    if path.suffix == "" and path.is_dir():
        return []
    if path.suffix in (".sqlite", ".sqlite3", ".db"):
        if not path.exists() or not path.stat().st_size:
            return []
        growing = is_being_recorded([lock_path(path)])
        return [check_database(path, growing=growing, key=key)]
    found = []
    for _, part in numbered_parts(path):
        growing = is_being_recorded([part])
        if part.stat().st_size or growing:
            found.append(check_file(part, growing=growing, key=key))
            if not found[-1].sealed and part.suffix in (".csv", ".jsonl"):
                check_stated_text(part, found[-1], growing=growing)
    if parts_path(path).is_dir():
        found += _check_folder(parts_path(path), key, path)
    return found


def _check_folder(
    path: Path, key: PublicKey | None, file: Path | None = None
) -> list[SealFindings]:
    """The parts in a folder, which may be those of the single file ``file``."""
    folder = PartsFolder(path, "")
    if not folder.exists():
        return []  # killed when it had just been created
    growing = is_being_recorded([folder.state / "lock"])
    listed = read_part_list(folder.list, key)
    # Once it was made of them, the parts go one by one.
    joined = file is not None and _was_made_of(file, folder)
    findings = _check_parts(folder, listed, growing, key, joined=joined)
    journals = [check_file(journal, growing=growing, key=key) for _, journal in folder.journals()]
    has_parts = bool(listed.parts or listed.problems or folder.parts())
    return [*([findings] if has_parts else []), *journals]


def _check_parts(
    folder: PartsFolder,
    listed: PartList,
    growing: bool,
    key: PublicKey | None,
    *,
    joined: bool,
) -> SealFindings:
    findings = SealFindings(folder.path)
    findings.problems += listed.problems
    by_number = {part.number: part for part in listed.parts}
    findings.sealed = any(part.sealed for part in listed.parts)
    findings.signed = key is not None and findings.sealed and not listed.problems
    for part in by_number.values():
        _check_part(folder, part, findings, joined=joined)
    known = {folder.path / name for part in by_number.values() for name, _, _ in part.files()}
    journals = dict(folder.journals())
    for number, file in folder.parts():
        empty = not listed.parts and folder.list.exists()
        if file not in known and number not in journals and (findings.sealed or empty):
            findings.problems.append(f"{file} is not in the list of parts")
    sealed = [part for part in listed.parts if part.sealed]
    findings.rows = sum(part.entry["rows"] for part in by_number.values() if part.sealed)
    stamps = [part.entry for part in sealed if "first_unix_ns" in part.entry]
    if stamps:
        findings.first_ns = int(stamps[0]["first_unix_ns"])
        findings.last_ns = int(stamps[-1]["last_unix_ns"])
    for part in listed.parts:
        ended = part.entry.get("ended", "closed")
        if ended != "continued":
            findings.ended.append(_HOW.get(ended, str(ended)))
    if growing:
        findings.ended.append("growing")
    elif journals or (sealed and sealed[-1].entry.get("ended") == "continued"):
        findings.ended.append("cut off")
    return findings


def _was_made_of(file: Path, folder: PartsFolder) -> bool:
    for _, each in numbered_parts(file):
        if each.stat().st_size:
            try:
                metadata = format_of(each).read_schema(each).metadata or {}
                if metadata.get(RUN_KEY) == folder.run_id().encode():
                    return True
            except _UNREADABLE:
                continue
    return False


def _check_part(
    folder: PartsFolder, part: ListedPart, findings: SealFindings, *, joined: bool
) -> None:
    if part.entry.get("journal"):
        findings.problems += [f"part {part.number}: {each}" for each in part.entry["journal"]]
    for name, size, digest in part.files():
        file = folder.path / name
        if not file.exists():
            if joined:
                continue
            findings.problems.append(f"{file} is missing, with rows of part {part.number}")
        elif digest and file_digest(file, digest_like(digest)) != (size, digest):
            rows = part.entry["rows"]
            findings.problems.append(f"{file} has changed: part {part.number}, of {rows} rows")
        elif not part.sealed:
            findings.remarks.append(f"{file} is not sealed")
    if not part.sealed and not joined:
        check_stated_part(folder.path, part, findings)
