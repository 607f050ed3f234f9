"""The run's folder: checked while nothing exists yet, made when the devices have answered."""

from __future__ import annotations

import errno
import os
from datetime import datetime
from pathlib import Path

from penstock.cli.errors import (
    CommandError,
    ExitCode,
    explain_os_error,
    nearest_existing_folder,
)
from penstock.cli.plan import RunPlan

__all__ = ["check_output", "default_folder", "make_folder"]


def default_folder(command: str) -> Path:
    """A new folder below the current one, named by the local time: no two runs share it."""
    return Path(f"{command}-{datetime.now().astimezone():%Y%m%d-%H%M%S}")


def check_output(plan: RunPlan) -> None:
    """Refuse what can be known to fail, without creating anything.

    A check is no promise (the disk may fill up a second later), so writing is guarded too; but a
    wrong folder is told here, before any instrument is spoken to.
    """
    for path in (*plan.data_files, *plan.plot_files):
        try:
            exists = os.path.lexists(path)
        except (OSError, ValueError) as error:
            raise CommandError(
                f"cannot write {str(path)!r}: {error}; choose another folder with --out",
                ExitCode.OUTPUT,
            ) from error
        if exists and not plan.overwrite:
            raise CommandError(
                f"{path} already exists; add --overwrite to replace it or choose another folder "
                "with --out",
                ExitCode.OUTPUT,
            )
        if path.is_dir():
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
    # File systems without blocks of their own (proc, sys) count none at all.
    if status.f_blocks and not status.f_bavail:
        raise explain_os_error(OSError(errno.ENOSPC, ""), plan.out)


def make_folder(plan: RunPlan) -> None:
    """Make the run's folder and those above it."""
    try:
        plan.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explain_os_error(error, plan.out) from error


def _first_file(folder: Path) -> Path | None:
    """The part of the path *folder* that exists and is no folder, if any."""
    for candidate in (folder, *folder.parents):
        if os.path.lexists(candidate):
            return None if candidate.is_dir() else candidate
    return None
