"""Text that is compressed by either library comes back."""

from __future__ import annotations

import gzip
import sys

import pytest

from penstock.record._network import rows

TEXT = b"".join(b"samples,device=argon flow=%d.5 %d\n" % (i % 7, i) for i in range(10_000))


@pytest.mark.parametrize("isal", [True, False])
def test_text_comes_back_with_and_without_isal(
    monkeypatch: pytest.MonkeyPatch, *, isal: bool
) -> None:
    if isal:
        pytest.importorskip("isal")
    else:
        monkeypatch.setitem(sys.modules, "isal.igzip", None)
    rows._gzip_compressor.cache_clear()
    try:
        for text in (b"", b"x", TEXT):
            assert gzip.decompress(rows.gzip_text(text)) == text
        assert len(rows.gzip_text(TEXT)) < len(TEXT) / 4
        assert rows.gzip_text(TEXT) == rows.gzip_text(TEXT)  # without the time
    finally:
        rows._gzip_compressor.cache_clear()
