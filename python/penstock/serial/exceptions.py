"""Exceptions of serial ports, and the one place that maps kernel errors to them.

Every failure of a port is a :class:`SerialError`, and so an :class:`OSError`. Each also derives
from the standard exception that a caller without knowledge of this package would catch:
:class:`FileNotFoundError`, :class:`PermissionError`, :class:`anyio.ClosedResourceError` and so on.
"""

from __future__ import annotations

import errno
import os
import termios
from typing import Literal

import anyio

from penstock.serial.permission import permission_remedy

__all__ = [
    "ConfigurationError",
    "PortBusyError",
    "PortNotFoundError",
    "PortPermissionError",
    "SerialClosedError",
    "SerialDisconnectedError",
    "SerialError",
    "SerialTimeoutError",
    "UnreadInputError",
    "UnsupportedAsyncBackendError",
    "UnsupportedConfigurationError",
    "UnsupportedFeatureError",
    "UnsupportedPlatformError",
    "errno_to_exception",
]

ErrorContext = Literal["open", "lock", "ioctl", "io"]


class SerialError(OSError):
    """Root of every error of a serial port: ``SerialError(errno, message, path)``.

    ``str()`` gives the message alone: it is a sentence that already names the port.
    """

    def __str__(self) -> str:
        return self.strerror if self.strerror else super().__str__()


class ConfigurationError(SerialError, ValueError):
    """A setting has the wrong type or a value outside its range; nothing was changed."""


class PortNotFoundError(SerialError, FileNotFoundError):
    """No such port, or no hardware behind it."""


class PortPermissionError(SerialError, PermissionError):
    """The user may not open this port."""


class PortBusyError(SerialError):
    """Another program holds the port exclusively, or holds it while exclusive use is asked for."""


class UnreadInputError(SerialError):
    """Unread bytes are waiting, so the next request was not sent."""


class UnsupportedFeatureError(SerialError, NotImplementedError):
    """The device or the driver does not support what was requested."""


class UnsupportedConfigurationError(SerialError, ValueError):
    """The driver did not accept the settings; the previous ones are in force again."""


class UnsupportedPlatformError(SerialError, NotImplementedError):
    """This operating system or processor architecture is not supported."""


class SerialClosedError(SerialError, anyio.ClosedResourceError):
    """The port was closed on this side, before the call or while it waited."""


class SerialDisconnectedError(SerialError, anyio.BrokenResourceError):
    """The device went away: unplugged, hung up, or the other end of a pty closed."""


class SerialTimeoutError(SerialError, TimeoutError):
    """A server on the network did not answer in time."""


class UnsupportedAsyncBackendError(SerialError, RuntimeError):
    """The running event loop cannot wait for a serial port."""


_MISSING = {errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ENOTDIR, errno.EIO}
# The kernel's error for a tty whose device is gone depends on the driver and on the call: EIO from
# a hung-up tty, ENODEV and ENXIO from USB drivers, EPIPE, ECONNRESET and ESHUTDOWN from USB
# endpoints and from sockets, ETIMEDOUT and the unreachable ones from a lost network connection.
_GONE = {
    errno.EIO,
    errno.ENODEV,
    errno.ENXIO,
    errno.EPIPE,
    errno.ESHUTDOWN,
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.ENOTCONN,
    errno.ETIMEDOUT,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ENETDOWN,
}
_LACKING = {errno.ENOTTY, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}


def errno_to_exception(
    exc: OSError | termios.error, *, context: ErrorContext, path: str | None = None
) -> SerialError:
    """Return the :class:`SerialError` for ``exc``; a :class:`SerialError` is returned unchanged.

    Args:
        exc: The kernel's error. It becomes the result's ``__cause__``.
        context: What was being done. The same errno means "no such port" while opening and
            "unplugged" afterwards.
        path: The port; if None, the file that ``exc`` names.
    """
    if isinstance(exc, SerialError):
        return exc
    if path is None and isinstance(exc, OSError) and isinstance(exc.filename, str | bytes):
        path = os.fsdecode(exc.filename)
    error = _meaning_of(exc, context, path)
    error.__cause__ = exc
    return error


def _meaning_of(
    exc: OSError | termios.error, context: ErrorContext, path: str | None
) -> SerialError:
    code, text = _code_and_text(exc)
    port = path if path is not None else "the serial port"
    if code == errno.EBADF:
        return closed_error(path)
    if code in (errno.EACCES, errno.EPERM):
        return PortPermissionError(code, _permission_sentence(port, path, context), path)
    if code in (errno.EBUSY, errno.EWOULDBLOCK) and context in ("open", "lock"):
        return PortBusyError(
            errno.EBUSY, f"{port} is in use by another program; close that first", path
        )
    if context == "open":
        if code in _MISSING:
            return PortNotFoundError(code, _missing_sentence(port, code), path)
        if code in (errno.ENOTTY, errno.EINVAL, errno.EISDIR):
            return not_a_tty_error(port)
    elif code in _GONE:
        return disconnected_error(path, code)
    if context == "ioctl" and code in _LACKING:
        return UnsupportedFeatureError(
            code, f"{port}: the driver does not support this operation ({text})", path
        )
    return SerialError(code, f"{port}: {text}", path)


def closed_error(path: str | None) -> SerialClosedError:
    port = path if path is not None else "the serial port"
    return SerialClosedError(errno.EBADF, f"{port} is closed; open it again to use it", path)


def disconnected_error(path: str | None, code: int = errno.EIO) -> SerialDisconnectedError:
    port = path if path is not None else "the serial port"
    remedy = "check its server" if "://" in port else "plug the device in again"
    return SerialDisconnectedError(
        code, f"{port} was disconnected; {remedy} and reopen the port", path
    )


def not_a_tty_error(path: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        errno.ENOTTY,
        f"{path} is not a serial port (not a tty); give the path of a tty such as /dev/ttyUSB0",
        path,
    )


def _code_and_text(exc: OSError | termios.error) -> tuple[int, str]:
    # termios.error is not an OSError: its arguments are (errno, text).
    if isinstance(exc, OSError):
        code, text = exc.errno, exc.strerror
    else:
        code, text = (*exc.args, None, None)[:2]
    if not isinstance(code, int):
        return errno.EIO, str(exc)
    return code, text if isinstance(text, str) else os.strerror(code)


def _missing_sentence(port: str, code: int) -> str:
    if code in (errno.ENOENT, errno.ENOTDIR):
        return f"{port} does not exist; check the name and that the device is plugged in"
    return f"{port} has no device behind it; check the name and that the device is plugged in"


def _permission_sentence(port: str, path: str | None, context: ErrorContext) -> str:
    if context != "open":
        return f"{port}: the kernel does not permit this operation to the current user"
    return f"no permission to open {port}: {permission_remedy(path)}"
