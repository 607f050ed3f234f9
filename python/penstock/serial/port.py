"""The serial port as an AnyIO byte stream."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint

from penstock.serial.backend import SerialBackend, require_backend
from penstock.serial.config import SerialConfig, check_line_states, checked_config
from penstock.serial.drain import CLOSE_LINGER_S, until_buffer_is_empty
from penstock.serial.error_counters import ErrorCounters
from penstock.serial.exceptions import SerialError, closed_error
from penstock.serial.line_changes import line_mask, until_lines_change
from penstock.serial.lines import CommEvent, ControlLines, ModemLines
from penstock.serial.portinfo import PortInfo
from penstock.serial.receive_half import ReceiveHalf
from penstock.serial.send_half import SendHalf
from penstock.serial.worker_calls import run_undeterred

__all__ = ["SerialPort"]


class SerialPort(ReceiveHalf, SendHalf, ByteStream):
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
        """Wrap an open *backend*, already configured with *config*."""
        require_backend(backend)
        backend.config = config
        super().__init__(backend, port_info)
        self._closing_done: anyio.Event | None = None

    @classmethod
    async def open(cls, path: str, /, **config_fields: Any) -> SerialPort:
        """Open *path* with ``SerialConfig(**config_fields)``; see :func:`open_serial_port`."""
        from penstock.serial.opening import open_serial_port

        return await open_serial_port(path, SerialConfig(**config_fields))

    # ---- settings, lines and queues --------------------------------------------------------

    async def configure(self, config: SerialConfig) -> None:
        """Apply *config* whole; bytes in flight may be sent or received either way.

        On any error the previous settings are in force again and :attr:`config` is unchanged.
        What the driver took over is read back: a rate more than 2.5 % off, or any other
        setting that it dropped, raises :class:`UnsupportedConfigurationError`.
        """
        try:
            await self._change(self._device.configure, checked_config(self.path, config))
        finally:
            # Of two at a time, the one that came last. Cancelled, what the driver has done stands.
            self._follow(self._device.config)

    async def modem_lines(self) -> ModemLines:
        """Return the lines that the other side drives."""
        return await self._in_worker(self._device.modem_lines)

    async def control_lines(self) -> ControlLines:
        """Return RTS and DTR as the driver reports them."""
        return await self._in_worker(self._device.control_lines)

    async def set_control_lines(self, *, rts: bool | None = None, dtr: bool | None = None) -> None:
        """Assert (True), release (False) or leave alone (None) RTS and DTR."""
        check_line_states(self.path, rts=rts, dtr=dtr)
        await self._change(self._device.set_control_lines, rts, dtr)

    async def wait_modem_event(
        self, *, cts: bool = True, dsr: bool = True, ri: bool = True, cd: bool = True
    ) -> CommEvent:
        """Wait until one of the chosen lines changes; return which did since the call.

        The kernel wakes this at the change (TIOCMIWAIT, beside the event loop). Drivers without
        that are looked at every 10 ms; those that count changes still miss no pulse. Any number
        of tasks may wait; a cancelled one leaves nothing behind.
        """
        mask = line_mask(cts=cts, dsr=dsr, ri=ri, cd=cd)
        self._check_usable()
        with self._noticing_disconnect():
            return await until_lines_change(self._device, mask, self._until_done)

    async def error_counters(self) -> ErrorCounters:
        """Return the driver's counts of bytes, and of what went wrong with them.

        They count from the driver's own beginning, not from opening: compare two readings.
        """
        return await self._in_worker(self._device.error_counters)

    async def reset_input_buffer(self) -> None:
        """Discard everything received and not yet read."""
        self._check_usable()
        with self._noticing_disconnect():
            self._device.discard_input()
        self._kept = b""
        await checkpoint()

    async def reset_output_buffer(self) -> None:
        """Discard everything sent and not yet on the wire."""
        self._check_usable()
        with self._noticing_disconnect():
            self._device.discard_output()
        await checkpoint()

    # ---- closing ---------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the port and put the tty back as it was found.

        Tasks that wait on the port get :class:`SerialClosedError` at once. Output still in the
        driver's buffer gets up to 30 s to leave; if this is cancelled, it is discarded. The
        event loop never waits for the driver.
        """
        if self._closed:
            if self._closing_done is not None:
                await self._closing_done.wait()
            await checkpoint()
            return
        self._closed = True
        done = self._closing_done = anyio.Event()
        self._release_waiters()
        try:
            if not self._gone:
                with anyio.move_on_after(CLOSE_LINGER_S):
                    await self._linger()
        finally:
            try:
                await self._close_device()
            finally:
                done.set()

    async def _close_device(self) -> None:
        if self._device.never_blocks:
            self._device.close()
            return
        await run_undeterred(self._device.close)

    async def _linger(self) -> None:
        try:
            await until_buffer_is_empty(self._device.output_waiting, self._device.config)
        except SerialError:
            return  # gone while closing: nothing is left to wait for

    def _release_waiters(self) -> None:
        self._read = self._readinto = self._write = self._refuse
        self._kept = b""
        if self._break_interrupt is not None:
            self._break_interrupt.set()
        for pending in self._pending:
            anyio.notify_closing(pending.fileno())
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
