"""``spy://PORT?file=LOG``: a port with a log of its traffic.

``PORT`` is a path or another URL. Options: ``file`` (appended to; standard error without it),
``raw`` (the bytes themselves instead of a dump), ``color``, ``all`` (queries of the port's state
are logged too). ``timeout`` and others belong to the inner URL and are written percent-encoded
(``spy://socket://lab:4001%3Ftimeout=2?file=log``).

A line of the log::

    000002.469 TX   0000  48 45 4C 4C 4F                                    HELLO
"""

from __future__ import annotations

import errno
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any
from urllib.parse import parse_qsl, unquote

from penstock.serial._devices.backend import SerialBackend
from penstock.serial._tty.system_calls import PendingIoctl
from penstock.serial._values import (
    ControlLines,
    ErrorCounters,
    LineActivity,
    ModemLines,
    SerialCapabilities,
)
from penstock.serial.config import SerialConfig
from penstock.serial.exceptions import ConfigurationError

_FORM = "spy://PORT?file=LOG, with &raw, &color or &all"
_OPTIONS = frozenset({"file", "raw", "color", "all"})
_COLORS = {"RX": "\x1b[32m", "TX": "\x1b[31m"}
_OTHER_COLOR = "\x1b[36m"
_PLAIN = "\x1b[0m"
_ROW = 16


def open_spy(
    path: str, config: SerialConfig, open_inner: Callable[[str, SerialConfig], SerialBackend]
) -> SpyBackend:
    """Open the inner port by ``open_inner``, and the log; on an error neither stays open."""
    inner, _, query = path.partition("://")[2].partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    inner = unquote(inner)
    unknown = ", ".join(sorted(set(options) - _OPTIONS))
    if unknown or not inner:
        reason = f"unknown option {unknown}" if unknown else "it names no port"
        raise ConfigurationError(errno.EINVAL, f"{path}: {reason}; write it as {_FORM}", path)
    backend = open_inner(inner, config)
    try:
        log = _open_log(path, options)
    except BaseException:
        backend.close()
        raise
    return SpyBackend(path, backend, log)


def _open_log(path: str, options: dict[str, str]) -> TrafficLog:
    settings = {
        "raw": "raw" in options,
        "color": "color" in options,
        "everything": "all" in options,
    }
    name = options.get("file")
    if not name:
        return TrafficLog(sys.stderr.buffer, owned=False, **settings)
    try:
        # Unbuffered: a log that is read while the port is open must be complete.
        return TrafficLog(open(name, "ab", buffering=0), owned=True, **settings)
    except OSError as exc:
        raise ConfigurationError(
            exc.errno or 0,
            f"{path}: cannot write the log {name} ({exc.strerror}); name a file that you may "
            "write, in a folder that is there, as ?file=LOG",
            path,
        ) from exc


