"""Batches as compressed lines of InfluxDB's protocol."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock._record import line_rows
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import TextColumn
from penstock.record._columns.row_text import row_columns
from penstock.record._network.rows import RowStamps, gzip_text
from penstock.record.schema import beside

if TYPE_CHECKING:
    from penstock._record import Column

# The tag, the stamp, and what follows from the others.
_NO_FIELDS = frozenset({"device", "t_utc", "requested_at", "received_at"})
_NO_EVENT = b"\xff\xff\xff\xff"


class LineEncoder:
    """Makes lines of rows, each with an identity of its own.

    A point is its measurement, its tags and its stamp. Samples are in ``measurement``, events in
    ``events``; the device is the only tag, because a tag that is there only sometimes makes another
    series; and no two rows of a series have one stamp.
    """

    kind = b"ILP1"

    def __init__(self, measurement: str, events: str) -> None:
        self._measurement = measurement
        self._events = events
        self._stamps = RowStamps()
        self._heads: dict[tuple[bool, str], bytes] = {}
        self._labels: dict[str, bytes] = {}
        self._pieces: list[bytes] = []
        self._rows = 0
        self.size = 0

    def add(self, batch: SampleBatch) -> None:
        if not len(batch):
            return
        codes, series = self._series(batch)
        given: Any = batch.raw("t_utc")
        stamps = self._stamps.unique(given, codes, [f"{event:d}{name}" for event, name in series])
        names = [name for name in batch.schema.names if name not in _NO_FIELDS]
        heads: Column = ("s", codes, None, [self._head(each) for each in series])
        lines = line_rows(
            [heads, *row_columns(batch, names, quoted_text), ("t", stamps, None, None)],
            [self._label(name) for name in names],
            0,
            len(batch),
        )
        self._pieces.append(lines)
        self._rows += len(batch)
        self.size += len(lines)

    def take(self) -> list[tuple[int, bytes]]:
        if not self._rows:
            return []
        rows, text = self._rows, b"".join(self._pieces)
        self._pieces, self._rows, self.size = [], 0, 0
        return [(rows, gzip_text(text))]

    def _series(self, batch: SampleBatch) -> tuple[array[int], Sequence[tuple[bool, str]]]:
        """The series of each row, as a place in a list."""
        devices = batch.raw("device")
        assert isinstance(devices, TextColumn)
        series = [(False, name) for name in devices.table]
        events = batch.raw("event") if batch.schema.kind_of("event") is not None else None
        if isinstance(events, TextColumn) and events.codes.tobytes() != _NO_EVENT * len(batch):
            count = len(series)
            series += [(True, name) for name in devices.table]
            pairs = zip(devices.codes, events.codes, strict=True)
            return array("i", [code + count * (event >= 0) for code, event in pairs]), series
        return devices.codes, series

    def _head(self, series: tuple[bool, str]) -> bytes:
        head = self._heads.get(series)
        if head is None:
            event, device = series
            measurement = self._events if event else self._measurement
            head = self._heads[series] = series_head(measurement, device)
        return head

    def _label(self, name: str) -> bytes:
        label = self._labels.get(name)
        if label is None:
            label = self._labels[name] = field_label(name)
        return label


# Names and texts in the line protocol of InfluxDB.
#
# https://docs.influxdata.com/influxdb/v1.6/write_protocols/line_protocol_reference/
#
# Four things cannot be written: a line feed in a name, a backslash at the end of a name or before
# one of its commas, equals signs and blanks, a character of number 0, and a field without a name.
# They are written as the two characters ``\n``, as ``\`` and a full stop, as ``\0``, and as
# ``field_``. A line feed in a text is possible, but then the lines of a request cannot be told
# apart.

NO_FIELD_NAMES = frozenset({"", "time"})
"""What no field can be called: InfluxDB refuses a field ``time``."""

_CONTROLS = {"\n": "\\n", "\r": "\\r", "\0": "\\0"}
_BEFORE_SPECIAL = re.compile(r"\\(?=[,= ]|\Z)")
# In a name a backslash before another character is itself.
_FIELD = re.compile(rb'((?:\\[,= ]|[^,= ])+)=("(?:\\.|[^"\\])*"|[^, ]*)', re.DOTALL)
_HEAD = re.compile(rb"(?:\\[,= ]|[^ ])+", re.DOTALL)
_MEASUREMENT = re.compile(rb"(?:\\[, ]|[^, ])+")


def _name(text: str, special: str) -> str:
    for control, written in _CONTROLS.items():
        text = text.replace(control, written)
    text = _BEFORE_SPECIAL.sub(r"\\.", text)
    for character in special:
        text = text.replace(character, f"\\{character}")
    return text


def series_head(measurement: str, device: str) -> bytes:
    """What stands before the fields of a line; a device without a name is not a tag."""
    head = _name(measurement, ", ")
    return (f"{head},device={_name(device, ',= ')}" if device else head).encode()


def field_label(name: str) -> bytes:
    """What stands before a field's value."""
    return _name(beside(name, NO_FIELD_NAMES), ",= ").encode() + b"="


def quoted_text(text: str) -> str:
    """A text as a field's value; empty for an empty one, which is left out."""
    if not text:
        return ""
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    for control, written in _CONTROLS.items():
        text = text.replace(control, written)
    return f'"{text}"'


def measurement_of(line: bytes) -> bytes:
    """The measurement of a line as it is written there."""
    found = _MEASUREMENT.match(line)
    return b"" if found is None else found[0]


def row_of(line: bytes) -> tuple[bytes, bytes]:
    """The identity of a line's row, whatever fields it has: its series and its stamp."""
    head = _HEAD.match(line)
    return b"" if head is None else head[0], line.rpartition(b" ")[2]


def line_without_field(line: bytes, measurement: str | bytes, field: str) -> bytes | None:
    """A line of ``measurement`` without a field; empty if it has no other; None if it has it not.

    A line as this module writes it, and the field as the server names it; ``measurement`` as bytes
    is as a line has it.
    """
    head = _HEAD.match(line)
    if head is None:
        return None
    own = measurement if isinstance(measurement, bytes) else _name(measurement, ", ").encode()
    if head[0] != own and not head[0].startswith(own + b","):
        return None
    wanted = _name(field, ",= ").encode()
    kept, hit, at = [], False, head.end()
    while line[at : at + 1] == (b"," if at > head.end() else b" "):
        found = _FIELD.match(line, at + 1)
        if found is None:
            return None
        if found[1] == wanted:
            hit = True
        else:
            kept.append(found[0])
        at = found.end()
    if not hit:
        return None
    return head[0] + b" " + b",".join(kept) + line[at:] if kept else b""
