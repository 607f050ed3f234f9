"""What a port of either kind tells of itself without asking the device."""

from __future__ import annotations

from penstock.serial.backend import SerialBackend
from penstock.serial.capabilities import SerialCapabilities
from penstock.serial.config import SerialConfig
from penstock.serial.portinfo import PortInfo

__all__ = ["PortFacts"]


class PortFacts:
    """The common properties of the asynchronous and the synchronous port."""

    def __init__(self, device: SerialBackend, port_info: PortInfo | None) -> None:
        self._device = device
        self._port_info = port_info

    @property
    def path(self) -> str:
        """The path as it was given."""
        return self._device.path

    @property
    def config(self) -> SerialConfig:
        """The settings in force, as they were asked for."""
        return self._device.config

    @property
    def actual_baudrate(self) -> int:
        """The rate that the driver reports, which may differ from the asked one by rounding."""
        return self._device.actual_baudrate

    @property
    def capabilities(self) -> SerialCapabilities:
        return self._device.capabilities

    @property
    def port_info(self) -> PortInfo | None:
        """What the system knows of the device, or None (a pty, for one)."""
        return self._port_info
