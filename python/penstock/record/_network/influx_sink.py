"""Recording into InfluxDB, and into those that take its lines."""

from __future__ import annotations

import asyncio
import json
import os
import re
import zlib
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from penstock._renamed import renamed
from penstock.record._network.http_post import Answer, HttpPost
from penstock.record._network.influx_lines import (
    LineEncoder,
    line_without_field,
    measurement_of,
    row_of,
)
from penstock.record._network.network_sink import NetworkSink, SpooledFile
from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._network.rows import RefusedRows
from penstock.record._network.server import Secret, Trust, split_url
from penstock.record.addresses import scheme_of
from penstock.record.errors import SinkWriteError
from penstock.record.sink import LossWindow


class InfluxSink(NetworkSink):
    """Writes to InfluxDB 1, 2 or 3, VictoriaMetrics or QuestDB, by the line protocol over HTTP.

    A sample is a point of ``measurement``, an event a point of ``events``. The device is the only
    tag. The time is ``t_utc`` in nanoseconds; if another row of the device has the same time, it is
    moved to the next free nanosecond. All other columns are fields.

    Every row is first written to ``spool``, a folder on this machine, and sent from there to the
    server in order. While the server does not answer, rows stay in the spool. A row that was sent
    before a SIGKILL may be sent again: for InfluxDB it is the same point. The next sink with the
    same ``spool`` sends the rows of a killed process. If rows are left at ``close``, ``close``
    raises SinkWriteError and the rows stay in the spool. A line that the server refuses for good is
    moved to a file beside the spool, and the other lines are sent; ``close`` then raises
    SinkWriteError with the name of that file.

    Args:
        url: ``influx://HOST:8086/DATABASE``, or ``.../ORGANISATION/BUCKET`` for InfluxDB 2;
            ``influxs://`` for TLS. ``?rp=NAME`` names a retention policy; ``?api=1``, ``2`` or
            ``3`` sets the version of the API.
        measurement: the measurement of samples.
        events: the measurement of events; by default ``events``, or ``MEASUREMENT_events`` if
            ``measurement`` is not ``samples``.
        token_file: a file with the token. By default the environment: INFLUX_TOKEN, or
            INFLUX_USERNAME and INFLUX_PASSWORD.
        ca_file: a file with the certificates (PEM) of a private certificate authority.
        spool: the folder; by default ``MEASUREMENT.influx-spool`` in the current folder.
        spool_bytes: the largest size of the spool. Beyond it, writing raises SinkWriteError.
        timeout: seconds to wait for an answer.
        close_timeout: seconds that ``close`` waits until the server has taken the last rows.
        loss_interval: see :class:`~penstock.record.LossWindow`.
        loss_rows: see :class:`~penstock.record.LossWindow`.

    ``open`` raises SinkWriteError if the server refuses these rows for good: no such database, no
    permission. If the server does not answer, ``open`` succeeds, and the sink goes on trying.

    Raises:
        ValueError: the URL is malformed, or holds a password; a measurement has no name, or one
            that begins with ``#``, which makes its lines comments; ``ca_file`` cannot be read.
    """

    @renamed(loss_seconds="loss_interval")
    def __init__(
        self,
        url: str,
        *,
        measurement: str = "samples",
        events: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        spool: str | os.PathLike[str] | None = None,
        spool_bytes: int = 16 << 30,
        timeout: float = 10.0,
        close_timeout: float = 10.0,
        loss_interval: float | None = 1.0,
        loss_rows: int | None = None,
    ) -> None:
        address = InfluxAddress.parse(url)
        if events is None:
            events = "events" if measurement == "samples" else f"{measurement}_events"
        if not measurement or not events or measurement == events:
            raise ValueError(
                f"samples are in {measurement!r} and events in {events!r}: give each a name"
            )
        if measurement.startswith("#") or events.startswith("#"):
            raise ValueError(
                f"samples are in {measurement!r} and events in {events!r}, but the server treats "
                "lines that begin with # as comments: give each another name"
            )
        folder = Path(f"{measurement}.influx-spool" if spool is None else spool)
        tls = Trust(ca_file) if address.tls else None
        rejected = RefusedRows(folder.with_name(f"{folder.name}-refused.lp"))
        transport = InfluxTransport(
            address,
            HttpPost(address.host, address.port, tls, timeout),
            Secret(None if token_file is None else Path(token_file), "INFLUX_TOKEN"),
            Secret(None, "INFLUX_USERNAME"),
            Secret(None, "INFLUX_PASSWORD"),
            rejected,
        )
        file = SpooledFile(
            LineEncoder(measurement, events),
            transport,
            folder,
            most_bytes=spool_bytes,
            patience=close_timeout,
        )
        super().__init__(file, LossWindow(loss_interval, loss_rows))
        self._rejected = rejected

    @property
    def refused_lines(self) -> Path:
        """The file of lines that the server refused; it is there once there is one."""
        return self._rejected.path


