"""A question and its answer as one call: checked, sent, awaited, cut and stamped.

On Penstock's loop, a port that is a plain descriptor does this in the extension: one awaitable,
whose deadline is a timer of the loop. Elsewhere it is put together from the two halves.
"""

from __future__ import annotations

import errno
import math
from dataclasses import dataclass
from time import monotonic_ns
from typing import NamedTuple, cast

import anyio

from penstock.serial._port.readiness import on_native_loop
from penstock.serial._port.receive import LARGEST_READ, ReceiveHalf, byte_count
from penstock.serial._port.send import SendHalf, as_bytes
from penstock.serial.exceptions import SerialTimeoutError, UnreadInputError

__all__ = ["ExchangeOperations", "ExchangePart", "SerialAnswer"]


@dataclass(frozen=True, slots=True)
class SerialAnswer:
    """The answer to a question, with the times of both on the clock of ``time.monotonic_ns()``.

    Attributes:
        data: The answer; without its delimiter.
        sent_ns: When the driver had taken the whole request.
        first_byte_ns: When the first byte of the answer was read.
        end_ns: When the last one was read.
    """

    data: bytes
    sent_ns: int
    first_byte_ns: int
    end_ns: int


class ExchangePart(NamedTuple):
    """What came of an exchange until its end or its deadline; see ``exchange_part``.

    Attributes:
        data: All bytes that were read: the answer, and what came with its end.
        end: The length of the answer in ``data``, with its delimiter; -1 where it did not end.
        taken: The bytes of the request that the driver took at once.
        sent_ns: When it took them, in nanoseconds of ``time.monotonic_ns()``.
        first_byte_ns: When the first byte was read; 0 where none was.
        last_byte_ns: When the last one was read; 0 where none was.
    """

    data: bytes
    end: int
    taken: int
    sent_ns: int
    first_byte_ns: int
    last_byte_ns: int


