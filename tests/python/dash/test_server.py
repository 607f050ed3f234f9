"""The server, by real sockets: snapshots, increments, slow browsers, CSV, the page."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from penstock.dash import Board, Limits
from penstock.dash._application import _page_files
from penstock.record.shown_quantity import Quantity
from tests.python.conftest import CORE_MISSING
from tests.python.dash.served_boards import get, recorded
from tests.python.dash.tables import AIM, FLOW, PRESSURE, START, sample, table, wave

pytestmark = pytest.mark.skipif(CORE_MISSING, reason="penstock._core is not built")

BEGIN = START / 1e9


def test_snapshot_has_the_values_of_the_recording(serve: Any, browse: Any) -> None:
    browser = browse(serve(recorded("argon", "oxygen")))
    hello = browser.wait_for("hello")
    assert [device["name"] for device in hello["devices"]] == ["argon", "oxygen"]
    argon = hello["devices"][0]
    assert [quantity["key"] for quantity in argon["quantities"]] == [PRESSURE, FLOW, AIM]
    assert [quantity["unit"] for quantity in argon["quantities"]] == ["PSIA", "SCCM", "SCCM"]
    assert (argon["main"], argon["setpoint"]) == (FLOW, AIM)
    assert hello["control"] == "none"
    span = {"from": BEGIN - 1, "to": BEGIN + 20}
    browser.view("argon", "oxygen", keys=(FLOW, AIM, PRESSURE), id=1, width=4096, **span)
    points = browser.wait_for("points", view=1)
    rows = wave("argon", 200)
    wanted = {
        FLOW: [row.values["Mass_Flow"] for row in rows],
        AIM: [100.0] * 200,
        PRESSURE: [14.7] * 200,
    }
    # Times that several curves have are sent once.
    assert [curve["same"] for curve in points["curves"]] == [False, *[True] * 5]
    for curve in points["curves"]:
        t, low, high = curve["columns"]
        assert t == pytest.approx([row.t_utc.timestamp() for row in rows], abs=1e-6)
        assert low == high == wanted[curve["key"]]
    state = browser.wait_for("state")
    assert state["devices"]["argon"]["values"] == [14.7, rows[-1].values["Mass_Flow"], 100.0]
    assert state["devices"]["argon"]["samples"] == 200
    assert (state["first"], state["live"]) == (pytest.approx(BEGIN), False)


def test_thinned_points_keep_lowest_and_highest(serve: Any, browse: Any) -> None:
    rows = wave("argon", 2000)
    rows[777] = sample("argon", 777 / 20, 999.0)
    board = Board("run", live=False)
    board.add(table(rows))
    browser = browse(serve(board))
    browser.view("argon", id=1, width=50, **{"from": BEGIN, "to": BEGIN + 100})
    (curve,) = browser.wait_for("points")["curves"]
    t, low, high = curve["columns"]
    assert 50 <= len(t) <= 102
    assert max(high) == 999.0
    assert min(low) == min(row.values["Mass_Flow"] for row in rows)


def test_increments_and_the_snapshot_agree_with_one_later_snapshot(serve: Any, browse: Any) -> None:
    board = Board("run")
    board.expect({"argon": Quantity("Mass_Flow", "Mass_Flow_Setpt", "SCCM")})
    served = serve(board)
    browser = browse(served)
    rows = wave("argon", 600)
    served.do(board.add, table(rows[:100]))
    span = {"from": BEGIN, "to": BEGIN + 60}
    browser.view("argon", id=1, width=77, **span)
    shown: list[list[float]] = [[] for _ in range(3)]
    samples = 0
    given = 100
    while samples < 600:
        message = browser.receive()
        if message["type"] == "points":
            (curve,) = message["curves"]
            kept = sum(t < curve["from"] for t in shown[0])
            shown = [old[:kept] + new for old, new in zip(shown, curve["columns"], strict=True)]
        elif message["type"] == "state":
            samples = message["devices"]["argon"]["samples"]
            if given < 600:
                served.do(board.add, table(rows[given : given + 50]))
                given += 50
            browser.send(type="ack", seq=message["seq"])
    browser.view("argon", id=2, width=77, **span)
    (curve,) = browser.wait_for("points", view=2)["curves"]
    assert shown[1:] == curve["columns"][1:]
    # A sample alone in its bin is at its own time while it is kept as it is.
    assert shown[0] == pytest.approx(curve["columns"][0], abs=60 / 77)


def test_a_live_view_ends_now_and_a_recorded_one_at_the_newest_sample(
    serve: Any, browse: Any
) -> None:
    browser = browse(serve(recorded("argon")))
    browser.view("argon", id=1, width=1000, span=2.0)
    (curve,) = browser.wait_for("points")["curves"]
    assert curve["columns"][0][0] == pytest.approx(BEGIN + 199 / 20 - 2, abs=0.06)


def test_a_browser_that_confirms_nothing_gets_two_messages_and_then_the_newest(
    serve: Any, browse: Any
) -> None:
    board = Board("run")
    served = serve(board)
    served.do(board.add, table(wave("argon", 10)))
    slow, quick = browse(served), browse(served)
    for browser in (slow, quick):
        browser.view("argon", id=1, width=50, **{"from": BEGIN, "to": BEGIN + 600})
    for number in range(12):
        served.do(board.add, table(wave("argon", 10, begin=1 + number)))
        # Each round ends when the quick one has it, which takes at least a tick.
        while quick.wait_for("state")["devices"]["argon"]["samples"] < 20 + 10 * number:
            pass
    states = []
    while len(states) < 2:
        message = slow.receive()
        if message["type"] == "state":
            states.append(message)
    with pytest.raises(TimeoutError):
        slow.socket.recv(timeout=0.6)
    slow.send(type="ack", seq=states[-1]["seq"])
    latest = slow.wait_for("state")
    assert latest["seq"] == 3
    assert latest["devices"]["argon"]["samples"] == 130


def test_a_browser_that_reads_nothing_delays_nobody(serve: Any, browse: Any) -> None:
    board = recorded(*(f"device {number}" for number in range(40)), count=2000)
    served = serve(board)
    names = list(board.devices)
    stuck = browse(served, max_queue=1, close_timeout=0.1)
    browser = browse(served)
    for each in (stuck, browser):
        each.view(*names, id=1, width=4096, **{"from": BEGIN, "to": BEGIN + 100})
    found: set[str] = set()
    while len(found) < 40:
        found |= {curve["device"] for curve in browser.wait_for("points")["curves"]}
    served.do(board.add, table(wave("device 0", 10, begin=200)))
    # A server that waited for the other one would never send this.
    while browser.wait_for("state")["devices"]["device 0"]["samples"] < 2010:
        pass


def test_alarms_events_and_new_devices_reach_the_browser(serve: Any, browse: Any) -> None:
    board = Board("run", limits={"argon": Limits(None, 120)})
    served = serve(board)
    browser = browse(served)
    assert browser.wait_for("hello")["devices"] == []
    browser.wait_for("state")
    served.do(board.add, table([sample("argon", 0, 500.0)]))
    hello = browser.wait_for("hello")
    assert hello["devices"][0]["limits"] == [{"field": None, "low": None, "high": 120}]
    state = browser.wait_for("state")
    (alarm,) = state["devices"]["argon"]["alarms"]
    assert alarm == ["high", "500 SCCM is above the limit 120 SCCM", pytest.approx(BEGIN), False]
    assert [event[1:3] for event in state["events"]] == [["argon", "alarm"]]


@pytest.mark.parametrize("confirming", [True, False])
def test_a_browser_learns_that_the_recording_has_ended_before_its_connection_closes(
    serve: Any, browse: Any, confirming: bool
) -> None:
    board = Board("run")
    served = serve(board)
    browser = browse(served)
    served.do(board.add, table(wave("argon", 10)))
    browser.view("argon", id=1, width=50, span=1e9)
    while browser.wait_for("state")["devices"].get("argon", {}).get("samples") != 10:
        pass
    if not confirming:
        # The last state goes to a browser that has confirmed nothing of late, too.
        browser.receive()
        browser.receive()

    def end() -> None:
        board.add(table(wave("argon", 5, begin=1)))
        board.ended = "the recording has ended"

    served.do(end)
    served.close()
    states = []
    with pytest.raises(ConnectionClosed):
        while True:
            message = browser.receive()
            states += [message] if message["type"] == "state" else []
    assert states[-1]["ended"] == "the recording has ended"
    assert states[-1]["live"] is False
    assert states[-1]["devices"]["argon"]["samples"] == 15


def test_csv_has_the_samples_of_the_range(serve: Any) -> None:
    rows = wave("argon", 400)
    rows[150] = sample("argon", 7.5, error="TimeoutError: no answer")
    board = Board("run", live=False)
    board.add(table([*rows, *wave('2" line', 10)]))
    status, headers, body = get(serve(board), f"/csv?from={BEGIN + 5}&to={BEGIN + 10}&device=argon")
    assert status == 200
    assert headers["content-type"].startswith("text/csv")
    assert "attachment" in headers["content-disposition"]
    found = list(csv.DictReader(io.StringIO(body.decode(), newline="")))
    assert {row["quantity"] for row in found} == {"Mass_Flow", "Mass_Flow_Setpt"}
    found = [row for row in found if row["quantity"] == "Mass_Flow"]
    wanted = rows[100:201]
    assert [row["value_min"] for row in found] == [row["value_max"] for row in found]
    assert [float(row["value_min"] or math.nan) for row in found] == pytest.approx(
        [row.values.get("Mass_Flow", math.nan) for row in wanted], rel=0, abs=0, nan_ok=True
    )
    assert found[0]["t_utc"] == wanted[0].t_utc.strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
    assert (found[0]["device"], found[0]["quantity"], found[0]["unit"]) == (
        "argon",
        "Mass_Flow",
        "SCCM",
    )
    _, _, everything = get(serve(board), f"/csv?from={BEGIN}&to={BEGIN + 99}")
    assert everything.count(b"\r\n") == 821
    assert b'"2"" line"' in everything
    chosen = f"/csv?from={BEGIN}&to={BEGIN + 99}&device=argon&quantity=Abs_Press+[PSIA]"
    assert get(serve(board), chosen)[2].count(b",Abs_Press,PSIA,14.7,14.7\r\n") == 399
    assert get(serve(board), f"{chosen}&device=argon")[0] == 400


@pytest.mark.parametrize(
    "query", ["", "?from=1", "?from=a&to=2", "?from=nan&to=2", "?from=1&to=1e99"]
)
def test_csv_without_a_range_names_the_remedy(serve: Any, query: str) -> None:
    status, _, body = get(serve(Board("run")), f"/csv{query}")
    assert (status, b"from=T&to=T" in body) == (400, True)


def test_the_page_is_small_and_complete(serve: Any) -> None:
    served = serve(Board("run"))
    total = 0
    for name in _page_files():
        path = "/" if name == "index.html" else f"/{name}"
        status, headers, body = get(served, path, **{"Accept-Encoding": "gzip"})
        assert (status, headers.get("content-encoding")) == (200, "gzip"), path
        total += len(body)
        again, _, _ = get(served, path, **{"If-None-Match": headers["etag"]})
        assert again == 304
    assert total < 64 * 1024
    assert get(served, "/vendor/../dash.js")[0] in (200, 404)
    assert get(served, "/../../__init__.py")[0] == 404


def test_closing_the_server_closes_its_browsers(serve: Callable[..., Any], browse: Any) -> None:
    served = serve(recorded("argon"))
    browser = browse(served)
    browser.wait_for("state")
    served.close()
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            browser.receive()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012  # RFC 6455's registry: service restart
