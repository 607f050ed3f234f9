"""The errors of recording.

``RecordError`` is the root. ``SinkError`` and its children are raised by sinks and by
:func:`penstock.record.pipe`; each message is one sentence that names the file and the remedy,
and the operating system's own error is kept as ``__cause__``.
"""

from __future__ import annotations

__all__ = [
    "RecordError",
    "RecoveryError",
    "SinkDependencyError",
    "SinkError",
    "SinkExistsError",
    "SinkSchemaError",
    "SinkWriteError",
]


class RecordError(Exception):
    """Root of every error raised by :mod:`penstock.record`."""


class SinkError(RecordError):
    """An operation of a sink failed."""


class SinkDependencyError(SinkError):
    """A sink needs an optional package that is not installed."""


class SinkExistsError(SinkError, FileExistsError):
    """The file exists, and the sink neither overwrites nor appends."""


class SinkSchemaError(SinkError):
    """A batch does not fit the columns that the sink has written so far."""


class SinkWriteError(SinkError):
    """The operating system refused to create, extend or finish a file."""


class RecoveryError(RecordError):
    """A recording that was cut off could not be made readable."""
