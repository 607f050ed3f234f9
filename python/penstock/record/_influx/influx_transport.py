"""Requests to InfluxDB, and to those that take its lines.

A request that was not answered, or with "not now", is sent again as it is. One that was refused has
a bad line in it, or several, and some servers have stored the others: 1.x all of them, 3.x too, 2.x
none of them at a line that cannot be read. Sent again as it is, it would be refused for ever and
hold all others up. So it is taken apart: a field whose type the server has otherwise is left out of
all lines; else the halves are sent, and their halves, down to the line that is refused alone.
Lines that were stored already may come twice, which changes nothing for a server where a point is
its series and its stamp.
"""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from base64 import b64encode

from penstock.record._influx.influx_address import InfluxAddress
from penstock.record._influx.line_text import line_without_field
from penstock.record._network.http_post import Answer, HttpPost
from penstock.record._network.protocol import Away, Misconfigured
from penstock.record._network.rows import RefusedRows
from penstock.record._network.server import Secret
from penstock.record.errors import SinkWriteError

__all__ = ["InfluxTransport"]

_GZIP = 16 + zlib.MAX_WBITS
_NOT_NOW = frozenset({408, 425, 429, 500, 502, 503, 504})
_REFUSED = frozenset({400, 413, 422})
# InfluxDB 2 has answered some of these with 500 (influxdata/telegraf#11005).
_OF_LINES = ("field type conflict", "unable to parse", "partial write")
# What Go's and nginx' servers of HTTPS say to HTTP, with 400.
_TLS_WANTED = ("to an HTTPS server", "sent to HTTPS port")
_CONFLICT = re.compile(r'input field "(.*?)" on measurement "(.*?)" is type \w+')
_TOO_OLD = "beyond retention policy"
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
        if status in (200, 204):
            return
        if any(words in text for words in _TLS_WANTED):
            raise Misconfigured("the server speaks TLS: write influxs:// in the address")
        said = f"the server answered {status}" + (f": {text}" if text else "")
        if status in (401, 403):
            raise Misconfigured(
                f"{said}; set INFLUX_TOKEN, or INFLUX_USERNAME and INFLUX_PASSWORD, to those of "
                "somebody who may write there"
            )
        if status == 404:
            raise Misconfigured(
                f"{said}; create {self._address.database} there, or correct the address"
            )
        if status in _NOT_NOW:
            raise Away(said, answer.retry_after())
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
            if (conflict := _CONFLICT.search(text)) is not None:
                rest, hit = _without_field(part, conflict[2], conflict[1])
                if hit:
                    refused.append((hit, f"the field {conflict[1]} was left out: {text}"))
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
        return sum(len(part) for part, _ in refused)

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
    lines: list[bytes], measurement: str, field: str
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


def _text_of(answer: Answer) -> str:
    """What the server says, on one line."""
    text = answer.body.decode(errors="replace")
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if isinstance(said, dict):
        text = str(said.get("error") or said.get("message") or text)
    return " ".join(text.split())[:2000]