class ExchangeOperations(ReceiveHalf, SendHalf):
    """The exchanges of :class:`SerialPort`. No other task sends or receives meanwhile."""

    @property
    def exchanges_natively(self) -> bool:
        """Whether an exchange here is one native call: a tty or a socket, on Penstock's loop."""
        return self._device.is_plain_descriptor and on_native_loop()

    async def exchange(
        self,
        request: bytes,
        *,
        timeout: float,
        delimiter: bytes = b"",
        length: int = 0,
        silence: float = 0.0,
        max_bytes: int = LARGEST_READ,
    ) -> SerialAnswer:
        """Send ``request`` and return its answer, with the times of both.

        Exactly one of ``delimiter``, ``length`` and ``silence`` tells where the answer ends.

        Args:
            request: The bytes to send.
            timeout: Seconds from the end of sending to the end of the answer.
            delimiter: The bytes after the answer. They are consumed and not returned; the next
                receive gets what came after them.
            length: The answer's number of bytes.
            silence: Seconds without a byte that end the answer, from its last byte on.
            max_bytes: The most bytes of an answer that a delimiter or a silence ends.

        Raises:
            UnreadInputError: Bytes wait that belong to no question; nothing was sent.
            SerialTimeoutError: The answer did not end in time.
            anyio.DelimiterNotFound: ``max_bytes`` have arrived, and the answer goes on.
            SerialDisconnectedError: The device has gone away.
            SerialClosedError: The port is closed, also during the wait.
            anyio.BusyResourceError: Another task sends or receives.

        After an error or a cancellation the next receive gets every byte that has arrived. A
        cancellation before the first wait sends nothing, and a later one takes nothing back.
        """
        if (delimiter != b"") + (length != 0) + (silence != 0) != 1:
            raise ValueError(
                "one of delimiter, length and silence tells where the answer ends, not "
                f"delimiter={delimiter!r}, length={length!r}, silence={silence!r}"
            )
        most = byte_count("length", length) if length else byte_count("max_bytes", max_bytes)
        _check_seconds("timeout", timeout)
        if silence:
            _check_seconds("silence", silence)
        if type(request) is not bytes:
            request = as_bytes(request)
        part = await self.exchange_part(
            request,
            delimiter,
            length=length,
            silence=silence,
            timeout=timeout,
            max_bytes=most,
            refuse_strays=True,
        )
        if part is None:
            raise UnreadInputError(
                errno.EAGAIN,
                f"{self.path}: {self.input_waiting()} bytes wait that belong to no question; "
                "receive them, or drop them with reset_input_buffer(), before the next one",
                self.path,
            )
        if part.taken < len(request):
            await self.send(request[part.taken :])
            part = await self.exchange_part(
                b"", delimiter, length=length, silence=silence, timeout=timeout, max_bytes=most
            )
            assert part is not None
            if not part.sent_ns:
                part = part._replace(sent_ns=monotonic_ns())
        data, end = part.data, part.end
        if end < 0:
            self._give_back(data)
            if len(data) >= most:
                raise anyio.DelimiterNotFound(most)
            raise SerialTimeoutError(
                errno.ETIMEDOUT,
                f"{self.path}: the answer to {request[:40]!r} did not end within {timeout:g} s "
                f"({len(data)} bytes have arrived): check that the device is powered, connected "
                "and set to this baud rate",
                self.path,
            )
        if end < len(data):
            self._give_back(data[end:])
        return SerialAnswer(
            data[: end - len(delimiter)], part.sent_ns, part.first_byte_ns, part.last_byte_ns
        )

    async def exchange_part(
        self,
        request: bytes,
        delimiter: bytes = b"",
        *,
        timeout: float,
        length: int = 0,
        silence: float = 0.0,
        max_bytes: int = LARGEST_READ,
        refuse_strays: bool = False,
    ) -> ExchangePart | None:
        """One step of an exchange, for protocols that decide themselves what a deadline means.

        Sends what the driver takes of ``request`` at once, and returns what arrives up to the end
        of the answer, or until ``timeout`` seconds are over, which raises nothing. If the driver
        takes less than all, it returns at once. An empty request only receives. Without delimiter,
        length and silence the answer ends with the first bytes that arrive. The arguments are not
        checked.

        Returns:
            None where ``refuse_strays`` is set and bytes wait; nothing was sent then.

        Raises:
            SerialDisconnectedError: The device has gone away.
            SerialClosedError: The port is closed, also during the wait.
            anyio.BusyResourceError: Another task sends or receives.

        After a cancellation the next receive gets every byte that has arrived.
        """
        if self._receiving or self._sending:
            raise anyio.BusyResourceError("receiving from" if self._receiving else "sending to")
        self._check_usable()
        reader = self._reader
        if reader is None or self._kept or self._marking or self._switched_by is not None:
            return await self._exchange_by_halves(
                request, delimiter, length, silence, timeout, max_bytes, refuse_strays
            )
        pending = reader.exchange(
            request, delimiter, length, silence, timeout, max_bytes, refuse_strays
        )
        if pending is None:  # the port has moved to another loop
            self._waiting_room()
            return await self._exchange_by_halves(
                request, delimiter, length, silence, timeout, max_bytes, refuse_strays
            )
        self._receiving = self._sending = True
        resets = self._resets
        try:
            part = await pending
        except BaseException as exc:
            self._end_native(exc, resets)
        finally:
            self._receiving = self._sending = False
        return None if part is None else ExchangePart._make(part)

    async def _exchange_by_halves(
        self,
        request: bytes,
        delimiter: bytes,
        length: int,
        silence: float,
        timeout: float,
        max_bytes: int,
        refuse_strays: bool,
    ) -> ExchangePart | None:
        if refuse_strays and self.input_waiting():
            return None
        taken = 0
        if request:
            if self._switched_by is not None:
                await self.send(request)
                taken = len(request)
            else:
                taken = self.send_nowait(request)
                if taken < len(request):
                    return ExchangePart(b"", -1, taken, monotonic_ns(), 0, 0)
                self.expect_answer()
        sent_ns = monotonic_ns()
        until = anyio.current_time() + timeout
        got = bytearray()
        first = last = 0
        end = -1
        most = length or max_bytes
        deadline = until
        resets = self._resets
        try:
            while end < 0 and len(got) < most:
                chunk = await self.receive_by(deadline, most - len(got))
                if not chunk:
                    break
                last = monotonic_ns()
                first = first or last
                if resets != self._resets:
                    got.clear()
                    first, resets = last, self._resets
                searched = max(0, len(got) - len(delimiter) + 1)
                got += chunk
                if delimiter:
                    found = got.find(delimiter, searched)
                    end = found + len(delimiter) if found >= 0 else -1
                elif length:
                    end = length if len(got) >= length else -1
                elif silence:
                    deadline = min(anyio.current_time() + silence, until)
                else:
                    end = len(got)
        except BaseException:
            if resets == self._resets:
                self._give_back(bytes(got))
            raise
        if silence and got and end < 0 and len(got) < most and deadline < until:
            end = len(got)
        return ExchangePart(bytes(got), end, taken, sent_ns, first, last)


def _check_seconds(name: str, value: object) -> None:
    if not isinstance(value, int | float) or not 0 < cast(float, value) < math.inf:
        raise ValueError(f"{name} must be a number of seconds above 0, not {value!r}")
