"""The last complete line of a text file that was cut off."""

from __future__ import annotations

from typing import BinaryIO

__all__ = ["last_whole_line"]


def last_whole_line(file: BinaryIO, *, quoted: bool) -> tuple[int, int]:
    """Where the last complete line ends, from the file's position on, and how many there are.

    With ``quoted``, as in CSV, a line may hold line breaks inside quotes, and ends with CRLF.
    """
    position = end = rows = 0
    inside_quotes = False
    ending = b"\r\n" if quoted else b"\n"
    for line in file:
        position += len(line)
        if quoted and line.count(b'"') % 2:
            inside_quotes = not inside_quotes
        if not inside_quotes and line.endswith(ending):
            end = position
            rows += 1
    return end, rows
