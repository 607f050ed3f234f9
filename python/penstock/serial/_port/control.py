"""Settings, modem and control lines, counters and queues of a port."""

from __future__ import annotations

from penstock.serial._port.line_waits import line_mask, wait_for_line_change
from penstock.serial._port.receive import ReceiveHalf
from penstock.serial._port.send import SendHalf
from penstock.serial._port.waiter import Waiter
from penstock.serial._values import CommEvent, ControlLines, ErrorCounters, ModemLines
from penstock.serial.config import SerialConfig, check_line_states, checked_config

__all__ = ["PortOperations"]


class PortOperations(ReceiveHalf, SendHalf):
    """Everything that a port does between opening and closing."""

    async def configure(self, config: SerialConfig) -> None:
        """Apply all of ``config``. Bytes in flight get either the old or the new settings.

        On any error the previous settings are in force again and :attr:`config` is unchanged.

        Raises:
            UnsupportedConfigurationError: The driver did not accept a setting, or its rate
                differs by more than 2.5 %.
        """
        try:
            await self._change(self._device.configure, checked_config(self.path, config))
        finally:
            # If two calls overlap, the later wins. If this one was cancelled, what the driver has
            # done stands.
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

        The kernel reports the change (TIOCMIWAIT, in a thread). If a driver lacks that, its lines
        are read every 10 ms; if it counts changes, no pulse is missed. Any number of tasks may
        wait, and each can be cancelled.
        """
        mask = line_mask(cts=cts, dsr=dsr, ri=ri, cd=cd)
        return await self._wait_for_line_change(mask, self._waiter)

    async def error_counters(self) -> ErrorCounters:
        """Return the driver's counts of bytes and of receive errors.

        They start when the driver is loaded, not at opening: compare two readings.
        """
        return await self._in_worker(self._device.error_counters)

    async def reset_input_buffer(self) -> None:
        """Discard everything received and not yet returned.

        A receive that is cancelled afterwards does not return bytes from before.
        """
        self._check_usable()
        with self._noticing_disconnect():
            self._device.discard_input()
        self._forget_input()
        await self._waiter.checkpoint()

    async def reset_output_buffer(self) -> None:
        """Discard everything sent and not yet on the wire."""
        self._check_usable()
        with self._noticing_disconnect():
            self._device.discard_output()
        await self._waiter.checkpoint()

    async def _wait_for_line_change(self, mask: int, waiter: Waiter) -> CommEvent:
        self._check_usable()
        with self._noticing_disconnect():
            return await wait_for_line_change(self._device, mask, waiter)
