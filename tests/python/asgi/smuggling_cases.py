"""Requests that servers have taken for something else than proxies in front of them did.

Each is followed by another request on the same connection, which a server answers only if it agrees
on where the first one ends.
"""

from __future__ import annotations

GET = b"GET /first HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /first HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
SECOND = b"GET /second HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def with_length(value: bytes, body: bytes = b"hello") -> bytes:
    return POST + b"Content-Length: " + value + b"\r\n\r\n" + body


def chunks(text: bytes, trailers: bytes = b"") -> bytes:
    return CHUNKED + b"\r\n" + text + b"0\r\n" + trailers + b"\r\n"


def coding(value: bytes) -> bytes:
    return POST + b"Transfer-Encoding: " + value + b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n"


CASES: dict[str, bytes] = {
    # ---- well-formed
    "no body": GET + b"\r\n",
    "a length": with_length(b"5"),
    "a length of zeros": with_length(b"0005"),
    "chunks": chunks(b"5\r\nhello\r\n"),
    "chunks in upper case": CHUNKED.replace(b"chunked", b"CHUNKED")
    + b"\r\n5\r\nhello\r\n0\r\n\r\n",
    "a chunk extension": chunks(b"5;a=b;c\r\nhello\r\n"),
    "a quoted chunk extension": chunks(b'5;a="b;c"\r\nhello\r\n'),
    "a trailer": chunks(b"5\r\nhello\r\n", b"X: y\r\n"),
    "an empty field": GET + b"X:\r\n\r\n",
    "a line before the request": b"\r\n" + GET + b"\r\n",
    "an absolute target": b"GET http://x/first HTTP/1.1\r\nHost: x\r\n\r\n",
    # ---- lengths
    "a length with a plus": with_length(b"+5"),
    "a negative length": with_length(b"-5"),
    "a hexadecimal length": with_length(b"0x5"),
    "a length with an underscore": with_length(b"1_0"),
    "a length with a comma": with_length(b"5, 5"),
    "a length of two numbers": with_length(b"5 6"),
    "an empty length": with_length(b""),
    "a length beyond 64 bits": with_length(b"18446744073709551621"),
    "two lengths that differ": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "two equal lengths": POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a blank before a length's colon": POST + b"Content-Length : 5\r\n\r\nhello",
    "a length with a vertical tab": with_length(b"\x0b5"),
    # ---- codings
    "a length and chunks": CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "chunks and a length": POST
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown coding": coding(b"xchunked"),
    "identity": coding(b"identity"),
    "gzip": coding(b"gzip"),
    "gzip and chunks": coding(b"gzip, chunked"),
    "chunks and gzip": coding(b"chunked, gzip"),
    "chunks twice": coding(b"chunked, chunked"),
    "two fields of codings": CHUNKED
    + b"Transfer-Encoding: identity\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "a coding with a vertical tab": coding(b"\x0bchunked"),
    "a coding with quotes": coding(b'"chunked"'),
    "a blank before a coding's colon": POST
    + b"Transfer-Encoding : chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "a coding behind a fold": POST
    + b"X: y\r\n Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST /first HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    # ---- chunks
    "a chunk with a sign": chunks(b"+5\r\nhello\r\n"),
    "a hexadecimal chunk with a prefix": chunks(b"0x5\r\nhello\r\n"),
    "a chunk of too many digits": chunks(b"00000000000000000005\r\nhello\r\n"),
    "a chunk with a blank": chunks(b"5 \r\nhello\r\n"),
    "a chunk whose end is missing": chunks(b"5\r\nhelloXX"),
    "a chunk that ends with a line feed": chunks(b"5\r\nhello\n"),
    "a chunk size that ends with a line feed": chunks(b"5\nhello\r\n"),
    "an extension with a carriage return": chunks(b"5;a\rb\r\nhello\r\n"),
    "an extension with a line feed": chunks(b"5;a\nb\r\nhello\r\n"),
    "an empty chunk size": chunks(b"\r\nhello\r\n"),
    "a chunk beyond 64 bits": chunks(b"fffffffffffffffff\r\nhello\r\n"),
    "a folded trailer": chunks(b"5\r\nhello\r\n", b"X: y\r\n z\r\n"),
    "a trailer without a colon": chunks(b"5\r\nhello\r\n", b"X\r\n"),
    # ---- heads
    "line feeds alone": b"GET /first HTTP/1.1\nHost: x\n\n",
    "a line feed in the request line": b"GET /first HTTP/1.1\nHost: x\r\n\r\n",
    "a line feed behind a field": GET + b"X: y\nZ: a\r\n\r\n",
    "carriage returns alone": b"GET /first HTTP/1.1\rHost: x\r\r",
    "a carriage return in a value": GET + b"X: y\rz\r\n\r\n",
    "a null in a value": GET + b"X: y\0z\r\n\r\n",
    "a folded field": GET + b"X: y\r\n z\r\n\r\n",
    "a first field that is folded": b"GET /first HTTP/1.1\r\n Host: x\r\n\r\n",
    "a blank in a name": GET + b"X Y: z\r\n\r\n",
    "a blank before a colon": GET + b"X : z\r\n\r\n",
    "a field without a name": GET + b": z\r\n\r\n",
    "a field without a colon": GET + b"X\r\n\r\n",
    "no host": b"GET /first HTTP/1.1\r\n\r\n",
    "two hosts": GET + b"Host: y\r\n\r\n",
    "HTTP/0.9": b"GET /first\r\n\r\n",
    "HTTP/1.2": b"GET /first HTTP/1.2\r\nHost: x\r\n\r\n",
    "HTTP/2.0": b"GET /first HTTP/2.0\r\nHost: x\r\n\r\n",
    "HTTP/01.1": b"GET /first HTTP/01.1\r\nHost: x\r\n\r\n",
    "a protocol in lower case": b"GET /first http/1.1\r\nHost: x\r\n\r\n",
    "two blanks in the request line": b"GET  /first HTTP/1.1\r\nHost: x\r\n\r\n",
    "a tab in the request line": b"GET\t/first HTTP/1.1\r\nHost: x\r\n\r\n",
    "a blank in the target": b"GET /first x HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method in lower case": b"get /first HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method with a colon": b"GET: /first HTTP/1.1\r\nHost: x\r\n\r\n",
    "a relative target": b"GET first HTTP/1.1\r\nHost: x\r\n\r\n",
    "a target with a control character": b"GET /fi\x01rst HTTP/1.1\r\nHost: x\r\n\r\n",
    "a target above ASCII": b"GET /fi\xe9rst HTTP/1.1\r\nHost: x\r\n\r\n",
    "CONNECT": b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    # ---- limits
    "a value of 8,000 bytes": GET + b"X: " + b"y" * 8000 + b"\r\n\r\n",
    "a value of 70,000 bytes": GET + b"X: " + b"y" * 70_000 + b"\r\n\r\n",
    "a hundred fields": GET + b"X: y\r\n" * 100 + b"\r\n",
    "a thousand fields": GET + b"X: y\r\n" * 1000 + b"\r\n",
    "a target of 70,000 bytes": b"GET /" + b"y" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "an extension of 70,000 bytes": chunks(b"5;" + b"a" * 70_000 + b"\r\nhello\r\n"),
    "trailers of 70,000 bytes": chunks(b"5\r\nhello\r\n", b"X: " + b"y" * 70_000 + b"\r\n"),
}
