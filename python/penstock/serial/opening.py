"""Opening a port: in a worker thread, because a driver may take its time."""

from __future__ import annotations

import errno
import os
import sys
from dataclasses import dataclass

import anyio.to_thread
from anyio.abc import ByteStreamConnectable

from penstock.serial.config import SerialConfig
from penstock.serial.device import TtyDevice
from penstock.serial.discovery import port_info_for
from penstock.serial.exceptions import ConfigurationError, UnsupportedPlatformError
from penstock.serial.port import SerialPort
from penstock.serial.portinfo import PortInfo

__all__ = ["SerialConnectable", "open_serial_port"]


async def open_serial_port(path: str, config: SerialConfig | None = None) -> SerialPort:
    """Open the tty at *path*, in raw mode, with *config* (``SerialConfig()`` if None).

    Raises

    * :class:`PortNotFoundError`: no such path, or no device behind it;
    * :class:`PortPermissionError`: the user may not open it;
    * :class:`PortBusyError`: someone holds it, or it is asked for alone and someone shares it;
    * :class:`UnsupportedFeatureError`: no tty, or the driver lacks something asked for;
    * :class:`UnsupportedConfigurationError`: the driver did not take the settings;
    * :class:`ConfigurationError`: *config* is no :class:`SerialConfig`.

    After an error, and after a cancellation, the port is neither open nor locked nor changed.
    """
    if sys.platform != "linux":
        raise UnsupportedPlatformError(
            errno.ENOSYS, f"serial ports are supported on Linux only, not on {sys.platform}", path
        )
    name = os.fspath(path)
    if config is None:
        config = SerialConfig()
    elif not isinstance(config, SerialConfig):
        raise ConfigurationError(
            errno.EINVAL, f"config must be a SerialConfig, not {config!r}", name
        )
    device, info = await anyio.to_thread.run_sync(_open, name, config)
    return SerialPort(device, config, port_info=info)


@dataclass(kw_only=True)
class SerialConnectable(ByteStreamConnectable):
    """A port to open later, for code that takes any AnyIO connectable."""

    path: str
    config: SerialConfig | None = None

    async def connect(self) -> SerialPort:
        """Open the port; raises as :func:`open_serial_port`."""
        return await open_serial_port(self.path, self.config)


def _open(path: str, config: SerialConfig) -> tuple[TtyDevice, PortInfo | None]:
    return TtyDevice(path, config), port_info_for(path)
