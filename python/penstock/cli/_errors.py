"""The failures of the command line: exit codes and one sentence per cause.

Every failure with an outside cause (a pulled cable, a typing error in a file, a full disk) is a
:class:`CommandError`: one sentence that names the cause and the remedy, and an exit code. Any other
exception is reported as a defect of the program.
"""

from __future__ import annotations

import errno
import os
import sys
from enum import IntEnum
from pathlib import Path


class ExitCode(IntEnum):
    """The exit code of the process. Stable: scripts may rely on the numbers."""

    OK = 0
    """The command did all of its work; in a recording, every poll was answered."""
    DEFECT = 1
    """An error that Penstock did not foresee."""
    USAGE = 2
    """The command line itself is wrong (argparse's own number)."""
    CONFIG = 3
    """The configuration file is missing or malformed."""
    DEVICE = 4
    """A port or an instrument could not be opened; nothing was recorded."""
    OUTPUT = 5
    """A file or folder could not be written or read; what was recorded before is on disk."""
    INCOMPLETE = 6
    """The run is complete, but polls or setpoint steps failed (``run_plan``); the rows show it."""
    MISSING_PART = 7
    """An optional package or the native extension is not installed."""
    FOUND = 8
    """``penstock verify`` found something wrong with a recording, or ``log check`` with a log."""
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


class CommandError(Exception):
    """An expected failure: ``str(error)`` is the sentence, ``error.code`` the exit code."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(BaseException):
    """A signal asked the command to end.

    A ``BaseException``, like :class:`KeyboardInterrupt`: no handler of ordinary failures may
    swallow it.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


def first_error(error: BaseException) -> BaseException:
    """Return ``error``, or for a group the first error in it that is not a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def one_line(error: BaseException) -> str:
    """Return the message of ``error`` on one line, or the name of its type if it has none."""
    text = " ".join(str(error).split())
    return text or type(error).__name__


def harmless(text: str) -> str:
    """Return ``text`` from a device with control characters escaped, safe for a terminal."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def already_exists(path: str | Path) -> CommandError:
    """Return the error for a ``path`` that exists and must not be overwritten."""
    return CommandError(
        f"{path} already exists; add --overwrite to replace it or choose another folder with --out",
        ExitCode.OUTPUT,
    )


def explain_os_error(
    error: OSError, path: str | Path, *, kind: str = "folder", option: str = "--out"
) -> CommandError:
    """Return one sentence for a failure to write ``path``, with the remedy for its ``errno``.

    It also names the nearest existing folder: ``out/2026/run-1`` may be missing because ``out`` is
    not writable.
    """
    where = Path(path)
    choice = f"choose another {kind} with {option}"
    folder = nearest_existing_folder(where)
    number = error.errno
    if number in (errno.ENOSPC, errno.EDQUOT):
        full = "the disk quota is used up" if number == errno.EDQUOT else "the disk is full"
        sentence = (
            f"cannot write {where}: {full}; free some space on the file system of {folder} "
            f"or {choice}"
        )
    elif number in (errno.EACCES, errno.EPERM):
        sentence = (
            f"cannot write {where}: no permission in {folder}; "
            f"choose a {kind} that you may write to with {option}"
        )
    elif number == errno.EROFS:
        sentence = f"cannot write {where}: {folder} is on a read-only file system; {choice}"
    elif number in (errno.ENOTDIR, errno.EEXIST):
        sentence = f"cannot write {where}: a file stands where a folder is needed; {choice}"
    elif number == errno.EFBIG:
        sentence = (
            f"cannot write {where}: the file has reached the largest size allowed; "
            "raise the limit (ulimit -f) or record in shorter runs"
        )
    elif number == errno.EIO:
        sentence = f"cannot write {where}: the disk reports an input/output error; check the disk"
    else:
        reason = os.strerror(number) if number is not None else one_line(error)
        sentence = f"cannot write {where}: {reason}; {choice}"
    return CommandError(sentence, ExitCode.OUTPUT)


def nearest_existing_folder(path: Path) -> Path:
    """Return ``path`` or its nearest ancestor that is an existing folder."""
    for candidate in (path, *path.absolute().parents):
        try:
            if candidate.is_dir():
                return candidate
        except OSError:
            continue
    return Path("/")


def print_error(sentence: str, error: BaseException) -> None:
    """Print ``sentence`` on standard error, and the notes of ``error``.

    With ``PENSTOCK_TRACEBACK=1`` in the environment the traceback follows.
    """
    for line in (sentence, *getattr(error, "__notes__", ())):
        print(f"penstock: {line}", file=sys.stderr)
    sys.stderr.flush()
    if os.environ.get("PENSTOCK_TRACEBACK") == "1":
        import traceback

        traceback.print_exception(error)
