"""What has changed: :class:`Change`, and what is collected between two deliveries."""

from __future__ import annotations

from enum import IntEnum


class Change(IntEnum):
    """What has happened to a path; the numbers are those of watchfiles."""

    added = 1
    """The file is new, or was moved here."""
    modified = 2
    """Its content or its metadata has changed."""
    deleted = 3
    """The file is gone, or was moved away."""
    overflow = 4
    """Changes below this watched path were lost: scan all of it again."""

    def raw_str(self) -> str:
        """Return the name."""
        return self.name


class Changes:
    """A set of changes; what is new is not reported as modified too."""

    def __init__(self) -> None:
        self._found: set[tuple[Change, str]] = set()

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, change: Change, path: str) -> None:
        """Note a change."""
        if change is not Change.modified or (Change.added, path) not in self._found:
            self._found.add((change, path))

    def take(self) -> set[tuple[Change, str]]:
        """Return what was noted, and forget it."""
        found, self._found = self._found, set()
        return found