# Requests to InfluxDB, and to those that take its lines.
#
# A request that was not answered, or with "not now", is sent again as it is. One that was refused
# has a bad line in it, or several, and some servers have stored the others: 1.x all of them, 3.x
# too, 2.x none of them at a line that cannot be read. Sent again as it is, it would be refused for
# ever and hold all others up. So it is taken apart: a field whose type the server has otherwise is
# left out of all lines; else the halves are sent, and their halves, down to the line that is
# refused alone. Lines that were stored already may come twice, which changes nothing for a server
# where a point is its series and its stamp.

_GZIP = 16 + zlib.MAX_WBITS
_NOT_NOW = frozenset({408, 425, 429, 500, 502, 503, 504})
_REFUSED = frozenset({400, 413, 422})
# InfluxDB 2 has answered some of these with 500 (influxdata/telegraf#11005).
_OF_LINES = ("field type conflict", "unable to parse", "partial write")
# What Go's and nginx' servers of HTTPS say to HTTP, with 400.
_TLS_WANTED = ("to an HTTPS server", "sent to HTTPS port")
# InfluxDB 1 and 2 name the measurement, InfluxDB 3 the line.
_CONFLICT = re.compile(r'input field "(.*?)" on measurement "(.*?)" is type \w+')
_CONFLICT_OF_LINE = re.compile(r"invalid column type for column '(.*?)', expected ")
_TOO_OLD = "beyond retention policy"
_SHOWN = 300
# So many requests for one payload that was refused. What is refused then is kept as a whole.
_MOST_REQUESTS = 400


