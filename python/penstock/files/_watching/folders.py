"""The watched folders, and what their events mean: :class:`WatchedFolders`."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable

from penstock.files._watching.changes import Change, Changes
from penstock.files._watching.inotify import Event, Inotify, Mask

_EVENTS = (
    Mask.MODIFY
    | Mask.ATTRIB
    | Mask.MOVED_FROM
    | Mask.MOVED_TO
    | Mask.CREATE
    | Mask.DELETE
    | Mask.DELETE_SELF
    | Mask.MOVE_SELF
    | Mask.ONLY_FOLDER
)
_CHANGE_OF = {
    Mask.CREATE: Change.added,
    Mask.MOVED_TO: Change.added,
    Mask.DELETE: Change.deleted,
    Mask.MOVED_FROM: Change.deleted,
    Mask.MODIFY: Change.modified,
    Mask.ATTRIB: Change.modified,
}
# A folder that was removed or replaced before it could be watched: its own events tell.
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class WatchedFolders:
    """One inotify descriptor, with a watch for each folder. Its methods block, for lookups.

    src/fs/watched_folders.cpp has the same rules: tests/watch_cases.txt holds both to them.

    A file is watched by way of its folder, so that it may be replaced, removed and made again.
    """

    def __init__(self, recursive: bool) -> None:
        self._inotify = Inotify()
        self._recursive = recursive
        self._roots: dict[str, bool] = {}
        """The paths as given; whether it is a folder."""
        self._paths: dict[int, str] = {}
        """The path of each watch; empty for the folder of a bare name."""
        self._scanned: set[str] = set()
        """What was found in a new folder, whose own event may still come."""
        self._moved: set[int] = set()
        """The watches of folders that were moved, until it is known where to."""

    @property
    def fd(self) -> int:
        """The descriptor, readable when there are events; -1 once closed."""
        return self._inotify.fd

    def events(self) -> list[Event]:
        """Return what has happened, without waiting."""
        return self._inotify.read()

    @property
    def watches_any(self) -> bool:
        """Whether something is left to watch."""
        return bool(self._paths)

    def close(self) -> None:
        """End all watches."""
        self._inotify.close()
        self._paths.clear()

    def begin(self, paths: Iterable[str]) -> None:
        """Watch these paths.

        Raises:
            OSError: with the path that cannot be watched.
        """
        for path in paths:
            is_folder = stat.S_ISDIR(os.stat(path).st_mode)
            self._roots[path] = is_folder
            self._watch_root(path, is_folder)

    def _watch_root(self, path: str, is_folder: bool) -> None:
        if is_folder:
            self._paths[self._inotify.add(path, _EVENTS)] = path
            self._watch_below(path, None)
        else:
            folder = os.path.dirname(path)
            self._paths.setdefault(self._inotify.add(folder or ".", _EVENTS), folder)

    def _watch_below(self, folder: str, changes: Changes | None) -> None:
        """Watch the folders below one that is watched, and report all that is in them.

        A folder is watched before it is read. So what is made in it meanwhile is either read, or
        reported by an event, or both; `_scanned` knows that.
        """
        stack = [folder]
        while stack:
            above = stack.pop()
            try:
                with os.scandir(above) as entries:
                    found = [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in entries]
            except OSError as error:
                if error.errno not in _GONE and error.errno != errno.EACCES:
                    raise
                continue
            for path, is_folder in found:
                if changes is not None:
                    changes.add(Change.added, path)
                    self._scanned.add(path)
                if is_folder and self._recursive and self._watch_folder(path):
                    stack.append(path)

    def _watch_folder(self, path: str) -> bool:
        try:
            watch = self._inotify.add(path, _EVENTS | Mask.DONT_FOLLOW)
        except OSError as error:
            if error.errno in _GONE or error.errno == errno.EACCES:
                return False
            raise
        self._paths[watch] = path
        self._moved.discard(watch)
        return True

    @staticmethod
    def needs_lookups(events: list[Event]) -> bool:
        """Whether `take` will watch new folders, which may wait for a disk."""
        new = Mask.CREATE | Mask.MOVED_TO
        return any(
            event.mask & Mask.OVERFLOW or (event.mask & Mask.IS_FOLDER and event.mask & new)
            for event in events
        )

    def take(self, events: list[Event], changes: Changes) -> None:
        """Add what has changed, by these events, to ``changes``; watch new folders.

        Raises:
            OSError: if a new folder cannot be watched.
        """
        scanned_before = set(self._scanned)
        while events:
            for event in events:
                self._take(event, changes)
            # The second event of a move follows the first one at once.
            events = self._inotify.read() if self._moved else []
        for watch in self._moved:
            self._paths.pop(watch, None)
            self._inotify.remove(watch)
        self._moved.clear()
        self._scanned -= scanned_before  # the events of that time have been read

    def _take(self, event: Event, changes: Changes) -> None:
        if event.mask & Mask.OVERFLOW:
            self._begin_again(changes)
            return
        folder = self._paths.get(event.watch)
        if folder is None:
            return
        if event.mask & Mask.IGNORED:
            del self._paths[event.watch]
            return
        if not event.name:
            self._take_own(event, folder, changes)
            return
        path = os.path.join(folder, event.name)
        is_folder = bool(event.mask & Mask.IS_FOLDER)
        if event.mask & Mask.MOVED_FROM and is_folder:
            self._moved.update(self._watches_below(path))
        change = _CHANGE_OF.get(event.mask & ~Mask.IS_FOLDER)
        if change is None:
            return
        # A creation that the scan has seen; a move to the same name may replace what it has seen.
        if event.mask & Mask.CREATE and path in self._scanned:
            self._scanned.discard(path)
            return
        if self._concerns(folder, path):
            changes.add(change, path)
        if change is Change.deleted:
            self._scanned.discard(path)
        is_watched = self._recursive and is_folder and change is Change.added
        if is_watched and self._within_roots(folder) and self._watch_folder(path):
            self._watch_below(path, changes)

    def _take_own(self, event: Event, folder: str, changes: Changes) -> None:
        """Take an event of a watched folder itself; of those below, the folder above tells."""
        if folder not in self._roots:
            return
        if event.mask & (Mask.DELETE_SELF | Mask.MOVE_SELF):
            changes.add(Change.deleted, folder)
            if event.mask & Mask.MOVE_SELF:
                self._moved.update(self._watches_below(folder))
        elif event.mask & Mask.ATTRIB:
            changes.add(Change.modified, folder)

    def _watches_below(self, path: str) -> list[int]:
        inside = path + "/"
        return [
            watch for watch, each in self._paths.items() if each == path or each.startswith(inside)
        ]

    def _within_roots(self, folder: str) -> bool:
        return any(
            is_folder and (folder == root or folder.startswith(root.rstrip("/") + "/"))
            for root, is_folder in self._roots.items()
        )

    def _concerns(self, folder: str, path: str) -> bool:
        return path in self._roots or self._within_roots(folder)

    def _begin_again(self, changes: Changes) -> None:
        """After lost events: watch all folders that are there now."""
        self._scanned.clear()
        for root, is_folder in self._roots.items():
            changes.add(Change.overflow, root)
            try:
                self._watch_root(root, is_folder)
            except OSError as error:
                if error.errno not in _GONE:
                    raise
