"""The run's folder: check it before anything is opened, create it, remove it if the run fails."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from penstock.cli._errors import (
    CommandError,
    ExitCode,
    already_exists,
    explain_os_error,
    nearest_existing_folder,
)
from penstock.cli._recording.plan import RunPlan


def default_folder(command: str) -> Path:
    """Return a folder in the current one, named by the local time so that runs do not share it."""
    return Path(f"{command}-{datetime.now().astimezone():%Y%m%d-%H%M%S}")


def check_output(plan: RunPlan) -> None:
    """Refuse output that cannot be written, without creating anything.

    Later writes are checked too, because the disk may fill up. This check reports a wrong folder
    before any instrument is addressed.
    """
    files = (*plan.data_files, *map(_metadata_file, plan.data_files), *plan.plot_files)
    for path in files:
        try:
            taken, folder_there = os.path.lexists(path), path.is_dir()
        except OSError as error:
            raise explain_os_error(error, path) from error
        if taken and not (plan.overwrite or plan.resume):
            raise already_exists(path)
        if folder_there and path.suffix:
            raise CommandError(
                f"{path} is a folder; remove it or choose another folder with --out",
                ExitCode.OUTPUT,
            )
    folder = nearest_existing_folder(plan.out)
    obstacle = _first_file(plan.out)
    if obstacle is not None:
        raise explain_os_error(OSError(errno.ENOTDIR, "", str(obstacle)), plan.out)
    status = os.statvfs(folder)
    if status.f_flag & os.ST_RDONLY:
        raise explain_os_error(OSError(errno.EROFS, ""), plan.out)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise explain_os_error(OSError(errno.EACCES, ""), plan.out)
    # File systems without blocks (proc, sys) report a size of zero.
    if status.f_blocks and not status.f_bavail:
        raise explain_os_error(OSError(errno.ENOSPC, ""), plan.out)


def make_folder(folder: Path) -> Path | None:
    """Create ``folder`` and its missing parents.

    Returns:
        The topmost folder that was created, None if all existed.

    Raises:
        CommandError: if that fails.
    """
    topmost = None
    for candidate in (folder, *folder.parents):
        if candidate.exists():
            break
        topmost = candidate
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explain_os_error(error, folder) from error
    return topmost


def remove_if_empty(folder: Path | None) -> None:
    """Remove ``folder`` if it holds no file; for a run that could not begin."""
    if folder is not None:
        for below, _, _ in os.walk(folder, topdown=False):
            # Not empty or already removed.
            with contextlib.suppress(OSError):
                os.rmdir(below)


def written_files(paths: Iterable[Path]) -> list[Path]:
    """Return ``paths``, each followed by the existing files that its sink keeps beside it.

    These are the metadata of a CSV file and the parts of a Parquet file that could not be
    finished.
    """
    return [
        path
        for data in paths
        for path in (data, _metadata_file(data), data.with_name(f"{data.name}.parts"))
        if path.exists()
    ]


def _metadata_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.meta.json")


def _first_file(folder: Path) -> Path | None:
    """Return the part of the path ``folder`` that exists and is not a folder, if any."""
    for candidate in (folder, *folder.parents):
        if os.path.lexists(candidate):
            return None if candidate.is_dir() else candidate
    return None
