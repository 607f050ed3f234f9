"""Opening a device by its path or URL, without an event loop.

The kinds of URL:

* ``socket://host:port``: a TCP connection that carries the bytes unchanged
* ``rfc2217://host:port``: a remote port with its settings and control lines (RFC 2217)
* ``loop://``: what is written is received again
* ``spy://PORT?file=LOG``: any other port or URL, with a log of its traffic

Options follow a question mark and are joined by ``&``: ``socket://lab:4001?timeout=2``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable
from functools import partial

from penstock.serial._devices.backend import SerialBackend
from penstock.serial._devices.loopback import open_loop
from penstock.serial._devices.spy import open_spy
from penstock.serial._devices.tcp import open_socket
from penstock.serial._devices.url import is_url
from penstock.serial._sysfs import port_info_for
from penstock.serial._tty.device import TtyDevice
from penstock.serial._values import PortInfo
from penstock.serial.config import SerialConfig, checked_config
from penstock.serial.exceptions import ConfigurationError, UnsupportedPlatformError


def open_device(
    path: str, config: SerialConfig | None = None
) -> tuple[SerialBackend, Callable[[], PortInfo | None] | None]:
    """Open the device that ``path``, a path or a URL, names. Blocks.

    Returns:
        The open device, and a function that tells what the system knows of it (None for a URL, of
        which it knows nothing).

    Raises:
        SerialError: As :func:`penstock.serial.open_serial_port`. The device is then neither
            open nor locked nor changed.
        TypeError: ``path`` is not text.
    """
    name, config = check_open_arguments(path, config)
    device = open_backend(name, config)
    return device, description_of(device)


def description_of(device: SerialBackend) -> Callable[[], PortInfo | None] | None:
    """Return what tells the description of an open device; None if there is none."""
    return partial(port_info_for, device.path) if isinstance(device, TtyDevice) else None


def check_open_arguments(path: str, config: SerialConfig | None) -> tuple[str, SerialConfig]:
    """Return the name of the port and its settings; raises where :func:`open_device` would."""
    name: object = path
    if name.__class__ is not str:
        with contextlib.suppress(TypeError):
            name = os.fspath(path)
    if isinstance(name, bytes):
        raise TypeError(f"a port's name is text, not bytes; decode it: os.fsdecode({name!r})")
    if not isinstance(name, str):
        raise TypeError(f"a port is named by a path such as '/dev/ttyUSB0' or a URL, not {path!r}")
    if sys.platform != "linux":
        raise UnsupportedPlatformError(
            errno.ENOSYS, f"serial ports are supported on Linux only, not on {sys.platform}", name
        )
    return name, SerialConfig() if config is None else checked_config(name, config)


def open_backend(path: str, config: SerialConfig) -> SerialBackend:
    """Open the device that ``path`` names, without asking sysfs about it. Blocks.

    Raises:
        SerialError: As :func:`penstock.serial.open_serial_port`.
    """
    if not path or not _can_be_a_file_name(path):
        raise ConfigurationError(
            errno.EINVAL, f"{path!r} cannot be the name of a port; give a path or a URL", path
        )
    if not is_url(path):
        return TtyDevice(path, config)
    scheme = path.partition("://")[0].lower()
    opener = SCHEMES.get(scheme)
    if opener is None:
        raise ConfigurationError(
            errno.EINVAL,
            f"{path}: unknown kind of port {scheme!r}; use a path or one of "
            + ", ".join(f"{name}://" for name in SCHEMES),
            path,
        )
    backend = opener(path, config)
    if config.initial_rts is not None or config.initial_dtr is not None:
        try:
            backend.set_control_lines(config.initial_rts, config.initial_dtr)
        except BaseException:
            backend.close()
            raise
    return backend


def _can_be_a_file_name(path: str) -> bool:
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _open_rfc2217(path: str, config: SerialConfig) -> SerialBackend:
    # Imported on use: most programs have no remote port.
    from penstock.serial._devices.rfc2217_client import open_rfc2217

    return open_rfc2217(path, config)


def _open_spy(path: str, config: SerialConfig) -> SerialBackend:
    return open_spy(path, config, open_backend)


SCHEMES: dict[str, Callable[[str, SerialConfig], SerialBackend]] = {
    "socket": open_socket,
    "rfc2217": _open_rfc2217,
    "loop": open_loop,
    "spy": _open_spy,
}
"""The kinds of URL, and what opens each."""
