"""A line with instruments on it: addressing, pacing, faults. No I/O.

A framing cuts the bytes into requests; the units interpret them.

The bus receives the host's bytes with the time of their arrival. It returns the bytes that have
reached the host by a given time, and the time at which the next ones are due. The time of every
byte is computed from the time of the request, so a transport that wakes late delivers late bytes at
once, and the schedule does not drift.

A bus may have several ports, a pseudo-terminal and a network port, as a tapped RS-485 line. Every
port receives all answers, including those to another port's questions.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from penstock.sim._line.faults import BusFaults, FaultLog, overlay
from penstock.sim._line.framing import Framing, LineFraming, Request

#: Answers that may wait for the line before the bus asks the transport to stop reading.
_BACKLOG_LIMIT: Final = 64 * 1024
_BITS_PER_BYTE: Final = 10
#: Pause between frames of a stream without interval on a line without pace.
_FASTEST_STREAM: Final = 0.001


class Station(Protocol):
    """The interface of a unit on a bus: an address, and messages that answer requests."""

    unit_id: str
    stream_interval_ms: int
    wanted_baudrate: int | None

    @property
    def clock(self) -> Callable[[], float] | None:
        """The clock of the unit, in seconds; a bus gives its own clock to a unit without one."""
        ...

    @clock.setter
    def clock(self, clock: Callable[[], float] | None) -> None: ...

    @property
    def streaming(self) -> bool:
        """Whether the unit sends frames by itself."""
        ...

    def listens_to(self, address: str) -> bool:
        """Whether a request with this address is for the unit."""
        ...

    def respond(self, body: bytes, at: float) -> list[bytes]:
        """Return the answer to a request that ended at ``at``; no messages mean silence."""
        ...

    def stream_frame(self, at: float) -> str:
        """The next frame of a streaming unit."""
        ...

    def start_streaming(self, at: float) -> None:
        """Start to stream, as an instrument that was left streaming."""
        ...

    def reboot(self, at: float, seconds: float) -> None:
        """Lose power at ``at``, and send nothing for ``seconds``."""
        ...

    def change_unit_at_panel(self) -> str:
        """Show the process value in the next unit; returns that unit's label, or nothing."""
        ...


