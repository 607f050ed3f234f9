"""A folder of parts made whole after its process was killed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock._torn_end import Cut, EndTooLargeError, check_size, keep_copy
from penstock.record._files.files import explained
from penstock.record._parts.compaction import sealed_table
from penstock.record._parts.journal import JournalContent, read_journal, remove_journal
from penstock.record._parts.part_writer import PartOptions, write_part
from penstock.record._parts.parts_folder import PART_KEY, RUN_KEY, PartsFolder
from penstock.record._parts.table_formats import TableFormat
from penstock.record._seals.digests import digest_name
from penstock.record._seals.part_list import file_digest, read_part_list
from penstock.record._seals.seal_check import check_file
from penstock.record._seals.signing import SigningKey
from penstock.record.arrow import METADATA_KEY
from penstock.record.damage import unreadable_is
from penstock.record.errors import RecoveryError

__all__ = ["RecoveredFolder", "recover_folder"]


@dataclass(frozen=True, slots=True)
class RecoveredFolder:
    """What was done: the rows that were added, and the torn ends of journals that were kept."""

    rows: int
    cuts: list[Cut]


def recover_folder(
    folder: PartsFolder,
    table_format: TableFormat,
    beside: Path | None = None,
    *,
    force: bool,
    key: SigningKey | None = None,
) -> RecoveredFolder:
    """Write the part of each journal, and remove the journal.

    A journal with a torn end is kept: its end alone could not be read. Its copy lies beside the
    journal, or beside the file ``beside``, of which the folder is only a passing form.

    Being killed here, and recovering again, does no harm: a journal goes once its part is durable,
    and holds all rows of the part. The caller holds the folder's lock.

    Raises:
        RecoveryError: if a journal or a part cannot be read, or a journal has batches behind its
            damaged place, without ``force``. Nothing was changed then.
        SinkWriteError: if the disk refuses.
    """
    added = 0
    cuts: list[Cut] = []
    with explained("recover", folder.path):
        contents = {journal: read_journal(journal) for _, journal in folder.journals()}
        for journal, content in contents.items():
            _check_end(journal, content, force=force)
        folder.clear_leftovers()
        kind = digest_name(signed=key is not None)
        parts = folder.parts()
        noted = {part.number for part in read_part_list(folder.list).parts}
        for number, journal in folder.journals():
            table = contents[journal].table
            mine = [path for part, path in parts if part == number]
            with unreadable_is(RecoveryError, folder.path, "nothing of its journal was removed"):
                there = sum(table_format.count_rows(path) for path in mine)
            if table.num_rows > there or not mine:
                metadata = table.schema.metadata or {}
                kept = {
                    key: metadata[key]
                    for key in (METADATA_KEY, RUN_KEY, PART_KEY)
                    if key in metadata
                }
                missing = table.num_rows - there
                kept[b"penstock.recovered_rows"] = str(missing).encode()
                rows = sealed_table(table.replace_schema_metadata(kept))
                options = PartOptions(partition_by=folder.partition_by())
                files = [
                    (file.path, file.size, file.digest)
                    for file in write_part(
                        folder, number, rows, table_format, options, digest_name=kind
                    )
                ]
                facts = _facts(journal, table, missing)
                folder.note(number, files, table.num_rows, facts, key)
                added += missing
            elif number not in noted:
                # Killed between the part and its line in the list.
                digests = [(path, *file_digest(path, kind)) for path in mine]
                folder.note(number, digests, there, _facts(journal, table, 0), key)
            if contents[journal].fault:
                cuts.append(_keep(journal, contents[journal], beside or journal))
            remove_journal(journal)
    return RecoveredFolder(added, cuts)


def _facts(journal: Path, table: Any, missing: int) -> dict[str, Any]:
    """What the list tells of a part that was made of a journal."""
    facts: dict[str, Any] = {}
    if missing:
        facts["recovered_rows"] = missing
    if table.num_rows:
        stamps = table.column("t_utc")
        facts |= {"first_unix_ns": stamps[0].value, "last_unix_ns": stamps[-1].value}
    sealed = check_file(journal)
    if sealed.problems:
        facts["journal"] = sealed.problems
    return {**facts, "ended": "cut off"}


def _check_end(journal: Path, content: JournalContent, *, force: bool) -> None:
    with open(journal, "rb") as file:
        try:
            check_size(
                file.fileno(),
                journal,
                content.end,
                content.size,
                force=force,
                more=content.more,
                most=content.size,
            )
        except EndTooLargeError as error:
            raise RecoveryError(str(error)) from error


def _keep(journal: Path, content: JournalContent, beside: Path) -> Cut:
    with open(journal, "rb") as file:
        kept_in = keep_copy(file.fileno(), beside, 0, content.size)
    return Cut(journal, content.size - content.end, kept_in)
