"""The end points of InfluxDB 2 and 3: one at a real server, both at one that answers as documented.

InfluxDB 2 and 3 themselves are in no registry as programs. VictoriaMetrics and InfluxDB 1.8 have
the end point of InfluxDB 2. The answers to lines that are refused are those of the documentation:
https://docs.influxdata.com/influxdb/v2/write-data/troubleshoot/ and
https://docs.influxdata.com/influxdb3/core/write-data/troubleshoot/.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest

from penstock.record import InfluxSink, SinkWriteError
from penstock.record._network.http_post import Answer
from penstock.record._network.influx_lines import LineEncoder
from penstock.record._network.influx_sink import InfluxAddress, InfluxTransport
from penstock.record._network.rows import RefusedRows
from penstock.record._network.server import Secret
from tests.python.integration.daemons import PATIENT
from tests.python.integration.influx import flux_server, victoria_server
from tests.python.record.batches import NOON_NS, flow_batch

_REFUSED = b"Mass_Flow=3,"


class Documented(ThreadingHTTPServer):
    """A server of version 2 or 3 that refuses one line, and stores the others where that does."""

    def __init__(self, version: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.version = version
        self.other_type: bytes | None = None  # a field that is text here
        self.lines: list[bytes] = []
        self.requests: list[tuple[str, dict[str, list[str]], str | None]] = []

    def take(self, lines: list[bytes]) -> tuple[int, dict[str, object]]:
        """The status and the answer to lines."""
        if self.other_type is not None:
            return self.take_typed(lines, self.other_type)
        bad = [line for line in lines if _REFUSED in line]
        good = [line for line in lines if _REFUSED not in line]
        if not bad:
            self.lines += good
            return 204, {}
        if self.version == "2":  # nothing is stored
            return 400, {
                "code": "invalid",
                "message": f"unable to parse {bad[0].decode()!r}: invalid field format",
            }
        self.lines += good
        place = lines.index(bad[0]) + 1
        return 400, {
            "error": "partial write of line protocol occurred",
            "data": [{"error_message": "invalid field", "line_number": place}],
        }

    def take_typed(self, lines: list[bytes], field: bytes) -> tuple[int, dict[str, object]]:
        """As version 3 with a column that has another type than this field."""
        self.lines += [line for line in lines if field not in line]
        message = (
            f"invalid column type for column '{field[:-1].decode()}', expected "
            "iox::column_type::field::float, got iox::column_type::field::string"
        )
        data = [
            {"original_line": line.decode(), "line_number": number, "error_message": message}
            for number, line in enumerate(lines, 1)
            if field in line
        ]
        if not data:
            return 204, {}
        return 400, {"error": "partial write of line protocol occurred", "data": data}


class _Answers(BaseHTTPRequestHandler):
    server: Documented

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        self.server.requests.append((url.path, parse_qs(url.query), self.headers["Authorization"]))
        body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
        status, answer = self.server.take(body.splitlines())
        text = json.dumps(answer).encode() if answer else b""
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@contextmanager
def documented(version: str) -> Iterator[Documented]:
    with Documented(version) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("version", "path", "target", "query", "scheme"),
    [
        (
            "2",
            "my%20org/lab",
            "/api/v2/write",
            {"org": ["my org"], "bucket": ["lab"], "precision": ["ns"]},
            "Token",
        ),
        (
            "3",
            "lab?api=3",
            "/api/v3/write_lp",
            {"db": ["lab"], "precision": ["nanosecond"]},
            "Bearer",
        ),
    ],
)
def test_a_line_that_is_refused_costs_that_line_alone(
    version: str,
    path: str,
    target: str,
    query: dict[str, list[str]],
    scheme: str,
    tmp_path: Path,
) -> None:
    (tmp_path / "token").write_text("s3cret\n")

    async def main(url: str) -> Path:
        spool, token = tmp_path / "spool", tmp_path / "token"
        opened = InfluxSink(url, spool=spool, token_file=token, **PATIENT)
        await opened.open()
        await opened.write_batch(flow_batch(10))
        with pytest.raises(SinkWriteError, match="refused 1 rows"):
            await opened.close()
        return opened.refused_lines

    with documented(version) as server:
        url = f"influx://127.0.0.1:{server.server_port}/{path}"
        refused = anyio.run(main, url)
    assert _REFUSED in refused.read_bytes()
    assert server.requests
    assert all(each == (target, query, f"{scheme} s3cret") for each in server.requests)
    # What comes twice is the same point.
    stored = dict.fromkeys(server.lines)
    assert [
        number for number in range(10) if any(b"Mass_Flow=%d," % number in s for s in stored)
    ] == [number for number in range(10) if number != 3]
    assert len(stored) == 9


@pytest.mark.slow
def test_a_real_server_takes_the_requests_of_version_2(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        async with InfluxSink(url, spool=tmp_path / "spool", **PATIENT) as opened:
            await opened.write_batch(flow_batch(20))

    with victoria_server() as server:
        anyio.run(main, server.url("org/bucket"))
        [found] = [
            each for each in server.exported() if each["metric"]["__name__"].endswith("_Flow")
        ]
    assert found["values"] == list(range(20))
    assert "db" not in found["metric"]  # as it has with the end point of version 1


@pytest.mark.slow
def test_influxdb_itself_takes_a_token_and_names_what_it_refuses(tmp_path: Path) -> None:
    """Version 1.8, at the end point of version 2."""

    def sink(bucket: str, token: str) -> InfluxSink:
        (tmp_path / "token").write_text(token)
        spool = tmp_path / "spool"
        url = server.url(f"any/{bucket}")
        return InfluxSink(url, spool=spool, token_file=tmp_path / "token", **PATIENT)

    async def main() -> None:
        for bucket, token, message in (
            ("lab", "recorder:wrong", "answered 401.*set INFLUX_TOKEN"),
            ("nowhere", "recorder:right", "answered 404.*create any/nowhere there"),
        ):
            with pytest.raises(SinkWriteError, match=message):
                await sink(bucket, token).open()
        server.write(f"samples,device=fuel Gas=1 {NOON_NS - 1}")  # in the same shard
        opened = sink("lab", "recorder:right")
        await opened.open()
        await opened.write_batch(flow_batch(20))
        with pytest.raises(SinkWriteError, match="refused 20 rows"):
            await opened.close()
        assert "20 refused: the field Gas was left out: 400" in refused_of(opened)

    with flux_server(auth=True) as server:
        server.query("CREATE USER recorder WITH PASSWORD 'right' WITH ALL PRIVILEGES")
        server.login = ("recorder", "right")
        server.query("CREATE DATABASE lab")
        anyio.run(main)
        found = server.query("SELECT Mass_Flow FROM samples WHERE device = 'fuel'")
    assert [row["Mass_Flow"] for row in found] == list(range(20))


def refused_of(sink: InfluxSink) -> str:
    return sink.refused_lines.read_text()


async def record_to(server: Documented, spool: Path) -> InfluxSink:
    """Record ten rows of which the server refuses something."""
    url = f"influx://127.0.0.1:{server.server_port}/lab?api=3"
    opened = InfluxSink(url, spool=spool, **PATIENT)
    await opened.open()
    await opened.write_batch(flow_batch(10))
    with pytest.raises(SinkWriteError, match="refused"):
        await opened.close()
    return opened


def test_the_reason_that_is_kept_is_that_of_the_line(tmp_path: Path) -> None:
    """InfluxDB 3 says of all lines that some were refused, and of each one why."""
    with documented("3") as server:
        opened = anyio.run(record_to, server, tmp_path / "spool")
    assert "partial write of line protocol occurred: invalid field" in refused_of(opened)


def test_a_row_that_loses_two_fields_counts_once(tmp_path: Path) -> None:
    """In the words of InfluxDB 1, which names one field an answer."""

    class Typed:
        async def post(self, target: str, fields: object, body: bytes) -> Answer:
            lines = gzip.decompress(body)
            for field in ("Gas", "Mass_Flow"):
                if f"{field}=".encode() in lines:
                    text = (
                        f'partial write: field type conflict: input field "{field}" on measurement '
                        '"samples" is type float, already exists as type boolean dropped=3'
                    )
                    return Answer(400, {}, json.dumps({"error": text}).encode())
            return Answer(204, {}, b"")

    http: Any = Typed()
    none, refused = Secret(), RefusedRows(tmp_path / "refused")
    address = InfluxAddress.parse("influx://host/lab")
    transport = InfluxTransport(address, http, none, none, none, refused)
    encoder = LineEncoder("samples", "events")
    encoder.add(flow_batch(3))
    [(rows, payload)] = encoder.take()
    assert asyncio.run(transport.send(payload)) == rows == 3
    text = refused.path.read_text()
    assert text.count("3 refused: the field Gas was left out") == 1
    assert text.count("3 refused: the field Mass_Flow was left out") == 1


def test_lines_that_are_refused_again_are_kept_once(tmp_path: Path) -> None:
    """After a lost connection, rows are sent again that the broker may have lost."""
    refused = RefusedRows(tmp_path / "refused")
    refused.add([b"a", b"b"], "too large")
    refused.add([b"b", b"c"], "too large")
    refused.add([b"a"], "too large")
    lines = refused.path.read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["a", "b", "c"]
    assert "1 refused: too large" in lines[3]
    assert len(lines) == 5


def test_a_field_of_another_type_costs_that_field_alone(tmp_path: Path) -> None:
    """In the words of InfluxDB 3, which names the column and the number of the line."""
    with documented("3") as server:
        server.other_type = b"Gas="
        opened = anyio.run(record_to, server, tmp_path / "spool")
    assert len(server.requests) == 3  # the check, all rows, all rows without the field
    assert "10 refused: the field Gas was left out: 400 partial write" in refused_of(opened)
    stored = [line for line in server.lines if b"Gas=" not in line]
    assert len(stored) == 10
    assert all(b"Mass_Flow=%d " % number in stored[number] for number in range(10))