def hex_dump(data: bytes) -> Iterator[str]:
    """Yield rows of ``offset  16 bytes in hexadecimal  the same as text``."""
    for offset in range(0, len(data), _ROW):
        row = data[offset : offset + _ROW]
        left, right = row[: _ROW // 2].hex(" ").upper(), row[_ROW // 2 :].hex(" ").upper()
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{offset:04X}  {left:<23}  {right:<23}  {text}"


class TrafficLog:
    """Where a spy writes. Thread-safe. A log that cannot be written ends; the port continues."""

    def __init__(
        self,
        file: IO[bytes],
        *,
        owned: bool,
        raw: bool = False,
        color: bool = False,
        everything: bool = False,
    ) -> None:
        self._file: IO[bytes] | None = file
        self._owned = owned
        self._raw = raw
        self._color = color
        self._everything = everything
        self._start = time.monotonic()
        self._lock = threading.Lock()

    def data(self, direction: str, data: bytes | memoryview) -> None:
        """Log bytes; ``direction`` is RX or TX."""
        content = bytes(data)
        if self._raw:
            self._write(self._painted(direction, content))
            return
        for row in hex_dump(content):
            self._line(direction, row)

    def forget_threads(self) -> None:
        """Replace the lock that a thread of the parent may hold. Only in a forked child."""
        self._lock = threading.Lock()

    def event(self, name: str, text: str, *, query: bool = False) -> None:
        """Log an operation on the port; a query only if everything is to be logged."""
        if not self._raw and (self._everything or not query):
            self._line(name, text)

    def close(self) -> None:
        with self._lock:
            file, self._file = self._file, None
        if file is not None and self._owned:
            file.close()

    def _line(self, name: str, text: str) -> None:
        line = f"{time.monotonic() - self._start:010.3f} {name:<4} {text}"
        self._write(self._painted(name, line.encode()) + b"\n")

    def _painted(self, name: str, content: bytes) -> bytes:
        if not self._color:
            return content
        return _COLORS.get(name, _OTHER_COLOR).encode() + content + _PLAIN.encode()

    def _write(self, content: bytes) -> None:
        with self._lock:
            if self._file is None:
                return
            try:
                self._file.write(content)
                self._file.flush()
            except (OSError, ValueError) as exc:
                self._file = None
                print(
                    f"penstock: the spy's log cannot be written and ends here: {exc}",
                    file=sys.stderr,
                )


class SpyBackend:
    """A backend that passes every call on to another one and logs it."""

    is_plain_descriptor = False
    never_blocks = False

    def __init__(self, path: str, inner: SerialBackend, log: TrafficLog) -> None:
        self.path = path
        self._inner = inner
        self._log = log
        self.read: Callable[[int], bytes] = self._read
        self.readinto: Callable[[memoryview], int] = self._readinto
        self.write: Callable[[bytes | memoryview], int] = self._write

    def __getattr__(self, name: str) -> Any:
        # Calls that need no line of their own, and those that backends may gain later.
        return getattr(self._inner, name)

    def forget_threads(self) -> None:
        """Replace the locks that threads of the parent may hold. Only in a forked child."""
        self._log.forget_threads()
        self._inner.forget_threads()

    @property
    def config(self) -> SerialConfig:
        return self._inner.config

    @config.setter
    def config(self, config: SerialConfig) -> None:
        self._inner.config = config

    @property
    def capabilities(self) -> SerialCapabilities:
        return self._inner.capabilities

    @property
    def actual_baudrate(self) -> int:
        return self._inner.actual_baudrate

    def _read(self, size: int) -> bytes:
        data = self._inner.read(size)
        self._log.data("RX", data)
        return data

    def _readinto(self, buffer: memoryview) -> int:
        count = self._inner.readinto(buffer)
        self._log.data("RX", buffer[:count])
        return count

    def _write(self, data: bytes | memoryview) -> int:
        count = self._inner.write(data)
        self._log.data("TX", data[:count])
        return count

    def fileno(self) -> int:
        return self._inner.fileno()

    def configure(self, config: SerialConfig) -> None:
        self._log.event("CONF", f"{config.baudrate} baud")
        self._inner.configure(config)

    def modem_lines(self) -> ModemLines:
        lines = self._inner.modem_lines()
        for name in ("cts", "dsr", "ri", "cd"):
            self._log.event(name.upper(), _level(getattr(lines, name)), query=True)
        return lines

    def control_lines(self) -> ControlLines:
        return self._inner.control_lines()

    def set_control_lines(self, rts: bool | None, dtr: bool | None) -> None:
        for name, state in (("RTS", rts), ("DTR", dtr)):
            if state is not None:
                self._log.event(name, _level(state))
        self._inner.set_control_lines(rts, dtr)

    def set_break(self, on: bool) -> None:
        self._log.event("BRK", _level(on))
        self._inner.set_break(on)

    def input_waiting(self) -> int:
        count = self._inner.input_waiting()
        self._log.event("Q-RX", f"input_waiting {count}", query=True)
        return count

    def output_waiting(self) -> int:
        count = self._inner.output_waiting()
        self._log.event("Q-TX", f"output_waiting {count}", query=True)
        return count

    def discard_input(self) -> None:
        self._log.event("Q-RX", "discard input")
        self._inner.discard_input()

    def discard_output(self) -> None:
        self._log.event("Q-TX", "discard output")
        self._inner.discard_output()

    def transmitter_is_empty(self) -> bool | None:
        return self._inner.transmitter_is_empty()

    def error_counters(self) -> ErrorCounters:
        return self._inner.error_counters()

    def line_activity(self) -> LineActivity:
        return self._inner.line_activity()

    def begin_line_wait(self, mask: int) -> PendingIoctl:
        return self._inner.begin_line_wait(mask)

    def begin_drain(self) -> PendingIoctl:
        return self._inner.begin_drain()

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            self._log.close()


def _level(state: bool) -> str:
    return "active" if state else "inactive"
