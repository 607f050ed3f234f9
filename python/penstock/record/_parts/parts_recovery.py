"""A folder of parts made whole after its process was killed."""

from __future__ import annotations

from penstock.record._parts.compaction import sealed_table
from penstock.record._parts.journal import read_journal
from penstock.record._parts.part_writer import PartOptions, write_part
from penstock.record._parts.parts_folder import PART_KEY, RUN_KEY, PartsFolder
from penstock.record._parts.table_formats import TableFormat
from penstock.record._sinks.files import explained
from penstock.record.arrow import METADATA_KEY

__all__ = ["recover_folder"]


def recover_folder(folder: PartsFolder, table_format: TableFormat) -> int:
    """Write the part of each journal, and remove the journal; returns the rows that were added.

    Being killed here, and recovering again, does no harm: a journal goes once its part is durable,
    and holds all rows of the part. The caller holds the folder's lock.

    Raises:
        RecoveryError: if a journal is not one.
        SinkWriteError: if the disk refuses.
    """
    added = 0
    with explained("recover", folder.path):
        folder.clear_leftovers()
        parts = folder.parts()
        for number, journal in folder.journals():
            table = read_journal(journal)
            mine = [path for part, path in parts if part == number]
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
                paths = write_part(folder, number, rows, table_format, options)
                folder.note(number, paths, table.num_rows, {"recovered_rows": missing})
                added += missing
            journal.unlink()
    return added
