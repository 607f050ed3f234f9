"""Waiting for a modem line to change, without a pulse being missed."""

from __future__ import annotations

import termios
from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread

from penstock.serial.backend import SerialBackend
from penstock.serial.exceptions import UnsupportedFeatureError
from penstock.serial.lines import CommEvent, LineActivity
from penstock.serial.pending_ioctl import PendingIoctl

__all__ = [
    "LOOK_AGAIN_S",
    "LOOK_WITHOUT_WAIT_S",
    "changes_between",
    "line_mask",
    "until_lines_change",
]

_ORDER = (termios.TIOCM_CTS, termios.TIOCM_DSR, termios.TIOCM_RI, termios.TIOCM_CD)
# The kernel begins to wait a moment after this has looked, and tells nothing of what changes in
# between. So this looks again, at once and then from time to time.
LOOK_AGAIN_S = 0.1
LOOK_WITHOUT_WAIT_S = 0.01


def line_mask(*, cts: bool, dsr: bool, ri: bool, cd: bool) -> int:
    """Return the TIOCM_* bits of the chosen lines; ValueError if none is."""
    chosen = zip((cts, dsr, ri, cd), _ORDER, strict=True)
    mask = sum(bit for wanted, bit in chosen if wanted)
    if not mask:
        raise ValueError("choose at least one line to wait for")
    return mask


def changes_between(before: LineActivity, after: LineActivity, mask: int) -> CommEvent | None:
    """Return which lines of *mask* changed, None if none did."""
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


async def until_lines_change(
    device: SerialBackend, mask: int, until_done: Callable[[PendingIoctl], Awaitable[None]]
) -> CommEvent:
    """Return once a line of *mask* has changed since the call; *until_done* waits for an ioctl."""
    before = await anyio.to_thread.run_sync(device.line_activity)
    waiting: PendingIoctl | None = None
    kernel_waits = True
    try:
        while True:
            if kernel_waits and waiting is None:
                waiting = device.begin_line_wait(mask)
            after = await anyio.to_thread.run_sync(device.line_activity)
            event = changes_between(before, after, mask)
            if event is not None:
                return event
            if waiting is None:
                await anyio.sleep(LOOK_WITHOUT_WAIT_S)
                continue
            with anyio.move_on_after(LOOK_AGAIN_S) as look:
                try:
                    await until_done(waiting)
                except UnsupportedFeatureError:
                    kernel_waits = False
            if not look.cancelled_caught:
                waiting.cancel()
                waiting = None
    finally:
        if waiting is not None:
            waiting.cancel()
