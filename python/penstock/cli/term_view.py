"""How ``penstock term`` shows bytes: as they are, or as a hexadecimal dump."""

from __future__ import annotations

__all__ = ["View"]

_ROW = 16


class View:
    """Turns received bytes into what the screen gets. ``hex`` may be switched at any time."""

    def __init__(self, *, hexadecimal: bool) -> None:
        self.hexadecimal = hexadecimal
        self._offset = 0

    def show(self, data: bytes) -> bytes:
        """What to write for *data*, whole lines in the hexadecimal view."""
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
