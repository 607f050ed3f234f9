"""Typed attributes of a serial port (``port.extra(SerialStreamAttribute.config)``)."""

from __future__ import annotations

from anyio import TypedAttributeSet, typed_attribute

from penstock.serial.capabilities import SerialCapabilities
from penstock.serial.config import SerialConfig
from penstock.serial.portinfo import PortInfo

__all__ = ["SerialStreamAttribute"]


class SerialStreamAttribute(TypedAttributeSet):
    """What can be asked of a stream that may have a serial port at its bottom."""

    #: what the device can do
    capabilities: SerialCapabilities = typed_attribute()
    #: the settings in force
    config: SerialConfig = typed_attribute()
    #: what the system knows of the device; only where it knows something
    port_info: PortInfo = typed_attribute()
