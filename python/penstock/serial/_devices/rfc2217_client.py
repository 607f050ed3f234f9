"""``rfc2217://host:port``: a port of another machine, with its settings and control lines.

Options of the URL: ``timeout`` (seconds for the connection and for each answer, 5 by default),
``ign_set_control`` (do not wait for the answers to control lines, breaks and flow control, which
some servers send wrongly), ``poll_modem`` (query the modem lines each time, for servers that do not
report changes). pyserial's ``logging`` is accepted and has no effect.
"""

from __future__ import annotations

import contextlib
import errno
import threading
from dataclasses import replace

from penstock.serial._devices.rfc2217_session import ClientSession
from penstock.serial._devices.stream_backend import SocketBackend, stream_capabilities
from penstock.serial._devices.tcp import connect_to
from penstock.serial._devices.url import SerialUrl
from penstock.serial._rfc2217_protocol import (
    BAUDRATE,
    Control,
    LineState,
    PortCommand,
    Purge,
    byte_size_code,
    flow_code,
    parity_code,
    stop_bits_code,
)
from penstock.serial._tty.system_calls import PendingIoctl
from penstock.serial._values import ControlLines, ErrorCounters, LineActivity, ModemLines
from penstock.serial.config import SerialConfig, is_rate_met
from penstock.serial.exceptions import (
    UnsupportedConfigurationError,
    UnsupportedFeatureError,
)

_FORM = "rfc2217://HOST:PORT, with ?timeout=SECONDS, &ign_set_control or &poll_modem"
_OPTIONS = frozenset({"timeout", "ign_set_control", "poll_modem", "logging"})
_TIMEOUT_S = 5.0
_ALL = b"\xff"

_DTR = frozenset({Control.DTR_ON, Control.DTR_OFF})
_RTS = frozenset({Control.RTS_ON, Control.RTS_OFF})
_BREAK = frozenset({Control.BREAK_ON, Control.BREAK_OFF})
_FLOW = frozenset(
    {
        Control.FLOW_NONE,
        Control.FLOW_XON_XOFF,
        Control.FLOW_HARDWARE,
        Control.FLOW_DCD,
        Control.FLOW_DSR,
    }
)


def open_rfc2217(path: str, config: SerialConfig) -> Rfc2217Backend:
    """Connect to the server and apply ``config``; on an error nothing stays open.

    Raises:
        PortNotFoundError: Nobody answers at that address.
        PortBusyError: The server has another client.
        SerialTimeoutError: The server does not answer in time.
        UnsupportedFeatureError: The server does not speak RFC 2217.
        UnsupportedConfigurationError: The server did not accept the settings.
    """
    url = SerialUrl.parse(path, _FORM, _OPTIONS)
    host, port = url.host_and_port()
    timeout = url.seconds("timeout", _TIMEOUT_S)
    session = ClientSession(path, connect_to(path, host, port, timeout), timeout)
    try:
        return Rfc2217Backend(
            path,
            config,
            session,
            checks_control=not url.flag("ign_set_control"),
            polls_modem=url.flag("poll_modem"),
        )
    except BaseException:
        session.close()
        raise


