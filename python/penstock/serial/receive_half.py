"""The receiving half of a port: bytes as they come, so many, up to a delimiter, with faults."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from typing import NoReturn, TypeVar

import anyio

from penstock.serial.config import SerialConfig
from penstock.serial.error_marks import MarkedBytes, decode_marks, escape_marks
from penstock.serial.exceptions import UnsupportedConfigurationError
from penstock.serial.port_state import PortState

__all__ = ["LARGEST_READ", "READ_AT_ONCE", "ReceiveHalf"]

T = TypeVar("T")

LARGEST_READ = 65_536
# A tty hands out 4 KiB at a time: a larger buffer would be made and cut down again for nothing.
READ_AT_ONCE = 8_192


class ReceiveHalf(PortState):
    """What :class:`SerialPort` receives with. One task at a time."""

    async def receive(self, max_bytes: int = LARGEST_READ) -> bytes:
        """Return the bytes that are there, 1 to *max_bytes*; wait for the first one.

        Never returns ``b""``: a port has no end of stream, a device that goes away raises
        :class:`SerialDisconnectedError`. Cancelling loses no byte.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
        if self._receiving:
            raise anyio.BusyResourceError("receiving from")
        if self._marking:
            return (await self._receive_marked(max_bytes)).data
        self._receiving = True
        try:
            return await self._receive_raw(max_bytes)
        finally:
            self._receiving = False

    async def receive_into(self, buffer: bytearray | memoryview) -> int:
        """Receive into *buffer* and return the count, 1 to its length; else as :meth:`receive`.

        After a cancellation the buffer's content is unspecified; the bytes are not lost.
        Raises ValueError for an empty buffer, TypeError for a read-only or a strided one.
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
            reader = self._reader
            pending = reader.receive_into(view) if reader is not None else None
            if pending is None:
                return await self._attempt(
                    partial(self._readinto, view), lambda count: self._keep(bytes(view[:count]))
                )
            try:
                count = await pending
            except BaseException as exc:
                self._end_native(exc)
            if not count:
                self._fail_disconnected()
            return count
        finally:
            self._receiving = False

    async def receive_available(self, *, limit: int | None = None) -> bytes:
        """Return what is there in one read, at most *limit* bytes; wait for the first one.

        Without *limit*, up to ``config.read_chunk_size``; the kernel hands out 4 KiB at a time.
        """
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1 or None, not {limit}")
        chunk = self._device.config.read_chunk_size
        size = chunk if limit is None else min(limit, chunk)
        if not self._kept or self._receiving:
            return await self.receive(size)
        kept = self._take_kept(size)
        try:
            rest = self._read(size - len(kept)) if len(kept) < size else b""
        except OSError:
            rest = b""  # what was kept comes first; the next receive meets the error again
        self._kept = kept + rest + self._kept
        return await self.receive(size)

    async def receive_exactly(self, nbytes: int) -> bytes:
        """Return exactly *nbytes* bytes.

        Cancelled, or ended by an error, it leaves what came so far to the next receive.
        """
        if nbytes < 0:
            raise ValueError(f"nbytes must be 0 or more, not {nbytes}")
        parts: list[bytes] = []
        missing = nbytes
        try:
            while missing:
                parts.append(await self.receive(missing))
                missing -= len(parts[-1])
        except BaseException:
            self._give_back(b"".join(parts))
            raise
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def receive_until(self, delimiter: bytes, max_bytes: int = LARGEST_READ) -> bytes:
        """Return what comes before *delimiter*, which is taken from the stream but not returned.

        Raises :class:`anyio.DelimiterNotFound` when the first *max_bytes* do not hold it whole.
        Then, and when it is cancelled or ended by another error, every byte is left to the next
        receive. What follows the delimiter is left to it as well.
        """
        if not delimiter:
            raise ValueError("delimiter must have at least 1 byte")
        if max_bytes < len(delimiter):
            raise ValueError(f"max_bytes must be at least {len(delimiter)}, not {max_bytes}")
        got = bytearray()
        searched = 0
        try:
            while (found := got.find(delimiter, searched)) < 0:
                if len(got) >= max_bytes:
                    raise anyio.DelimiterNotFound(max_bytes)
                searched = max(0, len(got) - len(delimiter) + 1)
                got += await self.receive(max_bytes - len(got))
        except BaseException:
            self._give_back(bytes(got))
            raise
        self._give_back(bytes(got[found + len(delimiter) :]))
        return bytes(got[:found])

    async def receive_marked(self, max_bytes: int = LARGEST_READ) -> MarkedBytes:
        """Receive as :meth:`receive`, and learn which characters arrived damaged.

        Needs ``SerialConfig(mark_errors=True)``, else :class:`UnsupportedConfigurationError`.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
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
        with self._noticing_disconnect():
            return self._device.input_waiting() + len(self._kept)

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
        tail = b""
        try:
            while True:
                raw = tail + await self._receive_raw(max_bytes)
                marked, tail = decode_marks(raw)
                if marked.data:
                    return marked
        finally:
            self._kept = tail + self._kept  # the beginning of a mark that has not come whole
            self._receiving = False

    async def _receive_raw(self, max_bytes: int) -> bytes:
        size = max_bytes if max_bytes < READ_AT_ONCE else READ_AT_ONCE
        if self._kept:
            data = self._take_kept(size)
            await self._give_way(data, self._put_back)
            return data
        reader = self._reader
        pending = reader.receive(size) if reader is not None else None
        if pending is None:
            return await self._attempt(partial(self._read, size), self._keep)
        try:
            data = await pending
        except BaseException as exc:
            self._end_native(exc)
        if not data:
            self._fail_disconnected()
        return data

    async def _attempt(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T:
        # The system call first: when data waits, it is the only one.
        result: T | None
        try:
            result = attempt()
        except BlockingIOError:
            result = None  # waiting in here would chain every later error to this one
        except OSError as exc:
            self._fail(exc)
        if result is None:
            return await self._park(attempt, keep)
        if not result:
            self._fail_disconnected()
        await self._give_way(result, keep)
        return result

    async def _park(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T:
        try:
            result = await self._waiting_room().read(attempt, keep)
        except anyio.ClosedResourceError as exc:
            self._fail_closed(exc)
        except OSError as exc:
            self._fail(exc)
        if not result:
            self._fail_disconnected()
        return result

    async def _give_way(self, result: T, keep: Callable[[T], None]) -> None:
        try:
            await self._yield()
        except BaseException:
            keep(result)
            raise

    def _end_native(self, exc: BaseException) -> NoReturn:
        assert self._reader is not None
        self._kept = self._reader.take_unread() + self._kept
        if isinstance(exc, OSError):
            self._fail(exc)
        raise exc

    def _keep(self, data: bytes) -> None:
        self._kept += data

    def _put_back(self, data: bytes) -> None:
        self._kept = data + self._kept

    def _give_back(self, data: bytes) -> None:
        # What is kept is as the driver delivered it.
        self._kept = (escape_marks(data) if self._marking else data) + self._kept

    def _take_kept(self, size: int) -> bytes:
        data, self._kept = self._kept[:size], self._kept[size:]
        return data


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
