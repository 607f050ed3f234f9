"""One open tty, without any event loop: open, configure, control lines, close.

Every method may block for as long as the driver takes: a USB adapter answers by control transfers,
a dead one after seconds. So the asynchronous port calls them in a worker thread. The exceptions are
``read``, ``readinto``, ``write``, the two counts and the two discards, which only access the
kernel's own buffers.

Opening asks the driver for its settings, sets its own, reads back what was accepted, and takes the
locks. What else there is to know or to switch waits until somebody asks for it. The extension makes
these calls at once, and those of closing. Where one fails, or a driver is emulated, they are made
here one by one, so that an error is always told by the same sentence.
"""

from __future__ import annotations

import errno
import os
import stat
import termios
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType

from penstock.serial._tty import system_calls
from penstock.serial._tty.driver_modes import LowLatency, RS485Mode
from penstock.serial._tty.exclusive import PortLock, busy_error, check_lock_file
from penstock.serial._tty.system_calls import PendingIoctl, begin_ioctl, descriptor_calls, is_pty
from penstock.serial._tty.termios2 import (
    LineSettings,
    raw_flags,
    refused_error,
    require_known_abi,
    settings_for,
    unmet_requests,
)
from penstock.serial._values import (
    Capability,
    ControlLines,
    ErrorCounters,
    LineActivity,
    ModemLines,
    SerialCapabilities,
)
from penstock.serial.config import SerialConfig, UnsupportedPolicy, apply_unsupported_policy
from penstock.serial.exceptions import (
    ErrorContext,
    SerialDisconnectedError,
    UnsupportedFeatureError,
    closed_error,
    errno_to_exception,
    not_a_tty_error,
)

_OPEN_FLAGS = os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC


