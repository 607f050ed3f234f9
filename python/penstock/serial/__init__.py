"""Serial ports as AnyIO byte streams, on asyncio's loops and on trio.

``port = await open_serial_port("/dev/ttyUSB0", SerialConfig(baudrate=19_200))``
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._public_names import claim as _claim
from penstock.serial._port.exchange import ExchangePart, SerialAnswer
from penstock.serial._port.port import SerialConnectable, SerialPort, open_serial_port
from penstock.serial._port.receive import Fault, MarkedBytes
from penstock.serial._port.reconnecting import Backoff, ConnectionEvent, ReconnectingSerialPort
from penstock.serial._values import (
    BytesLike,
    Capability,
    CommEvent,
    ControlLines,
    ErrorCounters,
    ModemLines,
    PortInfo,
    SerialCapabilities,
    SerialStreamAttribute,
)
from penstock.serial._watching import PortEvent, watch_serial_ports
from penstock.serial.config import (
    ByteSize,
    FlowControl,
    Parity,
    RS485Config,
    SerialConfig,
    StopBits,
    UnsupportedPolicy,
)
from penstock.serial.discovery import (
    DiscoveryBackend,
    canonical_port_name,
    find_serial_port,
    list_serial_ports,
)
from penstock.serial.exceptions import (
    ConfigurationError,
    PortBusyError,
    PortNotFoundError,
    PortPermissionError,
    SerialClosedError,
    SerialDisconnectedError,
    SerialError,
    SerialTimeoutError,
    UnreadInputError,
    UnsupportedAsyncBackendError,
    UnsupportedConfigurationError,
    UnsupportedFeatureError,
    UnsupportedPlatformError,
)

if TYPE_CHECKING:
    __version__: str

__all__ = [
    "Backoff",
    "ByteSize",
    "BytesLike",
    "Capability",
    "CommEvent",
    "ConfigurationError",
    "ConnectionEvent",
    "ControlLines",
    "DiscoveryBackend",
    "ErrorCounters",
    "ExchangePart",
    "Fault",
    "FlowControl",
    "MarkedBytes",
    "ModemLines",
    "Parity",
    "PortBusyError",
    "PortEvent",
    "PortInfo",
    "PortNotFoundError",
    "PortPermissionError",
    "RS485Config",
    "ReconnectingSerialPort",
    "SerialAnswer",
    "SerialCapabilities",
    "SerialClosedError",
    "SerialConfig",
    "SerialConnectable",
    "SerialDisconnectedError",
    "SerialError",
    "SerialPort",
    "SerialStreamAttribute",
    "SerialTimeoutError",
    "StopBits",
    "UnreadInputError",
    "UnsupportedAsyncBackendError",
    "UnsupportedConfigurationError",
    "UnsupportedFeatureError",
    "UnsupportedPlatformError",
    "UnsupportedPolicy",
    "__version__",
    "canonical_port_name",
    "find_serial_port",
    "list_serial_ports",
    "open_serial_port",
    "watch_serial_ports",
]

_claim(globals())


def __getattr__(name: str) -> object:
    if name == "__version__":
        import penstock

        return penstock.__version__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
