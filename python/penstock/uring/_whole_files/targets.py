"""Files that appear under their name when they are complete, with this package's errors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from penstock._durable_files import NotRegularFileError, Target, find_target, sync_folder
from penstock.uring._errors import naming

if TYPE_CHECKING:
    from collections.abc import Iterable

    Path = str | bytes | os.PathLike[Any]

__all__ = ["Target", "choose_target", "sync_folders"]


def choose_target(path: Path) -> Target:
    """Return the file that ``path`` leads to.

    Raises:
        UringError: if a folder is there, or what is there cannot be examined.
        ValueError: if something is there that cannot be replaced, such as a device.
    """
    given = os.fsdecode(path)
    with naming(given):
        try:
            return find_target(given)
        except NotRegularFileError as error:
            raise ValueError(
                f"{given!r} is not a regular file and cannot be replaced by one"
            ) from error


def sync_folders(paths: Iterable[str]) -> None:
    """Make the names of files durable: fsync(2) each folder once.

    Raises:
        UringError: names the folder.
    """
    one_of_each = {os.path.dirname(path): path for path in paths}
    for folder, path in one_of_each.items():
        with naming(folder or "."):
            sync_folder(path)
