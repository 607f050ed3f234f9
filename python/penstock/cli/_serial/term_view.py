"""How ``penstock term`` shows bytes: unchanged or as a hexadecimal dump."""

from __future__ import annotations

__all__ = ["View"]

_ROW = 16


class View:
    """Formats received bytes for the screen. ``hexadecimal`` may be changed at any time."""

    def __init__(self, *, hexadecimal: bool) -> None:
        self.hexadecimal = hexadecimal
        self._offset = 0

    def show(self, data: bytes) -> bytes:
        """Return what to write for ``data``; the hexadecimal view always writes whole lines."""
        start, self._offset = self._offset, self._offset + len(data)
        if not self.hexadecimal:
            return data
        rows = [
            _row(start + place, data[place : place + _ROW]) for place in range(0, len(data), _ROW)
        ]
        return "".join(rows).encode()


def _row(offset: int, data: bytes) -> str:
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)
    return f"{offset:08X}  {data.hex(' ').upper():<47}  {text}\n"
