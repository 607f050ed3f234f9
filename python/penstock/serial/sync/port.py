"""A serial port whose calls block."""

from __future__ import annotations

import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, overload

import anyio

from penstock.serial.backend import SerialBackend, require_backend
from penstock.serial.buffers import BytesLike
from penstock.serial.config import (
    RS485Config,
    SerialConfig,
    check_break,
    check_line_states,
    checked_config,
)
from penstock.serial.drain import CLOSE_LINGER_S, nap_for
from penstock.serial.error_counters import ErrorCounters
from penstock.serial.error_marks import MarkedBytes
from penstock.serial.exceptions import SerialError, UnsupportedFeatureError, closed_error
from penstock.serial.line_changes import (
    LOOK_AGAIN_S,
    LOOK_WITHOUT_WAIT_S,
    changes_between,
    line_mask,
)
from penstock.serial.lines import CommEvent, ControlLines, ModemLines
from penstock.serial.opening import open_device
from penstock.serial.pending_ioctl import PendingIoctl
from penstock.serial.port_facts import PortFacts
from penstock.serial.portinfo import PortInfo
from penstock.serial.receive_half import LARGEST_READ, READ_AT_ONCE
from penstock.serial.send_half import as_bytes
from penstock.serial.sync.blocking_halves import BlockingHalves
from penstock.serial.sync.poll_readiness import Overdue, deadline_after

__all__ = ["SerialPort"]

T = TypeVar("T")
D = TypeVar("D")

_NO_DEFAULT = object()


