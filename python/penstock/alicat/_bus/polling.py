"""Polling the devices of one bus one after another."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic_ns, time_ns
from typing import Protocol, TypeVar

from penstock.alicat._frames.reading import Reading
from penstock.alicat._instrument.result import DeviceResult
from penstock.alicat.errors import AlicatError

__all__ = ["Pollable", "poll_in_turn"]


class Pollable(Protocol):
    """A device that is asked for a reading."""

    async def poll(self) -> Reading:
        """Ask for one reading; raises an :class:`AlicatError` where there is none."""


D = TypeVar("D", bound=Pollable)


async def poll_in_turn(
    devices: Sequence[tuple[str, D]], results: dict[str, DeviceResult[Reading]]
) -> None:
    """Poll each device and put its result, or its failure, into ``results`` under its name."""
    for name, device in devices:
        requested_ns, requested_unix_ns = monotonic_ns(), time_ns()
        try:
            results[name] = DeviceResult.of_reading(await device.poll())
        except AlicatError as error:
            results[name] = DeviceResult[Reading].failure(
                error, requested_monotonic_ns=requested_ns, requested_unix_ns=requested_unix_ns
            )