class InfluxTransport:
    """A :class:`~penstock.record._network.protocol.Transport` of compressed lines."""

    lag = grace = 0.0

    def __init__(
        self,
        address: InfluxAddress,
        http: HttpPost,
        token: Secret,
        user: Secret,
        password: Secret,
        rejected: RefusedRows,
    ) -> None:
        self._address = address
        self._http = http
        self._token = token
        self._user = user
        self._password = password
        self._rejected = rejected
        self._requests_left = 0

    def __str__(self) -> str:
        return str(self._address)

    def refusals(self) -> str:
        """Where the refused lines are, and why they were refused."""
        return f"those are in {self._rejected.path} ({self._rejected.reason})"

    async def check(self) -> None:
        answer = await self._post(zlib.compress(b"", 1, _GZIP))
        if not _is_refused(answer):  # some refuse a request without lines
            self._refuse_unless_taken(answer)

    async def probe(self) -> None:
        await self.check()

    async def send(self, payload: bytes) -> int:
        answer = await self._post(payload)
        if not _is_refused(answer):
            self._refuse_unless_taken(answer)
            return 0
        text = await asyncio.to_thread(zlib.decompress, payload, _GZIP)
        return await self._take_apart(text.removesuffix(b"\n").split(b"\n"), answer)

    async def close(self) -> None:
        await self._http.close()

    def _refuse_unless_taken(self, answer: Answer) -> None:
        status, text = answer.status, _text_of(answer)
        # Of 200 with words: a page of some other server, or an error in the clothes of a success.
        if status == 204 or (status == 200 and not text):
            return
        if any(words in text for words in _TLS_WANTED):
            raise Misconfigured("the server speaks TLS: write influxs:// in the address")
        said = f"the server answered {status}" + (f": {text[:_SHOWN]}" if text else "")
        if status in (401, 403):
            raise Misconfigured(
                f"{said}; set INFLUX_TOKEN, or INFLUX_USERNAME and INFLUX_PASSWORD, to those of a "
                "user who may write there"
            )
        if status == 404:
            raise Misconfigured(
                f"{said}; create {self._address.database} there, or correct the address"
            )
        if status in _NOT_NOW:
            raise Away(said, answer.retry_after())
        if 300 <= status < 400:
            # Not followed: rows and their token would go to whoever is named there.
            elsewhere = answer.fields.get("location", "")[:_SHOWN] or "an address that it omits"
            raise Misconfigured(
                f"the server answered {status} and refers to {elsewhere}: if that is the "
                "database, write its address"
            )
        raise Misconfigured(f"{said}; check that the address is that of a database")

    async def _post(self, payload: bytes) -> Answer:
        fields = {"Content-Type": "text/plain; charset=utf-8", "Content-Encoding": "gzip"}
        if (authorization := self._authorization()) is not None:
            fields["Authorization"] = authorization
        return await self._http.post(self._address.target, fields, payload)

    def _authorization(self) -> str | None:
        try:
            token, user = self._token.read(), self._user.read()
            if token is None and user is not None:
                pair = f"{user}:{self._password.read() or ''}"
                return f"Basic {b64encode(pair.encode()).decode()}"
        except SinkWriteError as error:
            raise Misconfigured(str(error)) from error
        return self._address.authorization(token)

    # -- a request that was refused -----------------------------------------------------------

    async def _take_apart(self, lines: list[bytes], answer: Answer) -> int:
        """Send lines in parts; how many of them are refused for good."""
        self._requests_left = _MOST_REQUESTS
        refused: list[tuple[list[bytes], str]] = []
        waiting = [(lines, answer)]
        while waiting:
            part, answer = waiting.pop()
            text = f"{answer.status} {_text_of(answer)}"
            if (conflict := _conflict(part, answer)) is not None:
                measurement, field = conflict
                rest, hit = _without_field(part, measurement, field)
                if hit:
                    refused.append((hit, f"the field {field} was left out: {text}"))
                    waiting += await self._again(rest)
                    continue
            if len(part) == 1 or _TOO_OLD in text or self._requests_left <= 0:
                refused.append((part, text))
                continue
            middle = len(part) // 2
            for half in (part[:middle], part[middle:]):
                waiting += await self._again(half)
        # Not before: what ends this in its middle lets the payload be sent as a whole again.
        for part, text in refused:
            await asyncio.to_thread(self._rejected.add, part, text)
        # A row may have lost one field, and then another one, or all.
        return len({row_of(line) for part, _ in refused for line in part})

    async def _again(self, lines: list[bytes]) -> list[tuple[list[bytes], Answer]]:
        """Send lines; what has to be taken apart of them."""
        if not lines:
            return []
        self._requests_left -= 1
        answer = await self._post(zlib.compress(b"\n".join(lines) + b"\n", 1, _GZIP))
        if _is_refused(answer):
            return [(lines, answer)]
        self._refuse_unless_taken(answer)
        return []


def _is_refused(answer: Answer) -> bool:
    text = _text_of(answer)
    if answer.status == 500:
        return any(words in text for words in _OF_LINES)
    return answer.status in _REFUSED and not any(words in text for words in _TLS_WANTED)


def _without_field(
    lines: list[bytes], measurement: str | bytes, field: str
) -> tuple[list[bytes], list[bytes]]:
    """The lines without a field, and those that had it."""
    rest: list[bytes] = []
    hit: list[bytes] = []
    for line in lines:
        without = line_without_field(line, measurement, field)
        if without is not None:
            hit.append(line)
        if without != b"":
            rest.append(line if without is None else without)
    return rest, hit


def _conflict(lines: list[bytes], answer: Answer) -> tuple[str | bytes, str] | None:
    """The measurement and the field whose type is another one in the server."""
    if (found := _CONFLICT.search(_text_of(answer))) is not None:
        return found[2], found[1]
    for each in _bad_lines(_object_of(answer)):
        found = _CONFLICT_OF_LINE.search(str(each.get("error_message")))
        number = each.get("line_number")
        if found is not None and isinstance(number, int) and 0 < number <= len(lines):
            return measurement_of(lines[number - 1]), found[1]
    return None


def _object_of(answer: Answer) -> dict[str, Any]:
    try:
        said = json.loads(answer.body)
    except (ValueError, RecursionError):
        said = None
    return said if isinstance(said, dict) else {}


