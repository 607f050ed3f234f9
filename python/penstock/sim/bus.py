"""A line with instruments on it: framing, addressing, pacing, faults. No input or output.

The bus is fed the host's bytes together with the time at which they came, and tells which bytes
have arrived back by a given time and when it has something to do next. Every byte's instant is
computed from the request's instant, so a transport that wakes late delivers late bytes at once
and the schedule does not drift.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Final

from penstock.sim.faults import FaultPlan
from penstock.sim.mass_flow_controller import STREAMING_ID, MassFlowController

__all__ = ["Bus"]

#: What an instrument's input buffer holds of one request.
_REQUEST_LIMIT: Final = 256
#: Answers that may wait for the line before the bus asks the transport to stop reading.
_BACKLOG_LIMIT: Final = 64 * 1024
_BITS_PER_BYTE: Final = 10
#: Pause between frames of a stream without interval on a line without pace.
_FASTEST_STREAM: Final = 0.001


class Bus:
    """Instruments that share one half-duplex line; each answers to its own unit id only.

    With a `baudrate` every byte takes ten bits of line time, the host's request included; with
    None bytes take no time. `turnaround` is the seconds between the end of a request and the
    begin of its answer. `chunk_time` is about how often the bytes of an answer are handed over
    while it is on the line, the last ones exactly at its end; the latency timer of a USB adapter
    does the same.

    Bytes that arrive while an answer is on the line wait until it has ended. Two units with one
    id answer together and spoil each other's bits, which needs `allow_duplicate_ids`.

    Not thread-safe. Raises ValueError for no units, duplicate ids, and values out of range.
    """

    def __init__(
        self,
        units: Sequence[MassFlowController],
        *,
        baudrate: int | None = 19200,
        turnaround: float = 0.002,
        chunk_time: float = 0.008,
        faults: FaultPlan | None = None,
        clock: Callable[[], float] = time.monotonic,
        allow_duplicate_ids: bool = False,
    ) -> None:
        if not units:
            raise ValueError("a bus needs at least one unit")
        ids = [unit.unit_id for unit in units]
        if len(set(ids)) < len(ids) and not allow_duplicate_ids:
            raise ValueError(f"unit ids {', '.join(ids)} are not all different")
        if baudrate is not None and baudrate <= 0:
            raise ValueError(f"baud rate {baudrate} is not positive")
        if not turnaround >= 0.0 or not chunk_time > 0.0:
            raise ValueError("turnaround must not be negative, chunk time must be positive")
        self.units = tuple(units)
        self.baudrate = baudrate
        self.turnaround = turnaround
        self.faults = faults if faults is not None else FaultPlan()
        # Picking faults costs as much as a reply, so a sound line does without.
        self._faulty = faults is not None
        self.clock = clock
        #: Answers given so far, dropped ones included.
        self.replies = 0
        self._chunk_time = chunk_time
        self._request = bytearray()
        self._request_end = 0.0
        self._line_free = 0.0
        self._queue: deque[tuple[float, bytes]] = deque()
        self._backlog = 0
        self._streams: dict[MassFlowController, float] = {}
        now = clock()
        for unit in self.units:
            if unit.clock is None:
                unit.clock = clock
            if unit.unit_id in self.faults.streaming:
                unit.answer(STREAMING_ID + " " + STREAMING_ID, now)
                self._streams[unit] = now

    @property
    def congested(self) -> bool:
        """True while so many bytes wait for the line that the transport should not read more."""
        return self._backlog >= _BACKLOG_LIMIT

    def feed(self, data: bytes, now: float | None = None) -> None:
        """Take bytes that the host wrote at `now`; any bytes at all."""
        self._request_end = max(self._request_end, self.clock() if now is None else now)
        *complete, rest = data.split(b"\r")
        for piece in complete:
            self._collect(piece)
            self._request_end += self._line_time(1)
            request = bytes(self._request)
            self._request.clear()
            self._serve(request, self._request_end)
        self._collect(rest)

    def take_due(self, now: float | None = None) -> bytes:
        """The bytes that have reached the host by `now` and were not taken before."""
        if now is None:
            now = self.clock()
        if self._streams:
            self._stream_until(now)
        queue = self._queue
        if not queue or queue[0][0] > now:
            return b""
        due = []
        while queue and queue[0][0] <= now:
            due.append(queue.popleft()[1])
        data = b"".join(due)
        self._backlog -= len(data)
        return data

    def next_deadline(self) -> float | None:
        """When `take_due` will have something, on the bus's clock; None if nothing is coming."""
        deadlines = [self._queue[0][0]] if self._queue else []
        deadlines += self._streams.values()
        return min(deadlines, default=None)

    def disconnect(self) -> None:
        """Lose what is on the line, as when the cable is pulled; the units stay as they are."""
        self._request.clear()
        self._queue.clear()
        self._backlog = 0
        self._line_free = self._request_end = 0.0

    # -----------------------------------------------------------------------------------------

    def _line_time(self, count: int) -> float:
        return count * _BITS_PER_BYTE / self.baudrate if self.baudrate else 0.0

    def _collect(self, piece: bytes) -> None:
        self._request_end += self._line_time(len(piece))
        # One byte more than the limit is kept as the mark of a request that is too long.
        room = _REQUEST_LIMIT + 1 - len(self._request)
        self._request += piece[: max(0, room)]

    def _serve(self, request: bytes, at: float) -> None:
        text = request.decode("latin-1").strip("\n\0 ")
        if not text:
            return
        if self._streams:
            self._stream_until(at)
        at = max(at, self._line_free)
        address = text[0].upper()
        command = text[1:] if len(request) <= _REQUEST_LIMIT else "?overflow"
        answers = []
        for unit in self.units:
            if unit.listens_to(address):
                lines = unit.answer(command, at)
                answers.append("".join(f"{line}\r" for line in lines).encode("latin-1", "replace"))
                self._follow_streaming(unit, at)
        reply = _on_one_line([answer for answer in answers if answer])
        if not reply:
            return
        self.replies += 1
        delay = 0.0
        if self._faulty:
            reply, delay = self.faults.apply(self.replies, reply)
        if reply:
            self._transmit(reply, at + self.turnaround + delay)

    def _follow_streaming(self, unit: MassFlowController, at: float) -> None:
        if not unit.streaming:
            self._streams.pop(unit, None)
        elif unit not in self._streams:
            self._streams[unit] = at + self.turnaround

    def _stream_until(self, now: float) -> None:
        for unit, planned in self._streams.items():
            interval = max(unit.stream_interval_ms / 1000.0, _FASTEST_STREAM)
            if now - planned > 1.0 and self._backlog == 0:
                # Nobody has looked for a while; what was sent then is lost.
                planned += interval * int((now - planned) / interval)
            while planned <= now:
                begin = max(planned, self._line_free)
                if not self.congested:
                    self._transmit(f"{unit.stream_frame(begin)}\r".encode("latin-1"), begin)
                planned += interval
            self._streams[unit] = planned

    def _transmit(self, reply: bytes, begin: float) -> None:
        begin = max(begin, self._line_free)
        duration = self._line_time(len(reply))
        chunks = max(1, round(duration / self._chunk_time))
        sent = 0
        for chunk in range(1, chunks + 1):
            end = len(reply) * chunk // chunks
            if end > sent:
                self._queue.append((begin + self._line_time(end), reply[sent:end]))
                sent = end
        self._line_free = begin + duration
        self._backlog += len(reply)


def _on_one_line(answers: list[bytes]) -> bytes:
    """One answer as it is; several at once as the line carries them, where a zero bit wins."""
    if len(answers) < 2:
        return b"".join(answers)
    mixed = bytearray()
    for together in zip_longest(*answers, fillvalue=0xFF):
        byte = 0xFF
        for one in together:
            byte &= one
        mixed.append(byte)
    return bytes(mixed)
