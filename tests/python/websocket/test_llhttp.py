"""The HTTP parser, judged by llhttp (httptools): what it accepts, llhttp accepts and reads alike.

llhttp accepts more. STRICTER names the requests that only llhttp accepts.
"""

from __future__ import annotations

from typing import Any

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import _core

Read = tuple[str, str, list[tuple[str, str]]]


class _Judge:
    def __init__(self) -> None:
        self.target = b""
        self.fields: list[tuple[str, str]] = []
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.decode("latin-1"), value.decode("latin-1").rstrip(" \t")))

    def on_headers_complete(self) -> None:
        self.complete = True


def judged(data: bytes) -> Read | str:
    """What llhttp reads: the request, or the name of its error."""
    judge: Any = _Judge()
    parser = httptools.HttpRequestParser(judge)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError as error:
        return type(error).__name__
    if not judge.complete:
        return "incomplete"
    return parser.get_method().decode(), judge.target.decode("latin-1"), judge.fields


def ours(data: bytes) -> Read | str:
    try:
        parsed = _core.parse_websocket_request(data, None)
    except ValueError as error:
        return str(error)
    return "incomplete" if parsed is None else parsed[:3]


ACCEPTED = [
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\r\nGET /a?b=c HTTP/1.1\r\nHost: a\r\nX:\r\nY: \t v \t\r\n\r\n",
    b"GET http://a/b HTTP/1.0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nX: \xe4\r\n\r\n",
    b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
]
REFUSED_BY_BOTH = [
    b"GET / HTTP/1.1\nHost: a\n\n",
    b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: b\x00c\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"GET / HTTP/3.7\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: \x7f\r\n\r\n",
    b"GET / HTTQ/1.1\r\nHost: a\r\n\r\n",
]
STRICTER = {
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "Host with a path": b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "empty Host": b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "Host with an impossible port": b"GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n",
    "fragment": b"GET /a?b=c#d HTTP/1.1\r\nHost: a\r\n\r\n",
    "another scheme": b"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "asterisk with GET": b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
    "several empty lines before": b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "two codings": b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
}


@pytest.mark.parametrize("data", ACCEPTED)
def test_both_accept_and_read_alike(data: bytes) -> None:
    assert ours(data) == judged(data)
    assert isinstance(ours(data), tuple)


@pytest.mark.parametrize("data", REFUSED_BY_BOTH)
def test_both_refuse(data: bytes) -> None:
    assert isinstance(ours(data), str)
    assert isinstance(judged(data), str)


@pytest.mark.parametrize("name", STRICTER)
def test_only_llhttp_accepts(name: str) -> None:
    assert isinstance(judged(STRICTER[name]), tuple)
    assert isinstance(ours(STRICTER[name]), str)


PIECES = st.sampled_from(
    [
        *(b"\r", b"\n", b"\r\n", b" ", b"\t", b":", b"\x00", b"\x7f", b"\xe4", b",", b"0", b"a"),
        *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n"),
    ]
)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(ACCEPTED),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 2), PIECES), max_size=4),
)
def test_what_is_accepted_after_any_change_is_read_alike(
    data: bytes, changes: list[tuple[int, int, bytes]]
) -> None:
    for place, removed, piece in changes:
        data = data[:place] + piece + data[place + removed :]
    try:
        parsed = _core.parse_websocket_request(data, None)
    except ValueError:
        return
    if parsed is not None:
        # A method that llhttp does not know is its own limit: RFC 9110, 9.1 allows any token.
        assert judged(data[: parsed[3]]) in (parsed[:3], "HttpParserInvalidMethodError")
