"""The common base of serial devices without a tty: sockets, loops and simulated ports.

Such a device has bytes, a descriptor to wait for and perhaps control lines, but no driver. An
operation that it lacks raises :class:`UnsupportedFeatureError`, as on a driver that lacks it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import termios
import threading
from collections.abc import Callable
from dataclasses import fields
from socket import MSG_PEEK, socket
from typing import Any, NoReturn

from penstock.serial._tty.system_calls import PendingIoctl, descriptor_calls
from penstock.serial._values import (
    Capability,
    ControlLines,
    ErrorCounters,
    LineActivity,
    ModemLines,
    SerialCapabilities,
)
from penstock.serial.config import RS485Config, SerialConfig, apply_unsupported_policy
from penstock.serial.exceptions import (
    SerialError,
    UnsupportedFeatureError,
    closed_error,
    disconnected_error,
    errno_to_exception,
)

_INT = struct.Struct("i")
_COUNTED = (termios.TIOCM_CTS, termios.TIOCM_DSR, termios.TIOCM_RI, termios.TIOCM_CD)


def stream_capabilities(backend: str, *supported: str) -> SerialCapabilities:
    """Return capabilities with those in ``supported`` and no others."""
    known = {item.name for item in fields(SerialCapabilities)} - {"platform", "backend"}
    assert known.issuperset(supported)
    states = {
        name: Capability.SUPPORTED if name in supported else Capability.UNSUPPORTED
        for name in known
    }
    return SerialCapabilities(platform="linux", backend=backend, **states)


class LineEvents:
    """Counts of the changes of a device's modem lines, and the waits for such a change.

    For devices that report each change. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(_COUNTED, 0)
        self._waiting: list[_LineWait] = []

    def notify(self, bits: int) -> None:
        """Count a change of each line in ``bits`` (TIOCM_*), and end the waits for them."""
        with self._lock:
            for bit in _COUNTED:
                self._counts[bit] += bool(bits & bit)
            for wait in self._waiting:
                wait.wake(bits)

    def activity(self, lines: ModemLines) -> LineActivity:
        with self._lock:
            return LineActivity(_line_bits(lines), tuple(self._counts.values()))

    def begin_wait(self, mask: int) -> PendingIoctl:
        """Return a wait for the next change of a line in ``mask``."""
        wait = _LineWait(mask, self._forget)
        with self._lock:
            self._waiting.append(wait)
        return wait

    def end_waits(self) -> None:
        """End every wait: the device is gone."""
        with self._lock:
            for wait in self._waiting:
                wait.wake(~0)

    def forget_threads(self) -> None:
        """Replace the lock that a thread of the parent may hold. Only in a forked child."""
        self._lock = threading.Lock()

    def _forget(self, wait: _LineWait) -> None:
        with self._lock:
            if wait in self._waiting:
                self._waiting.remove(wait)
                wait.release()


class _LineWait:
    def __init__(self, mask: int, forget: Callable[[_LineWait], None]) -> None:
        self._mask = mask
        self._forget = forget
        self._event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    def wake(self, bits: int) -> None:
        if bits & self._mask:
            os.eventfd_write(self._event, 1)

    def release(self) -> None:
        os.close(self._event)

    def fileno(self) -> int:
        return self._event

    def finish(self) -> None:
        pass

    def cancel(self) -> None:
        self._forget(self)


