"""A question and its answer as one call: checked, sent, awaited, cut and stamped.

On Penstock's loop, a port that is a plain descriptor does this in the extension: one awaitable,
whose deadline is a timer of the loop. On asyncio's other loops the callback of a lasting
registration collects the answer, and the task waits once. Elsewhere it is put together from
receives.
"""

from __future__ import annotations

import errno
import math
from dataclasses import dataclass
from time import monotonic_ns
from typing import NamedTuple, cast

import anyio

from penstock._lasting_timer import LastingTimer
from penstock.serial._port.readiness import Readiness
from penstock.serial._port.receive import LARGEST_READ, READ_AT_ONCE, ReceiveHalf, byte_count
from penstock.serial._port.send import SendHalf, as_bytes
from penstock.serial.exceptions import SerialTimeoutError, UnreadInputError


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
    """What an exchange received before its end or its deadline; see ``exchange_part``.

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
            max_bytes: The largest answer that a delimiter or a silence ends.

        Raises:
            UnreadInputError: Unread bytes are waiting; nothing was sent.
            SerialTimeoutError: The answer did not end in time.
            anyio.DelimiterNotFound: ``max_bytes`` have arrived, and the answer goes on.
            SerialDisconnectedError: The device has gone away.
            SerialClosedError: The port is closed, even during the wait.
            anyio.BusyResourceError: Another task sends or receives.

        After an error or a cancellation the next receive gets every byte that has arrived. A
        cancellation before the first wait sends nothing, and a later one takes nothing back.
        """
        if (delimiter != b"") + (length != 0) + (silence != 0) != 1:
            raise ValueError(
                "give exactly one of delimiter, length and silence, not "
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
                f"{self.path}: {self.input_waiting()} unread bytes are waiting; receive them, or "
                "discard them with reset_input_buffer(), before the next exchange",
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
            SerialClosedError: The port is closed, even during the wait.
            anyio.BusyResourceError: Another task sends or receives.

        After a cancellation the next receive gets every byte that has arrived.
        """
        if self._receiving or self._sending:
            raise anyio.BusyResourceError("receiving from" if self._receiving else "sending to")
        if self._closed or self._gone:
            self._check_usable()  # raises
        in_pieces = self._kept or self._marking or self._switched_by is not None
        readiness: Readiness | None = None
        if not in_pieces:
            if self._reader is None:
                readiness = self._waiting_room()
            while (reader := self._reader) is not None:
                pending = reader.exchange(
                    request, delimiter, length, silence, timeout, max_bytes, refuse_strays
                )
                if pending is None:  # the port has moved to another loop
                    readiness = self._waiting_room()
                    continue
                self._receiving = self._sending = True
                resets = self._resets
                try:
                    part = await pending
                except BaseException as exc:
                    self._end_native(exc, resets)
                finally:
                    self._receiving = self._sending = False
                # Not ExchangePart(...): the constructor of a named tuple is a Python function.
                return None if part is None else tuple.__new__(ExchangePart, part)
        if refuse_strays and self.input_waiting():
            return None
        taken = self.send_nowait(request) if request else 0
        sent_ns = monotonic_ns()
        if taken < len(request):
            return ExchangePart(b"", -1, taken, sent_ns, 0, 0)
        timer = readiness.deadline if readiness is not None else None
        if timer is None or readiness is None or not self._device.is_plain_descriptor:
            answer = _Answer(delimiter, length, silence, max_bytes)
            await self._receive_answer(answer, anyio.current_time() + timeout)
        else:
            answer = _AnswerOfDescriptor(self, delimiter, length, silence, max_bytes, timer)
            until = timer.loop.time() + timeout
            await self._wait_for_answer(readiness, answer, until, bool(request))
        return ExchangePart(answer.got, answer.end, taken, sent_ns, answer.first, answer.last)

    async def _wait_for_answer(
        self, readiness: Readiness, answer: _AnswerOfDescriptor, until: float, answer_is_due: bool
    ) -> None:
        """Let the loop's callback collect the answer, in one wait for all its pieces."""
        self._receiving = self._sending = True
        timer = answer.timer
        answer.until = until
        timer.set(until)
        try:
            if not answer_is_due and answer.has_come():
                await self._yield()
            elif answer_is_due or timer.loop.time() < until:
                await readiness.read(answer, _keep_nothing)
                if self._resets == answer.resets:
                    answer.fall_silent(timer.loop.time() < until)
                else:
                    answer.forget()
        except BaseException as exc:
            if self._resets == answer.resets:
                self._give_back(answer.got)
            if isinstance(exc, anyio.ClosedResourceError):
                self._fail_closed(exc)
            if isinstance(exc, OSError):
                self._fail(exc)
            raise
        finally:
            timer.off()
            self._receiving = self._sending = False

    async def _receive_answer(self, answer: _Answer, until: float) -> None:
        """Put the answer together from receives, where there is no callback to collect it."""
        self.expect_answer()
        deadline = until
        resets = self._resets
        try:
            while answer.goes_on():
                chunk = await self.receive_by(deadline, answer.missing())
                if not chunk:
                    answer.fall_silent(deadline < until)
                    break
                if resets != self._resets:
                    answer.forget()
                    resets = self._resets
                answer.take(chunk)
                if answer.silence:
                    deadline = min(anyio.current_time() + answer.silence, until)
        except BaseException:
            if resets == self._resets:
                self._give_back(answer.got)
            raise


class _Answer:
    """What has come of an answer, and where it ends."""

    __slots__ = ("delimiter", "end", "first", "got", "last", "length", "most", "silence")

    def __init__(self, delimiter: bytes, length: int, silence: float, max_bytes: int) -> None:
        self.delimiter = delimiter
        self.length = length
        self.silence = 0.0 if delimiter or length else silence
        self.most = length or max_bytes
        self.forget()

    def forget(self) -> None:
        """Begin anew: the input was discarded."""
        self.got = b""
        self.end = -1
        self.first = self.last = 0

    def goes_on(self) -> bool:
        """Return whether more is to be received."""
        return self.end < 0 and len(self.got) < self.most

    def missing(self) -> int:
        """Return how many bytes may still come."""
        return self.most - len(self.got)

    def take(self, chunk: bytes) -> None:
        """Add received bytes."""
        self.last = monotonic_ns()
        self.first = self.first or self.last
        before = len(self.got)
        self.got = got = self.got + chunk if before else chunk
        if self.delimiter:
            found = got.find(self.delimiter, max(0, before - len(self.delimiter) + 1))
            self.end = found + len(self.delimiter) if found >= 0 else -1
        elif self.length:
            self.end = self.length if len(got) >= self.length else -1
        elif not self.silence:
            self.end = len(got)

    def fall_silent(self, before_the_deadline: bool) -> None:
        """Note that nothing more has come, before the deadline of the whole answer or at it."""
        if self.silence and self.got and before_the_deadline and self.goes_on():
            self.end = len(self.got)


class _AnswerOfDescriptor(_Answer):
    """An answer that the loop's callback reads from a descriptor, until it has all of it."""

    __slots__ = ("port", "resets", "timer", "until")

    def __init__(
        self,
        port: ExchangeOperations,
        delimiter: bytes,
        length: int,
        silence: float,
        max_bytes: int,
        timer: LastingTimer,
    ) -> None:
        super().__init__(delimiter, length, silence, max_bytes)
        self.port = port
        self.resets = port._resets
        self.timer = timer
        self.until = math.inf

    def __call__(self) -> bool:
        """Read, and return True once the answer is there; else raise BlockingIOError."""
        port = self.port
        if self.resets != port._resets:
            self.resets = port._resets
            self.forget()
        chunk = port._read(min(self.missing(), READ_AT_ONCE))
        if not chunk:
            port._fail_disconnected()
        self.take(chunk)
        if self.goes_on():
            if self.silence:
                self.timer.set(min(self.timer.loop.time() + self.silence, self.until))
            raise BlockingIOError
        return True

    def has_come(self) -> bool:
        """Return whether the answer is there already."""
        try:
            return self()
        except BlockingIOError:
            return False


def _keep_nothing(result: object) -> None:
    """Do nothing: what has come is in the answer, not in the result of its last reading."""


def _check_seconds(name: str, value: object) -> None:
    if not isinstance(value, int | float) or not 0 < cast(float, value) < math.inf:
        raise ValueError(f"{name} must be a number of seconds above 0, not {value!r}")
