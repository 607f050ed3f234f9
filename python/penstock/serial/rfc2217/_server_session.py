"""One client of the RFC 2217 server: its bytes to the port, its commands, and back."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator

import anyio
from anyio.abc import ByteStream, SocketAttribute

from penstock.serial._devices.tcp import is_unreachable
from penstock.serial._port.port import SerialPort
from penstock.serial._rfc2217_protocol import (
    ANSWER,
    BAUDRATE,
    Command,
    Control,
    Event,
    LineState,
    ModemState,
    Negotiation,
    Negotiator,
    Option,
    PortCommand,
    Purge,
    Subnegotiation,
    TelnetDecoder,
    byte_size_code,
    escape,
    flow_code,
    flow_of,
    parity_code,
    parity_of,
    stop_bits_code,
    stop_bits_of,
    subnegotiation,
)
from penstock.serial._values import CommEvent, ControlLines, ErrorCounters, ModemLines
from penstock.serial.config import ByteSize, SerialConfig
from penstock.serial.exceptions import (
    SerialDisconnectedError,
    SerialError,
    UnsupportedFeatureError,
)
from penstock.serial.rfc2217._connections import has_left

_SIGNATURE = b"penstock.serial"
_CHUNK = 65_536
_SUSPEND_AT = 65_536  # bytes that the port has not taken: ask the client to suspend
_RESUME_AT = 16_384
# Beyond this, TCP stops a client that ignores the suspension, but then its commands are not read
# either. So this is more than a client that obeys may have on its way: its send buffer, by Linux's
# default at most 4 MiB, and our receive buffer.
_STOP_READING_AT = 8 << 20
# A setting waits for the bytes sent before it, but not forever if the device has stopped them.
_LONGEST_HOLD_S = 1.0
_POLL_INTERVAL_S = 0.25
_CLIENT_CHECK_INTERVAL_S = 5.0
_LONGEST_LINGER_S = 30.0  # as long as the kernel waits for a closed tty (closing_wait)

_OPTIONS = frozenset({Option.BINARY, Option.SUPPRESS_GO_AHEAD, Option.COM_PORT})
_BREAK = {Control.BREAK_ON: True, Control.BREAK_OFF: False}
_DTR = {Control.DTR_ON: True, Control.DTR_OFF: False}
_RTS = {Control.RTS_ON: True, Control.RTS_OFF: False}


class ServerSession:
    """A connection that drives ``port``, from its first byte to its end."""

    def __init__(self, port: SerialPort, stream: ByteStream) -> None:
        self._port = port
        self._stream = stream
        self._decoder = TelnetDecoder()
        self._negotiator = Negotiator(_OPTIONS, _OPTIONS)
        self._sending = anyio.Lock()
        self._unwritten = bytearray()
        self._changed = anyio.Event()  # replaced at each change of the unwritten bytes
        self._write_scope: anyio.CancelScope | None = None
        self._for_client = b""  # bytes of the device while the client has suspended it
        self._may_send = anyio.Event()
        self._may_send.set()
        self._suspended_client = False
        self._breaking: anyio.CancelScope | None = None
        self._control = ControlLines(rts=True, dtr=True)
        self._lines: ModemLines | None = None
        self._lines_mask = 0xFF
        self._errors: ErrorCounters | None = None
        self._errors_mask = 0

    async def run(self) -> None:
        """Serve until the client leaves; then restore the port's settings and lines.

        Raises:
            SerialDisconnectedError: The device has gone away.
        """
        before = self._port.config
        lines_before = await self._read_control_lines()
        with contextlib.suppress(UnsupportedFeatureError):
            await self._port.reset_input_buffer()
        try:
            async with anyio.create_task_group() as self._tasks:
                self._tasks.start_soon(self._write_to_port)
                self._tasks.start_soon(self._read_from_port)
                self._tasks.start_soon(self._watch_lines)
                self._tasks.start_soon(self._watch_errors)
                self._tasks.start_soon(self._watch_connection)
                await self._read_from_network()
                # Its last bytes still go to the device, after the end of a break.
                await self._set_break(False)
                await self._until_written(_LONGEST_LINGER_S)
                self._tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            gone, rest = group.split(SerialDisconnectedError)
            if rest is not None:
                raise rest from None
            if gone is not None:
                raise _first(gone) from None
        finally:
            with anyio.CancelScope(shield=True):
                await self._restore(before, lines_before)

    async def _restore(self, config: SerialConfig, lines: ControlLines | None) -> None:
        with contextlib.suppress(SerialDisconnectedError):
            if self._port.is_open and self._port.config != config:
                await self._port.configure(config)
            if self._port.is_open and lines is not None:
                await self._port.set_control_lines(rts=lines.rts, dtr=lines.dtr)

    async def _read_control_lines(self) -> ControlLines | None:
        try:
            self._control = await self._port.control_lines()
        except UnsupportedFeatureError:
            return None
        return self._control

    # ---- from the network --------------------------------------------------------------------

    async def _read_from_network(self) -> None:
        await self._send(self._negotiator.start(frozenset(), frozenset({Option.BINARY})))
        while True:
            while len(self._unwritten) >= _STOP_READING_AT:
                await self._changed.wait()
            # Around this call alone: the device's SerialDisconnectedError is a BrokenResourceError.
            try:
                received = await self._stream.receive(_CHUNK)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return
            for event in list(self._decoder.feed(received)):
                await self._handle(event)
            if self._decoder.limit_exceeded:
                return

    async def _handle(self, event: Event) -> None:
        if isinstance(event, bytes):
            self._unwritten += event
            self._notify_change()
            if len(self._unwritten) >= _SUSPEND_AT and not self._suspended_client:
                self._suspended_client = True
                await self._answer(PortCommand.FLOWCONTROL_SUSPEND, b"")
        elif isinstance(event, Negotiation):
            await self._send(self._negotiator.receive(event))
            if event.option == Option.COM_PORT and self._negotiator.is_agreed(Option.COM_PORT):
                await self._report_lines(always=True)
        elif isinstance(event, Command):
            pass  # commands of telnet users, such as the break key, have no meaning here
        elif event.option == Option.COM_PORT and event.payload:
            await self._handle_command(event)

    async def _handle_command(self, event: Subnegotiation) -> None:
        code, value = event.payload[0], event.payload[1:]
        if code in (
            PortCommand.SET_BAUDRATE,
            PortCommand.SET_DATASIZE,
            PortCommand.SET_PARITY,
            PortCommand.SET_STOPSIZE,
            PortCommand.SET_CONTROL,
        ):
            await self._until_written(_LONGEST_HOLD_S)
        match code:
            case PortCommand.SIGNATURE if not value:
                await self._answer(code, _SIGNATURE)
            case PortCommand.SET_BAUDRATE if len(value) >= BAUDRATE.size:
                (rate,) = BAUDRATE.unpack(value[: BAUDRATE.size])
                if rate:
                    await self._configure(baudrate=rate)
                await self._answer(code, BAUDRATE.pack(self._port.config.baudrate))
            case PortCommand.SET_DATASIZE if value:
                if 5 <= value[0] <= 8:
                    await self._configure(byte_size=ByteSize(str(value[0])))
                await self._answer(code, bytes((byte_size_code(self._port.config),)))
            case PortCommand.SET_PARITY if value:
                parity = parity_of(value[0])
                if parity is not None:
                    await self._configure(parity=parity)
                await self._answer(code, bytes((parity_code(self._port.config),)))
            case PortCommand.SET_STOPSIZE if value:
                stop_bits = stop_bits_of(value[0])
                if stop_bits is not None:
                    await self._configure(stop_bits=stop_bits)
                await self._answer(code, bytes((stop_bits_code(self._port.config),)))
            case PortCommand.SET_CONTROL if value:
                await self._handle_control(value[0])
            case PortCommand.NOTIFY_MODEMSTATE:
                await self._report_lines(always=True)
            case PortCommand.NOTIFY_LINESTATE:
                await self._answer(code, bytes((await self._new_errors(),)))
            case PortCommand.FLOWCONTROL_SUSPEND:
                self._may_send = anyio.Event()
            case PortCommand.FLOWCONTROL_RESUME:
                self._may_send.set()
            case PortCommand.SET_LINESTATE_MASK if value:
                await self._new_errors()  # counts from now on
                self._errors_mask = value[0] & LineState.ERRORS
                self._notify_change()
                await self._answer(code, bytes((self._errors_mask,)))
            case PortCommand.SET_MODEMSTATE_MASK if value:
                self._lines_mask = value[0]
                await self._answer(code, value[:1])
            case PortCommand.PURGE_DATA if value:
                await self._purge(value[0])
            case _:
                pass  # unknown to RFC 2217, which has no error reply

    async def _configure(self, **changes: object) -> None:
        # A refused setting is answered with the one in force, as RFC 2217 demands.
        with _ignoring_refusals():
            await self._port.configure(self._port.config.with_changes(**changes))

    async def _handle_control(self, code: int) -> None:
        flow = flow_of(code)
        if code in _BREAK:
            await self._set_break(_BREAK[Control(code)])
        elif code in _DTR or code in _RTS:
            await self._set_line(Control(code))
        elif flow is not None:
            await self._configure(flow_control=flow)
        answer: int | None = None
        if code in (*_BREAK, Control.ASK_BREAK):
            answer = Control.BREAK_OFF if self._breaking is None else Control.BREAK_ON
        elif code in (*_DTR, Control.ASK_DTR):
            answer = Control.DTR_ON if self._control.dtr else Control.DTR_OFF
        elif code in (*_RTS, Control.ASK_RTS):
            answer = Control.RTS_ON if self._control.rts else Control.RTS_OFF
        elif code in (Control.ASK_FLOW, Control.FLOW_DCD) or flow is not None:
            answer = flow_code(self._port.config.flow_control) or Control.FLOW_NONE
        elif Control.ASK_INBOUND_FLOW <= code <= Control.INBOUND_FLOW_DTR:
            answer = self._inbound_flow()
        if answer is not None:
            await self._answer(PortCommand.SET_CONTROL, bytes((answer,)))

    def _inbound_flow(self) -> Control:
        # termios has one setting for both directions; it is changed through the outbound one.
        flow = self._port.config.flow_control
        if flow.rts_cts:
            return Control.INBOUND_FLOW_HARDWARE
        return Control.INBOUND_FLOW_XON_XOFF if flow.xon_xoff else Control.INBOUND_FLOW_NONE

    async def _set_line(self, code: Control) -> None:
        rts, dtr = _RTS.get(code), _DTR.get(code)
        try:
            await self._port.set_control_lines(rts=rts, dtr=dtr)
        except UnsupportedFeatureError:
            pass  # a device without lines accepts every state, as opening a tty does
        except SerialDisconnectedError:
            raise
        except SerialError:
            return  # refused: the answer has the state in force
        self._control = ControlLines(
            rts=self._control.rts if rts is None else rts,
            dtr=self._control.dtr if dtr is None else dtr,
        )

    async def _set_break(self, on: bool) -> None:
        if not on and self._breaking is not None:
            self._breaking.cancel()
            while self._breaking is not None:
                await self._changed.wait()
        elif on and self._breaking is None and self._write_scope is None:
            await self._tasks.start(self._hold_break)

    async def _hold_break(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        with anyio.CancelScope() as scope:
            self._breaking = scope
            task_status.started()
            try:
                with _ignoring_refusals():
                    await self._port.send_break(math.inf)
            finally:
                self._breaking = None
                self._notify_change()

    async def _purge(self, code: int) -> None:
        if not 1 <= code <= 3:
            return
        purge = Purge(code)
        with _ignoring_refusals():
            if Purge.UNSENT in purge:
                self._unwritten.clear()
                if self._write_scope is not None:
                    self._write_scope.cancel()
                await self._port.reset_output_buffer()
                await self._resume_client()
                self._notify_change()
            if Purge.RECEIVED in purge:
                self._for_client = b""
                await self._port.reset_input_buffer()
        await self._answer(PortCommand.PURGE_DATA, bytes((code,)))

    async def _until_written(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while self._unwritten or self._write_scope is not None:
                await self._changed.wait()

    # ---- between network and port ------------------------------------------------------------

    async def _write_to_port(self) -> None:
        while True:
            while not self._unwritten or self._breaking is not None:
                await self._changed.wait()
            data = bytes(self._unwritten)
            self._unwritten.clear()
            with anyio.CancelScope() as self._write_scope:
                await self._port.send(data)
            self._write_scope = None
            await self._resume_client()
            self._notify_change()

    async def _resume_client(self) -> None:
        if self._suspended_client and len(self._unwritten) <= _RESUME_AT:
            self._suspended_client = False
            await self._answer(PortCommand.FLOWCONTROL_RESUME, b"")

    def _notify_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _read_from_port(self) -> None:
        while True:
            # While suspended, bytes stay in the driver, whose own flow control then acts.
            await self._may_send.wait()
            self._for_client = escape(await self._port.receive(_CHUNK))
            await self._may_send.wait()  # it may have been suspended while nothing came
            data, self._for_client = self._for_client, b""
            await self._send(data)

    async def _watch_lines(self) -> None:
        event: CommEvent | None = None
        while await self._report_lines(event):
            event = None
            # The next report shows a change that comes between this one and the wait.
            with anyio.move_on_after(_POLL_INTERVAL_S):
                try:
                    event = await self._port.wait_modem_event()
                except UnsupportedFeatureError:
                    await anyio.sleep_forever()  # lines that can be read but not waited for

    async def _report_lines(self, event: CommEvent | None = None, *, always: bool = False) -> bool:
        """Notify the client of a change; return False if the device has no lines."""
        try:
            lines = await self._port.modem_lines()
        except UnsupportedFeatureError:
            return False
        state = ModemState.of(lines, self._lines) | ModemState.of_event(event)
        self._lines = lines
        wanted = always or int(state) & 0x0F & self._lines_mask
        if wanted and self._negotiator.is_agreed(Option.COM_PORT):
            await self._answer(
                PortCommand.NOTIFY_MODEMSTATE, bytes((int(state) & self._lines_mask,))
            )
        return True

    async def _watch_errors(self) -> None:
        while True:
            while not self._errors_mask:
                await self._changed.wait()
            state = await self._new_errors() & self._errors_mask
            if state:
                await self._answer(PortCommand.NOTIFY_LINESTATE, bytes((state,)))
            await anyio.sleep(_POLL_INTERVAL_S)

    async def _watch_connection(self) -> None:
        raw = self._stream.extra(SocketAttribute.raw_socket, None)
        while raw is not None:
            await anyio.sleep(_CLIENT_CHECK_INTERVAL_S)
            if has_left(self._stream):
                # Also with unread data: a device that accepts nothing must not block the port.
                await anyio.sleep(_LONGEST_LINGER_S)
                self._tasks.cancel_scope.cancel()
            if is_unreachable(raw):
                self._tasks.cancel_scope.cancel()  # the port is for the next client

    async def _new_errors(self) -> int:
        """Return the errors since the last call, as RFC 2217's line state."""
        try:
            counters = await self._port.error_counters()
        except UnsupportedFeatureError:
            return 0
        before, self._errors = self._errors or counters, counters
        return int(LineState.between(before, counters))

    async def _answer(self, command: int, value: bytes) -> None:
        await self._send(subnegotiation(Option.COM_PORT, bytes((command + ANSWER,)) + value))

    async def _send(self, message: bytes) -> None:
        if not message:
            return
        async with self._sending:
            # If the client has left, the task that reads from it ends the session.
            with contextlib.suppress(anyio.BrokenResourceError):
                await self._stream.send(message)


@contextlib.contextmanager
def _ignoring_refusals() -> Iterator[None]:
    """Suppress errors of a device that refuses, but not of one that is gone."""
    try:
        yield
    except SerialDisconnectedError:
        raise
    except SerialError:
        pass


def _first(group: BaseExceptionGroup[SerialDisconnectedError]) -> SerialDisconnectedError:
    for exc in group.exceptions:
        return _first(exc) if isinstance(exc, BaseExceptionGroup) else exc
    raise AssertionError("an exception group is never empty")
