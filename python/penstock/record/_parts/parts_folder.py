"""A folder of parts: its files and their names.

``run/part-000001.parquet`` and so on are the rows, or ``run/day=2026-11-22/device=fuel/...`` where
the recording is partitioned. ``run/.penstock`` has the files that readers of the rows ignore: the
lock, the run's id, the list of parts, and the journal of the growing part.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock._durable_files import find_leftovers, put_file, sync_folder, write_fully
from penstock.record._files.files import explained, take_lock_file
from penstock.record._seals.digests import SigningKey
from penstock.record._seals.part_list import add_part
from penstock.record._seals.seal import seals_path
from penstock.record.errors import RecoveryError

RUN_KEY = b"penstock.parts"
"""Metadata of a part and of a file that was made of parts: the id of their folder."""
RUNS_KEY = b"penstock.runs"
"""Metadata of a file with the rows of several runs: of each its rows, and what it began with."""
PART_KEY = b"penstock.part"
"""Metadata of a part: its number."""

_PART = re.compile(r"part-(\d{6,})\.(parquet|arrow)")
_SEALS = re.compile(r"(journal-\d{6,}\.arrows)\.seals")
_JOURNAL = re.compile(r"journal-(\d{6,})\.arrows")


def parts_path(path: Path) -> Path:
    """The folder for the parts of a single file: ``run.parquet`` -> ``run.parquet.parts``."""
    if not path.name:
        path = path.absolute()  # "." has no name
    return path.with_name(path.name + ".parts")


class PartsFolder:
    """The folder of one recording, and its names."""

    def __init__(self, path: Path, suffix: str) -> None:
        self.path = path
        self.suffix = suffix
        self.state = path / ".penstock"
        self.list = self.state / "parts.jsonl"
        self._run_file = self.state / "run.json"
        self._lock = -1

    def exists(self) -> bool:
        """True when the folder contains a recording."""
        return self.state.is_dir()

    def create(self) -> None:
        """Create the folder where it is not there yet; OSError."""
        self.path.mkdir(exist_ok=True)
        self.state.mkdir(exist_ok=True)
        sync_folder(os.fspath(self.path))
        sync_folder(os.fspath(self.state))

    def lock(self) -> None:
        """Lock the folder until :meth:`unlock`; SinkWriteError while another process records."""
        self._lock = take_lock_file(self.state / "lock", self.path)

    def unlock(self) -> None:
        """Unlock the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def begin(self, partition_by: Sequence[str]) -> str:
        """Give the folder its id, unless it has one, and return it."""
        if not self._run_file.exists():
            content = {"run": secrets.token_hex(8), "partition_by": list(partition_by)}
            data = json.dumps(content).encode()
            os.close(put_file(self._run_file, lambda descriptor: write_fully(descriptor, data)))
            sync_folder(os.fspath(self._run_file))
        return self.run_id()

    def run_id(self) -> str:
        """The id of this folder, the same for its whole life; RecoveryError without one."""
        return str(self._described()["run"])

    def partition_by(self) -> tuple[Any, ...]:
        """How the parts are divided."""
        return tuple(self._described()["partition_by"])

    def has_begun(self) -> bool:
        """False when nothing was ever recorded here."""
        return self._run_file.exists()

    def _described(self) -> dict[str, Any]:
        try:
            content: dict[str, Any] = json.loads(self._run_file.read_bytes())
            return {"run": content["run"], "partition_by": content["partition_by"]}
        except (OSError, ValueError, KeyError) as error:
            raise RecoveryError(
                f"{self._run_file} cannot be read ({error}): "
                f"move the complete parts of {self.path} elsewhere to keep them"
            ) from error

    def journal(self, number: int) -> Path:
        """The journal of part ``number``."""
        return self.state / f"journal-{number:06d}.arrows"

    def part_name(self, number: int) -> str:
        """The file name of part ``number``."""
        return f"part-{number:06d}{self.suffix}"

    def parts(self) -> list[tuple[int, Path]]:
        """All parts that are there, by number and path."""
        found = []
        for folder, names in self._folders():
            for name in sorted(names):
                if match := _PART.fullmatch(name):
                    found.append((int(match[1]), Path(folder, name)))
        return sorted(found)

    def _folders(self) -> Iterator[tuple[str, list[str]]]:
        """The folder and its partitions, each with the names of its files.

        Not what else lies below: that may be a recording of its own. OSError: one cannot be listed,
        which os.walk alone takes for an empty one.
        """

        def fail(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):
                raise error

        for folder, below, names in os.walk(self.path, onerror=fail):
            below[:] = sorted(name for name in below if "=" in name)
            yield folder, names

    def journals(self) -> list[tuple[int, Path]]:
        """All journals that are there, by number."""
        try:
            names = os.listdir(self.state)
        except FileNotFoundError:  # a kill has interrupted the making or the removal of the folder
            names = []
        return sorted(
            (int(match[1]), self.state / name)
            for name in names
            if (match := _JOURNAL.fullmatch(name))
        )

    def next_number(self) -> int:
        """The first number above all parts and journals."""
        return max((number for number, _ in (*self.parts(), *self.journals())), default=0) + 1

    def note(
        self,
        number: int,
        files: Sequence[tuple[Path, int, bytes]],
        rows: int,
        facts: dict[str, Any],
        key: SigningKey | None = None,
    ) -> None:
        """Add a final part to the list of parts: its files with their sizes and digests. OSError.

        Digests are empty for parts without seals.
        """
        entry: dict[str, Any] = {
            "part": number,
            "files": [str(path.relative_to(self.path)) for path, _, _ in files],
            "rows": rows,
            **facts,
        }
        if all(digest for _, _, digest in files):
            entry["bytes"] = [size for _, size, _ in files]
            entry["digests"] = [digest.hex() for _, _, digest in files]
            add_part(self.list, entry, key)
            return
        with open(self.list, "ab") as file:
            file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")

    def clear_leftovers(self) -> None:
        """Remove temporary files of a process that was killed."""
        for number in {number for number, _ in self.journals()} | {self.next_number()}:
            for leftover in find_leftovers(os.fspath(self.journal(number))):
                os.unlink(leftover)
        for leftover in find_leftovers(os.fspath(self._run_file)):
            os.unlink(leftover)
        for name in os.listdir(self.state):
            # A kill may have left them before their journal had its name, or after it.
            if (match := _SEALS.fullmatch(name)) and not (self.state / match[1]).exists():
                os.unlink(self.state / name)
        for folder, names in self._folders():
            for name in names:
                if re.fullmatch(r"\.part-\d{6,}\.(parquet|arrow)\.[0-9a-f]{8}\.tmp", name):
                    os.unlink(os.path.join(folder, name))

    def remove_content(self) -> None:
        """Remove the parts, journals, the list and the id, but not the lock.

        A file that was made of the parts has the id: what comes next into the folder needs another.
        """
        for path in self._own_files():
            path.unlink(missing_ok=True)
        self._remove_partitions()
        self._run_file.unlink(missing_ok=True)
        sync_folder(os.fspath(self.list))
        sync_folder(os.fspath(self.state))

    def remove(self) -> None:
        """Remove the folder. What is not of this recording stays, and the folder with it."""
        self.remove_content()
        (self.state / "lock").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            for name in os.listdir(self.state):
                if _SEALS.fullmatch(name):
                    os.unlink(self.state / name)
        with contextlib.suppress(OSError):
            self.state.rmdir()
            self.path.rmdir()
            sync_folder(os.fspath(self.path))

    def _own_files(self) -> Iterator[Path]:
        yield from (path for _, path in self.parts())
        for _, journal in self.journals():
            yield from (journal, seals_path(journal))
        yield self.list

    def _remove_partitions(self) -> None:
        for folder, _ in reversed(list(self._folders())[1:]):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


@contextlib.contextmanager
def locked(folder: PartsFolder) -> Iterator[None]:
    """Hold the lock of a folder."""
    with explained("lock", folder.path):
        folder.lock()
    try:
        yield
    finally:
        folder.unlock()
