"""Payloads of Sparkplug B 3.0 (section 6.4), in the wire format of Protocol Buffers.

A dozen fields: encoded here, and not by a library that the sink would need for them alone.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.record._columns.batch import SampleBatch
from penstock.record._network.rows import RowNumbers
from penstock.record.schema import RECORDER_FIELDS, beside

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class DataType:
    """The types of values that a recording has (6.4.16)."""

    INT64 = 4
    DOUBLE = 10
    BOOLEAN = 11
    STRING = 12


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a payload.

    Attributes:
        name: in births; None in data, where the alias stands for it.
        alias: unique within the edge node; None for the node's own two.
        timestamp: milliseconds since 1970; None for none.
        datatype: one of :class:`DataType`.
        value: None is null.
        is_historical: the value is not the present one.
        properties: texts, such as ``engUnit``.
        with_type: write the type: in births.
    """

    name: str | None
    alias: int | None
    timestamp: int | None
    datatype: int
    value: float | int | bool | str | None
    is_historical: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    with_type: bool = True


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _number(tag: int, value: int) -> bytes:
    return _varint(tag << 3 | _VARINT) + _varint(value)


def _bytes(tag: int, value: bytes) -> bytes:
    return _varint(tag << 3 | _BYTES) + _varint(len(value)) + value


def _value(metric: Metric) -> bytes:
    value = metric.value
    if value is None:
        return _number(7, 1)
    if metric.datatype == DataType.DOUBLE:
        return _varint(13 << 3 | _FIXED64) + struct.pack("<d", value)
    if metric.datatype == DataType.BOOLEAN:
        return _number(14, bool(value))
    if metric.datatype == DataType.STRING:
        return _bytes(15, str(value).encode())
    return _number(11, int(value))  # two's complement of 64 bits


def _properties(properties: Mapping[str, str]) -> bytes:
    keys = b"".join(_bytes(1, key.encode()) for key in properties)
    values = b"".join(
        _bytes(2, _number(1, DataType.STRING) + _bytes(8, text.encode()))
        for text in properties.values()
    )
    return keys + values


def _metric(metric: Metric) -> bytes:
    pieces = []
    if metric.name is not None:
        pieces.append(_bytes(1, metric.name.encode()))
    if metric.alias is not None:
        pieces.append(_number(2, metric.alias))
    if metric.timestamp is not None:
        pieces.append(_number(3, metric.timestamp))
    if metric.with_type:
        pieces.append(_number(4, metric.datatype))
    if metric.is_historical:
        pieces.append(_number(5, 1))
    if metric.properties:
        pieces.append(_bytes(9, _properties(metric.properties)))
    pieces.append(_value(metric))
    return b"".join(pieces)


def encode_payload(timestamp: int | None, metrics: Iterable[Metric], seq: int | None) -> bytes:
    """A payload; ``timestamp`` in milliseconds since 1970. A death has neither that nor ``seq``."""
    pieces = [] if timestamp is None else [_number(1, timestamp)]
    pieces += [_bytes(2, _metric(metric)) for metric in metrics]
    if seq is not None:
        pieces.append(_number(3, seq))
    return b"".join(pieces)


def fields_of(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of an encoded message: tags with numbers or bytes. ValueError."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= len(data) or shift > 63:
                raise ValueError("a number does not end")
            byte, at = data[at], at + 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < len(data):
        key = varint()
        tag, kind = key >> 3, key & 7
        if kind == _VARINT:
            yield tag, varint()
            continue
        size = varint() if kind == _BYTES else {_FIXED64: 8, _FIXED32: 4}.get(kind)
        if size is None or at + size > len(data):
            raise ValueError(f"a field of wire type {kind} does not end")
        yield tag, data[at : at + size]
        at += size


# Rows as the spool keeps them until they are Sparkplug's.
#
# Which alias a field has is known only when it is sent, because a birth gives it.

_TYPES = {
    "float": DataType.DOUBLE,
    "int": DataType.INT64,
    "bool": DataType.BOOLEAN,
    "text": DataType.STRING,
    "timestamp": DataType.INT64,
}
# The metrics of each row that are not columns.
_OWN = frozenset({"run", "row", "t_utc_ns"})


@dataclass(frozen=True, slots=True)
class SparkplugRow:
    """A row of a device: its stamp in nanoseconds, and each metric with its type, unit, value."""

    device: str
    t_utc_ns: int
    metrics: dict[str, tuple[int, str | None, Any]]


class SparkplugRows:
    """An :class:`~penstock.record._network.protocol.Encoder`."""

    kind = b"SPB1"

    def __init__(self) -> None:
        self.size = 0
        self._numbers = RowNumbers()
        self._lines: list[str] = []

    def add(self, batch: SampleBatch) -> None:
        fields = batch.schema.fields
        columns = {each.name: batch.column(each.name) for each in fields}
        fixed = {name: batch.column(name) for name in ("device", "t_utc", "t_mono_ns")}
        status, error = batch.column("status"), batch.column("error")
        devices: Any = batch.raw("device")
        numbers = self._numbers.take(devices.codes, devices.table)
        for row in range(len(batch)):
            device = fixed["device"][row]
            metrics: dict[str, list[Any]] = {
                "run": [DataType.STRING, None, self._numbers.run],
                "row": [DataType.INT64, None, numbers[row]],
                "t_utc_ns": [DataType.INT64, "ns", fixed["t_utc"][row]],
                "t_mono_ns": [DataType.INT64, "ns", fixed["t_mono_ns"][row]],
                "status": [DataType.STRING, None, status[row]],
                "error": [DataType.STRING, None, error[row]],
            }
            for each in fields:
                value = columns[each.name][row]
                if value is None and each.name in RECORDER_FIELDS:
                    continue
                if isinstance(value, float) and not math.isfinite(value):
                    value = None
                unit = each.unit or dict(each.units).get(device)
                metrics[beside(each.name, _OWN)] = [_TYPES[each.kind], unit, value]
            line = json.dumps([device, fixed["t_utc"][row], metrics])
            self._lines.append(line)
            self.size += len(line)

    def take(self) -> list[tuple[int, bytes]]:
        if not self._lines:
            return []
        lines, self._lines, self.size = self._lines, [], 0
        return [(len(lines), zlib.compress("\n".join(lines).encode(), 1))]


def rows_of(payload: bytes) -> Iterator[SparkplugRow]:
    """The rows of a payload of the spool."""
    for line in zlib.decompress(payload).split(b"\n"):
        device, stamp, metrics = json.loads(line)
        yield SparkplugRow(device, stamp, {name: tuple(each) for name, each in metrics.items()})
