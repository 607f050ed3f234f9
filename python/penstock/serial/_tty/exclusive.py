"""Exclusive use of a port: the kernel's TIOCEXCL and an flock, and who holds it.

Each lock alone has a gap. TIOCEXCL refuses every later ``open`` except by privileged programs, and
does not affect programs that have the port open already. ``flock`` stops every program that also
takes it (pyserial, picocom, minicom and this package do), privileged or not, but not ``cat``.
Together they miss only a privileged program that takes no lock.
A program may also have locked the file with ``lockf`` or ``fcntl`` (a record lock), which neither
affects. Such a lock is respected, and none is taken: it would end with any descriptor of the port
that this process closes (fcntl(2)). Exclusive use also respects the lock files of UUCP.

A port opened without exclusive use takes the lock shared: any number of such ports may be open at
once, but none beside an exclusive one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

from penstock.serial._tty import system_calls
from penstock.serial._tty.lock_files import find_lock_file
from penstock.serial.exceptions import PortBusyError

# struct flock of 64-bit Linux: type, whence, start, length, process.
_RECORD_LOCK = struct.Struct("@hhqqi4x")
_HAS_KNOWN_LOCKS = struct.calcsize("@l") == 8
_ANY_LOCK = _RECORD_LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_EXCLUSIVE_LOCK = _RECORD_LOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
"""What F_GETLK asks: which lock of another program would be in the way of such a one."""


class PortLock:
    """The lock of one open descriptor. :meth:`acquire` takes it."""

    def __init__(self, fd: int, path: str, *, has_wire: bool, held: bool | None = None) -> None:
        """Prepare the lock of ``fd``.

        Args:
            fd: The open tty.
            path: Its name.
            has_wire: False for a pty.
            held: The lock that it has already: the exclusive one or not; None for none.
        """
        self._fd = fd
        self._path = path
        self._has_wire = has_wire
        self._exclusive = held

    @property
    def is_exclusive(self) -> bool | None:
        """Whether the lock is the exclusive one; None if none is held."""
        return self._exclusive

    def acquire(self, exclusive: bool) -> None:
        """Take the lock, or change it; a refused change leaves the present lock in force.

        Raises :class:`PortBusyError`, which names the holder where it can be found.
        """
        before = self._exclusive
        if exclusive is before:
            return
        try:
            self._flock(exclusive)
            self._check_record_locks(exclusive)
            if exclusive:
                check_lock_file(self._path)
                self._check_flag()
                system_calls.set_exclusive(self._fd, True)
            elif before:
                system_calls.set_exclusive(self._fd, False)
        except OSError:
            # A failed conversion may have released the old lock (flock(2)).
            if before is None:
                self._unlock()
            else:
                self._flock(before)
            raise
        self._exclusive = exclusive

    def is_alone(self) -> bool:
        """Return whether no other program that takes the lock has the port open."""
        if self._exclusive is not False:
            return True
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._flock(False)
            return False
        return True

    def give_up(self) -> bool:
        """Return whether the lock is the exclusive one. Whoever asks releases it."""
        exclusive, self._exclusive = self._exclusive, None
        return exclusive is True

    def release(self) -> None:
        """Release the lock.

        Closing is not enough: a forked child shares the flock, and TIOCEXCL stays set as long as
        anyone has the tty open.
        """
        exclusive, self._exclusive = self._exclusive, None
        try:
            if exclusive:
                system_calls.set_exclusive(self._fd, False)
        finally:
            if exclusive is not None:
                self._unlock()

    def _flock(self, exclusive: bool) -> None:
        kind = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
        try:
            fcntl.flock(self._fd, kind | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            raise busy_error(self._path) from exc

    def _check_record_locks(self, exclusive: bool) -> None:
        if not _HAS_KNOWN_LOCKS:
            return
        asked = _ANY_LOCK if exclusive else _EXCLUSIVE_LOCK
        try:
            kind, _, _, _, holder = _RECORD_LOCK.unpack(fcntl.fcntl(self._fd, fcntl.F_GETLK, asked))
        except OSError:
            return  # a file system without such locks
        if kind != fcntl.F_UNLCK:
            raise busy_error(self._path, holder if holder > 0 else None)

    def _unlock(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _check_flag(self) -> None:
        # Only a privileged process gets here while another program has set TIOCEXCL. On a pty the
        # flag stays set after its holder was killed, as long as the other end is open. There it
        # proves nothing, and the flock, which ends with its owner, decides.
        if self._has_wire and system_calls.is_exclusive(self._fd):
            raise busy_error(self._path)


def check_lock_file(path: str) -> None:
    """Raise :class:`PortBusyError` if a lock file says that another program has a port."""
    found = find_lock_file(path)
    if found is not None and os.path.exists(path):
        raise PortBusyError(
            errno.EBUSY,
            f"{path} is in use by process {found.holder} ({_command(found.holder)}), which "
            f"{found.path} names; end it, or remove that file if the process is another one now",
            path,
        )


def busy_error(path: str, holder: int | None = None) -> PortBusyError:
    """Return the error for a port that is held elsewhere, with the holder's name if known."""
    holder = _holder(path) if holder is None else holder
    if holder is None:
        who = "another program; find it with: sudo fuser -v " + path
    elif holder == os.getpid():
        who = "this very process; close the first port before opening a second one"
    else:
        who = f"process {holder} ({_command(holder)}); end it or close its port first"
    return PortBusyError(errno.EBUSY, f"{path} is in use by {who}", path)


def _holder(path: str) -> int | None:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return _flock_holder(info) or _opener(info)


def _flock_holder(info: os.stat_result) -> int | None:
    # A line of /proc/locks: "3: FLOCK  ADVISORY  WRITE 812 00:05:1201 0 EOF"; major and minor are
    # hexadecimal, the inode decimal.
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    wanted = (os.major(info.st_dev), os.minor(info.st_dev), info.st_ino)
    for line in lines:
        words = line.split()
        if len(words) < 6 or words[1] != "FLOCK":
            continue
        try:
            major, minor, inode = words[5].split(":")
            place = (int(major, 16), int(minor, 16), int(inode))
            pid = int(words[4])
        except ValueError:
            continue
        if place == wanted and pid > 0:
            return pid
    return None


def _opener(info: os.stat_result) -> int | None:
    # Another user's descriptors cannot be read; the error then names no holder.
    own = os.getpid()
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == own:
            continue
        try:
            for link in (process / "fd").iterdir():
                target = os.stat(link)
                if target.st_rdev == info.st_rdev and target.st_ino == info.st_ino:
                    return int(process.name)
        except OSError:
            continue
    return None


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "name unknown"
