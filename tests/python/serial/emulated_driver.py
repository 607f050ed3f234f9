"""A stand-in for a UART driver at the ioctl seam: what a pty cannot show.

A pty has no modem lines, no break, no output queue, no RS-485 and no driver flags. This object
takes the place of ``ttyioctl.ioctl``, answers those requests from its own state and lets all
others through to the pty.
"""

from __future__ import annotations

import errno
import os
import struct
import termios
from collections.abc import Callable

from penstock.serial import ttyioctl

_real_ioctl = ttyioctl.ioctl
_int = struct.Struct("i")


class EmulatedDriver:
    def __init__(self) -> None:
        self.lines = 0
        self.breaking = False
        self.output_queue = 0
        self.discarded_output = 0
        self.transmitter_empty: bool | None = True
        self.flags = 0
        self.rs485 = (0x20, 0, 0, 7, 0, 0, 0, 0)  # bus termination and an address, to be kept
        self.has_rs485 = True
        self.has_flags = True
        self.fail: dict[int, int] = {}  # request -> errno
        self.on_request: Callable[[int], None] = lambda request: None
        self.requests: list[int] = []

    def ioctl(self, fd: int, request: int, argument: bytes | bytearray | int = 0) -> bytes:
        self.requests.append(request)
        self.on_request(request)
        if request in self.fail:
            raise _error(self.fail[request])
        handler = self._handlers().get(request)
        return _real_ioctl(fd, request, argument) if handler is None else handler(fd, argument)

    def _handlers(self) -> dict[int, Callable[[int, bytes | bytearray | int], bytes]]:
        return {
            termios.TIOCMGET: lambda fd, arg: _int.pack(self.lines),
            termios.TIOCMBIS: self._raise_lines,
            termios.TIOCMBIC: self._drop_lines,
            ttyioctl.TIOCSBRK: lambda fd, arg: self._set_break(True),
            ttyioctl.TIOCCBRK: lambda fd, arg: self._set_break(False),
            termios.TIOCOUTQ: lambda fd, arg: _int.pack(self.output_queue),
            termios.TCFLSH: self._flush,
            ttyioctl.TIOCSERGETLSR: self._line_status,
            termios.TIOCGSERIAL: self._get_serial,
            termios.TIOCSSERIAL: self._set_serial,
            ttyioctl.TIOCGRS485: self._get_rs485,
            ttyioctl.TIOCSRS485: self._set_rs485,
        }

    def _raise_lines(self, fd: int, argument: bytes | bytearray | int) -> bytes:
        assert isinstance(argument, bytes)
        self.lines |= _int.unpack(argument)[0]
        return argument

    def _drop_lines(self, fd: int, argument: bytes | bytearray | int) -> bytes:
        assert isinstance(argument, bytes)
        self.lines &= ~_int.unpack(argument)[0]
        return argument

    def _set_break(self, on: bool) -> bytes:
        self.breaking = on
        return bytes(4)

    def _flush(self, fd: int, argument: bytes | bytearray | int) -> bytes:
        if argument == termios.TCOFLUSH:
            self.discarded_output += self.output_queue
            self.output_queue = 0
        return _real_ioctl(fd, termios.TCFLSH, argument)

    def _line_status(self, fd: int, argument: bytes | bytearray | int) -> bytes:
        if self.transmitter_empty is None:
            raise _error(errno.ENOTTY)
        return _int.pack(int(self.transmitter_empty))

    def _get_serial(self, fd: int, argument: bytes | bytearray | int) -> bytes:
        if not self.has_flags:
            raise _error(errno.ENOTTY)
        assert isinstance(argument, bytes)
        record = bytearray(argument)
        _int.pack_into(record, 16, self.flags)
        return bytes(record)

    def _set_serial(self, fd: int, argument: bytes | bytearray | int) -> bytes:
        assert isinstance(argument, bytes)
        self.flags = _int.unpack_from(argument, 16)[0]
        return argument

    def _get_rs485(self, fd: int, argument: bytes | bytearray | int) -> bytes:
        if not self.has_rs485:
            raise _error(errno.ENOTTY)
        return struct.pack("=8I", *self.rs485)

    def _set_rs485(self, fd: int, argument: bytes | bytearray | int) -> bytes:
        if not self.has_rs485:
            raise _error(errno.ENOTTY)
        assert isinstance(argument, bytes)
        self.rs485 = struct.unpack("=8I", argument)
        return argument


def _error(code: int) -> OSError:
    return OSError(code, os.strerror(code))
