"""``serial.tools``: listing ports."""
