"""Operations that wait for something or act on other operations."""

from __future__ import annotations

import select
import struct
from typing import TYPE_CHECKING, Any, Literal

from penstock.uring.constants import OPCODE
from penstock.uring.native import Ring

if TYPE_CHECKING:
    from typing import Unpack

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

# The numbers of messages have the rest of user_data's 64 bits; see Message.
MESSAGE_MARK = 1 << 63
MESSAGE_LIMIT = 1 << 62


def encode_timespec(seconds: float) -> bytes:
    """A ``struct __kernel_timespec``."""
    if not 0 <= seconds < 1 << 62:
        raise ValueError(f"seconds is {seconds}; it must be 0 or more")
    whole = int(seconds)
    return struct.pack("=qq", whole, int((seconds - whole) * 1_000_000_000))


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
        """Prepare waiting for ``POLL*`` events; the result is those that came.

        With ``multishot`` they are told again and again, until a completion without
        ``CQE_F_MORE``.
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
            count: end with 0 as soon as so many other operations have completed.
            absolute: ``seconds`` is a time of ``clock``.
            multishot: again after every interval, ``count`` times or for ever. Linux 6.4.
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

        If the time is over first, that operation ends with ``-ECANCELED`` and this one's result is
        ``-ETIME``. A receive that is ended so may have taken data off the socket already.
        """
        return self._prep(OPCODE["link_timeout"], -1, encode_timespec(seconds), 1, **options)

    def prep_cancel(self, target: object, **options: Unpack[Options]) -> Any:
        """Prepare ending an operation in flight.

        The result is 0, ``-ENOENT`` if it has completed already, or ``-EALREADY`` if it can no
        longer be stopped. The target's own completion comes in any case, with ``-ECANCELED`` or
        with what it has done; its buffer is held until then.
        """
        return self._prep(OPCODE["async_cancel"], -1, _signed(self._key(target)), **options)

    def prep_cancel_fd(self, fd: Fd, **options: Unpack[Options]) -> Any:
        """Prepare ending every operation on a descriptor; the result is their number. Linux 5.19.

        With ``fixed_file=True`` it is the index of a registered file.
        """
        flags = CANCEL_FD | CANCEL_ALL
        if options.pop("fixed_file", False):
            flags |= CANCEL_FD_FIXED
        return self._prep(OPCODE["async_cancel"], fd, flags=flags, **options)

    def prep_cancel_all(self, **options: Unpack[Options]) -> Any:
        """Prepare ending every operation in flight; the result is their number. Linux 5.19."""
        return self._prep(OPCODE["async_cancel"], -1, flags=CANCEL_ANY | CANCEL_ALL, **options)

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
