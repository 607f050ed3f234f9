"""The answers of an instrument: ASCII, BASIS, Modbus."""