class Rfc2217Backend(SocketBackend):
    """A remote port. Thread-safe; its settings and lines wait for the server's answers."""

    kind = "an RFC 2217 port"
    remedy = "do without it, or use a port of this machine"

    def __init__(
        self,
        path: str,
        config: SerialConfig,
        session: ClientSession,
        *,
        checks_control: bool,
        polls_modem: bool,
    ) -> None:
        capabilities = stream_capabilities(
            "rfc2217",
            *("custom_baudrate", "mark_space_parity", "one_point_five_stop_bits"),
            *("xon_xoff", "rts_cts", "dtr_dsr", "modem_lines", "break_signal"),
            *("input_waiting", "output_waiting"),
        )
        super().__init__(path, config, capabilities, session.near)
        self._session = session
        self._checks_control = checks_control
        self._polls_modem = polls_modem
        # One exchange at a time. Not _mutex, which the event loop's thread takes as well.
        self._exchange = threading.RLock()
        self._actual_baudrate = config.baudrate
        self._rts = self._dtr = True
        self._line_events = session.line_events
        self._apply(config)
        session.send(PortCommand.SET_LINESTATE_MASK, bytes((LineState.ERRORS,)))
        session.send(PortCommand.SET_MODEMSTATE_MASK, _ALL)

    @property
    def actual_baudrate(self) -> int:
        """The rate that the server reported."""
        return self._actual_baudrate

    def configure(self, config: SerialConfig) -> None:
        """Apply ``config`` whole, or raise with the previous settings in force again."""
        with self._exchange:
            self._check_open()
            self._refuse_unsupported(config)
            before = self.config
            try:
                self._apply(config)
            except UnsupportedConfigurationError:
                self._apply(before)
                raise
            self.config = config

    def _apply(self, config: SerialConfig) -> None:
        flow = flow_code(config.flow_control)
        if flow is None:
            raise UnsupportedConfigurationError(
                errno.EINVAL,
                f"{self.path}: RFC 2217 cannot have two kinds of flow control at once; choose one",
                self.path,
            )
        rate = self._session.request(
            PortCommand.SET_BAUDRATE,
            BAUDRATE.pack(config.baudrate),
            lambda value: len(value) >= BAUDRATE.size,
            what="the setting of the baud rate",
        )
        # If a server answers with more than 4 bytes, the first four count.
        (actual,) = BAUDRATE.unpack(rate[: BAUDRATE.size])
        if not is_rate_met(config.baudrate, actual):
            raise self._refused("baud rate", config.baudrate, actual)
        for command, what, code in (
            (PortCommand.SET_DATASIZE, "byte size", byte_size_code(config)),
            (PortCommand.SET_PARITY, "parity", parity_code(config)),
            (PortCommand.SET_STOPSIZE, "stop bits", stop_bits_code(config)),
        ):
            answer = self._session.request(
                command, bytes((code,)), what=f"the setting of the {what}"
            )
            if answer[0] != code:
                raise self._refused(f"{what} code", code, answer[0])
        taken = self._control(flow, _FLOW, "the setting of the flow control")
        if taken != flow:
            raise self._refused("flow control code", int(flow), taken)
        self._actual_baudrate = actual

    def _refused(self, what: str, wanted: int, got: int) -> UnsupportedConfigurationError:
        return UnsupportedConfigurationError(
            errno.EINVAL,
            f"{self.path}: the server did not accept {what} {wanted} (it has {got}); the previous "
            "settings are in force",
            self.path,
        )

    def _control(self, value: Control, group: frozenset[Control], what: str) -> int:
        if not self._checks_control:
            self._session.send(PortCommand.SET_CONTROL, bytes((value,)))
            return value
        answer = self._session.request(
            PortCommand.SET_CONTROL,
            bytes((value,)),
            lambda answer: bool(answer) and answer[0] in group,
            what=what,
        )
        return answer[0]

    def _switch(self, value: Control, group: frozenset[Control], what: str, on: bool) -> None:
        if self._control(value, group, f"the switching of {what}") != value:
            raise UnsupportedFeatureError(
                errno.EOPNOTSUPP,
                f"{self.path}: the server did not switch {what} {'on' if on else 'off'}; the "
                "option ign_set_control skips this check",
                self.path,
            )

    def modem_lines(self) -> ModemLines:
        with self._exchange:
            self._check_open()
            if self._polls_modem or self._session.modem_state is None:
                self._session.request_optional(PortCommand.NOTIFY_MODEMSTATE, [b""])
            state = self._session.modem_state
        if state is None:
            raise UnsupportedFeatureError(
                errno.EOPNOTSUPP,
                f"{self.path}: the server does not report the modem lines; do without them, or "
                "use another server",
                self.path,
            )
        return state.lines()

    def line_activity(self) -> LineActivity:
        activity = self._line_events.activity(self.modem_lines())
        counted = self.error_counters()
        errors = counted.framing_errors + counted.parity_errors + counted.overruns
        return replace(activity, errors=errors, breaks=counted.breaks)

    def begin_line_wait(self, mask: int) -> PendingIoctl:
        """Wait for a report of the server, which it sends at its own interval."""
        self._check_open()
        return self._line_events.begin_wait(mask)

    def error_counters(self) -> ErrorCounters:
        """Return the server's notifications of errors, one for any number of characters."""
        self._check_open()
        counts = self._session.error_notifications
        return ErrorCounters(
            received=0,
            sent=0,
            framing_errors=counts[LineState.FRAMING_ERROR],
            parity_errors=counts[LineState.PARITY_ERROR],
            overruns=counts[LineState.OVERRUN],
            buffer_overruns=0,
            breaks=counts[LineState.BREAK],
        )

    def control_lines(self) -> ControlLines:
        """Return RTS and DTR as set last; before that asserted, as on an opened tty."""
        self._check_open()
        return ControlLines(rts=self._rts, dtr=self._dtr)

    def set_control_lines(self, rts: bool | None, dtr: bool | None) -> None:
        with self._exchange:
            self._check_open()
            if rts is not None:
                self._switch(Control.RTS_ON if rts else Control.RTS_OFF, _RTS, "RTS", rts)
                self._rts = rts
            if dtr is not None:
                self._switch(Control.DTR_ON if dtr else Control.DTR_OFF, _DTR, "DTR", dtr)
                self._dtr = dtr

    def set_break(self, on: bool) -> None:
        with self._exchange:
            self._check_open()
            self._switch(Control.BREAK_ON if on else Control.BREAK_OFF, _BREAK, "a break", on)

    def input_waiting(self) -> int:
        undelivered = self._session.undelivered()
        return undelivered or super().input_waiting()

    def output_waiting(self) -> int:
        """Return how many bytes the server's machine has not confirmed yet."""
        self._check_open()
        return self._session.unsent()

    def discard_input(self) -> None:
        """Empty every buffer on the way, including the server's. Never blocks.

        What the server had received before it emptied its buffer is dropped when it arrives.
        """
        with self._mutex:
            self._check_open()
            self._session.discard(Purge.RECEIVED, received=True)
            with contextlib.suppress(OSError):
                while self.read(65_536):
                    pass

    def discard_output(self) -> None:
        with self._mutex:
            self._check_open()
            self._session.discard(Purge.UNSENT, received=False)

    def _check_open(self) -> None:
        super()._check_open()
        # Lines and counts are stored here, but not valid once the connection has ended.
        self._session.check()

    def forget_threads(self) -> None:
        """Leave the connection to the parent, which has the thread that serves it."""
        super().forget_threads()
        self._exchange = threading.RLock()
        self._session.leave_to_parent()
        # The child must not read the parent's bytes from the socket that they share.
        self.read = self.readinto = self.write = self._session.refuse

    def _release(self) -> None:
        self._session.close()
