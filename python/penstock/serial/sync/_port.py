"""A serial port whose calls block, made of the asynchronous port's operations."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar, overload

import anyio
from anyio import TypedAttributeProvider

from penstock._lasting_timer import LastingTimer
from penstock.serial._blocking import (
    FOREVER,
    BlockingDevice,
    BlockingWaiter,
    Half,
    Overdue,
    deadline_after,
    run,
)
from penstock.serial._devices.backend import SerialBackend, require_backend
from penstock.serial._devices.open import open_device
from penstock.serial._port.control import PortOperations, line_mask
from penstock.serial._port.receive import LARGEST_READ, READ_AT_ONCE, MarkedBytes, byte_count
from penstock.serial._port.send import CLOSE_LINGER_S, as_bytes
from penstock.serial._port.state import PortFacts
from penstock.serial._values import (
    BytesLike,
    CommEvent,
    ControlLines,
    ErrorCounters,
    ModemLines,
    PortInfo,
)
from penstock.serial.config import SerialConfig

T = TypeVar("T")


class BlockingOperations(BlockingDevice, PortOperations, TypedAttributeProvider):
    """The operations of a port, as coroutines that block instead of suspending.

    The thread that holds a half sets its deadline by :meth:`limit`.
    """

    def __init__(self, device: SerialBackend, port_info: PortInfo | None) -> None:
        BlockingDevice.__init__(self, device, threading.Lock, halves_share_wake_up=True)
        PortOperations.__init__(self, device, port_info)
        self._use_halves()

    def _use_halves(self) -> None:
        self._readiness = self.readiness = _BlockingReadiness(self.receiving, self.sending)
        self._yield = self.readiness.checkpoint
        self._waiter = self.send_waiter = self.waiter_until(FOREVER)

    def waiter_until(self, deadline: float) -> BlockingWaiter:
        """Return a waiter that closing the port wakes up."""
        return BlockingWaiter(self.sending.wake, deadline)

    def limit(self, half: Half, deadline: float) -> None:
        """Set the deadline of the operation that the holder of ``half`` runs next."""
        if half is self.receiving:
            self.readiness.read_deadline = deadline
        else:
            self.readiness.write_deadline = self.send_waiter.deadline = deadline

    def refuse_further_use(self) -> None:
        """Let every call but closing raise :class:`SerialClosedError`."""
        if not self._closed:
            self._closed = True
            self._refuse_further_calls()
            self._yield = self.readiness.checkpoint

    def reset_in_child(self) -> None:
        super().reset_in_child()
        self._use_halves()
        self._receiving = self._sending = False
        self._answer_is_due = False
        if not self._closed:
            self.bind_device()


class _BlockingReadiness:
    """The blocking counterpart of :class:`AsyncioReadiness`."""

    def __init__(self, receiving: Half, sending: Half) -> None:
        self._receiving = receiving
        self._sending = sending
        self.read_deadline = FOREVER
        self.write_deadline = FOREVER
        self.checkpoint: Callable[[], Awaitable[None]] = _no_checkpoint
        self.deadline: LastingTimer | None = None

    def is_current(self) -> bool:
        return True

    async def read(self, attempt: Callable[[], T], keep: Callable[[T], None]) -> T:
        while ready := self._receiving.wait.until(self.read_deadline):
            try:
                return attempt()
            except BlockingIOError:
                continue
        if ready is None:
            raise anyio.ClosedResourceError
        raise Overdue

    async def write(self, write: Callable[[memoryview], int], data: memoryview) -> None:
        if self._sending.write(write, data, self.write_deadline):
            raise anyio.ClosedResourceError

    def discard_read(self) -> None:
        """Do nothing: no attempt is made on behalf of another thread."""

    def close(self, reason: Callable[[], BaseException]) -> None:
        """Do nothing: closing the device sets the wake-up."""

    def abandon(self, close: Callable[[], None]) -> None:
        close()


async def _no_checkpoint() -> None:
    pass


D = TypeVar("D")

_NO_DEFAULT = object()


class SerialPort(PortFacts):
    """An open serial port without an event loop; get one from :func:`open_serial_port`.

    The methods are those of :class:`penstock.serial.SerialPort`, with the same errors.

    Thread safety: usable from any thread, and in a forked child. One thread may receive while
    another sends; a second receiver or sender gets :class:`anyio.BusyResourceError`.
    :meth:`close`, from any thread or signal handler, wakes waiting threads with
    :class:`SerialClosedError`.

    ``timeout`` is in seconds; None waits forever. When it expires, :class:`TimeoutError` is
    raised. Received bytes are then not lost, and the error of a send says how much was sent. A
    driver that has been called (settings, lines, counts, discards) cannot be interrupted: those
    methods return when it answers, whatever the ``timeout``.
    """

    def __init__(
        self, backend: SerialBackend, config: SerialConfig, *, port_info: PortInfo | None = None
    ) -> None:
        """Wrap an open ``backend``, already configured with ``config``."""
        require_backend(backend)
        backend.config = config
        super().__init__(backend, port_info)
        self._operations = BlockingOperations(backend, port_info)

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
        """Open ``path`` with ``config``, or with ``SerialConfig(**config_fields)``.

        Raises:
            ValueError: Both are given.
            SerialError: As :func:`penstock.serial.open_serial_port`.
        """
        if config is not None and config_fields:
            raise ValueError("give either a config or its fields, not both")
        deadline_after(timeout)
        wanted = SerialConfig(**config_fields) if config is None else config
        device, description = open_device(path, wanted)
        port = cls(device, device.config)
        port._operations._description = description
        return port

    @property
    def is_open(self) -> bool:
        """False once the port was closed or the device was found to be gone."""
        return self._operations.is_open

    @property
    def port_info(self) -> PortInfo | None:
        """What the system knows of the device, as the asynchronous port's."""
        return self._operations.port_info

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The typed attributes, as the asynchronous port's."""
        return self._operations.extra_attributes

    @overload
    def extra(self, attribute: T) -> T: ...
    @overload
    def extra(self, attribute: T, default: D) -> T | D: ...
    def extra(self, attribute: Any, default: Any = _NO_DEFAULT) -> Any:
        """Return a typed attribute, as the asynchronous port's ``extra`` does."""
        if default is _NO_DEFAULT:
            return self._operations.extra(attribute)
        return self._operations.extra(attribute, default)

    # ---- receiving -------------------------------------------------------------------------

    def receive(self, max_bytes: int = LARGEST_READ, *, timeout: float | None = None) -> bytes:
        """Return the bytes that have arrived, 1 to ``max_bytes``; wait for the first one."""
        operations = self._operations
        if max_bytes.__class__ is not int or max_bytes < 1:
            max_bytes = byte_count("max_bytes", max_bytes)
        if operations._kept or operations._marking:
            return self._receive(operations.receive(max_bytes), timeout)
        # Not through _receive: this is the path of every reply, and its time is the reply's.
        deadline = deadline_after(timeout)
        half = operations.receiving
        if not half.lock.acquire(blocking=False):
            raise anyio.BusyResourceError("receiving from")
        half.holder = threading.get_ident()
        try:
            size = max_bytes if max_bytes < READ_AT_ONCE else READ_AT_ONCE
            wait_first = operations.take_expectation()
            while True:
                if wait_first:
                    ready = half.wait.until(deadline)
                    if ready is None:
                        raise anyio.ClosedResourceError
                    if not ready:
                        self._time_out("nothing was received", timeout)
                wait_first = True
                try:
                    data = operations._read(size)
                except BlockingIOError:
                    continue
                except OSError as exc:
                    operations._fail(exc)
                if not data:
                    operations._fail_disconnected()
                return data
        except anyio.ClosedResourceError as exc:
            operations._fail_closed(exc)
        finally:
            half.holder = 0
            half.lock.release()
            if operations.close_deferred:
                operations.finish_closing()

    def receive_into(self, buffer: bytearray | memoryview, *, timeout: float | None = None) -> int:
        """Receive into ``buffer``; return the count, 1 to its length."""
        return self._receive(self._operations.receive_into(buffer), timeout)

    def receive_available(self, *, limit: int | None = None, timeout: float | None = None) -> bytes:
        """Return the result of one read(2), at most ``limit`` bytes; wait for the first byte."""
        return self._receive(self._operations.receive_available(limit=limit), timeout)

    def receive_exactly(self, nbytes: int, *, timeout: float | None = None) -> bytes:
        """Return exactly ``nbytes`` bytes; after a time-out the next receive gets what arrived."""
        return self._receive(self._operations.receive_exactly(nbytes), timeout)

    def receive_until(
        self, delimiter: bytes, max_bytes: int = LARGEST_READ, *, timeout: float | None = None
    ) -> bytes:
        """Return the bytes before ``delimiter``, which is removed from the stream."""
        return self._receive(self._operations.receive_until(delimiter, max_bytes), timeout)

    def receive_marked(
        self, max_bytes: int = LARGEST_READ, *, timeout: float | None = None
    ) -> MarkedBytes:
        """Receive, and report which characters arrived damaged; needs ``mark_errors=True``."""
        return self._receive(self._operations.receive_marked(max_bytes), timeout)

    def input_waiting(self) -> int:
        """Return how many bytes can be received without waiting."""
        return self._operations.input_waiting()

    def reset_input_buffer(self, *, timeout: float | None = None) -> None:
        """Discard everything received and not yet read."""
        self._call(self._operations.reset_input_buffer(), timeout)

    def _receive(self, receiving: Coroutine[Any, Any, T], timeout: float | None) -> T:
        half = self._operations.receiving
        return self._run_in(half, receiving, timeout, lambda unsent: "not enough was received")

    def _run_in(
        self,
        half: Half,
        operation: Coroutine[Any, Any, T],
        timeout: float | None,
        overdue: Callable[[int], str],
    ) -> T:
        """Run an operation of one half; ``overdue`` makes the text of a timeout."""
        operations = self._operations
        if not half.lock.acquire(blocking=False):
            operation.close()
            receives = half is operations.receiving
            raise anyio.BusyResourceError("receiving from" if receives else "sending to")
        half.holder = threading.get_ident()
        try:
            operations.limit(half, deadline_after(timeout))
            return run(operation)
        except Overdue as exc:
            self._time_out(overdue(exc.unsent), timeout)
        finally:
            operation.close()
            half.holder = 0
            half.lock.release()
            if operations.close_deferred:
                operations.finish_closing()

    # ---- sending ---------------------------------------------------------------------------

    def send(self, item: bytes, *, timeout: float | None = None) -> None:
        """Hand all of ``item`` to the driver; returns before the last bit is on the wire."""
        data = item if type(item) is bytes else as_bytes(item)
        operations = self._operations
        length = len(data)
        mode = operations._switched_by
        if mode is not None or not data:
            self._send(
                operations._send_switched(data, mode)
                if mode is not None and data
                else operations._send_empty(),
                timeout,
                lambda unsent: f"{length - unsent} of {length} bytes were sent",
            )
            return
        # Not through _send, as in receive(): the time between the system call and the wait for
        # the answer is spent while the answer is on its way.
        deadline = deadline_after(timeout)
        half = operations.sending
        if not half.lock.acquire(blocking=False):
            raise anyio.BusyResourceError("sending to")
        half.holder = threading.get_ident()
        try:
            sent = operations._write_now(data)
            if sent != length:
                operations.readiness.write_deadline = deadline
                run(operations._send_all(memoryview(data)[sent:]))
            operations.expect_answer()
        except Overdue as exc:
            self._time_out(f"{length - exc.unsent} of {length} bytes were sent", timeout)
        finally:
            half.holder = 0
            half.lock.release()
            if operations.close_deferred:
                operations.finish_closing()

    def send_buffer(self, data: BytesLike, *, timeout: float | None = None) -> None:
        """Send any bytes-like object: as :meth:`send`. Strided views are copied first."""
        self.send(as_bytes(data), timeout=timeout)

    def send_eof(self, *, timeout: float | None = None) -> None:
        """Wait until the output buffer is empty. A serial line has no end to tell the peer."""
        if not self._operations._closed:
            self.drain(timeout=timeout)

    def drain(self, *, timeout: float | None = None) -> None:
        """Wait until the driver's buffer is empty; the chip's FIFO may still hold bytes."""
        self._send(self._operations.drain(), timeout)

    def drain_exact(self, *, timeout: float | None = None) -> None:
        """Wait until the last bit is on the wire."""
        self._send(self._operations.drain_exact(), timeout)

    def output_waiting(self) -> int:
        """Return how many bytes wait in the driver's buffer to be sent."""
        return self._operations.output_waiting()

    def reset_output_buffer(self, *, timeout: float | None = None) -> None:
        """Discard everything sent and not yet on the wire."""
        self._call(self._operations.reset_output_buffer(), timeout)

    def send_break(self, duration: float = 0.25, *, timeout: float | None = None) -> None:
        """Hold the line in the break state for ``duration`` seconds, at most for ``timeout``."""
        sending = self._operations.send_break(duration)
        deadline = deadline_after(timeout)
        cut_short = deadline < time.monotonic() + duration
        self._send(sending, timeout, lambda unsent: "the break was cut short")
        if cut_short:
            self._time_out("the break was cut short", timeout)

    def _send(
        self,
        sending: Coroutine[Any, Any, None],
        timeout: float | None,
        overdue: Callable[[int], str] = lambda unsent: "output is still waiting",
    ) -> None:
        self._run_in(self._operations.sending, sending, timeout, overdue)

    # ---- settings and lines ----------------------------------------------------------------

    def configure(self, config: SerialConfig, *, timeout: float | None = None) -> None:
        """Apply all of ``config``; on any error the previous settings are in force again."""
        self._call(self._operations.configure(config), timeout)

    def modem_lines(self, *, timeout: float | None = None) -> ModemLines:
        """Return the lines that the other side drives."""
        return self._call(self._operations.modem_lines(), timeout)

    def control_lines(self, *, timeout: float | None = None) -> ControlLines:
        """Return RTS and DTR as the driver reports them."""
        return self._call(self._operations.control_lines(), timeout)

    def set_control_lines(
        self, *, rts: bool | None = None, dtr: bool | None = None, timeout: float | None = None
    ) -> None:
        """Assert (True), release (False) or leave alone (None) RTS and DTR."""
        self._call(self._operations.set_control_lines(rts=rts, dtr=dtr), timeout)

    def error_counters(self, *, timeout: float | None = None) -> ErrorCounters:
        """Return the driver's counts of bytes and of receive errors, since it was loaded."""
        return self._call(self._operations.error_counters(), timeout)

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
        waiter = self._operations.waiter_until(deadline_after(timeout))
        try:
            return run(self._operations._wait_for_line_change(mask, waiter))
        except Overdue:
            self._time_out("no line changed", timeout)

    def _call(self, operation: Coroutine[Any, Any, T], timeout: float | None) -> T:
        """Run an operation that needs neither half. It does not wait: ``timeout`` is checked."""
        try:
            deadline_after(timeout)
            return run(operation)
        finally:
            operation.close()

    # ---- closing ---------------------------------------------------------------------------

    def close(self, *, timeout: float | None = None) -> None:
        """Close the port and restore the settings that the tty had before.

        Threads that wait on the port get :class:`SerialClosedError` at once. Waits up to 30 s, or
        ``timeout`` if that is less, until the driver has sent its output, and discards the rest.
        """
        linger_until = min(deadline_after(timeout), time.monotonic() + CLOSE_LINGER_S)
        operations = self._operations
        operations.refuse_further_use()
        if operations._gone:
            operations.abandon_output()  # nothing of it can leave any more
        operations.close(linger_until)

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
        operations = getattr(self, "_operations", None)
        if operations is None or operations._closed:
            return
        operations._closed = True
        try:
            warnings.warn(
                f"serial port {self.path} was never closed; use 'with' or close()",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )
        finally:  # also where the warning is an error
            operations.release()

    def _time_out(self, what: str, timeout: float | None) -> NoReturn:
        raise TimeoutError(f"{self.path}: {what} within {timeout} s") from None


def open_serial_port(
    path: str, config: SerialConfig | None = None, *, timeout: float | None = None
) -> SerialPort:
    """Open ``path``, a tty or a URL; raises as :func:`penstock.serial.open_serial_port`.

    ``timeout`` is accepted for symmetry: opening a tty does not wait, and a URL has its own limit.
    """
    return SerialPort.open(path, config, timeout=timeout)


@dataclass(init=False)
class SerialConnectable:
    """A port to open later."""

    path: str
    config: SerialConfig

    def __init__(self, *, path: str, config: SerialConfig | None = None) -> None:
        self.path = path
        self.config = SerialConfig() if config is None else config

    def connect(self, *, timeout: float | None = None) -> SerialPort:
        """Open the port; raises as :func:`open_serial_port`."""
        return open_serial_port(self.path, self.config, timeout=timeout)


def configure_portal(
    *, backend: str = "asyncio", backend_options: Mapping[str, Any] | None = None
) -> None:
    """Do nothing: there is no event loop behind these ports to choose.

    It exists so that a program written for a library with one runs unchanged.
    """
