"""What a port supports, and its typed attributes."""

from __future__ import annotations

from penstock.serial._values import Capability, SerialCapabilities, SerialStreamAttribute

__all__ = ["Capability", "SerialCapabilities", "SerialStreamAttribute"]
