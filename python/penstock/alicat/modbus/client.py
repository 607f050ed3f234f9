"""The client of a Modbus line or server, one request in flight.

Modbus RTU does not number requests: a reply names its unit and function, but not the request that
it answers. A late reply could be taken for the reply to the next request of the same form. So a
unit that owes a reply gets its next request only when ``late_reply_window`` has passed since its
last one, and bytes that arrive before are discarded. Other units can be queried meanwhile, because
a late reply carries the number of its unit. Modbus TCP numbers its requests, so late replies are
recognised and skipped.

*Rejected:* discarding the input before each request (the late reply comes after that).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic, monotonic_ns, time_ns

from penstock.alicat._bus.line_client import LineClient
from penstock.alicat._bus.replies import Exchange
from penstock.alicat._bus.waiting import ANYIO, Waiting
from penstock.alicat._bus.wire import LOST, Wire, check_seconds
from penstock.alicat.errors import (
    AlicatConnectionError,
    AlicatError,
    AlicatParseError,
    AlicatProtocolError,
    AlicatTimeoutError,
    AlicatValidationError,
    ErrorContext,
)
from penstock.alicat.modbus.protocol import (
    Framing,
    ModbusExceptionError,
    Request,
    silence_between_frames,
)
from penstock.alicat.transport import Transport, is_raw_tcp

__all__ = ["ModbusClient"]

_LAST_UNIT = 247
#: Frames on the line behind a serial server are kept apart as at this rate; its own is unknown.
_SERVERS_RATE = 9600


class ModbusClient(LineClient):
    """Executes requests on the units of one connection.

    Several devices may share a client; their requests queue. Use it from one event loop only; not
    thread-safe. A cancelled request releases the line, and its reply is not taken for another one.

    Args:
        transport: The byte stream. The client closes it in :meth:`aclose`.
        framing: :class:`RtuFraming` or :class:`TcpFraming`, new and for this client alone.
        timeout: Seconds for a reply, from the sending of its request.
        late_reply_window: Seconds after which no reply to a request can still arrive, for framings
            that do not number requests. Default: twice ``timeout``, at least half a second.
        reconnect: Opens the line again after it was lost (see :meth:`reopen`). Without it, a lost
            line stays lost.
        waiting: The primitives that its coroutines wait with. Default: on the running event loop.
    """

    def __init__(
        self,
        transport: Transport,
        framing: Framing,
        *,
        timeout: float = 0.5,
        late_reply_window: float | None = None,
        reconnect: Callable[[], Awaitable[Transport]] | None = None,
        waiting: Waiting = ANYIO,
    ) -> None:
        super().__init__(reconnect, waiting)
        check_seconds(timeout)
        self._framing = framing
        self._timeout = timeout
        self._window = late_reply_window or max(0.5, 2 * timeout)
        self._use(transport)

    def _use(self, transport: Transport) -> None:
        self._wire = Wire(
            transport,
            self._waiting,
            self._counts,
            idle_timeout=None,
            reopens=self._reconnect is not None,
        )
        self._framing.clear()
        self._owed: dict[int, float] = {}
        self._silence = (
            0.0
            if self._framing.numbers_requests
            else silence_between_frames(
                _SERVERS_RATE if is_raw_tcp(transport.label) else transport.baudrate
            )
        )

    @property
    def baudrate(self) -> int | None:
        """Bits a second on the line, or ``None`` where that says nothing."""
        return self._wire.transport.baudrate

    async def execute(
        self,
        unit: int,
        request: Request,
        *,
        timeout: float | None = None,
        poll: bool = False,
        generation: int | None = None,
    ) -> Exchange[tuple[int, ...]]:
        """Send a request to a unit and return the registers of its reply, with its times.

        Nothing is sent twice. After a timeout it is unknown whether a write was executed.

        Args:
            unit: The unit's number, 1 to 247.
            request: What to ask.
            timeout: Seconds from the end of sending to the end of the reply.
            poll: The request is a poll: waiting commands go first.
            generation: The :attr:`generation` on which the instrument has proven itself. If the
                line was opened again since, nothing is sent.

        Raises:
            AlicatValidationError: ``unit`` is out of range; nothing was sent.
            AlicatTimeoutError: no reply in time.
            ModbusExceptionError: the unit, or a gateway, refuses the request.
            AlicatParseError: the reply is damaged, or is that to another request.
            AlicatConnectionError: the port is lost or closed.
        """
        if not 1 <= unit <= _LAST_UNIT:
            raise AlicatValidationError(
                f"{unit!r} is not a Modbus unit number: it is 1 to {_LAST_UNIT}"
            )
        pdu = request.encode()
        if not self._scheduler.try_acquire(unit, poll=poll):
            await self._scheduler.acquire(unit, poll=poll)
        try:
            # A task that is already cancelled must not move a valve: the sending below would not
            # notice the cancellation.
            await self._waiting.checkpoint_if_cancelled()
            if not self._wire.usable:
                raise self._wire.lost(None)
            if generation not in (None, self._generation):
                raise AlicatConnectionError(
                    f"the line {self.label} was reopened meanwhile; nothing was sent to unit "
                    f"{unit}",
                    context=ErrorContext(port=self.label, unit_id=str(unit)),
                )
            try:
                await self._settle(unit)
                return await self._transact(
                    unit, request, pdu, self._timeout if timeout is None else timeout
                )
            except AlicatError:
                raise
            except LOST as error:
                raise self._wire.lost(error) from error
        finally:
            self._scheduler.release()

    async def _settle(self, unit: int) -> None:
        """Make sure that no reply to an older request of this unit can still arrive."""
        if self._framing.numbers_requests:
            return
        wire = self._wire
        asked = self._owed.get(unit)
        if asked is not None:
            self._counts.resyncs += 1
            while (remaining := asked + self._window - monotonic()) > 0:
                if await wire.receive_within(remaining):
                    wire.last_byte_at = monotonic()
                    self._counts.discarded += 1
        if self._framing.clear() or asked is not None or wire.has_strays():
            await wire.drain()
        pause = wire.last_byte_at + self._silence - monotonic()
        if pause > 0:
            await self._waiting.sleep(pause)

    async def _transact(
        self, unit: int, request: Request, pdu: bytes, timeout: float
    ) -> Exchange[tuple[int, ...]]:
        wire, framing, counts = self._wire, self._framing, self._counts
        frame = framing.frame(unit, pdu)
        self._owed[unit] = monotonic()
        requested_unix_ns = time_ns()
        requested_ns = monotonic_ns()
        try:
            data, ends_at = await wire.ask(frame, b"", timeout)
            if data:
                framing.feed(data)
            while True:
                while (reply := framing.next_reply()) is None:
                    chunk = await wire.receive_within(ends_at - monotonic())
                    if not chunk:
                        break
                    framing.feed(chunk)
                    # A line that is never silent must not keep this waiting.
                    if monotonic() >= ends_at:
                        reply = framing.next_reply()
                        break
                if reply is None:
                    break  # too late
                received_ns = monotonic_ns()
                received_unix_ns = time_ns()
                wire.last_byte_at = monotonic()
                if reply.unit != unit:
                    counts.discarded += 1
                    if monotonic() >= ends_at:
                        break
                    continue
                try:
                    values = request.decode(reply.pdu)
                except ModbusExceptionError:
                    del self._owed[unit]
                    raise
                del self._owed[unit]
                counts.exchanges += 1
                return Exchange(
                    values, requested_ns, requested_unix_ns, received_ns, received_unix_ns
                )
        except AlicatProtocolError as error:
            counts.malformed += 1
            wire.last_byte_at = monotonic()
            error.context = error.context.merged(
                command_bytes=frame, unit_id=str(unit), port=self.label
            )
            if (
                framing.numbers_requests
                and isinstance(error, AlicatParseError)
                and error.field_name == "frame"
            ):
                # On a stream without silences, the start of the next frame is unknown.
                raise wire.lost(error) from error
            raise
        counts.timeouts += 1
        raise AlicatTimeoutError(
            f"unit {unit} on {self.label} did not answer within {timeout:g} s"
            f"{wire.at_baudrate()}: check that it is powered and connected, that it is set to "
            f"Modbus, and that its {wire.its_address('unit number')}",
            context=ErrorContext(
                command_bytes=frame,
                unit_id=str(unit),
                port=self.label,
                baudrate=wire.transport.baudrate,
                elapsed_s=(monotonic_ns() - requested_ns) / 1e9,
            ),
        )
