"""Opening a port: in a worker thread, because a driver may take its time."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from dataclasses import dataclass

import anyio
import anyio.to_thread
from anyio.abc import ByteStreamConnectable
from anyio.lowlevel import checkpoint

from penstock.serial.backend import SerialBackend
from penstock.serial.config import SerialConfig, checked_config
from penstock.serial.discovery import port_info_for
from penstock.serial.exceptions import UnsupportedPlatformError
from penstock.serial.exclusive import is_pty
from penstock.serial.port import SerialPort
from penstock.serial.portinfo import PortInfo
from penstock.serial.ttyioctl import has_stand_in
from penstock.serial.urls import is_url, open_backend
from penstock.serial.worker_calls import run_to_end

__all__ = ["SerialConnectable", "open_device", "open_serial_port"]


async def open_serial_port(path: str, config: SerialConfig | None = None) -> SerialPort:
    """Open the tty at *path*, in raw mode, with *config* (``SerialConfig()`` if None).

    *path* may also be a URL, such as ``rfc2217://host:port``: see :mod:`penstock.serial.urls`.

    Raises

    * :class:`PortNotFoundError`: no such path, no device behind it, or no server at that address;
    * :class:`SerialTimeoutError`: a server that does not answer;
    * :class:`PortPermissionError`: the user may not open it;
    * :class:`PortBusyError`: someone holds it, or it is asked for alone and someone shares it;
    * :class:`UnsupportedFeatureError`: no tty, or the driver lacks something asked for;
    * :class:`UnsupportedConfigurationError`: the driver did not take the settings;
    * :class:`ConfigurationError`: *config* is no :class:`SerialConfig`, or a URL is malformed.

    After an error, and after a cancellation, the port is neither open nor locked nor changed.
    """
    name = _name_of(path)
    config = _checked(name, config)
    if is_pty(name) and not has_stand_in():  # no hardware to wait for, and so no thread
        await checkpoint()
        device, info = _open(name, config)
        return SerialPort(device, config, port_info=info)
    if is_url(name):
        # A server can keep one waiting for long: nobody who is cancelled waits for it, and a
        # connection that nobody wants any more is closed by whoever drops it last. Its thread is
        # not one of those that all share.
        device, info = await anyio.to_thread.run_sync(
            _open, name, config, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
    else:
        # Waited for also when it is cancelled: it must not be found half done by the next attempt.
        device, info = await run_to_end(_open, name, config, undo=lambda opened: opened[0].close())
    return SerialPort(device, config, port_info=info)


@dataclass(kw_only=True)
class SerialConnectable(ByteStreamConnectable):
    """A port to open later, for code that takes any AnyIO connectable."""

    path: str
    config: SerialConfig | None = None

    async def connect(self) -> SerialPort:
        """Open the port; raises as :func:`open_serial_port`."""
        return await open_serial_port(self.path, self.config)


def open_device(
    path: str, config: SerialConfig | None = None
) -> tuple[SerialBackend, PortInfo | None]:
    """Open a device without any event loop; blocks, and raises as :func:`open_serial_port`."""
    name = _name_of(path)
    return _open(name, _checked(name, config))


def _name_of(path: str) -> str:
    name: object = path
    with contextlib.suppress(TypeError):
        name = os.fspath(path)
    if isinstance(name, bytes):
        raise TypeError(f"a port's name is text, not bytes; decode it: os.fsdecode({name!r})")
    if not isinstance(name, str):
        raise TypeError(f"a port is named by a path such as '/dev/ttyUSB0' or a URL, not {path!r}")
    return name


def _checked(path: str, config: SerialConfig | None) -> SerialConfig:
    if sys.platform != "linux":
        raise UnsupportedPlatformError(
            errno.ENOSYS, f"serial ports are supported on Linux only, not on {sys.platform}", path
        )
    return SerialConfig() if config is None else checked_config(path, config)


def _open(path: str, config: SerialConfig) -> tuple[SerialBackend, PortInfo | None]:
    device = open_backend(path, config)
    return device, None if is_url(path) else port_info_for(path)
