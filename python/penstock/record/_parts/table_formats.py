"""The formats whose files hold Arrow tables: Parquet and Arrow IPC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from penstock.record.arrow import load_pyarrow, pyarrow_module

ParquetCompression = Literal["zstd", "snappy", "gzip", "brotli", "lz4", "none"]
PARQUET_COMPRESSIONS = ("zstd", "snappy", "gzip", "brotli", "lz4", "none")
ArrowCompression = Literal["zstd", "lz4", "none"]
ARROW_COMPRESSIONS = ("zstd", "lz4", "none")

_LARGEST_ROW_GROUP = 1_048_576
_ROWS_OF_A_PIECE = 262_144
_DELTA_CODED = ("t_utc", "t_mono_ns", "requested_at", "received_at", "archive_row")


class TableFormat(Protocol):
    """How tables become a file, and a file a table."""

    @property
    def suffix(self) -> str: ...

    def load(self) -> None:
        """Import what is needed; SinkDependencyError without pyarrow."""

    def write(self, tables: Iterable[Any], schema: Any, sink: Any) -> None:
        """Write tables of one schema into ``sink``, an Arrow output stream or a binary file."""

    def read(self, path: Path) -> Any:
        """The whole file as a table, validated: a damaged one could end the process."""

    def pieces(self, path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """The rows in order in tables of moderate size, validated; of all columns or some."""

    def read_schema(self, path: Path) -> Any:
        """The schema with its metadata, without reading the rows."""

    def count_rows(self, path: Path) -> int:
        """The number of rows, without reading them."""


class ParquetFormat:
    """Parquet with typed time stamps.

    Times are delta coded: differences of a steady cadence are small numbers, 2.5 bytes a stamp
    where a dictionary takes 5. Everything else is dictionary coded: instruments send few digits,
    so their values repeat, and pyarrow falls back to plain values where they do not. Pages carry a
    CRC, and are read with it.

    Args:
        compression: of the pages.
        plain: columns whose values hardly repeat. Nothing is looked up for them, which takes half
            of the time.
    """

    suffix = ".parquet"

    def __init__(self, compression: str, plain: Sequence[str] = ()) -> None:
        if compression not in PARQUET_COMPRESSIONS:
            raise ValueError(
                f"unknown compression {compression!r}: use one of {', '.join(PARQUET_COMPRESSIONS)}"
            )
        self.compression = compression
        self._plain = frozenset(plain)

    def load(self) -> None:
        pyarrow_module("pyarrow.parquet")
        load_pyarrow()

    def write(self, tables: Iterable[Any], schema: Any, sink: Any) -> None:
        parquet = pyarrow_module("pyarrow.parquet")
        delta_coded = [name for name in _DELTA_CODED if name in schema.names]
        with parquet.ParquetWriter(
            sink,
            schema,
            compression=self.compression,
            use_dictionary=[
                name for name in schema.names if name not in delta_coded and name not in self._plain
            ],
            column_encoding=dict.fromkeys(delta_coded, "DELTA_BINARY_PACKED"),
            write_page_checksum=True,
        ) as writer:
            for table in tables:
                if table.num_rows:  # an empty table would become a row group without rows
                    writer.write_table(table, row_group_size=_LARGEST_ROW_GROUP)

    def read(self, path: Path) -> Any:
        # ParquetFile and not read_table, which takes a folder's name for a partition.
        with self.open(path) as file:
            table = file.read()
        table.validate(full=True)
        return table

    def pieces(self, path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
        pa = pyarrow_module()
        with self.open(path) as file:
            for batch in file.iter_batches(_ROWS_OF_A_PIECE, columns=columns):
                batch.validate(full=True)
                yield pa.Table.from_batches([batch])

    def open(self, path: Path) -> Any:
        """The file as a ``pyarrow.parquet.ParquetFile`` that checks the checksums of its pages."""
        parquet = pyarrow_module("pyarrow.parquet")
        return parquet.ParquetFile(path, page_checksum_verification=True)

    def read_schema(self, path: Path) -> Any:
        return pyarrow_module("pyarrow.parquet").read_schema(path)

    def count_rows(self, path: Path) -> int:
        return int(pyarrow_module("pyarrow.parquet").read_metadata(path).num_rows)


class ArrowFormat:
    """Arrow IPC files, which are mapped into memory and read without decoding."""

    suffix = ".arrow"

    def __init__(self, compression: str) -> None:
        if compression not in ARROW_COMPRESSIONS:
            raise ValueError(
                f"unknown compression {compression!r}: use one of {', '.join(ARROW_COMPRESSIONS)}"
            )
        self.compression = compression

    def load(self) -> None:
        pyarrow_module("pyarrow.ipc")
        load_pyarrow()

    def write(self, tables: Iterable[Any], schema: Any, sink: Any) -> None:
        pa = pyarrow_module()
        plain = pa.schema([_without_dictionary(pa, field) for field in schema], schema.metadata)
        options = pa.ipc.IpcWriteOptions(
            compression=None if self.compression == "none" else self.compression
        )
        with pa.ipc.new_file(sink, plain, options=options) as writer:
            for table in tables:
                # The file format allows one dictionary a column for all batches, and the parts of
                # a recording differ in theirs.
                writer.write_table(table.cast(plain))

    def read(self, path: Path) -> Any:
        with self._open(path) as reader:
            table = reader.read_all()
        table.validate(full=True)
        return table

    def pieces(self, path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
        pa = pyarrow_module()
        with self.open(path, columns) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                batch.validate(full=True)
                yield pa.Table.from_batches([batch])

    def read_schema(self, path: Path) -> Any:
        with self._open(path) as reader:
            return reader.schema

    def count_rows(self, path: Path) -> int:
        # The format has no count: each batch tells its own, and one column costs least.
        with self._open(path) as reader:
            first = reader.schema.names[:1]
        return sum(table.num_rows for table in self.pieces(path, first))

    def open(self, path: Path, columns: Sequence[str] | None = None) -> Any:
        """The file as a ``pyarrow.RecordBatchFileReader`` of all columns or some."""
        pa = pyarrow_module()
        if columns is None:
            return self._open(path)
        with self._open(path) as reader:
            names = reader.schema.names
        # An empty list would stand for all of them.
        numbers = [number for number, name in enumerate(names) if name in columns] or [0]
        options = pa.ipc.IpcReadOptions(included_fields=numbers)
        return pa.ipc.open_file(pa.OSFile(str(path)), options=options)

    def _open(self, path: Path) -> Any:
        pa = pyarrow_module()
        return pa.ipc.open_file(pa.OSFile(str(path)))


def _without_dictionary(pa: Any, field: Any) -> Any:
    if not pa.types.is_dictionary(field.type):
        return field
    return field.with_type(field.type.value_type)
