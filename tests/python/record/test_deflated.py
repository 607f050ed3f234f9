"""What the native compressor writes, zlib reads."""

from __future__ import annotations

import gzip
import os
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._record import deflated
from penstock.record._network.gzip_text import gzip_text
from tests.python.record.batches import bounded


def inflated(data: bytes) -> bytes:
    reader = zlib.decompressobj(-15)
    text = reader.decompress(data)
    assert reader.eof
    assert not reader.unused_data
    return text


@bounded
@given(st.binary(max_size=600) | st.lists(st.sampled_from([b"a", b"bc", b"abc"])).map(b"".join))
def test_any_bytes_come_back(data: bytes) -> None:
    assert inflated(deflated(data)) == data


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 257, 258, 259, 1000, 40_000, 200_000])
@pytest.mark.parametrize("kind", ["same", "random", "few", "far", "rows"])
def test_every_length_and_distance_comes_back(size: int, kind: str) -> None:
    chance = random.Random(size)
    piece = os.urandom(32_768)
    data = {
        "same": lambda: b"x" * size,
        "random": lambda: os.urandom(size),
        "few": lambda: bytes(chance.choices(b"ab", k=size)),
        "far": lambda: (piece * (size // len(piece) + 1))[:size],
        "rows": lambda: b"".join(
            b"samples,device=d%d v=%d\n" % (n % 7, chance.randrange(10**6))
            for n in range(size // 24)
        ),
    }[kind]()
    assert inflated(deflated(data)) == data


def test_frequencies_of_a_deep_tree_come_back() -> None:
    # Fibonacci's numbers make the longest codes that there are, longer than the format allows.
    counts = [1, 1]
    while len(counts) < 24:
        counts.append(counts[-1] + counts[-2])
    data = b"".join(bytes([byte]) * count for byte, count in enumerate(counts))
    shuffled = bytearray(data)
    random.Random(1).shuffle(shuffled)
    assert inflated(deflated(bytes(shuffled))) == shuffled


def test_rows_become_as_small_as_by_zlib() -> None:
    chance = random.Random(1)
    rows = b"".join(
        b'samples,device=fuel unit_id="A",Mass_Flow=%.2f,Gas="N2" %d\n' % (chance.gauss(20, 1), n)
        for n in range(1_795_262_400_000_000_000, 1_795_262_400_000_000_000 + 5_000_000, 1000)
    )
    assert len(deflated(rows)) < 1.2 * len(zlib.compress(rows, 1))


def test_gzip_is_read_by_gzip() -> None:
    text = b"samples v=1 1\n" * 1000
    assert gzip.decompress(gzip_text(text)) == text


def test_only_bytes_are_taken() -> None:
    with pytest.raises(TypeError, match="bytes"):
        deflated("text")  # type: ignore[arg-type]
