"""A recorder and an archiver with a NATS server of today; other tests have Debian's, of 2022."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.record import NatsSink
from penstock.record.archives import Archiver, store_at
from tests.python.integration.daemons import PATIENT, until
from tests.python.integration.nats import nats_server, newer_nats_server
from tests.python.record.archived_messages import rows_of
from tests.python.record.batches import flow_batch

pytestmark = pytest.mark.slow


def test_each_row_is_in_the_archive_once_though_the_server_is_killed(tmp_path: Path) -> None:
    async def main() -> None:
        with nats_server(program=newer_nats_server()) as server:
            async with NatsSink(server.url(), spool=tmp_path / "spool", **PATIENT) as sink:
                for first in range(0, 60, 10):
                    await sink.write_batch(flow_batch(10, first))
                    await sink.flush()
                    if first in (20, 40):
                        await asyncio.to_thread(server.kill)
                        await sink.write_batch(flow_batch(5, 100 + first))
                        await sink.flush()
                        await asyncio.to_thread(server.start)
            archiver = Archiver(server.url(), store_at(str(tmp_path / "archive")))
            await archiver.run(once=True)
            assert archiver.counts.missing == archiver.counts.refused == 0

    asyncio.run(main())
    found = rows_of(tmp_path / "archive")
    assert [number for _, _, number, _ in found] == list(range(70))
    expected = [*range(30), *range(120, 125), *range(30, 50), *range(140, 145), *range(50, 60)]
    assert [flow for *_, flow in found] == [float(number) for number in expected]


def test_rows_that_were_purged_by_hand_hold_up_no_others(tmp_path: Path) -> None:
    async def main() -> list[float]:
        with nats_server(program=newer_nats_server()) as server:
            async with NatsSink(server.url(), spool=tmp_path / "spool", **PATIENT) as sink:
                for first in range(0, 30, 10):
                    await sink.write_batch(flow_batch(10, first))
                    await sink.flush()
                    await until(lambda: not sink.rows_waiting)
                    if not first:
                        purged = server.ask("STREAM.PURGE.lab", {"filter": "lab.*.fuel"})
                        assert purged["purged"] == 1
            tables = [table for _, _, table in server.messages()]
        return [flow for table in tables for flow in table["Mass_Flow"].to_pylist()]

    assert asyncio.run(main()) == [float(number) for number in range(10, 30)]
