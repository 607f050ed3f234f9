"""Thrift's compact protocol, as far as a Parquet footer needs it.

Values are decoded into a tree that encodes to the same bytes again, fields nobody here knows
included: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

__all__ = ["Field", "Kind", "List", "Struct", "decode_struct", "encode_list", "encode_struct"]


class Kind(enum.IntEnum):
    """The type codes of the protocol."""

    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12


@dataclass(slots=True)
class Field:
    """One field of a struct."""

    id: int
    kind: Kind
    value: Any


@dataclass(slots=True)
class Struct:
    """The fields of a struct, in the order of the wire."""

    fields: list[Field]

    def find(self, field_id: int) -> Field | None:
        """The field with this id, or None."""
        return next((field for field in self.fields if field.id == field_id), None)

    def get(self, field_id: int) -> Any:
        """The value of the field with this id, or None."""
        field = self.find(field_id)
        return None if field is None else field.value


@dataclass(slots=True)
class List:
    """A list (or set) and the kind of its items."""

    kind: Kind
    items: list[Any]


class _Reader:
    __slots__ = ("data", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def byte(self) -> int:
        value = self.data[self.position]  # IndexError at the end: see decode_struct
        self.position += 1
        return value

    def take(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self.data):
            raise IndexError
        value = self.data[self.position : end]
        self.position = end
        return value

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a varint longer than 64 bits")

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self, depth: int) -> Struct:
        if depth > 32:
            raise ValueError("structs nested deeper than 32")
        fields: list[Field] = []
        field_id = 0
        while header := self.byte():
            kind = Kind(header & 0x0F)
            field_id = field_id + (header >> 4) if header >> 4 else self.zigzag()
            value = kind is Kind.TRUE if kind <= Kind.FALSE else self.value(kind, depth)
            fields.append(Field(field_id, kind, value))
        return Struct(fields)

    def value(self, kind: Kind, depth: int) -> Any:
        if kind <= Kind.BYTE:
            return self.byte()
        if kind <= Kind.I64:
            return self.zigzag()
        if kind is Kind.DOUBLE:
            return self.take(8)
        if kind is Kind.BINARY:
            return self.take(self.varint())
        if kind is Kind.STRUCT:
            return self.struct(depth + 1)
        if kind is Kind.MAP:
            raise ValueError("a map, which no Parquet footer has")
        header = self.byte()
        count = header >> 4
        if count == 15:
            count = self.varint()
        if count > len(self.data) - self.position:
            raise ValueError("a list longer than the data")
        item = Kind(header & 0x0F)
        return List(item, [self.value(item, depth + 1) for _ in range(count)])


def decode_struct(data: bytes) -> Struct:
    """Decode one struct that fills ``data``; ValueError when it does not."""
    reader = _Reader(data)
    try:
        struct = reader.struct(0)
    except IndexError:
        raise ValueError("the struct ends in the middle") from None
    if reader.position != len(data):
        raise ValueError(f"{len(data) - reader.position} bytes behind the struct")
    return struct


def encode_struct(struct: Struct) -> bytes:
    """Encode a struct."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


def encode_list(kind: Kind, items: list[bytes]) -> bytes:
    """A list whose items are encoded already."""
    out = bytearray()
    _write_list_header(out, kind, len(items))
    return bytes(out) + b"".join(items)


def _write_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for field in struct.fields:
        kind = field.kind
        if kind <= Kind.FALSE:
            kind = Kind.TRUE if field.value else Kind.FALSE
        delta = field.id - last
        if 0 < delta <= 15:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            _write_zigzag(out, field.id)
        last = field.id
        if kind > Kind.FALSE:
            _write_value(out, kind, field.value)
    out.append(0)


def _write_value(out: bytearray, kind: Kind, value: Any) -> None:
    if isinstance(value, _Encoded):
        out += value
    elif kind <= Kind.BYTE:
        out.append(value)
    elif kind <= Kind.I64:
        _write_zigzag(out, value)
    elif kind is Kind.DOUBLE:
        out += value
    elif kind is Kind.BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind is Kind.STRUCT:
        _write_struct(out, value)
    else:
        _write_list_header(out, value.kind, len(value.items))
        for item in value.items:
            _write_value(out, value.kind, item)


class _Encoded(bytes):
    """A value that is in wire form already."""


def encoded(data: bytes) -> bytes:
    """Mark wire bytes to be copied as the value of a field."""
    return _Encoded(data)


def _write_list_header(out: bytearray, kind: Kind, count: int) -> None:
    if count < 15:
        out.append(count << 4 | kind)
    else:
        out.append(0xF0 | kind)
        _write_varint(out, count)


def _write_zigzag(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else ~(value << 1))


def _write_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
