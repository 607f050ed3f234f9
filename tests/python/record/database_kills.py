"""InfluxDB and PostgreSQL, killed 50 times each: has the database every row exactly once?

    PYTHONPATH=.:python .venv/bin/python -m tests.python.record.database_kills --kills 50

A recorder writes all the time, at random moments also while its server is away; each kill is of the
whole server (SIGKILL, and PostgreSQL's own immediate shutdown, after which it recovers from its
log). The rows count up, so those that are lost or twice are found by their value.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg

import penstock
from penstock.record import InfluxSink, NetworkSink, PostgresSink
from tests.python.integration.daemons import PATIENT
from tests.python.integration.influx import influx_server
from tests.python.integration.postgres import postgres_server
from tests.python.record.batches import flow_batch


@dataclass(frozen=True, slots=True)
class Database:
    """A running server.

    Attributes:
        kill: ends it at once.
        start: starts it again.
        sink: a sink with a spool.
        flows: the values that it has, in order.
    """

    kill: Callable[[], None]
    start: Callable[[], None]
    sink: Callable[[Path], NetworkSink]
    flows: Callable[[], list[float]]


async def record_beside(
    database: Database, kills: int, seed: int, folder: Path
) -> dict[str, object]:
    """Record while the server is killed, and compare."""
    chance = random.Random(seed)
    sent, began = 0, time.monotonic()
    async with database.sink(folder / "spool") as sink:

        async def write() -> None:
            nonlocal sent
            many = chance.randrange(1, 200)
            await sink.write_batch(flow_batch(many, sent))
            sent += many
            await asyncio.sleep(chance.choice([0, 0.002, 0.02]))

        for _ in range(kills):
            for _ in range(chance.randrange(1, 8)):
                await write()
            await asyncio.to_thread(database.kill)
            for _ in range(chance.randrange(3)):
                await write()
            await asyncio.to_thread(database.start)
    found = await asyncio.to_thread(database.flows)
    return {
        "kills": kills,
        "seed": seed,
        "seconds": round(time.monotonic() - began),
        "rows_recorded": sent,
        "rows_in_the_database": len(found),
        "rows_lost": sent - len(set(found)),
        "rows_twice": len(found) - len(set(found)),
        "in_order": found == [float(number) for number in range(sent)],
    }


def main(kills: int, seed: int) -> dict[str, dict[str, object]]:
    """Of each server, what was found."""
    found: dict[str, dict[str, object]] = {}
    options = {"loss_interval": 0.02, **PATIENT}
    with influx_server() as influx, tempfile.TemporaryDirectory() as name:
        database = Database(
            influx.kill,
            influx.start,
            lambda spool: InfluxSink(influx.url(), spool=spool, **options),
            lambda: [row["Mass_Flow"] for row in influx.query("SELECT Mass_Flow FROM samples")],
        )
        found["InfluxDB"] = penstock.run(record_beside(database, kills, seed, Path(name)))
    with postgres_server() as postgres, tempfile.TemporaryDirectory() as name:

        def flows() -> list[float]:
            with psycopg.connect(postgres.dsn()) as connection:
                rows = connection.execute('SELECT "Mass_Flow" FROM samples ORDER BY t_mono_ns')
                return [row[0] for row in rows]

        database = Database(
            postgres.stop,
            postgres.start,
            lambda spool: PostgresSink(postgres.dsn(), spool=spool, **options),
            flows,
        )
        found["PostgreSQL"] = penstock.run(record_beside(database, kills, seed, Path(name)))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = main(given.kills, given.seed)
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    if given.out is not None:
        given.out.write_text(text)
    raise SystemExit(0 if all(each["in_order"] for each in result.values()) else 1)
