"""The formats of compressed files, and how each is opened."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import os
import sys
from typing import IO, TYPE_CHECKING, Any, Literal, cast

if TYPE_CHECKING:
    from _typeshed import StrOrBytesPath, WriteableBuffer

Format = Literal["gzip", "bz2", "xz", "zstd"]

_MAGIC: dict[bytes, Format] = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_SUFFIXES: dict[str, Format] = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}
_LEVELS: dict[str, int] = {"gzip": 9, "bz2": 9, "xz": 6, "zstd": 3}

_PIECE = 2048
"""Compressed bytes a step: they may become 30,000 times as many."""


def open_blocking(
    path: StrOrBytesPath, mode: str, chosen: Format | None, level: int | None
) -> IO[bytes]:
    """Open a compressed file: ``mode`` is "r", "w", "a" or "x". Blocks the calling thread."""
    name = chosen or _format_of(path, mode)
    if name not in _LEVELS:
        raise ValueError(f"format {name!r} is not one of {', '.join(_LEVELS)}")
    level = _LEVELS[name] if level is None else level
    reading = mode == "r"
    if name == "gzip":
        return cast("IO[bytes]", gzip.open(path, mode + "b", 9 if reading else level))
    if name == "bz2":
        return cast("IO[bytes]", bz2.open(path, mode + "b", 9 if reading else level))
    if name == "xz":
        options = {} if reading else {"preset": level}
        return lzma.open(path, mode + "b", **options)  # type: ignore[call-overload, no-any-return]
    return _open_zstd(path, mode, level)


def _format_of(path: StrOrBytesPath, mode: str) -> Format:
    """Tell the format by the first bytes of a file that is read, otherwise by its name."""
    if mode == "r":
        with open(path, "rb", buffering=0) as file:
            begin = file.read(6)
        for magic, name in _MAGIC.items():
            if begin.startswith(magic):
                return name
        if begin:
            raise ValueError(f"{os.fspath(path)!r} is not a gzip, bz2, xz or zstd file")
    suffix = os.path.splitext(os.fsdecode(path))[1]
    if suffix not in _SUFFIXES:
        raise ValueError(
            f"{os.fspath(path)!r} does not end in {', '.join(_SUFFIXES)}; pass format="
        )
    return _SUFFIXES[suffix]


def _open_zstd(path: StrOrBytesPath, mode: str, level: int) -> IO[bytes]:
    reading = mode == "r"
    if sys.version_info >= (3, 14):
        zstd: Any = importlib.import_module("compression.zstd")
        wanted = zstd.CompressionParameter
        options = {wanted.compression_level: level, wanted.checksum_flag: 1}
        opened: IO[bytes] = zstd.open(path, mode + "b", options=None if reading else options)
        return opened
    try:
        zstandard: Any = importlib.import_module("zstandard")
    except ImportError:
        raise ModuleNotFoundError(
            "zstd before Python 3.14 needs the package zstandard; install penstock[compress]"
        ) from None
    file = open(path, mode + "b")  # noqa: SIM115
    if reading:
        return io.BufferedReader(_ZstdReader(zstandard, file), 64 << 10)
    compressor = zstandard.ZstdCompressor(level=level, write_checksum=True)
    writer: IO[bytes] = compressor.stream_writer(file, closefd=True)
    return writer


class _ZstdReader(io.RawIOBase):
    """Reads frames one after the other; zstandard's own reader takes a torn one for the end."""

    def __init__(self, zstandard: Any, file: IO[bytes]) -> None:
        self._decompressor = zstandard.ZstdDecompressor()
        self._error: type[Exception] = zstandard.ZstdError
        self._file = file
        self._frame: Any = None
        self._data = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._data:
            piece = self._file.read(_PIECE)
            if not piece:
                if self._frame is not None:
                    raise EOFError("the file ended before the end of its last zstd frame")
                return 0
            parts = []
            while piece:
                if self._frame is None:
                    self._frame = self._decompressor.decompressobj()
                try:
                    parts.append(self._frame.decompress(piece))
                except self._error as error:
                    raise OSError(f"not a valid zstd frame: {error}") from error
                piece = self._frame.unused_data
                if self._frame.eof:
                    self._frame = None
            self._data = b"".join(parts)
        with memoryview(buffer) as view:
            count = min(len(view), len(self._data))
            view[:count] = self._data[:count]
        self._data = self._data[count:]
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
