"""Sinks whose server cannot be reached: its network is cut and mended at random moments.

Nobody is told of the cut. A request may have arrived or not, and its answer is lost.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from penstock.record import InfluxSink, NatsSink, NetworkSink, SinkWriteError
from tests.python.integration.daemons import PATIENT, until
from tests.python.integration.influx import influx_server
from tests.python.integration.nats import nats_server
from tests.python.integration.partition import Network, network
from tests.python.record.batches import flow_batch

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

_CUTS = 4


@pytest.fixture
def anyio_backend() -> str:
    """The sinks have a loop of their own."""
    return "asyncio"


async def record_through(cable: Network, make: Callable[..., NetworkSink], seed: int) -> int:
    """Record while the network is cut and mended; how many rows, all of which were taken."""
    chance = random.Random(seed)
    rows = 0

    async def write(opened: NetworkSink) -> None:
        nonlocal rows
        many = chance.randrange(1, 200)
        await opened.write_batch(flow_batch(many, rows))
        rows += many

    opened = make(timeout=0.5, close_timeout=1.0, loss_interval=0.02)
    await opened.open()
    for _ in range(_CUTS):
        for _ in range(chance.randrange(1, 5)):
            await write(opened)
            await anyio.sleep(chance.choice([0, 0.001, 0.02]))
        cable.cut()
        await write(opened)
        await opened.flush()  # durable, though nothing comes through
        assert opened.rows_at_risk == 0
        await until(lambda: opened.trouble is not None)
        cable.mend()
    # A loaded machine may answer too late for this one.
    with contextlib.suppress(SinkWriteError):
        await opened.close()
    async with make(**PATIENT):
        pass
    return rows


async def test_influxdb_has_each_row_once(tmp_path: Path) -> None:
    with network() as cable, influx_server(where=cable) as server:

        def make(**options: Any) -> InfluxSink:
            return InfluxSink(server.url(), spool=tmp_path / "spool", **options)

        rows = await record_through(cable, make, 1)
        found = await anyio.to_thread.run_sync(server.query, "SELECT Mass_Flow FROM samples")
    assert [row["Mass_Flow"] for row in found] == [float(n) for n in range(rows)]


async def test_a_stream_of_nats_has_each_row_once(tmp_path: Path) -> None:
    with network() as cable, nats_server(where=cable) as server:

        def make(**options: Any) -> NatsSink:
            return NatsSink(server.url(), spool=tmp_path / "spool", **options)

        rows = await record_through(cable, make, 2)
        found = await anyio.to_thread.run_sync(server.messages)
    flows = [flow for _, _, table in found for flow in table["Mass_Flow"].to_pylist()]
    assert flows == [float(n) for n in range(rows)]