class StreamBackend:
    """A SerialBackend that only holds settings; the base of devices that support more.

    A subclass sets ``read``, ``readinto`` and ``write`` and releases its own resources in
    :meth:`_release`. Thread-safe if the subclass is.
    """

    kind = "a stream"
    remedy = "do without it, or use a port that has it"
    is_plain_descriptor = False
    never_blocks = False
    read: Callable[[int], bytes]
    readinto: Callable[[memoryview], int]
    write: Callable[[bytes | memoryview], int]

    def __init__(self, path: str, config: SerialConfig, capabilities: SerialCapabilities) -> None:
        self._fd = -1
        self._mutex = threading.RLock()
        self.path = path
        self.capabilities = capabilities
        self._refuse_unsupported(config)
        self.config: SerialConfig = config

    def fileno(self) -> int:
        """Return the descriptor, -1 once closed."""
        return self._fd

    @property
    def actual_baudrate(self) -> int:
        return self.config.baudrate

    def configure(self, config: SerialConfig) -> None:
        self._check_open()
        self._refuse_unsupported(config)
        self.config = config

    def modem_lines(self) -> ModemLines:
        self._lacks("modem control lines")

    def control_lines(self) -> ControlLines:
        self._lacks("modem control lines")

    def set_control_lines(self, rts: bool | None, dtr: bool | None) -> None:
        self._lacks("modem control lines")

    def set_break(self, on: bool) -> None:
        self._lacks("a break")

    def input_waiting(self) -> int:
        self._lacks("counting its input")

    def output_waiting(self) -> int:
        self._check_open()
        return 0

    def discard_input(self) -> None:
        """Discard only what waits now, so that a peer that never pauses cannot block this call."""
        rest = self.input_waiting()
        try:
            while rest > 0 and (data := self.read(min(rest, 65_536))):
                rest -= len(data)
        except BlockingIOError:
            pass
        except OSError as exc:
            raise errno_to_exception(exc, context="io", path=self.path) from exc

    def discard_output(self) -> None:
        self._check_open()

    def transmitter_is_empty(self) -> bool | None:
        self._check_open()
        return True

    def begin_drain(self) -> PendingIoctl:
        """Never called, because :meth:`transmitter_is_empty` never returns None."""
        self._lacks("tcdrain")

    def error_counters(self) -> ErrorCounters:
        self._lacks("error counters")

    def line_activity(self) -> LineActivity:
        return LineActivity(_line_bits(self.modem_lines()), None)

    def begin_line_wait(self, mask: int) -> PendingIoctl:
        self._lacks("waiting for a modem line")

    def close(self) -> None:
        with self._mutex:
            if self._fd < 0:
                return
            self._fd = -1
            self._release()

    def forget_threads(self) -> None:
        """Replace the lock that a thread of the parent may hold. Only in a forked child."""
        self._mutex = threading.RLock()

    def __del__(self) -> None:
        # A device has no owner if its opener was cancelled between the thread and the task.
        if getattr(self, "_fd", -1) >= 0:
            self.close()

    def _release(self) -> None:
        """Close the device's resources; called once."""

    def _check_open(self) -> None:
        if self._fd < 0:
            raise closed_error(self.path)

    def _disconnected(self) -> NoReturn:
        raise disconnected_error(self.path)

    def _lacks(self, feature: str) -> NoReturn:
        self._check_open()
        raise UnsupportedFeatureError(
            errno.EOPNOTSUPP,
            f"{self.path}: {self.kind} does not support {feature}; {self.remedy}",
            self.path,
        )

    def _refuse_unsupported(self, config: SerialConfig) -> None:
        wishes: list[tuple[str, Any]] = [
            ("low-latency mode", config.low_latency),
            ("RS-485 mode", _wants_rs485(config.rs485)),
        ]
        for what, wanted in wishes:
            if wanted:
                apply_unsupported_policy(
                    config.unsupported_policy, self.path, f"{self.kind} has no {what}"
                )


class SocketBackend(StreamBackend):
    """A device whose bytes pass unchanged through one connected stream socket."""

    kind = "a socket"
    remedy = "do without it, or use rfc2217:// where the server speaks that"
    is_plain_descriptor = True

    def __init__(
        self, path: str, config: SerialConfig, capabilities: SerialCapabilities, sock: socket
    ) -> None:
        super().__init__(path, config, capabilities)
        sock.setblocking(False)
        self._socket = sock
        self._fd = fd = sock.fileno()
        self.read: Callable[[int], bytes]
        self.readinto: Callable[[memoryview], int]
        self.write: Callable[[bytes | memoryview], int]
        self.read, self.readinto, self.write = descriptor_calls(fd)

    def input_waiting(self) -> int:
        count = self._count(termios.FIONREAD)
        if not count:
            self._notice_end()
        return count

    def output_waiting(self) -> int:
        """Return how many bytes the peer's machine has not confirmed yet (SIOCOUTQ, tcp(7))."""
        return self._count(termios.TIOCOUTQ)  # SIOCOUTQ has the same number

    def _notice_end(self) -> None:
        # 0 bytes wait both from a silent peer and from one that has closed the connection.
        try:
            with self._mutex:
                self._check_open()
                has_left = not self._socket.recv(1, MSG_PEEK)
        except BlockingIOError:
            return
        except SerialError:
            raise
        except OSError as exc:
            raise errno_to_exception(exc, context="io", path=self.path) from exc
        if has_left:
            self._disconnected()

    def _count(self, request: int) -> int:
        with self._mutex:
            if self._fd < 0:
                raise closed_error(self.path)
            try:
                answer = fcntl.ioctl(self._fd, request, bytes(4))
            except OSError as exc:
                raise errno_to_exception(exc, context="io", path=self.path) from exc
        count: int = _INT.unpack(answer)[0]
        return count

    def _release(self) -> None:
        self._socket.close()


def _line_bits(lines: ModemLines) -> int:
    states = zip(_COUNTED, (lines.cts, lines.dsr, lines.ri, lines.cd), strict=True)
    return sum(bit for bit, state in states if state)


def _wants_rs485(config: RS485Config | None) -> bool:
    return config is not None and config.enabled
