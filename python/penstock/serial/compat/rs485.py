"""``serial.rs485``: the kernel's mode, and one in software."""

from __future__ import annotations

import time
from typing import Any

from penstock.serial.compat._port import Serial
from penstock.serial.compat._settings import RS485Settings

__all__ = ["RS485", "RS485Settings"]


class RS485(Serial):
    """A port whose ``write`` switches RTS, for devices whose driver cannot.

    RTS changes back after the driver reports the last bit as sent, with the scheduler's delay.
    """

    _switched: RS485Settings | None = None

    @property
    def rs485_mode(self) -> RS485Settings | None:
        """How to switch RTS; None: not at all."""
        return self._switched

    @rs485_mode.setter
    def rs485_mode(self, rs485_settings: RS485Settings | None) -> None:
        self._switched = rs485_settings

    def write(self, b: Any) -> int:
        """Write with RTS at its sending level; return the count once everything is sent."""
        settings = self._switched
        if settings is None:
            return super().write(b)
        self.rts = settings.rts_level_for_tx
        try:
            time.sleep(settings.delay_before_tx or 0)
            count = super().write(b)
            self.flush()
            time.sleep(settings.delay_before_rx or 0)
        finally:
            self.rts = settings.rts_level_for_rx  # in any case: others use the bus
        return count
