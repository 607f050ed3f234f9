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
from penstock.record._sinks.files import explained, lock_file
from penstock.record.errors import RecoveryError

__all__ = ["PART_KEY", "RUNS_KEY", "RUN_KEY", "PartsFolder", "parts_path"]

RUN_KEY = b"penstock.parts"
"""Metadata of a part and of a file that was made of parts: the id of their folder."""
RUNS_KEY = b"penstock.runs"
"""Metadata of a file with the rows of several runs: of each its rows, and what it began with."""
PART_KEY = b"penstock.part"
"""Metadata of a part: its number."""

_PART = re.compile(r"part-(\d{6,})\.(parquet|arrow)")
_JOURNAL = re.compile(r"journal-(\d{6,})\.arrows")


def parts_path(path: Path) -> Path:
    """The folder for the parts of a single file: ``run.parquet`` -> ``run.parquet.parts``."""
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
        path = self.state / "lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            lock_file(descriptor, path, self.path)
        except BaseException:
            os.close(descriptor)
            raise
        self._lock = descriptor

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
        for folder, below, names in os.walk(self.path):
            below[:] = sorted(name for name in below if name != self.state.name)
            for name in sorted(names):
                if match := _PART.fullmatch(name):
                    found.append((int(match[1]), Path(folder, name)))
        return sorted(found)

    def journals(self) -> list[tuple[int, Path]]:
        """All journals that are there, by number."""
        return sorted(
            (int(match[1]), self.state / name)
            for name in os.listdir(self.state)
            if (match := _JOURNAL.fullmatch(name))
        )

    def next_number(self) -> int:
        """The first number above all parts and journals."""
        return max((number for number, _ in (*self.parts(), *self.journals())), default=0) + 1

    def note(self, number: int, paths: list[Path], rows: int, facts: dict[str, Any]) -> None:
        """Add a final part to the list of parts."""
        line = {
            "part": number,
            "files": [str(path.relative_to(self.path)) for path in paths],
            "rows": rows,
            **facts,
        }
        with open(self.list, "ab") as file:
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")

    def clear_leftovers(self) -> None:
        """Remove temporary files of a process that was killed."""
        for number in {number for number, _ in self.journals()} | {self.next_number()}:
            for leftover in find_leftovers(os.fspath(self.journal(number))):
                os.unlink(leftover)
        for folder, _, names in os.walk(self.path):
            for name in names:
                if re.fullmatch(r"\.part-\d{6,}\.(parquet|arrow)\.[0-9a-f]{8}\.tmp", name):
                    os.unlink(os.path.join(folder, name))

    def remove_content(self) -> None:
        """Remove the parts, journals and the list, but not the lock."""
        for path in self._own_files():
            path.unlink(missing_ok=True)
        self._remove_partitions()
        sync_folder(os.fspath(self.list))
        sync_folder(os.fspath(self.state))

    def remove(self) -> None:
        """Remove the folder. What is not of this recording stays, and the folder with it."""
        self.remove_content()
        self._run_file.unlink(missing_ok=True)
        (self.state / "lock").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.state.rmdir()
            self.path.rmdir()
            sync_folder(os.fspath(self.path))

    def _own_files(self) -> Iterator[Path]:
        yield from (path for _, path in self.parts())
        yield from (path for _, path in self.journals())
        yield self.list

    def _remove_partitions(self) -> None:
        for folder, _, _ in os.walk(self.path, topdown=False):
            if "=" in os.path.basename(folder):
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