class TtyDevice:
    """An open tty in raw mode. Thread-safe; every error is a SerialError."""

    is_plain_descriptor = True

    def __init__(self, path: str, config: SerialConfig) -> None:
        """Open and configure ``path``; on any error nothing stays open, locked or changed."""
        self._fd = -1
        require_known_abi()
        self.path = path
        if config.exclusive:
            check_lock_file(path)  # before it is opened, which raises the lines
        opened = _open_at_once(path, config)
        if opened is None:
            fd = _open(path)
            try:
                try:
                    found = system_calls.get_settings(fd)
                except OSError:
                    with _Errors("open", path):
                        raise
                self._has_wire = not is_pty(fd)
                self._lock = PortLock(fd, path, has_wire=self._has_wire)
                try:
                    self._lock.acquire(config.exclusive)
                except OSError:
                    with _Errors("lock", path):
                        raise
            except BaseException:
                os.close(fd)
                raise
            self._raw_settings = found
        else:
            fd, self._has_wire, found, asked, answered = opened
            self._lock = PortLock(fd, path, has_wire=self._has_wire, held=config.exclusive)
            self._raw_settings = answered
        self._fd = fd
        self._mutex = threading.RLock()
        self._break_on = False
        self._process = os.getpid()
        self._found = found
        self._low_latency: LowLatency | None = None
        self._rs485: RS485Mode | None = None
        self._capabilities: SerialCapabilities | None = None
        self.read, self.readinto, self.write = descriptor_calls(fd)
        try:
            self.config = config
            if opened is None:
                if config.initial_rts is not None or config.initial_dtr is not None:
                    # First: opening has just raised the lines, and the far end may take that for a
                    # reset until they have the requested state.
                    self.set_control_lines(config.initial_rts, config.initial_dtr)
                self._apply(config, exclusive_before=config.exclusive)
            else:
                if answered != asked:
                    self._check_answer(asked, answered)
                if config.low_latency or config.rs485 is not None:
                    self._apply_modes(config, [])
        except BaseException:
            self.close()
            raise

    @property
    def never_blocks(self) -> bool:
        """Whether no call waits for hardware: true on a pty without an emulated driver."""
        return not self._has_wire and not system_calls.driver_replaced()

    @property
    def capabilities(self) -> SerialCapabilities:
        """What the driver supports; the first look asks it, which may block as any method does."""
        if self._capabilities is None:
            with self._mutex:
                if self._capabilities is None:
                    self._capabilities = _capabilities_of(self._fd)
        return self._capabilities

    def fileno(self) -> int:
        """Return the descriptor, -1 once closed."""
        return self._fd

    @property
    def actual_baudrate(self) -> int:
        """The rate that the driver reported after the last configuration."""
        return LineSettings.unpack(self._raw_settings).output_rate

    def configure(self, config: SerialConfig) -> None:
        """Apply all of ``config``, or raise and leave everything as it was."""
        with self._open_descriptor():
            self._apply(config, exclusive_before=self.config.exclusive)
            self.config = config

    def modem_lines(self) -> ModemLines:
        with self._open_descriptor("modem control lines") as fd:
            bits = system_calls.get_lines(fd)
        return ModemLines(
            cts=bool(bits & termios.TIOCM_CTS),
            dsr=bool(bits & termios.TIOCM_DSR),
            ri=bool(bits & termios.TIOCM_RI),
            cd=bool(bits & termios.TIOCM_CD),
        )

    def control_lines(self) -> ControlLines:
        with self._open_descriptor("modem control lines") as fd:
            bits = system_calls.get_lines(fd)
        return ControlLines(rts=bool(bits & termios.TIOCM_RTS), dtr=bool(bits & termios.TIOCM_DTR))

    def set_control_lines(self, rts: bool | None, dtr: bool | None) -> None:
        up = down = 0
        for bit, state in ((termios.TIOCM_RTS, rts), (termios.TIOCM_DTR, dtr)):
            if state is True:
                up |= bit
            elif state is False:
                down |= bit
        with self._open_descriptor("modem control lines") as fd:
            if up:
                system_calls.raise_lines(fd, up)
            if down:
                system_calls.drop_lines(fd, down)

    def set_break(self, on: bool) -> None:
        with self._open_descriptor("a break") as fd:
            system_calls.set_break(fd, on)
            self._break_on = on

    def transmitter_is_empty(self) -> bool | None:
        """Return whether the last bit has left the chip; None if the driver cannot tell."""
        try:
            with self._open_descriptor() as fd:
                return system_calls.transmitter_is_empty(fd)
        except UnsupportedFeatureError:
            return None

    def error_counters(self) -> ErrorCounters:
        with self._open_descriptor("error counters") as fd:
            counts = system_calls.get_counters(fd)
        return ErrorCounters(
            received=counts[4],
            sent=counts[5],
            framing_errors=counts[6],
            overruns=counts[7],
            parity_errors=counts[8],
            breaks=counts[9],
            buffer_overruns=counts[10],
        )

    def line_activity(self) -> LineActivity:
        with self._open_descriptor("modem control lines") as fd:
            lines = system_calls.get_lines(fd)
        try:
            with self._open_descriptor() as fd:
                counts = system_calls.get_counters(fd)
        except UnsupportedFeatureError:
            return LineActivity(lines, None)
        errors = sum(counts[6:9]) + counts[10]
        return LineActivity(lines, counts[:4], errors=errors, breaks=counts[9])

    def begin_line_wait(self, mask: int) -> PendingIoctl:
        """Begin to wait in the kernel for a change of the lines in ``mask``."""
        with self._open_descriptor() as fd:
            return begin_ioctl(fd, system_calls.TIOCMIWAIT, mask)

    def begin_drain(self) -> PendingIoctl:
        """Begin to wait in the kernel until the last bit is on the wire (tcdrain)."""
        with self._open_descriptor() as fd:
            return begin_ioctl(fd, termios.TCSBRK, 1)

    def input_waiting(self) -> int:
        try:
            return system_calls.bytes_to_read(self._descriptor())
        except OSError:
            with _Errors("ioctl", self.path):
                raise

    def output_waiting(self) -> int:
        try:
            return system_calls.bytes_to_send(self._descriptor())
        except OSError:
            with _Errors("ioctl", self.path):
                raise

    def discard_input(self) -> None:
        with _Errors("ioctl", self.path):
            system_calls.discard_input(self._descriptor())

    def discard_output(self) -> None:
        with _Errors("ioctl", self.path):
            system_calls.discard_output(self._descriptor())

    def close(self) -> None:
        """Restore the settings that the tty had before, and close it. Discards unsent output.

        Otherwise close(2) would wait for that output, up to the driver's closing_wait of 30 s. A
        caller that wants it sent waits for it first. Does not raise if the device is gone.
        """
        with self._mutex:
            fd, self._fd = self._fd, -1
            if fd < 0:
                return
            if os.getpid() != self._process:
                # A forked child: locks and settings belong to the parent, which still uses them.
                os.close(fd)
                return
            if self._capabilities is None and (self._has_wire or system_calls.driver_replaced()):
                # A closed port still tells them, and then there is no driver to ask any more.
                self._capabilities = _capabilities_of(fd)
            changed_modes = self._break_on or self._low_latency or self._rs485
            if system_calls.native_close is None or changed_modes or system_calls.driver_replaced():
                # If a failing device refuses one step, the next ones still have to be done.
                for step in self._closing_steps:
                    try:
                        step(self, fd)
                    except OSError as exc:
                        self._report_unrestored(exc)
                os.close(fd)
                return
            exclusive = self._lock.give_up()
            for number in system_calls.native_close(fd, self._settings_to_leave(), exclusive):
                self._report_unrestored(OSError(number, os.strerror(number)))

    def forget_threads(self) -> None:
        """Replace the locks that threads of the parent may hold. Only in a forked child."""
        self._mutex = threading.RLock()

    def __del__(self) -> None:
        # A device has no owner if its opener was cancelled between the thread and the task.
        if getattr(self, "_fd", -1) >= 0:
            self.close()

    def _report_unrestored(self, exc: OSError) -> None:
        mapped = errno_to_exception(exc, context="ioctl", path=self.path)
        if not isinstance(mapped, SerialDisconnectedError):
            warnings.warn(
                f"{self.path}: the previous settings could not be restored ({mapped.strerror})",
                RuntimeWarning,
                stacklevel=3,
            )

    def _end_break(self, fd: int) -> None:
        if self._break_on:
            system_calls.set_break(fd, False)

    def _discard_unsent(self, fd: int) -> None:
        # Only if there is any: on a pty a discard also removes bytes that count as sent and that
        # the other end has not read yet.
        if system_calls.bytes_to_send(fd):
            system_calls.discard_output(fd)

    def _restore(self, fd: int) -> None:
        if not self._lock.is_alone():
            return
        try:
            if self._rs485 is not None:
                self._rs485.restore()
            if self._low_latency is not None:
                self._low_latency.restore()
        finally:
            system_calls.set_settings(fd, self._settings_to_leave())

    def _settings_to_leave(self) -> bytes:
        if not self._has_wire:
            return self._found
        # HUPCL takes effect at the last close of the tty, so it is not restored.
        return LineSettings.unpack(self._found).with_hangup(self.config.hangup_on_close).pack()

    def _release_lock(self, fd: int) -> None:
        self._lock.release()

    _closing_steps = (_end_break, _discard_unsent, _restore, _release_lock)

    def _apply(self, config: SerialConfig, *, exclusive_before: bool) -> None:
        before = self._raw_settings
        asked = settings_for(config, LineSettings.unpack(before), self.path).pack()
        undo: list[Callable[[], object]] = [partial(self._undo_settings, before)]
        with _Errors("ioctl", self.path):
            try:
                system_calls.set_settings(self._fd, asked)
                answered = system_calls.get_settings(self._fd)
                if answered != asked:
                    self._check_answer(asked, answered)
                self._raw_settings = answered

                if config.exclusive is not self._lock.is_exclusive:
                    undo.append(partial(self._lock.acquire, exclusive_before))
                    with _Errors("lock", self.path):
                        self._lock.acquire(config.exclusive)

                self._apply_modes(config, undo)
            except BaseException:
                with ExitStack() as stack:
                    for step in undo:
                        stack.callback(step)
                    raise

    def _check_answer(self, asked: bytes, answered: bytes) -> None:
        wanted, actual = LineSettings.unpack(asked), LineSettings.unpack(answered)
        unmet = unmet_requests(wanted, actual, has_wire=self._has_wire)
        if unmet:
            raise refused_error(self.path, unmet)

    def _apply_modes(self, config: SerialConfig, undo: list[Callable[[], object]]) -> None:
        with _Errors("ioctl", self.path):
            if config.low_latency or self._low_latency is not None:
                self._apply_low_latency(config, undo)
            if config.rs485 is not None or self._rs485 is not None:
                self._apply_rs485(config, undo)

    def _apply_low_latency(self, config: SerialConfig, undo: list[Callable[[], object]]) -> None:
        mode = self._low_latency = self._low_latency or LowLatency(self._fd, self.path)
        undo.append(partial(mode.set, mode.active))
        with _optional(config.unsupported_policy, "low-latency mode", self.path):
            mode.set(config.low_latency)

    def _apply_rs485(self, config: SerialConfig, undo: list[Callable[[], object]]) -> None:
        mode = self._rs485 = self._rs485 or RS485Mode(self._fd, self.path)
        undo.append(partial(mode.set, mode.active))
        with _optional(config.unsupported_policy, "RS-485 mode", self.path):
            mode.set(config.rs485)

    def _undo_settings(self, before: bytes) -> None:
        system_calls.set_settings(self._fd, before)
        self._raw_settings = before

    def _descriptor(self) -> int:
        if self._fd < 0:
            raise closed_error(self.path)
        return self._fd

    @contextmanager
    def _open_descriptor(self, feature: str = "") -> Iterator[int]:
        # While the mutex is held, close() cannot release the number to another file.
        with self._mutex:
            fd = self._descriptor()
            try:
                with _Errors("ioctl", self.path):
                    yield fd
            except UnsupportedFeatureError as exc:
                if not feature:
                    raise
                raise UnsupportedFeatureError(
                    exc.errno,
                    f"{self.path}: the driver does not support {feature}; do without it, or use "
                    "an adapter that has it",
                    self.path,
                ) from exc


