"""Whole files written with one call."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock._durable_files import with_path
from penstock.files._backend import current_backend
from penstock.files._detached import Stop, run_whole
from penstock.files._whole_files.replacement import replace_file

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrOrBytesPath

# A cancelled write ends after at most so many bytes.
_PIECE = 8 << 20


async def write_file(
    path: StrOrBytesPath, data: ReadableBuffer, *, atomic: bool = False, mode: int = 0o666
) -> None:
    """Write ``data`` into the file at ``path``, which is created or replaced.

    With ``atomic`` the file has either the old or the new content, even after a crash or a power
    cut. The data are written into a temporary file in the same folder and synced, that file is
    renamed, and the folder is synced. On return the new content is durable. An existing file's
    permissions are kept; its owner, extended attributes and other hard links are not, because it
    is a new file. A symbolic link is followed.

    Without ``atomic`` the file is opened, truncated and written, as ``open(path, "wb")`` does. That
    saves two waits for the disk, but an error or a crash leaves a part.

    Args:
        path: the file; its folder must exist.
        data: bytes, or another object with a buffer, which must not change meanwhile.
        atomic: replace the file in one step, durably.
        mode: permissions of a file that is made, less the umask.

    Cancellation: ends after the piece of 8 MiB that is being written. With ``atomic`` the name then
    has its old content or, if the rename had begun, the new one, and the temporary file is gone.

    Raises:
        OSError: with the file's name. With ``atomic`` the file is then unchanged, except if the
            last step failed: the sync of the folder.
        TypeError: for a str; encode it.
    """
    if isinstance(data, str):
        raise TypeError("data is bytes, not str; encode it, for instance with .encode()")
    view = memoryview(data)
    # A view with gaps cannot be handed to the system as it is.
    view = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())
    name = os.fsdecode(path)
    backend = current_backend()

    async def fill(fd: int, stop: Stop) -> None:
        for begin in range(0, len(view), _PIECE):
            await stop.step(backend.write(fd, view[begin : begin + _PIECE], begin))

    async def replace(stop: Stop) -> None:
        await replace_file(
            backend, stop, name, lambda fd: fill(fd, stop), mode=mode, keep_mode=True, sync=True
        )

    async def overwrite(stop: Stop) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOCTTY
        fd = await stop.step(backend.open(name, flags, mode))
        try:
            await fill(fd, stop)
        except OSError as error:
            raise with_path(error, name) from error
        finally:
            await backend.close(fd)

    await run_whole(replace if atomic else overwrite)
