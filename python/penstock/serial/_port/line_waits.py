"""Waiting for a change of the modem lines, without missing a pulse."""

from __future__ import annotations

import termios

from penstock.serial._devices.backend import SerialBackend
from penstock.serial._port.waiter import Waiter, wait_for_ioctl
from penstock.serial._tty.pending_ioctl import PendingIoctl
from penstock.serial._values import CommEvent, LineActivity
from penstock.serial.exceptions import UnsupportedFeatureError

__all__ = ["changes_between", "line_mask", "wait_for_line_change"]

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
