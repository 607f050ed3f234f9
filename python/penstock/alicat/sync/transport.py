"""A transport over a serial port whose calls block."""

from __future__ import annotations

from penstock.alicat.sync.waiting import BLOCKING, DeadlinePassedError
from penstock.alicat.transport import (
    SerialSettings,
    describe_open_failure,
    known_baudrate,
    port_address,
)
from penstock.serial.sync import SerialPort, open_serial_port

__all__ = ["BlockingTransport", "open_blocking_transport"]


class BlockingTransport:
    """A :class:`penstock.alicat.Transport` whose coroutines block and never suspend.

    A call ends at the deadline of the block that it is made in.
    """

    def __init__(
        self, port: SerialPort, *, label: str | None = None, baudrate: int | None = None
    ) -> None:
        self._port = port
        self._label = label or port.path
        self._baudrate = baudrate

    @property
    def label(self) -> str:
        """The name to use in errors."""
        return self._label

    @property
    def baudrate(self) -> int | None:
        """Bits a second on the wire, or ``None``."""
        return self._baudrate

    async def send(self, data: bytes) -> None:
        """Send all of ``data``."""
        scope = BLOCKING.nearest()
        if scope is None:
            self._port.send(data)
            return
        try:
            self._port.send(data, timeout=max(0.0, scope.deadline - BLOCKING.now()))
        except TimeoutError:
            raise DeadlinePassedError(scope) from None

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Wait for bytes; never empty."""
        scope = BLOCKING.nearest()
        if scope is None:
            return self._port.receive(max_bytes)
        try:
            return self._port.receive(max_bytes, timeout=max(0.0, scope.deadline - BLOCKING.now()))
        except TimeoutError:
            raise DeadlinePassedError(scope) from None

    def input_waiting(self) -> int:
        """Bytes that :meth:`receive` would return at once."""
        return self._port.input_waiting()

    async def aclose(self) -> None:
        """Close the port; may be called more than once."""
        self._port.close()


async def open_blocking_transport(settings: SerialSettings) -> BlockingTransport:
    """Open the port that ``settings`` describe; raises as ``open_serial_transport``."""
    config = settings.to_serial_config()
    with describe_open_failure(settings):
        port = open_serial_port(port_address(settings.port), config)
    return BlockingTransport(port, label=settings.port, baudrate=known_baudrate(settings))
