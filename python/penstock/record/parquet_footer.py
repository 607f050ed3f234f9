"""A Parquet footer that grows: row groups written one after another, each file tail complete.

Parquet keeps all its metadata behind the data, so a file cut off before ``close`` is unreadable,
and pyarrow can only write that tail once. Here every row group is made by pyarrow as a small file
of its own in memory; its data pages are appended to the recording, the offsets in its metadata
are moved by the distance, and a footer that lists all row groups so far is appended behind. A
reader only looks at the last footer; the older ones in between are a few hundred bytes to a few
kilobytes of padding. Nothing already on disk is ever written over.

Rejected: one Parquet file a flush (thousands of files a day), rewriting the footer in place (a
crash in that moment loses the whole file), converting a journal at the end (minutes of work
after Ctrl-C, and twice the disk).

Field numbers are those of parquet.thrift, https://github.com/apache/parquet-format.
"""

from __future__ import annotations

from .thrift_compact import (
    Field,
    Kind,
    List,
    Struct,
    decode_struct,
    encode_list,
    encode_struct,
    encoded,
)

__all__ = ["MAGIC", "ParquetFooter", "split_file"]

MAGIC = b"PAR1"
_TAIL = 8  # four bytes of length, four of magic

# FileMetaData
_NUM_ROWS, _ROW_GROUPS, _KEY_VALUES = 3, 4, 5
# RowGroup
_COLUMNS, _GROUP_ROWS, _GROUP_OFFSET, _ORDINAL = 1, 3, 5, 7
# ColumnChunk
_CHUNK_OFFSET, _CHUNK_META, _OFFSET_INDEX, _COLUMN_INDEX = 2, 3, 4, 6
# ColumnMetaData: data page, index page, dictionary page, bloom filter
_PAGE_OFFSETS = (9, 10, 11, 14)


def split_file(data: bytes) -> tuple[bytes, bytes]:
    """The data pages and the footer of a whole Parquet file; ValueError if it is not one."""
    footer_start = footer_offset(data[-_TAIL:], len(data))
    return data[len(MAGIC) : footer_start], data[footer_start:-_TAIL]


def footer_offset(tail: bytes, file_size: int) -> int:
    """Where the footer begins in a file with these last eight bytes; ValueError if nowhere."""
    if len(tail) != _TAIL or tail[4:] != MAGIC:
        raise ValueError("the file does not end in a Parquet footer")
    start = file_size - _TAIL - int.from_bytes(tail[:4], "little")
    if start < len(MAGIC):
        raise ValueError("the Parquet footer is longer than the file")
    return start


class ParquetFooter:
    """The metadata of a Parquet file under construction."""

    def __init__(self, footer: bytes) -> None:
        """Start from the footer of an existing file, with or without row groups."""
        self._meta = decode_struct(footer)
        groups = self._meta.get(_ROW_GROUPS)
        if not isinstance(groups, List) or not isinstance(self._meta.get(_NUM_ROWS), int):
            raise ValueError("the footer is not Parquet file metadata")
        self._groups = [encode_struct(group) for group in groups.items]
        self.rows: int = self._meta.get(_NUM_ROWS)

    @property
    def row_groups(self) -> int:
        """How many row groups the file has."""
        return len(self._groups)

    def copy(self) -> ParquetFooter:
        """The same footer, to be changed without changing this one."""
        twin = ParquetFooter.__new__(ParquetFooter)
        twin._meta = Struct([Field(f.id, f.kind, f.value) for f in self._meta.fields])
        twin._groups = list(self._groups)
        twin.rows = self.rows
        return twin

    def append(self, footer: bytes, distance: int) -> None:
        """Add the row groups of another file whose bytes lie ``distance`` further down here."""
        meta = decode_struct(footer)
        for group in meta.get(_ROW_GROUPS).items:
            _move_group(group, distance, len(self._groups))
            self._groups.append(encode_struct(group))
            self.rows += group.get(_GROUP_ROWS)

    def set_metadata(self, key: str, value: str) -> None:
        """Set a key of the file's key-value metadata."""
        pair = Struct([Field(1, Kind.BINARY, key.encode()), Field(2, Kind.BINARY, value.encode())])
        pairs = self._meta.find(_KEY_VALUES)
        if pairs is None:
            pairs = Field(_KEY_VALUES, Kind.LIST, List(Kind.STRUCT, []))
            self._meta.fields.append(pairs)
            self._meta.fields.sort(key=lambda field: field.id)
        kept = [item for item in pairs.value.items if item.get(1) != key.encode()]
        pairs.value = List(Kind.STRUCT, [*kept, pair])

    def encode(self) -> bytes:
        """The tail of the file: footer, length, magic."""
        fields = []
        for field in self._meta.fields:
            value = field.value
            if field.id == _NUM_ROWS:
                value = self.rows
            elif field.id == _ROW_GROUPS:
                # The groups are kept encoded: with hundreds of them, encoding all for each new
                # one would cost more than writing its data.
                value = encoded(encode_list(Kind.STRUCT, self._groups))
            fields.append(Field(field.id, field.kind, value))
        footer = encode_struct(Struct(fields))
        return footer + len(footer).to_bytes(4, "little") + MAGIC


def _move_group(group: Struct, distance: int, ordinal: int) -> None:
    _move(group, _GROUP_OFFSET, distance)
    ordinal_field = group.find(_ORDINAL)
    if ordinal_field is not None:
        if ordinal < 1 << 15:
            ordinal_field.value = ordinal
        else:
            group.fields.remove(ordinal_field)
    for chunk in group.get(_COLUMNS).items:
        for field_id in (_CHUNK_OFFSET, _OFFSET_INDEX, _COLUMN_INDEX):
            _move(chunk, field_id, distance)
        for field_id in _PAGE_OFFSETS:
            _move(chunk.get(_CHUNK_META), field_id, distance)


def _move(struct: Struct, field_id: int, distance: int) -> None:
    field = struct.find(field_id)
    # 0 and -1 stand for "not given": no page can begin before the magic of the file.
    if field is not None and field.value > 0:
        field.value += distance
