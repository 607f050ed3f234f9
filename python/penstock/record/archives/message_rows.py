"""The rows of a message of a stream."""

from __future__ import annotations

from typing import Any

from penstock.record._nats.run_reader import StreamMessage
from penstock.record._stored.sound_tables import plain_schema
from penstock.record.arrow import pyarrow_module

__all__ = ["ROW_NUMBER", "rows_of_message"]

ROW_NUMBER = "archive_row"
"""The column with a row's number among those of its device in the run."""


def rows_of_message(message: StreamMessage) -> Any | None:
    """The rows of a message with their numbers; None if they are no rows of a recorder."""
    pa = pyarrow_module()
    ipc = pyarrow_module("pyarrow.ipc")
    try:
        options = ipc.IpcReadOptions(use_threads=False)  # columns are too small for threads
        with ipc.open_stream(message.payload, options=options) as stream:
            table = stream.read_all()
        table.validate(full=True)
        table = table.cast(plain_schema(table.schema))
    except (pa.ArrowException, OSError, ValueError):
        return None
    names = table.schema.names
    if "device" not in names or "t_utc" not in names:
        return None
    if not pa.types.is_timestamp(table.schema.field("t_utc").type):
        return None
    if ROW_NUMBER in names:
        return table  # a field of the user's, which stays
    numbers = pa.array(range(message.row, message.row + table.num_rows), pa.int64())
    return table.append_column(ROW_NUMBER, numbers)
