"""A client's connection: a thread that moves bytes and commands between port and server.

The port's bytes pass through a socket pair. The port reads, writes and waits for its near end, so
an event loop sees a plain descriptor. The thread is between the far end and the server. It is
needed because a server sends at any time: answers and changes of modem lines must be handled while
nobody receives from the port.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import socket
import struct
import termios
import threading
from collections.abc import Callable, Iterable
from typing import NoReturn

from penstock.serial._devices.stream_backend import LineEvents
from penstock.serial._devices.tcp import is_unreachable
from penstock.serial._rfc2217_protocol import (
    ANSWER,
    Command,
    Event,
    LineState,
    ModemState,
    Negotiation,
    Negotiator,
    Option,
    PortCommand,
    TelnetDecoder,
    escape,
    subnegotiation,
)
from penstock.serial.exceptions import (
    PortBusyError,
    SerialDisconnectedError,
    SerialError,
    SerialTimeoutError,
    UnsupportedFeatureError,
    closed_error,
    disconnected_error,
)

_CHUNK = 65_536
_SUSPEND_AT = 65_536  # received and not yet read by the port: ask the server to suspend
_RESUME_AT = 16_384
_STOP_READING_AT = 1 << 20  # beyond this, TCP stops a server that ignores the suspension
_MOST_UNSENT = 65_536
_MOST_ANSWERS = 1 << 20  # for a server that sends requests and reads no answers
_POLL_INTERVAL_MS = 5_000
_LONGEST_GREETING = 200
# In the refusals of this package's server, of ser2net and of terminal servers.
_BUSY_WORDS = ("in use", "busy", "already")

_WANTED = frozenset({Option.BINARY, Option.SUPPRESS_GO_AHEAD, Option.COM_PORT})
_INT = struct.Struct("i")


class _Expectation:
    """An answer that has been requested and has not arrived yet."""

    def __init__(self, command: int, accepts: Callable[[bytes], bool]) -> None:
        self.command = command
        self.accepts = accepts
        self.answer: bytes | None = None
        self.done = threading.Event()
        self.then: Callable[[], None] | None = None


class ClientSession:
    """The connection to a server, from the telnet negotiation to its end. Thread-safe.

    ``near`` is the socket of the port's bytes. ``modem_state`` is the server's last
    report of the lines, None before the first. ``error_notifications`` counts its notifications of
    each kind of error.
    """

    def __init__(self, url: str, sock: socket.socket, timeout: float) -> None:
        """Take over ``sock`` and agree on the COM-PORT option, or raise and close it.

        Raises:
            PortBusyError: The server says that it has another client.
            SerialTimeoutError: It does not answer.
            UnsupportedFeatureError: It refuses the option.
            SerialDisconnectedError: It closes the connection.
        """
        self._url = url
        self._timeout = timeout
        self._sock = sock
        sock.setblocking(False)
        self.near, self._far = socket.socketpair()
        self._far.setblocking(False)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.RLock()
        self._decoder = TelnetDecoder()
        self._negotiator = Negotiator(_WANTED, _WANTED)
        self._outgoing = bytearray()
        self._inbound = bytearray()
        self._greeting = bytearray()  # what came before the agreement
        self._expected: list[_Expectation] = []
        self._discarding = 0
        self._agreed = threading.Event()
        self._refused = False
        self._ended = False  # the server is gone
        self._stopping = False
        self._in_child = False
        self._held_back = False  # by the server: FLOWCONTROL-SUSPEND
        self._holding_back = False  # this side has suspended the server
        self._far_open = True
        self.modem_state: ModemState | None = None
        self.error_notifications = dict.fromkeys(LineState, 0)
        self.line_events = LineEvents()
        # Before the thread starts: the server may answer at once. The client performs the option;
        # a server may perform it too.
        self._outgoing += self._negotiator.start(
            frozenset({Option.BINARY, Option.COM_PORT}),
            frozenset({Option.BINARY, Option.SUPPRESS_GO_AHEAD}),
        )
        # The thread has a reference to the session while it runs; the owner's close() ends it.
        self._thread = threading.Thread(target=self._run, name=f"rfc2217 {url}", daemon=True)
        self._thread.start()
        try:
            self._agree()
        except BaseException:
            self.close()
            raise

    # ---- for the port's side -----------------------------------------------------------------

    def request(
        self,
        command: PortCommand,
        payload: bytes,
        accepts: Callable[[bytes], bool] = bool,
        *,
        what: str,
    ) -> bytes:
        """Send a command and return the value of the first answer that ``accepts`` takes.

        Raises:
            SerialTimeoutError: None arrives in time.
            SerialDisconnectedError: The connection ends.
        """
        expectation = self._send(command, payload, accepts)
        return self._await(expectation, what)

    def request_optional(self, command: PortCommand, payloads: Iterable[bytes]) -> None:
        """Send commands that a server may ignore; return once it has processed them.

        A query of the baud rate, which every server answers, marks the place behind them.
        """
        for payload in payloads:
            self.send(command, payload)
        self.request(PortCommand.SET_BAUDRATE, bytes(4), what="the query of its baud rate")

    def send(self, command: PortCommand, payload: bytes) -> None:
        """Send a command that has no answer. Never blocks."""
        with self._lock:
            self.check()
            self._outgoing += _message(command, payload)
        self._wake_waiters()

    def discard(self, command_payload: int, *, received: bool) -> None:
        """Let the server empty its buffers; what it had received before that is dropped.

        Never blocks: the thread waits for the answer.
        """
        with self._lock:
            self.check()
            if received:
                self._inbound.clear()
                self._discarding += 1
                # Not the answer to the purge itself, which some servers do not send.
                self._send(PortCommand.PURGE_DATA, bytes((command_payload,)), None)
                self._send(PortCommand.SET_BAUDRATE, bytes(4), bool).then = self._stop_discarding
            else:
                self._drop_unsent()
                self._send(PortCommand.PURGE_DATA, bytes((command_payload,)), None)
        self._wake_waiters()

    def unsent(self) -> int:
        """Return how many bytes are on their way to the server, as far as they can be counted."""
        with self._lock:
            self.check()
            if not self._far_open:
                return 0
            count = len(self._outgoing) + _queued(self._far, termios.FIONREAD)
            return count + _queued(self._sock, termios.TIOCOUTQ)

    def undelivered(self) -> int:
        """Return how many received bytes are not in the near socket yet."""
        with self._lock:
            return len(self._inbound)

    def close(self) -> None:
        """End the connection and the thread; what was not sent is lost."""
        self._stopping = True
        self._wake_waiters()
        if threading.current_thread() is not self._thread and not self._in_child:
            self._thread.join()
        self.near.close()
        with self._lock:
            wake, self._wake = self._wake, -1
            if wake >= 0:
                os.close(wake)

    def leave_to_parent(self) -> None:
        """In a forked child: end without sending anything; the parent keeps the connection."""
        self._lock = threading.RLock()
        self.line_events.forget_threads()
        self._agreed = threading.Event()
        self._in_child = True
        self._close_far()
        self._sock.close()
        # The parent's thread must not be woken by this process.
        os.close(self._wake)
        self._wake = -1

    def refuse(self, *_: object) -> NoReturn:
        """Raise the error of a session that was left to the parent process."""
        raise SerialDisconnectedError(
            errno.ENOTCONN,
            f"{self._url}: the connection belongs to the parent process; open the port in this one",
            self._url,
        )

    # ---- details -----------------------------------------------------------------------------

    def _agree(self) -> None:
        if not self._agreed.wait(self._timeout):
            raise SerialTimeoutError(
                errno.ETIMEDOUT,
                f"{self._url}: the server did not answer the telnet negotiation within "
                f"{self._timeout:g} s; check that it speaks RFC 2217, or use socket:// for one "
                "that passes bytes through",
                self._url,
            )
        if self._refused:
            raise UnsupportedFeatureError(
                errno.EPROTONOSUPPORT,
                f"{self._url}: the server does not speak RFC 2217; use telnet with it, or "
                "socket:// if it passes bytes through",
                self._url,
            )
        if self._ended and not self._negotiator.is_agreed(Option.COM_PORT):
            raise self._refusal()
        self.check()

    def _refusal(self) -> SerialError:
        text = self._greeting.decode("ascii", "replace")
        words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
        if any(word in words.lower() for word in _BUSY_WORDS):
            return PortBusyError(
                errno.EBUSY,
                f"{self._url}: the server refused this client ({words!r}); close the other client, "
                "or try again when it has disconnected",
                self._url,
            )
        if words:
            return SerialDisconnectedError(
                errno.ECONNRESET,
                f"{self._url}: the server closed the connection at once and said {words!r}; check "
                "its settings",
                self._url,
            )
        return disconnected_error(self._url, errno.ECONNRESET)

    def _send(
        self, command: PortCommand, payload: bytes, accepts: Callable[[bytes], bool] | None
    ) -> _Expectation:
        expectation = _Expectation(command + ANSWER, accepts or bool)
        with self._lock:
            self.check()
            if accepts is not None:
                self._expected.append(expectation)
            self._outgoing += _message(command, payload)
        self._wake_waiters()
        return expectation

    def _await(self, expectation: _Expectation, what: str) -> bytes:
        expectation.done.wait(self._timeout)
        with self._lock:
            if expectation in self._expected:
                self._expected.remove(expectation)
            if expectation.answer is None:
                self.check()
                raise SerialTimeoutError(
                    errno.ETIMEDOUT,
                    f"{self._url}: the server did not answer {what} within {self._timeout:g} s",
                    self._url,
                )
            return expectation.answer

    def check(self) -> None:
        """Raise if the connection has ended."""
        if self._stopping:
            raise closed_error(self._url)
        if self._in_child:
            self.refuse()
        if self._ended:
            raise disconnected_error(self._url, errno.ECONNRESET)

    def _wake_waiters(self) -> None:
        with self._lock:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def _stop_discarding(self) -> None:
        self._discarding -= 1

    def _drop_unsent(self) -> None:
        # Only the data in the socket pair: what the thread has taken from it is mixed with
        # commands, which must be sent.
        with contextlib.suppress(OSError):
            while self._far_open and self._far.recv(_CHUNK):
                pass

    # ---- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        finally:
            self._end()
            with self._lock:
                self._close_far()
            self._sock.close()

    def _turn(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        with self._lock:
            events = 0
            if not self._ended:
                if self._may_receive():
                    events |= select.POLLIN
                if self._outgoing:
                    events |= select.POLLOUT
                if events:
                    poll.register(self._sock, events)
            far_events = 0
            if self._inbound:
                far_events |= select.POLLOUT
            if not (self._ended or self._held_back) and len(self._outgoing) < _MOST_UNSENT:
                far_events |= select.POLLIN
            if self._far_open and far_events:
                poll.register(self._far, far_events)
        ready = poll.poll(_POLL_INTERVAL_MS)
        with self._lock:
            if not (ready or self._ended) and is_unreachable(self._sock):
                self._end()
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            if not self._ended:
                self._receive()
            self._take_from_port()
            if not self._ended:
                self._transmit()
            self._deliver()
            self._regulate()

    def _may_receive(self) -> bool:
        if len(self._outgoing) >= _MOST_ANSWERS:
            return False
        return len(self._inbound) < _STOP_READING_AT or bool(self._expected)

    def _receive(self) -> None:
        if not self._may_receive():
            return
        try:
            received = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        if not received:
            self._end()
            return
        for event in self._decoder.feed(received):
            self._handle(event)
        if self._decoder.limit_exceeded:
            self._end()

    def _handle(self, event: Event) -> None:
        if isinstance(event, bytes):
            # Bytes before the agreement are the server's greeting, not the device's.
            if not self._agreed.is_set():
                self._greeting += event[: _LONGEST_GREETING - len(self._greeting)]
            elif not self._discarding:
                self._inbound += event
        elif isinstance(event, Negotiation):
            self._outgoing += self._negotiator.receive(event)
            self._refused = self._negotiator.is_refused(Option.COM_PORT)
            if self._refused or self._negotiator.is_agreed(Option.COM_PORT):
                self._agreed.set()
        elif not isinstance(event, Command) and event.option == Option.COM_PORT:
            self._handle_answer(event.payload[:1], event.payload[1:])

    def _handle_answer(self, command: bytes, value: bytes) -> None:
        if not command:
            return
        code = command[0]
        if code == ANSWER + PortCommand.NOTIFY_MODEMSTATE and value:
            self.modem_state = ModemState(value[0])
            self.line_events.notify(self.modem_state.changed_bits())
        elif code == ANSWER + PortCommand.NOTIFY_LINESTATE and value:
            for kind in LineState(value[0]) & LineState.ERRORS:
                self.error_notifications[kind] += 1
        elif code == ANSWER + PortCommand.FLOWCONTROL_SUSPEND:
            self._held_back = True
        elif code == ANSWER + PortCommand.FLOWCONTROL_RESUME:
            self._held_back = False
        for expectation in self._expected:
            if expectation.command == code and expectation.accepts(value):
                self._expected.remove(expectation)
                expectation.answer = value
                if expectation.then is not None:
                    expectation.then()
                expectation.done.set()
                break

    def _take_from_port(self) -> None:
        if not self._far_open or self._ended or self._held_back:
            return
        if len(self._outgoing) >= _MOST_UNSENT:
            return
        try:
            data = self._far.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._outgoing += escape(data)
        else:
            self._close_far()

    def _transmit(self) -> None:
        if not self._outgoing:
            return
        try:
            del self._outgoing[: self._sock.send(self._outgoing)]
        except BlockingIOError:
            pass
        except OSError:
            self._end()

    def _deliver(self) -> None:
        if self._far_open and self._inbound:
            try:
                del self._inbound[: self._far.send(self._inbound)]
            except BlockingIOError:
                pass
            except OSError:
                self._close_far()
        if self._ended and not self._inbound:
            self._close_far()  # the port reads the end of the connection after the last byte

    def _regulate(self) -> None:
        if self._ended:
            return
        waiting = len(self._inbound)
        if waiting >= _SUSPEND_AT and not self._holding_back:
            self._holding_back = True
            self._outgoing += _message(PortCommand.FLOWCONTROL_SUSPEND, b"")
        elif waiting <= _RESUME_AT and self._holding_back:
            self._holding_back = False
            self._outgoing += _message(PortCommand.FLOWCONTROL_RESUME, b"")

    def _end(self) -> None:
        with self._lock:
            self._ended = True
            self._agreed.set()
            expected, self._expected = self._expected, []
            for expectation in expected:
                expectation.done.set()
        self.line_events.end_waits()

    def _close_far(self) -> None:
        if self._far_open:
            self._far_open = False
            self._far.close()


def _message(command: int, payload: bytes) -> bytes:
    return subnegotiation(Option.COM_PORT, bytes((command,)) + payload)


def _queued(sock: socket.socket, request: int) -> int:
    try:
        count: int = _INT.unpack(fcntl.ioctl(sock.fileno(), request, bytes(4)))[0]
    except (OSError, ValueError):
        return 0
    return count
