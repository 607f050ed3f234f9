"""The serial port as an AnyIO byte stream."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import ByteStream, ByteStreamConnectable
from anyio.lowlevel import checkpoint

from penstock._opening import opening
from penstock.serial._devices.backend import SerialBackend, require_backend
from penstock.serial._devices.open import check_open_arguments, description_of, open_backend
from penstock.serial._devices.url import is_url
from penstock.serial._port.control import PortOperations
from penstock.serial._port.exchange import ExchangeOperations
from penstock.serial._port.send import CLOSE_LINGER_S, wait_until_buffer_is_empty
from penstock.serial._port.waiter import EventLoopWaiter, run_shielded, run_to_end
from penstock.serial._tty.system_calls import driver_replaced, is_pty
from penstock.serial._values import PortInfo
from penstock.serial.config import SerialConfig
from penstock.serial.exceptions import SerialError, closed_error


class SerialPort(PortOperations, ExchangeOperations, ByteStream):
    """An open serial port; get one from :func:`open_serial_port`.

    A port belongs to the event loop in which it is used and is not thread-safe. One task may
    receive while another sends; a second receiver or sender gets
    :class:`anyio.BusyResourceError`. Every method raises :class:`SerialClosedError` once the
    port is closed and :class:`SerialDisconnectedError` once the device is gone; all errors are
    :class:`SerialError`.
    """

    def __init__(
        self, backend: SerialBackend, config: SerialConfig, *, port_info: PortInfo | None = None
    ) -> None:
        """Wrap an open ``backend``, already configured with ``config``."""
        require_backend(backend)
        backend.config = config
        super().__init__(backend, port_info)
        self._is_closing = False
        self._closing_done: anyio.Event | None = None  # made by a second caller of aclose()

    @classmethod
    def _of(cls, device: SerialBackend) -> SerialPort:
        """Return the port of a device that has just been opened."""
        port = cls(device, device.config)
        port._description = description_of(device)
        return port

    @classmethod
    async def open(cls, path: str, /, **config_fields: Any) -> SerialPort:
        """Open ``path`` with ``SerialConfig(**config_fields)``; see :func:`open_serial_port`."""
        return await open_serial_port(path, SerialConfig(**config_fields))

    # ---- closing ---------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the port and restore the settings that the tty had before.

        Tasks that wait on the port get :class:`SerialClosedError` at once. Waits up to 30 s until
        the driver has sent its output; a cancellation discards that output and still closes the
        port. The event loop is never blocked. Further calls wait for the end of the first one.
        """
        if self._closed:
            if self._is_closing:
                self._closing_done = self._closing_done or anyio.Event()
                await self._closing_done.wait()
            await checkpoint()
            return
        self._closed = self._is_closing = True
        self._release_waiters()
        try:
            if not self._gone:
                await self._linger()
        finally:
            try:
                await self._close_device()
            finally:
                self._is_closing = False
                if self._closing_done is not None:
                    self._closing_done.set()

    async def _close_device(self) -> None:
        if self._device.never_blocks:
            self._device.close()
            return
        await run_shielded(self._device.close)

    async def _linger(self) -> None:
        await checkpoint()
        try:
            if not self._device.output_waiting():
                return
            with anyio.move_on_after(CLOSE_LINGER_S):
                await wait_until_buffer_is_empty(
                    self._device.output_waiting, self._device.config, EventLoopWaiter()
                )
        except SerialError:
            return  # the device is gone: nothing is left to wait for

    def _release_waiters(self) -> None:
        self._refuse_further_calls()
        self._kept = b""
        self._waiter.close()
        if self._reader is not None:
            self._reader.close(partial(closed_error, self.path))
        if self._readiness is not None:
            self._readiness.close(partial(closed_error, self.path))

    def __del__(self) -> None:
        if getattr(self, "_closed", True):
            return
        self._closed = True
        try:
            warnings.warn(
                f"serial port {self.path} was never closed; use 'async with' or await aclose()",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )
        finally:  # also where the warning is an error
            if self._readiness is None:
                self._device.close()
            else:
                self._readiness.abandon(self._close_abandoned)

    def _close_abandoned(self) -> None:
        if self._reader is not None:
            self._reader.close(partial(closed_error, self.path))
        self._device.close()


@opening
async def open_serial_port(path: str, config: SerialConfig | None = None) -> SerialPort:
    """Open a port in raw mode; ``await`` the result, or use it with ``async with``.

    Args:
        path: The path of a tty, or a URL: ``socket://HOST:PORT``, ``rfc2217://HOST:PORT``,
            ``loop://`` or ``spy://PORT?file=LOG``.
        config: The settings; ``SerialConfig()`` if None.

    Raises:
        PortNotFoundError: No such path, no device behind it, or no server at that address.
        SerialTimeoutError: A server does not answer.
        PortPermissionError: The user may not open it.
        PortBusyError: Another program holds it, or exclusive use is asked for and it is shared.
        UnsupportedFeatureError: It is not a tty, or the driver lacks something asked for.
        UnsupportedConfigurationError: The driver did not accept the settings.
        ConfigurationError: ``config`` is not a :class:`SerialConfig`, or a URL is malformed.
        TypeError: ``path`` is not text.

    After an error or a cancellation the port is neither open nor locked nor changed.
    """
    name, config = check_open_arguments(path, config)
    if is_pty(name) and not driver_replaced():  # no hardware, so no wait and no thread
        await checkpoint()
        return SerialPort._of(open_backend(name, config))
    if is_url(name):
        # A server may take long to answer, so a cancelled caller does not wait for it. The
        # connection is closed when its last reference is dropped. The thread is not one of the
        # shared ones, which such calls could exhaust.
        device = await anyio.to_thread.run_sync(
            open_backend, name, config, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
    else:
        # A cancelled caller waits for the end: the next attempt must not find the port half opened.
        device = await run_to_end(open_backend, name, config, undo=lambda opened: opened.close())
    return SerialPort._of(device)


@dataclass(init=False)
class SerialConnectable(ByteStreamConnectable):
    """A port to open later, for code that takes any AnyIO connectable."""

    path: str
    config: SerialConfig

    def __init__(self, *, path: str, config: SerialConfig | None = None) -> None:
        self.path = path
        self.config = SerialConfig() if config is None else config

    async def connect(self) -> SerialPort:
        """Open the port; raises as :func:`open_serial_port`."""
        return await open_serial_port(self.path, self.config)
