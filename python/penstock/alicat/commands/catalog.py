"""All commands under one name."""

from __future__ import annotations

from typing import Any, Final

from penstock.alicat.commands.basis import (
    BASIS_AUTO_TARE,
    BASIS_BATCH,
    BASIS_GAINS,
    BASIS_GAS,
    BASIS_HOLD_VALVE,
    BASIS_RESET_TOTAL,
    BASIS_TARE,
)
from penstock.alicat.commands.batch import TOTALIZER_BATCH
from penstock.alicat.commands.baud_rate import BAUD_RATE
from penstock.alicat.commands.command import CommandSpec
from penstock.alicat.commands.conditions import (
    AVERAGE_TIMING,
    STP_NTP_PRESSURE,
    STP_NTP_TEMPERATURE,
    ZERO_BAND,
)
from penstock.alicat.commands.control import (
    DEADBAND_LIMIT,
    LOOP_CONTROL_VARIABLE,
    RAMP_OPTIONS,
    RAMP_RATE,
)
from penstock.alicat.commands.display import BLINK_DISPLAY, LOCK_DISPLAY, UNLOCK_DISPLAY
from penstock.alicat.commands.gas import GAS_LIST, GAS_SELECT, GAS_SELECT_LEGACY
from penstock.alicat.commands.mixes import CREATE_MIX, DELETE_MIX
from penstock.alicat.commands.output import ANALOG_OUTPUT_SOURCE
from penstock.alicat.commands.polling import POLL_DATA, REQUEST_DATA
from penstock.alicat.commands.registers import READ_REGISTER, WRITE_REGISTER
from penstock.alicat.commands.setpoint import SETPOINT, SETPOINT_LEGACY, SETPOINT_SOURCE
from penstock.alicat.commands.streaming import STREAMING_RATE
from penstock.alicat.commands.system import DATA_FRAME_FORMAT_QUERY, MANUFACTURING_INFO, VE_QUERY
from penstock.alicat.commands.tare import (
    AUTO_TARE,
    POWER_UP_TARE,
    TARE_ABSOLUTE_PRESSURE,
    TARE_FLOW,
    TARE_GAUGE_PRESSURE,
)
from penstock.alicat.commands.totalizer import (
    TOTALIZER_CONFIG,
    TOTALIZER_RESET,
    TOTALIZER_RESET_PEAK,
    TOTALIZER_SAVE,
)
from penstock.alicat.commands.units import ENGINEERING_UNITS, FULL_SCALE_QUERY
from penstock.alicat.commands.user_data import USER_DATA
from penstock.alicat.commands.valve import (
    CANCEL_VALVE_HOLD,
    EXHAUST,
    HOLD_VALVES,
    HOLD_VALVES_CLOSED,
    VALVE_DRIVE,
)

__all__ = ["Commands"]


class Commands:
    """Every command that a session can execute, by name."""

    POLL_DATA: Final = POLL_DATA
    REQUEST_DATA: Final = REQUEST_DATA
    VE_QUERY: Final = VE_QUERY
    MANUFACTURING_INFO: Final = MANUFACTURING_INFO
    DATA_FRAME_FORMAT_QUERY: Final = DATA_FRAME_FORMAT_QUERY
    GAS_SELECT: Final = GAS_SELECT
    GAS_SELECT_LEGACY: Final = GAS_SELECT_LEGACY
    GAS_LIST: Final = GAS_LIST
    ENGINEERING_UNITS: Final = ENGINEERING_UNITS
    FULL_SCALE_QUERY: Final = FULL_SCALE_QUERY
    SETPOINT: Final = SETPOINT
    SETPOINT_LEGACY: Final = SETPOINT_LEGACY
    SETPOINT_SOURCE: Final = SETPOINT_SOURCE
    LOOP_CONTROL_VARIABLE: Final = LOOP_CONTROL_VARIABLE
    RAMP_RATE: Final = RAMP_RATE
    DEADBAND_LIMIT: Final = DEADBAND_LIMIT
    HOLD_VALVES: Final = HOLD_VALVES
    HOLD_VALVES_CLOSED: Final = HOLD_VALVES_CLOSED
    CANCEL_VALVE_HOLD: Final = CANCEL_VALVE_HOLD
    VALVE_DRIVE: Final = VALVE_DRIVE
    TARE_FLOW: Final = TARE_FLOW
    TARE_GAUGE_PRESSURE: Final = TARE_GAUGE_PRESSURE
    TARE_ABSOLUTE_PRESSURE: Final = TARE_ABSOLUTE_PRESSURE
    AUTO_TARE: Final = AUTO_TARE
    POWER_UP_TARE: Final = POWER_UP_TARE
    ZERO_BAND: Final = ZERO_BAND
    AVERAGE_TIMING: Final = AVERAGE_TIMING
    STP_NTP_PRESSURE: Final = STP_NTP_PRESSURE
    STP_NTP_TEMPERATURE: Final = STP_NTP_TEMPERATURE
    ANALOG_OUTPUT_SOURCE: Final = ANALOG_OUTPUT_SOURCE
    BLINK_DISPLAY: Final = BLINK_DISPLAY
    LOCK_DISPLAY: Final = LOCK_DISPLAY
    UNLOCK_DISPLAY: Final = UNLOCK_DISPLAY
    USER_DATA: Final = USER_DATA
    TOTALIZER_CONFIG: Final = TOTALIZER_CONFIG
    TOTALIZER_RESET: Final = TOTALIZER_RESET
    TOTALIZER_RESET_PEAK: Final = TOTALIZER_RESET_PEAK
    TOTALIZER_SAVE: Final = TOTALIZER_SAVE
    STREAMING_RATE: Final = STREAMING_RATE
    RAMP_OPTIONS: Final = RAMP_OPTIONS
    EXHAUST: Final = EXHAUST
    CREATE_MIX: Final = CREATE_MIX
    DELETE_MIX: Final = DELETE_MIX
    TOTALIZER_BATCH: Final = TOTALIZER_BATCH
    READ_REGISTER: Final = READ_REGISTER
    WRITE_REGISTER: Final = WRITE_REGISTER
    BAUD_RATE: Final = BAUD_RATE
    BASIS_GAS: Final = BASIS_GAS
    BASIS_TARE: Final = BASIS_TARE
    BASIS_AUTO_TARE: Final = BASIS_AUTO_TARE
    BASIS_RESET_TOTAL: Final = BASIS_RESET_TOTAL
    BASIS_BATCH: Final = BASIS_BATCH
    BASIS_GAINS: Final = BASIS_GAINS
    BASIS_HOLD_VALVE: Final = BASIS_HOLD_VALVE

    @classmethod
    def all(cls) -> dict[str, CommandSpec[Any]]:
        """The commands by their names in this class."""
        return {name: value for name, value in vars(cls).items() if isinstance(value, CommandSpec)}