class _Errors:
    """Turns an OSError into this package's. A class, because a generator costs four times more."""

    __slots__ = ("_context", "_path")

    def __init__(self, context: ErrorContext, path: str) -> None:
        self._context = context
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, OSError):
            mapped = errno_to_exception(error, context=self._context, path=self._path)
            if mapped is not error:
                raise mapped from error


def _open_at_once(path: str, config: SerialConfig) -> system_calls.OpenTty | None:
    """Open, lock and configure by one native call; None where that is not possible."""
    if system_calls.native_open is None or system_calls.driver_replaced():
        return None
    if config.initial_rts is not None or config.initial_dtr is not None:
        return None  # the lines come before the settings
    try:
        input_flags, control_flags = raw_flags(config, path)
    except UnsupportedFeatureError:
        return None  # the path may be wrong too, and that is the first thing to tell
    return system_calls.native_open(
        path, input_flags, control_flags, config.baudrate, config.exclusive
    )


def _open(path: str) -> int:
    try:
        # Opening another kind of file can have effects (a FIFO blocks, a watchdog starts).
        if not stat.S_ISCHR(os.stat(path).st_mode):
            raise not_a_tty_error(path)
        return os.open(path, _OPEN_FLAGS)
    except OSError as exc:
        if exc.errno == errno.EBUSY:
            raise busy_error(path) from exc
        mapped = errno_to_exception(exc, context="open", path=path)
        if mapped is exc:
            raise
        raise mapped from exc