class SerialPort(PortFacts):
    """An open serial port without an event loop; get one from :func:`open_serial_port`.

    Usable from any thread, and in a forked child. One thread may receive while another sends; a
    second receiver or sender gets :class:`anyio.BusyResourceError`. ``timeout`` is in seconds;
    None waits for ever. When it runs out :class:`TimeoutError` is raised: nothing received is lost,
    and the error of a send tells how much was sent. A driver that was asked for something
    (settings, lines, counts, discards) cannot be called back: those return when it answers,
    whatever the *timeout*. Otherwise the methods are those of
    :class:`penstock.serial.SerialPort`, with the same errors.

    :meth:`close`, from any thread, wakes every waiting one with :class:`SerialClosedError`.
    """

    def __init__(
        self, backend: SerialBackend, config: SerialConfig, *, port_info: PortInfo | None = None
    ) -> None:
        """Wrap an open *backend*, already configured with *config*."""
        require_backend(backend)
        backend.config = config
        super().__init__(backend, port_info)
        self._halves = BlockingHalves(backend, port_info)
        self._discarded = False
        self._make_locks()
        _open_ports.add(self)

    def _make_locks(self) -> None:
        self._receive_lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._close_lock = threading.Lock()
        self._receiver = self._sender = 0  # who holds them
        self._interrupted_by_close = False

    @classmethod
    def open(
        cls,
        path: str,
        config: SerialConfig | None = None,
        /,
        *,
        timeout: float | None = None,
        **config_fields: Any,
    ) -> SerialPort:
        """Open *path* with *config*, or with ``SerialConfig(**config_fields)``; not with both."""
        if config is not None and config_fields:
            raise ValueError("give either a config or its fields, not both")
        deadline_after(timeout)
        wanted = SerialConfig(**config_fields) if config is None else config
        device, info = open_device(path, wanted)
        return cls(device, device.config, port_info=info)

    @property
    def is_open(self) -> bool:
        """False once the port was closed or the device was found to be gone."""
        return self._halves.is_open

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The typed attributes, as the asynchronous port's."""
        return self._halves.extra_attributes

    @overload
    def extra(self, attribute: T) -> T: ...
    @overload
    def extra(self, attribute: T, default: D) -> T | D: ...
    def extra(self, attribute: Any, default: Any = _NO_DEFAULT) -> Any:
        """Return a typed attribute, as the asynchronous port's ``extra`` does."""
        if default is _NO_DEFAULT:
            return self._halves.extra(attribute)
        return self._halves.extra(attribute, default)

    # ---- receiving -------------------------------------------------------------------------

    def receive(self, max_bytes: int = LARGEST_READ, *, timeout: float | None = None) -> bytes:
        """Return the bytes that are there, 1 to *max_bytes*; wait for the first one."""
        halves = self._halves
        if max_bytes < 1 or halves._kept or halves._marking:
            return self._receive(halves.receive(max_bytes), timeout)
        deadline = deadline_after(timeout)
        if not self._receive_lock.acquire(blocking=False):
            raise anyio.BusyResourceError("receiving from")
        self._receiver = threading.get_ident()
        try:
            size = max_bytes if max_bytes < READ_AT_ONCE else READ_AT_ONCE
            if halves.takes_question():
                self._until_readable(deadline, timeout)
            while True:
                try:
                    data = halves._read(size)
                except BlockingIOError:
                    pass
                except OSError as exc:
                    halves._fail(exc)
                else:
                    break
                self._until_readable(deadline, timeout)
            if not data:
                halves._fail_disconnected()
            return data
        except anyio.ClosedResourceError as exc:
            halves._fail_closed(exc)
        finally:
            self._receiver = 0
            self._receive_lock.release()
            if self._interrupted_by_close:
                self._finish_closing()

    def receive_into(self, buffer: bytearray | memoryview, *, timeout: float | None = None) -> int:
        """Receive into *buffer*; return the count, 1 to its length."""
        return self._receive(self._halves.receive_into(buffer), timeout)

    def receive_available(self, *, limit: int | None = None, timeout: float | None = None) -> bytes:
        """Return what is there in one read, at most *limit* bytes; wait for the first one."""
        return self._receive(self._halves.receive_available(limit=limit), timeout)

    def receive_exactly(self, nbytes: int, *, timeout: float | None = None) -> bytes:
        """Return exactly *nbytes* bytes; what came too late is left to the next receive."""
        return self._receive(self._halves.receive_exactly(nbytes), timeout)

    def receive_until(
        self, delimiter: bytes, max_bytes: int = LARGEST_READ, *, timeout: float | None = None
    ) -> bytes:
        """Return what comes before *delimiter*, which is taken from the stream but not returned."""
        return self._receive(self._halves.receive_until(delimiter, max_bytes), timeout)

    def receive_marked(
        self, max_bytes: int = LARGEST_READ, *, timeout: float | None = None
    ) -> MarkedBytes:
        """Receive, and learn which characters arrived damaged; needs ``mark_errors=True``."""
        return self._receive(self._halves.receive_marked(max_bytes), timeout)

    def input_waiting(self) -> int:
        """Return how many bytes can be received without waiting."""
        return self._halves.input_waiting()

    def reset_input_buffer(self, *, timeout: float | None = None) -> None:
        """Discard everything received and not yet read."""
        deadline_after(timeout)
        self._ask(self._device.discard_input)
        self._halves._kept = b""

    def _until_readable(self, deadline: float, timeout: float | None) -> None:
        if not self._halves.room.wait_readable(deadline):
            self._time_out("nothing was received", timeout)

    def _receive(self, receiving: Coroutine[Any, Any, T], timeout: float | None) -> T:
        if not self._receive_lock.acquire(blocking=False):
            receiving.close()
            raise anyio.BusyResourceError("receiving from")
        self._receiver = threading.get_ident()
        try:
            self._halves.room.read_deadline = deadline_after(timeout)
            return _run(receiving)
        except Overdue:
            self._time_out("not enough was received", timeout)
        finally:
            receiving.close()
            self._receiver = 0
            self._receive_lock.release()
            if self._interrupted_by_close:
                self._finish_closing()

    # ---- sending ---------------------------------------------------------------------------

    def send(self, item: bytes, *, timeout: float | None = None) -> None:
        """Hand all of *item* to the driver; returns before the last bit is on the wire."""
        data = item if type(item) is bytes else as_bytes(item)
        deadline = deadline_after(timeout)
        halves = self._halves
        if not data:
            with self._sole_sender():
                halves._check_usable()
            return
        mode = halves._switched_by
        if mode is not None:
            self._send_switched(data, mode, deadline, timeout)
            return
        # Written out, as receive() is: what is spent between a question's system call and the
        # wait for its answer is spent while the answer is on its way.
        if not self._send_lock.acquire(blocking=False):
            raise anyio.BusyResourceError("sending to")
        self._sender = threading.get_ident()
        try:
            sent = halves._write_now(data)
            if sent != len(data):
                halves.room.write_deadline = deadline
                _run(halves._send_all(memoryview(data)[sent:]))
            halves.note_question()
        except Overdue as exc:
            self._time_out(f"{len(data) - exc.unsent} of {len(data)} bytes were sent", timeout)
        finally:
            self._sender = 0
            self._send_lock.release()
            if self._interrupted_by_close:
                self._finish_closing()

    def _send_switched(
        self, data: bytes, mode: RS485Config, deadline: float, timeout: float | None
    ) -> None:
        halves = self._halves
        with self._sole_sender():
            halves.room.write_deadline = deadline
            try:
                with self._line_taken(mode, deadline):
                    _run(halves._send_all(data))
                    self._until_on_the_wire(deadline)
            except Overdue as exc:
                self._time_out(f"{len(data) - exc.unsent} of {len(data)} bytes were sent", timeout)

    def send_buffer(self, data: BytesLike, *, timeout: float | None = None) -> None:
        """Send any bytes-like object: as :meth:`send`. Strided views are copied first."""
        self.send(as_bytes(data), timeout=timeout)

    def send_eof(self, *, timeout: float | None = None) -> None:
        """Wait until the output buffer is empty. A serial line has no end to tell the peer."""
        if not self._halves._closed:
            self.drain(timeout=timeout)

    def drain(self, *, timeout: float | None = None) -> None:
        """Wait until the driver's buffer is empty; the chip's FIFO may still hold bytes."""
        self._drain(self._until_buffer_is_empty, timeout)

    def drain_exact(self, *, timeout: float | None = None) -> None:
        """Wait until the last bit is on the wire."""
        self._drain(self._until_on_the_wire, timeout)

    def output_waiting(self) -> int:
        """Return how many bytes wait in the driver's buffer to be sent."""
        return self._halves.output_waiting()

    def reset_output_buffer(self, *, timeout: float | None = None) -> None:
        """Discard everything sent and not yet on the wire."""
        deadline_after(timeout)
        self._ask(self._device.discard_output)

    def send_break(self, duration: float = 0.25, *, timeout: float | None = None) -> None:
        """Hold the line in the break state for *duration* seconds, at most for *timeout*."""
        check_break(duration)
        deadline = deadline_after(timeout)
        with self._sole_sender():
            end = time.monotonic() + duration
            self._ask(self._device.set_break, True)
            try:
                with self._noticing_close():
                    self._halves.room.sleep_until(min(end, deadline))
            finally:
                if not self._halves._closed:  # else closing ends it
                    self._ask(self._device.set_break, False)
            if deadline < end:
                self._time_out("the break was cut short", timeout)

    def _drain(self, wait: Callable[[float], None], timeout: float | None) -> None:
        deadline = deadline_after(timeout)
        with self._sole_sender():
            self._halves._check_usable()
            try:
                wait(deadline)
            except Overdue:
                self._time_out("output is still waiting", timeout)

    def _until_buffer_is_empty(self, deadline: float) -> None:
        while count := self._halves.output_waiting():
            self._nap(nap_for(count, self.config), deadline)

    def _until_on_the_wire(self, deadline: float) -> None:
        self._until_buffer_is_empty(deadline)
        while (empty := self._ask(self._device.transmitter_is_empty)) is False:
            self._nap(nap_for(1, self.config), deadline)
        if empty is None:  # tcdrain alone knows
            draining = self._ask(self._device.begin_drain)
            try:
                if not self._is_done(draining, deadline):
                    raise Overdue
            finally:
                draining.cancel()

    def _nap(self, seconds: float, deadline: float) -> None:
        now = time.monotonic()
        if now >= deadline:
            raise Overdue
        with self._noticing_close():
            self._halves.room.sleep_until(min(now + seconds, deadline))

    @contextmanager
    def _line_taken(self, mode: RS485Config, deadline: float) -> Iterator[None]:
        sent = False
        try:
            self._ask(self._device.set_control_lines, mode.rts_on_send, None)
            self._nap(mode.delay_before_send, deadline)
            yield
            sent = True
            self._nap(mode.delay_after_send, deadline)
        finally:
            if self._halves.is_open:
                if not sent:
                    self._device.discard_output()  # else it goes out on a line of others
                # Settings may have changed meanwhile: the line rests at the present level.
                rests = self._halves._switched_by or mode
                self._ask(self._device.set_control_lines, rests.rts_after_send, None)

    @contextmanager
    def _sole_sender(self) -> Iterator[None]:
        if not self._send_lock.acquire(blocking=False):
            raise anyio.BusyResourceError("sending to")
        self._sender = threading.get_ident()
        try:
            yield
        finally:
            self._sender = 0
            self._send_lock.release()
            if self._interrupted_by_close:
                self._finish_closing()

    # ---- settings and lines ----------------------------------------------------------------

    def configure(self, config: SerialConfig, *, timeout: float | None = None) -> None:
        """Apply *config* whole; on any error the previous settings are in force again."""
        deadline_after(timeout)
        self._ask(self._device.configure, checked_config(self.path, config))
        self._halves._follow(self._device.config)  # of two at a time, the one that came last

    def modem_lines(self, *, timeout: float | None = None) -> ModemLines:
        """Return the lines that the other side drives."""
        deadline_after(timeout)
        return self._ask(self._device.modem_lines)

    def control_lines(self, *, timeout: float | None = None) -> ControlLines:
        """Return RTS and DTR as the driver reports them."""
        deadline_after(timeout)
        return self._ask(self._device.control_lines)

    def set_control_lines(
        self, *, rts: bool | None = None, dtr: bool | None = None, timeout: float | None = None
    ) -> None:
        """Assert (True), release (False) or leave alone (None) RTS and DTR."""
        deadline_after(timeout)
        check_line_states(self.path, rts=rts, dtr=dtr)
        self._ask(self._device.set_control_lines, rts, dtr)

    def error_counters(self, *, timeout: float | None = None) -> ErrorCounters:
        """Return the driver's counts of bytes, and of what went wrong with them."""
        deadline_after(timeout)
        return self._ask(self._device.error_counters)

    def wait_modem_event(
        self,
        *,
        cts: bool = True,
        dsr: bool = True,
        ri: bool = True,
        cd: bool = True,
        timeout: float | None = None,
    ) -> CommEvent:
        """Wait until one of the chosen lines changes; return which did since the call."""
        mask = line_mask(cts=cts, dsr=dsr, ri=ri, cd=cd)
        deadline = deadline_after(timeout)
        before = self._ask(self._device.line_activity)
        waiting: PendingIoctl | None = None
        kernel_waits = True
        try:
            while True:
                if kernel_waits and waiting is None:
                    waiting = self._ask(self._device.begin_line_wait, mask)
                event = changes_between(before, self._ask(self._device.line_activity), mask)
                if event is not None:
                    return event
                if time.monotonic() >= deadline:
                    self._time_out("no line changed", timeout)
                look = time.monotonic() + (LOOK_AGAIN_S if kernel_waits else LOOK_WITHOUT_WAIT_S)
                try:
                    if waiting is None:
                        self._nap(LOOK_WITHOUT_WAIT_S, deadline)
                    elif self._is_done(waiting, min(look, deadline)):
                        waiting.cancel()
                        waiting = None
                except UnsupportedFeatureError:
                    kernel_waits = False
                    if waiting is not None:
                        waiting.cancel()
                        waiting = None
                except Overdue:
                    continue
        finally:
            if waiting is not None:
                waiting.cancel()

    def _is_done(self, pending: PendingIoctl, deadline: float) -> bool:
        with self._noticing_close():
            if not self._halves.room.wait_for(pending.fileno(), deadline):
                return False
        self._ask(self._halves._finish_ioctl, pending)
        return True

    # ---- closing ---------------------------------------------------------------------------

    def close(self, *, timeout: float | None = None) -> None:
        """Close the port and put the tty back as it was found.

        Threads that wait on the port get :class:`SerialClosedError` at once. Output still in the
        driver's buffer gets up to 30 s, or *timeout* if that is less, to leave.
        """
        linger_until = min(deadline_after(timeout), time.monotonic() + CLOSE_LINGER_S)
        halves = self._halves
        if not halves._closed:
            halves._closed = True
            halves._read = halves._readinto = halves._write = halves._refuse
            halves.room.close(partial(closed_error, self.path))
        if threading.get_ident() in (self._receiver, self._sender):
            # A signal's handler, in the midst of this thread's own call: that finishes the work.
            self._interrupted_by_close = True
        else:
            self._finish_closing(linger_until)

    def _finish_closing(self, linger_until: float = 0) -> None:
        # Nobody uses the descriptor any more once both locks are held.
        with self._close_lock, self._receive_lock, self._send_lock:
            if self._discarded:
                return
            try:
                if not self._halves._gone:
                    self._linger(linger_until)
            finally:
                self._discard()

    def _linger(self, deadline: float) -> None:
        try:
            while (count := self._device.output_waiting()) and time.monotonic() < deadline:
                time.sleep(nap_for(count, self.config))
        except SerialError:
            return  # gone while closing: nothing is left to wait for

    def _discard(self) -> None:
        self._discarded = True
        _open_ports.discard(self)
        try:
            self._device.close()
        finally:
            self._halves.room.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        halves = getattr(self, "_halves", None)
        if halves is None or halves._closed:
            return
        halves._closed = True
        try:
            warnings.warn(
                f"serial port {self.path} was never closed; use 'with' or close()",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )
        finally:  # also where the warning is an error
            self._discard()

    # ---- shared ----------------------------------------------------------------------------

    def _ask(self, function: Callable[..., T], *args: object) -> T:
        self._halves._check_usable()
        with self._halves._noticing_disconnect():
            return function(*args)

    def _noticing_close(self) -> _NoticingClose:
        return _NoticingClose(self._halves)

    def _time_out(self, what: str, timeout: float | None) -> NoReturn:
        raise TimeoutError(f"{self.path}: {what} within {timeout} s") from None

    def _begin_anew_in_child(self) -> None:
        # Whatever other threads held or waited for stayed in the parent, and so must this
        # process's wake-ups: the old descriptor is shared with it.
        self._make_locks()
        self._halves.room.discard()
        self._halves.renew_room()
        self._halves._receiving = self._halves._sending = False
        self._halves.takes_question()
        if not self._halves._closed:
            self._device.forget_threads()
            self._halves.bind_device()


class _NoticingClose:
    """Tells of a closed port as its halves do. A class: a generator costs more to enter."""

    def __init__(self, halves: BlockingHalves) -> None:
        self._halves = halves

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, anyio.ClosedResourceError):
            self._halves._fail_closed(error)


_open_ports: weakref.WeakSet[SerialPort] = weakref.WeakSet()


def _begin_anew_in_child() -> None:
    for port in list(_open_ports):
        port._begin_anew_in_child()


os.register_at_fork(after_in_child=_begin_anew_in_child)


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that blocks where others suspend."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError(f"{coroutine!r} suspended without an event loop")
