"""The states of alarms, and the notifications that are still to be delivered, in one file.

The states are those of ISA-18.2. An alarm that has begun is *unacknowledged* until a person
acknowledges it, whether its value is still outside or has returned. Acknowledging never hides an
active alarm. A *latched* alarm stays until it is reset. A *shelved* alarm is judged and recorded as
before, but nobody is notified.

A change of state and its notifications are written to the file in one step, before anything is
sent. So a restarted recorder does not begin an alarm again that has begun before, and it sends the
notifications that are left with the same ids.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import math
import os
import secrets
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from penstock._durable_files import find_leftovers, put_file, sync_folder, write_fully
from penstock.record._files.files import take_lock_file
from penstock.record.errors import RecordError, SinkWriteError

__all__ = ["AlarmBook", "AlarmBookError", "AlarmEntry"]

_MOST_WAITING = 256
_LONGEST_SHELF_S = 7 * 86400.0


class AlarmBookError(RecordError):
    """The file of an alarm book cannot be used, or an alarm does not allow what is asked."""


@dataclass(slots=True)
class AlarmEntry:
    """One alarm.

    Attributes:
        key: the key of the alarm, ``DEVICE/FIELD/NUMBER``.
        active: whether the value is outside the limits.
        acknowledged: whether a person has acknowledged the newest activation; True before the
            first.
        latched: whether the alarm must be reset, and was not since it began.
        shelved_until: Unix time in seconds; None for an alarm that is not shelved.
        activation: how often the alarm has begun.
        since: Unix time in seconds at which the alarm began last.
        message: the reason for its last begin or end.
    """

    key: str
    active: bool = False
    acknowledged: bool = True
    latched: bool = False
    shelved_until: float | None = None
    activation: int = 0
    since: float = 0.0
    message: str = ""

    @property
    def state(self) -> str:
        """``normal``, ``unacknowledged``, ``acknowledged``, ``returned`` or ``latched``.

        ``returned``: the value is inside again, and the alarm is not acknowledged. ``latched``: the
        value is inside again, and the alarm is acknowledged but not reset.
        """
        if self.active:
            return "acknowledged" if self.acknowledged else "unacknowledged"
        if not self.acknowledged:
            return "returned"
        return "latched" if self.latched else "normal"


@dataclass(slots=True)
class _Content:
    """What is in the file."""

    name: str
    count: int = 0
    dropped: int = 0
    entries: dict[str, AlarmEntry] = field(default_factory=dict)
    waiting: dict[str, list[dict[str, Any]]] = field(default_factory=dict)


class AlarmBook:
    """The book of one installation. Its methods block for a sync, and may be called by any thread.

    One recorder has it, from here to :meth:`close` or to the end of its process: it keeps the
    content in memory, and would overwrite what another one has written. The lock is on the file
    ``NAME-lock`` beside the book.

    Args:
        path: the file; created when it is needed.
        destinations: the names of the destinations of notifications.
        latch: whether alarms stay until they are reset.

    Raises:
        AlarmBookError: another recorder has the book, the file exists and is not an alarm book, or
            it cannot be read. Any method raises it too, if the file cannot be written.
    """

    def __init__(
        self, path: str | os.PathLike[str], destinations: Iterable[str], *, latch: bool = False
    ) -> None:
        self.path: Path = Path(path)
        self._latch = latch
        self._lock = threading.Lock()
        beside = Path(f"{os.path.realpath(self.path)}-lock")
        self._release = weakref.finalize(self, _unlock, beside, self._take(beside), os.getpid())
        self._release.atexit = False  # the kernel ends the lock with the process
        try:
            self._content = self._read()
            self._remove_leftovers()
        except BaseException:
            self.close()
            raise
        # Notifications for removed destinations are dropped, all others are kept.
        self._content.waiting = {
            name: self._content.waiting.get(name, []) for name in dict.fromkeys(destinations)
        }

    def close(self) -> None:
        """Leave the book to another recorder. It cannot be changed any more."""
        self._release()

    def entries(self) -> list[AlarmEntry]:
        """All alarms that have ever begun, by key; copies."""
        with self._lock:
            found = sorted(self._content.entries.values(), key=lambda each: each.key)
            return [AlarmEntry(**asdict(each)) for each in found]

    def is_active(self, key: str) -> bool:
        """Whether the value of an alarm was outside at the last report of it."""
        with self._lock:
            entry = self._content.entries.get(key)
            return entry is not None and entry.active

    def begin(self, key: str, message: str, value: float | None) -> bool:
        """An alarm begins; False if it is active already, as after a restart of the recorder."""
        with self._lock:
            entry = self._content.entries.setdefault(key, AlarmEntry(key))
            if entry.active:
                return False
            entry.active, entry.acknowledged, entry.latched = True, False, self._latch
            entry.activation += 1
            entry.since, entry.message = time.time(), message
            self._tell("begin", entry, value, "")
            return True

    def end(self, key: str, message: str, value: float | None) -> bool:
        """The value is inside again; False if the alarm is not active."""
        with self._lock:
            entry = self._content.entries.get(key)
            if entry is None or not entry.active:
                return False
            entry.active, entry.message = False, message
            self._tell("end", entry, value, "")
            return True

    def acknowledge(self, key: str, by: str) -> None:
        """A person has seen the alarm. AlarmBookError: there is nothing to acknowledge."""
        with self._asked():
            entry = self._entry(key)
            if entry.acknowledged:
                raise AlarmBookError(f"{key} is {entry.state}: there is nothing to acknowledge")
            entry.acknowledged = True
            self._tell("acknowledge", entry, None, by)

    def reset(self, key: str, by: str) -> None:
        """End a latched alarm. AlarmBookError: it is not latched, still active, or not seen."""
        with self._asked():
            entry = self._entry(key)
            if not entry.latched:
                raise AlarmBookError(f"{key} is {entry.state}, and not latched")
            if entry.active or not entry.acknowledged:
                remedy = "wait until it is inside" if entry.active else "acknowledge it first"
                raise AlarmBookError(f"{key} is {entry.state}, and cannot be reset: {remedy}")
            entry.latched = False
            self._tell("reset", entry, None, by)

    def shelve(self, key: str, seconds: float, by: str) -> None:
        """Send no notifications of an alarm for a time, at most 7 days.

        Raises:
            AlarmBookError: the time is too long, or there is no such alarm.
        """
        with self._asked():
            entry = self._entry(key)
            if not 0 < seconds <= _LONGEST_SHELF_S:
                raise AlarmBookError(
                    f"an alarm cannot be shelved for {seconds:g} s: give seconds above 0 and up to "
                    f"{_LONGEST_SHELF_S:g}"
                )
            entry.shelved_until = time.time() + seconds
            self._tell("shelve", entry, None, by)

    def unshelve(self, key: str, by: str) -> None:
        """Send notifications of an alarm again. AlarmBookError: it is not shelved."""
        with self._asked():
            entry = self._entry(key)
            if entry.shelved_until is None:
                raise AlarmBookError(f"{key} is not shelved")
            entry.shelved_until = None
            self._tell("unshelve", entry, None, by)

    def end_shelves(self) -> list[str]:
        """Unshelve the alarms whose time is up; return their keys."""
        with self._lock:
            now = time.time()
            found = []
            for entry in self._content.entries.values():
                # A time further away than any alarm can be shelved: the clock was set back.
                until = entry.shelved_until
                if until is not None and not now < until <= now + _LONGEST_SHELF_S:
                    entry.shelved_until = None
                    self._tell("unshelve", entry, None, "its time is up")
                    found.append(entry.key)
            return found

    def waiting(self, destination: str) -> list[dict[str, Any]]:
        """The events that a destination has not taken, in order."""
        with self._lock:
            return list(self._content.waiting[destination])

    def taken(self, destination: str, identity: str) -> None:
        """A destination has taken an event, or never will."""
        with self._lock:
            waiting = self._content.waiting[destination]
            kept = [each for each in waiting if each["id"] != identity]
            self._content.waiting[destination] = kept
            self._write()

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """The lock, for what a person asks: it is done and in the file, or not done at all."""
        with self._lock:
            before = copy.deepcopy(self._content)
            try:
                yield
            except BaseException:
                self._content = before
                raise

    def _entry(self, key: str) -> AlarmEntry:
        entry = self._content.entries.get(key)
        if entry is None:
            known = ", ".join(sorted(self._content.entries)) or "none"
            raise AlarmBookError(f"no alarm {key!r} has ever begun; those that have: {known}")
        return entry

    def _tell(self, kind: str, entry: AlarmEntry, value: float | None, by: str) -> None:
        content = self._content
        content.count += 1
        event = {
            "id": f"{content.name}-{content.count}",
            "type": f"alarm.{kind}",
            "time": time.time(),
            "alarm": entry.key,
            "state": entry.state,
            "activation": entry.activation,
            "since": entry.since,
            "shelved_until": entry.shelved_until,
            # JSON has no infinity; the message tells of it.
            "value": value if value is None or math.isfinite(value) else None,
            "message": entry.message,
            "by": by,
        }
        if entry.shelved_until is None or kind not in ("begin", "end"):
            for waiting in content.waiting.values():
                if len(waiting) >= _MOST_WAITING:
                    del waiting[0]
                    content.dropped += 1
                waiting.append(event)
        self._write()

    def _read(self) -> _Content:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return _Content(secrets.token_hex(8))
        except OSError as error:
            raise AlarmBookError(
                f"the alarm book {self.path} cannot be read: {error.strerror}"
            ) from error
        try:
            found: dict[str, Any] = json.loads(data)
            entries = {key: AlarmEntry(**each) for key, each in found.pop("entries").items()}
            content = _Content(**found, entries=entries)
            for event in itertools.chain(*content.waiting.values()):
                if not (isinstance(event["id"], str) and isinstance(event["time"], int | float)):
                    raise ValueError(
                        f"a notification has the id {event['id']!r} and the time {event['time']!r}"
                    )
            return content
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise AlarmBookError(
                f"{self.path} is not an alarm book ({error}): move it away to begin a new one"
            ) from error

    def _take(self, beside: Path) -> int:
        """Lock the book; the descriptor that holds it."""
        try:
            return take_lock_file(beside, self.path)
        except SinkWriteError as error:
            reason = f"cannot be used: {error}"
            if isinstance(error.__cause__, BlockingIOError):
                reason = (
                    "is in use by another recorder, and two would lose each other's alarms and "
                    "acknowledgements: end the other one, or give this one a book of its own"
                )
            raise AlarmBookError(f"the alarm book {self.path} {reason}") from error

    def _remove_leftovers(self) -> None:
        """What a kill has left of a change, which nobody writes any more."""
        with contextlib.suppress(OSError):
            for leftover in find_leftovers(os.path.realpath(self.path)):
                os.unlink(leftover)

    def _write(self) -> None:
        if not self._release.alive:
            raise AlarmBookError(f"the alarm book {self.path} is closed: open it again")
        data = json.dumps(asdict(self._content), indent=1).encode()
        try:
            os.close(put_file(self.path, partial(write_fully, data=data)))
            sync_folder(str(self.path))
        except OSError as error:
            raise AlarmBookError(
                f"the alarm book {self.path} cannot be written: {error.strerror}"
            ) from error


def _unlock(beside: Path, lock: int, holder: int) -> None:
    """Leave the lock. In a child that was forked meanwhile, only the child's share of it ends."""
    if os.getpid() == holder:
        with contextlib.suppress(OSError):
            os.unlink(beside)
    os.close(lock)
