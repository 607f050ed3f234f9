"""Operations that wait for something or act on other operations."""

from __future__ import annotations

import platform
import select
import struct
from typing import TYPE_CHECKING, Any, Literal

from penstock.uring._capabilities import require
from penstock.uring._native import Ring
from penstock.uring.constants import OPCODE

if TYPE_CHECKING:
    from typing import Unpack

    from typing_extensions import Buffer

    from penstock._uring import Fd, Options

    Clock = Literal["monotonic", "boottime", "realtime"]

POLL_MULTISHOT = 1 << 0
POLL_UPDATE_EVENTS = 1 << 1

TIMEOUT_ABS = 1 << 0
TIMEOUT_UPDATE = 1 << 1
TIMEOUT_MULTISHOT = 1 << 6
CLOCK_FLAGS = {"monotonic": 0, "boottime": 1 << 2, "realtime": 1 << 3}

CANCEL_ALL = 1 << 0
CANCEL_FD = 1 << 1
CANCEL_ANY = 1 << 2
CANCEL_FD_FIXED = 1 << 3

# struct epoll_event is packed on x86-64 alone.
_EPOLL_EVENT = struct.Struct("=IQ" if platform.machine() == "x86_64" else "=I4xQ")
EPOLL_CTL_ADD = 1
EPOLL_CTL_DEL = 2
EPOLL_CTL_MOD = 3

LONGEST_COMMAND = 16

# Bit 63 of user_data marks a message; the lower bits hold its number. See Message.
MESSAGE_MARK = 1 << 63
MESSAGE_LIMIT = 1 << 62


def encode_timespec(seconds: float) -> bytes:
    """Return a ``struct __kernel_timespec``."""
    if not 0 <= seconds < 1 << 62:
        raise ValueError(f"seconds is {seconds}; it must be 0 or more")
    whole = int(seconds)
    return struct.pack("=qq", whole, int((seconds - whole) * 1_000_000_000))


class EpollBuffer:
    """The output buffer of :meth:`ControlOperations.prep_epoll_wait`; one operation at a time."""

    def __init__(self, max_events: int) -> None:
        if max_events < 1:
            raise ValueError(f"max_events is {max_events}; it must be 1 or more")
        self._memory = bytearray(max_events * _EPOLL_EVENT.size)

    def result(self, count: int) -> list[tuple[int, int]]:
        """Return the (data, events) of a completion whose result is ``count``."""
        size = count * _EPOLL_EVENT.size
        return [(data, events) for events, data in _EPOLL_EVENT.iter_unpack(self._memory[:size])]


