"""Waiting until output has left the machine, in ways that can be cancelled."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import anyio
import anyio.to_thread
from anyio.lowlevel import checkpoint

from penstock.serial import ttyioctl
from penstock.serial.backend import SerialBackend
from penstock.serial.config import Parity, SerialConfig, StopBits

__all__ = ["until_buffer_is_empty", "until_on_the_wire"]

_SHORTEST_NAP_S = 0.001
_LONGEST_NAP_S = 0.01


async def until_buffer_is_empty(pending: Callable[[], int], config: SerialConfig) -> None:
    """Return when *pending*, the driver's count, is 0; the chip's FIFO may still hold bytes.

    The kernel has no readiness event for it, so this looks, sleeps as long as the rest needs at
    the configured rate, but at most 10 ms, and looks again.
    """
    await checkpoint()
    while count := pending():  # noqa: ASYNC110 - the kernel sends no event
        await anyio.sleep(_nap(count, config))


async def until_on_the_wire(pending: Callable[[], int], device: SerialBackend) -> None:
    """Return when *pending* is 0 and *device* has sent the last bit."""
    await until_buffer_is_empty(pending, device.config)
    empty = await anyio.to_thread.run_sync(device.transmitter_is_empty)
    while empty is False:
        await anyio.sleep(_nap(1, device.config))
        empty = await anyio.to_thread.run_sync(device.transmitter_is_empty)
    if empty is None:
        # tcdrain alone knows. It cannot be interrupted, but with an empty buffer only the FIFO
        # is left to wait for; on cancellation the thread is left to end by itself.
        job = _Drain(await anyio.to_thread.run_sync(device.duplicate))
        try:
            await anyio.to_thread.run_sync(
                job.run, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
            )
        finally:
            job.abandon()


def character_bits(config: SerialConfig) -> float:
    """Return how many bit times one character takes: start, data, parity and stop bits."""
    parity = 0 if config.parity is Parity.NONE else 1
    return 1 + int(config.byte_size) + parity + float(StopBits(config.stop_bits))


def _nap(pending: int, config: SerialConfig) -> float:
    needed = pending * character_bits(config) / config.baudrate
    return min(max(needed, _SHORTEST_NAP_S), _LONGEST_NAP_S)


class _Drain:
    """tcdrain on a descriptor of its own.

    Its own, because an abandoned thread may outlive the port, whose number the kernel would give
    to the next file that is opened. Closed by whichever side comes last.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._started = False

    def run(self) -> None:
        with self._lock:
            if self._fd < 0:
                return
            self._started = True
        try:
            ttyioctl.wait_until_sent(self._fd)
        finally:
            os.close(self._fd)

    def abandon(self) -> None:
        """Close the descriptor if the thread never got to run."""
        with self._lock:
            if not self._started and self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