class Bus:
    """Instruments that share one half-duplex line; each answers to its own unit id only.

    With a ``baudrate`` every byte takes ten bits of line time, the host's request included; with
    None bytes take no time. ``turnaround`` is the seconds between the end of a request and the
    start of its answer. ``chunk_time`` is the approximate interval at which the bytes of an answer
    are delivered while it is on the line, the last ones exactly at its end, as by the latency timer
    of a USB adapter.

    Bytes that arrive while an answer is on the line wait until it has ended. Two units with the
    same id answer at the same time and corrupt each other's bits, which needs
    ``allow_duplicate_ids``. ``framing`` cuts bytes into requests; None is :class:`LineFraming`.
    ``fault_log`` has the faults that happened.

    Not thread-safe. Raises ValueError for no units, duplicate ids, and values out of range.
    """

    def __init__(
        self,
        units: Sequence[Station],
        *,
        baudrate: int | None = 19200,
        turnaround: float = 0.002,
        chunk_time: float = 0.008,
        faults: BusFaults | None = None,
        clock: Callable[[], float] = time.monotonic,
        allow_duplicate_ids: bool = False,
        framing: Framing | None = None,
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
        self.units: tuple[Station, ...] = tuple(units)
        self.baudrate = baudrate
        self.turnaround = turnaround
        self.faults: BusFaults = faults if faults is not None else BusFaults()
        # Choosing faults costs as much as a reply, so a line without faults skips it.
        self._faulty = faults is not None
        self.clock = clock
        #: Answers given so far, dropped ones included.
        self.replies: int = 0
        self._chunk_time = chunk_time
        self.fault_log: FaultLog = FaultLog()
        self._framing: Framing = framing or LineFraming()
        self._request_end = 0.0
        self._line_free = 0.0
        self._queue: deque[tuple[float, bytes]] = deque()
        self._backlog = 0
        self._streams: dict[Station, float] = {}
        self._opened: float | None = None
        now = clock()
        for unit in self.units:
            if unit.clock is None:
                unit.clock = clock
            if unit.unit_id in self.faults.streaming:
                unit.start_streaming(now)
                self._streams[unit] = now
                self.fault_log.add(now, "streaming", unit.unit_id)

    @property
    def congested(self) -> bool:
        """Whether so many bytes wait for the line that the transport should not read more."""
        return self._backlog >= _BACKLOG_LIMIT

    def line_opened(self) -> float:
        """The time of the first call, at which the plan of unplugging begins."""
        if self._opened is None:
            self._opened = self.clock()
        return self._opened

    def feed(self, data: bytes, now: float | None = None) -> None:
        """Take bytes that the host wrote at ``now``; any bytes at all."""
        begin = max(self._request_end, self.clock() if now is None else now)
        for request in self._framing.feed(data, begin):
            self._serve(request, begin + self._line_time(request.end))
        self._request_end = begin + self._line_time(len(data))

    def take_due(self, now: float | None = None) -> bytes:
        """The bytes that have reached the host by ``now`` and were not taken before."""
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
        """When ``take_due`` will have something, on the bus's clock; None if nothing is coming."""
        deadlines = [self._queue[0][0]] if self._queue else []
        deadlines += self._streams.values()
        return min(deadlines, default=None)

    def disconnect(self) -> None:
        """Drop the bytes on the line, as when the cable is pulled. The units do not change."""
        self._framing.reset()
        self._queue.clear()
        self._backlog = 0
        self._line_free = self._request_end = 0.0

    # -----------------------------------------------------------------------------------------

    def _line_time(self, count: int) -> float:
        return count * _BITS_PER_BYTE / self.baudrate if self.baudrate else 0.0

    def _serve(self, request: Request, at: float) -> None:
        if self._streams:
            self._stream_until(at)
        at = max(at, self._line_free)
        listeners = [unit for unit in self.units if unit.listens_to(request.address)]
        answers = []
        for unit in listeners:
            answers.append(self._framing.encode(request, unit.respond(request.body, at)))
            self._follow_streaming(unit, at)
        reply = overlay([answer for answer in answers if answer])
        if not reply:
            return
        self.replies += 1
        delay = 0.0
        if self._faulty:
            reply, delay = self._spoil(reply, listeners[0], at)
        if reply:
            self._transmit(reply, at + self.turnaround + delay)
        for unit in listeners:
            if unit.wanted_baudrate is not None:
                if self.baudrate is not None:
                    self.baudrate = unit.wanted_baudrate
                unit.wanted_baudrate = None

    def _spoil(self, reply: bytes, unit: Station, at: float) -> tuple[bytes, float]:
        """Apply the faults to a reply, and afterwards to its unit."""
        fate = self.faults.fate_of(self.replies)
        log = self.fault_log
        spoiled, delay = self.faults.apply(fate, reply, log, at, self.replies, unit.unit_id)
        if fate.reboot:
            unit.reboot(at, self.faults.reboot_time)
            self._streams.pop(unit, None)
            log.add(at, "reboot", unit.unit_id, reply=self.replies)
        if fate.panel_unit and (label := unit.change_unit_at_panel()):
            log.add(at, "panel-unit", unit.unit_id, reply=self.replies, detail=label)
        return spoiled, delay

    def _follow_streaming(self, unit: Station, at: float) -> None:
        if not unit.streaming:
            self._streams.pop(unit, None)
        elif unit not in self._streams:
            self._streams[unit] = at + self.turnaround

    def _stream_until(self, now: float) -> None:
        for unit, planned in self._streams.items():
            interval = max(unit.stream_interval_ms / 1000.0, _FASTEST_STREAM)
            if now - planned > 1.0 and self._backlog == 0:
                # The bus was not polled for a while; frames of that time are lost.
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


#: The number of bytes that a port keeps for a client that does not read; more are lost.
_PORT_BACKLOG_LIMIT: Final = 64 * 1024


class SharedLine:
    """Creates the taps of one bus. Not thread-safe."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self._taps: list[BusTap] = []

    def tap(self) -> BusTap:
        """Attach one more port; ``BusTap.detach`` takes it off."""
        tap = BusTap(self)
        self._taps.append(tap)
        return tap

    def detach(self, tap: BusTap) -> None:
        """Detach a port. Does nothing if it is detached."""
        if tap in self._taps:
            self._taps.remove(tap)

    def distribute(self, now: float) -> None:
        """Give what has arrived by ``now`` to every port."""
        data = self.bus.take_due(now)
        if data:
            for tap in tuple(self._taps):
                tap.deliver(data)

    def wake_all(self) -> None:
        """Tell every port that the line's next deadline may have changed."""
        for tap in tuple(self._taps):
            if tap.wake is not None:
                tap.wake()


class BusTap:
    """One port's view of a bus: the part of ``Bus`` that a transport uses."""

    def __init__(self, line: SharedLine) -> None:
        self._line = line
        self._arrived = bytearray()
        #: Called when bytes have come for this port, or may come earlier than it thinks.
        self.wake: Callable[[], None] | None = None

    @property
    def baudrate(self) -> int | None:
        """As of the bus."""
        return self._line.bus.baudrate

    @property
    def faults(self) -> BusFaults:
        """As of the bus."""
        return self._line.bus.faults

    @property
    def fault_log(self) -> FaultLog:
        """As of the bus."""
        return self._line.bus.fault_log

    @property
    def congested(self) -> bool:
        """As of the bus."""
        return self._line.bus.congested

    def clock(self) -> float:
        """As of the bus."""
        return self._line.bus.clock()

    def line_opened(self) -> float:
        """As of the bus."""
        return self._line.bus.line_opened()

    def feed(self, data: bytes, now: float | None = None) -> None:
        """As of the bus."""
        self._line.bus.feed(data, now)
        self._line.wake_all()

    def take_due(self, now: float | None = None) -> bytes:
        """As of the bus; the other ports get the same bytes."""
        self._line.distribute(self.clock() if now is None else now)
        data = bytes(self._arrived)
        self._arrived.clear()
        return data

    def next_deadline(self) -> float | None:
        """As of the bus."""
        return self.clock() if self._arrived else self._line.bus.next_deadline()

    def deliver(self, data: bytes) -> None:
        """Take bytes for this port."""
        self._arrived += data[: max(0, _PORT_BACKLOG_LIMIT - len(self._arrived))]
        if self.wake is not None:
            self.wake()

    def disconnect(self) -> None:
        """Lose what waits for this port; the line goes on."""
        self._arrived.clear()

    def detach(self) -> None:
        """Take the port off the line. Idempotent."""
        self._line.detach(self)
