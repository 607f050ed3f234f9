# The native half of penstock.record; private to the package.
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from typing_extensions import Buffer

# The kind ("f" float64, "i" int64, "b" int8 truth values, "t" int64 nanoseconds since 1970 UTC,
# "s" int32 places in the texts, -1 for null), the values, a byte for each value that is 0 where it
# is null, and the texts.
Column = tuple[str, Buffer, Buffer | None, Sequence[bytes] | None]

def csv_rows(columns: Sequence[Column], start: int, stop: int, /) -> bytes: ...
def json_rows(
    columns: Sequence[Column], labels: Sequence[bytes], start: int, stop: int, /
) -> bytes: ...
def copy_rows(columns: Sequence[Column], start: int, stop: int, /) -> bytes: ...
def line_rows(
    columns: Sequence[Column], labels: Sequence[bytes], start: int, stop: int, /
) -> bytes: ...
def rising_stamps(stamps: Buffer, codes: Buffer, last: Buffer, start: int, /) -> int: ...
def attribute_lists(objects: Iterable[Any], names: tuple[str, ...], /) -> tuple[list[Any], ...]: ...
def value_lists(
    mappings: Iterable[Any], names: tuple[str, ...], /
) -> tuple[tuple[list[Any], ...], bool]: ...
def float_cells(cells: list[Any], /) -> tuple[bytes, bytes] | None: ...
def frame_values(
    prefix: bytes,
    names: tuple[str, ...],
    widths: tuple[int, ...],
    decimals: tuple[int, ...],
    text_width: int,
    texts: dict[bytes, str],
    line: bytes,
    /,
) -> dict[str, float | str] | None: ...
def utc_stamps(moments: Iterable[datetime], otherwise: Callable[[Any], int], /) -> bytes: ...
