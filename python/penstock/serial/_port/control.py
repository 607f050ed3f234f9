"""Settings, modem and control lines and their changes, counters and queues of a port."""

from __future__ import annotations

import termios

from penstock.serial._devices.backend import SerialBackend
from penstock.serial._port.receive import ReceiveHalf
from penstock.serial._port.send import SendHalf
from penstock.serial._port.waiter import Waiter, wait_for_ioctl
from penstock.serial._tty.system_calls import PendingIoctl
from penstock.serial._values import CommEvent, ControlLines, ErrorCounters, LineActivity, ModemLines
from penstock.serial.config import SerialConfig, check_line_states, checked_config
from penstock.serial.exceptions import UnsupportedFeatureError


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


_ORDER = (termios.TIOCM_CTS, termios.TIOCM_DSR, termios.TIOCM_RI, termios.TIOCM_CD)
# TIOCMIWAIT begins to wait a moment after the lines were read, and does not report what changes
# in between. So the lines are read again: once it waits, and then from time to time.
_POLL_INTERVAL_S = 0.1
_POLL_WITHOUT_WAIT_S = 0.01


def line_mask(*, cts: bool, dsr: bool, ri: bool, cd: bool) -> int:
    """Return the TIOCM_* bits of the chosen lines; ValueError if none is."""
    chosen = zip((cts, dsr, ri, cd), _ORDER, strict=True)
    mask = sum(bit for wanted, bit in chosen if wanted)
    if not mask:
        raise ValueError("choose at least one line to wait for")
    return mask


def changes_between(before: LineActivity, after: LineActivity, mask: int) -> CommEvent | None:
    """Return which lines of ``mask`` changed, None if none did."""
    changed = before.lines ^ after.lines
    if before.counts is not None and after.counts is not None:
        for bit, old, new in zip(_ORDER, before.counts, after.counts, strict=True):
            if old != new:
                changed |= bit
    changed &= mask
    if not changed:
        return None
    return CommEvent(
        cts_changed=bool(changed & termios.TIOCM_CTS),
        dsr_changed=bool(changed & termios.TIOCM_DSR),
        rlsd_changed=bool(changed & termios.TIOCM_CD),
        ring=bool(changed & termios.TIOCM_RI),
        error=after.errors != before.errors,
        break_received=after.breaks != before.breaks,
    )


async def wait_for_line_change(device: SerialBackend, mask: int, waiter: Waiter) -> CommEvent:
    """Wait until a line of ``mask`` has changed since the call."""
    before = await waiter.call(device.line_activity)
    pending: PendingIoctl | None = None
    kernel_waits = True
    try:
        while True:
            if kernel_waits and pending is None:
                pending = device.begin_line_wait(mask)
            after = await waiter.call(device.line_activity)
            event = changes_between(before, after, mask)
            if event is not None:
                return event
            if pending is None:
                await waiter.sleep(_POLL_WITHOUT_WAIT_S)
                continue
            try:
                if not await wait_for_ioctl(waiter, pending, device.path, _POLL_INTERVAL_S):
                    continue
            except UnsupportedFeatureError:
                kernel_waits = False
            pending.cancel()
            pending = None
    finally:
        if pending is not None:
            pending.cancel()