class ControlOperations(Ring):
    """Polls, timeouts, cancels and messages.

    Each method returns the operation's own ``user_data`` and takes the options that
    :class:`UringCtx` describes. A ``target`` is the ``user_data`` of an operation in flight;
    ``KeyError`` if there is none.
    """

    def prep_poll_add(
        self,
        fd: Fd,
        events: int = select.POLLIN,
        *,
        multishot: bool = False,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare waiting for ``POLL*`` events; the result is those that occurred.

        With ``multishot`` it completes repeatedly, until a completion without ``CQE_F_MORE``.
        """
        length = POLL_MULTISHOT if multishot else 0
        return self._prep(OPCODE["poll_add"], fd, 0, length, flags=events, **options)

    def prep_poll_update(
        self, target: object, events: int, *, multishot: bool = False, **options: Unpack[Options]
    ) -> Any:
        """Prepare changing the events that a poll in flight waits for."""
        length = POLL_UPDATE_EVENTS | (POLL_MULTISHOT if multishot else 0)
        return self._prep(
            OPCODE["poll_remove"], -1, _signed(self._key(target)), length, flags=events, **options
        )

    def prep_poll_remove(self, target: object, **options: Unpack[Options]) -> Any:
        """Prepare ending a poll, whose result will be ``-ECANCELED``."""
        return self._prep(OPCODE["poll_remove"], -1, _signed(self._key(target)), **options)

    def prep_timeout(
        self,
        seconds: float,
        count: int = 0,
        *,
        absolute: bool = False,
        clock: Clock = "monotonic",
        multishot: bool = False,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare a wait; the result is ``-ETIME`` after ``seconds``.

        Args:
            seconds: how long to wait.
            count: end with 0 as soon as so many other operations have completed.
            absolute: ``seconds`` is a time of ``clock``.
            clock: the clock that counts.
            multishot: again after every interval, ``count`` times or forever. Linux 6.4.
            options: those that :class:`UringCtx` describes.
        """
        flags = CLOCK_FLAGS[clock] | (TIMEOUT_ABS if absolute else 0)
        flags |= TIMEOUT_MULTISHOT if multishot else 0
        return self._prep(
            OPCODE["timeout"], -1, encode_timespec(seconds), 1, offset=count, flags=flags, **options
        )

    def prep_timeout_update(
        self, target: object, seconds: float, **options: Unpack[Options]
    ) -> Any:
        """Prepare giving a timeout in flight ``seconds`` from now."""
        return self._prep(
            OPCODE["timeout_remove"],
            -1,
            _signed(self._key(target)),
            0,
            offset=encode_timespec(seconds),
            flags=TIMEOUT_UPDATE,
            **options,
        )

    def prep_timeout_remove(self, target: object, **options: Unpack[Options]) -> Any:
        """Prepare ending a timeout, whose result will be ``-ECANCELED``."""
        return self._prep(OPCODE["timeout_remove"], -1, _signed(self._key(target)), **options)

    def prep_link_timeout(self, seconds: float, **options: Unpack[Options]) -> Any:
        """Prepare a limit for the operation before, which must be prepared with ``link=True``.

        If the time expires first, that operation ends with ``-ECANCELED`` and this one's result is
        ``-ETIME``. A receive that ends in this way may have consumed data of the socket.
        """
        return self._prep(OPCODE["link_timeout"], -1, encode_timespec(seconds), 1, **options)

    def prep_cancel(self, target: object, **options: Unpack[Options]) -> Any:
        """Prepare cancelling an operation in flight.

        The result is 0, ``-ENOENT`` if it has completed already, or ``-EALREADY`` if it can no
        longer be stopped. The target's own completion comes in any case, with ``-ECANCELED`` or
        with its result; its buffer is held until then.
        """
        return self._prep(OPCODE["async_cancel"], -1, _signed(self._key(target)), **options)

    def prep_cancel_fd(self, fd: Fd, **options: Unpack[Options]) -> Any:
        """Prepare cancelling all operations on a descriptor; the result is their number.

        Linux 5.19.

        With ``fixed_file=True`` it is the index of a registered file.
        """
        flags = CANCEL_FD | CANCEL_ALL
        if options.pop("fixed_file", False):
            flags |= CANCEL_FD_FIXED
        return self._prep(OPCODE["async_cancel"], fd, flags=flags, **options)

    def prep_cancel_all(self, **options: Unpack[Options]) -> Any:
        """Prepare cancelling all operations in flight; the result is their number. Linux 5.19."""
        return self._prep(OPCODE["async_cancel"], -1, flags=CANCEL_ANY | CANCEL_ALL, **options)

    def prep_epoll_ctl(
        self,
        epoll_fd: Fd,
        operation: int,
        fd: int,
        events: int = 0,
        data: int | None = None,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare epoll_ctl(2): ``EPOLL_CTL_ADD``, ``_MOD`` or ``_DEL`` of a descriptor.

        ``data`` is what epoll_wait returns for it, 64 bits; by default the descriptor, as with
        ``select.epoll``.
        """
        event = _EPOLL_EVENT.pack(events, fd if data is None else data)
        return self._prep(OPCODE["epoll_ctl"], epoll_fd, event, operation, offset=fd, **options)

    def prep_epoll_wait(self, epoll_fd: Fd, into: EpollBuffer, **options: Unpack[Options]) -> Any:
        """Prepare epoll_wait(2); ``into.result(count)`` returns the events. Linux 6.15."""
        require("epoll_wait")
        most = len(into._memory) // _EPOLL_EVENT.size
        return self._prep(OPCODE["epoll_wait"], epoll_fd, into._memory, most, **options)

    def prep_uring_cmd(
        self,
        fd: Fd,
        command: int,
        payload: bytes = b"",
        *,
        address: int | Buffer = 0,
        length: int = 0,
        file_index: int = 0,
        flags: int = 0,
        **options: Unpack[Options],
    ) -> Any:
        """Prepare a command that the file's driver defines, such as SOCKET_URING_OP_SIOCINQ.

        ``address``, ``length``, ``file_index`` and ``flags`` are fields of the submission, as the
        driver wants them. ``payload`` is up to 16 bytes of the command's own: commands of 80 bytes
        need another kind of ring.
        """
        require("uring_cmd")
        if len(payload) > LONGEST_COMMAND:
            raise ValueError(f"the payload has {len(payload)} bytes; there is room for 16")
        first, second = struct.unpack("=qq", payload.ljust(LONGEST_COMMAND, b"\0"))
        return self._prep(
            OPCODE["uring_cmd"],
            fd,
            address,
            length,
            offset=command,
            flags=flags,
            file_index=file_index,
            third_address=first,
            padding=second,
            **options,
        )

    def prep_msg_ring(
        self, ring: Ring | int, value: int, result: int = 0, **options: Unpack[Options]
    ) -> Any:
        """Prepare a completion in another ring, which may be another thread's. Linux 5.18.

        It comes there as ``(Message(value), result, flags)``.

        Args:
            ring: a context, or the ``ring_fd`` of one.
            value: from 0 to 2**62 - 1.
            result: 32 bits.
        """
        if not 0 <= value < MESSAGE_LIMIT:
            raise ValueError(f"value is {value}; it must be from 0 to 2**62 - 1")
        fd = ring if isinstance(ring, int) else ring.ring_fd
        return self._prep(
            OPCODE["msg_ring"],
            fd,
            0,
            result & 0xFFFFFFFF,
            offset=_signed(MESSAGE_MARK | value),
            **options,
        )


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
