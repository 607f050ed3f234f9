"""Waiting until output has left the machine. Every wait can be cancelled."""

from __future__ import annotations

from collections.abc import Callable

from penstock.serial._devices.backend import SerialBackend
from penstock.serial._port.waiter import Waiter, wait_for_ioctl
from penstock.serial.config import Parity, SerialConfig, StopBits

__all__ = [
    "CLOSE_LINGER_S",
    "poll_interval",
    "wait_until_buffer_is_empty",
    "wait_until_on_the_wire",
]

CLOSE_LINGER_S = 30.0  # what the kernel itself waits for unsent output (closing_wait)
_SHORTEST_NAP_S = 0.001
_LONGEST_NAP_S = 0.01


async def wait_until_buffer_is_empty(
    pending: Callable[[], int], config: SerialConfig, waiter: Waiter
) -> None:
    """Wait until ``pending``, the driver's count, is 0. The chip's FIFO may still hold bytes.

    The kernel has no readiness event for this. So the count is read again after a sleep: as long
    as the rest needs at the configured rate, at most 10 ms.
    """
    await waiter.checkpoint()
    while count := pending():
        await waiter.sleep(poll_interval(count, config))


async def wait_until_on_the_wire(
    pending: Callable[[], int], device: SerialBackend, waiter: Waiter
) -> None:
    """Wait until ``pending`` is 0 and the chip of ``device`` has sent the last bit."""
    await wait_until_buffer_is_empty(pending, device.config, waiter)
    while (empty := await waiter.call(device.transmitter_is_empty)) is False:
        await waiter.sleep(poll_interval(1, device.config))
    if empty is None:
        # This driver does not report it; tcdrain waits for it.
        draining = device.begin_drain()
        try:
            while not await wait_for_ioctl(waiter, draining, device.path):
                pass
        finally:
            draining.cancel()


def character_bits(config: SerialConfig) -> float:
    """Return how many bit times one character takes: start, data, parity and stop bits."""
    parity = 0 if config.parity is Parity.NONE else 1
    return 1 + int(config.byte_size) + parity + float(StopBits(config.stop_bits))


def poll_interval(pending: int, config: SerialConfig) -> float:
    """Return how long to sleep before a count of ``pending`` bytes is read again."""
    needed = pending * character_bits(config) / config.baudrate
    return min(max(needed, _SHORTEST_NAP_S), _LONGEST_NAP_S)
