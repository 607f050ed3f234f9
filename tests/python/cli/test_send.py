"""``penstock send``: what a recording has left in a spool."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from penstock.record import NatsSink, SinkWriteError
from tests.python.integration.nats import NatsServer, nats_server
from tests.python.record.batches import flow_batch

pytestmark = pytest.mark.slow


async def leave_rows(server: NatsServer, spool: Path) -> None:
    sink = NatsSink(server.url(), spool=spool, close_timeout=0.1)
    await sink.open()
    await sink.write_batch(flow_batch(5))
    with pytest.raises(SinkWriteError, match="they wait in"):
        await sink.close()


def test_rows_that_were_left_are_sent(penstock: Any, tmp_path: Path) -> None:
    with nats_server() as server:
        server.kill()
        asyncio.run(leave_rows(server, tmp_path / "spool"))
        done = penstock("send", "spool", server.url(), "--timeout", "0.1")
        assert (done.returncode, "they wait in spool" in done.stderr) == (5, True)
        done = penstock("send", "spool", server.url("other"))
        assert (done.returncode, "its rows are for nats://" in done.stderr) == (5, True)
        server.start()
        done = penstock("send", "spool", server.url())
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"sent all of spool to {server.url()}\n"
        assert not (tmp_path / "spool").exists()
        [(_, _, table)] = server.messages()
        assert table.num_rows == 5


def test_what_is_no_spool_or_no_address_is_refused(penstock: Any, tmp_path: Path) -> None:
    done = penstock("send", tmp_path, "nats://host/lab")
    assert (done.returncode, "is not the spool of a sink" in done.stderr) == (5, True)
    (tmp_path / "to").write_text("nats://host:4222/lab\n")
    done = penstock("send", tmp_path, "http://host/lab")
    assert (done.returncode, "does not begin with any of influx://" in done.stderr) == (2, True)
