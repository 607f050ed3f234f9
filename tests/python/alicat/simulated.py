"""The simulated families that have a table of their data frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.sim import (
    AsciiUnit,
    CoriolisController,
    CoriolisMeter,
    LiquidController,
    LiquidMeter,
    MassFlowController,
    MassFlowMeter,
    PressureController,
    PressureMeter,
)

ASCII_FAMILIES: tuple[Callable[..., AsciiUnit | Any], ...] = (
    MassFlowController,
    MassFlowMeter,
    LiquidController,
    LiquidMeter,
    CoriolisController,
    CoriolisMeter,
    PressureController,
    PressureMeter,
)