def _bad_lines(said: dict[str, Any]) -> list[dict[str, Any]]:
    """What InfluxDB 3 says of each line that it refuses: one object, or a list of them."""
    data = said.get("data")
    return [each for each in (data if isinstance(data, list) else [data]) if isinstance(each, dict)]


def _text_of(answer: Answer) -> str:
    """What the server says, on one line."""
    said = _object_of(answer)
    text = str(said.get("error") or said.get("message") or answer.body.decode(errors="replace"))
    reasons = [str(each["error_message"]) for each in _bad_lines(said) if "error_message" in each]
    return " ".join(": ".join([text, *dict.fromkeys(reasons)]).split())[:2000]


# ``influx://`` and ``influxs://`` URLs: the server, and where it takes lines.

_SCHEMES = ("influx", "influxs")
_OPTIONS = ("api", "rp")
_APIS = ("1", "2", "3")
_SAID = (
    "set INFLUX_TOKEN, or INFLUX_USERNAME and INFLUX_PASSWORD, in the environment, or name a file "
    "with token_file"
)


def is_influx(target: str) -> bool:
    """Whether ``target`` is such a URL."""
    return scheme_of(target) in _SCHEMES


@dataclass(frozen=True, slots=True)
class InfluxAddress:
    """A server and what is written to there.

    Attributes:
        tls: HTTPS.
        host: a name or an address.
        port: TCP port.
        api: the version of the write end point.
        target: its path with the query.
        database: the database, or the organisation and the bucket, for people.
    """

    tls: bool
    host: str
    port: int
    api: str
    target: str
    database: str

    @classmethod
    def parse(cls, url: str) -> InfluxAddress:
        """Read ``influx://HOST[:PORT]/DATABASE`` or ``.../ORGANISATION/BUCKET``, with options.

        ``?rp=NAME`` is the retention policy of a database, ``?api=1``, ``2`` or ``3`` the version
        of the end point. By default it is 1 for a database, and 2 for a bucket.

        Raises:
            ValueError: it is malformed, or holds a password.
        """
        parts = split_url(url, _SAID)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
        names = [unquote(name) for name in parts.path.strip("/").split("/") if name]
        if scheme not in _SCHEMES or not host or not 1 <= len(names) <= 2:
            raise ValueError(
                f"{scheme or 'influx'}://{host or ''} is not the address of a database: write "
                f"{scheme or 'influx'}://HOST:8086/DATABASE, or HOST:8086/ORGANISATION/BUCKET for "
                "InfluxDB 2"
            )
        if parts.fragment:
            raise ValueError(
                f"{scheme}://{host} has something after #, which is not part of an address: write "
                "%23 for a # in a name"
            )
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        for name in options:
            if name not in _OPTIONS:
                raise ValueError(
                    f"{scheme}://{host} has an unknown option {name}: the options are "
                    f"{' and '.join(_OPTIONS)}; {_SAID}"
                )
        api = options.get("api", "12"[len(names) - 1])
        if (
            api not in _APIS
            or (api == "2") != (len(names) == 2)
            or ("rp" in options and api != "1")
        ):
            raise ValueError(
                f"the path of {scheme}://{host} contradicts its options: api=1 and api=3 have a "
                "database, api=2 an organisation and a bucket, and only api=1 has a retention "
                "policy (rp)"
            )
        return cls(
            scheme == "influxs",
            host,
            port or 8086,
            api,
            _target(api, names, options.get("rp")),
            "/".join(names),
        )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'influxs' if self.tls else 'influx'}://{host}:{self.port}/{self.database}"

    def authorization(self, token: str | None) -> str | None:
        """The value of the field Authorization for a token."""
        if token is None:
            return None
        return f"{'Bearer' if self.api == '3' else 'Token'} {token}"


def _target(api: str, names: list[str], policy: str | None) -> str:
    quoted = [quote(name, safe="") for name in names]
    if api == "2":
        return f"/api/v2/write?org={quoted[0]}&bucket={quoted[1]}&precision=ns"
    if api == "3":
        return f"/api/v3/write_lp?db={quoted[0]}&precision=nanosecond"
    # Without `precision`: nanoseconds are the default, and 1.x takes unknown ones for them.
    return f"/write?db={quoted[0]}" + (f"&rp={quote(policy, safe='')}" if policy else "")
