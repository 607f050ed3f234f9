"""Rows as JSON messages, one a row, each with its topic."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

from penstock._record import json_rows
from penstock.record._columns.batch import SampleBatch
from penstock.record._columns.columns import TextColumn
from penstock.record._columns.row_text import row_columns
from penstock.record._network.rows import RowNumbers

if TYPE_CHECKING:
    from penstock._record import Column

__all__ = ["JsonMessages", "messages_of", "topic_level"]

_ESCAPED = {ord(character): f"%{ord(character):02X}" for character in "%/+#$\0\t\n"}


def topic_level(name: str) -> str:
    """A name as one level of a topic: a ``/`` is written ``%2F``, no name ``-``."""
    return name.translate(_ESCAPED) or "-"


class JsonMessages:
    """An :class:`~penstock.record._network.protocol.Encoder`.

    A payload is compressed lines: a topic, a tabulator, an object. The object begins with ``run``,
    ``device`` and ``row``, the identity of its row.
    """

    kind = b"MQJ1"

    def __init__(self, prefix: str) -> None:
        self.size = 0
        self._prefix = prefix
        self._numbers = RowNumbers()
        self._pieces: list[bytes] = []
        self._rows = 0

    def add(self, batch: SampleBatch) -> None:
        if not len(batch):
            return
        devices = batch.raw("device")
        assert isinstance(devices, TextColumn)
        names = [name for name in batch.schema.names if name != "device"]
        numbers: Column = ("i", self._numbers.take(devices.codes, devices.table), None, None)
        columns = row_columns(batch, ["device", *names], json.dumps)
        labels = [f'{{"run": "{self._numbers.run}", "device": ', ', "row": ']
        labels += [f", {json.dumps(name)}: " for name in names]
        lines = json_rows(
            [columns[0], numbers, *columns[1:]],
            [label.encode() for label in labels],
            0,
            len(batch),
        ).split(b"\n")
        topics = [self._topics(name) for name in devices.table]
        for code, event, line in zip(devices.codes, _are_events(batch), lines, strict=False):
            self._pieces.append(topics[code][event] + line)
            self.size += len(line)
        self._rows += len(batch)

    def take(self) -> list[tuple[int, bytes]]:
        if not self._rows:
            return []
        rows, text = self._rows, b"\n".join(self._pieces)
        self._pieces, self._rows, self.size = [], 0, 0
        return [(rows, zlib.compress(text, 1))]

    def _topics(self, device: str) -> tuple[bytes, bytes]:
        level = topic_level(device)
        return (
            f"{self._prefix}/samples/{level}\t".encode(),
            f"{self._prefix}/events/{level}\t".encode(),
        )


def _are_events(batch: SampleBatch) -> list[bool]:
    events = batch.raw("event") if batch.schema.kind_of("event") is not None else None
    if not isinstance(events, TextColumn):
        return [False] * len(batch)
    return [code >= 0 for code in events.codes]


def messages_of(payload: bytes) -> list[tuple[bytes, bytes]]:
    """The messages of a payload: topics and objects."""
    found = []
    for line in zlib.decompress(payload).split(b"\n"):
        topic, _, text = line.partition(b"\t")
        found.append((topic, text))
    return found
