"""Connections that read the log which a kill has left beside a database, and leave nothing.

To read a log, SQLite needs an index of it, ``run.sqlite-shm``, which all connections share. It
makes one where there is none. The last connection that may write removes both. One that may only
read leaves the index, so it is removed here, if it was not there before and nobody uses it.

Every connection holds a lock on the database from before it opens the index until it is closed
(https://www.sqlite.org/walformat.html). So nobody uses an index, and nobody can begin to, while all
of those locks are held here.

*Rejected:* a connection of its own kind that has no index, ``locking_mode=EXCLUSIVE``. Two readers
would keep each other out. *Rejected:* reading a copy or a link of both files. The copy takes the
room of the recording, and through the link a recorder that begins would not see the reader.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from penstock.record._files.sqlite_log import lock_path
from penstock.record.recorder_lock import is_being_recorded, is_locked

# The bytes that SQLite locks in a database, wherever that ends (sqlite.org/fileformat2.html,
# section "The Lock-Byte Page"), as a struct flock of fcntl(2).
_FIRST_LOCK, _LOCKS = 0x40000000, 512
_ALL_LOCKS = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, _FIRST_LOCK, _LOCKS, 0)


@dataclass(slots=True)
class _Readers:
    """The connections of this process to one database."""

    had_index: bool
    count: int = 0


_changing = threading.Lock()
_readers: dict[str, _Readers] = {}


class _LogReader(sqlite3.Connection):
    """Removes the index that it has made, if it is the last one."""

    database = ""

    def close(self) -> None:
        super().close()
        database, self.database = self.database, ""
        if database:
            _leave(database)


def connect_to_log(path: Path, uri: str) -> sqlite3.Connection:
    """Connect to the database ``path`` by a URI that only reads. sqlite3.Error."""
    database = os.path.realpath(path)
    with _changing:
        had_index = os.path.exists(_index_of(database))
        _readers.setdefault(database, _Readers(had_index)).count += 1
    try:
        connection = sqlite3.connect(uri, uri=True, factory=_LogReader)
    except BaseException:
        _leave(database)
        raise
    connection.database = database
    return connection


def _leave(database: str) -> None:
    with _changing:
        readers = _readers[database]
        readers.count -= 1
        if not readers.count:
            del _readers[database]
            if not readers.had_index:
                _remove_index(database)


def _remove_index(database: str) -> None:
    # Closing a descriptor ends the locks that other connections of this process hold (fcntl(2)),
    # such as those of a program that uses SQLite itself. So with a lock, nothing is opened.
    if is_being_recorded([lock_path(Path(database))]) or is_locked(Path(database)):
        return
    with suppress(OSError):  # somebody uses it, or there is none
        descriptor = os.open(database, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _ALL_LOCKS)
            os.unlink(_index_of(database))
        finally:
            os.close(descriptor)


def _index_of(database: str) -> str:
    return f"{database}-shm"
