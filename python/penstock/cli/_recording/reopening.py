"""The file of a run that could not be written, opened again."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from penstock.record import SinkWriteError
from penstock.record.sink import PathSink

__all__ = ["Reopening"]


class Reopening:
    """Makes the sink that continues the file of a failed one. Calls come from a worker thread.

    A file that is not there is made anew only on the file system that it was on: below a disk that
    is not mounted lies an empty folder, and rows in it would be hidden once the disk is back.
    """

    def __init__(self, sink: PathSink, make: Callable[[Path], PathSink]) -> None:
        self.made: list[PathSink] = []
        """The sinks so far."""
        self._path = sink.path
        self._make = make
        self._device: int | None = None
        with suppress(OSError):
            self._device = os.stat(sink.path.parent).st_dev

    def __call__(self) -> PathSink:
        path = self._path
        there = path.exists() or path.with_name(f"{path.name}.parts").exists()
        if not there and os.stat(path.parent).st_dev != self._device:
            raise SinkWriteError(
                f"{path} is not there, and {path.parent} is on another file system than before: "
                "mount the disk that it is on"
            )
        made = self._make(path)
        self.made.append(made)
        return made
