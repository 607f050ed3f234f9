"""A URL is what its scheme says, in capitals too, and no error shows its password."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock.record
from penstock.record import InfluxSink, MqttSink, NatsSink, PostgresSink, SparkplugSink, recover
from penstock.record.addresses import plain_url, scheme_of
from penstock.record.alarms import Webhook
from penstock.record.archives import store_at
from penstock.record.errors import RecordError
from penstock.record.postgres_server import PostgresServer, check_dsn, check_uri, is_postgres
from penstock.record.sink_choice import check_url, sink_for

pytest.importorskip("pyarrow")

SCHEMES = ["influx", "influxs", "mqtt", "mqtts", "sparkplug", "nats", "natss", "postgresql"]


def test_the_scheme_tells_what_an_address_is() -> None:
    assert scheme_of("S3://Bucket/Prefix") == "s3"
    assert scheme_of("POSTGRES://h") == "postgres"
    for path in ("run.csv", "C:/run", "./s3://x", "a b://c", "/tmp/s3://x", "://x", ""):
        assert scheme_of(path) == ""
    assert plain_url("PostgreSQL://Me@Host/D") == "postgresql://Me@Host/D"
    assert plain_url("host=Lab dbname=D") == "host=Lab dbname=D"
    assert is_postgres("POSTGRESQL://h/d") and is_postgres("Postgres://h/d")
    assert not is_postgres("postgresql.csv")


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("INFLUX://h/lab", InfluxSink),
        ("Mqtt://h/lab", MqttSink),
        ("SPARKPLUG://h/plant/lab", SparkplugSink),
        ("NATS://h/lab", NatsSink),
    ],
)
def test_a_scheme_in_capitals_has_the_same_sink(url: str, kind: type) -> None:
    check_url(url)
    assert type(sink_for(url)) is kind


def test_libpq_gets_the_scheme_that_it_knows() -> None:
    pytest.importorskip("psycopg")
    assert type(sink_for("POSTGRESQL://h/d")) is PostgresSink
    assert str(PostgresServer("POSTGRESQL://me@h:5/d", "t", 0)) == "PostgreSQL at h:5/d"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("change", [str, str.upper, str.title])
@pytest.mark.parametrize("place", ["me:secret@h/a/b", "me:#secret@h/a/b", "me:?secret@h/a/b"])
def test_a_password_in_a_url_is_refused_and_not_shown(
    scheme: str, change: Callable[[str], str], place: str
) -> None:
    with pytest.raises(ValueError, match="must not contain a") as refused:
        check_url(f"{change(scheme)}://{place}")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "use",
    [
        lambda url: Webhook(url.replace("REDIS", "HTTPS")),
        lambda url: Webhook(url.replace("REDIS://", "")),
        lambda url: store_at(url.replace("REDIS", "S3")),
        store_at,
        sink_for,
        recover,
        penstock.record.open,
        check_dsn,
    ],
)
def test_an_address_of_another_kind_is_refused_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[str], Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    for end in ("", ".csv", "?x=1"):
        with pytest.raises((ValueError, RecordError)) as refused:
            use(f"REDIS://me:hunter2@host/x{end}")
        assert "hunter2" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_connection_string_holds_no_password() -> None:
    for dsn in ("host=h password=secret", "host=h PASSWORD = 'secret'", "sslpassword=secret"):
        with pytest.raises(ValueError, match="set PGPASSWORD") as refused:
            check_dsn(dsn)
        assert "secret" not in str(refused.value)
    for dsn in ("", "host=h dbname=passwords", "postgresql://me@[::1]:5432/d?passfile=x"):
        check_dsn(dsn)
    for uri in ("postgresql://h/d?PassWord=secret", "postgresql://h/d?user=x#&password=secret"):
        with pytest.raises(ValueError, match="set PGPASSWORD"):
            check_uri(uri)
