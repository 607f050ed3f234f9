"""``penstock term``: connect keyboard and screen, or a pipe, to a serial port.

Standard output carries only what the port sends; the command's own messages go to standard error.
On a terminal every key goes to the port, including Ctrl-C. The terminal's settings are restored
on every exit.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import stat
import sys
import termios
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from enum import Enum
from typing import BinaryIO

import anyio
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from penstock.cli._errors import CommandError, ExitCode, explain_os_error, first_error
from penstock.cli._interrupts import Interrupts
from penstock.cli._serial.ports import config_from, device_error, summary_of
from penstock.serial import (
    ReconnectingSerialPort,
    SerialConfig,
    SerialDisconnectedError,
    SerialError,
    SerialPort,
    open_serial_port,
)

Port = SerialPort | ReconnectingSerialPort

_BREAK_S = 0.25
_CHUNK = 4096
_AT_ONCE = 512  # a ready pipe or terminal accepts this much without blocking
# Keys before the exit key are sent and the driver's buffer is drained, but only for this long: a
# device that has stopped the transfer by flow control must not block the exit.
_LAST_KEYS_S = 1.0
_CLOSE_S = 2.0


def run_term(options: argparse.Namespace, interrupts: Interrupts) -> int:
    """Run until the exit key, the end of a pipe, a signal, or a disconnect."""
    config = config_from(options)
    with _log_file(options.log) as log:
        try:
            with interrupts.deferred():
                anyio.run(_run, options, config, log, interrupts)
        except BaseExceptionGroup as group:
            failures, others = group.split((SerialError, CommandError, BrokenPipeError))
            if failures is None or others is not None:
                raise
            error = first_error(failures)
            raise device_error(error) if isinstance(error, SerialError) else error from None
        except SerialError as error:
            raise device_error(error) from error
    interrupts.raise_if_received()
    return ExitCode.OK


async def _run(
    options: argparse.Namespace,
    config: SerialConfig,
    log: BinaryIO | None,
    interrupts: Interrupts,
) -> None:
    with anyio.CancelScope() as scope, interrupts.stopping(scope.cancel):
        async with _opened(options, config) as port:
            await _Terminal(port, options, log).run()


@asynccontextmanager
async def _opened(options: argparse.Namespace, config: SerialConfig) -> AsyncIterator[Port]:
    if options.reconnect:
        async with ReconnectingSerialPort(options.port, config) as kept:
            yield kept
    else:
        port = await open_serial_port(options.port, config)
        try:
            yield port
        finally:
            with anyio.move_on_after(_CLOSE_S):
                await port.aclose()


class _Terminal:
    def __init__(self, port: Port, options: argparse.Namespace, log: BinaryIO | None) -> None:
        self._port = port
        self._log = log
        self._logging = log is not None
        self._quiet = options.quiet
        self._echo = options.echo
        self._linger_s = options.linger
        self._interactive = os.isatty(sys.stdin.fileno())
        self._view = View(hexadecimal=options.hex)
        wanted = options.eol or ("crlf" if self._interactive else "raw")
        self._keys = KeyReader(LineEnd[wanted.upper()])
        self._received = anyio.Event()  # replaced at every receive
        self._screen = anyio.Lock()
        self._screen_waits = _is_pollable(sys.stdout.fileno())

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            if isinstance(self._port, ReconnectingSerialPort):
                tasks.start_soon(self._report_connection, self._port)
            with _raw_keys(sys.stdin.fileno()) if self._interactive else contextlib.nullcontext():
                self._say(
                    f"{self._port.path} {summary_of(self._port.config)}; "
                    + ("Ctrl-] leaves, Ctrl-T h lists the keys" if self._interactive else "pipe")
                )
                tasks.start_soon(self._show_received)
                await (self._handle_keys() if self._interactive else self._send_pipe())
            tasks.cancel_scope.cancel()

    async def _show_received(self) -> None:
        while True:
            data = await self._port.receive(_CHUNK)
            if self._logging and self._log is not None:
                _write_log(self._log, data)
            await self._show(data)
            self._received.set()
            self._received = anyio.Event()

    async def _show(self, data: bytes) -> None:
        # A plain write would block if the reader of the output has stopped, and the keys and
        # signals that end the command must still be processed.
        async with self._screen:
            rest = memoryview(self._view.show(data))
            while rest:
                if self._screen_waits:
                    await anyio.wait_writable(sys.stdout.fileno())
                try:
                    rest = rest[os.write(sys.stdout.fileno(), rest[:_AT_ONCE]) :]
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    raise
                except OSError as error:
                    raise CommandError(
                        f"standard output cannot be written: {error.strerror}", ExitCode.OUTPUT
                    ) from error

    async def _send_pipe(self) -> None:
        source = sys.stdin.fileno()
        waits = _is_pollable(source)
        line_end = self._keys.line_end
        while True:
            if waits:
                await anyio.wait_readable(source)
            try:
                data = os.read(source, _CHUNK)
            except OSError as error:
                raise CommandError(
                    f"standard input cannot be read: {error.strerror}; give a pipe, a file or a "
                    "terminal that can",
                    ExitCode.USAGE,
                ) from error
            if not data:
                break
            if line_end is not LineEnd.RAW:
                data = data.replace(b"\n", line_end.value)
            await self._port.send(data)
        await self._port.drain()
        while True:
            with anyio.move_on_after(self._linger_s) as silence:
                await self._received.wait()
            if silence.cancelled_caught and not self._screen.locked():
                return

    async def _handle_keys(self) -> None:
        # The queue keeps the exit key working while a send is blocked.
        into, queue = anyio.create_memory_object_stream[bytes | Action](math.inf)
        handled = anyio.Event()

        async def handle(queue: MemoryObjectReceiveStream[bytes | Action]) -> None:
            async with queue:
                async for meaning in queue:
                    await self._handle_key(meaning)
            handled.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(handle, queue)
            with into:
                await self._read_keys(into)
            with anyio.move_on_after(_LAST_KEYS_S):
                await handled.wait()
            tasks.cancel_scope.cancel()

    async def _read_keys(self, into: MemoryObjectSendStream[bytes | Action]) -> None:
        source = sys.stdin.fileno()
        while True:
            await anyio.wait_readable(source)
            typed = os.read(source, _CHUNK)
            if not typed:
                return  # the terminal itself is gone
            for meaning in self._keys.feed(typed):
                if meaning is Action.EXIT:
                    return
                if not isinstance(meaning, Action) or not self._do_without_port(meaning):
                    into.send_nowait(meaning)
                    await checkpoint()  # send before the next action runs, if the port has room

    async def _handle_key(self, meaning: bytes | Action) -> None:
        try:
            if isinstance(meaning, Action):
                await self._do_at_port(meaning)
            else:
                await self._port.send(meaning)
                if self._echo:
                    await self._show(meaning)
        except SerialDisconnectedError:
            if not isinstance(self._port, ReconnectingSerialPort):
                raise
        except SerialError as error:
            self._say(str(error))

    def _do_without_port(self, action: Action) -> bool:
        """Perform ``action`` if it needs no port; return whether it did."""
        match action:
            case Action.HELP:
                self._say(HELP)
            case Action.TOGGLE_HEX:
                self._view.hexadecimal = not self._view.hexadecimal
                self._say("hexadecimal" if self._view.hexadecimal else "text")
            case Action.TOGGLE_ECHO:
                self._echo = not self._echo
                self._say(f"local echo {_state(self._echo)}")
            case Action.NEXT_LINE_END:
                self._keys.line_end = self._keys.line_end.following()
                self._say(f"Enter sends {self._keys.line_end.name}")
            case Action.TOGGLE_LOG:
                self._logging = not self._logging and self._log is not None
                self._say(
                    f"log {_state(self._logging)}" if self._log else "no log; start with --log FILE"
                )
            case Action.UNKNOWN:
                self._say("Ctrl-T h lists the keys")
            case _:
                return False
        return True

    async def _do_at_port(self, action: Action) -> None:
        match action:
            case Action.INFO:
                await self._print_state()
            case Action.TOGGLE_DTR:
                wanted = not (await self._port.control_lines()).dtr
                await self._port.set_control_lines(dtr=wanted)
                self._say(f"DTR {_state(wanted)}")
            case Action.TOGGLE_RTS:
                wanted = not (await self._port.control_lines()).rts
                await self._port.set_control_lines(rts=wanted)
                self._say(f"RTS {_state(wanted)}")
            case Action.BREAK:
                await self._port.send_break(_BREAK_S)
                self._say("break sent")

    async def _print_state(self) -> None:
        self._say(f"{self._port.path} {summary_of(self._port.config)}")
        own = await self._port.control_lines()
        theirs = await self._port.modem_lines()
        self._say(
            f"RTS {_state(own.rts)}, DTR {_state(own.dtr)}, CTS {_state(theirs.cts)}, "
            f"DSR {_state(theirs.dsr)}, RI {_state(theirs.ri)}, CD {_state(theirs.cd)}"
        )

    async def _report_connection(self, port: ReconnectingSerialPort) -> None:
        reported = False
        async for event in port.events():
            if event.kind == "failed" and not reported:
                reported = True
                self._say(f"{event.error}; waiting for it")
            elif event.kind != "failed":
                reported = event.kind == "disconnected"
                self._say(f"{event.path} {event.kind}")

    def _say(self, text: str) -> None:
        if not self._quiet:
            os.write(sys.stderr.fileno(), f"--- {text}\n".encode())


def _state(on: bool) -> str:
    return "on" if on else "off"


def _write_log(log: BinaryIO, data: bytes) -> None:
    try:
        log.write(data)
    except OSError as error:
        raise explain_os_error(error, log.name, kind="file", option="--log") from error


@contextmanager
def _log_file(name: str | None) -> Iterator[BinaryIO | None]:
    if name is None:
        yield None
        return
    try:
        # Unbuffered: received bytes reach the file however the command ends.
        file = open(name, "ab", buffering=0)  # noqa: SIM115 - closed below
    except OSError as error:
        raise explain_os_error(error, name, kind="file", option="--log") from error
    with file:
        yield file


@contextmanager
def _raw_keys(terminal: int) -> Iterator[None]:
    """Deliver each key at once and untranslated; leave newline translation of output on."""
    before = termios.tcgetattr(terminal)
    wanted = termios.tcgetattr(terminal)
    wanted[0] &= ~(termios.IXON | termios.ICRNL | termios.INLCR | termios.IGNCR | termios.ISTRIP)
    wanted[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
    wanted[6][termios.VMIN], wanted[6][termios.VTIME] = 1, 0
    termios.tcsetattr(terminal, termios.TCSADRAIN, wanted)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # the terminal itself may be gone
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _is_pollable(descriptor: int) -> bool:
    # A file or /dev/null is always ready, and epoll rejects it.
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


# The keys of ``penstock term``: each maps to bytes to send or to an action.


_EXIT = 0x1D  # Ctrl-]
_MENU = 0x14  # Ctrl-T
_ENTER = (0x0D, 0x0A)


class LineEnd(Enum):
    """The bytes that a line end sends."""

    CR = b"\r"
    LF = b"\n"
    CRLF = b"\r\n"
    RAW = b""
    """Typed bytes unchanged."""

    def following(self) -> LineEnd:
        """Return the next member, or the first after the last."""
        members = list(LineEnd)
        return members[(members.index(self) + 1) % len(members)]


class Action(Enum):
    """A key's effect other than bytes to send."""

    EXIT = "leave"
    HELP = "show this list"
    INFO = "show the settings and the lines"
    TOGGLE_DTR = "switch DTR"
    TOGGLE_RTS = "switch RTS"
    BREAK = "send a break"
    TOGGLE_HEX = "show received bytes in hexadecimal or as text"
    TOGGLE_ECHO = "switch the local echo"
    NEXT_LINE_END = "change what the Enter key sends"
    TOGGLE_LOG = "stop or resume the log"
    UNKNOWN = "a key without a function"


