"""Rows as messages of Arrow record batches, each of one device."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from penstock.record._columns.batch import SampleBatch
from penstock.record._network.row_numbers import RowNumbers
from penstock.record.arrow import pyarrow_module

__all__ = ["ArrowMessages", "DeviceMessage", "subject_token"]

# Of Arrow's bytes before compression. A server takes 1 MiB by default, with the headers.
_MOST_BYTES = 512 << 10
_PLAIN = re.compile(r"[^A-Za-z0-9_-]")


def subject_token(name: str) -> str:
    """A name as one token of a subject; no name is ``-``, and ``a b`` is ``a%20b``."""
    return _PLAIN.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name
    ) or ("-")


@dataclass(frozen=True, slots=True)
class DeviceMessage:
    """One message, as the spool keeps it.

    Attributes:
        subject: ``PREFIX.RUN.DEVICE``.
        run: names the run.
        device: the device's name.
        part: counts the messages of this device in this run, from 1.
        row: the number of its first row among those of the device in this run, from 0.
        data: an Arrow IPC stream.
    """

    subject: str
    run: str
    device: str
    part: int
    row: int
    data: bytes

    def stored(self) -> bytes:
        """The bytes for the spool."""
        facts = [self.subject, self.run, self.device, self.part, self.row]
        return json.dumps(facts).encode() + b"\n" + self.data

    @classmethod
    def read(cls, payload: bytes) -> DeviceMessage:
        """A message from the spool."""
        head, _, data = payload.partition(b"\n")
        subject, run, device, part, row = json.loads(head)
        return cls(subject, run, device, part, row, data)

    @property
    def id(self) -> str:
        """The identity of the message, for all time, in a header's characters."""
        return f"{self.run}/{subject_token(self.device)}/{self.part}"


class ArrowMessages:
    """An :class:`~penstock.record._network.protocol.Encoder`: a payload is one message."""

    kind = b"NTA1"

    def __init__(self, prefix: str) -> None:
        self.size = 0
        self._prefix = prefix
        self._run = RowNumbers().run
        self._rows: dict[str, int] = {}
        self._parts: dict[str, int] = {}
        self._batches: list[SampleBatch] = []

    def add(self, batch: SampleBatch) -> None:
        if len(batch):
            self._batches.append(batch)
            self.size += len(batch) * 8 * len(batch.schema.names)

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
        return found

    def _messages(self, pyarrow: Any, table: Any) -> list[tuple[int, bytes]]:
        compute = pyarrow_module("pyarrow.compute")
        devices = table["device"].cast(pyarrow.string())
        found: list[tuple[int, bytes]] = []
        for device in compute.unique(devices).to_pylist():
            rows = table.filter(compute.equal(devices, device))
            pieces = max(1, -(-rows.nbytes // _MOST_BYTES))
            step = -(-rows.num_rows // pieces)
            for start in range(0, rows.num_rows, step):
                piece = rows.slice(start, step)
                found.append((piece.num_rows, self._message(pyarrow, device, piece)))
        return found

    def _message(self, pyarrow: Any, device: str, rows: Any) -> bytes:
        ipc = pyarrow_module("pyarrow.ipc")
        sink = pyarrow.BufferOutputStream()
        options = ipc.IpcWriteOptions(compression="zstd")
        [batch] = rows.combine_chunks().to_batches()
        with ipc.new_stream(sink, rows.schema, options=options) as stream:
            stream.write_batch(batch)
        row = self._rows.get(device, 0)
        part = self._parts.get(device, 0) + 1
        self._rows[device] = row + rows.num_rows
        self._parts[device] = part
        subject = f"{self._prefix}.{self._run}.{subject_token(device)}"
        data: bytes = sink.getvalue().to_pybytes()
        return DeviceMessage(subject, self._run, device, part, row, data).stored()
