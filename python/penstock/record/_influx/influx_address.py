"""``influx://`` and ``influxs://`` URLs: the server, and where it takes lines."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote

from penstock.record._network.server import split_url

__all__ = ["InfluxAddress", "is_influx"]

_SCHEMES = ("influx", "influxs")
_OPTIONS = ("api", "rp")
_APIS = ("1", "2", "3")
_SAID = (
    "set INFLUX_TOKEN, or INFLUX_USERNAME and INFLUX_PASSWORD, in the environment, or name a file "
    "with token_file"
)


def is_influx(target: str) -> bool:
    """Whether ``target`` is such a URL."""
    return target.partition("://")[0].lower() in _SCHEMES and "://" in target


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
                f"{scheme or 'influx'}://{host or ''} is no address of a database: write "
                f"{scheme or 'influx'}://HOST:8086/DATABASE, or HOST:8086/ORGANISATION/BUCKET for "
                "InfluxDB 2"
            )
        if parts.fragment:
            raise ValueError(
                f"{scheme}://{host} has something behind #, which is no part of an address: write "
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
