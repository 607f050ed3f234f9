"""One run of an archive, wherever that is: what of it waits to be written."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock._renamed import renamed_fields
from penstock.record._nats.jetstream import number_in
from penstock.record._nats.run_reader import StreamMessage
from penstock.record.archives.manifest import DeviceMark, Manifest

__all__ = ["RunOptions", "WaitingRun", "identity_of"]


@renamed_fields(part_seconds="part_duration")
@dataclass(frozen=True, slots=True)
class RunOptions:
    """When rows are written, and when files are joined.

    Attributes:
        part_duration: archive rows after this time at the latest.
        part_bytes: messages of so many bytes are a file, or a transaction, before that.
        file_bytes: small files are joined up to about this size.
        join: from how many small files on.
        grace: seconds for which a joined file stays, for those who are reading it.
    """

    part_duration: float = 60.0
    part_bytes: int = 8 << 20
    file_bytes: int = 64 << 20
    join: int = 16
    grace: float = 600.0


Prepared = TypeVar("Prepared")
"""What one ``write`` commits; the same again after an unclear answer."""


class WaitingRun(ABC, Generic[Prepared]):
    """The archive of one run, by its one owner.

    ``add`` is for the loop; ``load``, ``write`` and ``tidy`` block, and are called one at a time.
    """

    def __init__(self, run: str, options: RunOptions) -> None:
        self.run = run
        self.manifest: Manifest = Manifest(run)
        self._options = options
        self._marks: dict[str, DeviceMark] = {}
        self._waiting: list[StreamMessage] = []
        self._refused: list[StreamMessage] = []
        self._bytes = 0
        self._since: float | None = None
        self._position = 0, ""
        # The last message of each schema that came by, by its subject.
        self._schemas: dict[str, int] = {}
        self._prepared: Prepared | None = None

    @abstractmethod
    def load(self) -> None:
        """Read the manifest. ArchiveError: the archive is away."""

    @abstractmethod
    def _prepare(self) -> Prepared:
        """Encode what waits."""

    @abstractmethod
    def _commit(self, prepared: Prepared) -> Manifest:
        """Write it with the manifest that names it; raises as :meth:`write`."""

    @abstractmethod
    def tidy(self, least: int | None = None) -> bool:
        """Do one thing that makes the archive better to read; whether there was one.

        After an ArchiveError the same call goes on.

        Args:
            least: from how many small files on they are joined; by default that of the options.
        """

    @property
    def waiting(self) -> int:
        """The messages that are not yet written."""
        return len(self._waiting) + len(self._refused)

    @property
    def position(self) -> int:
        """The place in the stream of the last message that was read."""
        return self._position[0]

    def start_over(self) -> None:
        """Expect the stream from its beginning."""
        self._position = 0, ""
        self._schemas = {}

    def add(self, message: StreamMessage) -> None:
        """Let a message wait; one that is archived already is dropped.

        Not between a ``write`` that has failed and the one that goes on.
        """
        assert self._prepared is None
        self._position = message.sequence, message.id
        if message.is_schema:
            self._schemas[message.subject] = message.sequence
            return
        _, device, part = identity_of(message)
        if not part:
            self._refused.append(message)
        else:
            mark = self._marks.get(device, DeviceMark())
            if part <= mark.part:
                return
            missing = mark.missing + part - mark.part - 1
            self._marks[device] = DeviceMark(part, message.sequence, mark.rows, missing)
            self._waiting.append(message)
        self._bytes += len(message.payload)
        self._since = time.monotonic() if self._since is None else self._since

    def write(self) -> Manifest:
        """Write what waits, and commit it. After an ArchiveError the same call goes on.

        Raises:
            Fenced: the run has another owner. Nothing was changed, and this object is of no use.
            ArchiveError: the archive does not take it now.
        """
        if self._prepared is None:
            self._prepared = self._prepare()
        self.manifest = self._commit(self._prepared)
        self._marks = dict(self.manifest.devices)
        self._prepared, self._waiting, self._refused = None, [], []
        self._bytes, self._since = 0, None
        return self.manifest

    def due_in(self) -> float:
        """Seconds until what waits should be written; infinite while nothing waits."""
        if self._since is None:
            return float("inf")
        if self._bytes >= self._options.part_bytes:
            return 0.0
        return max(0.0, self._since + self._options.part_duration - time.monotonic())

    def archived_subjects(self, prefix: str) -> dict[str, int]:
        """Each subject, with the place of its last message that is archived.

        Of a schema, that of the last one that was read: nobody asks for an older one.
        """
        devices = {
            f"{prefix}.{self.run}.{device}": mark.sequence
            for device, mark in self.manifest.devices.items()
        }
        return devices | self._schemas

    def _has_loaded(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self._marks = dict(manifest.devices)
        self._position = manifest.sequence, manifest.message_id


def identity_of(message: StreamMessage) -> tuple[str, str, int]:
    """Run, device and part number of a message; the part 0 if it is none of a recorder's."""
    words = message.id.split("/")
    part = number_in(words[-1])
    if len(words) == 3 and part and message.subject.endswith(f".{words[1]}"):
        return words[0], words[1], part
    return "", "", 0
