"""Waiting until output has left the machine, in ways that can be cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint

from penstock.serial.backend import SerialBackend
from penstock.serial.config import Parity, SerialConfig, StopBits
from penstock.serial.pending_ioctl import PendingIoctl

__all__ = ["CLOSE_LINGER_S", "nap_for", "until_buffer_is_empty", "until_on_the_wire"]

CLOSE_LINGER_S = 30.0  # what the kernel itself waits for unsent output (closing_wait)
_SHORTEST_NAP_S = 0.001
_LONGEST_NAP_S = 0.01


async def until_buffer_is_empty(pending: Callable[[], int], config: SerialConfig) -> None:
    """Return when *pending*, the driver's count, is 0; the chip's FIFO may still hold bytes.

    The kernel has no readiness event for it, so this looks, sleeps as long as the rest needs at
    the configured rate, but at most 10 ms, and looks again.
    """
    await checkpoint()
    while count := pending():  # noqa: ASYNC110 - the kernel sends no event
        await anyio.sleep(nap_for(count, config))


async def until_on_the_wire(
    pending: Callable[[], int],
    device: SerialBackend,
    until_done: Callable[[PendingIoctl], Awaitable[None]],
) -> None:
    """Return when *pending* is 0 and the chip of *device* has sent the last bit.

    *until_done* waits for an ioctl.
    """
    await until_buffer_is_empty(pending, device.config)
    empty = await anyio.to_thread.run_sync(device.transmitter_is_empty)
    while empty is False:
        await anyio.sleep(nap_for(1, device.config))
        empty = await anyio.to_thread.run_sync(device.transmitter_is_empty)
    if empty is None:
        # tcdrain alone knows.
        draining = device.begin_drain()
        try:
            await until_done(draining)
        finally:
            draining.cancel()


def character_bits(config: SerialConfig) -> float:
    """Return how many bit times one character takes: start, data, parity and stop bits."""
    parity = 0 if config.parity is Parity.NONE else 1
    return 1 + int(config.byte_size) + parity + float(StopBits(config.stop_bits))


def nap_for(pending: int, config: SerialConfig) -> float:
    """Return how long to sleep before looking at a count of *pending* bytes again."""
    needed = pending * character_bits(config) / config.baudrate
    return min(max(needed, _SHORTEST_NAP_S), _LONGEST_NAP_S)
