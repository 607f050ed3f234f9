from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.record.parquet_footer import MAGIC, ParquetFooter, split_file
from penstock.record.thrift_compact import (
    Field,
    Kind,
    List,
    Struct,
    decode_struct,
    encode_struct,
)
from tests.python.record.batches import bounded

scalars: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.TRUE: st.booleans(),
    Kind.BYTE: st.integers(0, 255),
    Kind.I16: st.integers(-(2**15), 2**15 - 1),
    Kind.I32: st.integers(-(2**31), 2**31 - 1),
    Kind.I64: st.integers(-(2**63), 2**63 - 1),
    Kind.DOUBLE: st.binary(min_size=8, max_size=8),
    Kind.BINARY: st.binary(max_size=20),
}


def _lists(kind: Kind, items: st.SearchStrategy[Any]) -> st.SearchStrategy[List]:
    return st.lists(items, max_size=20).map(lambda drawn: List(kind, drawn))


def _structs(children: st.SearchStrategy[Struct]) -> st.SearchStrategy[Struct]:
    kinds = dict(scalars)
    kinds[Kind.STRUCT] = children
    kinds[Kind.LIST] = st.one_of(
        _lists(Kind.STRUCT, children),
        *(_lists(kind, scalars[kind]) for kind in (Kind.I32, Kind.BINARY, Kind.DOUBLE)),
    )

    def field(number: int) -> st.SearchStrategy[Field]:
        return st.sampled_from(sorted(kinds)).flatmap(
            lambda kind: kinds[kind].map(
                lambda value: Field(
                    number,
                    Kind.FALSE if kind is Kind.TRUE and not value else kind,
                    value,
                )
            )
        )

    numbers = st.lists(st.integers(1, 200), unique=True, max_size=5).map(sorted)
    return numbers.flatmap(lambda ids: st.tuples(*map(field, ids))).map(
        lambda fields: Struct(list(fields))
    )


structs = st.recursive(st.just(Struct([])), _structs, max_leaves=5)


@bounded
@given(structs)
def test_structs_survive_the_wire(struct: Struct) -> None:
    assert decode_struct(encode_struct(struct)) == struct


@bounded
@given(st.binary(max_size=200))
def test_any_bytes_decode_or_are_refused(data: bytes) -> None:
    try:
        struct = decode_struct(data)
    except ValueError:
        return
    assert decode_struct(encode_struct(struct)) == struct


@bounded
@given(structs, st.data())
def test_a_struct_cut_short_is_refused(struct: Struct, data: Any) -> None:
    encoded = encode_struct(struct)
    with pytest.raises(ValueError):
        decode_struct(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


def parquet_bytes(values: list[Any], **options: Any) -> bytes:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": values, "w": [str(v) for v in values]}), sink, **options)
    return sink.getvalue()


def test_the_footer_of_pyarrow_encodes_to_the_same_bytes() -> None:
    data = parquet_bytes(list(range(1000)), row_group_size=50, write_page_index=True)
    _, footer = split_file(data)
    assert encode_struct(decode_struct(footer)) == footer
    assert ParquetFooter(footer).encode() == data[-len(footer) - 8 :]


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd", "row_group_size": 7},
        {"write_page_index": True, "use_dictionary": False},
        {"data_page_version": "2.0", "write_page_checksum": True},
    ],
)
def test_files_joined_by_their_footers_read_as_one(options: dict[str, Any]) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    footer: ParquetFooter | None = None
    joined = bytearray()
    expected: list[int] = []
    for start in (0, 20, 20, 31):
        values = list(range(start, start + 20))
        expected += values
        data = parquet_bytes(values, **options)
        pages, part = split_file(data)
        if footer is None:
            joined += data
            footer = ParquetFooter(part)
            continue
        footer.append(part, len(joined) - len(MAGIC))
        joined += pages + footer.encode()
        table = pq.read_table(io.BytesIO(joined), page_checksum_verification=True)
        assert table["v"].to_pylist() == expected
        assert table["w"].to_pylist() == [str(v) for v in expected]
    assert footer is not None and footer.rows == 80


def test_metadata_keys_are_added_and_replaced() -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    data = parquet_bytes([1, 2])
    pages, part = split_file(data)
    footer = ParquetFooter(part)
    footer.set_metadata("note", "first")
    footer.set_metadata("note", "second")
    footer.set_metadata("other", "größer")
    metadata = pq.read_metadata(io.BytesIO(MAGIC + pages + footer.encode())).metadata
    assert metadata[b"note"] == b"second"
    assert metadata[b"other"].decode() == "größer"
    assert b"ARROW:schema" in metadata


@pytest.mark.parametrize(
    "data",
    [b"", b"PAR1", b"PAR1PAR1", b"x" * 50, b"PAR1\xff\xff\xff\x7fPAR1"],
)
def test_what_is_no_parquet_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        split_file(data)
