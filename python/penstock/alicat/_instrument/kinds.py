"""The kind of an instrument, its media, and its optional hardware."""

from __future__ import annotations

from enum import Flag, StrEnum, auto

__all__ = ["Capability", "DeviceKind", "Medium"]


class DeviceKind(StrEnum):
    """Meter or controller, of flow or of pressure."""

    FLOW_METER = "flow_meter"
    FLOW_CONTROLLER = "flow_controller"
    PRESSURE_METER = "pressure_meter"
    PRESSURE_CONTROLLER = "pressure_controller"
    UNKNOWN = "unknown"

    @property
    def is_controller(self) -> bool:
        """Whether instruments of this kind have a setpoint."""
        return self in (DeviceKind.FLOW_CONTROLLER, DeviceKind.PRESSURE_CONTROLLER)


class Medium(Flag):
    """What flows through the instrument. Some models are made for both."""

    NONE = 0
    GAS = auto()
    LIQUID = auto()


class Capability(Flag):
    """Optional hardware, which the model name does not show.

    An instrument cannot be asked for most of these, so they count as absent unless the caller
    states them: ``open_device(..., assume_capabilities=Capability.BIDIRECTIONAL)``.
    """

    NONE = 0
    BAROMETER = auto()
    TAREABLE_ABSOLUTE_PRESSURE = auto()
    SECONDARY_PRESSURE = auto()
    ANALOG_INPUT = auto()
    ANALOG_OUTPUT = auto()
    SECONDARY_ANALOG_OUTPUT = auto()
    REMOTE_TARE_PIN = auto()
    MULTI_VALVE = auto()
    THIRD_VALVE = auto()
    BIDIRECTIONAL = auto()
    TOTALIZER = auto()
    DISPLAY = auto()
