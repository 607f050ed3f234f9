"""Answers of several lines: where they end, and what is skipped before them."""

from __future__ import annotations

import anyio
import pytest

from penstock.alicat import (
    AlicatTimeoutError,
    BusStatistics,
)

from .captures import MADE_10V20
from .proven_client import client_on, poll
from .scripted_bus import ScriptedBus, controller

pytestmark = pytest.mark.anyio


async def test_table_ends_at_its_last_row_without_waiting() -> None:
    client = client_on(ScriptedBus(controller()))
    with anyio.fail_after(30):
        rows = await client.query_lines(
            b"A??M*\r",
            lambda line: b" M" in line,
            lambda line: b" M09" in line,
            wanted="a row",
            idle_timeout=60,
        )
    assert rows == MADE_10V20


async def test_table_without_a_known_end_ends_in_silence() -> None:
    client = client_on(ScriptedBus(controller()))
    rows = await client.query_lines(
        b"A??M*\r", lambda line: b" M" in line, lambda line: False, wanted="a row"
    )
    assert rows == MADE_10V20
    assert not client.in_debt("A")


async def test_pause_in_a_table_is_not_its_end_where_the_unit_can_prove_it() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus, proven="A")
    bus.pause_next(4)
    rows = await client.query_lines(
        b"A??M*\r", lambda line: b" M" in line, lambda line: b" M09" in line, wanted="a row"
    )
    assert rows == MADE_10V20
    assert bus.commands == [b"A??M*", b"AVE"]
    assert not client.in_debt("A")
    assert await poll(client) == 1.0
    assert client.statistics == BusStatistics(2, 0, 0, 0, 0)


async def test_table_of_a_unit_that_gives_no_proof_leaves_it_in_debt() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus, proven="A")
    bus.pause_next(4)
    bus.drop_next()
    rows = await client.query_lines(
        b"A??M*\r", lambda line: b" M" in line, lambda line: b" M09" in line, wanted="a row"
    )
    assert rows == MADE_10V20[:4]
    assert client.in_debt("A")
    # The rows that were missing come now: they are nobody's answer.
    assert await poll(client) == 1.0
    assert bus.commands == [b"A??M*", b"AVE", b"AVE", b"A"]


async def test_table_skips_late_lines_before_it() -> None:
    bus = ScriptedBus(controller())
    client = client_on(bus)
    bus.hold_next()
    with pytest.raises(AlicatTimeoutError):
        await poll(client)
    rows = await client.query_lines(
        b"A??M*\r", lambda line: b" M" in line, lambda line: b" M09" in line, wanted="a row"
    )
    assert rows == MADE_10V20
    assert await poll(client) == 2.0
    assert client.statistics.resyncs == 0
