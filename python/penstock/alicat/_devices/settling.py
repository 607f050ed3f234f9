"""Waiting until a controller has reached its setpoint."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from penstock.alicat.errors import (
    AlicatTimeoutError,
    AlicatUnsupportedCommandError,
    AlicatValidationError,
    ErrorContext,
)

if TYPE_CHECKING:
    from penstock.alicat._devices.device import Device
    from penstock.alicat._instrument.reading import Reading


_RELATIVE_TOLERANCE = 0.01
_LEAST_TOLERANCE = 0.02


async def wait_until_settled(
    device: Device,
    target: float,
    *,
    tolerance: float | None,
    hold_duration: float,
    timeout: float,
    interval: float,
) -> Reading:
    """Poll until the controlled quantity has stayed near ``target`` for ``hold_duration`` seconds.

    Both the measured value and the setpoint that the instrument follows must be within
    ``tolerance``, in the unit of the setpoint (default: a hundredth of ``target``, at least 0.02).

    Returns:
        The first reading at which it had settled.

    Raises:
        AlicatTimeoutError: it has not settled within ``timeout`` seconds; the message states the
            deviation.
        AlicatUnsupportedCommandError: the data frame does not have both columns.
        AlicatValidationError: a number is out of range.
    """
    if tolerance is not None and not tolerance > 0:
        raise AlicatValidationError(f"tolerance must be above 0, not {tolerance!r}")
    if not hold_duration >= 0 or not timeout > 0 or not interval >= 0:
        raise AlicatValidationError(
            "hold_duration and interval must not be negative and timeout must be above 0, not "
            f"{hold_duration!r}, {interval!r} and {timeout!r}"
        )
    unit_id = device.unit_id
    columns = device.data_frame_format
    setpoint = columns.setpoint_field
    controlled = setpoint.statistic.controlled if setpoint and setpoint.statistic else None
    value_field = next(
        (f for f in columns.fields if controlled is not None and f.statistic is controlled), None
    )
    if setpoint is None or value_field is None:
        raise AlicatUnsupportedCommandError(
            f"the data frame of unit {unit_id} does not show both a setpoint and what it controls: "
            f"it has {', '.join(columns.names())}",
            context=ErrorContext(unit_id=unit_id),
        )
    if tolerance is None:
        tolerance = max(abs(target) * _RELATIVE_TOLERANCE, _LEAST_TOLERANCE)
    give_up_at = monotonic() + timeout
    settled: Reading | None = None
    while True:
        reading = await device.poll()
        value = reading.get_float(value_field.name)
        followed = reading.get_float(setpoint.name)
        near = (
            value is not None
            and followed is not None
            and abs(value - target) <= tolerance
            and abs(followed - target) <= tolerance
        )
        if not near:
            settled = None
        elif settled is None:
            settled = reading
        if (
            settled is not None
            and reading.monotonic_ns - settled.monotonic_ns >= hold_duration * 1e9
        ):
            return settled
        if monotonic() >= give_up_at:
            raise AlicatTimeoutError(
                f"unit {unit_id} has not settled at {target:g} within {timeout:g} s: "
                f"{value_field.name} is {value}, and it follows {followed}; allow more time or a "
                "larger tolerance, and check the supply",
                context=ErrorContext(unit_id=unit_id, port=device.client.label),
            )
        await device.client.sleep(interval)
