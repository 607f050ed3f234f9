"""Files that change: for ``penstock serve --reload``."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

__all__ = ["ChangedFiles"]

_INCLUDED = ("*.py",)
_EXCLUDED = (".*", ".py[cod]", ".sw.*", "~*")


class ChangedFiles:
    """Tells whether files below some folders have changed since the last look.

    It looks at their times, so it works on every file system.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self._folders = [Path(name) for name in options.reload_dir or [options.app_dir or "."]]
        self._included = (*_INCLUDED, *(options.reload_include or ()))
        self._excluded = (*_EXCLUDED, *(options.reload_exclude or ()))
        self._delay = options.reload_delay
        self._next = 0.0
        self._times = dict(self._look())

    def __call__(self) -> bool:
        """Return whether one has changed, been added or been removed. At most once a delay."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._delay
        times = dict(self._look())
        changed = times != self._times
        self._times = times
        return changed

    def _look(self) -> Iterator[tuple[str, int]]:
        for folder in self._folders:
            for parent, folders, names in os.walk(folder):
                folders[:] = [name for name in folders if not self._is_excluded(name)]
                for name in names:
                    if self._is_excluded(name) or not self._is_included(name):
                        continue
                    path = os.path.join(parent, name)
                    try:
                        yield path, os.stat(path).st_mtime_ns
                    except OSError:
                        continue  # removed meanwhile

    def _is_included(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._included)

    def _is_excluded(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._excluded)