@contextmanager
def _optional(policy: UnsupportedPolicy, what: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        mapped = errno_to_exception(exc, context="ioctl", path=path)
        if not isinstance(mapped, UnsupportedFeatureError):
            raise
        missing = f"its driver has no {what}"
        if isinstance(mapped.__cause__, OSError) and not isinstance(
            mapped.__cause__, PermissionError
        ):
            # Only the kernel's short reason: the error's sentence would name the port again.
            sentence = f"{path}: {missing} ({os.strerror(mapped.errno or 0)}); leave it out,"
        else:
            sentence = f"{mapped};"
        sentence += " or set unsupported_policy to WARN or IGNORE"
        error = UnsupportedFeatureError(mapped.errno, sentence, path)
        error.__cause__ = exc
        apply_unsupported_policy(policy, path, missing, error=error)


def _capabilities_of(fd: int) -> SerialCapabilities:
    """Ask the driver of ``fd``; -1 stands for a closed pty, which has none of what is asked."""
    yes, no = Capability.SUPPORTED, Capability.UNSUPPORTED
    return SerialCapabilities(
        platform="linux",
        backend="termios2",
        custom_baudrate=yes,
        mark_space_parity=yes,
        one_point_five_stop_bits=no,
        xon_xoff=yes,
        rts_cts=yes,
        dtr_dsr=no,
        modem_lines=_probe(system_calls.get_lines, fd),
        break_signal=yes,
        exclusive_access=yes,
        low_latency=_probe(system_calls.get_driver_flags, fd),
        rs485=_probe(system_calls.get_rs485, fd),
        input_waiting=yes,
        output_waiting=yes,
        port_discovery=yes if Path("/sys/class/tty").is_dir() else no,
    )


def _probe(query: Callable[[int], object], fd: int) -> Capability:
    if fd < 0:
        return Capability.UNSUPPORTED
    try:
        query(fd)
    except OSError as exc:
        lacking = exc.errno in (errno.ENOTTY, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
        return Capability.UNSUPPORTED if lacking else Capability.UNKNOWN
    return Capability.SUPPORTED
