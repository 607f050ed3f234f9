"""asyncpg against a real PostgreSQL server."""

from __future__ import annotations

import asyncio
import datetime
import decimal
import ssl
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Run
from .postgres import PostgresServer, postgres_server

asyncpg = pytest.importorskip("asyncpg")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["socket", "tcp"])
def address(request: pytest.FixtureRequest, server: PostgresServer) -> dict[str, Any]:
    return server.by_socket() if request.param == "socket" else {**server.by_tcp(), "ssl": False}


def test_values_of_every_type_are_returned_unchanged(run: Run, address: dict[str, Any]) -> None:
    values = {
        "int8": -(2**63),
        "float8": 0.1,
        "numeric": decimal.Decimal("12345678901234567890.123456789"),
        "text": "Grüße, 世界",
        "bytea": bytes(range(256)) * 20_000,
        "bool": True,
        "uuid": uuid.UUID(int=7),
        "timestamptz": datetime.datetime(2024, 2, 29, 1, 2, 3, 456789, datetime.UTC),
        "int4[]": [1, None, 3],
    }

    async def main() -> None:
        connection = await asyncpg.connect(**address)
        for kind, value in values.items():
            assert await connection.fetchval(f"select $1::{kind}", value) == value
        await connection.close()

    run(main())


def test_a_transaction_is_rolled_back_when_its_block_raises(
    run: Run, address: dict[str, Any]
) -> None:
    async def main() -> None:
        connection = await asyncpg.connect(**address)
        await connection.execute("create temp table t (n int primary key)")
        with pytest.raises(asyncpg.UniqueViolationError):
            async with connection.transaction():
                await connection.execute("insert into t values (1), (1)")
        async with connection.transaction():
            await connection.execute("insert into t values (2)")
        assert [row["n"] for row in await connection.fetch("select n from t")] == [2]
        await connection.close()

    run(main())


def test_a_pool_serves_more_queries_than_it_has_connections(
    run: Run, address: dict[str, Any]
) -> None:
    async def main() -> None:
        async with asyncpg.create_pool(**address, min_size=2, max_size=8) as pool:

            async def square(number: int) -> int:
                value: int = await pool.fetchval("select $1::int * $1::int", number)
                return value

            squares = await asyncio.gather(*(square(number) for number in range(400)))
            assert squares == [number**2 for number in range(400)]

    run(main())


def test_a_cursor_iterates_a_large_result(run: Run, address: dict[str, Any]) -> None:
    async def main() -> None:
        connection = await asyncpg.connect(**address)
        async with connection.transaction():
            query = "select n from generate_series(1, 20000) n"
            seen = [row["n"] async for row in connection.cursor(query, prefetch=1000)]
        assert seen == list(range(1, 20_001))
        await connection.close()

    run(main())


def test_copy_transfers_records_in_both_directions(run: Run, address: dict[str, Any]) -> None:
    records = [(number, f"row {number}") for number in range(50_000)]
    received = bytearray()

    async def collect(data: bytes) -> None:
        received.extend(data)

    async def main() -> None:
        connection = await asyncpg.connect(**address)
        await connection.execute("create temp table t (n int, name text)")
        await connection.copy_records_to_table("t", records=records)
        assert await connection.fetchval("select count(*) from t") == len(records)
        query = "select n, name from t order by n"
        await connection.copy_from_query(query, output=collect, format="csv")
        await connection.close()

    run(main())
    assert received.decode().splitlines() == [f"{number},{name}" for number, name in records]


def test_a_notification_reaches_its_listener(run: Run, address: dict[str, Any]) -> None:
    async def main() -> None:
        listener, notifier = [await asyncpg.connect(**address) for _ in range(2)]
        heard: asyncio.Queue[str] = asyncio.Queue()
        await listener.add_listener("news", lambda *event: heard.put_nowait(event[-1]))
        for number in range(20):
            await notifier.execute("select pg_notify('news', $1)", f"item {number}")
        assert [await heard.get() for _ in range(20)] == [f"item {n}" for n in range(20)]
        await listener.remove_listener("news", lambda *event: None)
        await listener.close()
        await notifier.close()

    run(main())


def test_a_query_that_exceeds_its_timeout_is_cancelled_and_the_connection_remains_usable(
    run: Run, address: dict[str, Any]
) -> None:
    async def main() -> None:
        connection = await asyncpg.connect(**address)
        with pytest.raises(TimeoutError):
            await connection.execute("select pg_sleep(60)", timeout=0.05)
        assert await connection.fetchval("select 7") == 7
        await connection.close()

    run(main())


def test_a_connection_ended_by_the_server_raises(run: Run, address: dict[str, Any]) -> None:
    async def main() -> None:
        victim, other = [await asyncpg.connect(**address) for _ in range(2)]
        sleeping = asyncio.create_task(victim.execute("select pg_sleep(60)"))
        query = "select count(*) from pg_stat_activity where wait_event = 'PgSleep' and pid = $1"
        while not await other.fetchval(query, victim.get_server_pid()):
            pass
        await other.execute("select pg_terminate_backend($1)", victim.get_server_pid())
        with pytest.raises((asyncpg.PostgresError, ConnectionError)):
            await sleeping
        assert victim.is_closed()
        await other.close()

    run(main())


def test_a_connection_is_upgraded_to_tls_and_its_certificate_verified(
    run: Run, server: PostgresServer
) -> None:
    context = ssl.create_default_context()
    server.authority.configure_trust(context)

    async def main() -> None:
        connection = await asyncpg.connect(**server.by_tcp(), ssl=context)
        query = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
        assert await connection.fetchval(query) is True
        data = bytes(range(256)) * 20_000
        assert await connection.fetchval("select $1::bytea", data) == data
        await connection.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncpg.connect(**server.by_tcp(), ssl=ssl.create_default_context())

    run(main())
