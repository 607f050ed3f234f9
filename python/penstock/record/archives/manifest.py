"""The manifest of a run: which files have its rows, and up to which message.

A manifest is the archive's only truth: a file that none names has no rows of the archive. Each
change is a new version under the next number, which a store creates only if it is not there. So of
two archivers that both take a run for theirs, one fails, and has changed nothing. *Rejected:* the
acknowledgements of a durable consumer, which a server that is killed has forgotten; and files named
by their range of sequences, which is another one after each redelivery.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from penstock.record.archives.stores import ArchiveError, Store, store_at

__all__ = [
    "ArchivedFile",
    "DeviceMark",
    "Fenced",
    "Manifest",
    "archive_files",
    "is_archive",
    "load_manifest",
    "manifests",
]

FOLDER = "_archive"
# Older versions go; a few stay for whoever reads just now.
_KEPT = 8
# A version that was listed may be gone when it is read.
_LISTED_AGAIN = 10


class Fenced(Exception):
    """Another archiver has committed to this run since."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A Parquet file with rows of one run, schema and day."""

    name: str
    rows: int
    size: int
    schema: int
    day: str


@dataclass(frozen=True, slots=True)
class DeviceMark:
    """Up to where the messages of a device are archived.

    Attributes:
        part: the number of its last message.
        sequence: where in the stream that was.
        rows: the rows of the device.
        missing: messages that never came, because the stream has lost them.
    """

    part: int = 0
    sequence: int = 0
    rows: int = 0
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """One version.

    Attributes:
        run: the run's name.
        version: counts up from 1; 0 is a run without one.
        token: of whom has made it, to know it again.
        sequence: the last message of the run that was read, by its place in the stream.
        message_id: its identity. A stream that has another one there was restored from a backup,
            or has lost its end in a power cut.
        devices: by the token of the device in the subject.
        schemas: digests of the schemas, numbered from 1.
        files: in the order of their rows.
        retired: files that a compaction has replaced, with the Unix time of that.
        refused: messages that are none of a recorder; they are kept beside the manifest.
    """

    run: str
    version: int = 0
    token: str = ""
    sequence: int = 0
    message_id: str = ""
    devices: dict[str, DeviceMark] = field(default_factory=dict)
    schemas: tuple[str, ...] = ()
    files: tuple[ArchivedFile, ...] = ()
    retired: tuple[tuple[str, float], ...] = ()
    refused: int = 0

    @property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(each.rows for each in self.files)

    def to_json(self) -> bytes:
        """The bytes of the object."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, data: bytes, name: str) -> Self:
        """A manifest from its bytes. ArchiveError: it is none."""
        try:
            found: dict[str, Any] = json.loads(data)
            found["devices"] = {name: DeviceMark(**mark) for name, mark in found["devices"].items()}
            found["files"] = tuple(ArchivedFile(**each) for each in found["files"])
            found["schemas"] = tuple(found["schemas"])
            found["retired"] = tuple((old, when) for old, when in found["retired"])
            return cls(**found)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArchiveError(
                f"{name} is not the manifest of an archive ({error}): restore a copy of it, or "
                "remove it to use the previous version"
            ) from error

    def commit(self, store: Store, before: Manifest) -> Manifest:
        """Put this as the version after ``before``, and return it.

        After an error it may be there or not; the same call again finds out.

        Raises:
            Fenced: somebody else has put one.
            ArchiveError: the store does not answer.
        """
        new = replace(self, version=before.version + 1)
        name = _name(new.run, new.version)
        if not store.create(name, new.to_json()):
            found = store.read(name)
            if found is None or Manifest.from_json(found, name).token != new.token:
                raise Fenced
        versions = _versions(store, new.run)
        if versions[-1:] != [new.version]:
            # Made long after others, whose first versions are removed already.
            store.delete(name)
            raise Fenced
        for old in versions[:-_KEPT]:
            store.delete(_name(new.run, old))
        return new


def _name(run: str, version: int) -> str:
    return f"{FOLDER}/{run}/{version:012d}.json"


def _versions(store: Store, run: str) -> list[int]:
    found = [each.name.rpartition("/")[2] for each in store.list(f"{FOLDER}/{run}/")]
    numbers = [name.removesuffix(".json") for name in found if name.endswith(".json")]
    return sorted(int(number) for number in numbers if number.isdigit())


def load_manifest(store: Store, run: str) -> Manifest:
    """The newest manifest of a run; one of version 0 where there is none.

    Raises:
        ArchiveError: the store does not answer, or lists a manifest that it does not have.
    """
    name = ""
    for _ in range(_LISTED_AGAIN):
        versions = _versions(store, run)
        if not versions:
            return Manifest(run)
        name = _name(run, versions[-1])
        if (data := store.read(name)) is not None:
            return Manifest.from_json(data, store.location(name))
    raise ArchiveError(
        f"{store.location(name)} was listed {_LISTED_AGAIN} times, but is not there: check whether "
        "the store still writes what it lists, or restore a copy of it"
    )


def manifests(store: Store) -> list[Manifest]:
    """The newest manifest of each run of an archive."""
    names = {
        each.name.split("/")[1] for each in store.list(f"{FOLDER}/") if each.name.count("/") >= 2
    }
    return [load_manifest(store, run) for run in sorted(names)]


# The files that hold the rows of an archive, each row once.


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is an archive."""
    return os.path.isdir(os.path.join(path, FOLDER))


def archive_files(target: str | os.PathLike[str]) -> list[str]:
    """The paths or URLs of the Parquet files of an archive, by run, in the order of their rows.

    A glob over the folder finds more: files of an archiver that was killed before it could commit
    them, and those that a compaction has replaced, whose rows it would give twice.

    Args:
        target: a folder, or ``s3://BUCKET/PREFIX``.

    Raises:
        ArchiveError: the archive cannot be read.
        ValueError: the URL is malformed.
    """
    store = store_at(os.fspath(target))
    return [store.location(file.name) for manifest in manifests(store) for file in manifest.files]
