"""Rows as messages of Arrow record batches, each of one device, and their schemas.

An Arrow IPC stream begins with its schema, some kilobytes, of which a batch of ten rows is a tenth.
So a stream is cut after it: the schema is a message of its own, named by its digest, and the rest
of the stream names it in a header. Both put together are the stream again. A schema is sent when
its first rows come, again every hour, again after rows of 32 times its size, and at the end of the
run. So a stream that removes old messages by age, size or number still has one of them, unless it
keeps less than that. *Rejected:* the schema in the first message of each
device, which a reader that begins in the middle of a run does not find.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from penstock.record._columns.batch import SampleBatch
from penstock.record._network.rows import RowNumbers
from penstock.record.arrow import pyarrow_module

SCHEMA = "schema."
"""What the last tokens of a schema's subject begin with. A device's is one token."""

_TOLD_EVERY_S = 3600.0
_TOLD_EVERY_SIZES = 32

# Of Arrow's bytes before compression. A server takes 1 MiB by default, with the headers.
_MOST_BYTES = 512 << 10
_COMPRESSED_BYTES = 8 << 10
_PLAIN = re.compile(r"[^A-Za-z0-9_-]")


def subject_token(name: str) -> str:
    """A name as one token of a subject: ``a b`` is ``a%20b``, no name ``-``, and ``-`` ``%2D``."""
    if name in ("", "-"):
        return "%2D" if name else "-"
    return _PLAIN.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name)


@dataclass(frozen=True, slots=True)
class DeviceMessage:
    """One message, as the spool keeps it.

    Attributes:
        subject: ``PREFIX.RUN.DEVICE``, or ``PREFIX.RUN.schema.DIGEST``.
        run: names the run.
        device: the device's name; empty for a schema.
        part: counts the messages of this subject, from 1.
        row: the number of its first row among those of the device in this run, from 0.
        data: an Arrow IPC stream; its beginning, or what follows that.
        schema: names the beginning of the stream; empty where ``data`` has it, as in the spools of
            earlier versions.
    """

    subject: str
    run: str
    device: str
    part: int
    row: int
    data: bytes
    schema: str = ""

    def stored(self) -> bytes:
        """The bytes for the spool."""
        facts = [self.subject, self.run, self.device, self.part, self.row, self.schema]
        return json.dumps(facts).encode() + b"\n" + self.data

    @classmethod
    def read(cls, payload: bytes) -> DeviceMessage:
        """A message from the spool."""
        head, _, data = payload.partition(b"\n")
        subject, run, device, part, row, *schema = json.loads(head)
        return cls(subject, run, device, part, row, data, *schema)

    def identity(self, generation: str = "") -> str:
        """The identity of the message, for all time, in a header's characters.

        A server drops a message whose identity it knows, even if that message was purged since.
        So the same message has another identity with another ``generation``, a word.
        """
        again = f"{generation}/" if generation else ""
        return f"{self.run}/{self._name}/{again}{self.part}"

    @property
    def _name(self) -> str:
        return self.subject.rpartition(f".{self.run}.")[2]

    @property
    def is_schema(self) -> bool:
        """Whether it has no rows, and the schema of others."""
        return self._name.startswith(SCHEMA)

    @property
    def schema_subject(self) -> str:
        """Where the schema is; empty where ``data`` has it."""
        if not self.schema:
            return ""
        return f"{self.subject.rpartition('.')[0]}.{SCHEMA}{self.schema}"


@dataclass(slots=True)
class _Schema:
    """What was told of a schema.

    Attributes:
        beginning: of the streams that have it.
        times: how often it was sent.
        last: when last, by the monotonic clock.
        bytes_since: of rows.
    """

    beginning: bytes
    times: int = 0
    last: float = 0.0
    bytes_since: int = 0

    @property
    def is_due(self) -> bool:
        """Whether it is to be sent before the next rows."""
        return (
            not self.times
            or time.monotonic() - self.last > _TOLD_EVERY_S
            or self.bytes_since > _TOLD_EVERY_SIZES * len(self.beginning)
        )


class ArrowMessages:
    """An :class:`~penstock.record._network.protocol.Encoder`: a payload is one message."""

    kind = b"NTA1"

    def __init__(self, prefix: str) -> None:
        self.size = 0
        self._prefix = prefix
        self._run = RowNumbers().run
        self._rows: dict[str, int] = {}
        self._parts: dict[str, int] = {}
        self._schemas: dict[str, _Schema] = {}
        self._ends = False
        self._batches: list[SampleBatch] = []

    def add(self, batch: SampleBatch) -> None:
        if len(batch):
            self._batches.append(batch)
            self.size += len(batch) * 8 * len(batch.schema.names)

    def end(self) -> None:
        """Send each schema once more, after the rows that wait, the last of the run."""
        self._ends = True

    def take(self) -> list[tuple[int, bytes]]:
        batches, self._batches, self.size = self._batches, [], 0
        found: list[tuple[int, bytes]] = []
        pyarrow = pyarrow_module()
        while batches:
            # Those of one schema together: a message has one.
            first = batches[0].to_arrow()
            same = [first]
            del batches[0]
            while batches:
                following = batches[0].to_arrow()
                if not following.schema.equals(first.schema, check_metadata=True):
                    break
                same.append(following)
                del batches[0]
            table = pyarrow.Table.from_batches(same).unify_dictionaries()
            found += self._messages(pyarrow, table)
        if self._ends:
            found += [self._told(name) for name, each in self._schemas.items() if each.bytes_since]
        return found

    def _messages(self, pyarrow: Any, table: Any) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        for device, rows in _by_device(table):
            pieces = max(1, -(-rows.nbytes // _MOST_BYTES))
            step = -(-rows.num_rows // pieces)
            for start in range(0, rows.num_rows, step):
                found += self._messages_of(pyarrow, device, rows.slice(start, step))
        return found

    def _messages_of(self, pyarrow: Any, device: str, batch: Any) -> list[tuple[int, bytes]]:
        """The message of some rows, after that of its schema if that is due."""
        ipc = pyarrow_module("pyarrow.ipc")
        sink = pyarrow.BufferOutputStream()
        # Compressed column by column: what is small becomes larger by that. Arrow's threads take
        # half as much time again, for a message of ten rows four times as much.
        options = ipc.IpcWriteOptions(
            compression="zstd" if batch.nbytes >= _COMPRESSED_BYTES else None, use_threads=False
        )
        with ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        row = self._rows.get(device, 0)
        part = self._parts.get(device, 0) + 1
        self._rows[device] = row + batch.num_rows
        self._parts[device] = part
        stream: bytes = sink.getvalue().to_pybytes()
        # The first message of a stream: four bytes of ones, its length, and so many bytes.
        end = 8 + int.from_bytes(stream[4:8], "little")
        name = sha256(stream[:end]).hexdigest()[:16]
        schema = self._schemas.setdefault(name, _Schema(stream[:end]))
        found = [self._told(name)] if schema.is_due else []
        schema.bytes_since += len(stream) - end
        subject = f"{self._prefix}.{self._run}.{subject_token(device)}"
        data = stream[end:]
        message = DeviceMessage(subject, self._run, device, part, row, data, name)
        return [*found, (batch.num_rows, message.stored())]

    def _told(self, name: str) -> tuple[int, bytes]:
        """The message of a schema, which is sent now."""
        schema = self._schemas[name]
        schema.times, schema.last, schema.bytes_since = schema.times + 1, time.monotonic(), 0
        subject = f"{self._prefix}.{self._run}.{SCHEMA}{name}"
        told = DeviceMessage(subject, self._run, "", schema.times, 0, schema.beginning)
        return 0, told.stored()


def _by_device(table: Any) -> list[tuple[str, Any]]:
    """The rows of each device, in order, as a record batch.

    They are put in order once: to select those of each device in turn costs as often as there are
    devices.
    """
    compute = pyarrow_module("pyarrow.compute")
    [rows] = table.combine_chunks().to_batches()
    devices = rows["device"]
    names = devices.dictionary.to_pylist()
    counts = {each["values"]: each["counts"] for each in devices.indices.value_counts().to_pylist()}
    if len(counts) > 1:
        rows = rows.take(compute.sort_indices(devices.indices))  # stable
    found = []
    start = 0
    for code in sorted(counts):
        found.append((names[code], rows.slice(start, counts[code])))
        start += counts[code]
    return found
