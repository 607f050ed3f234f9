"""The receiving half: bytes as they arrive, a number of them, up to a delimiter, with faults.

The kernel marks damaged characters in the stream (termios(3)). With PARMRK set, a character with a
parity or framing error arrives as ``FF 00 c``, a break as ``FF 00 00``, and an undamaged ``FF`` is
doubled. A break and a damaged NUL look the same.
"""

from __future__ import annotations

import errno
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar

import anyio

from penstock.serial._port.state import PortState
from penstock.serial.config import SerialConfig
from penstock.serial.exceptions import UnsupportedConfigurationError, closed_error

if TYPE_CHECKING:
    from penstock._core import SerialReader

_MARK = re.compile(rb"\xff(?:\xff|\x00.|\Z|\x00\Z|.)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Fault:
    """One damaged character.

    Attributes:
        offset: Its place in the data that it arrived with.
        value: The value that arrived; 0 for a break or a damaged NUL.
    """

    offset: int
    value: int


@dataclass(frozen=True, slots=True)
class MarkedBytes:
    """Received bytes without marks, and their faults in the order of the offsets."""

    data: bytes
    faults: tuple[Fault, ...] = ()


def decode_marks(raw: bytes) -> tuple[MarkedBytes, bytes]:
    """Remove the marks from ``raw``.

    Returns:
        The bytes with their faults, and an incomplete mark, which belongs before the next bytes.

    A lone ``FF`` followed by neither ``FF`` nor ``00``, which no kernel writes, counts as itself.
    """
    data = bytearray()
    faults: list[Fault] = []
    position = 0
    for found in _MARK.finditer(raw):
        data += raw[position : found.start()]
        mark = found.group()
        if len(mark) < 2 or mark == b"\xff\x00":
            return MarkedBytes(bytes(data), tuple(faults)), mark
        if len(mark) == 3:
            faults.append(Fault(len(data), mark[2]))
            data.append(mark[2])
            position = found.end()
        else:
            data.append(0xFF)
            position = found.end() if mark == b"\xff\xff" else found.start() + 1
    data += raw[position:]
    return MarkedBytes(bytes(data), tuple(faults)), b""


def escape_marks(data: bytes) -> bytes:
    """Return undamaged ``data`` as the kernel delivers it with PARMRK set."""
    return data.replace(b"\xff", b"\xff\xff")


T = TypeVar("T")

LARGEST_READ = 65_536
# A tty returns at most 4 KiB at a time. A larger buffer would be allocated and cut without use.
READ_AT_ONCE = 8_192


class ReceiveHalf(PortState):
    """The receiving methods of :class:`SerialPort`. One task at a time."""

    async def receive(self, max_bytes: int = LARGEST_READ) -> bytes:
        """Return the bytes that have arrived, 1 to ``max_bytes``; wait for the first one.

        Never returns ``b""``: a port has no end of stream. Cancelling loses no byte.

        Raises:
            SerialDisconnectedError: The device has gone away.
            SerialClosedError: The port is closed, even during the wait.
            anyio.BusyResourceError: Another task receives.
            TypeError: ``max_bytes`` is not a whole number.
            ValueError: ``max_bytes`` is below 1.
        """
        if max_bytes.__class__ is not int or max_bytes < 1:
            max_bytes = byte_count("max_bytes", max_bytes)
        if self._receiving:
            raise anyio.BusyResourceError("receiving from")
        if self._marking:
            return (await self._receive_marked(max_bytes)).data
        self._receiving = True
        try:
            return await self._receive_raw(max_bytes)
        finally:
            self._receiving = False

    async def receive_by(self, deadline: float, max_bytes: int = LARGEST_READ) -> bytes:
        """Receive as :meth:`receive`, or return ``b""`` if nothing arrives before ``deadline``.

        Cheaper than :meth:`receive` in a cancel scope: on asyncio's loops a call needs neither a
        scope nor a new timer. Neither the deadline nor a cancellation loses a byte.

        Args:
            deadline: A time of :func:`anyio.current_time`, in seconds.
            max_bytes: The largest result, in bytes.
        """
        if self._closed:
            raise closed_error(self.path)
        timer = self._waiting_room().deadline
        if timer is None or self._marking:
            data = b""
            with anyio.CancelScope(deadline=deadline):
                data = await self.receive(max_bytes)
            return data
        if max_bytes.__class__ is not int or max_bytes < 1:
            max_bytes = byte_count("max_bytes", max_bytes)
        if self._receiving:
            raise anyio.BusyResourceError("receiving from")
        self._receiving = True
        try:
            if self._reader is not None and not self._kept:
                return await self._receive_natively(
                    self._reader, deadline - timer.loop.time(), max_bytes
                )
            timer.set(deadline)
            return await self._receive_raw(max_bytes)
        finally:
            timer.off()
            self._receiving = False

    async def _receive_natively(
        self, reader: SerialReader, seconds: float, max_bytes: int
    ) -> bytes:
        pending = reader.exchange(b"", b"", 0, 0.0, seconds, max_bytes, False)
        assert pending is not None  # the reader is that of the running loop
        resets = self._resets
        try:
            part = await pending
        except BaseException as exc:
            self._end_native(exc, resets)
        assert part is not None  # it was not told to look for strays
        return part[0]

    async def receive_into(self, buffer: bytearray | memoryview) -> int:
        """Receive into ``buffer`` and return the count, 1 to its length; else as :meth:`receive`.

        After a cancellation the buffer's content is unspecified; the bytes are not lost.

        Raises:
            ValueError: The buffer is empty.
            TypeError: The buffer is read-only or strided.
        """
        view = _writable_bytes(buffer)
        if self._receiving:
            raise anyio.BusyResourceError("receiving from")
        if self._marking:
            return _copy((await self._receive_marked(len(view))).data, view)
        self._receiving = True
        try:
            if self._kept:
                return _copy(await self._receive_raw(len(view)), view)
            resets = self._resets
            reader = self._reader
            pending = reader.receive_into(view) if reader is not None else None
            if pending is None:
                received = await self._attempt(
                    partial(self._readinto, view), lambda count: self._keep(bytes(view[:count]))
                )
                assert received is not None  # no deadline
                return received
            try:
                count = await pending
            except BaseException as exc:
                self._end_native(exc, resets)
            if not count:
                self._fail_disconnected()
            return count
        finally:
            self._receiving = False

    async def receive_available(self, *, limit: int | None = None) -> bytes:
        """Return the result of one read(2), at most ``limit`` bytes; wait for the first byte.

        The default ``limit`` is ``config.read_chunk_size``. A tty returns at most 4 KiB. Errors and
        cancellation: as :meth:`receive`.
        """
        if limit is not None:
            limit = byte_count("limit", limit, or_none=True)
        chunk = self._device.config.read_chunk_size
        size = chunk if limit is None else min(limit, chunk)
        if not self._kept or self._receiving:
            return await self.receive(size)
        kept = self._take_kept(size)
        try:
            rest = self._read(size - len(kept)) if len(kept) < size else b""
        except OSError:
            rest = b""  # the kept bytes come first; the next receive meets the error again
        self._kept = kept + rest + self._kept
        return await self.receive(size)

    async def receive_exactly(self, nbytes: int) -> bytes:
        """Return exactly ``nbytes`` bytes.

        After a cancellation or an error, the next receive gets the bytes that had arrived.
        """
        if nbytes.__class__ is not int or nbytes < 0:
            nbytes = byte_count("nbytes", nbytes, least=0)
        parts: list[bytes] = []
        missing = nbytes
        stale, resets = 0, self._resets
        try:
            while missing:
                parts.append(await self.receive(missing))
                missing -= len(parts[-1])
                if resets != self._resets:
                    stale, resets = len(parts) - 1, self._resets
        except BaseException:
            if resets == self._resets:
                self._give_back(b"".join(parts[stale:]))
            raise
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def receive_until(self, delimiter: bytes, max_bytes: int = LARGEST_READ) -> bytes:
        """Return the bytes before ``delimiter``, which is consumed but not returned.

        The next receive gets the bytes after the delimiter. After a cancellation or an error it
        gets every byte.

        Raises:
            anyio.DelimiterNotFound: The first ``max_bytes`` do not contain all of it.
        """
        if not delimiter:
            raise ValueError("delimiter must have at least 1 byte")
        if max_bytes.__class__ is not int or max_bytes < len(delimiter):
            max_bytes = byte_count("max_bytes", max_bytes, least=len(delimiter))
        got = bytearray()
        searched = 0
        stale, resets = 0, self._resets
        try:
            while (found := got.find(delimiter, searched)) < 0:
                if len(got) >= max_bytes:
                    raise anyio.DelimiterNotFound(max_bytes)
                searched = max(0, len(got) - len(delimiter) + 1)
                received = await self.receive(max_bytes - len(got))
                if resets != self._resets:
                    stale, resets = len(got), self._resets
                got += received
        except BaseException:
            if resets == self._resets:
                self._give_back(bytes(got[stale:]))
            raise
        self._give_back(bytes(got[found + len(delimiter) :]))
        return bytes(got[:found])

    async def receive_marked(self, max_bytes: int = LARGEST_READ) -> MarkedBytes:
        """Receive as :meth:`receive`, and report which characters arrived damaged.

        Raises:
            UnsupportedConfigurationError: ``mark_errors`` is not set in the configuration.
        """
        max_bytes = byte_count("max_bytes", max_bytes)
        if not self._marking:
            raise UnsupportedConfigurationError(
                errno.EINVAL,
                f"{self.path}: configure the port with mark_errors=True first",
                self.path,
            )
        if self._receiving:
            raise anyio.BusyResourceError("receiving from")
        return await self._receive_marked(max_bytes)

    def input_waiting(self) -> int:
        """Return how many bytes can be received without waiting."""
        self._check_usable()
        try:
            return self._count_waiting() + len(self._kept)
        except (OSError, anyio.ClosedResourceError):
            # Only now: a context manager takes longer than the call, which instruments' clients
            # make before every question.
            with self._noticing_disconnect():
                raise

    def _follow(self, config: SerialConfig) -> None:
        marked_before = self._marking
        super()._follow(config)
        if marked_before and not self._marking:
            marked, tail = decode_marks(self._kept)
            self._kept = marked.data + tail
        elif self._marking and not marked_before:
            self._kept = escape_marks(self._kept)

    async def _receive_marked(self, max_bytes: int) -> MarkedBytes:
        self._receiving = True
        tail = b""  # the beginning of a mark that has not arrived whole
        resets = self._resets
        try:
            while True:
                raw = await self._receive_raw(max_bytes)
                if resets == self._resets:
                    raw = tail + raw
                resets = self._resets
                marked, tail = decode_marks(raw)
                if marked.data:
                    return marked
        finally:
            if resets == self._resets:
                self._kept = tail + self._kept
            self._receiving = False

    async def _receive_raw(self, max_bytes: int) -> bytes:
        size = max_bytes if max_bytes < READ_AT_ONCE else READ_AT_ONCE
        if self._kept:
            data = self._take_kept(size)
            await self._yield_turn(data, self._put_back)
            return data
        resets = self._resets
        reader = self._reader
        pending = reader.receive(size) if reader is not None else None
        if pending is None:
            return await self._attempt(partial(self._read, size), self._keep) or b""
        try:
            received = await pending
        except BaseException as exc:
            self._end_native(exc, resets)
        if not received:
            self._fail_disconnected()
        return received

    async def _attempt(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T | None:
        """Return the attempt's result, None when the deadline has passed."""
        if self._answer_is_due and self.take_expectation():
            return await self._park(attempt, keep)
        # The system call first: if data waits, it is the only one.
        result: T | None
        try:
            result = attempt()
        except BlockingIOError:
            result = None  # waiting here would chain every later error to this one
        except OSError as exc:
            self._fail(exc)
        if result is None:
            return await self._park(attempt, keep)
        if not result:
            self._fail_disconnected()
        await self._yield_turn(result, keep)
        return result

    async def _park(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T | None:
        try:
            result = await self._waiting_room().read(attempt, keep)
        except anyio.ClosedResourceError as exc:
            self._fail_closed(exc)
        except OSError as exc:
            self._fail(exc)
        if not result and result is not None:
            self._fail_disconnected()
        return result

    async def _yield_turn(self, result: T, keep: Callable[[T], None]) -> None:
        resets = self._resets
        try:
            await self._yield()
        except BaseException:
            if resets == self._resets:
                keep(result)
            raise

    def _end_native(self, exc: BaseException, resets: int) -> NoReturn:
        assert self._reader is not None
        unread = self._reader.take_unread()
        if resets == self._resets:  # read before the call waited for anything
            self._kept = unread + self._kept
        if isinstance(exc, OSError):
            self._fail(exc)
        raise exc

    def _forget_input(self) -> None:
        """Drop what was read from the device and not yet returned to a receiver."""
        self._resets += 1
        self._kept = b""
        if self._readiness is not None:
            self._readiness.discard_read()
        if self._reader is not None:
            self._reader.forget_input()

    def _keep(self, data: bytes) -> None:
        self._kept += data

    def _put_back(self, data: bytes) -> None:
        self._kept = data + self._kept

    def _give_back(self, data: bytes) -> None:
        # Bytes are kept as the driver delivered them.
        self._kept = (escape_marks(data) if self._marking else data) + self._kept

    def _take_kept(self, size: int) -> bytes:
        data, self._kept = self._kept[:size], self._kept[size:]
        return data


def byte_count(name: str, value: object, *, least: int = 1, or_none: bool = False) -> int:
    """Return ``value`` as a number of bytes.

    Raises:
        TypeError: It is not a whole number.
        ValueError: It is below ``least``.
    """
    or_none_text = ", or None" if or_none else ""
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"{name} must be a whole number of bytes, such as 4096{or_none_text}, not {value!r}"
        ) from None
    if count < least:
        raise ValueError(f"{name} must be at least {least}{or_none_text}, not {value}")
    return count


def _copy(data: bytes, view: memoryview) -> int:
    view[: len(data)] = data
    return len(data)


def _writable_bytes(buffer: bytearray | memoryview) -> memoryview:
    try:
        view = memoryview(buffer)
    except TypeError:
        raise TypeError(
            f"receive_into needs a writable buffer, such as a bytearray, not {buffer!r}"
        ) from None
    if view.readonly:
        raise TypeError("receive_into needs a writable buffer, such as a bytearray")
    if not view.c_contiguous:
        raise TypeError("receive_into needs a contiguous buffer, not a strided view")
    if view.nbytes == 0:
        raise ValueError("receive_into needs a buffer of at least 1 byte")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")
