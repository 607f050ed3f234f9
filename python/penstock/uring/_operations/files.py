"""Operations on files and on their names."""

from __future__ import annotations

import os
import stat as stat_module
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from penstock.uring._capabilities import require
from penstock.uring._native import Ring
from penstock.uring.constants import OPCODE

if TYPE_CHECKING:
    from typing import Unpack

    from penstock._uring import Fd, Options

    Path = str | bytes | os.PathLike[Any]
    DirectSlot = int | Literal["auto"] | None

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_SYMLINK_NOFOLLOW = 0x100
AT_SYMLINK_FOLLOW = 0x400
AT_REMOVEDIR = 0x200

FSYNC_DATASYNC = 1
STATX_BASIC_AND_BIRTH = 0xFFF
STATX_DIOALIGN = 0x2000
_STATX = struct.Struct("=IIQIIIHxxQQQQ" + 4 * "qI4x" + "IIIIQII96x")

_OPEN_HOW = struct.Struct("=QQQ")
_PIPE = struct.Struct("=ii")

SPLICE_OFFSET_NONE = -1
ALLOCATE_SLOT = 0xFFFFFFFF


def encode_path(path: Path) -> bytes:
    """Encode a path for the kernel; ValueError for a null byte, which would cut it short."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError(f"embedded null byte in the path {path!r}")
    return encoded + b"\0"


def slot_number(direct: DirectSlot) -> int:
    """Return the value of ``file_index``, which selects the slot of registered files."""
    if direct is None:
        return 0
    if direct == "auto":
        return ALLOCATE_SLOT
    if type(direct) is not int or not 0 <= direct < 1 << 20:
        raise ValueError(f"direct is {direct!r}; it must be the index of a file slot, or 'auto'")
    return direct + 1


@dataclass(frozen=True)
class StatxResult:
    """The fields of statx(2); times are nanoseconds since the epoch."""

    mask: int
    blksize: int
    attributes: int
    nlink: int
    uid: int
    gid: int
    mode: int
    ino: int
    size: int
    blocks: int
    atime_ns: int
    btime_ns: int
    ctime_ns: int
    mtime_ns: int
    dev: int
    dio_mem_align: int
    dio_offset_align: int

    def is_regular(self) -> bool:
        """Whether it is an ordinary file."""
        return stat_module.S_ISREG(self.mode)


class StatxBuffer:
    """The output buffer of :meth:`FileOperations.prep_statx`; one operation at a time."""

    def __init__(self) -> None:
        self._memory = bytearray(256)

    def result(self) -> StatxResult:
        """Return what the last completed operation has written."""
        fields = _STATX.unpack(self._memory)
        (mask, blksize, attributes, nlink, uid, gid, mode, ino, size, blocks, _) = fields[:11]
        times = [fields[i] * 1_000_000_000 + fields[i + 1] for i in range(11, 19, 2)]
        atime, btime, ctime, mtime = times
        _, _, major, minor, _, mem_align, offset_align = fields[19:]
        return StatxResult(
            *(mask, blksize, attributes, nlink, uid, gid, mode, ino, size, blocks),
            *(atime, btime, ctime, mtime),
            dev=os.makedev(major, minor),
            dio_mem_align=mem_align,
            dio_offset_align=offset_align,
        )


class PipeBuffer:
    """The output buffer of :meth:`FileOperations.prep_pipe`; one operation at a time."""

    def __init__(self) -> None:
        self._memory = bytearray(_PIPE.size)

    def result(self) -> tuple[int, int]:
        """Return the read end and the write end, which the caller must close."""
        reader, writer = _PIPE.unpack(self._memory)
        return reader, writer


class FileOperations(Ring):
    """What a ring prepares for files.

    Each method returns the operation's ``user_data``. Each takes the options that
    :class:`UringCtx` describes. A path is ``str``, ``bytes`` or a path object, relative to the
    directory ``dir_fd``, or to the current one.
    """

    def prep_openat(
        self,
        path: Path,
        flags: int = os.O_RDONLY,
        mode: int = 0o666,
        *,
        dir_fd: int = AT_FDCWD,
        direct: DirectSlot = None,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare openat(2); the result is a descriptor.

        It is closed in child programs (``O_CLOEXEC``). With ``direct`` the file becomes a
        registered file in that slot, or in a free one for ``"auto"``; the result is then 0 or the
        slot's index.
        """
        index = slot_number(direct)
        return self._prep(
            OPCODE["openat"],
            dir_fd,
            encode_path(path),
            mode,
            # A registered file has no descriptor that a child could inherit: EINVAL.
            flags=flags if index else flags | os.O_CLOEXEC,
            file_index=index,
            yields_fd=not index,
            **options,
        )

    def prep_openat2(
        self,
        path: Path,
        flags: int = os.O_RDONLY,
        mode: int = 0o666,
        *,
        resolve: int = 0,
        dir_fd: int = AT_FDCWD,
        direct: DirectSlot = None,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare openat2(2); the result is a descriptor, as with :meth:`prep_openat`.

        ``resolve`` are ``RESOLVE_*`` of :mod:`penstock.uring.constants`: ``RESOLVE_BENEATH``
        refuses to leave ``dir_fd``. Unknown flags are refused by the kernel.
        """
        index = slot_number(direct)
        creates = flags & (os.O_CREAT | os.O_TMPFILE)
        how = _OPEN_HOW.pack(
            flags if index else flags | os.O_CLOEXEC, mode if creates else 0, resolve
        )
        return self._prep(
            OPCODE["openat2"],
            dir_fd,
            encode_path(path),
            len(how),
            offset=how,
            file_index=index,
            yields_fd=not index,
            **options,
        )

    def prep_pipe(
        self, into: PipeBuffer, flags: int = os.O_CLOEXEC, **options: Unpack[Options]
    ) -> Any:
        """Prepare pipe2(2); after its completion ``into.result()`` has both ends. Linux 6.16."""
        require("pipe")
        return self._prep(OPCODE["pipe"], 0, into._memory, 0, flags=flags, **options)

    def prep_close(self, fd: int, **options: Unpack[Options]) -> Any:
        """Prepare close(2); with ``fixed_file=True`` of the registered file at that index."""
        if options.pop("fixed_file", False):
            return self._prep(OPCODE["close"], 0, file_index=slot_number(fd), **options)
        return self._prep(OPCODE["close"], fd, **options)

    def prep_fixed_fd_install(self, index: int, **options: Unpack[Options]) -> Any:
        """Prepare giving a registered file a descriptor, which is the result. Linux 6.8."""
        options["fixed_file"] = True
        return self._prep(OPCODE["fixed_fd_install"], index, yields_fd=True, **options)

    def prep_fsync(self, fd: Fd, *, datasync: bool = False, **options: Unpack[Options]) -> Any:
        """Prepare fsync(2), or fdatasync(2). Not ordered after writes in flight: link it."""
        flags = FSYNC_DATASYNC if datasync else 0
        return self._prep(OPCODE["fsync"], fd, flags=flags, **options)

    def prep_sync_file_range(
        self, fd: Fd, offset: int, length: int, flags: int, **options: Unpack[Options]
    ) -> Any:
        """Prepare sync_file_range(2)."""
        return self._prep(
            OPCODE["sync_file_range"], fd, 0, length, offset=offset, flags=flags, **options
        )

    def prep_fallocate(
        self, fd: Fd, offset: int, length: int, mode: int = 0, **options: Unpack[Options]
    ) -> Any:
        """Prepare fallocate(2)."""
        return self._prep(OPCODE["fallocate"], fd, length, mode, offset=offset, **options)

    def prep_ftruncate(self, fd: Fd, length: int, **options: Unpack[Options]) -> Any:
        """Prepare ftruncate(2). Linux 6.9."""
        return self._prep(OPCODE["ftruncate"], fd, offset=length, **options)

    def prep_fadvise(
        self, fd: Fd, offset: int, length: int, advice: int, **options: Unpack[Options]
    ) -> Any:
        """Prepare posix_fadvise(2); ``length`` below 4 GiB."""
        return self._prep(OPCODE["fadvise"], fd, 0, length, offset=offset, flags=advice, **options)

    def prep_statx(
        self,
        path_or_fd: Path | int,
        into: StatxBuffer,
        *,
        dir_fd: int = AT_FDCWD,
        follow_symlinks: bool = True,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare statx(2); after its completion ``into.result()`` returns the fields."""
        flags = 0 if follow_symlinks else AT_SYMLINK_NOFOLLOW
        if isinstance(path_or_fd, int):
            dir_fd, path, flags = path_or_fd, b"\0", flags | AT_EMPTY_PATH
        else:
            path = encode_path(path_or_fd)
        wanted = STATX_BASIC_AND_BIRTH | STATX_DIOALIGN
        return self._prep(
            OPCODE["statx"], dir_fd, path, wanted, offset=into._memory, flags=flags, **options
        )

    def prep_rename(
        self,
        source: Path,
        target: Path,
        *,
        source_dir_fd: int = AT_FDCWD,
        target_dir_fd: int = AT_FDCWD,
        flags: int = 0,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare renameat2(2): an existing target is replaced, unless ``flags`` say otherwise."""
        return self._prep(
            OPCODE["renameat"],
            source_dir_fd,
            encode_path(source),
            target_dir_fd & 0xFFFFFFFF,
            offset=encode_path(target),
            flags=flags,
            **options,
        )

    def prep_unlink(
        self,
        path: Path,
        *,
        dir_fd: int = AT_FDCWD,
        remove_dir: bool = False,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare unlinkat(2), of a file or of an empty directory."""
        flags = AT_REMOVEDIR if remove_dir else 0
        return self._prep(OPCODE["unlinkat"], dir_fd, encode_path(path), 0, flags=flags, **options)

    def prep_mkdir(
        self, path: Path, mode: int = 0o777, *, dir_fd: int = AT_FDCWD, **options: Unpack[Options]
    ) -> Any:
        """Prepare mkdirat(2)."""
        return self._prep(OPCODE["mkdirat"], dir_fd, encode_path(path), mode, **options)

    def prep_symlink(
        self, target: Path, path: Path, *, dir_fd: int = AT_FDCWD, **options: Unpack[Options]
    ) -> Any:
        """Prepare symlinkat(2): ``path`` will point to ``target``."""
        return self._prep(
            OPCODE["symlinkat"], dir_fd, encode_path(target), 0, encode_path(path), **options
        )

    def prep_link(
        self,
        source: Path,
        target: Path,
        *,
        source_dir_fd: int = AT_FDCWD,
        target_dir_fd: int = AT_FDCWD,
        follow_symlinks: bool = False,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare linkat(2): ``target`` becomes another name of ``source``."""
        return self._prep(
            OPCODE["linkat"],
            source_dir_fd,
            encode_path(source),
            target_dir_fd & 0xFFFFFFFF,
            offset=encode_path(target),
            flags=AT_SYMLINK_FOLLOW if follow_symlinks else 0,
            **options,
        )

    def prep_splice(
        self,
        source: int,
        target: int,
        length: int,
        *,
        source_offset: int = SPLICE_OFFSET_NONE,
        target_offset: int = SPLICE_OFFSET_NONE,
        flags: int = 0,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare splice(2): one of the two is a pipe, whose offset must be -1."""
        return self._prep(
            OPCODE["splice"],
            target,
            source_offset,
            length,
            offset=target_offset,
            flags=flags,
            file_index=source,
            **options,
        )

    def prep_tee(
        self, source: int, target: int, length: int, flags: int = 0, **options: Unpack[Options]
    ) -> Any:
        """Prepare tee(2): copy from pipe to pipe without consuming."""
        return self._prep(
            OPCODE["tee"], target, 0, length, flags=flags, file_index=source, **options
        )