# Same keys as pyserial's miniterm where it has the action, because users know them.
_MENU_KEYS = {
    ord("q"): Action.EXIT,
    0x08: Action.HELP,  # Ctrl-H
    ord("h"): Action.HELP,
    ord("?"): Action.HELP,
    0x09: Action.INFO,  # Ctrl-I
    ord("i"): Action.INFO,
    0x04: Action.TOGGLE_DTR,  # Ctrl-D
    ord("d"): Action.TOGGLE_DTR,
    0x12: Action.TOGGLE_RTS,  # Ctrl-R
    ord("r"): Action.TOGGLE_RTS,
    0x02: Action.BREAK,  # Ctrl-B
    ord("b"): Action.BREAK,
    ord("x"): Action.TOGGLE_HEX,
    0x18: Action.TOGGLE_HEX,  # Ctrl-X
    0x05: Action.TOGGLE_ECHO,  # Ctrl-E
    ord("e"): Action.TOGGLE_ECHO,
    0x0C: Action.NEXT_LINE_END,  # Ctrl-L
    ord("l"): Action.NEXT_LINE_END,
    ord("s"): Action.TOGGLE_LOG,
}

HELP = """\
Ctrl-]         leave
Ctrl-T, then   h  this list            i  settings and lines
               d  switch DTR           r  switch RTS
               b  send a break         x  hexadecimal or text
               l  next line ending     e  local echo on or off
               s  log on or off        q  leave
               Ctrl-T or Ctrl-]        send that byte
"""


