"""Operations on the extended attributes of files, xattr(7)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from penstock.uring._capabilities import require
from penstock.uring._native import Ring
from penstock.uring._operations.files import encode_path
from penstock.uring.constants import OPCODE

if TYPE_CHECKING:
    from typing import Unpack

    from typing_extensions import Buffer

    from penstock._uring import Fd, Options

    Path = str | bytes | os.PathLike[Any]

NO_FILE = -1


class ExtendedAttributes(Ring):
    """What a ring prepares for extended attributes.

    Each method returns the operation's ``user_data`` and takes the options that :class:`UringCtx`
    describes. Linux 5.19; ``UringError`` (EOPNOTSUPP) where it is missing.
    """

    def prep_getxattr(
        self, path: Path, name: str, value: Buffer, **options: Unpack[Options]
    ) -> Any:
        """Prepare getxattr(2) into a writable ``value``; the result is the attribute's length."""
        require("getxattr")
        return self._prep(
            OPCODE["getxattr"],
            NO_FILE,
            encode_path(name),
            writable(value).nbytes,
            offset=value,
            third_address=encode_path(path),
            **options,
        )

    def prep_fgetxattr(self, fd: Fd, name: str, value: Buffer, **options: Unpack[Options]) -> Any:
        """Prepare fgetxattr(2) into a writable ``value``; the result is the value's length."""
        require("fgetxattr")
        length = writable(value).nbytes
        return self._prep(
            OPCODE["fgetxattr"], fd, encode_path(name), length, offset=value, **options
        )

    def prep_setxattr(
        self, path: Path, name: str, value: Buffer, flags: int = 0, **options: Unpack[Options]
    ) -> Any:
        """Prepare setxattr(2); ``flags`` are ``os.XATTR_CREATE`` or ``os.XATTR_REPLACE``."""
        require("setxattr")
        return self._prep(
            OPCODE["setxattr"],
            NO_FILE,
            encode_path(name),
            memoryview(value).nbytes,
            offset=value,
            flags=flags,
            third_address=encode_path(path),
            **options,
        )

    def prep_fsetxattr(
        self, fd: Fd, name: str, value: Buffer, flags: int = 0, **options: Unpack[Options]
    ) -> Any:
        """Prepare fsetxattr(2); ``flags`` are ``os.XATTR_CREATE`` or ``os.XATTR_REPLACE``."""
        require("fsetxattr")
        return self._prep(
            OPCODE["fsetxattr"],
            fd,
            encode_path(name),
            memoryview(value).nbytes,
            offset=value,
            flags=flags,
            **options,
        )


def writable(buffer: Buffer) -> memoryview:
    """Return a view of a buffer that the kernel writes to; BufferError if it is read-only."""
    view = memoryview(buffer)
    if view.readonly:
        raise BufferError(f"cannot write into this {type(buffer).__name__}: it is read-only")
    return view
