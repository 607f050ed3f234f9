"""pyserial's description of an RS-485 mode."""

from __future__ import annotations

from penstock.serial.config import RS485Config

__all__ = ["RS485Settings", "rs485_config"]


class RS485Settings:
    """Levels of RTS when sending and when idle, whether own bytes are echoed, delays in s."""

    def __init__(
        self,
        rts_level_for_tx: bool = True,
        rts_level_for_rx: bool = False,
        loopback: bool = False,
        delay_before_tx: float | None = None,
        delay_before_rx: float | None = None,
    ) -> None:
        self.rts_level_for_tx = rts_level_for_tx
        self.rts_level_for_rx = rts_level_for_rx
        self.loopback = loopback
        self.delay_before_tx = delay_before_tx
        self.delay_before_rx = delay_before_rx


def rs485_config(settings: RS485Settings | None) -> RS485Config | None:
    """Return pyserial's settings as this package's."""
    if settings is None:
        return None
    return RS485Config(
        rts_on_send=bool(settings.rts_level_for_tx),
        rts_after_send=bool(settings.rts_level_for_rx),
        rx_during_tx=bool(settings.loopback),
        delay_before_send=settings.delay_before_tx or 0.0,
        delay_after_send=settings.delay_before_rx or 0.0,
    )