class KeyReader:
    """Parses typed bytes, in pieces of any size, into bytes to send and actions."""

    def __init__(self, line_end: LineEnd) -> None:
        self.line_end = line_end
        self._in_menu = False

    def feed(self, typed: bytes) -> Iterator[bytes | Action]:
        """Yield the bytes to send, in as few pieces as possible, and the actions."""
        to_send = bytearray()
        for key in typed:
            action: Action | None = None
            if self._in_menu:
                self._in_menu = False
                if key in (_MENU, _EXIT):
                    to_send.append(key)
                else:
                    action = _MENU_KEYS.get(key, Action.UNKNOWN)
            elif key == _MENU:
                self._in_menu = True
            elif key == _EXIT:
                action = Action.EXIT
            elif key in _ENTER and self.line_end is not LineEnd.RAW:
                to_send += self.line_end.value
            else:
                to_send.append(key)
            if action is not None:
                if to_send:
                    yield bytes(to_send)
                    to_send.clear()
                yield action
        if to_send:
            yield bytes(to_send)


# How ``penstock term`` shows bytes: unchanged or as a hexadecimal dump.


_ROW = 16


class View:
    """Formats received bytes for the screen. ``hexadecimal`` may be changed at any time."""

    def __init__(self, *, hexadecimal: bool) -> None:
        self.hexadecimal = hexadecimal
        self._offset = 0

    def show(self, data: bytes) -> bytes:
        """Return what to write for ``data``; the hexadecimal view always writes whole lines."""
        start, self._offset = self._offset, self._offset + len(data)
        if not self.hexadecimal:
            return data
        rows = [
            _row(start + place, data[place : place + _ROW]) for place in range(0, len(data), _ROW)
        ]
        return "".join(rows).encode()


def _row(offset: int, data: bytes) -> str:
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
    return f"{offset:08X}  {data.hex(' ').upper():<47}  {text}\n"
